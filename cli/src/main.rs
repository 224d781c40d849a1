//! `remora`: run HIP programs on GPUs that are somewhere else, or nowhere.

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

/// Runs unmodified HIP programs on a GPU in another process: on another machine, or emulated on this one.
#[derive(Debug, Parser)]
#[command(name = "remora", version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "Environment:
  REMORA_URL         what an agent hands out: a worker, its token and its certificate in one
  REMORA_WORKER      the worker to use: host:port, tls://host:port, unix:/path or such a URL
  TF_WORKER_HOST     its host, and TF_WORKER_PORT its port (18515), if REMORA_WORKER is not set
  REMORA_TOKEN       the secret shared with the worker, or REMORA_TOKEN_FILE a file that holds it
  REMORA_ADMIN_TOKEN the secret for administration of a worker, or REMORA_ADMIN_TOKEN_FILE a file that holds it
  REMORA_TLS_CA      whom to believe with tls://: a PEM file, or sha256:FINGERPRINT
  HIP_REMOTE_LIB_DIR where the client's libamdhip64.so.* are
  REMORA_TOOLCHAIN   where clang, HIP headers and device libraries for hiprtc are
  REMORA_LOG         what to log, such as `info` or `worker=debug`
Of the program that is run:
  REMORA_TRACE       a file for a trace of calls, link and devices (ui.perfetto.dev shows it); %p is the process
  REMORA_SUMMARY     1, or a file: a table of what each function cost, when the program ends")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a HIP program; with no worker named, on a software GPU of the architecture it was built for
    Run(run::Arguments),
    /// Run a HIP program on a local software GPU and look at what its kernels do: trace them, profile them, check them
    Emulate(emulate::Arguments),
    /// Offer GPUs to programs on this machine or others
    Worker(worker::Arguments),
    /// Make tokens for workers
    Token(token::Arguments),
    /// Share the GPUs of this machine: give parts of them away over HTTP, and run a limited worker for each
    Agent(agent::Arguments),
    /// Run the board: submit HIP kernels, have them checked and measured, in a browser or by HTTP
    Serve(serve::Arguments),
    /// Send a kernel to a board and watch it being checked and measured
    Submit(submit::Arguments),
    /// Administer a board: users, keys, bans, judging again, draining devices
    Board(board::Arguments),
    /// Show the GPUs of a worker: name, architecture, memory, compute units, clocks, load
    Devices(devices::Arguments),
    /// Watch a worker at work: devices, sessions, memory, calls, round trips and bytes a second
    Top(top::Arguments),
    /// Take a session from its worker into a file; its program waits until it is resumed
    Snapshot(migrate::SnapshotArguments),
    /// Go on with a session from a file, on any worker with the same devices
    Resume(migrate::ResumeArguments),
    /// Move a session to another worker while its program runs
    Migrate(migrate::MigrateArguments),
    /// Report what is installed, reachable or missing, and how to fix it
    Doctor(doctor::Arguments),
    /// Print a stand-alone HIP program that checks and measures a solution of one of the board's problems
    Harness(harness::Arguments),
    /// Forward to a worker over a network made bad on purpose: delay, little bandwidth, connections that break
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
    /// Load AMD's runtime and report (started by the doctor and by the agent)
    #[command(hide = true)]
    ProbeHip {
        library: Option<std::path::PathBuf>,
        /// Print the PCI address of each GPU, in the runtime's order
        #[arg(long)]
        addresses: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = env::Environment::read();
    start_log(&environment, &arguments.command);
    let done = match arguments.command {
        Command::Run(arguments) => run::run(&arguments, &environment),
        Command::Emulate(arguments) => emulate::emulate(&arguments, &environment),
        Command::Worker(arguments) => worker::work(&arguments, &environment).map(|()| ExitCode::SUCCESS),
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
    };
    done.unwrap_or_else(|error| {
        output::errln!("remora: {error:#}");
        ExitCode::FAILURE
    })
}

/// Logs go to standard error: a worker says what it does, other commands only what goes wrong.
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
        // A standard error that nobody reads any more is no reason to panic, least of all while a session ends.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(false)
        .init();
}
