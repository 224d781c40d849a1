//! `remora judge`: judges one submission. Reads it as JSON from standard input and prints events as JSON, one per line.
//!
//! The board starts one such process per submission. Terminating the process cancels the submission. The exit status is 0 if the last
//! event was printed, whatever the verdict in it, and 1 if there is none.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use board_judge::{Compiler, Gpu, IsolationRange, Job, Level, Toolchain, Tools};

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
    /// Run as the device runner of a judge, with this client library
    #[arg(long, value_name = "LIBRARY", hide = true)]
    runner: Option<PathBuf>,
}

pub fn judge(arguments: &Arguments, environment: &Environment) -> Result<()> {
    if let Some(library) = &arguments.runner {
        // SAFETY: the judge that started this process passed its socket, and no other code of this process has used it.
        return unsafe { board_judge::runner::serve(library) }.context("the runner failed");
    }
    let tools = tools(environment, arguments.unconfined)?;
    if let Some(name) = &arguments.warm_up {
        let gpu = Gpu::find(name).with_context(|| format!("unknown GPU {name:?}"))?;
        let limit = std::time::Duration::from_secs(300);
        return Compiler::new(&tools, gpu.target, limit).warm_up().context("cannot warm up the compiler");
    }
    let mut text = Vec::new();
    std::io::stdin()
        .take(MOST_BYTES)
        .read_to_end(&mut text)
        .context("cannot read the job from standard input")?;
    let job: Job = serde_json::from_slice(&text).context("standard input is not a valid job")?;
    board_judge::run(&job, &tools, &mut |event| {
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        // If the board has closed the pipe, the submission was cancelled.
        let mut output = std::io::stdout().lock();
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            std::process::exit(1);
        }
    });
    Ok(())
}

/// Locates the toolchain, client library and cache that a judge needs.
pub fn tools(environment: &Environment, unconfined: bool) -> Result<Tools> {
    let toolchain = Toolchain::find(environment.toolchain.as_deref()).context("no kernel compiler found")?;
    let libraries = library::find(environment).context("client library libamdhip64.so.7 not found")?;
    let cache = match environment.board_cache() {
        Some(cache) => cache,
        None => std::env::temp_dir().join("remora-board"),
    };
    let least = if unconfined { Level::Limited } else { Level::Restricted };
    Ok(Tools {
        toolchain,
        libraries,
        cache,
        runner: vec![std::env::current_exe()?.into(), "judge".into(), "--runner".into()],
        isolation: IsolationRange { least, most: Level::Namespaces },
    })
}
