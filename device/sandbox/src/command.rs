//! What to run, what it sees, and how much of everything it gets.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::level::Apartness;

/// How much of everything a command gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub wall: Duration,
    /// Processor time of each process.
    pub cpu: Duration,
    /// Bytes in memory, of all processes together; also what one process may map for writing.
    pub memory: u64,
    /// Bytes it may print, both streams together.
    pub output: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files in its private folder.
    pub folder: u64,
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

/// A file or folder of the machine that the command sees, under its own name, and cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    pub path: PathBuf,
    /// A socket, which one connects to by writing to it.
    pub socket: bool,
}

/// What a command prints on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Output,
    Error,
}

/// Told of everything the command prints, while it runs.
pub(crate) type Listener = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Receives the processor time that the command used since the last call, while it runs and once after its end.
pub(crate) type Meter = Box<dyn FnMut(Duration) + Send>;

/// A command that is not trusted. Its environment is empty but for what it is given here.
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
    pub(crate) apartness: Apartness,
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
    /// A program by its absolute path. It is visible to itself; nothing else is.
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
            apartness: Apartness::default(),
            listener: None,
            meter: None,
            start_folder: None,
        }
    }

    pub fn arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Command {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Shows it a file or folder of the machine, read-only. What is not there is not shown.
    pub fn visible(mut self, path: impl AsRef<Path>) -> Command {
        self.visible.push(Visible { path: path.as_ref().to_owned(), socket: false });
        self
    }

    /// Lets it connect to a unix socket of the machine. Without this it cannot make sockets at all.
    pub fn socket(mut self, path: impl AsRef<Path>) -> Command {
        self.visible.push(Visible { path: path.as_ref().to_owned(), socket: true });
        self.sockets = true;
        self
    }

    /// Puts a file into its private folder, which is where it starts. The name is a relative path without `..`; folders on the
    /// way are created.
    pub fn file(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Command {
        self.files.push((name.into(), content.into()));
        self
    }

    /// Gives back a file of its private folder when it has ended.
    pub fn collect(mut self, name: impl Into<String>) -> Command {
        self.collected.push(name.into());
        self
    }

    /// What it reads on standard input, up to 64 KiB; nothing by default.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Command {
        self.input = input.into();
        self
    }

    /// Hands it a descriptor under a number from 3 to 99.
    pub fn descriptor(mut self, descriptor: OwnedFd, number: i32) -> Command {
        self.descriptors.push((descriptor, number));
        self
    }

    pub fn limits(mut self, limits: Limits) -> Command {
        self.limits = limits;
        self
    }

    /// How far apart it must be, and may be.
    pub fn apartness(mut self, apartness: Apartness) -> Command {
        self.apartness = apartness;
        self
    }

    /// Starts the command in a folder below its private folder. One of its files must be in there.
    pub fn start_folder(mut self, name: impl Into<String>) -> Command {
        self.start_folder = Some(name.into());
        self
    }

    /// Receives the processor time of all processes of the command, as increments, from another thread.
    pub fn meter(mut self, meter: impl FnMut(Duration) + Send + 'static) -> Command {
        self.meter = Some(Box::new(meter));
        self
    }

    /// Is told of what it prints while it runs, from another thread.
    pub fn listener(mut self, listener: impl FnMut(Stream, &[u8]) + Send + 'static) -> Command {
        self.listener = Some(Box::new(listener));
        self
    }
}
