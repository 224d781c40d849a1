//! A relay between a client and a worker on unix sockets that forwards bytes and descriptors, so that both use shared memory, and
//! that can close the connection at any moment. The worker sees the relay's process instead of the client's and so offers no direct
//! copies: everything goes through the shared memory.

use std::io;
use std::mem;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use transport::Endpoint;

/// A running relay. Ends its connections when it is dropped.
#[derive(Debug)]
pub struct MemoryRelay {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    accepted: AtomicU32,
    descriptors: AtomicU32,
    open: Mutex<Vec<UnixStream>>,
}

impl MemoryRelay {
    /// Listens on `path` and connects to the worker for every connection.
    pub fn start(path: PathBuf, worker: &Endpoint) -> MemoryRelay {
        MemoryRelay::launch(path, worker, true)
    }

    /// Like [`MemoryRelay::start`], but loses descriptors, as a proxy that knows only bytes does.
    pub fn start_without_descriptors(path: PathBuf, worker: &Endpoint) -> MemoryRelay {
        MemoryRelay::launch(path, worker, false)
    }

    fn launch(path: PathBuf, worker: &Endpoint, passes_on: bool) -> MemoryRelay {
        let Endpoint::Unix { path: worker } = worker.clone() else { panic!("{worker} is no unix socket") };
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::new(Shared::default());
        let relay = MemoryRelay { path, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                shared.connect(client, &worker, passes_on).unwrap();
            }
        });
        relay
    }

    /// The address for clients.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Unix { path: self.path.clone() }
    }

    /// Number of connections so far.
    pub fn accepted(&self) -> u32 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Number of descriptors that arrived with the bytes.
    pub fn descriptors(&self) -> u32 {
        self.shared.descriptors.load(Ordering::SeqCst)
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for MemoryRelay {
    fn drop(&mut self) {
        self.cut();
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Shared {
    fn connect(self: &Arc<Shared>, client: UnixStream, worker: &Path, passes_on: bool) -> io::Result<()> {
        let worker = UnixStream::connect(worker)?;
        self.open.lock().unwrap().extend([client.try_clone()?, worker.try_clone()?]);
        for (from, to) in [(client.try_clone()?, worker.try_clone()?), (worker, client)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                while let Ok((bytes, descriptor)) = receive(&from) {
                    shared.descriptors.fetch_add(u32::from(descriptor.is_some()), Ordering::SeqCst);
                    let attached = descriptor.as_ref().filter(|_| passes_on).map(AsRawFd::as_raw_fd);
                    if bytes.is_empty() || send(&to, &bytes, attached).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }
}

fn receive(from: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; 1 << 16];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut space = [0u64; 3];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&space);
    // SAFETY: every buffer of the message is writable and outlives the call; the kernel fills the control buffer, which the macros
    // read within its length. A descriptor in it belongs to this process.
    unsafe {
        let received = libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        bytes.truncate(received);
        let entry = libc::CMSG_FIRSTHDR(&message);
        let has_descriptor = !entry.is_null() && (*entry).cmsg_type == libc::SCM_RIGHTS;
        let descriptor = has_descriptor
            .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(entry).cast::<RawFd>().read_unaligned()));
        Ok((bytes, descriptor))
    }
}

fn send(to: &UnixStream, mut bytes: &[u8], mut attached: Option<RawFd>) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut space = [0u64; 3];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        // SAFETY: the buffers outlive the call, and the control buffer has room for one descriptor.
        let sent = unsafe {
            if let Some(fd) = attached.take() {
                message.msg_control = space.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
                let entry = libc::CMSG_FIRSTHDR(&message);
                (*entry).cmsg_level = libc::SOL_SOCKET;
                (*entry).cmsg_type = libc::SCM_RIGHTS;
                (*entry).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
                libc::CMSG_DATA(entry).cast::<RawFd>().write_unaligned(fd);
            }
            libc::sendmsg(to.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        bytes = &bytes[sent..];
    }
    Ok(())
}
