//! `remora harness`: prints a stand-alone program that checks and benchmarks one solution, for machines without Remora.

use anyhow::{Context, Result, bail};
use board_problems::{Dtype, Shape};
use std::path::{Path, PathBuf};

use crate::output::{out, outln};

/// Maximum size of a solution in bytes.
const MAX_SOURCE_BYTES: u64 = 256 << 10;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Problem, such as leaky-relu; without it, all problems are listed
    problem: Option<String>,
    /// Element type, such as float32 or bfloat16 [default: the problem's first type]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Source file with the function `solution`, which is included in the program; without it the program must be linked with one
    #[arg(long, value_name = "FILE")]
    solution: Option<PathBuf>,
    /// Print starter code for a solution instead of the harness
    #[arg(long, conflicts_with = "solution")]
    starter: bool,
}

pub fn print(arguments: &Arguments) -> Result<()> {
    let Some(name) = &arguments.problem else {
        for problem in board_problems::all() {
            let dtypes: Vec<&str> = problem.dtypes.iter().map(|dtype| dtype.name()).collect();
            outln!("{:26} {:7} {}", problem.slug, problem.difficulty.name(), dtypes.join(" "));
        }
        return Ok(());
    };
    let problem = board_problems::find(name)
        .with_context(|| format!("unknown problem {name}; `remora harness` lists all problems"))?;
    let dtype = match &arguments.dtype {
        None => problem.dtypes[0],
        Some(name) => {
            let known = Dtype::from_name(name).filter(|dtype| problem.dtypes.contains(dtype));
            let Some(dtype) = known else {
                let dtypes: Vec<&str> = problem.dtypes.iter().map(|dtype| dtype.name()).collect();
                bail!(
                    "problem {} does not support the type {name}; supported types: {}",
                    problem.slug,
                    dtypes.join(", ")
                );
            };
            dtype
        }
    };
    if arguments.starter {
        out!("{}", problem.starter(dtype, problem.shape()));
        return Ok(());
    }
    let source = arguments.solution.as_deref().map(read).transpose()?;
    if let (Some(path), Some(source)) = (&arguments.solution, &source)
        && Shape::of(source).is_none_or(|shape| !problem.permits(shape))
    {
        bail!("{} does not define `{}`", path.display(), problem.signature(dtype, problem.shape()));
    }
    out!("{}", board_problems::harness(problem, dtype, source.as_deref())?);
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let length = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    if length > MAX_SOURCE_BYTES {
        bail!("{shown} has {length} bytes; the limit is {MAX_SOURCE_BYTES}");
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))
}
