//! A server process of `remora` on this machine, for the duration of a task.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A process that serves an address; stopped on drop.
#[derive(Debug)]
pub struct LocalServer {
    child: Child,
    address: SocketAddr,
}

impl LocalServer {
    /// Starts a command and waits until it prints `listening on ADDRESS`. `name` is for error messages.
    pub fn start(mut command: Command, name: &str, log: &Path) -> Result<LocalServer> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let stdout = child.stdout.take().context("the server has no standard output")?;
        let (sender, receiver) = mpsc::channel();
        // Read to the end, so that the server never writes to a closed pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(address) = address_in(&line) {
                    let _ = sender.send(address);
                }
            }
        });
        match receiver.recv_timeout(START_LIMIT) {
            Ok(address) => Ok(LocalServer { child, address }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!(
                    "{name} did not print `listening on ADDRESS` within {} s; its log, {}:\n{said}",
                    START_LIMIT.as_secs(),
                    log.display()
                )
            }
        }
    }

    /// The pid of the listening process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        if let Ok(pid) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: kill accesses no memory of this process, and the child is not yet waited for, so the pid is still its own.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let address = line.trim().strip_prefix("listening on ")?.split_whitespace().next()?;
    address.trim_start_matches("tls://").trim_start_matches("http://").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_line_that_announces_it() {
        assert_eq!(address_in("listening on 127.0.0.1:4711\n").map(|address| address.port()), Some(4711));
        assert_eq!(
            address_in("listening on 127.0.0.1:4711 (mi300x)").map(|address| address.port()),
            Some(4711)
        );
        assert_eq!(address_in("listening on tls://127.0.0.1:4711").map(|address| address.port()), Some(4711));
        assert_eq!(address_in("connected to 127.0.0.1:4711"), None);
    }
}
