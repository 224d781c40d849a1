//! Runs one memory instruction on the emulator and on the reference: with addresses that collide, are adjacent, cross dwords and
//! end out of bounds, in every memory that the instruction can access.

use emulator::memory::{Access, Range, RangeCache};
use isa::{Arch, Flags, Format, Inst, Op, Operand, disassemble};

use super::atomic::Atomic;
use super::machine::{M0, Machine, REGISTERS, scalar_index};
use super::memory::Memory;
use super::run;
use isa_reference::exact::Format as Float;
use isa_reference::random::Random;

/// Bytes of global memory, according to the addressing range of the format.
fn global_size(format: Format) -> usize {
    match format {
        Format::Ds | Format::Scratch => 64,
        Format::Mubuf => 1 << 16,
        Format::Smem => 1 << 15,
        _ => 1 << 13,
    }
}

/// Bytes before and after it that belong to the process, but that kernels may not access.
const AROUND: usize = 1 << 13;

/// Backing memory of the emulator.
pub struct Host {
    global: Vec<u64>,
    local: Vec<u64>,
    /// Dwords interleaved by lane.
    private: Vec<u64>,
}

fn qwords(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn bytes(words: &[u64], count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(count);
    bytes
}

impl Host {
    /// Copies `memory`, and sets the address of its global bytes.
    pub fn of(memory: &mut Memory) -> Host {
        let size = memory.private[0].len();
        let mut private = vec![0; 64 * size];
        for (lane, own) in memory.private.iter().enumerate() {
            for (at, byte) in own.iter().enumerate() {
                private[at / 4 * 256 + 4 * lane + at % 4] = *byte;
            }
        }
        let host = Host {
            global: qwords(&[&[0; AROUND], &memory.global[..], &[0; AROUND]].concat()),
            local: qwords(&memory.local),
            private: qwords(&private),
        };
        memory.base = host.global.as_ptr() as u64 + AROUND as u64;
        host
    }

    /// The bytes as they are now, in the shape of `like`.
    pub fn memory(&self, like: &Memory) -> Memory {
        let size = like.private[0].len();
        let private = bytes(&self.private, 64 * size);
        let own = |lane: usize| (0..size).map(|at| private[at / 4 * 256 + 4 * lane + at % 4]).collect();
        Memory {
            base: like.base,
            global: bytes(&self.global[AROUND / 8..], like.global.len()),
            local: bytes(&self.local, like.local.len()),
            private: (0..64).map(own).collect(),
        }
    }
}

/// Atomic operation of an instruction, if it is one.
fn atomic(inst: &Inst) -> Option<Atomic> {
    let name = inst.op.name();
    match name.split_once("atomic_") {
        Some((_, suffix)) => Atomic::of_memory(suffix),
        None => Atomic::of_local(&name.strip_prefix("ds_")?.replace("_rtn", "")),
    }
}

/// A small set of values, so that comparisons find equal ones.
fn few(random: &mut Random, wide: bool) -> Vec<u64> {
    (0..4).map(|_| if wide { random.qword() } else { random.dword().into() }).chain([0, 1]).collect()
}

fn memory(random: &mut Random, format: Format, values: Option<&[u64]>) -> Memory {
    let fill = |random: &mut Random, count: usize| -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            match values {
                Some(values) if values.iter().any(|value| value >> 32 != 0) => {
                    bytes.extend(random.pick(values).to_le_bytes());
                }
                Some(values) => bytes.extend((random.pick(values) as u32).to_le_bytes()),
                None => bytes.extend(random.bits().to_le_bytes()),
            }
        }
        bytes.truncate(count);
        bytes
    };
    let local = random.pick(&[4096, 4096, 1024, 1000, 0]);
    let private = 4 * (1 + random.below(64) as usize);
    Memory {
        base: 0,
        global: fill(random, global_size(format)),
        local: fill(random, local),
        private: (0..64).map(|_| fill(random, private)).collect(),
    }
}

/// Offsets of 64 lanes into a memory: consecutive, equal, from a few values (so that lanes collide), or arbitrary (so that
/// elements overlap).
fn targets(random: &mut Random, limit: u64, size: u64, aligned: bool, past: bool) -> [u64; 64] {
    let slots = (limit / size).max(2) - 1;
    let first = random.below(slots);
    let mut out = [0; 64];
    let kind = random.below(5);
    for (lane, target) in out.iter_mut().enumerate() {
        let slot = match kind {
            0 => first + lane as u64,
            1 => first,
            2 => first + random.below(4),
            3 => first + lane as u64 / 16 + lane as u64 % 16,
            _ => random.below(slots),
        };
        let shift = if kind == 4 && !aligned { random.below(size) } else { 0 };
        *target = if past { slot } else { slot % slots } * size + shift;
        if past && random.chance(40) {
            *target = random.bits() & 0xffff_fffc;
        }
    }
    let shift = if aligned || kind == 4 || size == 1 || random.chance(2) { 0 } else { random.below(size) };
    // Sometimes the last elements end out of bounds.
    let end = if past && random.chance(3) { limit.saturating_sub(first * size + 32 * size) } else { 0 };
    out.map(|target| target + shift + if end > 0 { end.next_multiple_of(size) } else { 0 })
}

