//! `remora config`: prints the effective settings and where each comes from.

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use serde_json::json;
use transport::Address;

use super::Configuration;
use super::options::{self, SERVICES};
use super::settings::SETTINGS;
use crate::env;
use crate::output::outln;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A setting comes from the first of: an option on the command line, an environment variable, the file
$XDG_CONFIG_HOME/remora/config.toml (~/.config/remora/config.toml), the file /etc/remora/config.toml, its default.
REMORA_CONFIG names another file to read instead of both; REMORA_CONFIG=off reads none. docs/configuration.md lists the keys."
)]
pub struct Arguments {
    /// Print JSON: an array of objects with section, key, value and source
    #[arg(long)]
    json: bool,
}

/// A setting with its value.
struct Row {
    section: &'static str,
    key: String,
    value: String,
    source: String,
}

/// Prints the settings. `variable` returns the value of an environment variable that is set.
pub fn show(
    arguments: &Arguments,
    configuration: &Configuration,
    command: &clap::Command,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<()> {
    let rows = rows(configuration, command, variable);
    if arguments.json {
        let row = |row: &Row| json!({ "section": row.section, "key": row.key, "value": row.value, "source": row.source });
        let rows: Vec<serde_json::Value> = rows.iter().map(row).collect();
        outln!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    for file in &configuration.files {
        outln!("read: {}", file.path.display());
    }
    for path in &configuration.absent {
        outln!("not found: {}", path.display());
    }
    if configuration.files.is_empty() && configuration.absent.is_empty() {
        outln!("no file is read: REMORA_CONFIG=off (the system's file is {})", env::system_file().display());
    }
    let width = |text: fn(&Row) -> usize| rows.iter().map(text).max().unwrap_or(0);
    let (keys, values) = (width(|row| row.key.len()), width(|row| row.value.len().min(48)));
    let mut section = None;
    for row in &rows {
        if section.replace(row.section) != Some(row.section) {
            let title =
                if row.section.is_empty() { "general".to_owned() } else { format!("[{}]", row.section) };
            outln!("\n{title}");
        }
        outln!("  {:keys$}  {:values$}  {}", row.key, row.value, row.source);
    }
    Ok(())
}

fn rows(
    configuration: &Configuration,
    command: &clap::Command,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let from_files = |section: &str, key: &str| {
        let file = configuration.files.iter().find_map(|file| Some((file, file.get(section, key)?)));
        file.map(|(file, entry)| {
            // A URL of an agent contains a token.
            let values: Vec<String> =
                entry.values.iter().map(|value| shown(key, OsStr::new(value))).collect();
            (values.join(", "), file.path.display().to_string())
        })
    };
    for setting in SETTINGS {
        let set = setting.variables.iter().find_map(|name| Some((*name, variable(name)?)));
        let (value, source) = match set {
            Some((name, value)) => (shown(name, &value), name.to_owned()),
            None => from_files(setting.section, setting.key)
                .unwrap_or_else(|| (setting.default.to_owned(), "default".to_owned())),
        };
        rows.push(Row { section: setting.section, key: setting.key.to_owned(), value, source });
    }
    for service in SERVICES {
        for argument in options::known(command, service) {
            let Some(key) = argument.get_long() else { continue };
            let default = || {
                let values = argument.get_default_values();
                let values: Vec<String> =
                    values.iter().map(|value| value.to_string_lossy().into_owned()).collect();
                (if values.is_empty() { "-".to_owned() } else { values.join(", ") }, "default".to_owned())
            };
            let (value, source) = match options::variable(service, key, |name| variable(name).is_some()) {
                Some(name) => (shown(name, &variable(name).unwrap_or_default()), name.to_owned()),
                None => from_files(service, key).unwrap_or_else(default),
            };
            rows.push(Row { section: service, key: key.to_owned(), value, source });
        }
    }
    rows
}

/// The value of a variable. Neither a token nor a URL with one belongs on a screen.
fn shown(name: &str, value: &OsStr) -> String {
    let value = value.to_string_lossy();
    if name.ends_with("_TOKEN") || Address::is_url(&value) {
        return "(secret)".to_owned();
    }
    value.into_owned()
}
