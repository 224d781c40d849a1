//! An agent from its start to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::TcpListener;

use crate::agent::Agent;
use crate::config::Config;
use crate::error::AgentError;
use crate::{http, keeper, leases, push, sample};

/// An agent that runs.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    agent: Arc<Agent>,
    threads: Vec<JoinHandle<()>>,
    http: tokio::task::JoinHandle<()>,
    push: Option<tokio::task::JoinHandle<()>>,
}

impl Server {
    pub async fn start(config: Config) -> Result<Server, AgentError> {
        let (address, push) = (config.listen, config.push.clone());
        let opened = tokio::task::spawn_blocking(move || Agent::open(config)).await;
        let agent = opened.map_err(|error| AgentError::Worker(error.to_string()))??;
        let listener =
            TcpListener::bind(address).await.map_err(|source| AgentError::Listen { address, source })?;
        let address = listener.local_addr().map_err(AgentError::Serve)?;
        let mut threads = Vec::new();
        let watches = [
            ("keeper", keeper::keep as fn(&Arc<Agent>)),
            ("leases", leases::watch),
            ("sampler", sample::watch),
        ];
        for (name, work) in watches {
            let agent = Arc::clone(&agent);
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&agent));
            threads.push(thread.map_err(AgentError::Serve)?);
        }
        let push = push.map(|config| tokio::spawn(push::push(Arc::clone(&agent), config)));
        let router = http::router(Arc::clone(&agent));
        let http = tokio::spawn(async move {
            if let Err(error) = http_serve::serve(listener, router, None, std::future::pending()).await {
                tracing::error!("the HTTP interface failed: {error}");
            }
        });
        Ok(Server { address, agent, threads, http, push })
    }

    /// Stops answering. Workers go on, unless the agent was told to end them.
    pub async fn stop(self) {
        self.http.abort();
        if let Some(push) = self.push {
            push.abort();
        }
        let (agent, threads) = (self.agent, self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            agent.stop();
            for thread in threads {
                let _ = thread.join();
            }
        });
        let _ = ended.await;
    }
}

/// Serves until told to stop by a signal. `ready` is called once requests are answered.
pub fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), AgentError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AgentError::Serve)?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(AgentError::Serve)?;
        let server = Server::start(config).await?;
        ready(server.address);
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        server.stop().await;
        Ok(())
    })
}
