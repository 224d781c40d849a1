//! Compares decoding and disassembly with LLVM's llvm-mc, in both directions, over every opcode with random operands.

mod tool;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use isa::{Arch, DecodeError, ENCODINGS, Inst, Op, Operand, decode, disassemble};
use words::Random;

type Matches = fn(&str) -> bool;

/// Instructions that llvm-mc disassembles and this crate deliberately rejects: by llvm-mc's text, with the reason. llvm-mc can
/// assemble only some of them: comparisons that write `src_scc` and the like.
const DELIBERATE: &[(Matches, &str)] = &[
    (|text| text.contains("null"), "operand 125 is reserved before GFX10"),
    (|text| text.starts_with("image_atomic"), "image atomics have masks of 1, 2 or 4 components"),
    (
        runs_past_the_last_register,
        "image data ends at the last vector register; llvm-mc names the first one alone",
    ),
    (|text| text.contains("_sdwa") && text.contains("src_lds_direct"), "SDWA does not read LDS"),
    (
        reads_hardware_value_as_register,
        "these operands are registers, whose numbers end before the hardware values",
    ),
];

/// Operands like `src_shared_base` where the encoding permits only a register.
fn reads_hardware_value_as_register(text: &str) -> bool {
    #[rustfmt::skip]
    const REGISTER_OPERANDS: &[&str] = &[
        "v_readfirstlane", "v_readlane", "v_swap", "v_accvgpr",
        "v_mfma", "v_smfmac", "v_cmp", "v_addc", "v_subb", "v_cndmask", "v_mqsad", "v_add_co", "v_sub_co", "v_subrev_co",
        "v_div_scale", "v_mad_u64", "v_mad_i64",
    ];
    text.contains("src_") && REGISTER_OPERANDS.iter().any(|mnemonic| text.starts_with(mnemonic))
}

fn runs_past_the_last_register(text: &str) -> bool {
    let last = |file: char| (253..=255).any(|first| text.contains(&format!(" {file}{first}, v")));
    text.starts_with("image_") && (last('v') || last('a'))
}

/// Instructions that llvm-mc disassembles but does not assemble, by its message, and why our text is still correct.
const REFUSED: &[(&str, &str)] = &[
    ("expected a 12-bit unsigned offset", "the disassembler reads 13 bits of FLAT offsets"),
    ("expected a 20-bit unsigned offset", "the disassembler reads buffer offsets of SMEM as signed"),
    ("invalid immediate: only 4-bit values are legal", "index modes that do not exist"),
    ("invalid op_sel operand", "dot products whose halves gfx942 cannot select"),
    ("invalid operand (violates constant bus restrictions)", "more scalar operands than the bus carries"),
    (
        "invalid operand for instruction",
        "literals that the assembler takes elsewhere only, or of more than 16 bits",
    ),
    ("invalid register class: vgpr tuples must be 64 bit aligned", "odd vector register pairs"),
    ("lds_direct is not supported on this GPU", "the disassembler knows the operand nevertheless"),
    (
        "literal operands are not supported",
        "inline floats of 16-bit integers, which are written as their bits",
    ),
    ("not a valid operand.", "sign extension of 8-bit floats"),
    ("register not available on this GPU", "tuples that reach into FLAT_SCRATCH"),
    ("source 2 operand must not partially overlap with dst", "matrices that overlap"),
    ("vgpr must be even aligned", "odd vector registers of the wave-synchronisation operations"),
];

/// Words on which llvm-mc 19 crashes: invalid SDWA selections.
fn crashes_llvm(words: &[u32; 3]) -> bool {
    let sdwa = words[0] >> 31 == 0 && words[0] & 0x1ff == 249;
    let compare = words[0] >> 25 == 0b0111110;
    let selection = |low: u32| words[1] >> low & 7 == 7;
    let unused = words[1] >> 11 & 3 == 3;
    sdwa && (selection(16) || selection(24) || !compare && (selection(8) || unused))
}

