//! User code that runs on the host: solutions of the host shape, linked to a harness, and whole programs. Both run in the sandbox and reach
//! the device through a Unix socket.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use board_problems::{Direction, Dtype, Problem, Shape};
use sandbox::{Command, Limits, Stop, Stream};

use crate::code::Code;
use crate::event::Event;
use crate::gpu::Gpu;
use crate::job::Endpoint;
use crate::judge::{Judge, ending_of, error, seconds};
use crate::session::Session;
use crate::tools::LIBRARY;

type Ending = Box<Event>;

const PROGRAM: &str = "program";

/// Most bytes of a program's output that users are shown.
const MOST_SHOWN: usize = 64 << 10;

/// Compiles a solution of the host shape and starts it. Returns `None` if only the compilation was requested.
pub(crate) fn solution(judge: &mut Judge, problem: &Problem, gpu: &Gpu) -> Result<Option<Session>, Ending> {
    judge.compiling();
    let main = main_text(problem, judge.job.dtype);
    let compiled =
        judge.compiler(gpu).program(&judge.job.source, Some(&main)).map_err(|error| ending_of(&error))?;
    let code = Code::parse(&compiled.code)
        .map_err(|problem| error("the compiled code cannot be read", &problem.to_string()))?;
    if !judge.compiled(&compiled, &code, gpu, 256) {
        return Ok(None);
    }
    let program = compiled.program.unwrap_or_default();
    let (command, door) = command(judge, program)?;
    let started = Session::jailed(
        |descriptor, number| command.descriptor(descriptor, number).start(),
        seconds(judge.job.limits.whole_s),
    );
    let mut session =
        started.map_err(|problem| error("the solution could not be started", &chain(&problem)))?;
    session.keep(door);
    Ok(Some(session))
}

/// Compiles and runs a whole program.
pub(crate) fn run(judge: &mut Judge, gpu: &Gpu) -> Result<(), Ending> {
    judge.obey_rules()?;
    judge.compiling();
    let compiled = judge.compiler(gpu).program(&judge.job.source, None).map_err(|error| ending_of(&error))?;
    if let Ok(code) = Code::parse(&compiled.code) {
        judge.compiled(&compiled, &code, gpu, 256);
    }
    let (command, _door) = command(judge, compiled.program.unwrap_or_default())?;
    let (sender, lines) = mpsc::channel();
    let mut pending = [Vec::new(), Vec::new()];
    let command = command.listener(move |stream, bytes| {
        let (name, pending) = match stream {
            Stream::Output => ("stdout", &mut pending[0]),
            Stream::Error => ("stderr", &mut pending[1]),
        };
        pending.extend_from_slice(bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let _ = sender.send((name, line));
        }
    });
    let running =
        command.start().map_err(|problem| error("the program could not be started", &chain(&problem)))?;
    // The loop ends when the program has ended and its output is closed.
    for (stream, line) in lines {
        let line = judge.tools.shown(line.trim_ascii_end(), MOST_SHOWN);
        (judge.emit)(Event::SandboxOutput { stream: stream.to_owned(), line });
    }
    let ended = running.wait().map_err(|problem| error("the program could not be run", &chain(&problem)))?;
    let stdout = judge.tools.shown(&ended.output, MOST_SHOWN);
    let stderr = judge.tools.shown(&ended.error, MOST_SHOWN);
    let failed = |message: String, return_code| Event::SandboxError {
        message,
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        return_code,
    };
    (judge.emit)(match ended.stop {
        Stop::Exited(0) => Event::SandboxSuccess { stdout, stderr, return_code: 0 },
        Stop::Exited(code) => failed(format!("the program exited with code {code}"), code),
        Stop::Signalled(signal) => failed(format!("the program was killed by signal {signal}"), 128 + signal),
        Stop::Memory => failed("the program needs too much memory".to_owned(), -1),
        Stop::Output => failed("the program prints too much".to_owned(), -1),
        Stop::Folder => failed("the program writes too much to files".to_owned(), -1),
        Stop::Cancelled => failed("the program was stopped".to_owned(), -1),
        Stop::Time => Event::SandboxTimeout {
            message: format!("the program took longer than {} s", judge.job.limits.run_s),
            stdout,
            stderr,
        },
    });
    Ok(())
}

