//! TLS proxy: decrypts a connection on behalf of a session's process, which gets a plain socket.

use std::os::fd::OwnedFd;

use transport::Link;

const BUFFER_BYTES: usize = 256 << 10;

/// Starts two threads that copy between `link` and a socket, and returns the other end of the socket.
pub(crate) fn start(link: &Link) -> std::io::Result<OwnedFd> {
    let (near, far) = Link::pair()?;
    let far = far.try_clone_fd()?;
    for (name, from, to) in [("tls-in", link.clone(), near.clone()), ("tls-out", near, link.clone())] {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || carry(&from, &to))?;
    }
    Ok(far)
}

/// Copies until one side closes, then closes the other.
fn carry(from: &Link, to: &Link) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(bytes) = from.read(&mut buffer) {
        if bytes == 0 || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    from.shutdown();
    to.shutdown();
}
