//! `remora judge`: judges one submission. Reads it as JSON from standard input and prints events as JSON, one per line.
//!
//! A job without a device requests one when its code has been compiled, and reads it from the next line of standard input.
//!
//! The board starts one such process per submission. Terminating the process cancels the submission. The exit status is 0 if the last
//! event was printed, whatever the verdict in it, and 1 if there is none.

use std::io::{BufReader, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use board_judge::{Compiler, DEVICE_REQUEST, Gpu, Grant, IsolationRange, Job, Level, Toolchain, Tools};
use serde_json::{Deserializer, Value};

use crate::env::Environment;
use crate::library;

/// Maximum size of a job.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only warm up the compiler for this GPU, so that the first submission does not have to wait
    #[arg(long, value_name = "GPU")]
    warm_up: Option<String>,
    /// Run user code even if the machine supports no sandbox and only resource limits apply
    #[arg(long)]
    unconfined: bool,
    /// Print where the time of the judge goes to standard error: a line of a table for each case
    #[arg(long)]
    times: bool,
    /// Run as the device runner of a judge, with this client library
    #[arg(long, value_name = "LIBRARY", hide = true)]
    runner: Option<PathBuf>,
}

pub fn judge(arguments: &Arguments, environment: &Environment) -> Result<()> {
    if let Some(library) = &arguments.runner {
        // SAFETY: the judge that started this process passed its socket, and no other code of this process has used it.
        return unsafe { board_judge::runner::serve(library) }.context("the runner failed");
    }
    let mut tools = tools(environment, arguments.unconfined)?;
    tools.show_times = arguments.times.then_some(|text| eprint!("{text}"));
    if let Some(name) = &arguments.warm_up {
        let gpu = Gpu::find(name).with_context(|| format!("unknown GPU {name:?}"))?;
        let limit = std::time::Duration::from_secs(300);
        return Compiler::new(&tools, gpu.target, limit).warm_up().context("cannot warm up the compiler");
    }
    let input = BufReader::new(std::io::stdin().lock().take(MOST_BYTES));
    let mut messages = Deserializer::from_reader(input).into_iter::<Value>();
    let job = messages.next().context("standard input is empty; a job is expected")?;
    let job: Job =
        job.and_then(serde_json::from_value).context("standard input is not a valid job in JSON")?;
    let mut request = || {
        print_line(DEVICE_REQUEST.to_owned());
        messages.next()?.and_then(serde_json::from_value::<Grant>).ok()
    };
    board_judge::run(&job, &tools, &mut request, &mut |event| {
        if let Ok(line) = serde_json::to_string(&event) {
            print_line(line);
        }
    });
    Ok(())
}

fn print_line(mut line: String) {
    line.push('\n');
    // If the board has closed the pipe, the submission was cancelled.
    let mut output = std::io::stdout().lock();
    if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Locates the toolchain, client library and cache that a judge needs.
pub fn tools(environment: &Environment, unconfined: bool) -> Result<Tools> {
    let toolchain = Toolchain::find(environment.toolchain.as_deref()).context("no kernel compiler found")?;
    let libraries = library::find(environment).context("client library libamdhip64.so.7 not found")?;
    let cache = match environment.board_cache() {
        Some(cache) => cache,
        None => std::env::temp_dir().join("remora-board"),
    };
    let program: std::ffi::OsString = std::env::current_exe()?.into();
    let least = if unconfined { Level::Limited } else { Level::Restricted };
    Ok(Tools {
        toolchain,
        libraries,
        cache,
        runner: vec![program.clone(), "judge".into(), "--runner".into()],
        worker: vec![program, "worker".into(), "--no-config".into()],
        isolation: IsolationRange { least, most: Level::Namespaces },
        show_times: None,
    })
}
