//! Mirrored memory: memory that the client holds too. The client's changes are applied at once; the device's changes are sent
//! before the client is notified that the work which made them has ended.
//!
//! A twin of every mirror records what the client has. If both sides change the same byte at the same time, which is a race in
//! the program, the client's change wins: the client ignores a byte from here while its own change of that byte is on its way.

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
use crate::outgoing::outbox::Outbox;

/// SnapshotChunk size for comparing memory that is not in this process.
const SHOWN_BYTES: usize = 1 << 20;

/// The mirrors of a session.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// Number of mirrors, so that sessions without any skip the rest.
    live: AtomicUsize,
    /// Work that may have changed mirrors was queued, or was still running when they were last compared.
    worked: AtomicBool,
    /// Host memory account that mirrors are charged to, once set.
    host: OnceLock<Arc<HostMemory>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mirrors: BTreeMap<u64, Mirror>,
    /// Number of the last change from the client that was applied.
    taken: u64,
    tracker: Option<Option<Arc<Tracker>>>,
}

struct Mirror {
    twin: Twin,
    /// The device that owns the memory; `None` for pinned host memory.
    owner: Option<u32>,
    /// Whether its bytes are in this process.
    resident: bool,
    _charge: Option<HostCharge>,
}

/// Description of a mirror in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MirrorRecord {
    address: u64,
    bytes: u64,
    owner: Option<u32>,
}

impl Mirrors {
    /// Charges mirrors to the session's host memory from now on.
    pub(crate) fn count_against(&self, host: &Arc<HostMemory>) {
        let _ = self.host.set(Arc::clone(host));
    }

    /// Adds a newly mapped range as a mirror. Both sides start with zeros.
    pub(crate) fn insert(
        &self,
        device: &dyn Device,
        owner: Option<u32>,
        address: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        // The twin is always host memory. So is the mirror itself, unless it belongs to a device and is charged there.
        let copies = if owner.is_some() { 1 } else { 2 };
        let charge = self.host.get().map(|host| host.charge(bytes.saturating_mul(copies)));
        let charge = charge.transpose().map_err(|left| {
            let text = format!("{bytes} bytes of host memory in {copies} copies: {left}");
            DeviceError::out_of_memory(text)
        })?;
        let memory = device.resident(address, bytes);
        if memory.is_none() {
            // Memory of this process is zero when it is mapped; memory from a GPU may not be.
            let zeros = vec![0; SHOWN_BYTES.min(bytes as usize)];
            for at in (0..bytes).step_by(SHOWN_BYTES) {
                device.write_unordered(address + at, &zeros[..SHOWN_BYTES.min((bytes - at) as usize)])?;
            }
        }
        let mut state = self.state.lock();
        let tracker = state.tracker.get_or_insert_with(|| open_tracker().map(Arc::new)).clone();
        let start = memory.map_or(std::ptr::null_mut(), |memory| memory.as_ptr());
        // SAFETY: resident memory stays mapped until it is unmapped, and the twin is dropped before that; non-resident memory is
        // never accessed through the twin.
        let twin = unsafe { Twin::new(start, bytes as usize, tracker.as_ref().filter(|_| memory.is_some())) };
        let twin = twin.map_err(|error| DeviceError::new(hipErrorOutOfMemory, error.to_string()))?;
        state.mirrors.insert(address, Mirror { twin, owner, resident: memory.is_some(), _charge: charge });
        self.live.store(state.mirrors.len(), Ordering::Release);
        Ok(())
    }

    /// Returns every mirror, and the number of the last applied change from the client.
    pub(crate) fn capture(&self) -> (u64, Vec<MirrorRecord>) {
        let state = self.state.lock();
        let record = |(address, mirror): (&u64, &Mirror)| MirrorRecord {
            address: *address,
            bytes: mirror.twin.bytes() as u64,
            owner: mirror.owner,
        };
        (state.taken, state.mirrors.iter().map(record).collect())
    }

