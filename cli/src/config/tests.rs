//! Tests of configuration files with the real command line.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory;

use super::*;

fn configuration(text: &str) -> Result<Configuration> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    Configuration::read(&Files::Named(path), Some(&"/home/me".into()), &crate::Arguments::command())
}

/// The arguments of a command line with the options of a file.
fn arguments(file: &str, line: &[&str], set: &[&str]) -> Vec<String> {
    let given: Vec<OsString> =
        std::iter::once("remora").chain(line.iter().copied()).map(OsString::from).collect();
    let command = crate::Arguments::command();
    let matches = command.clone().try_get_matches_from(&given).unwrap();
    let all =
        configuration(file).unwrap().with_options(&given, &command, &matches, |name| set.contains(&name));
    all.unwrap().into_iter().skip(1).map(|word| word.into_string().unwrap()).collect()
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest_known_one() {
    for (text, expected) in [
        ("lgo = 'info'\n", "unknown key lgo; did you mean log?"),
        ("[client]\ntoken_file = 'x'\n", "unknown key [client] token_file; did you mean token-file?"),
        ("[worker]\nmax-session = 3\n", "unknown key [worker] max-session; did you mean max-sessions?"),
        ("[wroker]\n", "unknown section [wroker]; did you mean worker?"),
        ("[client]\nzzz = 1\n", "unknown key [client] zzz; known are admin-token-file, "),
        ("[worker]\nready = true\n", "unknown key [worker] ready"),
        ("[worker]\nexecutor = 1\n", "unknown key [worker] executor"),
        ("[client]\nlinks = [1, 2]\n", "[client] links has one value, not an array"),
        ("log = 1979-05-27\n", "log: a datetime is not a value of a setting"),
        ("log = \n", "config.toml"),
    ] {
        let error = format!("{:#}", configuration(text).unwrap_err());
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_variable_comes_before_the_file() {
    let file =
        configuration("[client]\nworker = 'gpu1:1'\ntls-ca = 'ca.pem'\nlinks = 4\nstrict = true\n").unwrap();
    let none = file.variables(true, |_| false);
    assert_eq!(none.get("REMORA_WORKER"), Some("gpu1:1"));
    assert_eq!((none.get("REMORA_LINKS"), none.get("REMORA_STRICT")), (Some("4"), Some("1")));
    // Any variable that names a worker replaces the file's.
    for variable in ["REMORA_WORKER", "REMORA_URL", "TF_WORKER_HOST"] {
        assert_eq!(file.variables(true, |name| name == variable).get("REMORA_WORKER"), None);
    }
    // A service does not use the client's settings.
    assert_eq!(file.variables(false, |_| false).get("REMORA_WORKER"), None);
    let program: Vec<&str> = none.for_program().map(|(name, _)| name).collect();
    assert_eq!(program, ["REMORA_LINKS", "REMORA_STRICT", "REMORA_TLS_CA"]);
}

#[test]
fn the_users_file_comes_before_the_systems() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        ["user.toml", "system.toml", "absent.toml"].map(|name| folder.path().join(name)).into();
    std::fs::write(&paths[0], "log = 'debug'\n").unwrap();
    std::fs::write(&paths[1], "log = 'error'\nboard = 'http://board'\n").unwrap();
    let both = Configuration::read(&Files::Usual(paths.clone()), None, &crate::Arguments::command()).unwrap();
    let variables = both.variables(true, |_| false);
    assert_eq!(
        (variables.get("REMORA_LOG"), variables.get("REMORA_BOARD")),
        (Some("debug"), Some("http://board"))
    );
    assert_eq!(both.absent, [paths[2].clone()]);
    let error =
        Configuration::read(&Files::Named(paths[2].clone()), None, &crate::Arguments::command()).unwrap_err();
    assert!(error.to_string().contains("REMORA_CONFIG"), "{error}");
}

#[test]
fn paths_are_relative_to_the_file_and_to_the_home_folder() {
    let text = "toolchain = 'tools'\n[client]\ntoken-file = '~/token'\ntls-ca = 'sha256:5a'\n";
    let file = configuration(text).unwrap();
    let variables = file.variables(true, |_| false);
    let toolchain = Path::new(variables.get("REMORA_TOOLCHAIN").unwrap());
    assert!(toolchain.is_absolute() && toolchain.ends_with("tools"), "{}", toolchain.display());
    assert_eq!(variables.get("REMORA_TOKEN_FILE"), Some("/home/me/token"));
    assert_eq!(variables.get("REMORA_TLS_CA"), Some("sha256:5a"));
}

#[test]
fn options_of_the_command_line_and_of_the_environment_come_before_the_file() {
    let file = "[worker]\nlisten = ['127.0.0.1:1', '127.0.0.1:2']\nmax-sessions = 3\ntoken-file = '/t'\nno-upload-cache = true\n\
                tls-self-signed = false\n";
    let every =
        ["worker", "--no-upload-cache", "--max-sessions=3", "--token-file=/t", "--listen=127.0.0.1:1"];
    let added = arguments(file, &["worker"], &[]);
    for option in every.into_iter().chain(["--listen=127.0.0.1:2"]) {
        assert!(added.contains(&option.to_owned()), "{option} in {added:?}");
    }
    assert_eq!(added.len(), 6, "{added:?}");
    let added =
        arguments(file, &["worker", "--listen", "unix:/x", "--max-sessions=9", "--upload-cache=/c"], &[]);
    assert!(!added.iter().any(|word| word.contains("127.0.0.1") || word == "--max-sessions=3"), "{added:?}");
    // The opposite of an option that was given is not added.
    assert!(!added.contains(&"--no-upload-cache".to_owned()), "{added:?}");
    let added = arguments(file, &["worker"], &["REMORA_TOKEN"]);
    assert!(!added.contains(&"--token-file=/t".to_owned()), "{added:?}");
    let added = arguments(file, &["worker", "--tokens=/tokens"], &[]);
    assert!(!added.contains(&"--token-file=/t".to_owned()), "{added:?}");
    // Workers that other commands start, and other commands, have none of them.
    assert_eq!(arguments(file, &["worker", "--no-config"], &[]), ["worker", "--no-config"]);
    assert_eq!(arguments(file, &["devices"], &[]), ["devices"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_an_error() {
    for text in [
        "[worker]\nno-upload-cache = 'yes'\n",
        "[worker]\nmax-sessions = [1, 2]\n",
        "[worker]\nmemory = true\n",
    ] {
        let given = ["remora", "worker"].map(OsString::from);
        let command = crate::Arguments::command();
        let matches = command.clone().try_get_matches_from(&given).unwrap();
        let error =
            configuration(text).unwrap().with_options(&given, &command, &matches, |_| false).unwrap_err();
        assert!(format!("{error:#}").contains("the value must be"), "{text}: {error:#}");
    }
}

#[test]
fn every_key_of_the_files_is_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
    for setting in settings::SETTINGS {
        assert!(
            page.contains(&format!("| `{}` | `{}`", setting.key, setting.variables[0])),
            "{}",
            setting.key
        );
    }
}
