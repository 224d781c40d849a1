//! The reference machine's memory: bytes, and how memory instructions move them, one lane after the other.
//!
//! Implements addresses, ranges, and the width and sign of elements. Atomic operations are in `atomic.rs`. Typed buffers and
//! clocks are not covered.

use isa::{Arch, DataType, Format, Inst, Op};

use super::atomic::Atomic;
use super::machine::{M0, Machine, scalar_index};

/// Memory that an instruction can access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Address of the global bytes.
    pub base: u64,
    pub global: Vec<u8>,
    pub local: Vec<u8>,
    /// One per lane.
    pub private: Vec<Vec<u8>>,
}

/// Location of an access.
#[derive(Clone, Copy, Debug)]
enum Place {
    Global(u64),
    Local(u64),
    Private(u64),
    /// In a swizzled buffer, across a dword boundary: the dword's address, the offset in it, and the distance to the next dword.
    Across {
        dword: u64,
        from: u64,
        stride: u64,
    },
    /// Outside a buffer's range: reads zero, writes are dropped.
    Nowhere,
}

/// Error: the kernel may not make the access.
#[derive(Debug)]
pub struct Refused;

impl Place {
    fn plus(self, bytes: u64) -> Place {
        match self {
            Place::Global(at) => Place::Global(at.wrapping_add(bytes)),
            Place::Local(at) => Place::Local(at + bytes),
            Place::Private(at) => Place::Private(at + bytes),
            Place::Across { dword, from, stride } => {
                let at = from + bytes;
                Place::Global(dword.wrapping_add(at / 4 * stride + at % 4))
            }
            Place::Nowhere => Place::Nowhere,
        }
    }
}

impl Memory {
    /// Bytes of an access; `None` if there is nothing to read or write.
    fn bytes(&mut self, place: Place, lane: usize, count: u64) -> Result<Option<&mut [u8]>, Refused> {
        let (memory, at) = match place {
            Place::Global(address) => (&mut self.global, address.wrapping_sub(self.base)),
            Place::Local(at) => (&mut self.local, at),
            Place::Private(at) => (&mut self.private[lane], at),
            Place::Across { .. } => unreachable!("bytes that are apart are taken one by one"),
            Place::Nowhere => return Ok(None),
        };
        match at.checked_add(count) {
            Some(end) if end <= memory.len() as u64 => Ok(Some(&mut memory[at as usize..end as usize])),
            _ if matches!(place, Place::Local(_)) => Ok(None),
            _ => Err(Refused),
        }
    }

    /// Reads up to eight bytes as a number.
    fn read(&mut self, place: Place, lane: usize, count: u64) -> Result<u64, Refused> {
        if let Place::Across { .. } = place {
            let bytes = (0..count).map(|k| Ok(self.read(place.plus(k), lane, 1)? << (8 * k)));
            return bytes.sum();
        }
        let mut out = [0; 8];
        if let Some(bytes) = self.bytes(place, lane, count)? {
            out[..bytes.len()].copy_from_slice(bytes);
        }
        Ok(u64::from_le_bytes(out))
    }

    fn write(&mut self, place: Place, lane: usize, count: u64, value: u64) -> Result<(), Refused> {
        if let Place::Across { .. } = place {
            return (0..count).try_for_each(|k| self.write(place.plus(k), lane, 1, value >> (8 * k)));
        }
        if let Some(bytes) = self.bytes(place, lane, count)? {
            let count = bytes.len();
            bytes.copy_from_slice(&value.to_le_bytes()[..count]);
        }
        Ok(())
    }
}

/// Element that a load or store moves.
#[derive(Clone, Copy, Debug)]
struct Moved {
    bytes: u64,
    signed: bool,
    /// Which half of the register, for instructions that move one half.
    half: Option<bool>,
}

