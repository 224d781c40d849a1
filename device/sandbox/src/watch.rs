//! The caller's side: starts a command, reads its output and its records, and kills it when it exceeds a limit.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::command::{Command, Limits, Listener, Meter, Stream};
use crate::descriptor::{pipe, set_nonblocking};
use crate::jail::{self, Ends, Pointers};
use crate::level::Level;
use crate::plan::{Plan, own_user};
use crate::report::{RECORD, Record, SandboxError, Stage};
use crate::usage::{Processes, size_of_folder};

/// Interval for checking memory and files.
const ROUND: Duration = Duration::from_millis(20);

/// Limit on standard input, which must fit into a pipe.
const MOST_INPUT: usize = 64 << 10;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It exited with this status.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It exceeded the wall-clock or CPU time limit.
    Time,
    /// It exceeded its memory limit.
    Memory,
    /// It exceeded the limit of its output.
    Output,
    /// Its files exceeded the size limit.
    Folder,
    /// The caller cancelled it.
    Cancelled,
}

/// Result of a command.
#[derive(Debug)]
pub struct Ended {
    /// Why it ended.
    pub stop: Stop,
    /// Its standard output.
    pub output: Vec<u8>,
    /// Its standard error.
    pub error: Vec<u8>,
    /// The collected files in the requested order; `None` for one that is missing or too large.
    pub collected: Vec<Option<Vec<u8>>>,
    /// Level of isolation it ran at.
    pub level: Level,
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Peak resident memory that was observed, in bytes.
    pub peak_memory: u64,
    /// CPU time of all its processes.
    pub cpu: Duration,
}

impl Ended {
    /// Whether it exited with status 0.
    pub fn success(&self) -> bool {
        self.stop == Stop::Exited(0)
    }
}

/// A running command. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    watcher: Option<JoinHandle<Result<Ended, SandboxError>>>,
    cancel: Option<OwnedFd>,
}

impl Running {
    /// Waits until it ends.
    pub fn wait(mut self) -> Result<Ended, SandboxError> {
        let watcher = self.watcher.take().ok_or(SandboxError::Silent)?;
        let ended = watcher.join().unwrap_or(Err(SandboxError::Silent));
        self.cancel = None;
        ended
    }

