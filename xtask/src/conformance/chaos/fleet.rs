//! Three workers, each behind a proxy through which its clients reach it.

use super::program::stand_still;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORKERS: usize = 3;
const START_LIMIT: Duration = Duration::from_secs(30);
/// Longer than `remora worker --drain-timeout`.
const END_LIMIT: Duration = Duration::from_secs(45);

/// How long an interrupted process may take to end.
const DROP_LIMIT: Duration = Duration::from_secs(20);

/// A process that listens. Interrupted on drop: a worker that is killed leaves the processes of its sessions.
#[derive(Debug)]
struct Listening {
    child: Child,
    address: String,
}

/// A worker and its proxy.
#[derive(Debug)]
struct Place {
    worker: Listening,
    proxy: Listening,
}

/// All workers.
#[derive(Debug)]
pub struct Fleet {
    remora: PathBuf,
    folder: PathBuf,
    places: Vec<Place>,
}

impl Fleet {
    pub fn start(remora: &Path, folder: &Path) -> Result<Fleet> {
        let mut fleet = Fleet { remora: remora.to_owned(), folder: folder.to_owned(), places: Vec::new() };
        for index in 0..WORKERS {
            let worker = fleet.worker(index, "127.0.0.1:0")?;
            let proxy = fleet.proxy(&worker.address, "127.0.0.1:0")?;
            fleet.places.push(Place { worker, proxy });
        }
        Ok(fleet)
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The list of workers for a program, beginning with one of them.
    pub fn list(&self, first: usize) -> String {
        let order = (0..self.len()).map(|index| (first + index) % self.len());
        order.map(|index| self.places[index].proxy.address.clone()).collect::<Vec<_>>().join(",")
    }

    /// Breaks all connections to a worker: the proxy ends, and another one takes its place.
    pub fn cut(&mut self, index: usize) -> Result<()> {
        let address = self.places[index].proxy.address.clone();
        self.places[index].proxy.end(libc::SIGKILL, END_LIMIT)?;
        self.places[index].proxy = self.proxy(&self.places[index].worker.address, &address)?;
        Ok(())
    }

    /// Lets nothing pass for a while.
    pub fn silence(&self, index: usize, time: Duration) {
        stand_still(vec![self.places[index].proxy.child.id()], time);
    }

    /// Terminates a worker and starts it again. Returns how long its end took.
    pub fn restart(&mut self, index: usize) -> Result<Duration> {
        let address = self.places[index].worker.address.clone();
        let begin = Instant::now();
        self.places[index].worker.end(libc::SIGTERM, END_LIMIT)?;
        let time = begin.elapsed();
        self.places[index].worker = self.worker(index, &address)?;
        Ok(time)
    }

    /// Kills the supervisor of a worker and starts another one, which adopts the sessions.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        let address = self.places[index].worker.address.clone();
        self.places[index].worker.end(libc::SIGKILL, END_LIMIT)?;
        self.places[index].worker = self.worker(index, &address)?;
        Ok(())
    }

    /// Has a worker replace its program in place.
    pub fn upgrade(&self, index: usize) {
        // SAFETY: takes no pointers; the process was started here and is not yet waited for.
        unsafe { libc::kill(self.places[index].worker.child.id() as libc::pid_t, libc::SIGUSR2) };
    }

    /// Stops all processes of a worker for a while.
    pub fn pause(&self, index: usize, time: Duration) -> Result<()> {
        let worker = self.places[index].worker.child.id();
        stand_still(children(worker).into_iter().chain([worker]).collect(), time);
        Ok(())
    }

    /// Moves the session of a program to a worker. Returns what happened; a refusal is no error.
    pub fn migrate(&self, pid: u32, to: usize) -> Result<String> {
        for (from, place) in self.places.iter().enumerate().filter(|(from, _)| *from != to) {
            let mut command = Command::new(&self.remora);
            command.args(["migrate", &format!("pid:{pid}"), "--from", &place.worker.address]);
            command.args(["--to", &self.places[to].worker.address, "--patience", "2"]);
            command.args(["--seen-at", &self.places[to].proxy.address]);
            let output = command.output().context("cannot run `remora migrate`")?;
            if output.status.success() {
                return Ok(format!("moved from worker {from} to worker {to}"));
            }
        }
        Ok(format!("not moved to worker {to}"))
    }

    /// Ends all disturbances that are under way.
    pub fn calm(&self) {
        for place in &self.places {
            for pid in children(place.worker.child.id())
                .into_iter()
                .chain([place.worker.child.id(), place.proxy.child.id()])
            {
                // SAFETY: takes no pointers; the processes were started by this program.
                unsafe { libc::kill(pid as libc::pid_t, libc::SIGCONT) };
            }
        }
    }

    fn worker(&self, index: usize, listen: &str) -> Result<Listening> {
        let mut command = Command::new(&self.remora);
        command.args(["worker", "--no-config", "--ready", "--device", "mi300x", "--no-upload-cache"]);
        command.args(["--listen", listen, "--saved-sessions"]);
        command.arg(self.folder.join(format!("sessions-{index}")));
        let log = self.folder.join(format!("worker-{index}.log"));
        Listening::start(&mut command, &log)
    }

    fn proxy(&self, worker: &str, listen: &str) -> Result<Listening> {
        let mut command = Command::new(&self.remora);
        command.args(["impair", "--to", worker, "--listen", listen]);
        Listening::start(&mut command, &self.folder.join("proxies.log"))
    }
}

impl Listening {
    /// Starts a process and waits until it prints `listening on ADDRESS`.
    fn start(command: &mut Command, log: &Path) -> Result<Listening> {
        let log = File::options().create(true).append(true).open(log).context("cannot write a log")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().context("cannot start a process of the fleet")?;
        let output = child.stdout.take().context("a process without output")?;
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let address =
                    line.split("listening on ").nth(1).and_then(|rest| rest.split([',', ' ', ';']).next());
                if let Some(address) = address {
                    let _ = sender.send(address.to_owned());
                }
            }
        });
        match receiver.recv_timeout(START_LIMIT) {
            Ok(address) => Ok(Listening { child, address }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{command:?} does not listen")
            }
        }
    }

    fn end(&mut self, signal: libc::c_int, limit: Duration) -> Result<()> {
        // A paused process could not react.
        for signal in [signal, libc::SIGCONT] {
            // SAFETY: takes no pointers; the process was started here and is not yet waited for.
            unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        }
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > limit {
                bail!("a process does not end within {}", step::seconds(limit));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) || self.end(libc::SIGINT, DROP_LIMIT).is_ok() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child processes of a process: each thread has its own list.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>())
        .collect()
}