fn set(machine: &mut Machine, operand: Operand, lane: usize, value: u64, wide: bool) {
    let Some(at) = Machine::vector_index(operand) else { return };
    machine.v[at][lane] = value as u32;
    if wide {
        machine.v[at + 1][lane] = (value >> 32) as u32;
    }
}

/// Sets the instruction's address registers.
fn aim(random: &mut Random, machine: &mut Machine, memory: &Memory, inst: &Inst) {
    let row = inst.encoding();
    let name = inst.op.name();
    let widths = [row.dst, row.src[1]].map(|t| 4 * u64::from(t.dwords()));
    let mut size = widths.into_iter().max().unwrap_or(4).max(4);
    if name.contains("byte") || name.contains("_u8") || name.contains("_i8") || name.contains("_b8") {
        size = 1;
    } else if name.contains("short") || name.contains("16") && !name.contains("x16") && atomic(inst).is_none()
    {
        size = 2;
    }
    if let Some(atomic) = atomic(inst) {
        size = u64::from(atomic.bits / 8);
    } else if ["read2", "write2", "wrxchg2"].iter().any(|two| name.contains(two)) {
        size = if name.ends_with("64") { 8 } else { 4 };
    }
    let aligned = match atomic(inst) {
        Some(atomic) => atomic.floats.is_some() || inst.format != Format::Ds || random.chance(2),
        None => false,
    };
    let offset = i64::from(inst.imm);
    let local = memory.local.len() as u64;
    if row.flags.has(Flags::LDS_LOAD | Flags::LDS_ONLY)
        || inst.memory.lds
        || [Op::ds_append, Op::ds_consume, Op::ds_read_addtid_b32, Op::ds_write_addtid_b32].contains(&inst.op)
    {
        machine.s[M0] = random.bits() as u32 & 0xffff_0000 | random.below(local + 512) as u32 & !3;
    }
    match inst.format {
        Format::Ds => {
            if matches!(inst.op, Op::ds_swizzle_b32) || row.src[0] == isa::DataType::None {
                return;
            }
            let two = ["read2", "write2", "wrxchg2"].iter().any(|two| name.contains(two));
            let scale = size * if name.contains("st64") { 64 } else { 1 };
            let offset = if two { (inst.imm as u64 & 0xff) * scale } else { inst.imm as u64 };
            for (lane, target) in targets(random, local, size, aligned, true).into_iter().enumerate() {
                set(machine, inst.src[0], lane, target.wrapping_sub(offset), false);
            }
        }
        Format::Scratch => {
            let limit = memory.private[0].len() as u64;
            let mut rest = random.below(limit) & !3;
            let past = random.chance(8);
            let targets = targets(random, limit, size, aligned, past);
            let vaddr = machine.arch == Arch::Gfx90a && !inst.memory.has_saddr || inst.memory.sve;
            if !vaddr {
                rest = targets[0].wrapping_sub(offset as u64);
            }
            if let Some(saddr) = scalar_index(inst.src[2]) {
                machine.s[saddr] = rest as u32;
            } else {
                rest = 0;
            }
            if vaddr {
                for (lane, target) in targets.into_iter().enumerate() {
                    let value = target.wrapping_sub(rest).wrapping_sub(offset as u64);
                    set(machine, inst.src[0], lane, value, false);
                }
            }
        }
        Format::Flat | Format::Global => {
            let past = random.chance(16);
            let limit = memory.global.len() as u64;
            let mut at = targets(random, limit, size, aligned, past)
                .map(|at| memory.base + at % (limit + AROUND as u64 / 2));
            if inst.format == Format::Flat && random.chance(2) {
                let (apart, private) = (random.chance(2), memory.private[0].len() as u64);
                let locals = targets(random, local, size, aligned, true);
                let privates = targets(random, private, size, aligned, false);
                let only = random.below(3);
                for (lane, at) in at.iter_mut().enumerate() {
                    match if apart { only } else { random.below(3) } {
                        0 => *at = 0x0001_0000 << 32 | locals[lane] & 0xffff_ffff,
                        1 => *at = 0x0002_0000 << 32 | privates[lane],
                        _ => {}
                    }
                }
            }
            let base = scalar_index(inst.src[2]);
            let mut rest = 0;
            if let Some(base) = base {
                rest = memory.base - 0x1_0000 - random.below(0x1_0000);
                machine.set_pair(base, rest);
            }
            for (lane, at) in at.into_iter().enumerate() {
                let value = at.wrapping_sub(offset as u64).wrapping_sub(rest);
                set(machine, inst.src[0], lane, value, base.is_none());
            }
        }
        Format::Mubuf => aim_buffer(random, machine, memory, inst, size, aligned),
        _ => {
            let Some(base) = scalar_index(inst.src[0]) else { return };
            let register = scalar_index(inst.src[1]);
            let limit = memory.global.len() as u64 / 4;
            let start = memory.base + random.below(limit) / 8 * 8;
            if let Some(at) = register {
                machine.s[at] = random.below(64) as u32 * if random.chance(2) { 8 } else { 1 };
            }
            if name.contains("buffer") {
                let stride = random.pick(&[0, 0, 4, 12]);
                machine.set_pair(base, start | stride << 48);
                machine.s[base + 2] = random.below(600) as u32;
            } else {
                machine.set_pair(base, start.wrapping_sub((offset & !7) as u64) + random.below(2) * 2);
            }
        }
    }
}

