//! Runs an agent: starts its threads and listeners, and stops them.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::UnixListener;

use crate::agent::Agent;
use crate::config::Config;
use crate::error::AgentError;
use crate::{http, leases, push, redirect, restarts, sample};

/// A running agent.
#[derive(Debug)]
pub struct Server {
    /// The address that it listens on.
    pub address: SocketAddr,
    agent: Arc<Agent>,
    threads: Vec<JoinHandle<()>>,
    http: tokio::task::JoinHandle<()>,
    local: Option<tokio::task::JoinHandle<()>>,
    push: Option<tokio::task::JoinHandle<()>>,
}

impl Server {
    /// Opens the agent and starts to serve.
    pub async fn start(config: Config) -> Result<Server, AgentError> {
        let (address, push) = (config.listen, config.push.clone());
        let opened = tokio::task::spawn_blocking(move || Agent::open(config)).await;
        let agent = opened.map_err(|error| AgentError::Worker(error.to_string()))??;
        let listener =
            http_serve::listen(address).map_err(|source| AgentError::Listen { address, source })?;
        let address = listener.local_addr().map_err(AgentError::Serve)?;
        let mut threads = Vec::new();
        let watches = [
            ("restarts", restarts::run as fn(&Arc<Agent>)),
            ("leases", leases::watch),
            ("sampler", sample::watch),
            ("redirects", redirect::run),
        ];
        for (name, work) in watches {
            let agent = Arc::clone(&agent);
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&agent));
            threads.push(thread.map_err(AgentError::Serve)?);
        }
        let push = push.map(|config| tokio::spawn(push::push(Arc::clone(&agent), config)));
        let certificate = agent.certificate.as_ref().filter(|_| agent.config.serves_https());
        let tls = certificate.map(|it| it.identity()?.server_config()).transpose()?;
        if tls.is_none() && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(
                "http://{address} sends tokens unencrypted and is reachable from other machines; serve HTTPS with --tls-self-signed, or \
                 with --tls-cert and --tls-key"
            );
        }
        let router = http::router(Arc::clone(&agent));
        let local = local(&agent, router.clone());
        let http = tokio::spawn(async move {
            if let Err(error) = http_serve::serve(listener, router, tls, std::future::pending()).await {
                tracing::error!("the HTTP interface failed: {error}");
            }
        });
        Ok(Server { address, agent, threads, http, local, push })
    }

    /// Returns the fingerprint of the HTTP interface's certificate, if it serves HTTPS.
    fn fingerprint(&self) -> Result<Option<String>, AgentError> {
        let certificate = self.agent.certificate.as_ref().filter(|_| self.agent.config.serves_https());
        Ok(certificate.map(|it| it.fingerprint()).transpose()?)
    }

    /// Stops the HTTP interface. Workers keep running, unless the configuration says `drain` or `save_sessions`.
    pub async fn stop(self) {
        self.http.abort();
        if let Some(local) = self.local {
            local.abort();
        }
        if let Some(push) = self.push {
            push.abort();
        }
        let (agent, threads) = (self.agent, self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            agent.stop();
            for thread in threads {
                let _ = thread.join();
            }
            agent.end_workers();
        });
        let _ = ended.await;
    }
}

/// Serves the HTTP interface on the Unix socket `agent.sock` in the agent's folder, for local programs without TLS such as the provider
/// library. Only the agent's user may connect, and tokens are checked as on the TCP listener.
fn local(agent: &Arc<Agent>, router: axum::Router) -> Option<tokio::task::JoinHandle<()>> {
    let path = agent.folder.path().join("agent.sock");
    // The agent holds the folder's lock, so an existing socket is a leftover of an earlier agent.
    let _ = std::fs::remove_file(&path);
    let bound = UnixListener::bind(&path).and_then(|listener| {
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map(|()| listener)
    });
    match bound {
        Ok(listener) => Some(tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("the local socket failed: {error}");
            }
        })),
        Err(error) => {
            tracing::warn!("{}: cannot serve the local socket: {error}", path.display());
            None
        }
    }
}

/// Serves until a signal stops the agent. Calls `ready` once requests are accepted, with the address of the HTTP interface and, for HTTPS,
/// the fingerprint of its certificate.
pub fn serve(config: Config, ready: impl FnOnce(SocketAddr, Option<String>)) -> Result<(), AgentError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AgentError::Serve)?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(AgentError::Serve)?;
        let server = Server::start(config).await?;
        ready(server.address, server.fingerprint()?);
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        server.stop().await;
        Ok(())
    })
}
