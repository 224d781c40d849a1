//! `remora agent drain`: moves the allocations of a machine to another one.

use std::io::Write;
use std::path::PathBuf;

use agent::{AgentUrl, RemoteAgent};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::env::Environment;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  remora agent drain --to https://gpu8:8001?pin=sha256:91ce... --to-token-file gpu8.token
  remora agent drain                    refuse new allocations, and leave the others where they are
  remora agent drain --cancel           accept allocations again

Allocations keep their id, token and limits. Programs that run are redirected and notice a pause; those that start later need the new
URL. An allocation that cannot move stays as it was, with the reason. See docs/agent.md for more.")]
pub struct Arguments {
    /// Agent that gets the allocations: http://HOST:PORT, or https://HOST:PORT?pin=sha256:DIGITS with the fingerprint of its
    /// certificate, which it logs when it starts. Without it, only new allocations are refused
    #[arg(long, value_name = "URL")]
    to: Option<AgentUrl>,
    /// File with the administrator token of that agent [default: the token that is used for this one]
    #[arg(long, value_name = "FILE", requires = "to")]
    to_token_file: Option<PathBuf>,
    /// Timeout in seconds for the running work of each session to end; after it the session cannot move
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "to")]
    patience: f64,
    /// End the drain: accept allocations again. Allocations that have moved do not return
    #[arg(long, conflicts_with = "to")]
    cancel: bool,
    /// Data folder of the agent to drain [default: remora/agent in XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    data: Option<PathBuf>,
    /// Agent to drain, if it is on another machine: http://HOST:PORT or https://HOST:PORT?pin=sha256:DIGITS
    #[arg(long, value_name = "URL", requires = "token_file")]
    agent: Option<AgentUrl>,
    /// File with the administrator token of the agent to drain [default: api-token in its data folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let agent = agent_to_drain(arguments, environment)?;
    let view = if arguments.cancel {
        agent.request("DELETE", "/api/v1/drain", None, None)?
    } else {
        let body = match &arguments.to {
            Some(to) => {
                let token = match &arguments.to_token_file {
                    Some(file) => token(file)?,
                    None => agent.token.clone(),
                };
                json!({"to": to.full(), "token": token, "patience_s": arguments.patience})
            }
            None => json!({}),
        };
        // The response comes when all allocations have moved, however long that takes.
        agent.request("POST", "/api/v1/drain", Some(&body), None)?
    };
    report(&view)
}

/// Prints what has moved. Fails if something stayed.
fn report(view: &Value) -> Result<()> {
    let mut out = std::io::stdout();
    let list = |name: &str| view[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for it in list("moved") {
        let sessions = it["sessions"].as_array().map_or(0, Vec::len);
        // Without the token, which terminals and logs should not keep.
        let url = text(&it["allocation"]["url"]);
        let place = url.rsplit_once('@').map_or(url.as_str(), |(_, place)| place);
        let place = place.split('?').next().unwrap_or_default();
        writeln!(out, "allocation {} was moved to {place} with {sessions} sessions", text(&it["id"]))?;
    }
    let stayed = list("stayed");
    for it in &stayed {
        writeln!(out, "allocation {} stays: {}", text(&it["id"]), text(&it["error"]))?;
    }
    let left = view["allocations"].as_u64().unwrap_or_default();
    match view["draining"].as_bool() {
        Some(true) => writeln!(out, "new allocations are refused; {left} are left")?,
        _ => writeln!(out, "new allocations are accepted")?,
    }
    if !stayed.is_empty() {
        bail!("{} allocations could not be moved", stayed.len());
    }
    Ok(())
}

fn agent_to_drain(arguments: &Arguments, environment: &Environment) -> Result<RemoteAgent> {
    if let (Some(url), Some(file)) = (&arguments.agent, &arguments.token_file) {
        return Ok(RemoteAgent { url: url.clone(), token: token(file)? });
    }
    let data = arguments.data.clone().or_else(|| environment.agent_data());
    let data = data.context("no data folder: set --data, XDG_STATE_HOME or HOME")?;
    let file = arguments.token_file.clone().unwrap_or_else(|| data.join("api-token"));
    let url = format!("unix:{}", data.join("agent.sock").display());
    Ok(RemoteAgent { url: url.parse()?, token: token(&file)? })
}

fn token(file: &std::path::Path) -> Result<String> {
    let bytes = transport::token::read_file(file)?;
    String::from_utf8(bytes).with_context(|| format!("{} is not a token", file.display()))
}
