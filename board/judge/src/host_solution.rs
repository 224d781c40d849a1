//! The process of a solution of the host shape. It runs in the sandbox and is trusted with nothing.
//!
//! Its buffers belong to the judge's runner, which shares them with it. Inputs are written, and outputs are checked, while the gate is
//! closed. Times and counters come from the worker, through an observer.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sandbox::{Running, SandboxError};
use worker_client::{Observer, WorkerAddress};

use crate::channel::{Channel, Fault, Late};
use crate::gate::{Gate, Passed};
use crate::message::{DESCRIPTOR, HostRequest};
use crate::session::ProcessEnd;

/// How long the device may stay busy after a request other than a call.
const SETTLING: Duration = Duration::from_secs(5);
/// Timeout for the process to exit by itself.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(5);

/// A running solution.
pub(crate) struct HostSolution {
    channel: Channel,
    /// The process; `None` after it was ended.
    process: Option<Running>,
    gate: Gate,
    observer: Option<Observer>,
    worker: WorkerAddress,
    /// Whether a call has launched a kernel.
    has_launched: bool,
    /// Folder of the program, which must exist as long as the process.
    _folder: tempfile::TempDir,
}

/// What a call did on the device, as the worker saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostWork {
    /// Nanoseconds from the start of its first command to the end of its last one.
    pub time_ns: u64,
    pub kernels: u64,
    /// Bytes that it sent to the worker, and that it read from devices.
    pub uploaded: u64,
    pub read: u64,
    /// Counters, if they were requested and the device has them.
    pub counters: Vec<u64>,
}

impl HostSolution {
    /// Starts a program. `start` starts it with the other end of the connection.
    pub fn start(
        start: impl FnOnce(OwnedFd, i32) -> Result<Running, SandboxError>,
        (gate, worker, folder): (Gate, WorkerAddress, tempfile::TempDir),
        whole: Duration,
    ) -> Result<HostSolution, SandboxError> {
        let (channel, theirs) = Channel::new(whole).map_err(|source| SandboxError::Io {
            what: "cannot create a socket pair for a program",
            source,
        })?;
        let process = Some(start(theirs, DESCRIPTOR)?);
        Ok(HostSolution {
            channel,
            process,
            gate,
            observer: None,
            worker,
            has_launched: false,
            _folder: folder,
        })
    }

    /// Sets the time limit of the following operations.
    pub fn allow(&mut self, time: Duration) {
        self.channel.allow(time, Late::Solution);
    }

    /// Maps a buffer of the runner. Its contents must be written afterwards.
    pub fn open(&mut self, device: u32, buffer: u32, handle: &[u8]) -> Result<(), Fault> {
        self.outside(&HostRequest::Open { device, buffer, handle })
    }

    /// Unmaps a buffer.
    pub fn close(&mut self, buffer: u32) -> Result<(), Fault> {
        self.outside(&HostRequest::Close { buffer })
    }

    /// Calls the solution. Nothing of it reaches the device before or after.
    pub fn call(&mut self, slots: &[crate::message::Slot], count: bool) -> Result<HostWork, Fault> {
        let observer = self.observer.as_ref().ok_or_else(|| Fault::Worker("no observer".to_owned()))?;
        let before = self.gate.close();
        observer.start(count).map_err(|error| self.lost(&error))?;
        self.gate.open();
        let reply = self.channel.ask(&HostRequest::Call { slots }.encode());
        let passed = self.gate.close();
        let measured = observer.end(passed.requests, self.channel.left());
        // First what happened to the process: its session ends with it.
        reply?;
        let measured = measured.map_err(|error| self.lost(&error))?;
        if !measured.is_idle {
            return Err(busy("after the solution returned"));
        }
        if measured.lost > 0 {
            return Err(Fault::Worker(format!("the worker has no times of {} commands", measured.lost)));
        }
        let uploaded = match self.has_launched {
            // The program's code is loaded with its first kernel.
            false => 0,
            true => passed.uploaded - before.uploaded,
        };
        self.has_launched |= measured.kernels > 0;
        Ok(HostWork {
            time_ns: measured.end - measured.begin,
            kernels: measured.kernels,
            uploaded,
            read: measured.read,
            counters: measured.counters,
        })
    }

    /// Sends a request that is not measured, and waits until the device is idle again.
    fn outside(&mut self, request: &HostRequest<'_>) -> Result<(), Fault> {
        self.connect()?;
        self.gate.open();
        let reply = self.channel.ask(&request.encode());
        let settled = self.settle(self.gate.close());
        reply?;
        settled
    }

    /// Lets the process open its session, and observes that.
    fn connect(&mut self) -> Result<(), Fault> {
        if self.observer.is_some() {
            return Ok(());
        }
        self.gate.open();
        let reply = self.channel.ask(&HostRequest::Start.encode());
        let passed = self.gate.close();
        reply?;
        let session = self.gate.session(Instant::now() + self.channel.left()).map_err(Fault::InvalidReply)?;
        self.observer = Some(Observer::new(&self.worker, session).map_err(|error| self.lost(&error))?);
        self.settle(passed)
    }

    /// Waits until the device has done all work that has passed the gate.
    fn settle(&self, passed: Passed) -> Result<(), Fault> {
        let Some(observer) = &self.observer else { return Ok(()) };
        let patience = self.channel.left().min(SETTLING);
        match observer.end(passed.requests, patience).map_err(|error| self.lost(&error))?.is_idle {
            true => Ok(()),
            false => Err(busy("although it was not called")),
        }
    }

    /// The fault of an observer that was lost. If the worker still accepts connections, the solution has ended its session.
    fn lost(&self, error: &worker_client::MoveError) -> Fault {
        match self.worker.endpoint.connect(SETTLING) {
            Ok(_) => Fault::Gone,
            Err(_) => Fault::Worker(error.to_string()),
        }
    }

    /// Ends the process and returns its output.
    pub fn end(&mut self) -> ProcessEnd {
        self.channel.close();
        self.observer = None;
        let Some(process) = self.process.take() else { return ProcessEnd::default() };
        let start = Instant::now();
        while !process.is_finished() && start.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(LOOK);
        }
        match process.stop() {
            Ok(ended) => ProcessEnd { output: ended.output, error: ended.error, stop: Some(ended.stop) },
            Err(_) => ProcessEnd::default(),
        }
    }
}

fn busy(when: &str) -> Fault {
    let text = format!("the solution kept the device busy {when}");
    Fault::Rejected { rule: "work-outside-call", text }
}
