//! Memory that the client holds too: what it changed is put in at once, what the device changed is told before the word that the
//! work which did it has ended.
//!
//! Knows what the client has from a twin of every mirror. If both sides change the same byte at the same time, which is a race
//! of the program, the client's change comes later: it takes no byte from here that a change of its own is on the way to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use backend::{Device, DeviceError, Scope};
use hip_api::types::hipErrorOutOfMemory;
use limits::{HostCharge, HostMemory};
use mirror::{BODY_BYTES, Tracker, Twin};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use wire::delta::Changes;

use crate::confine::open_tracker;
use crate::outbox::Outbox;

/// Memory that does not lie in this process is looked at in pieces of this.
const SHOWN_BYTES: usize = 1 << 20;

/// The mirrors of a session.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// How many there are, so that a session without any does not look further.
    live: AtomicUsize,
    /// Work that may have changed some was queued, or was still running when they were last compared.
    worked: AtomicBool,
    /// What mirrors are counted against, once that is known.
    host: OnceLock<Arc<HostMemory>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mirrors: BTreeMap<u64, Mirror>,
    /// The last of the client's changes that was put in.
    taken: u64,
    tracker: Option<Option<Arc<Tracker>>>,
}

struct Mirror {
    twin: Twin,
    /// The device whose memory it is; none has pinned memory.
    owner: Option<u32>,
    /// Its bytes lie in this process.
    resident: bool,
    _charge: Option<HostCharge>,
}

/// A mirror as it travels with its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MirrorRecord {
    address: u64,
    bytes: u64,
    owner: Option<u32>,
}

impl Mirrors {
    /// Counts mirrors against the host memory of the session from now on.
    pub(crate) fn count_against(&self, host: &Arc<HostMemory>) {
        let _ = self.host.set(Arc::clone(host));
    }

    /// A range that was just mapped is also the client's. Both begin with zeros.
    pub(crate) fn insert(
        &self,
        device: &dyn Device,
        owner: Option<u32>,
        address: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        // The twin always is host memory; the mirror itself unless it is a device's, which counts as that.
        let copies = if owner.is_some() { 1 } else { 2 };
        let charge = self.host.get().map(|host| host.charge(bytes.saturating_mul(copies)));
        let charge = charge.transpose().map_err(|left| {
            let text = format!("{bytes} bytes of host memory in {copies} copies: {left}");
            DeviceError::out_of_memory(text)
        })?;
        let memory = device.resident(address, bytes);
        if memory.is_none() {
            // Memory of this process is zero when it is mapped; what a GPU gives may be anything.
            let zeros = vec![0; SHOWN_BYTES.min(bytes as usize)];
            for at in (0..bytes).step_by(SHOWN_BYTES) {
                device.poke(address + at, &zeros[..SHOWN_BYTES.min((bytes - at) as usize)])?;
            }
        }
        let mut state = self.state.lock();
        let tracker = state.tracker.get_or_insert_with(|| open_tracker().map(Arc::new)).clone();
        let start = memory.map_or(std::ptr::null_mut(), |memory| memory.as_ptr());
        // SAFETY: resident memory stays until it is unmapped, and the twin is dropped before that; other memory is never
        // touched through the twin.
        let twin = unsafe { Twin::new(start, bytes as usize, tracker.as_ref().filter(|_| memory.is_some())) };
        let twin = twin.map_err(|error| DeviceError::new(hipErrorOutOfMemory, error.to_string()))?;
        state.mirrors.insert(address, Mirror { twin, owner, resident: memory.is_some(), _charge: charge });
        self.live.store(state.mirrors.len(), Ordering::Release);
        Ok(())
    }

    /// Every mirror, and the last of the client's changes that was put in.
    pub(crate) fn capture(&self) -> (u64, Vec<MirrorRecord>) {
        let state = self.state.lock();
        let record = |(address, mirror): (&u64, &Mirror)| MirrorRecord {
            address: *address,
            bytes: mirror.twin.bytes() as u64,
            owner: mirror.owner,
        };
        (state.taken, state.mirrors.iter().map(record).collect())
    }

