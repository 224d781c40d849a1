//! Runs the commands of a tutorial as a reader would type them, and compares what they print.
//!
//! In a block ```` ```console ````, a line with a prompt (`$ ` or `machine$ `) is a command, a line after it with `> ` continues it, and the
//! other lines are its output; `[exit 1]` at the end is its status, if not 0. All commands of a page run in one shell, in an empty folder. An output line that is `...` stands for any lines, and `...` inside a line for
//! any text. A block ```` ```hip name.hip ```` (or any language with a file name) is written to that file. Commands in a comment
//! `<!-- run: command -->` run too, but readers do not see them; `<!-- here: name = value -->` replaces a name of the page, such as that
//! of another machine, by one that exists where the test runs.

use crate::env;
use crate::step;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of all commands of a page.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Separates the output of commands; followed by the exit status.
const MARK: &str = "\u{1e}status ";

/// A part of a page that is executed.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Command { line: usize, command: String, expected: Vec<String> },
    File { name: String, text: String },
}

/// Runs a page with these folders first on the PATH, and the packages of a folder for Python; returns the number of commands.
pub fn run(page: &Path, scratch: &Path, path: &[PathBuf], packages: &Path) -> Result<usize> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let actions = parse(&text);
    let started = Instant::now();
    if scratch.exists() {
        fs::remove_dir_all(scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    }
    fs::create_dir_all(scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    let (mut script, mut commands) = (String::new(), Vec::new());
    for action in &actions {
        match action {
            Action::File { name, text } => {
                ensure!(
                    !name.contains('/') && !name.contains('\''),
                    "{}: bad file name {name}",
                    page.display()
                );
                script.push_str(&format!("cat > '{name}' <<'END_OF_FILE'\n{text}END_OF_FILE\n"));
            }
            Action::Command { command, .. } => {
                script.push_str(&format!("{command}\nprintf '\\n%s%s\\n' $'\\x1estatus ' $?\n"));
                commands.push(action);
            }
        }
    }
    ensure!(!commands.is_empty(), "{} has no commands", page.display());
    let output = shell(&script, scratch, path, packages).with_context(|| format!("{}", page.display()))?;
    let mut rest = output.as_str();
    for action in commands {
        let Action::Command { line, command, expected } = action else { continue };
        let at = format!("{}:{line}: `{command}`", page.display());
        let Some((said, after)) = rest.split_once(MARK) else { bail!("{at} did not end:\n{rest}") };
        let (status, after) = after.split_once('\n').unwrap_or((after, ""));
        rest = after;
        let (wanted, lines) = match expected.last().and_then(|last| exit_status(last)) {
            Some(status) => (status, &expected[..expected.len() - 1]),
            None => (0, &expected[..]),
        };
        ensure!(status.trim() == wanted.to_string(), "{at} ended with {status}, not {wanted}:\n{said}");
        // The mark follows an empty line, in case the last line of the output has no end.
        let said: Vec<&str> = said.strip_suffix('\n').unwrap_or(said).lines().collect();
        ensure!(
            matches(lines, &said),
            "{at} printed\n{}\nthe page says\n{}",
            said.join("\n"),
            lines.join("\n")
        );
    }
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    let count = actions.iter().filter(|action| matches!(action, Action::Command { .. })).count();
    step::progress(&format!("{name}: {count} commands in {}", step::seconds(started.elapsed())));
    Ok(count)
}

/// Runs a script and returns its output, standard error included. Everything it has started is killed at the end.
fn shell(script: &str, scratch: &Path, path: &[PathBuf], packages: &Path) -> Result<String> {
    let path =
        std::env::join_paths(path.iter().chain(&env::path())).context("a folder on the PATH has a colon")?;
    let (file, log) = (scratch.join(".script"), scratch.join(".output"));
    fs::write(&file, script).context("cannot write the script")?;
    let output = fs::File::create(&log).context("cannot write the output")?;
    let mut command = Command::new("bash");
    command.arg(&file).current_dir(scratch).env("PATH", path).env("HOME", scratch);
    for name in env::remora_variables() {
        command.env_remove(name);
    }
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    let mut child = command.spawn().context("cannot start bash")?;
    let group = child.id() as libc::pid_t;
    let started = Instant::now();
    let ended = loop {
        if child.try_wait()?.is_some() {
            break true;
        }
        if started.elapsed() > TIME_LIMIT {
            break false;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // SAFETY: kill takes no pointers; the group is that of our child, and its id is not reused while a process of it exists.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    child.wait()?;
    let output = fs::read(&log).context("cannot read the output")?;
    let output = String::from_utf8_lossy(&output).into_owned();
    ensure!(ended, "timeout after {}:\n{output}", step::seconds(TIME_LIMIT));
    Ok(output)
}

/// The commands and files of a page.
fn parse(page: &str) -> Vec<Action> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut actions = Vec::new();
    let mut block: Option<(String, String)> = None;
    for (index, line) in page.lines().enumerate() {
        if let Some(fence) = line.strip_prefix("```") {
            block = match block.take() {
                Some((info, text)) => {
                    if let Some((_, name)) = info.split_once(' ') {
                        actions.push(Action::File { name: name.to_owned(), text: here(&text, &names) });
                    }
                    None
                }
                None => Some((fence.to_owned(), String::new())),
            };
            continue;
        }
        if let Some((info, text)) = &mut block {
            text.push_str(line);
            text.push('\n');
            if info == "console" {
                add_line(&mut actions, index + 1, &here(line, &names));
            }
        } else if let Some(command) = comment(line, "run") {
            let command = here(command, &names);
            actions.push(Action::Command { line: index + 1, command, expected: vec!["...".to_owned()] });
        } else if let Some((name, value)) = comment(line, "here").and_then(|it| it.split_once('=')) {
            names.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    actions
}

/// Adds a line of a console block: a command, the continuation of one, or output of the last one.
fn add_line(actions: &mut Vec<Action>, number: usize, line: &str) {
    if let Some(Action::Command { command, expected, .. }) = actions.last_mut()
        && expected.is_empty()
        && (command.ends_with('\\') || line.starts_with("> "))
    {
        command.push('\n');
        command.push_str(line.strip_prefix("> ").unwrap_or(line));
        return;
    }
    if let Some((machine, command)) = line.split_once("$ ")
        && machine.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    {
        actions.push(Action::Command { line: number, command: command.to_owned(), expected: Vec::new() });
    } else if let Some(Action::Command { expected, .. }) = actions.last_mut() {
        expected.push(line.to_owned());
    }
}

/// The text of a comment `<!-- kind: text -->`.
fn comment<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let text = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    text.strip_prefix(kind)?.strip_prefix(": ")
}

fn here(text: &str, names: &[(String, String)]) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// `[exit 1]` after the output of a command that fails.
fn exit_status(line: &str) -> Option<i32> {
    line.strip_prefix("[exit ")?.strip_suffix(']')?.parse().ok()
}

/// Whether lines match those of the page.
fn matches(expected: &[String], found: &[&str]) -> bool {
    match (expected.split_first(), found.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "..." => {
            (0..=found.len()).any(|skipped| matches(rest, &found[skipped..]))
        }
        (Some((wanted, wanted_rest)), Some((line, found_rest))) => {
            line_matches(wanted, line) && matches(wanted_rest, found_rest)
        }
        _ => false,
    }
}

fn line_matches(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_files_and_hidden_commands_are_found_in_order() {
        let page = "# Page\n<!-- here: gpu-machine = 127.0.0.1 -->\n```hip a.hip\nint main;\n```\n```console\ngpu-machine$ ls \\\n  a.hip\na.hip\n\
                    $ for x in 1; do\n> true\n> done\n$ ping gpu-machine\n```\n<!-- run: true -->\n```\n$ not run\n```\n";
        let command = |line, command: &str, expected: &[&str]| Action::Command {
            line,
            command: command.to_owned(),
            expected: expected.iter().map(|&it| it.to_owned()).collect(),
        };
        // The prompt of another machine is a name of this one.
        let page = page.replace("gpu-machine$ ls", "gpu$ ls");
        assert_eq!(
            parse(&page),
            [
                Action::File { name: "a.hip".to_owned(), text: "int main;\n".to_owned() },
                command(7, "ls \\\n  a.hip", &["a.hip"]),
                command(10, "for x in 1; do\ntrue\ndone", &[]),
                command(13, "ping 127.0.0.1", &[]),
                command(15, "true", &["..."]),
            ]
        );
    }

    #[test]
    fn dots_stand_for_any_text_and_any_lines() {
        let matches = |expected: &[&str], found: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|&it| it.to_owned()).collect();
            matches(&expected, found)
        };
        assert!(matches(&["a", "...", "z"], &["a", "b", "c", "z"]) && matches(&["a", "..."], &["a"]));
        assert!(matches(&["in ... ms", "x"], &["in 3.1 ms", "x"]) && matches(&["took..."], &["took 3"]));
        assert!(
            !matches(&["a"], &["a", "b"]) && !matches(&["in ... ms"], &["in 3.1 s"]) && !matches(&["a"], &[])
        );
    }

    #[test]
    fn a_page_whose_output_or_status_differs_fails() {
        let folder = std::env::temp_dir().join(format!("tutorial-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = folder.join("page.md");
        let run = |text: &str| {
            fs::write(&page, text).unwrap();
            run(&page, &folder.join("scratch"), &[], &folder)
        };
        assert_eq!(
            run("```console\n$ echo a; sleep 100 &\na\n$ x=3\n$ echo $x; false\n3\n[exit 1]\n```\n").unwrap(),
            3
        );
        for wrong in ["$ echo b\na\n", "$ false\n", "$ true\n[exit 1]\n", "$ exit\n"] {
            assert!(run(&format!("```console\n{wrong}```\n")).is_err(), "{wrong}");
        }
        assert!(run("no commands\n").is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
