//! `remora`: runs HIP programs on remote or emulated GPUs, and manages workers, agents and boards.

mod agent;
mod architecture;
mod board;
mod devices;
mod doctor;
mod dstack;
mod emulate;
mod env;
mod harness;
mod impair;
mod inspect;
mod judge;
mod library;
mod machine;
mod migrate;
mod output;
mod run;
mod serve;
mod submit;
mod token;
mod top;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs unmodified HIP programs on a GPU of another machine, or on a software GPU of this one.
#[derive(Debug, Parser)]
#[command(name = "remora", version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "Environment:
  REMORA_URL         worker URL from an agent, with the worker's address, token and certificate pin
  REMORA_WORKER      worker to use: host:port, tls://host:port, unix:/path or a URL from an agent
  TF_WORKER_HOST     host of the worker, and TF_WORKER_PORT its port (18515), if REMORA_WORKER is not set
  REMORA_TOKEN       token shared with the worker, or REMORA_TOKEN_FILE a file that contains it
  REMORA_ADMIN_TOKEN token for the administration of a worker, or REMORA_ADMIN_TOKEN_FILE a file that contains it
  REMORA_TLS_CA      certificate to trust with tls://: a PEM file, or sha256:FINGERPRINT
  HIP_REMOTE_LIB_DIR folder of the client's libamdhip64.so.*
  REMORA_TOOLCHAIN   folder with clang, HIP headers and device libraries for hiprtc
  REMORA_LOG         log filter, such as `info` or `worker=debug`
Environment of the HIP program:
  REMORA_TRACE       file for a trace of calls, network and devices (for ui.perfetto.dev); %p is the process ID
  REMORA_SUMMARY     1, or a file: writes a table of the cost of each function when the program ends")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a HIP program on a worker, or, if none is given, on a software GPU of the architecture it was built for
    Run(run::Arguments),
    /// Run a HIP program on a local software GPU, and trace, profile or check its kernels
    Emulate(emulate::Arguments),
    /// Start a worker, which offers GPUs to programs on this or other machines
    Worker(worker::Arguments),
    /// Create tokens for workers
    Token(token::Arguments),
    /// Start the node agent, which allocates shares of this machine's GPUs over HTTP and runs a limited worker for each
    Agent(agent::Arguments),
    /// Start the kernel board, a server that checks and benchmarks submitted HIP kernels, with a web UI and an HTTP API
    Serve(serve::Arguments),
    /// Submit a kernel to a board and show the progress of its check and benchmark
    Submit(submit::Arguments),
    /// Administer a board: users, keys, bans, rejudging, draining of devices
    Board(board::Arguments),
    /// List the GPUs of a worker: name, architecture, memory, compute units, clocks, load
    Devices(devices::Arguments),
    /// Monitor a worker: devices, sessions, memory, calls, round trips and bytes per second
    Top(top::Arguments),
    /// Save a session to a file and suspend it; its program waits until the session is resumed
    Snapshot(migrate::SnapshotArguments),
    /// Resume a session from a file, on any worker with the same devices
    Resume(migrate::ResumeArguments),
    /// Move a session to another worker while its program runs
    Migrate(migrate::MigrateArguments),
    /// Check the installation and the worker, and report problems and how to fix them
    Doctor(doctor::Arguments),
    /// Print a stand-alone HIP program that checks and benchmarks a solution of a board problem
    Harness(harness::Arguments),
    /// Start a proxy to a worker that simulates a bad network: latency, low bandwidth, broken connections
    Impair(impair::Arguments),
    /// Judge one submission, read as JSON from standard input (started by the board)
    #[command(hide = true)]
    Judge(judge::Arguments),
    /// Serve one session (started by the worker)
    #[command(hide = true)]
    Executor,
    /// Compile for one session (started by the worker)
    #[command(hide = true)]
    Compiler,
    /// Load AMD's HIP runtime and list its GPUs (started by the doctor and by the agent)
    #[command(hide = true)]
    ProbeHip {
        library: Option<std::path::PathBuf>,
        /// Print the PCI address of each GPU, in the runtime's order
        #[arg(long)]
        addresses: bool,
    },
    /// Load NVIDIA's driver and list its GPUs (started by the doctor)
    #[command(hide = true)]
    ProbeCuda { library: Option<std::path::PathBuf> },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = env::Environment::read();
    start_log(&environment, &arguments.command);
    let done = match arguments.command {
        Command::Run(arguments) => run::run(&arguments, &environment),
        Command::Emulate(arguments) => emulate::emulate(&arguments, &environment),
        Command::Worker(arguments) => worker::run(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Token(arguments) => token::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Agent(arguments) => agent::run(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Serve(arguments) => serve::serve(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Submit(arguments) => submit::submit(&arguments, &environment),
        Command::Board(arguments) => board::administer(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Devices(arguments) => devices::show(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Top(arguments) => top::top(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Snapshot(arguments) => {
            migrate::snapshot(&arguments, &environment).map(|()| ExitCode::SUCCESS)
        }
        Command::Resume(arguments) => migrate::resume(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Migrate(arguments) => migrate::migrate(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::examine(&arguments, &environment),
        Command::Harness(arguments) => harness::print(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Impair(arguments) => impair::impair(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Judge(arguments) => judge::judge(&arguments, &environment).map(|()| ExitCode::SUCCESS),
        Command::Executor => ::worker::execute().map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from),
        Command::Compiler => {
            ::worker::serve_compiler().map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from)
        }
        Command::ProbeHip { library, addresses } => doctor::probe_hip(library.as_deref(), addresses),
        Command::ProbeCuda { library } => doctor::probe_cuda(library.as_deref()),
    };
    done.unwrap_or_else(|error| {
        output::errln!("remora: {error:#}");
        ExitCode::FAILURE
    })
}

/// Logs to standard error: by default servers log at level info, other commands only warnings and errors.
fn start_log(environment: &env::Environment, command: &Command) {
    let quiet = match command {
        Command::Worker(_)
        | Command::Executor
        | Command::Compiler
        | Command::Serve(_)
        | Command::Agent(_) => "info",
        _ => "warn",
    };
    let filter = environment.log.as_deref().unwrap_or(quiet);
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(quiet));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A closed standard error must not cause a panic, least of all while a session ends.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(false)
        .init();
}
