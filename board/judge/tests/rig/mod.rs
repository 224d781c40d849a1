//! Test rig: a judge with two software MI300X, as on the board. If `REMORA_JUDGE_AS` names a model of AMD, such as `mi300x`, the device
//! is this machine's NVIDIA GPU, which imitates that model.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::sync::OnceLock;

use board_contract::{Endpoint, Event};
use board_judge::{Gpu, Grant, IsolationRange, Job, Limits, Toolchain, Tools};
use board_problems::Dtype;
use e2e::{Worker, WorkerOptions};

/// Judge, worker and tools for tests.
pub struct Rig {
    worker: Worker,
    tools: Tools,
    /// Model of the device, as the board calls it.
    gpu: String,
    emulated: bool,
}

/// Returns the rig shared by all tests of a file. Its worker ends with the process.
pub fn rig() -> &'static Rig {
    static RIG: OnceLock<Rig> = OnceLock::new();
    RIG.get_or_init(|| {
        // The worker's parent-death signal follows the starting thread. Test threads end; this thread does not.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = sender.send(Worker::start_with(&worker_options()));
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
            show_times: imitated().map(|_| show as fn(&str)),
        };
        let gpu = match imitated() {
            None => "MI300X".to_owned(),
            Some(_) => {
                let status = worker.status();
                let device = status.json["devices"][0]["name"].as_str().expect("the name of the device");
                Gpu::of_imitator(device)
                    .unwrap_or_else(|| panic!("no GPU of the board is {device}"))
                    .name
                    .to_owned()
            }
        };
        Rig { worker, tools, gpu, emulated: imitated().is_none() }
    })
}

/// Writes text to standard error at once, past the capture of the test harness, so that a run that is cut short has shown its progress.
pub fn show(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// The model that this machine's NVIDIA GPU imitates, if the tests judge on it.
pub fn imitated() -> Option<String> {
    std::env::var("REMORA_JUDGE_AS").ok().filter(|model| !model.is_empty())
}

fn worker_options() -> WorkerOptions {
    let always = ["--watchdog", "3", "--exit-with-parent"];
    match imitated() {
        None => WorkerOptions::with(&[&always[..], &["--device", "mi300x", "--device", "mi300x"]].concat()),
        Some(model) => {
            let options =
                WorkerOptions::with(&[&always[..], &["--backend", "cuda", "--as", &model]].concat());
            WorkerOptions { device: String::new(), ..options }
        }
    }
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
            gpu: self.gpu.clone(),
            device: Some(Grant { worker: self.worker.endpoint().to_string(), token: None }),
            emulated: self.emulated,
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

/// The folder of the board's sources: that of this build, or `REMORA_BOARD_SOURCES` on another machine.
pub fn board() -> PathBuf {
    std::env::var_os("REMORA_BOARD_SOURCES")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."), PathBuf::from)
}
