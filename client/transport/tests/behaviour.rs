//! Behaviour that every kind of link must show: written once, instantiated for TCP, TLS, unix sockets and shared memory.

#![cfg(unix)]

use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

use transport::tls::{self, Identity, Trust};
use transport::{Endpoint, Link, Listener};

const TIMEOUT: Duration = Duration::from_secs(20);

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

/// Reads until the stream ends.
fn read_all(link: &Link) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        match link.read(&mut buffer).unwrap() {
            0 => return all,
            bytes => all.extend_from_slice(&buffer[..bytes]),
        }
    }
}

/// Writes without waiting until nothing fits any more, and nothing does after a while; returns how many bytes were written.
fn fill(link: &Link) -> usize {
    let block = vec![7; 1 << 16];
    let mut written = 0;
    loop {
        match link.try_write_vectored(&[IoSlice::new(&block)]) {
            Ok(bytes) => written += bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                if !link.wait(false, true, Some(Duration::from_millis(5))).unwrap().writable {
                    return written;
                }
            }
        }
    }
}

/// Waits until everything that was written has left the link's own buffer.
fn flush(link: &Link) {
    while !link.try_flush().unwrap() {
        link.wait(false, true, Some(TIMEOUT)).unwrap();
    }
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn streams_in_both_directions_at_the_same_time_arrive_whole(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    let sent = data((5 << 20) + 12_345);
    std::thread::scope(|scope| {
        for (from, to) in [(&near, &far), (&far, &near)] {
            let sent = &sent;
            scope.spawn(move || {
                let mut rest = &sent[..];
                for portion in [1, 100, 65_535, 1 << 20, (1 << 20) + 1, usize::MAX] {
                    let (now, later) = rest.split_at(portion.min(rest.len()));
                    let (head, body) = now.split_at(now.len() / 3);
                    from.write_all_vectored(&mut [IoSlice::new(head), IoSlice::new(body)]).unwrap();
                    rest = later;
                }
            });
            scope.spawn(move || {
                let (mut got, mut at) = (vec![0; sent.len()], 0);
                for portion in [10, 300_000, 5, 2 << 20, usize::MAX] {
                    let end = at + portion.min(got.len() - at);
                    to.read_exact(&mut got[at..end]).unwrap();
                    at = end;
                }
                assert!(got == *sent);
            });
        }
    });
}

fn many_small_messages_are_answered_one_by_one(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut message = [0; 40];
            for _ in 0..2000 {
                far.read_exact(&mut message).unwrap();
                far.write_all(&message[..30]).unwrap();
            }
        });
        for number in 0..2000u32 {
            let mut message = [0; 40];
            message[..4].copy_from_slice(&number.to_le_bytes());
            near.write_all(&message).unwrap();
            let mut answer = [0; 30];
            near.read_exact(&mut answer).unwrap();
            assert_eq!(answer[..4], number.to_le_bytes());
        }
    });
}

fn a_full_link_says_so_and_is_writable_again_once_it_was_read(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    let written = fill(&near);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let ready = near.wait(false, true, Some(TIMEOUT)).unwrap();
            flush(&near);
            ready
        });
        let mut all = vec![0; written];
        far.read_exact(&mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
        assert!(waiting.join().unwrap().writable && near.has_room());
    });
}

fn an_empty_link_says_so_and_a_wait_ends_when_bytes_come_or_its_time_is_over(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    assert!(!far.has_news());
    assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!far.wait(true, false, Some(Duration::from_millis(5))).unwrap().readable);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| far.wait(true, false, Some(TIMEOUT)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        near.write_all(b"news").unwrap();
        assert!(waiting.join().unwrap().readable && far.has_news());
    });
    let mut text = [0; 4];
    far.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"news");
    assert!(far.wait(true, true, Some(TIMEOUT)).unwrap().writable);
}

