//! Starts and stops a server.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::accounts;
use crate::app::App;
use crate::config::Config;
use crate::devices::Device;
use crate::http;
use crate::login::{LoginConfigError, Logins};
use crate::scheduler;
use crate::store::{Store, StoreError};

/// How long to retry locking the data folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Error that prevents or ends a server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder cannot be used.
    #[error("{path} cannot be used: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another server uses the data folder.
    #[error("another server is using {0}")]
    InUse(PathBuf),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings of logins are not valid.
    #[error(transparent)]
    Login(#[from] LoginConfigError),
    /// The HTTP interface failed.
    #[error("the server failed: {0}")]
    Serve(std::io::Error),
    /// The async runtime could not be started.
    #[error("cannot start the async runtime: {0}")]
    Runtime(std::io::Error),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Address of the HTTP interface.
    pub address: SocketAddr,
    app: Arc<App>,
    http: JoinHandle<std::io::Result<()>>,
    scheduler: JoinHandle<()>,
    _folder: File,
    _database: Option<crate::store::ServerLock>,
}

impl Server {
    /// Opens the database, requeues interrupted submissions, starts the devices and listens.
    pub async fn start(config: Config) -> Result<Server, ServeError> {
        let folder = take_folder(&config.data)?;
        let file = Store::file_url(&config.data.join("board.sqlite"));
        let store = Store::open(config.database.as_deref().unwrap_or(&file)).await?;
        let database = store.serve_alone().await?;
        match store.add_user(&accounts::new_user(accounts::LOCAL)).await {
            Ok(()) | Err(StoreError::Exists(..)) => {}
            Err(error) => return Err(error.into()),
        }
        let address = config.listen;
        let listener =
            http_serve::listen(address).map_err(|source| ServeError::Listen { address, source })?;
        let address = listener.local_addr().map_err(ServeError::Serve)?;
        let logins = Logins::new(&config.login, address)?;
        let devices = Device::all(&config);
        let app = Arc::new(App::new(config, store, logins, devices));
        let again = scheduler::recover(&app).await?;
        if again > 0 {
            tracing::info!(
                "{again} submissions were running when the previous server ended; they were requeued"
            );
        }
        let scheduler = tokio::spawn(scheduler::run(Arc::clone(&app)));
        let mut stopping = app.stopping.subscribe();
        let router = http::router(Arc::clone(&app));
        let http = tokio::spawn(async move {
            let stop = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            http_serve::serve(listener, router, None, stop).await
        });
        Ok(Server { address, app, http, scheduler, _folder: folder, _database: database })
    }

    /// Stops the scheduler, judges, devices and the HTTP interface. The next server runs interrupted submissions again.
    pub async fn stop(self) {
        let _ = self.app.stopping.send(true);
        let _ = self.scheduler.await;
        for device in &self.app.devices {
            device.stop().await;
        }
        // Connections that stay open longer are closed.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.http).await;
    }
}

/// Serves until a signal stops the server. Calls `ready` once requests are accepted.
pub fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let done = runtime.block_on(async {
        let server = Server::start(config).await?;
        ready(server.address);
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(ServeError::Serve)?;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        server.stop().await;
        Ok(())
    });
    // Dropping the tasks kills their judges.
    runtime.shutdown_timeout(Duration::from_secs(2));
    done
}

/// Creates the data folder and locks it, because two servers in one folder would run everything twice.
fn take_folder(path: &Path) -> Result<File, ServeError> {
    let wrong = |source| ServeError::Folder { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(wrong)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join("server.lock"))
        .map_err(wrong)?;
    // A child process of the previous server holds a copy of the lock between fork and exec.
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        // SAFETY: a system call on a descriptor that `file` owns.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(file);
        }
        if Instant::now() >= deadline {
            return Err(ServeError::InUse(path.to_owned()));
        }
        std::thread::sleep(LOCK_PATIENCE / 20);
    }
}
