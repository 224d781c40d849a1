//! Settings of workers, agents and boards.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Environment;

/// Name prefixes of the variables that session processes inherit. Hostile code in a session can read all of them, so none may be secret.
const EXECUTOR_VARIABLES: &[&str] = &[
    "REMORA_LOG",
    "REMORA_NATIVE",
    "REMORA_LEVEL",
    "REMORA_TEST_",
    "HIP_",
    "HSA_",
    "ROC",
    "AMD_",
    "GPU_",
    "CUDA_",
    "LD_LIBRARY_PATH",
    "RUST_",
    "LANG",
    "LC_",
    "TZ",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "ASAN_",
    "TSAN_",
];

/// What only services use.
#[derive(Clone, Debug, Default)]
pub struct Services {
    dstack_token: Option<String>,
    cache_home: Option<PathBuf>,
    data_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Services {
    /// Reads the settings: texts and paths by the names of their variables.
    pub fn read(text: &dyn Fn(&str) -> Option<String>, path: &dyn Fn(&str) -> Option<PathBuf>) -> Services {
        Services {
            dstack_token: text("DSTACK_TOKEN"),
            cache_home: path("XDG_CACHE_HOME"),
            data_home: path("XDG_DATA_HOME"),
            state_home: path("XDG_STATE_HOME"),
            home: path("HOME"),
        }
    }

    /// Remora's folder below one that a variable sets, or below its usual place in the home folder.
    fn folder(&self, set: &Option<PathBuf>, usual: &str) -> Option<PathBuf> {
        let base = set.clone().or_else(|| Some(self.home.as_ref()?.join(usual)));
        base.map(|base| base.join("remora"))
    }
}

impl Environment {
    /// The variables that session processes inherit.
    pub fn executor_variables(&self) -> Vec<(OsString, OsString)> {
        let is_given = |name: &OsString| {
            let name = name.to_string_lossy();
            EXECUTOR_VARIABLES.iter().any(|start| name.starts_with(start))
        };
        let of_file = ["REMORA_LOG", "REMORA_LOG_FORMAT"]
            .into_iter()
            .filter_map(|name| Some((name.into(), self.file.get(name)?.into())));
        std::env::vars_os().filter(|(name, _)| is_given(name)).chain(of_file).collect()
    }

    /// The token for a dstack server.
    pub fn dstack_token(&self, file: Option<&std::path::Path>) -> Result<Option<String>> {
        let Some(path) = file else { return Ok(self.services.dstack_token.clone()) };
        let token = String::from_utf8(read_token(path)?);
        token.map(Some).with_context(|| format!("token file {} is not text", path.display()))
    }

    /// Cache folder of the run-time compiler (hiprtc).
    pub fn compile_cache(&self) -> Option<PathBuf> {
        Some(self.cache()?.join("compile"))
    }

    /// Cache folder of uploads.
    pub fn upload_cache(&self) -> Option<PathBuf> {
        Some(self.cache()?.join("uploads"))
    }

    /// Folder of a board's database.
    pub fn board_data(&self) -> Option<PathBuf> {
        Some(self.services.folder(&self.services.data_home, ".local/share")?.join("board"))
    }

    /// Folder of an agent's state.
    pub fn agent_data(&self) -> Option<PathBuf> {
        Some(self.state()?.join("agent"))
    }

    /// Folder of the sessions that a worker on this port saves when it is terminated.
    pub fn saved_sessions(&self, port: u16) -> Option<PathBuf> {
        Some(self.state()?.join("sessions").join(port.to_string()))
    }

    fn state(&self) -> Option<PathBuf> {
        self.services.folder(&self.services.state_home, ".local/state")
    }

    /// Cache folder of the board's compiled code.
    pub fn board_cache(&self) -> Option<PathBuf> {
        Some(self.cache()?.join("board"))
    }

    fn cache(&self) -> Option<PathBuf> {
        self.services.folder(&self.services.cache_home, ".cache")
    }
}

fn read_token(path: &std::path::Path) -> Result<Vec<u8>> {
    let mut token =
        std::fs::read(path).with_context(|| format!("cannot read token file {}", path.display()))?;
    token.truncate(token.trim_ascii_end().len());
    anyhow::ensure!(!token.is_empty(), "token file {} is empty", path.display());
    Ok(token)
}
