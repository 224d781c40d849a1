//! Settings from environment variables. Only this file of the crate reads the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Which management library of a vendor to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmiChoice {
    /// The first one found in these folders, or by the dynamic loader.
    Search(Vec<PathBuf>),
    /// This file.
    File(PathBuf),
    /// Do not load it.
    Off,
}

/// Memory layout of the topology in generation E.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyForm {
    /// The layout of the C header: 72 bytes per peer.
    Header,
    /// The layout of the Go reader: 80 bytes per peer, with a bandwidth.
    Go,
}

/// Settings of the library.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Root folder of `/sys`, `/proc`, `/etc` and `/opt`.
    pub root: PathBuf,
    /// Which management library of AMD (AMD SMI) is loaded.
    pub smi: SmiChoice,
    /// Which management library of NVIDIA (NVML) is loaded.
    pub nvml: SmiChoice,
    /// Software GPUs: `mi300x`, `mi210*4`.
    pub software: Vec<String>,
    /// The folder of limit files.
    pub limits: Option<PathBuf>,
    /// Address of the Remora agent, and the file with its token.
    pub agent: Option<String>,
    /// The file with the agent's token.
    pub agent_token: Option<PathBuf>,
    /// Whether ROCm folders are offered as mounts for containers.
    pub mounts: bool,
    /// ROCm's folder.
    pub rocm: Option<PathBuf>,
    /// Whether an idle card may be repartitioned.
    pub repartition: bool,
    /// The form of topologies.
    pub topology: TopologyForm,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            root: "/".into(),
            smi: SmiChoice::Off,
            nvml: SmiChoice::Off,
            software: Vec::new(),
            limits: None,
            agent: None,
            agent_token: None,
            mounts: false,
            rocm: None,
            repartition: false,
            topology: TopologyForm::Header,
        }
    }
}

impl Settings {
    /// Reads the environment.
    pub fn from_environment() -> Settings {
        let root = value("REMORA_PROVIDER_ROOT").map(PathBuf::from);
        let rocm = value("ROCM_HOME").or_else(|| value("ROCM_PATH")).map(PathBuf::from);
        let library = |variable: &str, folders: Vec<PathBuf>| match value(variable) {
            Some(word) if word == "off" => SmiChoice::Off,
            Some(file) => SmiChoice::File(file.into()),
            // With another root the library must not be used, because it reports the real machine.
            None if root.is_some() => SmiChoice::Off,
            None => SmiChoice::Search(folders),
        };
        let smi = library("REMORA_AMD_SMI", rocm.iter().map(|rocm| rocm.join("lib")).collect());
        let nvml = library("REMORA_NVML", Vec::new());
        let list = value("REMORA_SOFTWARE_GPUS").unwrap_or_default();
        let names = list.to_string_lossy();
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        Settings {
            root: root.unwrap_or_else(|| "/".into()),
            smi,
            nvml,
            software: names.map(str::to_owned).collect(),
            limits: value("REMORA_LIMITS_DIR").map(PathBuf::from),
            agent: value("REMORA_AGENT").map(|it| it.to_string_lossy().into_owned()),
            agent_token: value("REMORA_AGENT_TOKEN_FILE").map(PathBuf::from),
            mounts: is_on("REMORA_MOUNT_ROCM"),
            rocm,
            repartition: is_on("REMORA_REPARTITION"),
            topology: match value("TF_ACCEL_TOPO_ABI") {
                Some(word) if word == "go" => TopologyForm::Go,
                _ => TopologyForm::Header,
            },
        }
    }

    /// Returns the token file of the agent: the configured one, or an agent's default location.
    pub(crate) fn agent_token(&self) -> &Path {
        self.agent_token.as_deref().unwrap_or(Path::new("/var/lib/remora/api-token"))
    }
}

fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn is_on(name: &str) -> bool {
    value(name).is_some_and(|value| value != "0")
}
