//! Three workers, each behind a proxy through which its clients reach it.
//!
//! The first and the last store checkpoints on a disk of their own; the second one has the last one as its peer.

use super::disk::Disk;
use super::listening::{Listening, signal, stand_still};
use crate::worker_sessions::{WorkerSession, sessions};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WORKERS: usize = 3;
/// The worker without a disk, and its peer.
const WITH_PEER: usize = 1;
const PEER: usize = 2;

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
    // After the workers, which use them.
    disks: Vec<Disk>,
}

impl Fleet {
    pub fn start(remora: &Path, folder: &Path) -> Result<Fleet> {
        let disks = (0..WORKERS).map(|index| Disk::create(folder.join(format!("disk-{index}"))));
        let mut fleet = Fleet {
            remora: remora.to_owned(),
            folder: folder.to_owned(),
            disks: disks.collect::<Result<_>>()?,
            places: Vec::new(),
        };
        let peer = fleet.worker(PEER, "127.0.0.1:0", None)?;
        let address = peer.address.clone();
        let mut peer = Some(peer);
        for index in 0..WORKERS {
            let worker = match peer.take_if(|_| index == PEER) {
                Some(peer) => peer,
                None => fleet.worker(index, "127.0.0.1:0", Some(&address))?,
            };
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
        self.places[index].proxy.end(libc::SIGKILL)?;
        self.places[index].proxy = self.proxy(&self.places[index].worker.address, &address)?;
        Ok(())
    }

    /// Lets nothing pass for a while.
    pub fn silence(&self, index: usize, time: Duration) {
        stand_still(vec![self.places[index].proxy.pid()], time);
    }

    /// Ends a worker with a signal and starts it again. If it is killed, its sessions live on, and the next supervisor adopts them.
    pub fn restart(&mut self, index: usize, signal: libc::c_int) -> Result<()> {
        let address = self.places[index].worker.address.clone();
        self.places[index].worker.end(signal)?;
        let peer = self.places[PEER].worker.address.clone();
        self.places[index].worker = self.worker(index, &address, Some(&peer))?;
        Ok(())
    }

    /// Kills all processes of a worker, as a power failure does, and starts it again. Only if all its programs can fail over, which is
    /// not known of a worker that does not reply.
    pub fn crash(&mut self, index: usize, can_fail_over: impl Fn(u32) -> bool) -> Result<bool> {
        let Some(sessions) = self.sessions(index)? else { return Ok(false) };
        if !sessions.iter().all(|session| can_fail_over(session.program)) {
            return Ok(false);
        }
        let executors: Vec<u32> = sessions.iter().map(|session| session.executor).collect();
        signal(&[self.places[index].worker.family(), executors].concat(), libc::SIGKILL);
        self.restart(index, libc::SIGKILL).map(|()| true)
    }

    /// Kills the process of a program's session. Returns false if it has none.
    pub fn kill_executor(&self, program: u32) -> Result<bool> {
        for index in 0..self.len() {
            let sessions = self.sessions(index)?.unwrap_or_default();
            if let Some(found) = sessions.iter().find(|session| session.program == program) {
                found.kill();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has a worker replace its program in place.
    pub fn upgrade(&self, index: usize) {
        signal(&[self.places[index].worker.pid()], libc::SIGUSR2);
    }

    /// Stops all processes of a worker for a while.
    pub fn pause(&self, index: usize, time: Duration) {
        stand_still(self.places[index].worker.family(), time);
    }

    /// Fills the disk of a worker for a while. Returns false if that is not possible, or the worker stores nothing there.
    pub fn fill_disk(&self, index: usize, time: Duration) -> bool {
        index != WITH_PEER && self.disks[index].fill(time)
    }

    /// Moves the session of a program to a worker. Returns false if it is not moved; a refusal is no error.
    pub fn migrate(&self, pid: u32, to: usize) -> Result<bool> {
        for (_, place) in self.places.iter().enumerate().filter(|(from, _)| *from != to) {
            let mut command = Command::new(&self.remora);
            command.args(["migrate", &format!("pid:{pid}"), "--from", &place.worker.address]);
            command.args(["--to", &self.places[to].worker.address, "--patience", "2"]);
            command.args(["--seen-at", &self.places[to].proxy.address]);
            let output = command.output().context("cannot run `remora migrate`")?;
            if output.status.success() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends all disturbances that are under way.
    pub fn calm(&self) {
        for place in &self.places {
            signal(&place.worker.family(), libc::SIGCONT);
            signal(&[place.proxy.pid()], libc::SIGCONT);
        }
    }

    fn sessions(&self, index: usize) -> Result<Option<Vec<WorkerSession>>> {
        sessions(&self.remora, &self.places[index].worker.address)
    }

    fn worker(&self, index: usize, listen: &str, peer: Option<&str>) -> Result<Listening> {
        let mut command = Command::new(&self.remora);
        command.args(["worker", "--no-config", "--ready", "--device", "mi300x", "--no-upload-cache"]);
        command.args(["--listen", listen, "--saved-sessions"]);
        command.arg(self.folder.join(format!("sessions-{index}")));
        command.args(["--checkpoint-interval", "0.5", "--checkpoint"]);
        match peer.filter(|_| index == WITH_PEER) {
            Some(peer) => command.arg(format!("remora://{peer}")),
            None => command.arg(self.disks[index].folder()),
        };
        let log = self.folder.join(format!("worker-{index}.log"));
        Listening::start(&mut command, &log)
    }

    fn proxy(&self, worker: &str, listen: &str) -> Result<Listening> {
        let mut command = Command::new(&self.remora);
        command.args(["impair", "--to", worker, "--listen", listen]);
        Listening::start(&mut command, &self.folder.join("proxies.log"))
    }
}
