//! The peer of a connection: its address, and its user id if it is on this machine, as recorded by the kernel.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Link;

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// Offset of `idiag_uid` in `struct inet_diag_msg`: after family, state and two counters, the socket's id, three counters.
const UID_AT: usize = 4 + 48 + 12;
const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();

impl Link {
    /// Returns the user whose process opened the other end of a unix socket or of a TCP connection over loopback. `None` for
    /// connections from other machines, and if the kernel does not report it.
    pub fn peer_user(&self) -> Option<u32> {
        if let Some(peer) = self.unix_peer() {
            return Some(peer.uid);
        }
        let (here, there) = self.addresses()?;
        if !there.ip().to_canonical().is_loopback() {
            return None;
        }
        tcp_user(there, here).ok()
    }

    /// Returns the address of the other end of a TCP connection.
    pub fn peer_address(&self) -> Option<IpAddr> {
        Some(self.addresses()?.1.ip().to_canonical())
    }

    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let stream = self.socket().as_tcp().ok()?;
        Some((stream.local_addr().ok()?, stream.peer_addr().ok()?))
    }
}

/// Returns the owner of the TCP socket that is bound to `local` and connected to `remote`. Queries the kernel's socket
/// diagnostics (netlink) for this one socket, which takes microseconds however many there are.
fn tcp_user(local: SocketAddr, remote: SocketAddr) -> io::Result<u32> {
    // SAFETY: creates a descriptor, which is owned from here on.
    let netlink = unsafe {
        let fd =
            libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let request = request(local, remote);
    // SAFETY: the buffer is readable for its length.
    let sent = unsafe { libc::send(netlink.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0u8; 1024];
    // SAFETY: the buffer is writable for its length.
    let bytes = unsafe { libc::recv(netlink.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
    parse(&answer[..bytes]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    // All states.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        body.extend(bytes);
    }
    // Any interface, and no cookie.
    body.extend(0u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend(1u32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    message
}

fn parse(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let uid = answer.get(HEADER_BYTES + UID_AT..HEADER_BYTES + UID_AT + 4)?;
    (kind == BY_FAMILY).then_some(u32::from_ne_bytes(uid.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn me() -> u32 {
        // SAFETY: takes no arguments and cannot fail.
        unsafe { libc::geteuid() }
    }

    #[test]
    fn the_kernel_names_the_user_of_a_loopback_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                // Not eprintln: the test harness hides what a passing test prints.
                let line =
                    format!("skipped: owner::tests::loopback_connection: this machine has no {address}\n");
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
                continue;
            };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(Link::from_tcp(stream).unwrap().peer_user(), Some(me()), "{address}");
        }
    }

    #[test]
    fn the_kernel_names_the_user_of_a_unix_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(Link::from_unix(stream).peer_user(), Some(me()));
    }

    #[test]
    fn a_connection_that_does_not_exist_has_no_user() {
        assert!(tcp_user("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()).is_err());
    }
}
