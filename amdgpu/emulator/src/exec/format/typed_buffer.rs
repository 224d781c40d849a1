//! Typed buffer accesses: MTBUF, with the format in the instruction, and the `format` operations of MUBUF, with the format in the
//! buffer resource.
//!
//! An element has up to four components of 2 to 32 bits. Loads widen them to f32 or 32-bit integers (f16 or 16-bit integers in
//! the `d16` forms), stores narrow them. Out-of-range elements read as zero and are not written.

use isa::{Format, Inst};

use crate::compile::{Compiler, Unsupported};
use crate::exec::access::checked::*;
use crate::exec::format::mubuf::{BufferAccess, check_dword, place, put_address};
use crate::exec::math::float::{f32_to_half, half_to_f32};
use crate::level::ActiveBody;
use crate::{Flow, Level, Src, SrcKind, Uop, Wave, handler};

/// Parameters of a typed access, packed into a micro-op's `imm`.
#[derive(Clone, Copy, Debug)]
struct Typed {
    /// Number of components in registers: 1 to 4.
    components: usize,
    /// Each register holds two 16-bit components.
    half: bool,
    /// The single component is in the upper half of the register.
    high: bool,
    /// Data and number format from the instruction; `None` if they come from the resource.
    format: Option<(u8, u8)>,
}

impl Typed {
    fn pack(self) -> i64 {
        let (data, number) = self.format.unwrap_or((0, 0));
        i64::from_le_bytes([
            self.components as u8,
            self.half.into(),
            self.high.into(),
            self.format.is_some().into(),
            data,
            number,
            0,
            0,
        ])
    }

    fn unpack(bits: i64) -> Typed {
        let [components, half, high, own, data, number, ..] = bits.to_le_bytes();
        Typed {
            components: usize::from(components).clamp(1, 4),
            half: half != 0,
            high: high != 0,
            format: (own != 0).then_some((data, number)),
        }
    }

    fn registers(self) -> usize {
        if self.half { self.components.div_ceil(2) } else { self.components }
    }
}

/// Memory layout and number format of an element.
struct Layout {
    /// First bit and width in bits of each component.
    fields: &'static [(u32, u32)],
    bytes: u32,
    number: u8,
    /// Source of each register component: 0 selects zero, 1 selects one, 4 to 7 a component of the element.
    select: [u8; 4],
}

const SELECT_FIRST: u8 = 4;

impl Layout {
    fn of(wave: &Wave, uop: &Uop, typed: Typed) -> Layout {
        let word = wave.sgprs[usize::from(uop.src[2].index) + 3];
        let (data, number) = typed.format.unwrap_or(((word >> 15 & 15) as u8, (word >> 12 & 7) as u8));
        let select = match typed.format {
            Some(_) => [4, 5, 6, 7],
            None => [0, 3, 6, 9].map(|low| (word >> low & 7) as u8),
        };
        let (fields, bytes): (&[(u32, u32)], u32) = match data {
            1 => (&[(0, 8)], 1),
            2 => (&[(0, 16)], 2),
            3 => (&[(0, 8), (8, 8)], 2),
            4 => (&[(0, 32)], 4),
            5 => (&[(0, 16), (16, 16)], 4),
            6 => (&[(0, 11), (11, 11), (22, 10)], 4),
            7 => (&[(0, 10), (10, 11), (21, 11)], 4),
            8 => (&[(0, 2), (2, 10), (12, 10), (22, 10)], 4),
            9 => (&[(0, 10), (10, 10), (20, 10), (30, 2)], 4),
            10 => (&[(0, 8), (8, 8), (16, 8), (24, 8)], 4),
            11 => (&[(0, 32), (32, 32)], 8),
            12 => (&[(0, 16), (16, 16), (32, 16), (48, 16)], 8),
            13 => (&[(0, 32), (32, 32), (64, 32)], 12),
            14 => (&[(0, 32), (32, 32), (64, 32), (96, 32)], 16),
            _ => (&[], 0),
        };
        Layout { fields, bytes, number, select }
    }

    /// Returns true if the components are floats in registers.
    fn floats(&self) -> bool {
        !matches!(self.number, 4 | 5)
    }

