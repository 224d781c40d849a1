//! Migration, receiving side: reads a session, checks it, and restores it with its original addresses and ids.
//!
//! The input is untrusted. It is refused unless every part of it is valid, and no client is served before.

use std::io::Read;
use std::sync::Arc;

use backend::{Device, DeviceError, Holding};
use wire::RejectCode;

use crate::request::Dispatcher;
use crate::session::manifest::{self, Manifest};
use crate::session::snapshot::{Kind, MEMORY_HEAD_BYTES, Reader, SnapshotError};

/// Reason why a session cannot be restored here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error("{0}")]
    Device(String),
    #[error("the session's address range is not free in its new process")]
    Arena,
    #[error("the session cannot be restored on this worker")]
    Place(#[from] DeviceError),
}

impl Refusal {
    /// Tells the sender whether another process may be able to restore the session.
    pub(crate) fn code(&self) -> RejectCode {
        match self {
            Refusal::Arena => RejectCode::AddressTaken,
            Refusal::Place(error) if error.is_address_taken() => RejectCode::AddressTaken,
            _ => RejectCode::Failed,
        }
    }
}

/// A session whose manifest has been read and whose devices are not open yet.
pub(crate) struct Import<R> {
    file: Reader<R>,
    pub(crate) manifest: Manifest,
}

impl<R: Read> Import<R> {
    /// Reads the manifest.
    pub(crate) fn begin(from: R) -> Result<Import<R>, SnapshotError> {
        let mut file = Reader::new(from)?;
        let (kind, text) = file.next()?;
        if kind != Kind::Manifest {
            return Err(SnapshotError::damaged("the manifest is not its first section"));
        }
        let manifest = serde_json::from_slice(&text)
            .map_err(|error| SnapshotError::damaged(format!("its manifest is invalid: {error}")))?;
        Ok(Import { file, manifest })
    }

    /// Checks that the session can run on these devices.
    pub(crate) fn fits(&self, device: &dyn Device) -> Result<(), Refusal> {
        if let Some(text) = manifest::difference(&self.manifest.devices, &manifest::describe(device)) {
            return Err(Refusal::Device(text));
        }
        if device.arena() != self.manifest.arena() {
            return Err(Refusal::Arena);
        }
        Ok(())
    }

    /// Restores everything into a new dispatcher.
    pub(crate) fn restore(mut self, dispatcher: &mut Dispatcher) -> Result<Manifest, Refusal> {
        let (device, outgoing) = (Arc::clone(&dispatcher.device), Arc::clone(&dispatcher.outgoing));
        let age = self.manifest.age_ns();
        let inventory = &mut self.manifest.inventory;
        for _ in 0..self.manifest.images {
            let image: Arc<[u8]> = expect(&mut self.file, Kind::Image)?.into();
            inventory.images.push(Arc::clone(&image));
            dispatcher.restore_image(image)?;
        }
        // Advances the clocks of events and spans by the time since the snapshot.
        inventory.clock = inventory.clock.saturating_add(age);
        outgoing.spans.turn(self.manifest.spans);
        outgoing.spans.resume_clock(self.manifest.span_clock.saturating_add(age));
        device.record_spans(self.manifest.spans);
        for it in &inventory.streams {
            outgoing.spans.stream(it.stream, it.device);
        }
        for it in &inventory.functions {
            outgoing.spans.name(it.function, &it.name);
        }
        device.restore(inventory)?;
        for _ in 0..self.manifest.graphs {
            dispatcher.graphs.restore(&expect(&mut self.file, Kind::Graph)?)?;
        }
        dispatcher.graphs.call_off(&self.manifest.called_off);
        let mut frames = Vec::new();
        for _ in 0..self.manifest.frames {
            frames.push(expect(&mut self.file, Kind::Frame)?);
        }
        loop {
            match self.file.next()? {
                (Kind::Memory, payload) => fill(&*device, &payload)?,
                (Kind::End, _) => break,
                (kind, _) => return Err(SnapshotError::damaged(format!("unexpected {kind:?}")).into()),
            }
        }
        outgoing.mirrors.restore(&*device, self.manifest.changes_taken, &self.manifest.mirrors)?;
        let (received, acknowledged) = (self.manifest.received, self.manifest.acknowledged);
        match self.manifest.checkpoint {
            Some(_) => outgoing.outbox.resume_checkpoint(received, acknowledged, frames),
            None => outgoing.outbox.resume(received, acknowledged, frames),
        }
        Ok(self.manifest)
    }
}

fn expect(file: &mut Reader<impl Read>, wanted: Kind) -> Result<Vec<u8>, SnapshotError> {
    match file.next()? {
        (kind, payload) if kind == wanted => Ok(payload),
        (kind, _) => Err(SnapshotError::damaged(format!("found {kind:?}, expected {wanted:?}"))),
    }
}

fn fill(device: &dyn Device, payload: &[u8]) -> Result<(), Refusal> {
    let (holding, offset, bytes) = memory_parts(payload)?;
    Ok(device.fill(holding, offset, bytes)?)
}

