//! User code that runs on the host: solutions of the host shape, linked to a harness, and whole programs. Both run in the sandbox and reach
//! the device through a Unix socket.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use board_contract::{Endpoint as Request, Event};
use board_problems::{Direction, Dtype, Problem, Shape};
use sandbox::{Command, Limits, Stop, Stream};
use transport::{Endpoint, TransportError};
use worker_client::WorkerAddress;

use crate::code::{Code, Workgroup};
use crate::compile::Harness;
use crate::context::Context;
use crate::ending::{self, Ending, seconds};
use crate::gate::{Gate, Policy};
use crate::gpu::Gpu;
use crate::host_solution::HostSolution;
use crate::session::CONNECT_TIMEOUT;
use crate::tools::LIBRARY;

const PROGRAM: &str = "program";

/// Compiles a solution of the host shape and starts it. Returns `None` if only the compilation was requested.
pub(crate) fn solution(
    context: &mut Context,
    problem: &Problem,
    gpu: &Gpu,
) -> Result<Option<HostSolution>, Ending> {
    context.compiling();
    let text = main_text(problem, context.job.dtype);
    let harness = Harness { text: &text, devices: problem.devices };
    let compiled = context
        .compiler(gpu)
        .program(&context.job.source, Some(harness))
        .map_err(|error| ending::of_compiler(&error))?;
    let code = Code::parse(&compiled.code)
        .map_err(|problem| ending::error("the compiled code cannot be read", &problem.to_string()))?;
    if !context.compiled(&compiled, &code, gpu, Workgroup::USUAL) {
        return Ok(None);
    }
    let program = compiled.program.unwrap_or_default();
    let (command, Resources { gate, worker, folder }) = command(context, program, Policy::Measured)?;
    let started = HostSolution::start(
        |descriptor, number| command.descriptor(descriptor, number).start(),
        (gate, worker, folder),
        seconds(context.job.limits.whole_s),
    );
    let solution =
        started.map_err(|problem| ending::error("the solution could not be started", &chain(&problem)))?;
    Ok(Some(solution))
}

/// Compiles and runs a whole program.
pub(crate) fn run(context: &mut Context, gpu: &Gpu) -> Result<(), Ending> {
    context.check_rules()?;
    context.compiling();
    let compiled = context
        .compiler(gpu)
        .program(&context.job.source, None)
        .map_err(|error| ending::of_compiler(&error))?;
    if let Ok(code) = Code::parse(&compiled.code) {
        context.compiled(&compiled, &code, gpu, Workgroup::USUAL);
    }
    let (command, _resources) = command(context, compiled.program.unwrap_or_default(), Policy::Free)?;
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
    let running = command
        .start()
        .map_err(|problem| ending::error("the program could not be started", &chain(&problem)))?;
    // The loop ends when the program has ended and its output is closed.
    for (stream, line) in lines {
        let line = context.tools.shown(line.trim_ascii_end());
        (context.emit)(Event::SandboxOutput { stream: stream.to_owned(), line });
    }
    let ended =
        running.wait().map_err(|problem| ending::error("the program could not be run", &chain(&problem)))?;
    let stdout = context.tools.shown(&ended.output);
    let stderr = context.tools.shown(&ended.error);
    let failed = |message: String, return_code| Event::SandboxError {
        message,
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        return_code,
    };
    (context.emit)(match ended.stop {
        Stop::Exited(0) => Event::SandboxSuccess { stdout, stderr, return_code: 0 },
        Stop::Exited(code) => failed(format!("the program exited with code {code}"), code),
        Stop::Signalled(signal) => failed(format!("the program was killed by signal {signal}"), 128 + signal),
        Stop::Memory => failed("the program needs too much memory".to_owned(), -1),
        Stop::Output => failed("the program prints too much".to_owned(), -1),
        Stop::Folder => failed("the program writes too much to files".to_owned(), -1),
        Stop::Cancelled => failed("the program was stopped".to_owned(), -1),
        Stop::Time => Event::SandboxTimeout {
            message: format!("the program took longer than {} s", context.job.limits.run_s),
            stdout,
            stderr,
        },
    });
    Ok(())
}

/// Resources that must exist as long as a program runs.
struct Resources {
    gate: Gate,
    worker: WorkerAddress,
    /// Folder of the program.
    folder: tempfile::TempDir,
}

/// Builds a sandboxed command with access to the device.
fn command(context: &mut Context, program: Vec<u8>, policy: Policy) -> Result<(Command, Resources), Ending> {
    let device = context.device()?;
    let (tools, job) = (context.tools, context.job);
    let unreachable = |text: String| ending::error("the device cannot be reached", &text);
    let endpoint: Endpoint =
        device.worker.parse().map_err(|problem: TransportError| unreachable(problem.to_string()))?;
    let token = device.token.map(String::into_bytes);
    let worker = WorkerAddress { endpoint, token, trust: None, connect_timeout: CONNECT_TIMEOUT };
    let gate = Gate::new(&worker, policy).map_err(|problem| unreachable(problem.to_string()))?;
    // A whole program has one time limit; a solution has one per case, which the judge enforces.
    let wall = if job.endpoint == Request::Sandbox { job.limits.run_s } else { job.limits.whole_s };
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
        .map_err(|problem| ending::error("the program could not be stored", &problem.to_string()))?;
    let path = folder.path().join(PROGRAM);
    let mut command = Command::new(&path)
        .environment("REMORA_WORKER", format!("unix:{}", gate.socket().display()))
        .environment("LD_LIBRARY_PATH", &tools.libraries)
        .limits(limits)
        .isolation(tools.isolation)
        .visible(tools.libraries.join(LIBRARY))
        .socket(gate.socket());
    for folder in ["/lib", "/lib64", "/usr/lib", "/usr/lib64"] {
        command = command.visible(folder);
    }
    Ok((command, Resources { gate, worker, folder }))
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
