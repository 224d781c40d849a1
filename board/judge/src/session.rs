//! The judge's side of the runner process: sends requests, enforces time limits, and ends the process.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandbox::{Running, SandboxError, Stop};

use crate::message::{self, CHUNK, Call, CallReport, DESCRIPTOR, DONE, Fill, HIP_ERROR, Request};
use crate::tools::Tools;

/// Why a request to the runner process failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// HIP returned an error.
    Hip { code: i32, text: String },
    /// Timeout.
    Time,
    /// The process ended or closed the connection.
    Gone,
    /// The process sent an invalid reply.
    InvalidReply(String),
}

/// Output and exit status of an ended process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessEnd {
    pub output: Vec<u8>,
    pub error: Vec<u8>,
    /// How it ended, if it was sandboxed.
    pub stop: Option<Stop>,
}

/// A connection to a runner process.
pub(crate) struct Session {
    stream: UnixStream,
    /// The process; `None` after it was ended.
    process: Option<Process>,
    /// Deadline of the whole submission.
    end: Instant,
    /// Deadline of the current operation.
    until: Instant,
    /// Resources that must live as long as the process.
    kept: Option<Box<dyn std::any::Any>>,
}

enum Process {
    Own { child: Child, output: JoinHandle<Vec<u8>>, error: JoinHandle<Vec<u8>> },
    Jailed(Running),
}

