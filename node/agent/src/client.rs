//! Finds the client process of a session on this machine: the process that holds the peer socket of the session's connection.
//!
//! The PID that a client reports is not enough. In a container it differs from the PID on the host, and a client on another machine reports
//! a PID that means nothing here. The owner of the connection is unambiguous.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use worker_status::SessionStatus;

use crate::process;

/// Returns the host PID of a session's client, where `port` is the worker's. `None` if the client is not connected or not on this machine.
pub(crate) fn of(session: &SessionStatus, port: u16) -> Option<u32> {
    if !session.connected {
        return None;
    }
    let peer: SocketAddr = session.peer.parse().ok()?;
    let here = |pid: &u32| holds(*pid, peer, port);
    // The reported PID is nearly always right, and checking it first avoids a scan of all processes.
    let reported = Some(session.pid).filter(|pid| process::innermost(*pid) == Some(session.pid)).filter(here);
    reported.or_else(|| {
        let others = process::all().into_iter().filter(|pid| *pid != session.pid);
        others.filter(|pid| process::innermost(*pid) == Some(session.pid)).find(here)
    })
}

/// Returns whether a process holds a TCP connection from `local` to a port.
fn holds(pid: u32, local: SocketAddr, port: u16) -> bool {
    // Read the table of the process's own network namespace, which in a container is not the agent's.
    let inode = ["tcp", "tcp6"].iter().find_map(|table| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()?;
        connection(&table, local, port)
    });
    let Some(inode) = inode else { return false };
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let name = format!("socket:[{inode}]");
    let mut links = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.any(|link| link.as_os_str() == name.as_str())
}

/// Returns the socket inode of a connection in the kernel's TCP table.
fn connection(table: &str, local: SocketAddr, port: u16) -> Option<u64> {
    let local = (local.ip().to_canonical(), local.port());
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (from, to) = (end(fields.next()?)?, end(fields.next()?)?);
        // Skips state, queues, timers, retransmissions, user and timeout.
        let inode = fields.nth(6)?.parse().ok()?;
        (from == local && to.1 == port && inode != 0).then_some(inode)
    })
}

/// Parses an address such as `0100007F:D431`: every four bytes are one hexadecimal number in this machine's byte order.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn session(stream: &TcpStream, pid: u32) -> SessionStatus {
        let peer = stream.local_addr().unwrap().to_string();
        SessionStatus { pid, peer, connected: true, ..SessionStatus::default() }
    }

    #[test]
    fn a_client_is_who_holds_the_connection_whatever_number_it_tells() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let address = listener.local_addr().unwrap();
            let stream = TcpStream::connect(address).unwrap();
            let own = std::process::id();
            assert_eq!(of(&session(&stream, own), address.port()), Some(own), "{place}");
            // Process 1 exists but does not hold the connection.
            assert_eq!(of(&session(&stream, 1), address.port()), None);
            assert_eq!(of(&session(&stream, own), address.port() ^ 1), None);
            let away = SessionStatus { connected: false, ..session(&stream, own) };
            assert_eq!(of(&away, address.port()), None);
            let resumed = SessionStatus { peer: "resumed".to_owned(), ..session(&stream, own) };
            assert_eq!(of(&resumed, address.port()), None);
        }
    }

    #[test]
    fn kernel_tables_are_parsed_and_invalid_lines_rejected() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: \
                     0100007F:D431 0100007F:4853 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20\n";
        let local = "127.0.0.1:54321".parse().unwrap();
        assert_eq!(connection(table, local, 0x4853), Some(4711));
        assert_eq!(connection(table, local, 1), None);
        let mapped = table.replace("0100007F:D", "0000000000000000FFFF00000100007F:D");
        assert_eq!(connection(&mapped, local, 0x4853), Some(4711));
        for invalid in
            ["", "x", "x\n0: a b c", "x\n0: 0100007F:D431", "x\n0: €€€€€€€€:1 0100007F:4853 1 2 3 4 5 6 7"]
        {
            assert_eq!(connection(invalid, local, 0x4853), None, "{invalid}");
        }
    }
}