/// Sets up a buffer resource (raw or structured, swizzled or not) and addresses inside and outside its range.
fn aim_buffer(
    random: &mut Random,
    machine: &mut Machine,
    memory: &Memory,
    inst: &Inst,
    size: u64,
    aligned: bool,
) {
    let Some(at) = scalar_index(inst.src[2]) else { return };
    let soffset = random.below(16) * 8;
    if let Some(register) = scalar_index(inst.src[3]) {
        machine.s[register] = soffset as u32;
    }
    let stride = random.pick(&[0, 0, 4, 8, 64, 48]);
    let swizzle = u64::from(inst.imm < 512 && random.chance(3));
    let add_lane = u32::from(random.chance(5));
    let index_stride = random.below(4) as u32;
    machine.set_pair(at, (memory.base + random.below(64) * 8) | stride << 48 | swizzle << 63);
    machine.s[at + 2] = random.pick(&[0, 3, 17, 40, 256, 1000, 1002, 4096, 6000]);
    machine.s[at + 3] = add_lane << 23 | index_stride << 21;
    if stride > 0 && machine.s[at + 2] > 100 && (swizzle > 0 || inst.memory.idxen || add_lane > 0) {
        machine.s[at + 2] = 100;
    }
    let records = u64::from(machine.s[at + 2]);
    let mut next = inst.src[0];
    if inst.memory.idxen {
        let limit = random.pick(&[2, 40, 120]);
        for lane in 0..64 {
            let index = if random.chance(30) { random.bits() } else { random.below(limit) };
            set(machine, next, lane, index, false);
        }
        next = match next {
            Operand::Vgpr(n) => Operand::Vgpr(n + 1),
            other => other,
        };
    }
    if inst.memory.offen {
        let limit = if swizzle > 0 || inst.memory.idxen || add_lane > 0 { 64 } else { records + 64 };
        let past = limit > 64 && random.chance(2);
        for (lane, target) in targets(random, limit, size, aligned, past).into_iter().enumerate() {
            let offset = if past { inst.imm as u64 } else { 0 };
            set(machine, next, lane, target.wrapping_sub(offset), false);
        }
    }
}

/// Whether two words are equal, treating all NaNs as equal.
pub fn alike(floats: Option<Float>, got: &[u8], want: &[u8]) -> bool {
    let Some(format) = floats else { return got == want };
    got == want
        || got.chunks(format.bits as usize / 8).zip(want.chunks(format.bits as usize / 8)).all(
            |(got, want)| {
                let number =
                    |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
                got == want || format.is_nan(number(got)) && format.is_nan(number(want))
            },
        )
}

/// Outcome of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Done,
    /// Both machines rejected an address.
    Refused,
}

/// State that a memory instruction starts from.
pub struct Start {
    pub machine: Machine,
    pub memory: Memory,
    pub host: Host,
    /// Format of the floats that an atomic changes; the payload of a NaN result is unspecified.
    pub floats: Option<Float>,
}

