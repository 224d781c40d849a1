//! Device buffers for the arguments of a case: payloads between guard regions, poisoned outputs, and the checks of both after a call.

use std::ops::Range;
use std::sync::Arc;

use board_problems::{Generator, Prepared, Value};

use crate::generator;
use crate::message::{Fill, Slot};
use crate::session::{Fault, Session};
use crate::times::Step;

/// Size in bytes of the guard region on each side of a payload. A solution must not write there.
pub(crate) const GUARD: u64 = 4096;

/// Most bytes between two parts of a buffer that are read with them.
const SMALL_GAP: usize = 16 << 10;

/// Returns the poison pattern of outputs: NaN in every floating-point type of 16, 32 or 64 bits, and different in each round.
pub(crate) fn poison(seed: u64) -> u32 {
    // The exponent of a 64-bit float has eleven bits.
    let (upper, lower) = (0x7ff1 + (seed >> 7) % 15, 0x7fc1 + (seed >> 29) % 0x3e);
    (upper << 16 | lower) as u32
}

/// Returns the pattern of guard regions, an ordinary number.
fn guard_pattern(seed: u64) -> u32 {
    (seed >> 16) as u32 | 1
}

/// Returns the seed of an argument that the device generates.
pub(crate) fn seed_of_argument(seed: u64, index: usize) -> u64 {
    seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Merges ascending ranges with small gaps: reading the bytes between takes less time than another request.
pub(crate) fn merged(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end + SMALL_GAP => last.end = range.end,
            _ => all.push(range.clone()),
        }
    }
    all
}

/// A forbidden write of a solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForbiddenWrite {
    /// The guard region before or after a buffer changed.
    Guard { name: String, before: bool, distance: u64 },
    /// An input changed.
    Input { name: String, index: usize },
}

impl ForbiddenWrite {
    pub fn message(&self) -> String {
        match self {
            ForbiddenWrite::Guard { name, before: true, distance } => {
                format!("wrote {distance} bytes before the start of `{name}`")
            }
            ForbiddenWrite::Guard { name, before: false, distance } => {
                format!("wrote {distance} bytes past the end of `{name}`")
            }
            ForbiddenWrite::Input { name, index } => format!("changed the input `{name}` at byte {index}"),
        }
    }
}

/// Location of an argument.
enum Place {
    Scalar([u8; 8]),
    Buffer { id: u32, bytes: u64, kind: Kind },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Output,
    InOut,
}

/// The arguments of one case, on the device.
pub(crate) struct Buffers {
    places: Vec<Place>,
    names: Vec<String>,
    /// For each argument, whether the prepared arguments have what the device has: the contents of an input, or the contents of an
    /// in-out argument before the call.
    known: Vec<bool>,
    /// Whether it has generated them since the last call.
    generated: bool,
    guard: u32,
    /// Bytes of each guard region.
    margin: u64,
}