#[test]
fn every_opcode_disassembles_as_llvm_mc_does_and_assembles_back() {
    std::thread::scope(|scope| {
        for arch in [Arch::Gfx90a, Arch::Gfx942] {
            scope.spawn(move || judge(arch));
        }
    });
}

/// Multiplier for the number of words to try; `cargo xtask conformance isa` sets a higher one.
fn effort() -> usize {
    std::env::var("ISA_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn judge(arch: Arch) {
    let effort = effort();
    let mut random = Random::seeded(arch);
    let is_known = |words: &[u32; 3]| decode(arch, &bytes_of(words)).is_ok();
    let mut cases = words::every_operand(&mut random, is_known);
    cases.extend(words::every_opcode(&mut random, 12 * effort));
    cases.extend(words::every_opcode_well_formed(&mut random, 120 * effort, is_known));
    cases.extend(words::every_selection(&mut random, 32 * effort));
    let crashers = cases.len();
    cases.retain(|words| !crashes_llvm(words));

    let there = disassembly(arch, &cases);
    println!(
        "{arch:?}: {} words: {} instructions of {} operations read the same, {} unknown to both, {} refused on purpose, \
         {} different ({} not tried, llvm-mc crashes)",
        cases.len(),
        there.same.len(),
        there.operations().len(),
        there.unknown,
        there.deliberate,
        there.different.len(),
        crashers - cases.len(),
    );
    let and_back = reassembly(arch, &there.same);
    println!(
        "{arch:?}: assembled back: {} to the same bytes, {} to another encoding of the same, {} to something else",
        and_back.identical,
        and_back.equivalent,
        and_back.wrong.len(),
    );
    for (message, (count, example)) in &and_back.refused {
        println!("{arch:?}: llvm-mc refuses {count}: {message} (`{example}`)");
    }

    let operations = ENCODINGS.iter().filter(|row| row.opcode(arch).is_some()).count();
    // Write directly to stdout: the test harness hides what passing tests print, and the count is the purpose of this test.
    let _ = writeln!(
        std::io::stdout().lock(),
        "{}: {} of {operations} operations, {} words ({} of them instructions), both ways against llvm-mc, {} different",
        format!("{arch:?}").to_lowercase(),
        and_back.proven.len(),
        grouped(cases.len()),
        grouped(there.same.len()),
        there.different.len() + and_back.wrong.len(),
    );

    let sample = |list: &[String]| list.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(there.different.is_empty(), "{arch:?} differs from llvm-mc:\n{}", sample(&there.different));
    assert!(and_back.wrong.is_empty(), "{arch:?} assembles to something else:\n{}", sample(&and_back.wrong));
    for message in and_back.refused.keys() {
        assert!(
            REFUSED.iter().any(|(known, _)| known == message),
            "{arch:?}: llvm-mc refuses text: {message}"
        );
    }
    let rows = ENCODINGS.iter().filter(|row| row.opcode(arch).is_some());
    let unproven: Vec<Op> = rows.map(|row| row.op).filter(|op| !and_back.proven.contains(op)).collect();
    assert!(unproven.is_empty(), "{arch:?}: no word went there and back unchanged: {unproven:?}");
}

/// Formats a count with thousands separators.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are ASCII"))
        .collect();
    groups.join(",")
}

#[derive(Default)]
struct Disassembly {
    same: Vec<(Inst, Vec<u8>)>,
    unknown: usize,
    deliberate: usize,
    different: Vec<String>,
}

impl Disassembly {
    fn operations(&self) -> BTreeSet<Op> {
        self.same.iter().map(|(inst, _)| inst.op).collect()
    }
}

