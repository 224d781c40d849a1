//! Generates instruction words with random operands from the encoding tables, verified by the decoder.

use isa::{Arch, Encoding, Flags, Format, Inst, decode};

use isa_reference::random::Random;

/// Encodings of a vector operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The shortest encoding, as listed in the table.
    Short,
    /// VOP3 encoding of a VOP1, VOP2 or VOPC operation.
    Long,
    Sdwa,
    Dpp,
}

pub const FORMS: [Form; 4] = [Form::Short, Form::Long, Form::Sdwa, Form::Dpp];

/// Whether an operation has a form.
pub fn has(row: &Encoding, form: Form) -> bool {
    let short = matches!(row.format, Format::Vop1 | Format::Vop2 | Format::Vopc);
    match form {
        Form::Short => true,
        Form::Long => short && !row.flags.has(Flags::NO_E64),
        Form::Sdwa => short && row.flags.has(Flags::SDWA),
        Form::Dpp => short && row.flags.has(Flags::DPP),
    }
}

/// Generates a random instruction of the operation in this form; `None` if no valid operands were found.
pub fn draw(random: &mut Random, arch: Arch, row: &Encoding, form: Form) -> Option<(Inst, Vec<u8>)> {
    let opcode = u32::from(row.opcode(arch)?);
    for _ in 0..4000 {
        let words = words(random, row, opcode, form);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Ok(inst) = decode(arch, &bytes)
            && inst.op == row.op
            && makes_sense(&inst)
        {
            return Some((inst, bytes));
        }
    }
    None
}

/// Whether the emulator supports the instruction: relative moves have register sources, a buffer's scalar offset is not part of
/// its resource, and swizzles are not FFT patterns.
fn makes_sense(inst: &Inst) -> bool {
    if inst.op == isa::Op::ds_swizzle_b32 {
        return inst.imm < 0xe000;
    }
    if matches!(inst.format, Format::Mubuf | Format::Mtbuf)
        && let (Some(resource), Some(offset)) =
            (super::machine::scalar_index(inst.src[2]), super::machine::scalar_index(inst.src[3]))
    {
        return !(resource..resource + 4).contains(&offset);
    }
    !inst.op.name().starts_with("s_movrels") || super::machine::scalar_index(inst.src[0]).is_some()
}

/// A vector register number; from a small range, so that operands overlap, and even in half of the cases.
fn register(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => random.below(44) as u32,
        1 => random.below(12) as u32,
        _ => 2 * random.below(6) as u32,
    }
}

fn scalar_register(random: &mut Random) -> u32 {
    match random.below(10) {
        0 => 106,
        1 => random.pick(&[107, 124, 126, 127, 102, 103, 108, 112]),
        2 => random.below(102) as u32,
        _ => 2 * random.below(20) as u32,
    }
}

/// An 8-bit source: scalar registers, constants, hardware values.
fn scalar(random: &mut Random) -> u32 {
    match random.below(8) {
        0 => 128 + random.below(81) as u32,
        1 => 240 + random.below(9) as u32,
        2 => random.pick(&[235, 236, 237, 238, 251, 252, 253, 255]),
        _ => scalar_register(random),
    }
}

/// A 9-bit source.
fn source(random: &mut Random) -> u32 {
    if random.chance(3) { scalar(random) } else { 256 + register(random) }
}

/// Mostly zero, so that unused bits that must be zero often are.
fn sparse(random: &mut Random, bits: u32) -> u32 {
    let all = ((1_u64 << bits) - 1) as u32;
    match random.below(4) {
        0 => 0,
        1 => 1 << random.below(u64::from(bits)) & all,
        _ => random.bits() as u32 & all,
    }
}

fn words(random: &mut Random, row: &Encoding, opcode: u32, form: Form) -> [u32; 3] {
    let literal = random.dword();
    let (dst, second) = (register(random), register(random));
    let sgpr_dst = row.flags.has(Flags::SGPR_DST) || row.format == Format::Vopc;
    let dst = if sgpr_dst { scalar_register(random) } else { dst };
    let short = |source: u32| match row.format {
        Format::Vop1 => 0x7e00_0000 | dst << 17 | opcode << 9 | source,
        Format::Vop2 => opcode << 25 | dst << 17 | second << 9 | source,
        _ => 0x7c00_0000 | opcode << 17 | second << 9 | source,
    };
    match (row.format, form) {
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Short) => [short(source(random)), literal, 0],
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Sdwa) => {
            let selections = random.bits() as u32 & 0x0707_1f00;
            let modifiers = sparse(random, 32) & 0x3838_e000;
            let second_scalar = if random.chance(4) { 1 << 31 } else { 0 };
            let (register, kind) =
                if random.chance(4) { (scalar(random), 1 << 23) } else { (register(random), 0) };
            [short(249), register & 0xff | selections | modifiers | second_scalar | kind, literal]
        }
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Dpp) => {
            let controls: [u32; 12] =
                [0x1b, 0xe4, 0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143, 0x101, 0x153];
            let control = match random.below(6) {
                0 => random.below(256) as u32,
                1 => 0x100 + random.below(0x30) as u32,
                2 | 3 => 0x150 + random.below(16) as u32,
                _ => random.pick(&controls),
            };
            let masks = if random.chance(2) { 0xff00_0000 } else { (random.bits() as u32) << 24 };
            let modifiers = sparse(random, 5) << 19;
            [short(250), register(random) | control << 8 | masks | modifiers, literal]
        }
        (Format::Sop1, _) => {
            [0xbe80_0000 | scalar_register(random) << 16 | opcode << 8 | scalar(random), literal, 0]
        }
        (Format::Sop2, _) => [
            0x8000_0000 | opcode << 23 | scalar_register(random) << 16 | scalar(random) << 8 | scalar(random),
            literal,
            0,
        ],
        (Format::Sopc, _) => [0xbf00_0000 | opcode << 16 | scalar(random) << 8 | scalar(random), literal, 0],
        (Format::Sopk, _) => {
            [0xb000_0000 | opcode << 23 | scalar_register(random) << 16 | sparse(random, 16), literal, 0]
        }
        (Format::Vop3p, _) => vop3p(random, row, opcode, dst),
        (Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3, _) => vop3(random, row, opcode, dst),
        _ => memory(random, row, opcode),
    }
}