    /// Restores the mirrors of another process, whose memory has been restored with all its bytes.
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
                // Both sides were synchronized before the session left.
                device
                    .read_unordered(it.address + at, bytes, &mut |shown| self.read(it.address + at, shown))?;
            }
        }
        self.state.lock().taken = taken;
        Ok(())
    }

    /// Removes a mirror. Called before its range is unmapped.
    pub(crate) fn remove(&self, address: u64) {
        if self.live.load(Ordering::Acquire) > 0 {
            let mut state = self.state.lock();
            state.mirrors.remove(&address);
            self.live.store(state.mirrors.len(), Ordering::Release);
        }
    }

    /// Removes the mirrors of a device. Called before all its memory is freed.
    pub(crate) fn remove_of(&self, ordinal: u32) {
        let mut state = self.state.lock();
        state.mirrors.retain(|_, mirror| mirror.owner != Some(ordinal));
        self.live.store(state.mirrors.len(), Ordering::Release);
    }

    /// Marks that work which may change memory was queued.
    pub(crate) fn worked(&self) {
        self.worked.store(true, Ordering::SeqCst);
    }

    /// Applies the client's changes.
    pub(crate) fn write(&self, device: &dyn Device, number: u64, body: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.taken = number;
        // A call for every run is cheap only if the memory is in this process.
        let mut runs = Vec::new();
        for change in Changes::new(body) {
            let change = change.map_err(|error| DeviceError::invalid_value(error.to_string()))?;
            let found = state.mirrors.range_mut(..=change.address).next_back();
            let inside = found.and_then(|(start, mirror)| {
                let at = usize::try_from(change.address - start).ok()?;
                (at.checked_add(change.span)? <= mirror.twin.bytes()).then_some((at, mirror))
            });
            // Freed meanwhile by another thread of the program, or never mapped: the change can be dropped.
            let Some((at, mirror)) = inside else { continue };
            let mut result = Ok(());
            change.for_each(|offset, bytes| {
                let address = change.address + offset as u64;
                if mirror.resident {
                    result = result.clone().and_then(|()| device.write_unordered(address, bytes));
                } else {
                    runs.push((address, bytes));
                }
                mirror.twin.agree(at + offset, bytes);
            });
            result?;
        }
        if runs.is_empty() { Ok(()) } else { device.write_runs_unordered(&runs) }
    }

    /// Records that the client is about to receive these bytes of a mirror, in frame order.
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

    /// Sends the client the content of all mirrors, and an end marker.
    pub(crate) fn report(&self, device: &dyn Device, outbox: &Outbox) {
        let mut state = self.state.lock();
        let State { mirrors, taken, .. } = &mut *state;
        let taken = *taken;
        for (start, mirror) in mirrors.iter_mut() {
            for at in (0..mirror.twin.bytes()).step_by(SHOWN_BYTES) {
                let bytes = SHOWN_BYTES.min(mirror.twin.bytes() - at) as u64;
                let address = *start + at as u64;
                let twin = &mut mirror.twin;
                let mut show = |now: &[u8]| {
                    // A copy: running work may change the memory.
                    let now = now.to_vec();
                    outbox.push_at_once(&wire::MirrorState { taken, address }, &now);
                    twin.agree(at, &now);
                };
                // Memory that cannot be read belongs to a lost device, which the program learns separately.
                let _ = device.read_unordered(address, bytes, &mut show);
            }
        }
        outbox.push_at_once(&wire::MirrorState { taken, address: 0 }, &[]);
    }

    /// Sends the client what the device has changed since the last call.
    pub(crate) fn tell(&self, device: &dyn Device, outbox: &Outbox) {
        if self.live.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        // Checked under the lock: another thread may be sending the changes of the very work whose end is about to be reported.
        if !self.worked.load(Ordering::SeqCst) {
            return;
        }
        // Order matters: work queued meanwhile sets the flag again, and work still running now is compared again next time.
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
                // Memory that cannot be read has not been written either: the device is lost, which the program learns
                // separately.
                let _ = device.read_unordered(*address + at as u64, bytes as u64, &mut show);
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
