//! Values that a kernel starts with. Each is computed once, before the first block.

use lift::form::*;

use crate::generator::{Class, Generator, Section};
use crate::{Mode, launch};

/// Writes the inputs that the function uses.
pub(crate) fn emit(g: &mut Generator<'_>) -> Result<(), Refusal> {
    let before = g.enter(Section::Prologue);
    let function = g.function;
    for index in function.blocks.iter().flat_map(|block| &block.instructions) {
        let instruction = &function.instructions[*index as usize];
        let Operation::Input(input) = instruction.operation else { continue };
        if !g.live.is_live(*index) {
            continue;
        }
        let value = instruction.results[0];
        for half in 0..g.halves_of(value) {
            let from = self::input(g, input, half);
            let size = match g.function.kind(value) {
                Kind::Bit => "pred",
                Kind::Word => "b32",
                Kind::Double => "b64",
            };
            let to = g.result(value, half);
            g.line(format!("mov.{size} {to}, {from}"));
        }
    }
    g.enter(before);
    Ok(())
}

/// The register of an input, for one half.
fn input(g: &mut Generator<'_>, input: Input, half: usize) -> String {
    match input {
        Input::KernargPointer => g.once("kernarg pointer", |g| parameter_address(g, "kernarg")),
        Input::DispatchPointer => g.once("launch pointer", |g| parameter_address(g, "launch")),
        Input::QueuePointer => launch_double(g, launch::QUEUE_POINTER_AT),
        Input::DispatchId => launch_double(g, launch::DISPATCH_ID_AT),
        Input::WorkgroupId(axis) => workgroup_id(g, axis),
        Input::WaveId => wave(g),
        Input::WorkitemId(axis) => workitem_id(g, axis, half),
        Input::LaneNumber => lane_number(g, half),
        Input::LanesBelow => g.once(&format!("lanes below {half}"), |g| {
            let (lane, bit, below) = (lane_number(g, half), g.double(), g.double());
            g.line(format!("shl.b64 {bit}, 1, {lane}"));
            g.line(format!("sub.u64 {below}, {bit}, 1"));
            below
        }),
        Input::HasWorkitem => has_workitem(g, half),
        Input::SharedBase => format!("{:#x}", u64::from(launch::SHARED_APERTURE) << 32),
        Input::PrivateBase => format!("{:#x}", u64::from(launch::PRIVATE_APERTURE) << 32),
        Input::LdsBytes => lds_bytes(g),
        Input::Register(register) => fragment_register(g, register, half),
    }
}

/// The generic address of a parameter.
fn parameter_address(g: &mut Generator<'_>, name: &str) -> String {
    let (address, generic) = (g.double(), g.double());
    g.line(format!("mov.b64 {address}, {name}"));
    g.line(format!("cvta.param.u64 {generic}, {address}"));
    generic
}

fn launch_double(g: &mut Generator<'_>, offset: u32) -> String {
    g.once(&format!("launch {offset}"), |g| {
        let value = g.double();
        g.line(format!("ld.param.u64 {value}, [launch+{offset}]"));
        value
    })
}

fn launch_word(g: &mut Generator<'_>, offset: u32) -> String {
    g.once(&format!("launch word {offset}"), |g| {
        let value = g.word();
        g.line(format!("ld.param.u32 {value}, [launch+{offset}]"));
        value
    })
}

/// Bytes of LDS that the launch gave.
pub(crate) fn lds_bytes(g: &mut Generator<'_>) -> String {
    g.once("lds bytes", |g| {
        let bytes = g.word();
        g.line(format!("mov.u32 {bytes}, %dynamic_smem_size"));
        bytes
    })
}

/// The thread's number in the block.
fn thread(g: &mut Generator<'_>) -> String {
    g.once("thread", |g| {
        let thread = g.word();
        g.line(format!("mov.u32 {thread}, %tid.x"));
        thread
    })
}

/// The thread's number in its warp.
pub(crate) fn warp_thread(g: &mut Generator<'_>) -> String {
    g.once("warp thread", |g| {
        let (thread, number) = (thread(g), g.word());
        g.line(format!("and.b32 {number}, {thread}, 31"));
        number
    })
}

/// A word whose only set bit is the thread's number in its warp.
pub(crate) fn warp_bit(g: &mut Generator<'_>) -> String {
    g.once("warp bit", |g| {
        let (number, bit) = (warp_thread(g), g.word());
        g.line(format!("shl.b32 {bit}, 1, {number}"));
        bit
    })
}

/// The number of the wave in its workgroup.
fn wave(g: &mut Generator<'_>) -> String {
    g.once("wave", |g| {
        let (thread, wave) = (thread(g), g.word());
        let shift = if g.mode == Mode::Pair { 5 } else { 6 };
        g.line(format!("shr.u32 {wave}, {thread}, {shift}"));
        wave
    })
}