/// Encodings of memory operations and of operations that only control the program.
fn memory(random: &mut Random, row: &Encoding, opcode: u32) -> [u32; 3] {
    let registers = (0..4).fold(0, |all, _| all << 8 | (2 * random.below(20) as u32));
    let first = match row.format {
        Format::Sopp => 0xbf80_0000 | opcode << 16 | sparse(random, 16),
        // No operands, or the clocks.
        Format::Smem if row.src[0] == isa::DataType::None => {
            return [0xc000_0000 | opcode << 18 | (random.below(6) as u32) << 8, 0, 0];
        }
        // Scalar data and base, with an immediate offset, a scalar one, or both.
        Format::Smem => {
            let (data, base) = (4 * random.below(6) as u32, 2 * random.below(4) as u32);
            let returns = u32::from(row.flags.has(Flags::ATOMIC) && random.chance(2)) << 16;
            let first = 0xc000_0000 | opcode << 18 | data << 6 | base | returns;
            let register = 2 * random.below(20) as u32;
            let offset = random.below(512) as u32 * 4;
            let offset = if random.chance(4) { offset.wrapping_neg() & 0x1f_ffff } else { offset };
            return match random.below(3) {
                0 => [first | 1 << 17, offset, 0],
                1 => [first | 1 << 17 | 1 << 14, register << 25 | offset, 0],
                _ => [first, register, 0],
            };
        }
        Format::Ds => {
            let shared = row.flags.has(Flags::GDS_ONLY);
            let accumulation = u32::from(random.chance(4)) << 25;
            0xd800_0000 | opcode << 17 | sparse(random, 16) | u32::from(shared) << 16 | accumulation
        }
        Format::Flat | Format::Scratch | Format::Global => {
            let segment = match row.format {
                Format::Flat => 0,
                Format::Scratch => 1 << 14,
                _ => 2 << 14,
            };
            // Bit 13 is LDS on gfx90a, and SVE in scratch instructions of gfx942.
            let (offset, thirteen) = (sparse(random, 13) & 0x1fff, u32::from(random.chance(3)) << 13);
            let returns = u32::from(random.chance(2)) << 16;
            0xdc00_0000 | segment | opcode << 18 | offset | thirteen | returns
        }
        Format::Mtbuf => 0xe800_0000 | opcode << 15 | sparse(random, 14) | sparse(random, 7) << 19,
        _ => {
            let local = u32::from(row.flags.has(Flags::LDS_ONLY) || random.chance(6)) << 16;
            0xe000_0000 | opcode << 18 | sparse(random, 15) | local
        }
    };
    let second = match row.format {
        // With or without a scalar address; the unused data field of loads and result field of stores are zero.
        Format::Flat | Format::Scratch | Format::Global if random.chance(2) => {
            registers & !0x00ff_0000 | 0x007f_0000
        }
        // A resource of four registers.
        Format::Mubuf | Format::Mtbuf => registers & 0x7f00_fefe | (random.below(6) as u32) << 16,
        _ => registers,
    };
    let unused = random.pick(&[
        0,
        0xff00_0000,
        0x0000_ff00,
        0x00ff_0000,
        0xffff_0000,
        0x00ff_ff00,
        0xffff_ff00,
        0xff00_ff00,
    ]);
    let unused = if matches!(row.format, Format::Mubuf | Format::Mtbuf) { 0 } else { unused };
    let scalar = matches!(row.format, Format::Flat | Format::Scratch | Format::Global);
    [first, second & !(unused & if scalar { 0xff00_ff00 } else { !0 }), 0]
}

/// The three sources; sources that the operation does not have are zero.
fn sources(random: &mut Random, row: &Encoding) -> u32 {
    let mut all = 0;
    for at in 0..3 {
        if row.src[at] != isa::DataType::None {
            let mask = row.flags.has(Flags::CARRY_IN) && at == 2;
            let source = if mask { scalar_register(random) & 0x7f } else { source(random) };
            all |= source << (9 * at);
        }
    }
    all
}

fn vop3(random: &mut Random, row: &Encoding, opcode: u32, dst: u32) -> [u32; 3] {
    let base = match row.format {
        Format::Vop1 => 0x140,
        Format::Vop2 => 0x100,
        _ => 0,
    };
    let flags = match row.flags.has(Flags::CARRY_OUT) {
        true => scalar_register(random) << 8 | sparse(random, 1) << 15,
        false => sparse(random, 8) << 8,
    };
    [0xd000_0000 | (base + opcode) << 16 | dst | flags, sources(random, row) | sparse(random, 5) << 27, 0]
}

fn vop3p(random: &mut Random, row: &Encoding, opcode: u32, dst: u32) -> [u32; 3] {
    let usual = if random.chance(2) { (1 << 14, 3 << 27) } else { (0, 0) };
    let first = if row.flags.has(Flags::ACCVGPR) { 0 } else { sparse(random, 8) << 8 };
    let second = if row.flags.has(Flags::ACCVGPR) { 0 } else { sparse(random, 5) << 27 };
    [0xd380_0000 | opcode << 16 | dst | first ^ usual.0, sources(random, row) | second ^ usual.1, 0]
}
