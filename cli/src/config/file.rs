//! One configuration file: TOML, with values checked and paths made absolute.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use toml::{Table, Value};

use super::options::{self, SERVICES};
use super::settings::SETTINGS;

/// Maximum size of a file in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A configuration file.
#[derive(Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub entries: Vec<Entry>,
}

/// A key of a section with its values as text.
#[derive(Debug)]
pub struct Entry {
    /// Empty for keys before the first section.
    pub section: &'static str,
    pub key: String,
    /// One value, or those of an array.
    pub values: Vec<String>,
    pub is_array: bool,
    /// `true` and `false` without quotes.
    pub switch: Option<bool>,
}

impl ConfigFile {
    /// Parses a file. Unknown keys and values of the wrong kind are errors.
    pub fn parse(
        path: &Path,
        text: &str,
        home: Option<&PathBuf>,
        command: &clap::Command,
    ) -> Result<ConfigFile> {
        ensure!(text.len() <= MAX_BYTES, "{} bytes are too many; the limit is {MAX_BYTES}", text.len());
        let table: Table =
            toml::from_str(text).map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut entries = Vec::new();
        for (name, value) in &table {
            let Value::Table(section) = value else {
                entries.push(entry("", name, value, folder, home, command)?);
                continue;
            };
            let known = std::iter::once("client").chain(SERVICES.iter().copied());
            let Some(known) = known.clone().find(|known| known == name) else {
                bail!("unknown section [{name}]{}", nearest(name, known));
            };
            for (key, value) in section {
                entries.push(entry(known, key, value, folder, home, command)?);
            }
        }
        Ok(ConfigFile { path: path.to_owned(), entries })
    }

    /// The entry with this key.
    pub fn get(&self, section: &str, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.section == section && entry.key == key)
    }
}

/// Checks one key and converts its value.
fn entry(
    section: &'static str,
    key: &str,
    value: &Value,
    folder: &Path,
    home: Option<&PathBuf>,
    command: &clap::Command,
) -> Result<Entry> {
    let shown = if section.is_empty() { key.to_owned() } else { format!("[{section}] {key}") };
    let is_path = match SERVICES.contains(&section) {
        true => {
            let known = options::known(command, section);
            let Some(argument) = known.iter().find(|argument| argument.get_long() == Some(key)) else {
                let names = known.iter().filter_map(|argument| argument.get_long());
                bail!("unknown key {shown}{}", nearest(key, names));
            };
            options::is_path(argument)
        }
        false => {
            let in_section = || SETTINGS.iter().filter(|setting| setting.section == section);
            let Some(setting) = in_section().find(|setting| setting.key == key) else {
                let sections = std::iter::once("client").chain(SERVICES.iter().copied());
                let others = sections.filter(|_| section.is_empty());
                bail!("unknown key {shown}{}", nearest(key, in_section().map(|it| it.key).chain(others)));
            };
            setting.is_path
        }
    };
    let (list, is_array) = match value {
        Value::Array(list) => (&list[..], true),
        single => (std::slice::from_ref(single), false),
    };
    let text = |value: &Value| match value {
        Value::String(text) if is_path => Ok(absolute(text, folder, home)),
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is_on) => Ok(if *is_on { "1" } else { "0" }.to_owned()),
        other => bail!("{shown}: a {} is not a value of a setting", other.type_str()),
    };
    let values = list.iter().map(text).collect::<Result<Vec<String>>>()?;
    let known_list = SERVICES.contains(&section);
    ensure!(known_list || !is_array, "{shown} has one value, not an array");
    let switch = value.as_bool();
    Ok(Entry { section, key: key.to_owned(), values, is_array, switch })
}

/// A path of the file: relative to its folder; `~/` is the home folder.
fn absolute(text: &str, folder: &Path, home: Option<&PathBuf>) -> String {
    // A certificate can be given by its fingerprint, and an address by its scheme.
    if text.starts_with("sha256:") || text.is_empty() {
        return text.to_owned();
    }
    let path = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(text),
    };
    path.display().to_string()
}

/// `; did you mean X?` if a known name resembles the unknown one, else the list of all.
fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let unknown = unknown.to_lowercase().replace('_', "-");
    // The first finds shortened names, the second swapped letters in short ones.
    let likeness = |name: &str| {
        strsim::jaro_winkler(name, &unknown).max(strsim::normalized_damerau_levenshtein(name, &unknown))
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|best| likeness(best) > 0.65) {
        Some(best) => format!("; did you mean {best}?"),
        None => format!("; known are {}", known.join(", ")),
    }
}