/// The number of the lane in its wave.
pub(crate) fn lane_number(g: &mut Generator<'_>, half: usize) -> String {
    g.once(&format!("lane {half}"), |g| {
        if g.mode == Mode::Lane {
            let (thread, lane) = (thread(g), g.word());
            g.line(format!("and.b32 {lane}, {thread}, 63"));
            return lane;
        }
        let thread = warp_thread(g);
        let bits = g.map.thread_bits();
        let start = (half as u32) << g.map.half_bit();
        gather_bits(g, &thread, &bits.map(|bit| bit.map(|bit| (bit, false))), start)
    })
}

/// A word made of chosen bits of another: bit `b` is the given bit, possibly inverted, and `start` is added.
pub(crate) fn gather_bits(
    g: &mut Generator<'_>,
    from: &str,
    bits: &[Option<(u8, bool)>],
    start: u32,
) -> String {
    let mut by_shift: Vec<(i32, u32)> = Vec::new();
    let mut flip = start;
    for (to, source) in bits.iter().enumerate() {
        let Some((bit, inverted)) = source else { continue };
        let shift = to as i32 - i32::from(*bit);
        if *inverted {
            flip ^= 1 << to;
        }
        match by_shift.iter_mut().find(|(other, _)| *other == shift) {
            Some((_, mask)) => *mask |= 1 << to,
            None => by_shift.push((shift, 1 << to)),
        }
    }
    let mut all: Option<String> = None;
    for (shift, mask) in by_shift {
        let moved = match shift {
            0 => from.to_owned(),
            shift => {
                let moved = g.word();
                let name = if shift > 0 { "shl.b32" } else { "shr.u32" };
                g.line(format!("{name} {moved}, {from}, {}", shift.unsigned_abs()));
                moved
            }
        };
        let part = g.word();
        g.line(format!("and.b32 {part}, {moved}, {mask:#x}"));
        all = Some(match all {
            None => part,
            Some(other) => {
                let both = g.word();
                g.line(format!("or.b32 {both}, {other}, {part}"));
                both
            }
        });
    }
    match (all, flip) {
        (Some(all), 0) => all,
        (Some(all), flip) => {
            let flipped = g.word();
            g.line(format!("xor.b32 {flipped}, {all}, {flip:#x}"));
            flipped
        }
        (None, flip) => format!("{flip}"),
    }
}

/// The number of the work-item in its workgroup.
fn flat_id(g: &mut Generator<'_>, half: usize) -> String {
    g.once(&format!("flat {half}"), |g| {
        if g.mode == Mode::Lane {
            return thread(g);
        }
        let (wave, lane, flat) = (wave(g), lane_number(g, half), g.word());
        g.line(format!("mad.lo.u32 {flat}, {wave}, 64, {lane}"));
        flat
    })
}

/// The size of the workgroup in a dimension: an immediate or a register.
fn block_size(g: &mut Generator<'_>, axis: u8) -> String {
    if let Some(block) = g.options.block {
        return format!("{}", block[usize::from(axis)]);
    }
    g.once(&format!("block {axis}"), |g| {
        let (narrow, size) = (g.half(), g.word());
        g.line(format!("ld.param.u16 {narrow}, [launch+{}]", 4 + 2 * u32::from(axis)));
        g.line(format!("cvt.u32.u16 {size}, {narrow}"));
        size
    })
}

/// The quotient of a work-item's number by a size of the workgroup. Constants become multiplications: numbers are below 1024.
fn divide(g: &mut Generator<'_>, number: &str, size: &str) -> String {
    let quotient = g.word();
    match size.parse::<u32>() {
        Ok(size) if size.is_power_of_two() => {
            g.line(format!("shr.u32 {quotient}, {number}, {}", size.trailing_zeros()));
        }
        Ok(size) => {
            // 1024 * 1024 < 2^22: exact for numbers and sizes up to 1024.
            g.line(format!("mul.lo.u32 {quotient}, {number}, {}", (1u32 << 22) / size + 1));
            g.line(format!("shr.u32 {quotient}, {quotient}, 22"));
        }
        Err(_) => g.line(format!("div.u32 {quotient}, {number}, {size}")),
    }
    quotient
}

fn workitem_id(g: &mut Generator<'_>, axis: u8, half: usize) -> String {
    g.once(&format!("work-item {axis} {half}"), |g| {
        let flat = flat_id(g, half);
        let sizes = [block_size(g, 0), block_size(g, 1), block_size(g, 2)];
        if sizes[1] == "1" && sizes[2] == "1" && axis == 0 {
            return flat;
        }
        let rows = divide(g, &flat, &sizes[0]);
        let remainder = |g: &mut Generator<'_>, number: &str, quotient: &str, size: &str| {
            let (whole, rest) = (g.word(), g.word());
            g.line(format!("mul.lo.u32 {whole}, {quotient}, {size}"));
            g.line(format!("sub.u32 {rest}, {number}, {whole}"));
            rest
        };
        match axis {
            0 => remainder(g, &flat, &rows, &sizes[0]),
            1 => {
                let slices = divide(g, &rows, &sizes[1]);
                remainder(g, &rows, &slices, &sizes[1])
            }
            _ => divide(g, &rows, &sizes[1]),
        }
    })
}

