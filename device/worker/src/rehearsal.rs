//! A session inside this process that is fed bytes, for tests and fuzzing: what a hostile client may send, without the client.

use std::sync::Arc;
use std::time::Duration;

use backend::Device;
use transport::Link;
use wire::{Arrival, ReceiveCounter};

use crate::broker::Exchange;
use crate::compile::Compiler;
use crate::dispatch::{Dispatcher, Next};
use crate::inbox::{Broken, Inbox};
use crate::outbox::Outbox;

/// Memory of the rehearsed device.
const MEMORY_BYTES: u64 = 64 << 20;
const WATCHDOG: Duration = Duration::from_millis(200);

/// Handles `bytes` as the requests of one connection; says how many were handled before it broke.
///
/// Whatever the bytes are, this returns: it does not panic, and takes no memory the bytes do not justify.
pub fn rehearse(bytes: &[u8]) -> u64 {
    let options = backend_emulator::Options {
        devices: vec![backend_emulator::DeviceConfig {
            model: "mi300x".to_owned(),
            memory: Some(MEMORY_BYTES),
        }],
        arena: None,
        watchdog: Some(WATCHDOG),
        observe: None,
    };
    let Ok(device) = backend_emulator::Emulator::open(&options) else { return 0 };
    let device: Arc<dyn Device> = Arc::new(device);
    let Ok((near, far)) = Link::pair() else { return 0 };
    let outbox = Arc::new(Outbox::new(Arc::clone(&device)));
    if outbox.attach(near.clone(), &wire::Welcome::default(), 0).is_err() {
        return 0;
    }
    let compiler = Compiler::new(Some("/nonexistent".into()), None);
    let exchange = Arc::new(Exchange::new(None));
    let mut dispatcher =
        Dispatcher::new(device, Arc::clone(&outbox), Arc::new(compiler), None, exchange, Arc::new(|| {}));
    std::thread::scope(|scope| {
        let listener = far.clone();
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while matches!(listener.read(&mut buffer), Ok(1..)) {}
        });
        let speaker = far.clone();
        scope.spawn(move || {
            let _ = speaker.write_all(bytes);
            // SAFETY: the descriptor is open; only its sending half ends, so that answers can still be read.
            unsafe { libc::shutdown(speaker.raw_fd(), libc::SHUT_WR) };
        });
        let mut inbox = Inbox::new(near);
        let mut counter = ReceiveCounter::new();
        while let Ok(Next::GoOn) = step(&mut inbox, &mut dispatcher, &mut counter) {}
        outbox.close();
        outbox.detach();
        far.shutdown();
        counter.received()
    })
}

fn step(
    inbox: &mut Inbox,
    dispatcher: &mut Dispatcher,
    counter: &mut ReceiveCounter,
) -> Result<Next, Broken> {
    let header = inbox.header()?;
    match counter.arrive_request(&header)? {
        Arrival::Next(number) => {
            dispatcher.request(number, &header, inbox, &mut || counter.count(header.payload_len))
        }
        Arrival::Duplicate | Arrival::Unsequenced => {
            inbox.skip(header.payload_len)?;
            Ok(Next::GoOn)
        }
    }
}
