//! `remora`: runs HIP programs on remote or emulated GPUs, and manages workers, agents and boards.

mod architecture;
mod config;
mod devices;
mod doctor;
mod env;
mod harness;
mod impair;
mod inspect;
mod library;
mod log;
mod migrate;
mod os;
mod output;
mod overview;
mod run;
mod shell;
mod submit;
mod token;
mod top;
mod version;

// Workers, agents and boards run on Linux only.
#[cfg(unix)]
mod agent;
#[cfg(unix)]
mod board;
#[cfg(unix)]
mod certificate;
#[cfg(unix)]
mod compiler;
#[cfg(unix)]
mod dstack;
#[cfg(unix)]
mod emulate;
#[cfg(unix)]
mod judge;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod models;
#[cfg(unix)]
mod sample;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod starter;
#[cfg(unix)]
mod trial;
#[cfg(unix)]
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config::Configuration;
use env::Environment;

/// Runs unmodified HIP programs on a GPU of another machine, or on a software GPU of this one.
#[derive(Debug, Parser)]
#[command(name = "remora", version, max_term_width = 110)]
#[command(after_help = "Environment:
  REMORA_URL         worker URL from an agent, with the worker's address, token and certificate pin
  REMORA_WORKER      worker to use: host:port, tls://host:port, unix:/path or a URL from an agent
  TF_WORKER_HOST     host of the worker, and TF_WORKER_PORT its port (18515), if REMORA_WORKER is not set
  REMORA_TOKEN       token shared with the worker, or REMORA_TOKEN_FILE a file that contains it
  REMORA_ADMIN_TOKEN token for the administration of a worker, or REMORA_ADMIN_TOKEN_FILE a file that contains it
  REMORA_TLS_CA      certificate to trust with tls://: a PEM file, or sha256:FINGERPRINT
  HIP_REMOTE_LIB_DIR folder of the client's libraries
  REMORA_TOOLCHAIN   folder with clang, HIP headers and device libraries for hiprtc
  REMORA_LOG         log filter, such as `info` or `worker=debug`
  REMORA_LOG_FORMAT  text or json
  REMORA_CONFIG      configuration file to read instead of the user's and the system's (see `remora config`), or `off`
Environment of the HIP program:
  REMORA_TRACE       file for a trace of calls, network and devices (for ui.perfetto.dev); %p is the process ID
  REMORA_SUMMARY     1, or a file: writes a table of the cost of each function when the program ends")]
struct Arguments {
    /// Without a command, an overview is printed.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a built-in sample on a software GPU, to see that everything works; needs no GPU and no compiler
    #[cfg(unix)]
    Try(trial::Arguments),
    /// Write a HIP program to start from, and say how to build and run it
    #[cfg(unix)]
    New(starter::Arguments),
    /// Run a HIP program on a worker, or, if none is given, on a software GPU of the architecture it was built for
    Run(run::Arguments),
    /// Run a HIP program on a local software GPU, and trace, profile or check its kernels
    #[cfg(unix)]
    Emulate(emulate::Arguments),
    /// Start a worker, which offers GPUs to programs on this or other machines
    #[cfg(unix)]
    Worker(worker::Arguments),
    /// Create tokens for workers
    Token(token::Arguments),
    /// Start the node agent, which allocates shares of this machine's GPUs over HTTP and runs a limited worker for each
    #[cfg(unix)]
    Agent(agent::Arguments),
    /// Start the kernel board, a server that checks and benchmarks submitted HIP kernels, with a web UI and an HTTP API
    #[cfg(unix)]
    Serve(serve::Arguments),
    /// Submit a kernel to a board and show the progress of its check and benchmark
    Submit(submit::Arguments),
    /// Administer a board: users, keys, bans, rejudging, draining of devices
    #[cfg(unix)]
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
    /// Print the effective settings and where each comes from: command line, environment, configuration file or default
    Config(config::Arguments),
    /// Print versions: of the program, of the protocol, of the HIP libraries it stands in for
    Version(version::Arguments),
    /// Print completions for a shell: bash, zsh, fish, powershell or elvish
    Completions(shell::CompletionsArguments),
    /// Write man pages to a folder
    #[command(hide = true)]
    Man(shell::ManArguments),
    /// Run the built-in sample against the worker in the environment (started by `remora try`)
    #[cfg(unix)]
    #[command(hide = true)]
    Sample,
    /// Judge one submission, read as JSON from standard input (started by the board)
    #[cfg(unix)]
    #[command(hide = true)]
    Judge(judge::Arguments),
    /// Serve one session (started by the worker)
    #[cfg(unix)]
    #[command(hide = true)]
    Executor,
    /// Compile for one session (started by the worker)
    #[cfg(unix)]
    #[command(hide = true)]
    Compiler,
    /// Hold the sessions of a worker whose supervisor has ended (started by the worker)
    #[cfg(unix)]
    #[command(hide = true)]
    Keeper,
    /// Print the version of what a worker leaves to the next one (started by the worker before an upgrade in place)
    #[cfg(unix)]
    #[command(hide = true)]
    HandoverVersion,
    /// Load AMD's HIP runtime and list its GPUs (started by the doctor and by the agent)
    #[cfg(unix)]
    #[command(hide = true)]
    ProbeHip {
        library: Option<std::path::PathBuf>,
        /// Print the PCI address of each GPU, in the runtime's order
        #[arg(long)]
        addresses: bool,
    },
    /// Load NVIDIA's driver and list its GPUs (started by the doctor)
    #[cfg(unix)]
    #[command(hide = true)]
    ProbeCuda { library: Option<std::path::PathBuf> },
}

fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    let definition = Arguments::command();
    let matches = definition.clone().get_matches_from(&given);
    let Some((name, _)) = matches.subcommand() else {
        overview::print();
        return ExitCode::SUCCESS;
    };
    run(name, &given, &definition, &matches).unwrap_or_else(|error| {
        output::errln!("remora: {error:#}");
        ExitCode::from(status_of_errors(name))
    })
}

/// Returns the exit status of a command that fails with an error.
fn status_of_errors(command: &str) -> u8 {
    if command == "submit" { submit::NOT_JUDGED } else { 1 }
}

fn run(
    name: &str,
    given: &[OsString],
    definition: &clap::Command,
    matches: &clap::ArgMatches,
) -> Result<ExitCode> {
    if ["executor", "compiler", "keeper", "handover-version"].contains(&name) {
        // They start confined and get their configuration from the worker; they read no file.
        return dispatch(
            Arguments::from_arg_matches(matches)?,
            &Environment::read(Default::default()),
            &Configuration::default(),
        );
    }
    let configuration = Configuration::read(&env::config_files(), env::home().as_ref(), definition)?;
    let environment = Environment::read(configuration.variables(name != "worker", env::is_set));
    let all = configuration.with_options(given, definition, matches, env::is_set)?;
    let arguments = if all == given {
        Arguments::from_arg_matches(matches)?
    } else {
        let matches = definition.clone().try_get_matches_from(&all);
        let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| {
            output::errln!("remora: with the options of {}:", configuration.paths());
            error.exit()
        })
    };
    dispatch(arguments, &environment, &configuration)
}

fn dispatch(
    arguments: Arguments,
    environment: &Environment,
    configuration: &Configuration,
) -> Result<ExitCode> {
    let Some(command) = arguments.command else {
        overview::print();
        return Ok(ExitCode::SUCCESS);
    };
    log::start(environment, default_filter(&command));
    let done = match command {
        Command::Run(arguments) => return run::run(&arguments, environment),
        #[cfg(unix)]
        Command::Emulate(arguments) => return emulate::emulate(&arguments, environment),
        #[cfg(unix)]
        Command::Try(arguments) => return trial::try_out(&arguments, environment),
        Command::Submit(arguments) => return submit::submit(&arguments, environment),
        Command::Doctor(arguments) => return doctor::examine(&arguments, environment),
        #[cfg(unix)]
        Command::ProbeHip { library, addresses } => return doctor::probe_hip(library.as_deref(), addresses),
        #[cfg(unix)]
        Command::ProbeCuda { library } => return doctor::probe_cuda(library.as_deref()),
        #[cfg(unix)]
        Command::New(arguments) => starter::write(&arguments, environment),
        #[cfg(unix)]
        Command::Worker(arguments) => worker::run(&arguments, environment),
        Command::Token(arguments) => token::run(&arguments),
        #[cfg(unix)]
        Command::Agent(arguments) => agent::run(&arguments, environment),
        #[cfg(unix)]
        Command::Serve(arguments) => serve::serve(&arguments, environment),
        #[cfg(unix)]
        Command::Board(arguments) => board::administer(&arguments, environment),
        Command::Devices(arguments) => devices::show(&arguments, environment),
        Command::Top(arguments) => top::top(&arguments, environment),
        Command::Snapshot(arguments) => migrate::snapshot(&arguments, environment),
        Command::Resume(arguments) => migrate::resume(&arguments, environment),
        Command::Migrate(arguments) => migrate::migrate(&arguments, environment),
        Command::Harness(arguments) => harness::print(&arguments),
        Command::Impair(arguments) => impair::impair(&arguments),
        Command::Config(arguments) => {
            config::show(&arguments, configuration, &Arguments::command(), env::variable)
        }
        Command::Version(arguments) => version::print(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => shell::man(&arguments, Arguments::command()),
        #[cfg(unix)]
        Command::Sample => sample::run(),
        #[cfg(unix)]
        Command::Judge(arguments) => judge::judge(&arguments, environment),
        #[cfg(unix)]
        Command::Executor => ::worker::execute().map_err(anyhow::Error::from),
        #[cfg(unix)]
        Command::Compiler => ::worker::serve_compiler().map_err(anyhow::Error::from),
        #[cfg(unix)]
        Command::Keeper => ::worker::keep().map_err(anyhow::Error::from),
        #[cfg(unix)]
        Command::HandoverVersion => {
            output::outln!("{}", ::worker::HANDOVER_VERSION);
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The log filter if none is configured: servers log at level info, other commands only warnings and errors.
fn default_filter(command: &Command) -> &'static str {
    match command {
        #[cfg(unix)]
        Command::Worker(_)
        | Command::Executor
        | Command::Compiler
        | Command::Keeper
        | Command::Serve(_)
        | Command::Agent(_) => "info",
        _ => "warn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_submit_is_not_a_rejected_kernel() {
        assert_eq!(status_of_errors("submit"), 2);
        for command in ["board", "judge", "run", "serve"] {
            assert_eq!(status_of_errors(command), 1, "{command}");
        }
    }
}
