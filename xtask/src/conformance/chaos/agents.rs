//! Two agents with a software GPU each. Their allocations move from one to the other and back.

use super::listening::Listening;
use crate::agent_api;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const AGENTS: usize = 2;

/// An agent, and its folder.
#[derive(Debug)]
struct Agent {
    process: Listening,
    data: PathBuf,
}

/// Both agents.
#[derive(Debug)]
pub struct Agents {
    remora: PathBuf,
    folder: PathBuf,
    agents: Vec<Agent>,
}

impl Agents {
    /// Starts the agents, with an allocation each.
    pub fn start(remora: &Path, folder: &Path) -> Result<Agents> {
        let mut agents = Agents { remora: remora.to_owned(), folder: folder.to_owned(), agents: Vec::new() };
        for index in 0..AGENTS {
            let data = folder.join(format!("agent-{index}"));
            let process = agents.agent(&data, "127.0.0.1:0")?;
            agents.agents.push(Agent { process, data });
            agents.request(index, "POST", "allocations", &json!({ "percent": 40 }).to_string())?;
        }
        Ok(agents)
    }

    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// The URL of an allocation, on whichever agent it is now.
    pub fn url(&self, index: usize) -> Result<String> {
        let mut urls = Vec::new();
        for agent in 0..self.len() {
            let list = self.request(agent, "GET", "allocations", "")?;
            let found = list.as_array().context("no list of allocations")?.iter();
            urls.extend(found.filter_map(|allocation| allocation["url"].as_str().map(str::to_owned)));
        }
        urls.sort();
        ensure!(urls.len() == AGENTS, "{AGENTS} allocations were made, and there are {}", urls.len());
        Ok(urls.swap_remove(index % AGENTS))
    }

    /// Ends an agent with a signal and starts it again.
    pub fn restart(&mut self, index: usize, signal: libc::c_int) -> Result<()> {
        let address = host(&self.agents[index].process.address)?.to_owned();
        self.agents[index].process.end(signal)?;
        self.agents[index].process = self.agent(&self.agents[index].data, &address)?;
        Ok(())
    }

    /// Moves all allocations of an agent to the other one, and makes it available again.
    pub fn drain(&self, index: usize) -> Result<()> {
        let (from, to) = (&self.agents[index], &self.agents[(index + 1) % self.len()]);
        let drain = |arguments: &[&str]| {
            let mut command = Command::new(&self.remora);
            command.args(["agent", "drain", "--data"]).arg(&from.data).args(arguments);
            let output = command.output().context("cannot run `remora agent drain`")?;
            let text = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "remora agent drain {}: {text}", arguments.join(" "));
            Ok(())
        };
        let token = to.data.join("api-token").display().to_string();
        drain(&["--to", &to.process.address, "--to-token-file", &token])?;
        drain(&["--cancel"])
    }

    fn request(&self, index: usize, method: &str, path: &str, body: &str) -> Result<Value> {
        let Agent { process, data } = &self.agents[index];
        let token = fs::read_to_string(data.join("api-token")).context("an agent without a token")?;
        agent_api::request(host(&process.address)?, token.trim(), method, path, body)
    }

    fn agent(&self, data: &Path, listen: &str) -> Result<Listening> {
        let mut command = Command::new(&self.remora);
        command.args(["agent", "--ready", "--save-sessions", "--node", "chaos", "--software", "mi300x=1G"]);
        command.args(["--listen", listen, "--data"]).arg(data);
        Listening::start(&mut command, &self.folder.join("agents.log"))
    }
}

impl Drop for Agents {
    /// The workers of an agent end with it only if it is terminated.
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.process.end(libc::SIGTERM);
        }
    }
}

/// `HOST:PORT` of an agent.
fn host(address: &str) -> Result<&str> {
    address.strip_prefix("http://").context("an agent without an address")
}