/// A random state in which the instruction's addresses point to memory, mostly.
pub fn prepare(random: &mut Random, arch: Arch, inst: &Inst) -> Start {
    let mut machine = run::state(random, arch, inst);
    let operation = atomic(inst);
    let floats = operation.and_then(|atomic| atomic.floats);
    let values = few(random, operation.is_some_and(|atomic| atomic.bits == 64));
    let values = random.chance(2).then_some(values);
    if let Some(values) = &values {
        for pair in machine.v.chunks_mut(2) {
            let [low, high] = pair else { unreachable!("the number of registers is even") };
            for (low, high) in low.iter_mut().zip(high) {
                let value = random.pick(values);
                (*low, *high) = (value as u32, (value >> 32) as u32);
            }
        }
    }
    let mut memory = memory(random, inst.format, values.as_deref());
    let host = Host::of(&mut memory);
    aim(random, &mut machine, &memory, inst);
    Start { machine, memory, host, floats }
}

/// Runs an instruction on the emulator; the bytes of `start.host` change.
pub fn emulate(
    random: &mut Random,
    start: &mut Start,
    inst: &Inst,
) -> Result<(Machine, Option<emulator::FaultKind>), String> {
    let warm = random.chance(2);
    let (before, host) = (&start.memory, &mut start.host);
    run::emulate_in(run::level(random), &start.machine, inst, |wave| {
        let range = Range {
            start: before.base,
            end: before.base + before.global.len() as u64,
            access: Access::ReadWrite,
        };
        wave.ranges.entries[if warm { RangeCache::slot(0) } else { 5 }] = range;
        (wave.lds, wave.lds_size) = (host.local.as_mut_ptr().cast(), before.local.len() as u32);
        // Not for scalar operations: private memory is ordinary memory too, and a base register that is also the offset may point
        // into it.
        if inst.format != Format::Smem {
            (wave.private, wave.private_size) =
                (host.private.as_mut_ptr().cast(), before.private[0].len() as u32);
        }
    })
}

/// Runs an instruction on both machines. Returns a description of the difference as the error.
pub fn compare(random: &mut Random, arch: Arch, inst: &Inst, code: &[u8]) -> Result<Came, String> {
    let mut prepared = prepare(random, arch, inst);
    let (start, floats) = (prepared.machine.clone(), prepared.floats);
    let mut want_memory = prepared.memory.clone();
    let before = want_memory.clone();
    let text = disassemble(arch, inst, 0);
    let context = |what: String| {
        let code = &code[..inst.size.into()];
        format!("{arch:?} `{text}` {code:02x?}\n   exec {:#x}: {what}", start.exec())
    };
    let mut want = start.clone();
    let Some(done) = want.memory(&mut want_memory, inst) else {
        return Err(context("has no reference implementation".to_string()));
    };
    let (got, fault) = emulate(random, &mut prepared, inst).map_err(context)?;
    if done.is_err() || fault.is_some() {
        return match (done, fault) {
            (Err(_), Some(_)) => Ok(Came::Refused),
            (Err(_), None) => Err(context("was not refused".to_string())),
            (_, fault) => Err(context(format!("was refused: {fault:?}"))),
        };
    }
    let got_memory = prepared.host.memory(&before);
    for (what, got, want, was) in [
        ("global", &got_memory.global, &want_memory.global, &before.global),
        ("local", &got_memory.local, &want_memory.local, &before.local),
    ] {
        if !alike(floats, got, want) {
            let at = (0..got.len()).find(|at| got[*at] != want[*at]).unwrap_or(0) & !3;
            let dword = |bytes: &[u8]| bytes[at..(at + 4).min(bytes.len())].to_vec();
            let (got, want, was) = (dword(got), dword(want), dword(was));
            return Err(context(format!(
                "{what} memory of {:#x} at {at:#x}: {got:02x?}, should be {want:02x?}, was {was:02x?}",
                before.local.len()
            )));
        }
    }
    for lane in 0..64 {
        if !alike(floats, &got_memory.private[lane], &want_memory.private[lane]) {
            return Err(context(format!("private memory of lane {lane}")));
        }
        // Compare all registers of a lane together, since a NaN may span two of them.
        let row = |machine: &Machine| -> Vec<u8> {
            (0..REGISTERS).flat_map(|register| machine.v[register][lane].to_le_bytes()).collect()
        };
        let (got_row, want_row) = (row(&got), row(&want));
        if !alike(floats, &got_row, &want_row) {
            let at = (0..REGISTERS).find(|n| got.v[*n][lane] != want.v[*n][lane]).unwrap_or(0);
            return Err(context(format!(
                "v{at}[{lane}] is {:#x}, should be {:#x}, was {:#x}",
                got.v[at][lane], want.v[at][lane], start.v[at][lane]
            )));
        }
    }
    if got.s != want.s || got.scc != want.scc {
        let at = (0..128).find(|at| got.s[*at] != want.s[*at]).unwrap_or(0);
        return Err(context(format!("s{at} is {:#x}, should be {:#x}", got.s[at], want.s[at])));
    }
    Ok(Came::Done)
}