    /// Converts a component from its memory format to 32 bits.
    fn widen(&self, bits: u32, width: u32) -> u32 {
        let signed = (bits << (32 - width)) as i32 >> (32 - width);
        let most = (1_u64 << width) as f32 - 1.0;
        match self.number {
            0 => (bits as f32 / most).to_bits(),
            1 | 6 => (signed as f32 / ((1_u64 << (width - 1)) as f32 - 1.0)).max(-1.0).to_bits(),
            2 => (bits as f32).to_bits(),
            3 => (signed as f32).to_bits(),
            5 => signed as u32,
            7 if width == 32 => bits,
            7 if width == 16 => half_to_f32(bits).to_bits(),
            // Unsigned floats with the exponent of an f16 and a shorter mantissa.
            7 if matches!(width, 10 | 11) => half_to_f32(bits << (15 - width)).to_bits(),
            7 => 0,
            _ => bits,
        }
    }

    /// Converts a component from 32 bits to its memory format.
    fn narrow(&self, value: u32, width: u32) -> u32 {
        let float = f32::from_bits(value);
        let most = (1_u64 << width) as f32 - 1.0;
        let half = (1_u64 << (width - 1)) as f32;
        let mask = (u64::MAX >> (64 - width)) as u32;
        mask & match self.number {
            0 => (float.clamp(0.0, 1.0) * most).round_ties_even() as u32,
            1 | 6 => (float.clamp(-1.0, 1.0) * (half - 1.0)).round_ties_even() as i32 as u32,
            2 => float.clamp(0.0, most).round_ties_even() as u32,
            3 => float.clamp(-half, half - 1.0).round_ties_even() as i32 as u32,
            4 => value.min(mask),
            5 => i64::from(value as i32).clamp(-(1 << (width - 1)), (1 << (width - 1)) - 1) as u32,
            7 if width == 32 => value,
            7 if width == 16 => f32_to_half(float),
            7 if matches!(width, 10 | 11) => f32_to_half(float.max(0.0)) >> (15 - width),
            _ => 0,
        }
    }
}

/// Checks all dwords of the elements and returns the in-range lanes; `None` after a fault.
fn reachable(wave: &mut Wave, uop: &Uop, access: &BufferAccess, bytes: u32, write: bool) -> Option<u64> {
    let dwords = bytes.div_ceil(4).max(1);
    let within = access.within[dwords as usize - 1];
    if within == 0 || bytes == 0 {
        return Some(0);
    }
    for dword in 0..dwords {
        let size = u64::from((bytes - 4 * dword).min(4));
        if !check_dword(wave, uop, access, dword as usize, size, within, write) {
            return None;
        }
    }
    Some(within)
}

struct TypedLoad;
impl ActiveBody for TypedLoad {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let typed = Typed::unpack(uop.imm);
        let layout = Layout::of(wave, uop, typed);
        let access = place(wave, uop, exec, layout.bytes.max(1));
        let Some(within) = reachable(wave, uop, &access, layout.bytes, false) else { return Flow::Fault };
        for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
            let mut element = 0_u128;
            if within >> lane & 1 != 0 {
                for k in 0..layout.bytes {
                    // SAFETY: the element's bytes were checked for this lane.
                    let byte = unsafe { (access.byte(lane, k as usize) as *const u8).read() };
                    element |= u128::from(byte) << (8 * k);
                }
            }
            let component = |n: usize| match layout.select[n] {
                _ if within >> lane & 1 == 0 => 0,
                1 => one(&layout),
                chosen @ SELECT_FIRST.. => {
                    let chosen = usize::from(chosen - SELECT_FIRST);
                    match layout.fields.get(chosen) {
                        Some(&(low, width)) => {
                            layout.widen((element >> low) as u32 & (u64::MAX >> (64 - width)) as u32, width)
                        }
                        // Missing components are zero, except that the fourth is one.
                        None if chosen == 3 => one(&layout),
                        None => 0,
                    }
                }
                _ => 0,
            };
            for register in 0..typed.registers() {
                // SAFETY: destination registers were checked at compile time.
                let to = unsafe { &mut (*vector_mut(wave, uop.dst + register as u16)).0[lane] };
                if !typed.half {
                    *to = component(register);
                    continue;
                }
                let short = |n: usize| {
                    let value = component(n);
                    if layout.floats() { f32_to_half(f32::from_bits(value)) } else { value & 0xffff }
                };
                *to = if typed.high {
                    *to & 0xffff | short(0) << 16
                } else if 2 * register + 1 < typed.components {
                    short(2 * register) | short(2 * register + 1) << 16
                } else {
                    *to & 0xffff_0000 | short(2 * register)
                };
            }
        }
        Flow::Next
    }
}

