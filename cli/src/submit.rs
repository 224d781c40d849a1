//! `remora submit`: submits a kernel to a board, shows its progress and returns the verdict as exit status.

mod report;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use board_client::{Client, Progress};
use board_contract::{CustomInput, Endpoint, Status, SubmitBody};

use crate::env::Environment;
use crate::os;
use crate::output::out;
use report::Report;

/// Maximum size of a source in bytes; the server rejects larger ones.
const LARGEST: u64 = 1 << 20;
/// Exit status if there is no verdict, also because of an error of this program: scripts must not take that for a rejected kernel.
pub const NOT_JUDGED: u8 = 2;
const CANCELLED: u8 = 130;

/// URL of a board on this machine.
pub const DEFAULT_BOARD: &str = "http://127.0.0.1:3000";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 accepted, 1 rejected (wrong answer, compile error, time limit, ...), 2 not judged (the board refused it or
could not be reached, an argument is wrong, the judge failed), 130 cancelled. Ctrl-C cancels the submission.

Environment:
  REMORA_BOARD       URL of the board, if --server is not given
  REMORA_BOARD_KEY   your API key for the board (rmr_...)

Examples:
  remora submit kernel.hip --problem leaky-relu --gpu MI300X
  remora submit kernel.hip --problem leaky-relu --gpu MI300X --gpu MI210
  remora submit kernel.hip --problem softmax --endpoint checker --server http://board.example:3000
  remora submit kernel.hip --problem softmax --endpoint check    races, accesses out of bounds, uninitialised reads"
)]
pub struct Arguments {
    /// Source file of the kernel; - reads standard input
    source: PathBuf,
    /// Problem that the kernel solves; not needed for --endpoint sandbox
    #[arg(long, value_name = "SLUG")]
    problem: Option<String>,
    /// GPU to run the kernel on; given several times, all of them, and their results are compared
    #[arg(long, default_value = "MI300X")]
    gpu: Vec<String>,
    /// Element type [default: the problem's first type]
    #[arg(long)]
    dtype: Option<String>,
    /// What to do with the kernel: checker, benchmark, full, sample, sandbox, compile, custom, check or profile
    #[arg(long, default_value = Endpoint::Full.name())]
    endpoint: String,
    /// Inputs for --endpoint custom: a JSON object with sizes, values, inputs and seed (docs/board.md); - reads standard input
    #[arg(long, value_name = "FILE")]
    custom: Option<PathBuf>,
    /// URL of the board [default: REMORA_BOARD, else http://127.0.0.1:3000]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Print events as they arrive, one JSON object per line
    #[arg(long)]
    json: bool,
}

pub fn submit(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    ensure!(
        arguments.problem.is_some() || arguments.endpoint == Endpoint::Sandbox.name(),
        "no problem given: use --problem SLUG"
    );
    let server = arguments.server.as_deref().or(environment.board.as_deref());
    let client = Client::new(server.unwrap_or(DEFAULT_BOARD), environment.board_key.as_deref())?;
    let body = SubmitBody {
        solution_code: Some(read(&arguments.source)?),
        problem: arguments.problem.clone(),
        problem_def: None,
        gpu_type: None,
        dtype: arguments.dtype.clone(),
        language: Some("hip".to_owned()),
        endpoint: Some(arguments.endpoint.clone()),
        custom: arguments.custom.as_deref().map(custom).transpose()?,
    };
    let mut report = Report::new(os::standard_output::is_terminal() && !arguments.json);
    let several = arguments.gpu.len() > 1;
    let ended = client.run(&body, &arguments.gpu, |progress| {
        let text = match progress {
            Progress::Event { json, .. } if arguments.json => format!("{json}\n"),
            _ if arguments.json => String::new(),
            Progress::Accepted { submitted } => report.accepted(submitted, several),
            Progress::Event { record, .. } => report.event(record),
            Progress::Away => report.note("the server does not respond, reconnecting"),
            Progress::Cancelling => report.note("cancelling"),
        };
        let mut out = std::io::stdout().lock();
        // A closed pipe does not stop the submission.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    })?;
    if several && !arguments.json {
        out!("{}", report.comparison(&ended));
    }
    // The worst one decides: not judged, then rejected.
    let statuses = ended.iter().map(|(_, last)| exit_status(last.event.status()));
    Ok(ExitCode::from(statuses.max_by_key(|status| severity(*status)).unwrap_or(NOT_JUDGED)))
}

fn custom(path: &Path) -> Result<CustomInput> {
    serde_json::from_str(&read(path)?)
        .with_context(|| format!("{} is not a valid custom input", path.display()))
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(LARGEST).read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        file.take(LARGEST).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

/// Orders exit statuses of several submissions.
fn severity(status: u8) -> u8 {
    match status {
        CANCELLED => 3,
        status => status,
    }
}

fn exit_status(last: Status) -> u8 {
    match last {
        Status::Error => NOT_JUDGED,
        Status::Cancelled => CANCELLED,
        status if status.is_success() => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_become_exit_statuses() {
        for (status, code) in [
            (Status::Benchmarked, 0),
            (Status::Checked, 0),
            (Status::WrongAnswer, 1),
            (Status::CompileError, 1),
            (Status::TimeLimitExceeded, 1),
            (Status::SandboxTimeout, 1),
            (Status::Error, 2),
            (Status::Cancelled, 130),
        ] {
            assert_eq!(exit_status(status), code, "{status}");
        }
    }
}
