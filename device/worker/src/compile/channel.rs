//! The socket protocol between a session's process and its compiler service: tasks in one direction, results in the other,
//! matched by ticket number.
//!
//! Results come in any order. Neither side allocates more than [`MAX_MESSAGE`] on behalf of the other.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use wire::{Field, Reader};

/// Limit on one task or result, in bytes.
pub(crate) const MAX_MESSAGE: u64 = 256 << 20;
/// Ticket, kind, length.
const HEADER: usize = 8 + 1 + 8;

const COMPILE: u8 = 1;
const LINK: u8 = 2;
const RESULT: u8 = 3;

/// A task for the compiler service.
#[derive(Debug)]
pub(crate) enum Task {
    Compile(wire::Compile),
    Link(wire::Link),
}

/// Sends a task. Fails with `InvalidInput`, having written nothing, if it is too large.
pub(crate) fn send_task(stream: &UnixStream, ticket: u64, task: &Task) -> io::Result<()> {
    match task {
        Task::Compile(request) => send(stream, ticket, COMPILE, request),
        Task::Link(request) => send(stream, ticket, LINK, request),
    }
}

/// Waits for a task; returns `None` when the peer has closed the socket.
pub(crate) fn receive_task(stream: &UnixStream) -> io::Result<Option<(u64, Task)>> {
    let Some((ticket, kind, bytes)) = receive(stream)? else { return Ok(None) };
    let task = match kind {
        COMPILE => Task::Compile(decode(&bytes)?),
        LINK => Task::Link(decode(&bytes)?),
        kind => return Err(io::Error::other(format!("message kind {kind} is not a task"))),
    };
    Ok(Some((ticket, task)))
}

pub(crate) fn send_result(stream: &UnixStream, ticket: u64, result: &wire::reply::Compile) -> io::Result<()> {
    send(stream, ticket, RESULT, result)
}

/// Waits for a result; returns `None` when the peer has closed the socket.
pub(crate) fn receive_result(stream: &UnixStream) -> io::Result<Option<(u64, wire::reply::Compile)>> {
    let Some((ticket, kind, bytes)) = receive(stream)? else { return Ok(None) };
    if kind != RESULT {
        return Err(io::Error::other(format!("message kind {kind} is not a result")));
    }
    Ok(Some((ticket, decode(&bytes)?)))
}

fn send(mut stream: &UnixStream, ticket: u64, kind: u8, message: &impl Field) -> io::Result<()> {
    let length = message.size() as u64;
    if length > MAX_MESSAGE {
        let text = format!("a message of {length} bytes exceeds the limit of {MAX_MESSAGE}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut bytes = Vec::with_capacity(HEADER + message.size());
    bytes.extend(ticket.to_le_bytes());
    bytes.push(kind);
    bytes.extend(length.to_le_bytes());
    message.put(&mut bytes);
    stream.write_all(&bytes)
}

fn receive(mut stream: &UnixStream) -> io::Result<Option<(u64, u8, Vec<u8>)>> {
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match stream.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let number =
        |at: usize| header[at..at + 8].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let length = number(9);
    if length > MAX_MESSAGE {
        return Err(io::Error::other(format!(
            "a message of {length} bytes exceeds the limit of {MAX_MESSAGE}"
        )));
    }
    let mut bytes = Vec::new();
    // Grows with the bytes received, not with the announced length.
    if stream.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((number(0), header[8], bytes)))
}

fn decode<T: Field>(bytes: &[u8]) -> io::Result<T> {
    let wrong = |error: wire::WireError| io::Error::other(error.to_string());
    let mut reader = Reader::new(bytes);
    let message = T::take(&mut reader).map_err(wrong)?;
    reader.finish("message").map_err(wrong)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_results_arrive_as_they_were_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let task = wire::Compile { source: "source".to_owned(), ..wire::Compile::default() };
        send_task(&ours, 7, &Task::Compile(task)).unwrap();
        let (ticket, task) = receive_task(&theirs).unwrap().unwrap();
        assert!(ticket == 7 && matches!(task, Task::Compile(it) if it.source == "source"));
        let result = wire::reply::Compile { log: "log".to_owned(), ..wire::reply::Compile::default() };
        send_result(&theirs, 7, &result).unwrap();
        assert_eq!(receive_result(&ours).unwrap().unwrap().1.log, "log");
        drop(ours);
        assert!(receive_task(&theirs).unwrap().is_none());
    }

    #[test]
    fn an_invalid_message_is_an_error() {
        let mut huge = vec![0; 8];
        huge.push(COMPILE);
        huge.extend(u64::MAX.to_le_bytes());
        let mut unknown = vec![0; 8];
        unknown.push(99);
        unknown.extend(0u64.to_le_bytes());
        let mut damaged = vec![0; 8];
        damaged.push(LINK);
        damaged.extend(3u64.to_le_bytes());
        damaged.extend([0xff; 3]);
        for bytes in [huge, unknown, damaged, vec![0; 5]] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(&bytes).unwrap();
            drop(ours);
            assert!(receive_task(&theirs).is_err(), "{bytes:?}");
        }
    }
}
