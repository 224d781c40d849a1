//! The settings that environment variables have too.

use super::file::ConfigFile;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    pub section: &'static str,
    pub key: &'static str,
    /// The variable it stands for, then others that come first as well.
    pub variables: &'static [&'static str],
    /// The default, in words.
    pub default: &'static str,
    pub is_path: bool,
    /// Whether `remora run` sets the variable for the program.
    pub for_program: bool,
}

const GENERAL: Setting =
    Setting { section: "", key: "", variables: &[], default: "", is_path: false, for_program: false };
const CLIENT: Setting = Setting { section: "client", for_program: true, ..GENERAL };

/// Every setting, in the order in which `remora config` prints them.
pub const SETTINGS: &[Setting] = &[
    Setting { key: "board", variables: &["REMORA_BOARD"], default: "http://127.0.0.1:3000", ..GENERAL },
    Setting {
        key: "library-dir",
        variables: &["HIP_REMOTE_LIB_DIR"],
        default: "lib near the program",
        is_path: true,
        ..GENERAL
    },
    Setting { key: "log", variables: &["REMORA_LOG"], default: "info for servers, else warn", ..GENERAL },
    Setting { key: "log-format", variables: &["REMORA_LOG_FORMAT"], default: "text", ..GENERAL },
    Setting {
        key: "toolchain",
        variables: &["REMORA_TOOLCHAIN"],
        default: "toolchain near the program, else /opt/rocm",
        is_path: true,
        ..GENERAL
    },
    Setting {
        key: "admin-token-file",
        variables: &["REMORA_ADMIN_TOKEN_FILE", "REMORA_ADMIN_TOKEN"],
        default: "none",
        is_path: true,
        for_program: false,
        ..CLIENT
    },
    Setting { key: "compression", variables: &["REMORA_COMPRESSION"], default: "by measurement", ..CLIENT },
    Setting { key: "connect-timeout", variables: &["REMORA_CONNECT_TIMEOUT"], default: "3", ..CLIENT },
    Setting { key: "links", variables: &["REMORA_LINKS"], default: "by measurement", ..CLIENT },
    Setting { key: "mapped", variables: &["REMORA_MAPPED"], default: "on demand", ..CLIENT },
    Setting { key: "silence-timeout", variables: &["REMORA_SILENCE_TIMEOUT"], default: "12", ..CLIENT },
    Setting { key: "strict", variables: &["REMORA_STRICT"], default: "0", ..CLIENT },
    Setting { key: "tls-ca", variables: &["REMORA_TLS_CA"], default: "none", is_path: true, ..CLIENT },
    Setting {
        key: "token-file",
        variables: &["REMORA_TOKEN_FILE", "REMORA_TOKEN"],
        default: "none",
        is_path: true,
        ..CLIENT
    },
    Setting { key: "upload-cache", variables: &["REMORA_UPLOAD_CACHE"], default: "by measurement", ..CLIENT },
    Setting {
        key: "worker",
        variables: &["REMORA_WORKER", "REMORA_URL", "TF_WORKER_HOST"],
        default: "none: a software GPU for each program",
        ..CLIENT
    },
];

/// Settings of the files as values of environment variables, without those that the environment sets.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: Vec<(&'static Setting, String)>,
}

impl Variables {
    /// `with_client` is false for services: the client's token is not theirs.
    pub fn new(files: &[ConfigFile], with_client: bool, is_set: impl Fn(&str) -> bool) -> Variables {
        let of_file = |setting: &'static Setting| {
            let entry = files.iter().find_map(|file| file.get(setting.section, setting.key))?;
            let value = entry.values.first().filter(|value| !value.is_empty())?;
            Some((setting, value.clone()))
        };
        let values = SETTINGS
            .iter()
            .filter(|setting| with_client || setting.section != "client")
            .filter(|setting| !setting.variables.iter().any(|variable| is_set(variable)))
            .filter_map(of_file);
        Variables { values: values.collect() }
    }

    pub fn get(&self, variable: &str) -> Option<&str> {
        let named = self.values.iter().find(|(setting, _)| setting.variables.first() == Some(&variable));
        named.map(|(_, value)| value.as_str())
    }

    /// Variables to set for a program of `remora run`, in addition to its worker.
    pub fn for_program(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values
            .iter()
            .filter(|(setting, _)| setting.for_program && setting.key != "worker")
            .filter_map(|(setting, value)| Some((*setting.variables.first()?, value.as_str())))
    }
}