impl Session {
    /// Starts a runner process, for the kernel shape.
    pub fn own(
        tools: &Tools,
        worker: &str,
        token: Option<&str>,
        limit: u64,
        whole: Duration,
    ) -> std::io::Result<Session> {
        let (ours, theirs) = UnixStream::pair()?;
        let program = tools.runner.first().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(&tools.runner[1..]).arg(tools.library()).env_clear().current_dir("/");
        command.env("REMORA_WORKER", worker).env("REMORA_LOG", "warn");
        if let Some(token) = token {
            command.env("REMORA_TOKEN", token);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let descriptor = theirs.as_raw_fd();
        // SAFETY: between fork and exec the closure only makes system calls, on a descriptor that stays open until the child runs.
        unsafe {
            command.pre_exec(move || {
                // `dup2` with equal descriptors would not clear the close-on-exec flag.
                let done = match descriptor {
                    DESCRIPTOR => libc::fcntl(descriptor, libc::F_SETFD, 0),
                    _ => libc::dup2(descriptor, DESCRIPTOR),
                };
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        let mut child = command.spawn()?;
        drop(theirs);
        let output = drain(child.stdout.take(), limit);
        let error = drain(child.stderr.take(), limit);
        Ok(Session::new(ours, Process::Own { child, output, error }, whole))
    }

    /// Starts a sandboxed program, for the host shape. `start` starts it with the other end of the connection.
    pub fn jailed(
        start: impl FnOnce(OwnedFd, i32) -> Result<Running, SandboxError>,
        whole: Duration,
    ) -> Result<Session, SandboxError> {
        let (ours, theirs) = UnixStream::pair().map_err(|source| SandboxError::Io {
            what: "cannot create a socket pair for a program",
            source,
        })?;
        let running = start(theirs.into(), DESCRIPTOR)?;
        Ok(Session::new(ours, Process::Jailed(running), whole))
    }

    fn new(stream: UnixStream, process: Process, whole: Duration) -> Session {
        let end = Instant::now() + whole;
        Session { stream, process: Some(process), end, until: end, kept: None }
    }

    /// Keeps a resource of the process alive until the process has ended.
    pub fn keep(&mut self, resource: Box<dyn std::any::Any>) {
        self.kept = Some(resource);
    }

    /// Sets the time limit of the following operations.
    pub fn allow(&mut self, time: Duration) {
        self.until = self.end.min(Instant::now() + time);
    }

    pub fn device(&mut self) -> Result<String, Fault> {
        let name = self.ask(&Request::Device)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    pub fn load(&mut self, code: &[u8], kernel: &str) -> Result<(), Fault> {
        self.ask(&Request::Load { code: code.to_vec(), kernel: kernel.to_owned() }).map(drop)
    }

    pub fn allocate(&mut self, buffer: u32, bytes: u64) -> Result<(), Fault> {
        self.ask(&Request::Allocate { buffer, bytes }).map(drop)
    }

    pub fn free(&mut self, buffer: u32) -> Result<(), Fault> {
        self.ask(&Request::Free { buffer }).map(drop)
    }

    pub fn write(&mut self, buffer: u32, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        for (index, part) in bytes.chunks(CHUNK).enumerate() {
            let offset = offset + (index * CHUNK) as u64;
            self.ask(&Request::Write { buffer, offset, bytes: part.to_vec() })?;
        }
        Ok(())
    }

    pub fn read(&mut self, buffer: u32, offset: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while (all.len() as u64) < bytes {
            let part = (bytes - all.len() as u64).min(CHUNK as u64);
            let got = self.ask(&Request::Read { buffer, offset: offset + all.len() as u64, bytes: part })?;
            if got.len() as u64 != part {
                return Err(Fault::InvalidReply(
                    "a part of a buffer does not have the requested size".to_owned(),
                ));
            }
            all.extend(got);
        }
        Ok(all)
    }

    pub fn fill(&mut self, fills: Vec<Fill>) -> Result<(), Fault> {
        self.ask(&Request::Fill(fills)).map(drop)
    }

    /// Calls the solution. The time is also measured here, where the solution cannot manipulate it.
    pub fn call(&mut self, call: Call) -> Result<(CallReport, Duration), Fault> {
        let request = Request::Call(call);
        let begun = Instant::now();
        let reply = self.ask(&request)?;
        let took = begun.elapsed();
        let called = CallReport::decode(&reply)
            .ok_or_else(|| Fault::InvalidReply("invalid reply to a call".to_owned()))?;
        Ok((called, took))
    }

    /// Ends the process and returns its output.
    pub fn end(&mut self) -> ProcessEnd {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let Some(process) = self.process.take() else { return ProcessEnd::default() };
        let _kept = self.kept.take();
        match process {
            Process::Own { mut child, output, error } => {
                // It exits when the connection is closed, unless it hangs in the device.
                for _ in 0..20 {
                    if !matches!(child.try_wait(), Ok(None)) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                // SAFETY: the process group was created for this child. Either the leader has not been waited for, or the group is gone.
                unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
                let _ = child.kill();
                let _ = child.wait();
                ProcessEnd {
                    output: output.join().unwrap_or_default(),
                    error: error.join().unwrap_or_default(),
                    stop: None,
                }
            }
            Process::Jailed(running) => {
                // A program that only waits for a request exits when the connection is closed.
                for _ in 0..40 {
                    if running.is_finished() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                match running.stop() {
                    Ok(ended) => {
                        ProcessEnd { output: ended.output, error: ended.error, stop: Some(ended.stop) }
                    }
                    Err(_) => ProcessEnd::default(),
                }
            }
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Vec<u8>, Fault> {
        self.set_timeout()?;
        message::send(&mut self.stream, &request.encode()).map_err(|error| fault(&error))?;
        self.set_timeout()?;
        let mut limited = Limited { stream: &self.stream, until: self.until };
        let reply = message::receive(&mut limited).map_err(|error| fault(&error))?;
        match reply.split_first() {
            Some((&DONE, rest)) => Ok(rest.to_vec()),
            Some((&HIP_ERROR, rest)) if rest.len() >= 4 => {
                let code = i32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
                Err(Fault::Hip { code, text: String::from_utf8_lossy(&rest[4..]).into_owned() })
            }
            Some((_, rest)) => Err(Fault::InvalidReply(String::from_utf8_lossy(rest).into_owned())),
            None => Err(Fault::InvalidReply("an empty reply".to_owned())),
        }
    }

    fn set_timeout(&self) -> Result<(), Fault> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Fault::Time);
        }
        let set =
            self.stream.set_write_timeout(Some(left)).and_then(|()| self.stream.set_read_timeout(Some(left)));
        set.map_err(|error| Fault::InvalidReply(error.to_string()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reader with a deadline for the whole reply, so that single bytes do not extend it.
struct Limited<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(buffer)
    }
}

fn fault(error: &std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Fault::Time,
        std::io::ErrorKind::InvalidData => Fault::InvalidReply("a reply that is too long".to_owned()),
        _ => Fault::Gone,
    }
}

/// Keeps the first bytes of an output and discards the rest, so that the writer does not block.
fn drain(stream: Option<impl Read + Send + 'static>, limit: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(mut stream) = stream else { return kept };
        let _ = stream.by_ref().take(limit).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        kept
    })
}
