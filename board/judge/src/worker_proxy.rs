//! Access of sandboxed processes to the worker: they have no network, and see one Unix socket.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A Unix socket that forwards to the worker, for sandboxed processes without network.
#[derive(Debug)]
pub(crate) struct WorkerProxy {
    socket: PathBuf,
    /// Folder of the socket.
    _folder: tempfile::TempDir,
}

impl WorkerProxy {
    /// Starts to forward connections to a worker.
    pub fn open(worker: &str) -> io::Result<WorkerProxy> {
        let folder = tempfile::Builder::new().prefix("worker-").tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let socket = folder.path().join("worker");
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777))?;
        let target = Target::of(worker)?;
        std::thread::Builder::new().name("worker-proxy".to_owned()).spawn(move || {
            // The thread ends with this process. Later connections fail because the socket file is removed.
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let target = target.clone();
                std::thread::spawn(move || target.join(stream));
            }
        })?;
        Ok(WorkerProxy { socket, _folder: folder })
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Destination of a forwarded connection.
#[derive(Clone, Debug)]
enum Target {
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    fn of(worker: &str) -> io::Result<Target> {
        if let Some(path) = worker.strip_prefix("unix:") {
            return Ok(Target::Unix(path.into()));
        }
        if worker.contains("://") {
            let text = "host code can use workers only over TCP and unix sockets, not over TLS";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Target::Tcp(worker.to_owned()))
    }

    /// Forwards bytes in both directions until both have ended.
    fn join(&self, near: UnixStream) {
        match self {
            Target::Unix(path) => {
                let Ok(far) = UnixStream::connect(path) else { return };
                let Ok(again) = far.try_clone() else { return };
                carry(&near, (far, again), |far| far.shutdown(Shutdown::Write));
            }
            Target::Tcp(address) => {
                let Ok(far) = TcpStream::connect(address) else { return };
                let _ = far.set_nodelay(true);
                let Ok(again) = far.try_clone() else { return };
                carry(&near, (far, again), |far| far.shutdown(Shutdown::Write));
            }
        }
    }
}

/// Forwards bytes between two connections until both directions have ended. The second is given as two handles.
fn carry<Far: io::Read + io::Write + Send + 'static>(
    near: &UnixStream,
    (mut to, mut from): (Far, Far),
    end: impl FnOnce(&Far) -> io::Result<()>,
) {
    let Ok(near_again) = near.try_clone() else { return };
    let back = std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut &near_again);
        let _ = near_again.shutdown(Shutdown::Write);
    });
    let _ = io::copy(&mut &*near, &mut to);
    let _ = end(&to);
    let _ = back.join();
}