fn one(layout: &Layout) -> u32 {
    if layout.floats() { 1.0_f32.to_bits() } else { 1 }
}

struct TypedStore;
impl ActiveBody for TypedStore {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let typed = Typed::unpack(uop.imm);
        let layout = Layout::of(wave, uop, typed);
        let access = place(wave, uop, exec, layout.bytes.max(1));
        let Some(within) = reachable(wave, uop, &access, layout.bytes, true) else { return Flow::Fault };
        for lane in (0..64).filter(|lane| within >> lane & 1 != 0) {
            let register = |n: usize| {
                // SAFETY: data registers were checked at compile time.
                unsafe { (*vector(wave, uop.src[1].index + n as u16)).0[lane] }
            };
            let component = |n: usize| {
                if n >= typed.components {
                    return 0;
                }
                if !typed.half {
                    return register(n);
                }
                let bits = register(n / 2) >> if typed.high { 16 } else { 16 * (n as u32 & 1) } & 0xffff;
                match layout.number {
                    5 => bits as i16 as u32,
                    4 => bits,
                    _ => half_to_f32(bits).to_bits(),
                }
            };
            let mut element = 0_u128;
            for (chosen, &(low, width)) in layout.fields.iter().enumerate() {
                let from =
                    layout.select.iter().position(|&n| usize::from(n) == usize::from(SELECT_FIRST) + chosen);
                let bits = from.map_or(0, |n| layout.narrow(component(n), width));
                element |= u128::from(bits) << low;
            }
            for k in 0..layout.bytes {
                // SAFETY: the element's bytes were checked for writing.
                unsafe { (access.byte(lane, k as usize) as *mut u8).write((element >> (8 * k)) as u8) };
            }
        }
        Flow::Next
    }
}

/// Compiles `tbuffer_*` and `buffer_*_format_*`; `None` for other operations.
pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Option<Result<Uop, Unsupported>> {
    // `buffer_load_format_d16_xy` -> `load`, `d16_xy`.
    let name = inst.op.name().trim_start_matches('t').strip_prefix("buffer_")?;
    let (kind, which) = name.split_once("_format_")?;
    let high = which == "d16_hi_x";
    let half = which.starts_with("d16_");
    let typed = Typed {
        components: which.rsplit('_').next().map_or(1, str::len),
        half,
        high,
        format: (inst.format == Format::Mtbuf).then_some((inst.memory.dfmt, inst.memory.nfmt)),
    };
    Some(assemble(compiler, inst, inst_index, kind == "store", typed))
}

fn assemble(
    compiler: &mut Compiler,
    inst: &Inst,
    inst_index: u32,
    store: bool,
    typed: Typed,
) -> Result<Uop, Unsupported> {
    if inst.memory.tfe || inst.memory.lds {
        return Err(Unsupported::Form {
            mnemonic: inst.op.name(),
            what: "typed loads to LDS and texture fail enable (TFE) are not supported",
        });
    }
    let run = if store { handler::<TypedStore>(Level::Base) } else { handler::<TypedLoad>(Level::Base) };
    let mut uop = compiler.uop(run, inst_index);
    uop.imm = typed.pack();
    uop.flags = (inst.imm << 8) as u32;
    let registers = typed.registers() as u16;
    if store {
        uop.src[1] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[1], registers)? };
    } else {
        uop.dst = compiler.vector(inst, &inst.dst, registers)?;
    }
    put_address(compiler, inst, &mut uop)?;
    Ok(uop)
}
