//! `cargo xtask demo`: every example program on software GPUs, in one table.

use crate::build;
use crate::build::Built;
use crate::examples::{self, ARCHITECTURES, Example, Outcome};
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Result, bail};
use std::time::Instant;

pub fn run(repo: &Repo) -> Result<()> {
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments::default())?;
    show(repo, &toolchain, &built)
}

/// The part after setup and build.
pub fn show(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<()> {
    let examples = examples::compile_all(repo, toolchain, built)?;
    let rows = run_everywhere(repo, built, &examples)?;
    println!("{}", table(&rows));
    let wrong = rows.iter().filter(|row| !row.outcome.right).count();
    if wrong > 0 {
        bail!("{wrong} of {} runs failed; their output is in {}", rows.len(), repo.logs().display());
    }
    println!("{} runs of {} programs, all right", rows.len(), examples.len());
    Ok(())
}

struct Row<'a> {
    example: &'a Example,
    architecture: &'static str,
    outcome: Outcome,
}

fn run_everywhere<'a>(repo: &Repo, built: &Built, examples: &'a [Example]) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for &(architecture, device) in ARCHITECTURES {
        let started = Instant::now();
        let worker =
            LocalWorker::start(&built.remora, device, &repo.logs().join(format!("worker-{device}.log")))?;
        step::heading(&format!("running on a software {device} ({architecture}), port {}", worker.port()));
        for (index, example) in examples.iter().enumerate() {
            let log = repo.logs().join(format!("example-{}-{architecture}.log", example.name));
            let outcome = examples::run_one(example, &worker, &built.lib, &log)?;
            let count = format!("[{}/{}]", index + 1, examples.len());
            step::progress(&format!("{count} {} ({})", outcome.line, step::seconds(outcome.time)));
            rows.push(Row { example, architecture, outcome });
        }
        step::progress(&format!("{architecture}: done in {}", step::seconds(started.elapsed())));
    }
    rows.sort_by(|a, b| a.example.name.cmp(&b.example.name).then(a.architecture.cmp(b.architecture)));
    Ok(rows)
}

fn table(rows: &[Row<'_>]) -> String {
    let width = rows.iter().map(|row| row.example.name.len()).max().unwrap_or(0).max("program".len());
    let mut text = format!("\n{:width$}  {:12}  {:6}  {:>8}\n", "program", "architecture", "result", "time");
    text.push_str(&format!("{:-<width$}  {:-<12}  {:-<6}  {:-<8}\n", "", "", "", ""));
    for row in rows {
        let result = if row.outcome.right { "right" } else { "wrong" };
        let time = step::seconds(row.outcome.time);
        text.push_str(&format!(
            "{:width$}  {:12}  {result:6}  {time:>8}\n",
            row.example.name, row.architecture
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    #[test]
    fn the_table_has_a_line_for_every_run() {
        let example = Example { name: "saxpy".into(), program: PathBuf::new() };
        let outcome = |right| Outcome { right, line: String::new(), time: Duration::from_millis(1250) };
        let rows = [
            Row { example: &example, architecture: "gfx90a", outcome: outcome(true) },
            Row { example: &example, architecture: "gfx942", outcome: outcome(false) },
        ];
        let text = table(&rows);
        assert!(text.contains("saxpy    gfx90a        right      1.2 s"), "{text}");
        assert!(text.contains("saxpy    gfx942        wrong      1.2 s"), "{text}");
    }
}
