//! Description of a command: what to run, what it can see, and its limits.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::level::IsolationRange;

/// Resource limits of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of each process.
    pub cpu: Duration,
    /// Resident memory of all processes together, in bytes; also the limit on the writable private memory (RLIMIT_DATA) of one
    /// process.
    pub memory: u64,
    /// Bytes it may print, both streams together.
    pub output: u64,
    /// Size limit of one file in bytes.
    pub file: u64,
    /// Total size limit of the files in its private folder, in bytes.
    pub folder: u64,
    /// Processes and threads at the same time.
    pub processes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wall: Duration::from_secs(30),
            cpu: Duration::from_secs(30),
            memory: 2 << 30,
            output: 1 << 20,
            file: 64 << 20,
            folder: 128 << 20,
            processes: 64,
        }
    }
}

/// A file or folder of the machine that the command sees, under the same path, read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// Path of the file or folder outside.
    pub path: PathBuf,
    /// A unix socket; connecting needs write access.
    pub socket: bool,
}

/// Output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Callback for the command's output while it runs.
pub(crate) type Listener = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Callback for the CPU time used since the last call, called while the command runs and once after its end.
pub(crate) type Meter = Box<dyn FnMut(Duration) + Send>;

/// An untrusted command. Its environment contains only what is set here.
pub struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) visible: Vec<Visible>,
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) collected: Vec<String>,
    pub(crate) input: Vec<u8>,
    pub(crate) descriptors: Vec<(OwnedFd, i32)>,
    pub(crate) sockets: bool,
    pub(crate) limits: Limits,
    pub(crate) isolation: IsolationRange,
    pub(crate) listener: Option<Listener>,
    pub(crate) meter: Option<Meter>,
    pub(crate) start_folder: Option<String>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Command")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Command {
    /// A program by its absolute path. Only the program itself is visible.
    pub fn new(program: impl Into<PathBuf>) -> Command {
        let program = program.into();
        Command {
            visible: vec![Visible { path: program.clone(), socket: false }],
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
            collected: Vec::new(),
            input: Vec::new(),
            descriptors: Vec::new(),
            sockets: false,
            limits: Limits::default(),
            isolation: IsolationRange::default(),
            listener: None,
            meter: None,
            start_folder: None,
        }
    }

    /// Appends arguments.
    pub fn arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable. The command inherits none.
    pub fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Command {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Makes a file or folder of the machine visible, read-only. Skipped if it does not exist.
    pub fn visible(mut self, path: impl AsRef<Path>) -> Command {
        self.visible.push(Visible { path: path.as_ref().to_owned(), socket: false });
        self
    }

    /// Allows connecting to a unix socket of the machine. Without this the command cannot create sockets at all.
    pub fn socket(mut self, path: impl AsRef<Path>) -> Command {
        self.visible.push(Visible { path: path.as_ref().to_owned(), socket: true });
        self.sockets = true;
        self
    }

    /// Puts a file into its private folder, which is its working directory. The name is a relative path without `..`; parent
    /// folders are created.
    pub fn file(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Command {
        self.files.push((name.into(), content.into()));
        self
    }

    /// Returns a file of its private folder in the result.
    pub fn collect(mut self, name: impl Into<String>) -> Command {
        self.collected.push(name.into());
        self
    }

    /// Sets the standard input, up to 64 KiB; empty by default.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Command {
        self.input = input.into();
        self
    }

    /// Passes a file descriptor to the command under a number from 3 to 99.
    pub fn descriptor(mut self, descriptor: OwnedFd, number: i32) -> Command {
        self.descriptors.push((descriptor, number));
        self
    }

    /// Sets the resource limits.
    pub fn limits(mut self, limits: Limits) -> Command {
        self.limits = limits;
        self
    }

    /// Sets the acceptable levels of isolation.
    pub fn isolation(mut self, isolation: IsolationRange) -> Command {
        self.isolation = isolation;
        self
    }

    /// Starts the command in a folder below its private folder. One of its files must be in there.
    pub fn start_folder(mut self, name: impl Into<String>) -> Command {
        self.start_folder = Some(name.into());
        self
    }

    /// Sets a callback that receives the CPU time of all the command's processes, in increments, on another thread.
    pub fn meter(mut self, meter: impl FnMut(Duration) + Send + 'static) -> Command {
        self.meter = Some(Box::new(meter));
        self
    }

    /// Sets a callback that receives output while the command runs, on another thread.
    pub fn listener(mut self, listener: impl FnMut(Stream, &[u8]) + Send + 'static) -> Command {
        self.listener = Some(Box::new(listener));
        self
    }
}
