//! `remora version`: the versions of the program, of the protocol and of the HIP libraries that it stands in for.

use anyhow::Result;
use serde_json::json;

use crate::os::library::NAMES;
use crate::output::outln;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn print(arguments: &Arguments) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    #[cfg(unix)]
    let models: Vec<&str> = backend_emulator::MODELS.iter().map(|model| model.key).collect();
    // Software GPUs run on Linux only.
    #[cfg(windows)]
    let models: Vec<&str> = Vec::new();
    if arguments.json {
        let all = json!({
            "version": version,
            "protocol": wire::MAX_VERSION,
            "client_libraries": NAMES,
            "software_gpus": models,
        });
        outln!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    outln!("remora {version}, protocol {}", wire::MAX_VERSION);
    outln!("client libraries: {}", NAMES.join(", "));
    if !models.is_empty() {
        outln!("software GPUs: {}", models.join(", "));
    }
    Ok(())
}