/// Decodes the payload of a memory section.
pub(crate) fn memory_parts(payload: &[u8]) -> Result<(Holding, u64, &[u8]), SnapshotError> {
    let short = || SnapshotError::damaged("a memory section has no address");
    let (head, bytes) = payload.split_first_chunk::<MEMORY_HEAD_BYTES>().ok_or_else(short)?;
    let mut fields = wire::Reader::new(&head[1..]);
    let mut number = || <u64 as wire::Field>::take(&mut fields).map_err(|_| short());
    let (number, offset) = (number()?, number()?);
    let holding = match head[0] {
        0 => Holding::At(number),
        1 => Holding::Memory(number),
        tag => return Err(SnapshotError::damaged(format!("unknown memory kind {tag}"))),
    };
    Ok((holding, offset, bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use backend::{Arena, MemoryKind};
    use proptest::prelude::*;
    use wire::{GraphNode, GraphStep};

    use crate::rehearsal::stage;
    use crate::request::exchange::Exchange;
    use crate::session::migrate_out::Export;

    /// An address range that nothing else in this process uses in the meantime.
    fn arena(place: u64) -> Arena {
        Arena { base: 0x1500_0000_0000 + (place << 40), bytes: 1 << 36 }
    }

    /// A snapshot of a session with one object of every kind that this crate keeps itself.
    fn session(arena: Arena) -> Vec<u8> {
        let mut dispatcher = stage(Some(arena)).unwrap();
        let device = Arc::clone(&dispatcher.device);
        let outgoing = Arc::clone(&dispatcher.outgoing);
        let base = device.arena().base;
        device.map(0, MemoryKind::Device, base, 3 << 20).unwrap();
        device.write_unordered(base + 5000, &[9; 100]).unwrap();
        device.map(0, MemoryKind::PinnedHost, base + (8 << 20), 4096).unwrap();
        outgoing.mirrors.insert(&*device, None, base + (8 << 20), 4096).unwrap();
        outgoing.mirrors.write(&*device, 3, &[]).unwrap();
        device.write_unordered(base + (8 << 20), b"changed").unwrap();
        device.create_stream(0, 0x100, false, 0).unwrap();
        dispatcher.graphs.define(7).unwrap();
        let steps = vec![GraphStep::Fill { destination: base, value: 1, width: 4, count: 8 }];
        let node = GraphNode { device: 0, dependencies: Vec::new(), steps };
        dispatcher.graphs.add(7, vec![node]).unwrap();
        dispatcher.graphs.call_off(&[99]);
        outgoing.outbox.push_at_once(&wire::Output { fd: 1 }, b"printed");
        outgoing.outbox.count(12);
        let mut file = Vec::new();
        write(&dispatcher, &mut file);
        file
    }

    fn write(dispatcher: &Dispatcher, file: &mut Vec<u8>) {
        let export = Export {
            device: &*dispatcher.device,
            dispatcher,
            exchange: &Exchange::new(None),
            session_id: 5,
            secret: [8; 32],
            client: "program",
            pid: 1,
            worker: "worker",
            received: 12,
            is_reached_into: &AtomicBool::new(false),
            ends_direct_copies: true,
        };
        export.write(file).unwrap();
    }

    fn restore(file: &[u8], arena: Arena) -> Result<Dispatcher, Refusal> {
        let import = Import::begin(file)?;
        let mut dispatcher = stage(Some(arena)).unwrap();
        import.fits(&*dispatcher.device)?;
        import.restore(&mut dispatcher)?;
        Ok(dispatcher)
    }

    #[test]
    fn a_session_that_arrived_is_the_one_that_left() {
        let arena = arena(0);
        let file = session(arena);
        assert!(file.len() < 64 << 10, "{} bytes for a small session", file.len());
        let mut dispatcher = restore(&file, arena).unwrap();
        let outgoing = Arc::clone(&dispatcher.outgoing);
        let mut seen = Vec::new();
        dispatcher
            .device
            .read_unordered(arena.base + 5000, 100, &mut |bytes| seen.extend_from_slice(bytes))
            .unwrap();
        assert_eq!(seen, [9; 100]);
        assert_eq!(outgoing.outbox.received(), 12);
        // The printed output, and the change in the mirror.
        assert_eq!(outgoing.outbox.progress(), (0, 2));
        assert!(dispatcher.graphs.was_called_off(99) && dispatcher.graphs.define(7).is_err());
        // Nothing is sent twice: both sides hold the same bytes.
        outgoing.mirrors.worked();
        outgoing.tell_changes();
        assert_eq!(outgoing.outbox.progress(), (0, 2));
        dispatcher.graphs.call_off(&[99]);
        let mut again = Vec::new();
        write(&dispatcher, &mut again);
        let sections = |file: &[u8]| {
            let mut reader = Reader::new(file).unwrap();
            let mut sections = Vec::new();
            while let Ok(section) = reader.next() {
                sections.push(section);
            }
            sections
        };
        let (first, second) = (sections(&file), sections(&again));
        assert_eq!(first[1..], second[1..], "all but the times in the manifest");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_manifest_that_lies_is_refused_and_breaks_nothing(at in 0usize..1 << 16, digit in 0u8..10) {
            let arena = arena(1);
            let file = session(arena);
            let mut reader = Reader::new(&file[..]).unwrap();
            let mut writer = crate::session::snapshot::Writer::new(Vec::new()).unwrap();
            loop {
                match reader.next().unwrap() {
                    (Kind::End, _) => break,
                    (Kind::Manifest, mut text) => {
                        let digits: Vec<usize> =
                            (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
                        text[digits[at % digits.len()]] = b'0' + digit;
                        writer.section(Kind::Manifest, &text).unwrap();
                    }
                    (kind, payload) => writer.section(kind, &payload).unwrap(),
                }
            }
            let _ = restore(&writer.finish().unwrap(), arena);
        }
    }
}
