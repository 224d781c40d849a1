//! Runs commands and draws a terminal with their real output. `docs/run.svg` is made so, in a folder with `saxpy` of `examples/hip`
//! and `race` of `e2e/programs`:
//!
//! ```text
//! cargo xtask picture terminal docs/run.svg --folder FOLDER 'ls /dev/kfd' 'remora run -- ./saxpy' \
//!     'remora run --device mi210 -- ./saxpy' 'remora emulate --check -- ./race racy'
//! ```

use crate::bench::svg::escape;
use crate::env;
use crate::repo::Repo;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// SVG file to write
    drawing: PathBuf,
    /// Folder to run the commands in; default: the current one
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Shell commands, with the built `remora` in their PATH
    #[arg(required = true)]
    commands: Vec<String>,
}

const MARGIN: f64 = 20.0;
const TITLE_BAR: f64 = 34.0;
const LINE: f64 = 20.0;
/// The width of a letter, for a font size of 14.
const LETTER: f64 = 8.43;

// The window has its own dark background and border, so that it looks the same on light and dark pages.
const BACKGROUND: &str = "#161b22";
const BORDER: &str = "#484f58";
const OUTPUT: &str = "#c9d1d9";
const COMMAND: &str = "#ffffff";
const PROMPT: &str = "#3fb950";
const BUTTONS: [&str; 3] = ["#ff5f57", "#febc2e", "#28c840"];

/// A command and its output, both streams together.
struct Entry {
    command: String,
    output: String,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    let entries = arguments
        .commands
        .iter()
        .map(|command| execute(repo, &arguments.folder, command))
        .collect::<Result<Vec<_>>>()?;
    fs::write(&arguments.drawing, draw(&entries))
        .with_context(|| format!("cannot write {}", arguments.drawing.display()))
}

fn execute(repo: &Repo, folder: &Path, command: &str) -> Result<Entry> {
    let program = repo.target.join("release");
    let path = std::env::join_paths(std::iter::once(program).chain(env::path()))?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{{ {command}; }} 2>&1")).current_dir(folder).env("PATH", path);
    let output = shell.output().context("cannot start sh")?;
    let output = String::from_utf8(output.stdout).context("the output is not text")?;
    Ok(Entry { command: command.to_owned(), output })
}

fn draw(entries: &[Entry]) -> String {
    let lines: Vec<&str> = entries.iter().flat_map(|entry| entry.output.lines()).collect();
    let longest = entries
        .iter()
        .map(|entry| entry.command.chars().count() + 2)
        .chain(lines.iter().map(|line| line.chars().count()))
        .max()
        .unwrap_or(0);
    let width = 2.0 * MARGIN + longest as f64 * LETTER;
    let count = entries.len() + lines.len();
    let height = TITLE_BAR + count as f64 * LINE + MARGIN;
    let mut body = String::new();
    for (at, colour) in (0..).zip(BUTTONS) {
        let x = MARGIN + 20.0 * f64::from(at);
        let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"18\" r=\"6\" fill=\"{colour}\"/>");
    }
    let mut y = TITLE_BAR;
    let mut line = |markup: &str| {
        y += LINE;
        let _ = writeln!(body, "<text x=\"{MARGIN:.1}\" y=\"{:.1}\">{markup}</text>", y - 2.0);
    };
    for entry in entries {
        let command = escape(&entry.command);
        line(&format!(
            "<tspan fill=\"{PROMPT}\">$</tspan><tspan fill=\"{COMMAND}\" font-weight=\"bold\"> {command}</tspan>"
        ));
        entry.output.lines().for_each(|text| line(&escape(text)));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\" fill=\"{OUTPUT}\">\n<style>text {{ white-space: pre }}</style>\n<rect x=\"0.5\" y=\"0.5\" \
         width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" fill=\"{BACKGROUND}\" stroke=\"{BORDER}\"/>\n{body}</svg>\n",
        width - 1.0,
        height - 1.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_every_line_of_output_are_drawn() {
        let entry = |command: &str, output: &str| Entry { command: command.into(), output: output.into() };
        let svg = draw(&[entry("./a", "PASS a\nk<1> & more\n"), entry("./b", "")]);
        for text in ["> ./a</tspan>", ">PASS a</text>", ">k&lt;1&gt; &amp; more</text>", "> ./b</tspan>"] {
            assert!(svg.contains(text), "{text} in\n{svg}");
        }
        assert_eq!(svg.matches("<text ").count(), 4);
    }
}