impl Moved {
    fn named(suffix: &str) -> Option<Moved> {
        let (stem, half) = match suffix.split_once("_d16") {
            Some((stem, "_hi")) => (stem, Some(true)),
            Some((stem, _)) => (stem, Some(false)),
            None => (suffix, None),
        };
        let (bytes, signed) = match stem {
            "ubyte" | "u8" | "byte" | "b8" => (1, false),
            "sbyte" | "i8" => (1, true),
            "ushort" | "u16" | "short" | "b16" => (2, false),
            "sshort" | "i16" => (2, true),
            "dword" | "b32" => (4, false),
            "dwordx2" | "b64" => (8, false),
            "dwordx3" | "b96" => (12, false),
            "dwordx4" | "b128" => (16, false),
            "dwordx8" => (32, false),
            "dwordx16" => (64, false),
            _ => return None,
        };
        Some(Moved { bytes, signed, half })
    }

    /// Register value for an element of at most a dword. With SRAM ECC, loading a half clears the other half.
    fn widened(self, value: u64) -> u32 {
        let shift = 32 - 8 * self.bytes.min(4) as u32;
        let value = (value as u32) << shift;
        let value = if self.signed { (value as i32 >> shift) as u32 } else { value >> shift };
        match self.half {
            None => value,
            Some(false) => value & 0xffff,
            Some(true) => value << 16,
        }
    }

    fn dwords(self) -> usize {
        self.bytes.div_ceil(4) as usize
    }
}

/// Location of each dword of a lane's element.
struct Element {
    dwords: Vec<Place>,
}

type Done = Option<Result<(), Refused>>;

impl Machine {
    /// Runs a memory instruction; `None` for operations without a reference implementation.
    pub fn memory(&mut self, memory: &mut Memory, inst: &Inst) -> Done {
        let name = inst.op.name();
        match inst.format {
            Format::Ds => self.local(memory, inst),
            Format::Smem => self.scalar_memory(memory, inst),
            _ => {
                let (_, operation) = name.split_once('_')?;
                let (kind, suffix) = operation.split_once('_')?;
                let to_local = suffix.strip_prefix("lds_");
                match kind {
                    "load" => {
                        let moved = Moved::named(to_local.unwrap_or(suffix))?;
                        if to_local.is_some() || inst.memory.lds {
                            Some(self.load_to_local(memory, inst, moved))
                        } else {
                            Some(self.load(memory, inst, moved))
                        }
                    }
                    "store" if to_local.is_some() => Some(self.store_of_local(memory, inst)),
                    "store" => Some(self.store(memory, inst, Moved::named(suffix)?)),
                    "atomic" => Some(self.atomic(memory, inst, Atomic::of_memory(suffix)?)),
                    _ => None,
                }
            }
        }
    }

    fn active(&self) -> impl Iterator<Item = usize> + use<> {
        let exec = self.exec();
        (0..64).filter(move |lane| exec >> lane & 1 == 1)
    }

    fn register(operand: isa::Operand) -> usize {
        Machine::vector_index(operand).expect("a vector register")
    }

    /// Location of an instruction's element of `bytes` bytes in a lane.
    fn element(&self, memory: &Memory, inst: &Inst, lane: usize, bytes: u64) -> Element {
        let dwords = bytes.div_ceil(4);
        let v = |operand, n: usize| self.v[Machine::register(operand) + n][lane];
        let in_a_row = |first: Place| Element { dwords: (0..dwords).map(|k| first.plus(4 * k)).collect() };
        let offset = i64::from(inst.imm);
        match inst.format {
            Format::Mubuf => self.buffer(inst, lane, bytes),
            Format::Scratch => {
                let mut at = offset as u32;
                if let Some(saddr) = scalar_index(inst.src[2]) {
                    at = at.wrapping_add(self.s[saddr]);
                }
                let vaddr = match self.arch {
                    Arch::Gfx90a => !inst.memory.has_saddr,
                    Arch::Gfx942 => inst.memory.sve,
                };
                if vaddr {
                    at = at.wrapping_add(v(inst.src[0], 0));
                }
                in_a_row(Place::Private(at.into()))
            }
            _ => {
                let address = match scalar_index(inst.src[2]) {
                    Some(saddr) => self.pair(saddr).wrapping_add(v(inst.src[0], 0).into()),
                    None => u64::from(v(inst.src[0], 0)) | u64::from(v(inst.src[0], 1)) << 32,
                };
                let address = address.wrapping_add_signed(offset);
                let low = address & 0xffff_ffff;
                in_a_row(match (inst.format, address >> 32) {
                    // An element that ends past local memory is out of range as a whole.
                    (Format::Flat, 0x0001_0000) if low + bytes > memory.local.len() as u64 => Place::Nowhere,
                    (Format::Flat, 0x0001_0000) => Place::Local(low),
                    (Format::Flat, 0x0002_0000) => Place::Private(low),
                    _ => Place::Global(address),
                })
            }
        }
    }

