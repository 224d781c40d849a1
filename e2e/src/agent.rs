//! Starts a node agent on a free loopback port for a test, and sends requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use transport::Endpoint;
use transport::tls::{self, Identity, Trust};

use crate::{Ended, Marker, Running, artefact};

/// An agent with one software GPU of 1 GiB. All processes it started are killed with it.
#[derive(Debug)]
pub struct Agent {
    pub process: Option<Running>,
    pub address: String,
    pub token: String,
    pub marker: Marker,
    pub folder: tempfile::TempDir,
}

impl Agent {
    pub fn start() -> Agent {
        Agent::with(&["--software", "mi300x=1G"])
    }

    /// Like [`Agent::start`], with additional arguments.
    pub fn with(arguments: &[&str]) -> Agent {
        let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
        let (process, address) = Agent::listening(Agent::command(folder.path(), &marker).args(arguments));
        let token = std::fs::read_to_string(folder.path().join("api-token")).unwrap().trim().to_owned();
        Agent { process: Some(process), address, token, marker, folder }
    }

    pub fn reader(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("read-token")).unwrap().trim().to_owned()
    }

    /// The agent's self-signed certificate.
    pub fn certificate(&self) -> Identity {
        let file = |name: &str| self.folder.path().join(name);
        Identity::from_files(&file("tls-cert.pem"), &file("tls-key.pem")).unwrap()
    }

    /// Starts an agent that offers the GPUs of a provider library.
    pub fn with_provider(library: &Path, gpus: &str) -> Agent {
        let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
        let mut command = Agent::command(folder.path(), &marker);
        command.arg("--provider").arg(library).env("REMORA_SOFTWARE_GPUS", gpus).env("REMORA_AMD_SMI", "off");
        let (process, address) = Agent::listening(&mut command);
        let token = std::fs::read_to_string(folder.path().join("api-token")).unwrap().trim().to_owned();
        Agent { process: Some(process), address, token, marker, folder }
    }

    pub fn command(folder: &Path, marker: &Marker) -> Command {
        let mut command = Command::new(artefact::remora());
        command.args(["agent", "--ready", "--listen", "127.0.0.1:0", "--node", "n1"]);
        command.arg("--data").arg(folder).env(Marker::NAME, marker.value());
        command
    }

    pub fn listening(command: &mut Command) -> (Running, String) {
        let process = Running::start(command);
        let line = process.wait_for_line("listening on http");
        (process, line.trim().split_once("://").unwrap().1.to_owned())
    }

    /// Runs a program that calls this agent through the provider library.
    pub fn through_provider(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = Command::new(program);
        command
            .arg(artefact::library_folder().join("libaccelerator_amd.so"))
            .args(arguments)
            .env_clear()
            .env("REMORA_AMD_SMI", "off");
        command.env("REMORA_SOFTWARE_GPUS", "mi300x").env("REMORA_AGENT", self.address());
        command.env("REMORA_AGENT_TOKEN_FILE", self.folder.path().join("api-token"));
        let ended = Running::start(&mut command).finish();
        ended.expect_success();
        ended
    }

    /// The address for programs on this machine, whether the agent serves HTTPS or not.
    pub fn address(&self) -> String {
        format!("unix:{}", self.folder.path().join("agent.sock").display())
    }

    pub fn kill(&mut self) {
        self.end(libc::SIGKILL);
    }

    /// Sends a signal to the agent and waits until it has exited.
    pub fn end(&mut self, signal: libc::c_int) -> Ended {
        let process = self.process.take().unwrap();
        process.signal(signal);
        process.finish()
    }

    pub fn restart(&mut self) {
        self.restart_with(&["--software", "mi300x=1G"]);
    }

    pub fn restart_with(&mut self, arguments: &[&str]) {
        let mut command = Agent::command(self.folder.path(), &self.marker);
        let (process, address) = Agent::listening(command.args(arguments));
        (self.process, self.address) = (Some(process), address);
    }

    pub fn request(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> (u16, Value) {
        self.request_over(TcpStream::connect(&self.address).unwrap(), method, path, token, body)
    }

    /// Like [`Agent::request`], but over HTTPS with the agent's certificate pinned.
    pub fn request_over_tls(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let trust = Trust::Fingerprint(self.certificate().fingerprint());
        let endpoint: Endpoint = format!("tls://{}", self.address).parse().unwrap();
        let patience = Duration::from_secs(30);
        let link = endpoint.connect(patience).unwrap();
        let link = tls::connect(link, "127.0.0.1", tls::client_config(&trust).unwrap(), patience).unwrap();
        self.request_over(&link, method, path, token, body)
    }

    pub fn request_over(
        &self,
        mut stream: impl Read + Write,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        let value = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        (status, value)
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, value) = self.request("GET", path, &self.token, None);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    pub fn allocate(&self, request: Value) -> Value {
        let (status, value) = self.request("POST", "/api/v1/allocations", &self.token, Some(request));
        assert_eq!(status, 201, "{value}");
        value
    }
}