fn what_was_written_before_the_end_is_read_before_it(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    // From the accepting side: TLS's client closes with unread session tickets, which resets a TCP connection.
    far.write_all(&data(50_000)).unwrap();
    drop(far);
    assert!(read_all(&near) == data(50_000));
    assert_eq!(near.read(&mut [0]).unwrap(), 0, "the end stays the end");
}

fn a_shutdown_ends_the_waits_of_both_sides(pair: fn() -> (Link, Link)) {
    for who in [0, 1] {
        let (near, far) = pair();
        let links = [near, far];
        std::thread::scope(|scope| {
            let readers = [&links[0], &links[1]].map(|link| scope.spawn(|| link.read(&mut [0; 8])));
            std::thread::sleep(Duration::from_millis(20));
            links[who].shutdown();
            for reader in readers {
                assert!(matches!(reader.join().unwrap(), Ok(0) | Err(_)));
            }
        });
        let start = Instant::now();
        while !(links[0].has_ended() && links[1].has_ended()) {
            assert!(start.elapsed() < TIMEOUT, "both sides must see the end");
            std::thread::yield_now();
        }
    }
}

fn a_writer_that_waits_for_room_learns_of_the_end(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    fill(&near);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| near.write_all(&data(1 << 20)));
        std::thread::sleep(Duration::from_millis(20));
        drop(far);
        assert!(writer.join().unwrap().is_err());
    });
}

fn a_reader_that_waits_uses_no_processor(pair: fn() -> (Link, Link)) {
    let (near, far) = pair();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let before = thread_time();
            far.read_exact(&mut [0]).unwrap();
            thread_time() - before
        });
        std::thread::sleep(Duration::from_millis(400));
        near.write_all(&[1]).unwrap();
        let used = reader.join().unwrap();
        assert!(used < Duration::from_millis(100), "a reader that waited 400 ms used {used:?}");
    });
}

/// Declares the tests of one kind of link.
macro_rules! behaviour {
    ($kind:ident: $($claim:ident),* $(,)?) => {
        mod $kind {
            $(#[test] fn $claim() { super::$claim(super::pairs::$kind) })*
        }
    };
}

macro_rules! all_behaviour {
    ($($kind:ident),*) => {
        $(behaviour! {
            $kind:
            streams_in_both_directions_at_the_same_time_arrive_whole,
            many_small_messages_are_answered_one_by_one,
            a_full_link_says_so_and_is_writable_again_once_it_was_read,
            an_empty_link_says_so_and_a_wait_ends_when_bytes_come_or_its_time_is_over,
            what_was_written_before_the_end_is_read_before_it,
            a_shutdown_ends_the_waits_of_both_sides,
            a_writer_that_waits_for_room_learns_of_the_end,
            a_reader_that_waits_uses_no_processor,
        })*
    };
}

all_behaviour!(over_tcp, over_tls, over_unix, through_shared_memory);

mod pairs {
    use super::*;

    pub fn over_unix() -> (Link, Link) {
        Link::pair().unwrap()
    }

    pub fn through_shared_memory() -> (Link, Link) {
        Link::memory_pair().unwrap()
    }

    pub fn over_tcp() -> (Link, Link) {
        let listener = Listener::bind(&Endpoint::tcp("127.0.0.1", 0)).unwrap();
        let near = listener.endpoint().unwrap().connect(TIMEOUT).unwrap();
        (near, listener.accept().unwrap().0)
    }

    pub fn over_tls() -> (Link, Link) {
        let identity = Identity::self_signed(&["localhost".to_owned()]).unwrap();
        let trust = Trust::parse(&identity.fingerprint_text()).unwrap();
        let (near, far) = over_tcp();
        let config = identity.server_config().unwrap();
        let server = std::thread::spawn(move || tls::accept(far, config, TIMEOUT).unwrap());
        let near = tls::connect(near, "localhost", tls::client_config(&trust).unwrap(), TIMEOUT).unwrap();
        (near, server.join().unwrap())
    }
}