    /// Location of a buffer's element: addressing and range checks of a resource.
    fn buffer(&self, inst: &Inst, lane: usize, bytes: u64) -> Element {
        let at = scalar_index(inst.src[2]).expect("a resource");
        let [low, high, records, last] = [self.s[at], self.s[at + 1], self.s[at + 2], self.s[at + 3]];
        let base = u64::from(low) | u64::from(high & 0xffff) << 32;
        let (swizzled, add_lane) = (high >> 31 == 1, last >> 23 & 1 == 1);
        let index_stride = 8_u64 << (last >> 21 & 3);
        let mut stride = u64::from(high >> 16 & 0x3fff);
        if add_lane {
            stride |= u64::from(last >> 15 & 15) << 14;
        }
        let scalar_offset = self.scalar_source(inst.src[3], DataType::U32);
        let mut offset = inst.imm as u32;
        let mut index = 0_u32;
        let mut next = Machine::vector_index(inst.src[0]).unwrap_or(0);
        if inst.memory.idxen {
            index = self.v[next][lane];
            next += 1;
        }
        if inst.memory.offen {
            offset = offset.wrapping_add(self.v[next][lane]);
        }
        if add_lane {
            index = index.wrapping_add(lane as u32);
        }
        let (index, offset, records) = (u64::from(index), u64::from(offset), u64::from(records));
        let structured = stride != 0 && (swizzled || inst.memory.idxen || add_lane);
        let dwords = (0..bytes.div_ceil(4)).map(|k| {
            let size = bytes.min(4);
            let across = swizzled && offset % 4 + size > 4;
            let within = if swizzled {
                let (high, low) = (index / index_stride, index % index_stride);
                (high * stride + (offset / 4 + k) * 4) * index_stride + low * 4 + offset % 4
            } else {
                index * stride + offset + 4 * k
            };
            let inside = match structured {
                true => index < records,
                // Checked for each byte, regardless of their order.
                false => index * stride + offset + 4 * k + size + scalar_offset <= records,
            };
            let address = base.wrapping_add(scalar_offset).wrapping_add(within);
            match inside {
                true if across => {
                    let from = offset % 4;
                    Place::Across { dword: address - from, from, stride: 4 * index_stride }
                }
                true => Place::Global(address),
                false => Place::Nowhere,
            }
        });
        Element { dwords: dwords.collect() }
    }

    fn load(&mut self, memory: &mut Memory, inst: &Inst, moved: Moved) -> Result<(), Refused> {
        let (before, to) = (self.clone(), Machine::register(inst.dst));
        for lane in self.active() {
            let element = before.element(memory, inst, lane, moved.bytes);
            for (k, place) in element.dwords.iter().enumerate() {
                let value = memory.read(*place, lane, moved.bytes.min(4))?;
                self.v[to + k][lane] = moved.widened(value);
            }
        }
        Ok(())
    }

    fn store(&mut self, memory: &mut Memory, inst: &Inst, moved: Moved) -> Result<(), Refused> {
        let from = Machine::register(inst.src[1]);
        for lane in self.active() {
            let element = self.element(memory, inst, lane, moved.bytes);
            for (k, place) in element.dwords.iter().enumerate() {
                let shift = if moved.half == Some(true) { 16 } else { 0 };
                memory.write(*place, lane, moved.bytes.min(4), (self.v[from + k][lane] >> shift).into())?;
            }
        }
        Ok(())
    }

    /// Local memory at M0 + offset + 4 * lane.
    fn lane_of_local(&self, inst: &Inst, lane: usize) -> Place {
        let at = i64::from(self.s[M0] & 0xffff) + i64::from(inst.imm) + 4 * lane as i64;
        u64::try_from(at).map_or(Place::Nowhere, Place::Local)
    }

