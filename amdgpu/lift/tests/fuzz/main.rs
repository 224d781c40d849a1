//! Compares the lifter and the evaluator with the software GPU: random instructions with random operands, random registers,
//! EXEC full, partial or zero, and MODE default or not. All registers, SCC and memory must be equal, bit for bit, except that a
//! NaN is any NaN.
//!
//! An instruction that the lifter refuses counts as refused, not as equal. `LIFT_ROUNDS` multiplies the number of instructions.

// Random instructions and states are those of the emulator's own test.
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/access.rs"]
mod access;
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/atomic.rs"]
mod atomic;
mod compare;
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/machine.rs"]
mod machine;
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/memory.rs"]
mod memory;
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/run.rs"]
mod run;
#[allow(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/scalar.rs"]
mod scalar;
mod sequence;
#[path = "../../../emulator/tests/reference/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::io::Write;

use isa::{Arch, ENCODINGS, Encoding, Flags, Format, Inst, Operand};
use isa_reference::random::Random;

use compare::Came;
use words::{FORMS, Form};

const ARCHS: [Arch; 2] = [Arch::Gfx90a, Arch::Gfx942];

/// Operations that cannot be compared, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("s_memtime", "a clock"),
    ("s_memrealtime", "a clock"),
    ("ds_gws_", "the barrier of a grid"),
    ("image_", "not executed by the software GPU"),
    ("s_dcache_", "no caches"),
    ("s_atc_probe", "no address translation"),
    ("buffer_wb", "no caches"),
    ("buffer_inv", "no caches"),
    ("ds_nop", "does nothing"),
    ("s_getpc_b64", "control flow"),
    ("s_setpc_b64", "control flow"),
    ("s_swappc_b64", "control flow"),
    ("s_call_b64", "control flow"),
    ("s_cbranch_", "control flow"),
    ("s_getreg_b32", "hardware registers"),
    ("s_setreg_", "hardware registers"),
    ("s_rfe_", "return from a trap handler"),
    ("v_screen_partition_4se_b32", "not executed by the software GPU"),
];

/// Counts of a run.
#[derive(Default)]
struct Counts {
    equal: u64,
    lanes: u64,
    faults: u64,
    refused: BTreeMap<String, Vec<String>>,
    failures: Vec<String>,
}

impl Counts {
    fn add(&mut self, name: &str, came: Result<Came, String>) -> bool {
        match came {
            Ok(Came::Equal { lanes }) => {
                self.equal += 1;
                self.lanes += lanes;
            }
            Ok(Came::Fault) => self.faults += 1,
            Ok(Came::Skipped) => {}
            Ok(Came::Refused(reason)) => {
                self.refused.entry(reason).or_default().push(name.to_owned());
            }
            Err(difference) => {
                self.failures.push(difference);
                return false;
            }
        }
        true
    }

    fn report(&self, what: &str) {
        // Directly to stdout: the test harness hides what passing tests print.
        let mut out = std::io::stdout().lock();
        let refused: usize = self.refused.values().map(Vec::len).sum();
        let _ = writeln!(
            out,
            "{what}: {} instructions equal ({} lane operations), {} faults on both, {refused} refused, {} different",
            self.equal,
            self.lanes,
            self.faults,
            self.failures.len(),
        );
        for (reason, names) in &self.refused {
            let mut distinct = names.clone();
            distinct.sort();
            distinct.dedup();
            let _ = writeln!(out, "    {} refused ({reason}): {}", names.len(), distinct.join(" "));
        }
        let shown = self.failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.failures.is_empty(), "{} operations differ:\n{shown}", self.failures.len());
    }
}

