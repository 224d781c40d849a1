//! Options of the services' commands in configuration files: every long option is a key.

use std::ffi::OsString;

use anyhow::{Result, bail, ensure};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::file::{ConfigFile, Entry};

/// The commands whose options can be in a file, in a section with their name. The agent has its own file (`--config`).
pub const SERVICES: &[&str] = &["worker", "serve"];

/// Options that a variable sets too: the variable comes first.
const VARIABLES: &[(&str, &str, &[&str])] = &[
    ("worker", "token-file", &["REMORA_TOKEN", "REMORA_TOKEN_FILE"]),
    ("worker", "toolchain", &["REMORA_TOOLCHAIN"]),
];

/// Options that make no sense in a file.
const EXCLUDED: &[&str] = &["help", "version", "ready", "exit-with-parent"];

/// The options of a service that can be in a file.
pub fn known<'a>(command: &'a Command, service: &str) -> Vec<&'a Arg> {
    let service = command.find_subcommand(service);
    let arguments = service.into_iter().flat_map(Command::get_arguments);
    arguments
        .filter(|argument| {
            !argument.is_hide_set() && argument.get_long().is_some_and(|long| !EXCLUDED.contains(&long))
        })
        .collect()
}

/// Whether the value of an option is a path.
pub fn is_path(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| *name == "FILE" || *name == "DIR")
}

/// The variable that is set and comes before an option of a file.
pub fn variable(service: &str, key: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let row = VARIABLES.iter().find(|row| (row.0, row.1) == (service, key))?;
    row.2.iter().copied().find(|variable| is_set(variable))
}

/// Adds the options of the files to the arguments of a service.
pub fn add(
    files: &[ConfigFile],
    arguments: &[OsString],
    command: &Command,
    matches: &ArgMatches,
    is_set: impl Fn(&str) -> bool,
) -> Result<Vec<OsString>> {
    let mut all = arguments.to_vec();
    let Some((name, given)) = matches.subcommand().filter(|(name, _)| SERVICES.contains(name)) else {
        return Ok(all);
    };
    let Some(service) = command.find_subcommand(name) else { return Ok(all) };
    if given.try_contains_id("no_config").is_ok_and(|known| known) && given.get_flag("no_config") {
        return Ok(all);
    }
    let is_given =
        |argument: &Arg| given.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
    for argument in known(command, name) {
        let Some(key) = argument.get_long() else { continue };
        let Some((file, entry)) = files.iter().find_map(|file| Some((file, file.get(name, key)?))) else {
            continue;
        };
        // A conflict is declared on one of the two options.
        let conflict = |one: &Arg, other: &Arg| {
            service.get_arg_conflicts_with(one).into_iter().any(|it| it.get_id() == other.get_id())
        };
        let is_excluded = service
            .get_arguments()
            .any(|other| is_given(other) && (conflict(argument, other) || conflict(other, argument)));
        if is_given(argument) || is_excluded || variable(name, key, &is_set).is_some() {
            continue;
        }
        let options = options(argument, entry);
        let options =
            options.map_err(|error| error.context(format!("{}: [{name}] {key}", file.path.display())))?;
        // Directly after the command's name, so that `--` or positional arguments stay last.
        all.splice(2.min(all.len())..2.min(all.len()), options);
    }
    Ok(all)
}

/// An entry of a file as options of the command line.
fn options(argument: &Arg, entry: &Entry) -> Result<Vec<OsString>> {
    let key = &entry.key;
    match argument.get_action() {
        ArgAction::SetTrue => match entry.switch {
            Some(true) => Ok(vec![format!("--{key}").into()]),
            Some(false) => Ok(Vec::new()),
            None => bail!("the value must be true or false"),
        },
        ArgAction::Append => Ok(entry.values.iter().map(|value| format!("--{key}={value}").into()).collect()),
        _ => {
            ensure!(!entry.is_array && entry.switch.is_none(), "the value must be a text or a number");
            Ok(entry.values.iter().map(|value| format!("--{key}={value}").into()).collect())
        }
    }
}
