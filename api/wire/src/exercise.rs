//! Entry points for untrusted bytes, called by fuzzers and, on a stable toolchain, by tests. They panic only if a guarantee of
//! this crate is violated.

use crate::*;

/// Interprets bytes as a stream of frames: whatever decodes must encode to the same bytes again.
pub fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, taken))) = Frame::take(rest) {
        assert_eq!(frame.to_bytes(), &rest[..taken]);
        if let Ok(opcode) = frame.header.known() {
            let again = match frame.header.is_reply() {
                true => redecode_reply(opcode, &frame.header, &frame.payload),
                false => redecode(opcode, &frame.payload),
            };
            if let Ok(again) = again {
                assert_eq!(again, frame.payload);
            }
            if matches!(opcode, Opcode::MirrorWrite | Opcode::MirrorChanged) {
                changes(frame.payload.get(8..).unwrap_or_default());
            }
        }
        rest = &rest[taken..];
    }
}

/// Interprets bytes as memory changes: every changed byte is inside its span, occurs once, and in order.
pub fn changes(bytes: &[u8]) {
    for change in delta::Changes::new(bytes).flatten() {
        let mut end = 0;
        change.for_each(|at, bytes| {
            assert!(at >= end && !bytes.is_empty() && at + bytes.len() <= change.span);
            end = at + bytes.len();
        });
    }
}

/// Interprets bytes as actions of a peer on session state: acknowledgements, reconnects and requests with arbitrary numbers, and
/// a handshake that must fail.
pub fn session(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let mut window = SendWindow::new(1 << 16);
    let mut counter = ReceiveCounter::new();
    while let Ok(action) = u8::take(&mut reader) {
        let Ok(number) = u64::take(&mut reader) else { break };
        // Small numbers match the state more often than large ones.
        let number = if action & 0x80 != 0 { number } else { number & 0xff };
        match action % 5 {
            0 => {
                if window.has_room(number) {
                    let sent = window.sent();
                    assert_eq!(window.push(sent + 1, number), sent + 1);
                }
            }
            1 => {
                let known = window.acknowledge(number);
                assert_eq!(known.is_ok(), number <= window.sent());
            }
            2 => {
                let kept = window.acknowledged()..=window.sent();
                match window.resume(number) {
                    Ok(frames) => assert!(kept.contains(&number) && frames.into_iter().all(|(n, f)| n == *f)),
                    Err(_) => assert!(!kept.contains(&number)),
                }
            }
            3 => {
                let header = Header::new(Opcode::Release, Flags::POSTED, number as u32, 8);
                if let Ok(Arrival::Next(next)) = counter.arrive_request(&header) {
                    assert_eq!(next, counter.received() + 1);
                    counter.count(number);
                }
            }
            _ => {
                if let Some(ack) = counter.take_ack() {
                    assert_eq!(ack.received, counter.received());
                }
            }
        }
        assert_eq!(window.frames().count() as u64, window.sent() - window.acknowledged());
    }
    handshake(bytes);
}

/// Interprets bytes as a Hello and a Proof, which must never pass without the token.
fn handshake(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(hello) = Hello::take(&mut reader) else { return };
    let Ok(proof) = Proof::take(&mut reader) else { return };
    if let Ok(greeting) = Greeting::new(hello, [0x5a; 32], true) {
        assert!(greeting.accept(&proof, Some(b"not to be guessed"), Some(&[0xa5; 32])).is_err());
    }
}