/// How many times as many instructions as usual.
fn rounds() -> u64 {
    std::env::var("LIFT_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Added to the seeds, so that long runs see other cases.
fn seed() -> u64 {
    std::env::var("LIFT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5)
}

/// Operations of the given formats, with the forms that they have.
fn operations(arch: Arch, formats: &[Format]) -> impl Iterator<Item = (&'static Encoding, Form)> {
    ENCODINGS
        .iter()
        .filter(move |row| row.opcode(arch).is_some() && formats.contains(&row.format))
        .filter(|row| !LEFT_OUT.iter().any(|(start, _)| row.op.name().starts_with(start)))
        .flat_map(|row| FORMS.into_iter().map(move |form| (row, form)))
        .filter(|(row, form)| words::has(row, *form))
}

/// Whether the destination has more than four registers, and shares some but not all of them with the summands.
fn overlaps(inst: &Inst) -> bool {
    let range = |operand: Operand, count: u32| match operand {
        Operand::Vgpr(n) => Some((u32::from(n), count)),
        Operand::Agpr(n) => Some((1000 + u32::from(n), count)),
        _ => None,
    };
    let Some((first, count)) = range(inst.dst, inst.dst_width()) else { return false };
    let Some((other, size)) = range(inst.src[2], inst.src_width(2)) else { return false };
    count > 4 && other < first + count && first < other + size && (other, size) != (first, count)
}

/// Runs `count` instructions of every operation of the formats, in every form.
fn check(formats: &[Format], count: u64) {
    let mut counts = Counts::default();
    for arch in ARCHS {
        for (row, form) in operations(arch, formats) {
            let name = row.op.name();
            let mut random = Random::new(row.op as u64 * 1000 + arch as u64 * 10 + form as u64 + seed());
            for _ in 0..count * rounds() {
                let mut drawn = words::draw(&mut random, arch, row, form);
                // Matrices of up to 32 registers overlap each other or the end of the file in most draws.
                for _ in 0..if row.flags.has(Flags::MFMA | Flags::SMFMAC) { 200 } else { 0 } {
                    if drawn.as_ref().is_some_and(|(inst, _)| compare::fits(inst) && !overlaps(inst)) {
                        break;
                    }
                    drawn = words::draw(&mut random, arch, row, form);
                }
                let Some((inst, bytes)) = drawn else {
                    counts.failures.push(format!("{arch:?} {name}: no operands found"));
                    break;
                };
                if !counts.add(name, compare::single(&mut random, arch, &inst, &bytes)) {
                    break;
                }
            }
        }
    }
    counts.report(&format!("{formats:?}"));
}

#[test]
fn local_memory_operations_match_the_software_gpu() {
    check(&[Format::Ds], 4);
}

#[test]
fn flat_and_global_operations_match_the_software_gpu() {
    check(&[Format::Flat, Format::Global], 4);
}

#[test]
fn scratch_operations_match_the_software_gpu() {
    check(&[Format::Scratch], 8);
}

#[test]
fn buffer_operations_match_the_software_gpu() {
    check(&[Format::Mubuf, Format::Mtbuf], 4);
}

#[test]
fn scalar_memory_operations_match_the_software_gpu() {
    check(&[Format::Smem], 6);
}

#[test]
fn scalar_operations_match_the_software_gpu() {
    check(&[Format::Sop1, Format::Sop2, Format::Sopc, Format::Sopk], 10);
}

#[test]
fn one_source_vector_operations_match_the_software_gpu() {
    check(&[Format::Vop1], 3);
}

#[test]
fn two_source_vector_operations_match_the_software_gpu() {
    check(&[Format::Vop2], 3);
}

#[test]
fn comparisons_match_the_software_gpu() {
    check(&[Format::Vopc], 1);
}

#[test]
fn three_source_vector_operations_match_the_software_gpu() {
    check(&[Format::Vop3], 4);
}

#[test]
fn packed_and_matrix_operations_match_the_software_gpu() {
    check(&[Format::Vop3p], 4);
}

#[test]
fn sequences_with_branches_and_loops_match_the_software_gpu() {
    let mut counts = Counts::default();
    for arch in ARCHS {
        let choices = sequence::choices(arch);
        let mut random = Random::new(arch as u64 + seed());
        for _ in 0..300 * rounds() {
            counts.add("sequence", sequence::compare(&mut random, arch, &choices));
            if counts.failures.len() >= 8 {
                break;
            }
        }
    }
    counts.report("sequences");
}