/// Decodes and disassembles each case, and compares the result with llvm-mc's.
fn disassembly(arch: Arch, cases: &[[u32; 3]]) -> Disassembly {
    let mut result = Disassembly::default();
    for batch in cases.chunks(20_000) {
        let ours: Vec<_> = batch.iter().map(|words| decode(arch, &bytes_of(words))).collect();
        // Decoded instructions are passed in their exact size, so that llvm-mc must find exactly one instruction.
        let sizes = ours.iter().map(|inst| inst.as_ref().map_or(12, |inst| inst.size.into()));
        let groups: Vec<Vec<u8>> = batch
            .iter()
            .zip(sizes)
            .map(|(words, size): (_, usize)| bytes_of(words)[..size].to_vec())
            .collect();
        let theirs = tool::disassemble(arch, &groups);
        for ((bytes, ours), theirs) in groups.into_iter().zip(ours).zip(theirs) {
            // A comment marks an operand that is invalid for the instruction.
            let text = theirs.first().filter(|text| !text.contains("/*"));
            match (ours, text) {
                (Err(DecodeError::Unknown { .. }), None) => result.unknown += 1,
                (Ok(inst), Some(text)) if theirs.len() == 1 && *text == text_of(arch, &inst) => {
                    result.same.push((inst, bytes));
                }
                (Err(_), Some(text)) if DELIBERATE.iter().any(|(applies, _)| applies(text)) => {
                    result.deliberate += 1;
                }
                (ours, _) => {
                    let ours = ours.map_or_else(|error| error.to_string(), |inst| text_of(arch, &inst));
                    result.different.push(format!("{bytes:02x?}\n  ours: {ours}\n  llvm: {theirs:?}"));
                }
            }
        }
    }
    result
}

fn bytes_of(words: &[u32; 3]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Our text without the comment for branch targets.
fn text_of(arch: Arch, inst: &Inst) -> String {
    let text = disassemble(arch, inst, 0);
    text.split(" ;").next().unwrap_or_default().to_string()
}

#[derive(Default)]
struct Reassembly {
    identical: usize,
    /// Operations with at least one instruction whose round trip left it unchanged.
    proven: BTreeSet<Op>,
    equivalent: usize,
    /// By message: count, and one example.
    refused: BTreeMap<String, (usize, String)>,
    wrong: Vec<String>,
}

/// Assembles our text of each instruction with llvm-mc, and compares the result with the original bytes.
fn reassembly(arch: Arch, cases: &[(Inst, Vec<u8>)]) -> Reassembly {
    let mut result = Reassembly::default();
    for batch in cases.chunks(40_000) {
        let texts: Vec<String> = batch.iter().map(|(inst, _)| text_of(arch, inst)).collect();
        for (((inst, bytes), text), assembled) in batch.iter().zip(&texts).zip(tool::assemble(arch, &texts)) {
            match assembled {
                Ok(theirs) if theirs == *bytes => {
                    result.identical += 1;
                    result.proven.insert(inst.op);
                }
                Ok(theirs) => match decode(arch, &theirs) {
                    Ok(again) if text_of(arch, &again) == *text || means_the_same(inst, &again) => {
                        result.equivalent += 1;
                    }
                    again => result.wrong.push(format!("{text}: {bytes:02x?}, not {theirs:02x?}: {again:?}")),
                },
                Err(message) => {
                    let (count, _) = result.refused.entry(message).or_insert_with(|| (0, text.clone()));
                    *count += 1;
                }
            }
        }
    }
    result
}

/// Whether two instructions are equivalent encodings: a literal with unused bits, or masks that fold into one.
fn means_the_same(inst: &Inst, again: &Inst) -> bool {
    let constant = |operand| matches!(operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_));
    let source = |(&old, &new): (&Operand, &Operand)| old == new || constant(old) && constant(new);
    let swizzle = inst.op == Op::ds_swizzle_b32;
    (inst.op, inst.dst, inst.sdst) == (again.op, again.dst, again.sdst)
        && inst.src.iter().zip(&again.src).all(source)
        && (inst.imm == again.imm || swizzle)
}