fn has_workitem(g: &mut Generator<'_>, half: usize) -> String {
    if g.mode == Mode::Lane {
        return "%true".to_owned();
    }
    if let Some(block) = g.options.block {
        let items: u32 = block.iter().product();
        if items.is_multiple_of(64) {
            return "%true".to_owned();
        }
    }
    g.once(&format!("has work-item {half}"), |g| {
        let sizes = [block_size(g, 0), block_size(g, 1), block_size(g, 2)];
        let (items, has) = (g.word(), g.predicate());
        let flat = flat_id(g, half);
        g.line(format!("mul.lo.u32 {items}, {}, {}", sizes[0], sizes[1]));
        g.line(format!("mul.lo.u32 {items}, {items}, {}", sizes[2]));
        g.line(format!("setp.lt.u32 {has}, {flat}, {items}"));
        has
    })
}

/// The number of the workgroup in a dimension. The grid is one-dimensional for the GPU, whose y and z are small; numbers below the
/// number of workgroups in x need no division.
fn workgroup_id(g: &mut Generator<'_>, axis: u8) -> String {
    let name = |axis: u8| format!("workgroup {axis}");
    g.once(&name(axis.min(2)), |g| {
        let [x, y, z] = [g.word(), g.word(), g.word()];
        let first = launch_word(g, launch::FIRST_GROUP_AT);
        let (columns, rows) = (launch_word(g, launch::GROUPS_AT), launch_word(g, launch::GROUPS_AT + 4));
        let (in_row, done) = (g.predicate(), g.label("GROUP"));
        let (row, rest) = (g.word(), g.word());
        g.line(format!("mov.u32 {x}, %ctaid.x"));
        g.line(format!("add.u32 {x}, {x}, {first}"));
        g.line(format!("mov.u32 {y}, 0"));
        g.line(format!("mov.u32 {z}, 0"));
        g.line(format!("setp.lt.u32 {in_row}, {x}, {columns}"));
        g.line(format!("@{in_row} bra {done}"));
        g.line(format!("div.u32 {row}, {x}, {columns}"));
        g.line(format!("mul.lo.u32 {rest}, {row}, {columns}"));
        g.line(format!("sub.u32 {x}, {x}, {rest}"));
        g.line(format!("div.u32 {z}, {row}, {rows}"));
        g.line(format!("mul.lo.u32 {rest}, {z}, {rows}"));
        g.line(format!("sub.u32 {y}, {row}, {rest}"));
        g.place(&done);
        let all = [x, y, z];
        for (axis, register) in (0..).zip(&all) {
            g.shared.insert(name(axis), register.clone());
        }
        all[usize::from(axis.min(2))].clone()
    })
}

/// Address of the wave's registers, for fragments.
pub(crate) fn register_file(g: &mut Generator<'_>) -> String {
    g.once("register file", |g| {
        let base = launch_double(g, launch::REGISTERS_AT);
        let (wave, group, waves, number, at) = (wave(g), g.word(), g.word(), g.word(), g.double());
        let shift = if g.mode == Mode::Pair { 5 } else { 6 };
        g.line(format!("mov.u32 {group}, %ctaid.x"));
        g.line(format!("mov.u32 {waves}, %ntid.x"));
        g.line(format!("shr.u32 {waves}, {waves}, {shift}"));
        g.line(format!("mad.lo.u32 {number}, {group}, {waves}, {wave}"));
        g.line(format!("mad.wide.u32 {at}, {number}, {}, {base}", launch::REGISTER_BYTES));
        at
    })
}

/// A register of a fragment.
fn fragment_register(g: &mut Generator<'_>, register: Register, half: usize) -> String {
    g.once(&format!("{register:?} {half}"), |g| {
        let file = register_file(g);
        match register {
            Register::Scalar(number) => {
                let word = g.word();
                g.line(format!("ld.global.b32 {word}, [{file}+{}]", launch::scalar_at(number)));
                word
            }
            Register::Scc => {
                let (word, bit) = (g.word(), g.predicate());
                g.line(format!("ld.global.b32 {word}, [{file}+{}]", launch::SCC_AT));
                g.line(format!("setp.ne.u32 {bit}, {word}, 0"));
                bit
            }
            Register::Vector(number) => {
                let (lane, address, word) = (lane_number(g, half), g.fresh(Class::Double), g.word());
                g.line(format!("mad.wide.u32 {address}, {lane}, 4, {file}"));
                g.line(format!("ld.global.b32 {word}, [{address}+{}]", launch::vector_at(number)));
                word
            }
        }
    })
}