impl Buffers {
    /// Allocates and fills the buffers, numbered from `first`. `margin` is the size of guard regions; without them a device that
    /// checks accesses finds those behind the last element.
    pub fn place(
        session: &mut Session,
        prepared: &Prepared,
        first: u32,
        seed: u64,
        margin: u64,
    ) -> Result<Buffers, Fault> {
        let guard = guard_pattern(seed);
        let mut it = Buffers {
            places: Vec::new(),
            names: Vec::new(),
            known: Vec::new(),
            generated: false,
            guard,
            margin,
        };
        for (index, argument) in prepared.arguments.iter().enumerate() {
            it.names.push(argument.name.clone());
            let kind = match &argument.value {
                Value::Scalar { bytes, .. } => {
                    let mut slot = [0; 8];
                    slot[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
                    it.places.push(Place::Scalar(slot));
                    it.known.push(false);
                    continue;
                }
                Value::Input { .. } => Kind::Input,
                Value::Output { .. } => Kind::Output,
                Value::InOut { .. } => Kind::InOut,
            };
            let id = first + index as u32;
            let bytes = argument.value.size() as u64;
            session.allocate(argument.device, id, it.region(bytes))?;
            session.fill(vec![Fill {
                buffer: id,
                offset: 0,
                words: it.region(bytes) / 4,
                pattern: guard,
            }])?;
            it.places.push(Place::Buffer { id, bytes, kind });
            let content = argument.value.bytes().filter(|bytes| !bytes.is_empty());
            it.known.push(content.is_some());
            if kind == Kind::Input
                && let Some(content) = content
            {
                session.write(id, margin, content)?;
            }
        }
        Ok(it)
    }

    /// Replaces the contents of the inputs. The sizes must be the same.
    pub fn rewrite(&mut self, session: &mut Session, prepared: &Prepared) -> Result<(), Fault> {
        for (index, argument) in prepared.arguments.iter().enumerate() {
            let Place::Buffer { id, kind, .. } = self.places[index] else { continue };
            let content = argument.value.bytes();
            if let (Kind::Input, Some(content)) = (kind, content) {
                session.write(id, self.margin, content)?;
            }
            self.known[index] = content.is_some();
        }
        self.generated = false;
        Ok(())
    }

    /// Has the device generate new inputs from a seed. They are unknown to the host until [`Buffers::know`].
    pub fn generate(
        &mut self,
        session: &mut Session,
        generators: &[Option<Generator>],
        seed: u64,
    ) -> Result<(), Fault> {
        for (index, generator) in generators.iter().enumerate() {
            let (Place::Buffer { id, .. }, Some(generator)) = (&self.places[index], generator) else {
                continue;
            };
            let own = seed_of_argument(seed, index);
            session.generate(generator::request(generator, *id, self.margin, own))?;
            self.known[index] = false;
        }
        self.generated = true;
        Ok(())
    }

    /// Notes that the prepared arguments have the contents that the device has generated. The host generates them itself: the solution may
    /// have changed memory and code of the device, so what the device returns is no evidence.
    pub fn know(&mut self, prepared: &Prepared) {
        for (known, argument) in self.known.iter_mut().zip(&prepared.arguments) {
            *known = argument.value.bytes().is_some_and(|bytes| !bytes.is_empty());
        }
    }

    /// Notes that the prepared arguments have no contents any more.
    pub fn forget(&mut self) {
        self.known.fill(false);
    }

    pub fn free(&self, session: &mut Session) -> Result<(), Fault> {
        for (id, _, _) in self.buffers().map(|(_, buffer)| buffer) {
            session.free(id)?;
        }
        Ok(())
    }

    pub fn slots(&self) -> Vec<Slot> {
        let slot = |place: &Place| match place {
            Place::Scalar(bytes) => Slot::Scalar { bytes: *bytes },
            Place::Buffer { id, .. } => Slot::Buffer { buffer: *id, offset: self.margin },
        };
        self.places.iter().map(slot).collect()
    }

    /// Returns the fills that poison the outputs. Restores the contents of in-out arguments first, unless they are new.
    pub fn poison(
        &mut self,
        session: &mut Session,
        prepared: &Prepared,
        pattern: u32,
    ) -> Result<Vec<Fill>, Fault> {
        let mut fills = Vec::new();
        let generated = std::mem::take(&mut self.generated);
        for (index, (id, bytes, kind)) in self.buffers() {
            match kind {
                Kind::Input => {}
                Kind::Output => {
                    fills.push(Fill { buffer: id, offset: self.margin, words: bytes / 4, pattern });
                }
                Kind::InOut if generated => {}
                Kind::InOut => session.write(id, self.margin, self.content(index, prepared))?,
            }
        }
        Ok(fills)
    }

    /// Returns the outputs in the order of the signature, and the first forbidden write if there was one.
    pub fn outputs(
        &self,
        session: &mut Session,
        prepared: &Prepared,
    ) -> Result<(Vec<Vec<u8>>, Option<ForbiddenWrite>), Fault> {
        let times = Arc::clone(session.times());
        let mut outputs = Vec::new();
        let mut forbidden = None;
        for (index, (id, bytes, kind)) in self.buffers() {
            let before = session.read(id, 0, self.margin)?;
            let mut output = Vec::with_capacity(if kind == Kind::Input { 0 } else { bytes as usize });
            // Empty if the contents are not known; nothing is compared then.
            let expected = self.content(index, prepared);
            let (mut start, mut changed) = (0, None);
            session.read_each(id, self.margin, bytes, |part| {
                times.of(Step::Guards, || {
                    if kind != Kind::Input {
                        output.extend_from_slice(part);
                    } else if let Some(expected) = expected.get(start..start + part.len())
                        && changed.is_none()
                        && part != expected
                    {
                        let place = part.iter().zip(expected).position(|(found, right)| found != right);
                        changed = place.map(|place| start + place);
                    }
                });
                start += part.len();
            })?;
            let after = session.read(id, self.margin + bytes, self.region(bytes) - self.margin - bytes)?;
            forbidden = forbidden.or_else(|| self.guards(index, bytes, &before, &after));
            let name = || self.names[index].clone();
            match kind {
                Kind::Input => {
                    let input = changed.map(|index| ForbiddenWrite::Input { name: name(), index });
                    forbidden = forbidden.or(input);
                }
                Kind::Output | Kind::InOut => outputs.push(output),
            }
        }
        Ok((outputs, forbidden))
    }

    /// The contents of an argument, if they are known.
    fn content<'a>(&self, index: usize, prepared: &'a Prepared) -> &'a [u8] {
        let content = prepared.arguments[index].value.bytes().filter(|_| self.known[index]);
        content.unwrap_or_default()
    }

    /// Reads ascending ranges of bytes of an argument.
    pub fn read(
        &self,
        session: &mut Session,
        argument: usize,
        ranges: &[Range<usize>],
    ) -> Result<Vec<u8>, Fault> {
        let Place::Buffer { id, .. } = self.places[argument] else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let mut parts = ranges.iter().peekable();
        for whole in merged(ranges) {
            let read = session.read(id, self.margin + whole.start as u64, whole.len() as u64)?;
            while let Some(range) = parts.next_if(|range| range.end <= whole.end) {
                bytes.extend_from_slice(&read[range.start - whole.start..range.end - whole.start]);
            }
        }
        Ok(bytes)
    }

    /// Checks the guards before and after a payload of so many bytes.
    fn guards(&self, index: usize, bytes: u64, before: &[u8], after: &[u8]) -> Option<ForbiddenWrite> {
        let pattern = self.guard.to_le_bytes();
        let name = self.names[index].clone();
        // The pattern is aligned with the begin of the region, not with the end of the payload.
        let end = self.margin as usize + bytes as usize;
        let is_whole = |first: usize, (index, byte): (usize, &u8)| *byte == pattern[(first + index) % 4];
        if let Some(position) = before.iter().enumerate().rposition(|byte| !is_whole(0, byte)) {
            let distance = (before.len() - position) as u64;
            return Some(ForbiddenWrite::Guard { name, before: true, distance });
        }
        let position = after.iter().enumerate().position(|byte| !is_whole(end, byte))?;
        Some(ForbiddenWrite::Guard { name, before: false, distance: position as u64 })
    }

    /// Returns the bytes of a buffer with its guards, rounded up to whole words.
    fn region(&self, bytes: u64) -> u64 {
        self.margin + bytes.next_multiple_of(4) + self.margin
    }

    fn buffers(&self) -> impl Iterator<Item = (usize, (u32, u64, Kind))> {
        self.places.iter().enumerate().filter_map(|(index, place)| match place {
            Place::Scalar(_) => None,
            Place::Buffer { id, bytes, kind } => Some((index, (*id, *bytes, *kind))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_together() {
        let far = 10 + SMALL_GAP + 1;
        assert_eq!(merged(&[0..4, 8..10, far..far + 4]), [0..10, far..far + 4]);
        assert_eq!(merged(&[]), []);
    }

    #[test]
    fn poison_is_no_number_in_any_floating_point_type() {
        for seed in 0..10_000_u64 {
            let pattern = poison(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert!(f32::from_bits(pattern).is_nan());
            assert!(f64::from_bits(u64::from(pattern) << 32 | u64::from(pattern)).is_nan());
            for half in [pattern >> 16, pattern & 0xffff] {
                // NaN in both 16-bit formats: all exponent bits set and a non-zero mantissa.
                assert!(half & 0x7c00 == 0x7c00 && half & 0x03ff != 0, "{half:x}");
                assert!(half & 0x7f80 == 0x7f80 && half & 0x007f != 0, "{half:x}");
            }
        }
        assert_ne!(poison(1 << 29), poison(2 << 29));
    }
}
