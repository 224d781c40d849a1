//! Runs our own programs that test a library case by case, and parses their output: `ok NAME`, `wrong NAME: REASON`, then `END`.

use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a program.
const LIMIT: Duration = Duration::from_secs(1800);
const POLL: Duration = Duration::from_millis(50);

/// The results of one program.
#[derive(Debug)]
pub struct Outcome {
    pub title: String,
    pub right: u64,
    /// Failed cases, each with its reason.
    pub wrong: Vec<String>,
    pub time: Duration,
}

/// Runs a program to its end, with its output in `log`.
pub fn run(title: &str, command: &mut Command, log: &Path) -> Result<Outcome> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let started = Instant::now();
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", step::command_line(command)))?;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status.to_string();
        }
        if started.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            break format!("timeout after {} s", LIMIT.as_secs());
        }
        std::thread::sleep(POLL);
    };
    let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    let (right, wrong) = judged(&text, &ended);
    let outcome = Outcome { title: title.to_owned(), right, wrong, time: started.elapsed() };
    let (count, time) = (outcome.wrong.len(), step::seconds(outcome.time));
    step::progress(&format!("{title}: {right} right, {count} wrong, {time}; log: {}", log.display()));
    Ok(outcome)
}

/// Prints the table. A wrong case is an error, and so is a program without a right one.
pub fn finish(outcomes: &[Outcome]) -> Result<()> {
    println!("| program | right | wrong | seconds |\n|---|---:|---:|---:|");
    for Outcome { title, right, wrong, time } in outcomes {
        println!("| {title} | {right} | {} | {:.0} |", wrong.len(), time.as_secs_f64());
    }
    let wrong: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| outcome.wrong.iter().map(|case| format!("{}: {case}", outcome.title)))
        .collect();
    if outcomes.is_empty() {
        bail!("no case was run");
    }
    if !wrong.is_empty() {
        bail!("{} cases are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(())
}

/// Returns the number of right cases and the wrong ones. A program that does not finish counts as wrong.
fn judged(text: &str, ended: &str) -> (u64, Vec<String>) {
    let right = text.lines().filter(|line| line.starts_with("ok ")).count() as u64;
    let mut wrong: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("wrong ")).map(str::to_owned).collect();
    if !text.lines().any(|line| line == "END") {
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        wrong.push(format!("the program itself ({ended}): {last}"));
    } else if right == 0 && wrong.is_empty() {
        wrong.push("the program itself: it ran no cases".to_owned());
    } else if wrong.is_empty() && ended != "exit status: 0" {
        wrong.push(format!("the program itself ({ended}), after its last case"));
    }
    (right, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_and_those_that_are_wrong_named() {
        let text = "noise\nok one\nok two\nwrong three: it is 4\nEND\n";
        assert_eq!(judged(text, "exit status: 1"), (2, vec!["three: it is 4".to_owned()]));
        assert_eq!(judged("ok one\nEND\n", "exit status: 0"), (1, vec![]));
    }

    #[test]
    fn a_program_that_ends_early_or_badly_or_tries_nothing_is_wrong() {
        let (right, wrong) = judged("ok one\nsome text\n", "signal: 11 (SIGSEGV)");
        assert_eq!((right, wrong.len()), (1, 1));
        assert!(wrong[0].contains("SIGSEGV") && wrong[0].contains("some text"), "{}", wrong[0]);
        assert_eq!(judged("ok one\nEND\n", "signal: 6 (SIGABRT)").1.len(), 1);
        assert_eq!(judged("END\n", "exit status: 0").1.len(), 1);
    }
}