    fn load_to_local(&mut self, memory: &mut Memory, inst: &Inst, moved: Moved) -> Result<(), Refused> {
        for lane in self.active() {
            let from = self.element(memory, inst, lane, moved.bytes).dwords[0];
            let value = moved.widened(memory.read(from, lane, moved.bytes)?);
            memory.write(self.lane_of_local(inst, lane), lane, 4, value.into())?;
        }
        Ok(())
    }

    fn store_of_local(&mut self, memory: &mut Memory, inst: &Inst) -> Result<(), Refused> {
        for lane in self.active() {
            let value = memory.read(self.lane_of_local(inst, lane), lane, 4)?;
            let to = self.element(memory, inst, lane, 4).dwords[0];
            memory.write(to, lane, 4, value)?;
        }
        Ok(())
    }

    /// Reads a register or a register pair.
    fn word(&self, at: usize, lane: usize, bits: u32) -> u64 {
        let high = if bits == 64 { self.v[at + 1][lane] } else { 0 };
        u64::from(self.v[at][lane]) | u64::from(high) << 32
    }

    fn put_word(&mut self, at: usize, lane: usize, bits: u32, value: u64) {
        self.v[at][lane] = value as u32;
        if bits == 64 {
            self.v[at + 1][lane] = (value >> 32) as u32;
        }
    }

    fn atomic(&mut self, memory: &mut Memory, inst: &Inst, atomic: Atomic) -> Result<(), Refused> {
        let (bits, bytes) = (atomic.bits, u64::from(atomic.bits / 8));
        let data = Machine::register(inst.src[1]);
        for lane in self.active() {
            let element = self.element(memory, inst, lane, bytes);
            let whole = !matches!(element.dwords.last(), Some(Place::Nowhere));
            let place = if whole { element.dwords[0] } else { Place::Nowhere };
            match place {
                Place::Global(address) if address % bytes != 0 => return Err(Refused),
                Place::Across { .. } => return Err(Refused),
                _ => {}
            }
            let old = memory.read(place, lane, bytes)?;
            let mut operands = (self.word(data, lane, bits), 0);
            if atomic.is_pair() {
                // The new value comes before the compare value.
                operands = (self.word(data + bits as usize / 32, lane, bits), operands.0);
            }
            memory.write(place, lane, bytes, atomic.apply(old, operands.0, operands.1))?;
            if inst.memory.glc {
                self.put_word(Machine::register(inst.dst), lane, bits, old);
            }
        }
        Ok(())
    }

