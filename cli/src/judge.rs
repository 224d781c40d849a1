//! `remora judge`: one submission, read as JSON from standard input; what happens is printed as JSON, an event a line.
//!
//! The board starts one such process for each submission: ending it cancels the submission.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use board_judge::{Apartness, Compiler, Gpu, Job, Level, Toolchain, Tools};

use crate::env::Environment;
use crate::library;

/// A job larger than this is none.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only make ready what the first submission for this GPU would have to wait for
    #[arg(long, value_name = "GPU")]
    warm_up: Option<String>,
    /// Run code of users even where nothing but limits keeps it apart
    #[arg(long)]
    unconfined: bool,
    /// Talk to the device for a judge, through this library
    #[arg(long, value_name = "LIBRARY", hide = true)]
    runner: Option<PathBuf>,
}

pub fn judge(arguments: &Arguments, environment: &Environment) -> Result<()> {
    if let Some(library) = &arguments.runner {
        // SAFETY: the judge that started this process put its socket there, and nothing here has used it.
        return unsafe { board_judge::runner::serve(library) }.context("the runner failed");
    }
    let tools = tools(environment, arguments.unconfined)?;
    if let Some(name) = &arguments.warm_up {
        let gpu = Gpu::find(name).with_context(|| format!("there is no GPU {name:?}"))?;
        let limit = std::time::Duration::from_secs(300);
        return Compiler::new(&tools, gpu.target, limit)
            .warm_up()
            .context("the compiler could not be made ready");
    }
    let mut text = Vec::new();
    std::io::stdin().take(MOST_BYTES).read_to_end(&mut text).context("no job on standard input")?;
    let job: Job = serde_json::from_slice(&text).context("what is on standard input is no job")?;
    board_judge::run(&job, &tools, &mut |event| {
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        // Whoever does not listen any more has cancelled.
        let mut output = std::io::stdout().lock();
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            std::process::exit(1);
        }
    });
    Ok(())
}

/// Finds what a judge works with.
pub fn tools(environment: &Environment, unconfined: bool) -> Result<Tools> {
    let toolchain =
        Toolchain::find(environment.toolchain.as_deref()).context("there is no compiler of kernels")?;
    let libraries =
        library::find(environment).context("the client library libamdhip64.so.7 was not found")?;
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
        apartness: Apartness { least, most: Level::Namespaces },
    })
}