    /// Kills it.
    pub fn stop(mut self) -> Result<Ended, SandboxError> {
        self.cancel = None;
        self.wait()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.watcher.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel = None;
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Command {
    /// Runs the command to its end.
    pub fn run(self) -> Result<Ended, SandboxError> {
        self.start()?.wait()
    }

    /// Starts the command at the highest level of isolation that this machine and the caller allow.
    pub fn start(mut self) -> Result<Running, SandboxError> {
        if self.input.len() > MOST_INPUT {
            return Err(SandboxError::Name("standard input of more than 64 KiB".to_owned()));
        }
        let isolation = self.isolation;
        let mut why = String::new();
        let levels = [Level::Namespaces, Level::Restricted, Level::Limited];
        for level in levels.into_iter().filter(|level| (isolation.least..=isolation.most).contains(level)) {
            match Started::new(&self, level) {
                Ok(started) => {
                    let (release, cancel) = pipe().map_err(io_error("cannot create a pipe"))?;
                    let (listener, meter) = (self.listener.take(), self.meter.take());
                    let limits = self.limits.clone();
                    let watcher = std::thread::Builder::new()
                        .name("sandbox".to_owned())
                        .spawn(move || Watch::new(started, limits, listener, meter, release).run())
                        .map_err(io_error("cannot start a thread to watch the command"))?;
                    return Ok(Running { watcher: Some(watcher), cancel: Some(cancel) });
                }
                Err(error) if is_denied(&error) => why = chain(&error),
                Err(error) => return Err(error),
            }
        }
        Err(SandboxError::TooWeak { found: Level::Limited, least: isolation.least, why })
    }
}

/// Whether the machine denied what a level needs, so that a lower level may work.
fn is_denied(error: &SandboxError) -> bool {
    match error {
        SandboxError::TooWeak { .. } => true,
        SandboxError::Setup { stage, .. } => {
            matches!(stage, Stage::Users | Stage::Namespaces | Stage::Mounts | Stage::Landlock)
        }
        _ => false,
    }
}

fn chain(error: &SandboxError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The processes of a sandbox, up to the exec of the command and beyond.
struct Started {
    warden: libc::pid_t,
    /// Closing it ends everything.
    leash: Option<OwnedFd>,
    report: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    level: Level,
    collected: usize,
    /// The private folder, if it is on the machine's file system.
    folder: Option<tempfile::TempDir>,
    begun: Instant,
}

impl Started {
    fn new(command: &Command, level: Level) -> Result<Started, SandboxError> {
        let user = own_user();
        let folder = match level {
            Level::Namespaces => None,
            _ => Some(private_folder(user)?),
        };
        let plan = Plan::new(command, level, folder.as_ref().map(tempfile::TempDir::path), user)?;
        let terminated = |texts: &[std::ffi::CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let mut pointers = Pointers {
            arguments: terminated(&plan.arguments),
            environment: terminated(&plan.environment),
            chunk: vec![0; 64 << 10],
        };
        let pipe = || pipe().map_err(io_error("cannot create a pipe"));
        let (input, give) = pipe()?;
        crate::descriptor::write_all(give.as_raw_fd(), &command.input)
            .map_err(io_error("cannot write the standard input"))?;
        drop(give);
        let (output, output_end) = pipe()?;
        let (error, error_end) = pipe()?;
        let (report, report_end) = pipe()?;
        let (leash_end, leash) = pipe()?;
        let ends = Ends {
            input: input.as_raw_fd(),
            output: output_end.as_raw_fd(),
            error: error_end.as_raw_fd(),
            report: report_end.as_raw_fd(),
            leash: leash_end.as_raw_fd(),
            rules: plan.landlock.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        };
        let begun = Instant::now();
        // SAFETY: the child only makes system calls and never returns; all it reads was created above.
        let warden = unsafe { libc::fork() };
        match warden {
            0 => jail::warden(&plan, ends, &mut pointers),
            number if number < 0 => {
                return Err(SandboxError::Io {
                    what: "cannot fork a process for the sandbox",
                    source: io::Error::last_os_error(),
                });
            }
            _ => {}
        }
        let collected = command.collected.len();
        let started =
            Started { warden, leash: Some(leash), report, output, error, level, collected, folder, begun };
        // From here on only the sandbox's processes hold these, so that their exit closes the pipes.
        drop((input, output_end, error_end, report_end, leash_end));
        started.await_start()?;
        for descriptor in [&started.output, &started.error, &started.report] {
            set_nonblocking(descriptor).map_err(io_error("cannot make a pipe non-blocking"))?;
        }
        Ok(started)
    }

    /// Waits until the command is about to be executed, or the setup has failed.
    fn await_start(&self) -> Result<(), SandboxError> {
        let mut bytes = [0; RECORD];
        let mut file = fs::File::from(self.report.try_clone().map_err(io_error("cannot duplicate a pipe"))?);
        file.read_exact(&mut bytes).map_err(|_| SandboxError::Silent)?;
        match Record::of(&bytes) {
            Some(Record::Started) => Ok(()),
            Some(Record::Failed(stage, error)) => {
                Err(SandboxError::Setup { stage, source: io::Error::from_raw_os_error(error) })
            }
            _ => Err(SandboxError::Silent),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The warden ends everything when its leash closes. It is our own code, so the wait is short.
        self.leash = None;
        // SAFETY: our child, not waited for before.
        unsafe { libc::waitpid(self.warden, std::ptr::null_mut(), 0) };
    }
}

/// Creates a folder that only the command's user can access.
fn private_folder(user: Option<u32>) -> Result<tempfile::TempDir, SandboxError> {
    let folder = tempfile::Builder::new()
        .prefix("sandbox-")
        .tempdir()
        .map_err(io_error("cannot create the command's private folder"))?;
    if user.is_some() {
        std::os::unix::fs::chown(folder.path(), user, user)
            .map_err(io_error("cannot create the command's private folder"))?;
    }
    Ok(folder)
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> SandboxError {
    move |source| SandboxError::Io { what, source }
}

/// A command that is being watched.
struct Watch {
    started: Started,
    limits: Limits,
    processes: Processes,
    listener: Option<Listener>,
    meter: Option<Meter>,
    /// CPU time already reported to the meter.
    metered: Duration,
    /// Hangs up when the caller cancels.
    release: OwnedFd,
    output: Vec<u8>,
    error: Vec<u8>,
    report: Vec<u8>,
    peak_memory: u64,
    /// Why the command was killed, if it was.
    ended_for: Option<Stop>,
}

impl Watch {
    fn new(
        started: Started,
        limits: Limits,
        listener: Option<Listener>,
        meter: Option<Meter>,
        release: OwnedFd,
    ) -> Watch {
        Watch {
            processes: Processes::new(started.warden),
            started,
            limits,
            listener,
            meter,
            metered: Duration::ZERO,
            release,
            output: Vec::new(),
            error: Vec::new(),
            report: Vec::new(),
            peak_memory: 0,
            ended_for: None,
        }
    }

    fn run(mut self) -> Result<Ended, SandboxError> {
        let deadline = self.started.begun + self.limits.wall;
        let mut next_round = Instant::now() + ROUND;
        let mut open = [true; 3];
        // The report pipe closes when the warden exits, which is the last process to do so.
        while open[2] {
            let now = Instant::now();
            if now >= deadline {
                self.end_for(Stop::Time);
            }
            if now >= next_round {
                self.look();
                next_round = now + ROUND;
            }
            let until = deadline.min(next_round).saturating_duration_since(now);
            let timeout = if self.ended_for.is_some() { 1000 } else { until.as_millis() as i32 + 1 };
            let descriptor = |index: usize| match index {
                0 => self.started.output.as_raw_fd(),
                1 => self.started.error.as_raw_fd(),
                2 => self.started.report.as_raw_fd(),
                _ => self.release.as_raw_fd(),
            };
            let mut watched = [0, 1, 2, 3].map(|index| {
                let wanted = match index {
                    3 => self.ended_for.is_none(),
                    stream => open[stream],
                };
                let fd = if wanted { descriptor(index) } else { -1 };
                libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
            });
            // SAFETY: the array has four entries.
            unsafe { libc::poll(watched.as_mut_ptr(), 4, timeout) };
            for (index, is_open) in open.iter_mut().enumerate() {
                if watched[index].revents != 0 {
                    *is_open = self.read(index);
                }
            }
            if watched[3].revents != 0 {
                self.end_for(Stop::Cancelled);
            }
        }
        while open[0] && self.read(0) && !self.drained(0) {}
        while open[1] && self.read(1) && !self.drained(1) {}
        self.finish()
    }

    /// Whether a stream has no more bytes at the moment.
    fn drained(&self, index: usize) -> bool {
        let fd = if index == 0 { self.started.output.as_raw_fd() } else { self.started.error.as_raw_fd() };
        let mut watched = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: a single entry.
        unsafe { libc::poll(&mut watched, 1, 0) };
        watched.revents & libc::POLLIN == 0
    }

    /// Reads available bytes; returns whether there may be more.
    fn read(&mut self, index: usize) -> bool {
        let mut chunk = [0; 64 << 10];
        let fd = match index {
            0 => self.started.output.as_raw_fd(),
            1 => self.started.error.as_raw_fd(),
            _ => self.started.report.as_raw_fd(),
        };
        // SAFETY: the chunk has room for that many bytes.
        let count = unsafe { libc::read(fd, chunk.as_mut_ptr().cast(), chunk.len()) };
        if count < 0 {
            let error = io::Error::last_os_error().raw_os_error();
            return matches!(error, Some(libc::EAGAIN | libc::EINTR));
        }
        let bytes = &chunk[..count as usize];
        if index == 2 {
            self.report.extend_from_slice(bytes);
            return count > 0;
        }
        let room = self.limits.output.saturating_sub((self.output.len() + self.error.len()) as u64);
        let taken = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let stream = if index == 0 { Stream::Output } else { Stream::Error };
        if let Some(listener) = self.listener.as_mut().filter(|_| !taken.is_empty()) {
            listener(stream, taken);
        }
        let kept = if index == 0 { &mut self.output } else { &mut self.error };
        kept.extend_from_slice(taken);
        if taken.len() < bytes.len() {
            self.end_for(Stop::Output);
        }
        count > 0
    }

    /// Ends the command by closing its leash.
    fn end_for(&mut self, stop: Stop) {
        if self.ended_for.is_none() {
            self.ended_for = Some(stop);
            self.started.leash = None;
        }
    }

    /// Checks memory, and the size of files if they are on the machine's file system.
    fn look(&mut self) {
        let (memory, cpu) = self.processes.usage();
        self.measure(cpu);
        self.peak_memory = self.peak_memory.max(memory);
        if memory > self.limits.memory {
            self.end_for(Stop::Memory);
        }
        if let Some(folder) = &self.started.folder
            && size_of_folder(folder.path().to_owned(), self.limits.folder) > self.limits.folder
        {
            self.end_for(Stop::Folder);
        }
    }

    /// Reports the CPU time used since the last report to the meter.
    fn measure(&mut self, cpu: Duration) {
        if let Some(meter) = &mut self.meter
            && cpu > self.metered
        {
            meter(cpu - self.metered);
            self.metered = cpu;
        }
    }

    fn finish(mut self) -> Result<Ended, SandboxError> {
        let wall = self.started.begun.elapsed();
        let report = std::mem::take(&mut self.report);
        let mut rest = report.as_slice();
        let mut status = None;
        let mut collected = Vec::new();
        let mut cpu = self.metered;
        while let Some(record) = rest.get(..RECORD).and_then(Record::of) {
            rest = &rest[RECORD..];
            match record {
                Record::Failed(stage, error) => {
                    return Err(SandboxError::Setup { stage, source: io::Error::from_raw_os_error(error) });
                }
                Record::Started => {}
                Record::Ended(value) => status = Some(value),
                Record::Used(seconds, micros) => {
                    let number = |value: i32| u64::try_from(value).unwrap_or(0);
                    cpu = Duration::from_secs(number(seconds)) + Duration::from_micros(number(micros));
                }
                Record::File(length) => {
                    let content = usize::try_from(length).ok().and_then(|length| rest.get(..length));
                    rest = &rest[content.map_or(0, <[u8]>::len)..];
                    collected.push(content.map(<[u8]>::to_vec));
                }
            }
        }
        self.measure(cpu);
        collected.resize(self.started.collected, None);
        let stop = match (self.ended_for, status) {
            (Some(stop), _) => stop,
            (None, Some(status)) if libc::WIFEXITED(status) => Stop::Exited(libc::WEXITSTATUS(status)),
            (None, Some(status)) => match libc::WTERMSIG(status) {
                libc::SIGXCPU => Stop::Time,
                libc::SIGXFSZ => Stop::Folder,
                signal => Stop::Signalled(signal),
            },
            // The sandbox's first process was killed: only the kernel does that, when memory runs out.
            (None, None) => Stop::Memory,
        };
        Ok(Ended {
            stop,
            output: self.output,
            error: self.error,
            collected,
            level: self.started.level,
            wall,
            peak_memory: self.peak_memory,
            cpu,
        })
    }
}