    fn local(&mut self, memory: &mut Memory, inst: &Inst) -> Done {
        let bare = inst.op.name().strip_prefix("ds_")?;
        let before = self.clone();
        let raw = inst.imm as u32;
        let address = |lane: usize| before.v[Machine::register(inst.src[0])][lane];
        let at = |lane: usize, offset: u32| Place::Local(address(lane).wrapping_add(offset).into());
        let local = |result: Result<u64, Refused>| result.expect("local memory refuses nothing");
        let written = |result: Result<(), Refused>| result.expect("local memory refuses nothing");
        match inst.op {
            Op::ds_bpermute_b32 | Op::ds_permute_b32 | Op::ds_swizzle_b32 => {
                self.across(inst, raw)?;
                return Some(Ok(()));
            }
            Op::ds_append | Op::ds_consume => {
                let place = Place::Local(u64::from(self.s[M0] & 0xffff) + u64::from(raw));
                let old = local(memory.read(place, 0, 4));
                let count = u64::from(self.exec().count_ones());
                let new =
                    if inst.op == Op::ds_append { old.wrapping_add(count) } else { old.wrapping_sub(count) };
                written(memory.write(place, 0, 4, new & 0xffff_ffff));
                for lane in self.active() {
                    self.v[Machine::register(inst.dst)][lane] = old as u32;
                }
                return Some(Ok(()));
            }
            Op::ds_read_addtid_b32 => {
                for lane in self.active() {
                    let value = local(memory.read(self.lane_of_local(inst, lane), lane, 4));
                    self.v[Machine::register(inst.dst)][lane] = value as u32;
                }
                return Some(Ok(()));
            }
            Op::ds_write_addtid_b32 => {
                for lane in self.active() {
                    let value = self.v[Machine::register(inst.src[1])][lane];
                    written(memory.write(self.lane_of_local(inst, lane), lane, 4, value.into()));
                }
                return Some(Ok(()));
            }
            _ => {}
        }
        // Two addresses, with offsets in units of one or 64 elements: first all lanes' first one, then all lanes' second one.
        if bare.starts_with("read2") || bare.starts_with("write2") || bare.starts_with("wrxchg2") {
            let bits = if bare.ends_with("64") { 64 } else { 32 };
            let bytes = u64::from(bits / 8);
            let scale = bits / 8 * if bare.contains("st64") { 64 } else { 1 };
            for (k, offset) in [raw & 0xff, raw >> 8].into_iter().enumerate() {
                for lane in self.active() {
                    let place = at(lane, offset * scale);
                    let old = local(memory.read(place, lane, bytes));
                    if !bare.starts_with("read2") {
                        let data = before.word(Machine::register(inst.src[1 + k]), lane, bits);
                        written(memory.write(place, lane, bytes, data));
                    }
                    if !bare.starts_with("write2") {
                        let to = Machine::register(inst.dst) + k * bits as usize / 32;
                        self.put_word(to, lane, bits, old);
                    }
                }
            }
            return Some(Ok(()));
        }
        if let Some(suffix) = bare.strip_prefix("read_") {
            let moved = Moved::named(suffix)?;
            for lane in self.active() {
                // An element that ends past local memory is out of range as a whole.
                let inside =
                    u64::from(address(lane).wrapping_add(raw)) + moved.bytes <= memory.local.len() as u64;
                for k in 0..moved.dwords() {
                    let place = if inside { at(lane, raw).plus(4 * k as u64) } else { Place::Nowhere };
                    let value = local(memory.read(place, lane, moved.bytes.min(4)));
                    self.v[Machine::register(inst.dst) + k][lane] = moved.widened(value);
                }
            }
            return Some(Ok(()));
        }
        if let Some(suffix) = bare.strip_prefix("write_") {
            let moved = Moved::named(suffix)?;
            let shift = if moved.half == Some(true) { 16 } else { 0 };
            for lane in self.active() {
                if u64::from(address(lane).wrapping_add(raw)) + moved.bytes > memory.local.len() as u64 {
                    continue;
                }
                for k in 0..moved.dwords() {
                    let value = self.v[Machine::register(inst.src[1]) + k][lane] >> shift;
                    let place = at(lane, raw).plus(4 * k as u64);
                    written(memory.write(place, lane, moved.bytes.min(4), value.into()));
                }
            }
            return Some(Ok(()));
        }
        let atomic = Atomic::of_local(&bare.replace("_rtn", ""))?;
        let (bits, bytes) = (atomic.bits, u64::from(atomic.bits / 8));
        for lane in self.active() {
            let old = local(memory.read(at(lane, raw), lane, bytes));
            let first = before.word(Machine::register(inst.src[1]), lane, bits);
            let second =
                if atomic.is_pair() { before.word(Machine::register(inst.src[2]), lane, bits) } else { 0 };
            written(memory.write(at(lane, raw), lane, bytes, atomic.apply(old, first, second)));
            if bare.contains("_rtn") {
                self.put_word(Machine::register(inst.dst), lane, bits, old);
            }
        }
        Some(Ok(()))
    }

    /// Moves data between lanes; inactive lanes supply zero. `None` for unsupported swizzles.
    fn across(&mut self, inst: &Inst, raw: u32) -> Option<()> {
        let before = self.clone();
        let (exec, to) = (self.exec(), Machine::register(inst.dst));
        let first = &before.v[Machine::register(inst.src[0])];
        let named = |lane: usize| (first[lane].wrapping_add(raw) / 4 % 64) as usize;
        let mut out = [0; 64];
        for lane in 0..64 {
            match inst.op {
                Op::ds_permute_b32 if exec >> lane & 1 == 1 => {
                    out[named(lane)] = before.v[Machine::register(inst.src[1])][lane];
                }
                Op::ds_permute_b32 => {}
                _ => {
                    let (from, data) = match inst.op {
                        Op::ds_bpermute_b32 => (named(lane), &before.v[Machine::register(inst.src[1])]),
                        _ => (swizzled(raw, lane)?, first),
                    };
                    out[lane] = if exec >> from & 1 == 1 { data[from] } else { 0 };
                }
            }
        }
        for lane in self.active() {
            self.v[to][lane] = out[lane];
        }
        Some(())
    }