    /// Goes on with the mirrors of another process, whose memory is in place with all its bytes.
    pub(crate) fn restore(
        &self,
        device: &dyn Device,
        taken: u64,
        mirrors: &[MirrorRecord],
    ) -> Result<(), DeviceError> {
        for it in mirrors {
            device.check(it.address, it.bytes)?;
            self.insert(device, it.owner, it.address, it.bytes)?;
            for at in (0..it.bytes).step_by(SHOWN_BYTES) {
                let bytes = (it.bytes - at).min(SHOWN_BYTES as u64);
                // Both sides were told of everything before the session left.
                device.peek(it.address + at, bytes, &mut |shown| self.read(it.address + at, shown))?;
            }
        }
        self.state.lock().taken = taken;
        Ok(())
    }

    /// Called before a range is unmapped.
    pub(crate) fn remove(&self, address: u64) {
        if self.live.load(Ordering::Acquire) > 0 {
            let mut state = self.state.lock();
            state.mirrors.remove(&address);
            self.live.store(state.mirrors.len(), Ordering::Release);
        }
    }

    /// Called before all memory of a device goes.
    pub(crate) fn remove_of(&self, ordinal: u32) {
        let mut state = self.state.lock();
        state.mirrors.retain(|_, mirror| mirror.owner != Some(ordinal));
        self.live.store(state.mirrors.len(), Ordering::Release);
    }

    /// Work that may change memory was queued.
    pub(crate) fn worked(&self) {
        self.worked.store(true, Ordering::SeqCst);
    }

    /// Puts in what the client changed.
    pub(crate) fn write(&self, device: &dyn Device, number: u64, body: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.taken = number;
        for change in Changes::new(body) {
            let change = change.map_err(|error| DeviceError::invalid_value(error.to_string()))?;
            let found = state.mirrors.range_mut(..=change.address).next_back();
            let inside = found.and_then(|(start, mirror)| {
                let at = usize::try_from(change.address - start).ok()?;
                (at.checked_add(change.span)? <= mirror.twin.bytes()).then_some((at, mirror))
            });
            // Freed meanwhile by another thread of the program, or never there: nobody will look at it.
            let Some((at, mirror)) = inside else { continue };
            let mut result = Ok(());
            change.for_each(|offset, bytes| {
                result = result.clone().and_then(|()| device.poke(change.address + offset as u64, bytes));
                mirror.twin.agree(at + offset, bytes);
            });
            result?;
        }
        Ok(())
    }

    /// The client is about to get these bytes of a mirror, in the order of frames.
    pub(crate) fn read(&self, address: u64, bytes: &[u8]) {
        if self.live.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        if let Some((start, mirror)) = state.mirrors.range_mut(..=address).next_back() {
            let at = (address - start) as usize;
            if at.checked_add(bytes.len()).is_some_and(|end| end <= mirror.twin.bytes()) {
                mirror.twin.agree(at, bytes);
            }
        }
    }

    /// Tells the client what the device has changed since it was last told.
    pub(crate) fn tell(&self, outbox: &Outbox) {
        if self.live.load(Ordering::Acquire) == 0 {
            return;
        }
        let device = outbox.device();
        let mut state = self.state.lock();
        // Not before the lock is had: another thread may be telling of the very work whose end is to be told now.
        if !self.worked.load(Ordering::SeqCst) {
            return;
        }
        // In this order: work queued meanwhile marks it again, and work still running now is looked at again next time.
        self.worked.store(false, Ordering::SeqCst);
        if !matches!(device.query(Scope::Everything), Ok(true)) {
            self.worked();
        }
        let State { mirrors, taken, .. } = &mut *state;
        let mut body = Vec::new();
        let send = |body: &mut Vec<u8>| {
            outbox.push_at_once(&wire::MirrorChanged { taken: *taken }, body);
            body.clear();
        };
        for (address, mirror) in mirrors.iter_mut() {
            if mirror.resident {
                mirror.twin.begin();
                while mirror.twin.collect(*address, &mut body, &mut |_| ()) {
                    send(&mut body);
                }
                continue;
            }
            for at in (0..mirror.twin.bytes()).step_by(SHOWN_BYTES) {
                let bytes = SHOWN_BYTES.min(mirror.twin.bytes() - at);
                let twin = &mut mirror.twin;
                let mut show = |now: &[u8]| twin.compare_shown(at, now, *address, &mut body);
                // Memory that cannot be read cannot have been written either: the device is lost, as the program hears.
                let _ = device.peek(*address + at as u64, bytes as u64, &mut show);
                if body.len() >= BODY_BYTES {
                    send(&mut body);
                }
            }
        }
        if !body.is_empty() {
            send(&mut body);
        }
    }
}
