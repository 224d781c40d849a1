//! SSH tunnel to a worker: runs the system's `ssh` with the run's own key, through the hops that dstack reports.
//!
//! The board needs no public address and the machine opens no port: the worker listens only on its container's loopback interface, and
//! `ssh` forwards a Unix socket of the board to it. The host keys of new machines are not known in advance, so they are trusted on first
//! use: the first key is stored alongside the run's own key, and a different key later is refused, also by the next server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::records::{Record, Records, private_file};
use super::run::{Hop, WORKER_PORT, sent_program};
use crate::config::DstackConfig;

/// Polling interval until the worker answers.
const LOOK: Duration = Duration::from_millis(500);
/// Timeout of one probe.
const PROBE: Duration = Duration::from_secs(30);
/// Timeout of the program upload.
const SEND: Duration = Duration::from_secs(600);
/// Most bytes shown of `ssh`'s messages.
const LAST_WORDS: u64 = 2000;
/// Host name of the container in the `ssh` configuration.
const CONTAINER: &str = "container";

/// Error of a tunnel.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// Temporary; may be retried.
    #[error("{0}")]
    NotYet(String),
    #[error("a machine on the path to the run has a different host key than before")]
    Stranger,
}

impl From<String> for TunnelError {
    fn from(words: String) -> TunnelError {
        // Messages of `ssh`, which are not translated.
        if words.contains("HOST IDENTIFICATION HAS CHANGED") || words.contains("Host key verification failed")
        {
            return TunnelError::Stranger;
        }
        TunnelError::NotYet(words)
    }
}

/// An open tunnel. Dropping it closes it.
#[derive(Debug)]
pub struct Tunnel {
    child: Child,
    socket: PathBuf,
}