    fn scalar_memory(&mut self, memory: &mut Memory, inst: &Inst) -> Done {
        let name = inst.op.name().strip_prefix("s_")?;
        let base = scalar_index(inst.src[0])?;
        let data = scalar_index(inst.dst)?;
        let register = scalar_index(inst.src[1]).map_or(0, |at| i64::from(self.s[at]));
        let buffered = name.starts_with("buffer_");
        let scratch = name.starts_with("scratch_");
        let offset = i64::from(inst.imm) + if scratch { 64 * register } else { register };
        let place = |machine: &Machine, bytes: u64| {
            if !buffered {
                return Place::Global(machine.pair(base).wrapping_add_signed(offset) & !3);
            }
            let stride = u64::from(machine.s[base + 1] >> 16 & 0x3fff);
            let size = u64::from(machine.s[base + 2]) * stride.max(1);
            match u64::try_from(offset & !3) {
                Ok(at) if at + bytes <= size => Place::Global((machine.pair(base) & 0xffff_ffff_ffff) + at),
                _ => Place::Nowhere,
            }
        };
        let bare = name.trim_start_matches("buffer_").trim_start_matches("scratch_");
        let (kind, suffix) = bare.split_once('_')?;
        if kind == "atomic" {
            let atomic = Atomic::of_memory(suffix)?;
            let (dwords, bytes) = (atomic.bits as usize / 32, u64::from(atomic.bits / 8));
            let operand = |machine: &Machine, n: usize| match dwords {
                1 => u64::from(machine.s[data + n]),
                _ => machine.pair(data + 2 * n),
            };
            let place = place(self, bytes);
            if matches!(place, Place::Global(address) if address % bytes != 0) {
                return Some(Err(Refused));
            }
            let Ok(old) = memory.read(place, 0, bytes) else { return Some(Err(Refused)) };
            let operands = match atomic.is_pair() {
                true => (operand(self, 1), operand(self, 0)),
                false => (operand(self, 0), 0),
            };
            let done = memory.write(place, 0, bytes, atomic.apply(old, operands.0, operands.1));
            if inst.memory.glc {
                for k in 0..dwords {
                    self.s[data + k] = (old >> (32 * k)) as u32;
                }
            }
            return Some(done);
        }
        let dwords = Moved::named(suffix)?.dwords();
        let before = self.clone();
        for k in 0..dwords {
            // Each dword of a buffer is range-checked separately.
            let place = match place(&before, 4 * (k as u64 + 1)) {
                Place::Global(address) => Place::Global(address.wrapping_add(4 * k as u64)),
                other => other,
            };
            let done = match kind {
                "load" => memory.read(place, 0, 4).map(|value| self.s[data + k] = value as u32),
                "store" => memory.write(place, 0, 4, before.s[data + k].into()),
                _ => return None,
            };
            if done.is_err() {
                return Some(done);
            }
        }
        Some(Ok(()))
    }
}

/// Lane that `ds_swizzle_b32` reads; `None` for FFT patterns.
fn swizzled(pattern: u32, lane: usize) -> Option<usize> {
    let (group, within) = (lane / 32 * 32, lane as u32 % 32);
    let from = match pattern >> 13 {
        7 => return None,
        6 => {
            let (keep, count) = (pattern % 32, pattern / 32 % 32);
            let turned = if pattern >> 10 & 1 == 1 { within + 32 - count } else { within + count };
            (within & keep) | ((turned % 32) & !keep)
        }
        4 | 5 => within / 4 * 4 + (pattern >> (2 * (within % 4)) & 3),
        _ => ((within & (pattern % 32)) | (pattern / 32 % 32)) ^ (pattern / 1024 % 32),
    };
    Some(group + from as usize)
}