/// Builds a sandboxed command with access to the device.
fn command(judge: &Judge, program: Vec<u8>) -> Result<(Command, Door), Ending> {
    let (tools, job) = (judge.tools, judge.job);
    if job.token.is_some() {
        let text = "the worker requires a token, which user code must not see; submit a kernel instead";
        return Err(error("host code cannot run on this device", text));
    }
    let door = Door::open(&job.worker)
        .map_err(|problem| error("the device cannot be reached", &problem.to_string()))?;
    // A whole program has one time limit; a solution has one per case, which the judge enforces.
    let wall = if job.endpoint == Endpoint::Sandbox { job.limits.run_s } else { job.limits.whole_s };
    let limits = Limits {
        wall: seconds(wall),
        cpu: seconds(wall),
        memory: job.limits.memory,
        output: job.limits.output,
        file: 64 << 20,
        folder: 128 << 20,
        processes: 64,
    };
    let folder = program_folder(&program)
        .map_err(|problem| error("the program could not be stored", &problem.to_string()))?;
    let path = folder.path().join(PROGRAM);
    let mut command = Command::new(&path)
        .environment("REMORA_WORKER", format!("unix:{}", door.socket().display()))
        .environment("LD_LIBRARY_PATH", &tools.libraries)
        .limits(limits)
        .isolation(tools.isolation)
        .visible(tools.libraries.join(LIBRARY))
        .socket(door.socket());
    for folder in ["/lib", "/lib64", "/usr/lib", "/usr/lib64"] {
        command = command.visible(folder);
    }
    Ok((command, Door { _program: Some(folder), ..door }))
}

/// Creates a world-readable folder with the program.
fn program_folder(program: &[u8]) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("program-").tempdir()?;
    let path = folder.path().join(PROGRAM);
    std::fs::write(&path, program)?;
    for path in [folder.path(), &path] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder)
}

fn chain(problem: &dyn std::error::Error) -> String {
    match problem.source() {
        Some(source) => format!("{problem}: {source}"),
        None => problem.to_string(),
    }
}

/// A Unix socket that forwards to the worker, for sandboxed processes without network.
#[derive(Debug)]
pub(crate) struct Door {
    socket: PathBuf,
    /// Folder of the socket, if the judge created it.
    _folder: Option<tempfile::TempDir>,
    /// Folder of the program, which must exist as long as the program runs.
    _program: Option<tempfile::TempDir>,
}

impl Door {
    fn open(worker: &str) -> io::Result<Door> {
        let folder = tempfile::Builder::new().prefix("door-").tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let socket = folder.path().join("worker");
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777))?;
        let target = Target::of(worker)?;
        std::thread::Builder::new().name("door".to_owned()).spawn(move || {
            // The thread ends with this process. Later connections fail because the socket file is removed.
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let target = target.clone();
                std::thread::spawn(move || target.join(stream));
            }
        })?;
        Ok(Door { socket, _folder: Some(folder), _program: None })
    }

    fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Destination of a forwarded connection.
#[derive(Clone, Debug)]
enum Target {
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    fn of(worker: &str) -> io::Result<Target> {
        if let Some(path) = worker.strip_prefix("unix:") {
            return Ok(Target::Unix(path.into()));
        }
        if worker.contains("://") {
            let text = "host code can use workers only over TCP and unix sockets, not over TLS";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Target::Tcp(worker.to_owned()))
    }

    /// Forwards bytes in both directions until both have ended.
    fn join(&self, near: UnixStream) {
        match self {
            Target::Unix(path) => {
                let Ok(far) = UnixStream::connect(path) else { return };
                let Ok(again) = far.try_clone() else { return };
                carry(&near, (far, again), |far| far.shutdown(Shutdown::Write));
            }
            Target::Tcp(address) => {
                let Ok(far) = TcpStream::connect(address) else { return };
                let _ = far.set_nodelay(true);
                let Ok(again) = far.try_clone() else { return };
                carry(&near, (far, again), |far| far.shutdown(Shutdown::Write));
            }
        }
    }
}

/// Forwards bytes between two connections until both directions have ended. The second is given as two handles.
fn carry<Far: io::Read + io::Write + Send + 'static>(
    near: &UnixStream,
    (mut to, mut from): (Far, Far),
    end: impl FnOnce(&Far) -> io::Result<()>,
) {
    let Ok(near_again) = near.try_clone() else { return };
    let back = std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut &near_again);
        let _ = near_again.shutdown(Shutdown::Write);
    });
    let _ = io::copy(&mut &*near, &mut to);
    let _ = end(&to);
    let _ = back.join();
}

/// Returns the source of the harness for a solution of the host shape, with its signature.
fn main_text(problem: &Problem, dtype: Dtype) -> String {
    let mut text = String::from("#include <hip/hip_runtime.h>\n");
    for header in problem.headers(dtype) {
        text.push_str(&format!("#include <{header}>\n"));
    }
    for header in ["cstdint", "cstdio", "cstring", "vector"] {
        text.push_str(&format!("#include <{header}>\n"));
    }
    text.push_str(&format!("{};\n", problem.signature(dtype, Shape::Host)));
    text.push_str("template <typename T> static T scalar(const uint64_t* slot) {\n    T value;\n    memcpy(&value, slot, sizeof value);\n    return value;\n}\n");
    text.push_str("static void call_solution(const uint64_t* slots) {\n    solution(");
    let arguments: Vec<String> = problem
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let name = parameter.element.dtype(dtype).c_name();
            match parameter.direction {
                Direction::Scalar => format!("scalar<{name}>(slots + {index})"),
                _ => format!("reinterpret_cast<{name}*>(slots[{index}])"),
            }
        })
        .collect();
    text.push_str(&arguments.join(", "));
    text.push_str(");\n}\n");
    text.push_str(include_str!("host_main.hip"));
    text
}
