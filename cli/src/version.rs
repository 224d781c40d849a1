//! `remora version`: the versions of the program, of the protocol and of the HIP libraries that it stands in for.

use anyhow::Result;
use backend_emulator::MODELS;
use serde_json::json;

use crate::library;
use crate::output::outln;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn print(arguments: &Arguments) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let models: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
    if arguments.json {
        let all = json!({
            "version": version,
            "protocol": wire::MAX_VERSION,
            "client_libraries": library::SONAMES,
            "software_gpus": models,
        });
        outln!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    outln!("remora {version}, protocol {}", wire::MAX_VERSION);
    outln!("client libraries: {}", library::SONAMES.join(", "));
    outln!("software GPUs: {}", models.join(", "));
    Ok(())
}
