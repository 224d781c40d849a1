//! Configuration files: settings of the client, and options of `worker` and `serve`. An option on the command line comes first,
//! then the environment, then the user's file, then the system's file, then the default.

mod file;
mod options;
mod settings;
mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use file::ConfigFile;
pub use settings::Variables;
pub use show::{Arguments, show};

/// Which files to read, from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// `REMORA_CONFIG=off`.
    Off,
    /// `REMORA_CONFIG`: only this file, which must exist.
    Named(PathBuf),
    /// The files that exist, the most important first.
    Usual(Vec<PathBuf>),
}

/// The configuration files of this process, the most important first.
#[derive(Debug, Default)]
pub struct Configuration {
    files: Vec<ConfigFile>,
    /// Files that do not exist.
    absent: Vec<PathBuf>,
}

impl Configuration {
    /// Reads the files and checks their keys against the settings and the options of `command`.
    pub fn read(files: &Files, home: Option<&PathBuf>, command: &clap::Command) -> Result<Configuration> {
        let (paths, required) = match files {
            Files::Off => (&[][..], false),
            Files::Named(path) => (std::slice::from_ref(path), true),
            Files::Usual(paths) => (&paths[..], false),
        };
        let mut configuration = Configuration::default();
        for path in paths {
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if is_absent(path, &error) && !required => {
                    configuration.absent.push(path.clone());
                    continue;
                }
                Err(error) => {
                    let hint = if required { " (named by REMORA_CONFIG)" } else { "" };
                    return Err(error).with_context(|| format!("cannot read {}{hint}", path.display()));
                }
            };
            let file = ConfigFile::parse(path, &text, home, command);
            configuration.files.push(file.with_context(|| format!("configuration file {}", path.display()))?);
        }
        Ok(configuration)
    }

    /// The settings as values of environment variables. `is_set` says which variables the environment has; they come first.
    pub fn variables(&self, with_client: bool, is_set: impl Fn(&str) -> bool) -> Variables {
        Variables::new(&self.files, with_client, is_set)
    }

    /// The arguments with those options of the files added that the command line and the environment do not set.
    pub fn with_options(
        &self,
        arguments: &[OsString],
        command: &clap::Command,
        matches: &clap::ArgMatches,
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Vec<OsString>> {
        options::add(&self.files, arguments, command, matches, is_set)
    }

    /// The paths of the files that were read, for messages.
    pub fn paths(&self) -> String {
        let paths: Vec<String> = self.files.iter().map(|file| file.path.display().to_string()).collect();
        paths.join(" and ")
    }
}

/// Whether there is no such file, or its folder belongs to another user, as the home folder of a service that root starts may.
fn is_absent(path: &Path, error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match error.kind() {
        NotFound => true,
        PermissionDenied => path.metadata().is_err_and(|error| error.kind() == PermissionDenied),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
