//! Test rig: a judge with two software MI300X, as on the board.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::sync::OnceLock;

use board_contract::{Endpoint, Event};
use board_judge::{Grant, IsolationRange, Job, Limits, Toolchain, Tools};
use board_problems::Dtype;
use e2e::{Worker, WorkerOptions};

/// Judge, worker and tools for tests.
pub struct Rig {
    worker: Worker,
    tools: Tools,
}

/// Returns the rig shared by all tests of a file. Its worker ends with the process.
pub fn rig() -> &'static Rig {
    static RIG: OnceLock<Rig> = OnceLock::new();
    RIG.get_or_init(|| {
        // The worker's parent-death signal follows the starting thread. Test threads end; this thread does not.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let options = WorkerOptions::with(&[
                "--watchdog",
                "3",
                "--exit-with-parent",
                "--device",
                "mi300x",
                "--device",
                "mi300x",
            ]);
            let _ = sender.send(Worker::start_with(&options));
            loop {
                std::thread::park();
            }
        });
        let worker = receiver.recv().expect("a worker");
        let remora = e2e::remora();
        // The cache is kept between runs, because precompiling headers takes seconds.
        let cache = remora.parent().unwrap_or(&remora).join("board-tests");
        let tools = Tools {
            toolchain: Toolchain::find(Some(&e2e::toolchain_folder())).expect("a compiler"),
            libraries: e2e::library_folder(),
            cache,
            runner: vec![remora.clone().into(), "judge".into(), "--runner".into()],
            worker: vec![remora.into(), "worker".into(), "--no-config".into()],
            isolation: IsolationRange::default(),
        };
        Rig { worker, tools }
    })
}

impl Rig {
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    pub fn job(&self, problem: &str, source: &str, endpoint: Endpoint) -> Job {
        Job {
            id: "test".to_owned(),
            problem: problem.to_owned(),
            dtype: Dtype::Float32,
            source: source.to_owned(),
            endpoint,
            gpu: "MI300X".to_owned(),
            device: Some(Grant { worker: self.worker.endpoint().to_string(), token: None }),
            emulated: true,
            seed: 0x5eed,
            custom: None,
            // Generous limits, for busy machines.
            limits: Limits { run_s: 120.0, whole_s: 300.0, compile_s: 120.0, ..Limits::default() },
        }
    }

    /// Runs a job and returns all its events. Only the last one is terminal.
    pub fn events(&self, job: &Job) -> Vec<Event> {
        let mut events = Vec::new();
        board_judge::run(job, &self.tools, &mut || None, &mut |event| events.push(event));
        let last: Vec<bool> = events.iter().map(|event| event.status().is_terminal(job.endpoint)).collect();
        assert_eq!(last.iter().filter(|is_last| **is_last).count(), 1, "{events:#?}");
        assert_eq!(last.last(), Some(&true), "{events:#?}");
        events
    }

    pub fn last(&self, job: &Job) -> Event {
        self.events(job).pop().expect("at least one event")
    }
}

/// Returns the status of an event, as the server sends it.
pub fn status(event: &Event) -> String {
    event.status().to_string()
}

pub fn board() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
