//! Processes of the fleet: workers, proxies and agents.

use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a process may take to end. Longer than `remora worker --drain-timeout`.
const END_LIMIT: Duration = Duration::from_secs(45);
/// How long an interrupted process may take to end.
const DROP_LIMIT: Duration = Duration::from_secs(20);

/// A process that listens. Interrupted on drop: a worker that is killed leaves the processes of its sessions.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    /// As it prints it.
    pub address: String,
}

impl Listening {
    /// Starts a process and waits until it prints `listening on ADDRESS`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Listening> {
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

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// This process and its children.
    pub fn family(&self) -> Vec<u32> {
        children(self.pid()).into_iter().chain([self.pid()]).collect()
    }

    /// Sends a signal and waits for the end.
    pub fn end(&mut self, signal: libc::c_int) -> Result<()> {
        self.end_within(signal, END_LIMIT)
    }

    fn end_within(&mut self, sent: libc::c_int, limit: Duration) -> Result<()> {
        // A paused process could not react.
        signal(&[self.pid()], sent);
        signal(&[self.pid()], libc::SIGCONT);
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
        if matches!(self.child.try_wait(), Ok(Some(_))) || self.end_within(libc::SIGINT, DROP_LIMIT).is_ok() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to processes.
pub fn signal(pids: &[u32], signal: libc::c_int) {
    for pid in pids {
        // SAFETY: takes no pointers; the processes were started by this program.
        unsafe { libc::kill(*pid as libc::pid_t, signal) };
    }
}

/// Stops processes for a while, on another thread.
pub fn stand_still(pids: Vec<u32>, time: Duration) {
    signal(&pids, libc::SIGSTOP);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        signal(&pids, libc::SIGCONT);
    });
}

/// The child processes of a process: each thread has its own list.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>())
        .collect()
}