impl Tunnel {
    /// Opens a tunnel, uploads the program if the image does not contain it, and waits until the worker answers.
    pub async fn open(
        config: &DstackConfig,
        records: &Records,
        record: &Record,
        hops: &[Hop],
        socket: &Path,
    ) -> Result<Tunnel, TunnelError> {
        let file = records.folder_of(&record.name).join("ssh_config");
        let text = ssh_config(hops, &records.key(&record.name), &records.known_hosts(&record.name))?;
        private_file(&file, text.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
        if config.program.is_none() {
            send(config, &file, record).await?;
        }
        if let Some(folder) = socket.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = ssh(&config.ssh, &file);
        command.args(["-N", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes", "-L"]);
        let mut forward = socket.as_os_str().to_owned();
        forward.push(format!(":127.0.0.1:{WORKER_PORT}"));
        command.arg(forward).arg(CONTAINER).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| not_started(&config.ssh, &error))?;
        let mut tunnel = Tunnel { child, socket: socket.to_owned() };
        loop {
            if tunnel.answers(config, record).await {
                return Ok(tunnel);
            }
            tokio::select! {
                words = tunnel.closed() => return Err(format!("ssh ended: {words}").into()),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Returns the worker's address.
    pub fn endpoint(&self) -> String {
        endpoint(&self.socket)
    }

    /// Waits until the tunnel is closed by the other end, and returns the reason.
    pub async fn closed(&mut self) -> String {
        let status = self.child.wait().await;
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut limited = stderr.take(LAST_WORDS);
            let _ = tokio::time::timeout(Duration::from_secs(1), limited.read_to_end(&mut words)).await;
        }
        let words = String::from_utf8_lossy(&words).trim().replace('\n', "; ");
        match status {
            _ if !words.is_empty() => words,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    async fn answers(&self, config: &DstackConfig, record: &Record) -> bool {
        answers(&config.probe, &self.endpoint(), &record.token).await
    }
}

fn endpoint(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// Returns whether a worker that accepts the token answers at an address.
pub async fn answers(probe: &[OsString], endpoint: &str, token: &str) -> bool {
    let Some((program, arguments)) = probe.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).args(["--worker", endpoint]).env("REMORA_TOKEN", token);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    matches!(tokio::time::timeout(PROBE, command.status()).await, Ok(Ok(status)) if status.success())
}

fn ssh(program: &OsString, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-F").arg(config).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

fn not_started(program: &OsString, error: &std::io::Error) -> String {
    format!("{}: {error} (is OpenSSH's client installed?)", Path::new(program).display())
}

/// Uploads the worker's program to the container, where the task waits for it.
async fn send(config: &DstackConfig, file: &Path, record: &Record) -> Result<(), String> {
    let program = &config.own_program;
    let source = std::fs::File::open(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let place = sent_program(&record.name);
    let folder = Path::new(&place).parent().unwrap_or(Path::new("/tmp")).display().to_string();
    let mut command = ssh(&config.ssh, file);
    command.args(["-o", "Compression=yes", CONTAINER]);
    // Atomic, and skipped if the file exists from an earlier connection.
    command.arg(format!(
        "[ -x {place} ] || {{ mkdir -p {folder} && cat > {place}.new && chmod 755 {place}.new && mv {place}.new {place}; }}"
    ));
    command.stdin(source).stdout(Stdio::null());
    let sent = command.output();
    match tokio::time::timeout(SEND, sent).await {
        Ok(Ok(sent)) if sent.status.success() => Ok(()),
        Ok(Ok(sent)) => {
            let words = String::from_utf8_lossy(&sent.stderr).trim().replace('\n', "; ");
            Err(format!("uploading the worker's program failed ({}): {words}", sent.status))
        }
        Ok(Err(error)) => Err(not_started(&config.ssh, &error)),
        Err(_) => Err("uploading the worker's program took too long".to_owned()),
    }
}

/// Returns the `ssh` configuration file with the hops. Names from dstack are validated, because a line break could inject options.
fn ssh_config(hops: &[Hop], key: &Path, known: &Path) -> Result<String, String> {
    let mut text = format!(
        "Host *\n  IdentityFile \"{}\"\n  IdentitiesOnly yes\n  BatchMode yes\n  StrictHostKeyChecking accept-new\n  \
         UserKnownHostsFile \"{}\"\n  GlobalKnownHostsFile /dev/null\n  UpdateHostKeys no\n  CheckHostIP no\n  \
         LogLevel ERROR\n  ConnectTimeout 15\n  ServerAliveInterval 15\n  ServerAliveCountMax 4\n  ControlPath none\n",
        key.display(),
        known.display()
    );
    let plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:_-".contains(&byte))
    };
    let last = hops.len().checked_sub(1).ok_or("dstack reports no SSH connection to the container")?;
    for (index, hop) in hops.iter().enumerate() {
        if !plain(&hop.hostname) || !plain(&hop.username) {
            return Err(format!("\"{}@{}\" is not a valid SSH destination", hop.username, hop.hostname));
        }
        let name = if index == last { CONTAINER.to_owned() } else { format!("hop-{index}") };
        // Host keys are stored under the hop's name, because every container is "localhost".
        text.push_str(&format!(
            "Host {name}\n  HostName {}\n  HostKeyAlias {name}\n  User {}\n  Port {}\n",
            hop.hostname, hop.username, hop.port
        ));
        if index > 0 {
            text.push_str(&format!("  ProxyJump hop-{}\n", index - 1));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(hostname: &str, port: u16) -> Hop {
        Hop { hostname: hostname.to_owned(), username: "root".to_owned(), port }
    }

    fn config_of(hops: &[Hop]) -> Result<String, String> {
        ssh_config(hops, Path::new("/k/key"), Path::new("/k/known_hosts"))
    }

    #[test]
    fn each_hop_goes_through_the_one_before() {
        let text = config_of(&[hop("203.0.113.7", 22), hop("localhost", 10022)]).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let first = "Host hop-0 HostName 203.0.113.7 HostKeyAlias hop-0 User root Port 22 Host container";
        let last = "HostName localhost HostKeyAlias container User root Port 10022 ProxyJump hop-0";
        assert!(text.contains(first) && text.ends_with(last), "{text}");
        assert!(config_of(&[]).is_err());
    }

    #[test]
    fn a_host_key_is_believed_once_and_another_one_never() {
        let text = config_of(&[hop("203.0.113.7", 22)]).unwrap();
        assert!(
            text.contains("StrictHostKeyChecking accept-new") && text.contains("\"/k/known_hosts\""),
            "{text}"
        );
        let words = "ssh ended: Host key for hop-0 has changed; Host key verification failed.".to_owned();
        assert_eq!(TunnelError::from(words), TunnelError::Stranger);
        let words = "ssh ended: Connection refused".to_owned();
        assert_eq!(TunnelError::from(words.clone()), TunnelError::NotYet(words));
    }

    #[test]
    fn a_host_name_cannot_bring_an_option_with_it() {
        for name in ["a\n  ProxyCommand x", "-oProxyCommand=x", "a b", ""] {
            assert!(config_of(&[hop(name, 22)]).is_err(), "{name:?}");
        }
    }
}
