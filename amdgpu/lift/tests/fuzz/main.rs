//! Compares the lifter and the evaluator with the software GPU: random instructions with random operands, random registers,
//! EXEC full, partial or zero, and MODE default or not. All registers, SCC and memory must be equal, bit for bit.
//!
//! An instruction that the lifter refuses counts as refused, not as equal. `LIFT_ROUNDS` multiplies the number of instructions.

// Random instructions and states are those of the emulator's own test.
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/access.rs"]
mod access;
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/atomic.rs"]
mod atomic;
mod compare;
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/machine.rs"]
mod machine;
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/memory.rs"]
mod memory;
mod memory_only;
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/run.rs"]
mod run;
#[expect(dead_code, reason = "the reference's own arithmetic is not used here")]
#[path = "../../../emulator/tests/reference/scalar.rs"]
mod scalar;
#[path = "../../../emulator/tests/reference/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::io::Write;

use isa::{Arch, ENCODINGS, Format};
use isa_reference::random::Random;

use compare::Came;

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
];

/// Counts of a run.
#[derive(Default)]
struct Counts {
    equal: u64,
    lanes: u64,
    faults: u64,
    refused: BTreeMap<String, u64>,
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
            Ok(Came::Refused(reason)) => {
                *self.refused.entry(format!("{name}: {reason}")).or_default() += 1;
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
        let refused: u64 = self.refused.values().sum();
        let _ = writeln!(
            out,
            "{what}: {} instructions equal ({} lane operations), {} faults on both, {refused} refused, {} different",
            self.equal,
            self.lanes,
            self.faults,
            self.failures.len(),
        );
        for (reason, count) in &self.refused {
            let _ = writeln!(out, "    refused {count}: {reason}");
        }
        let shown = self.failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.failures.is_empty(), "{} operations differ:\n{shown}", self.failures.len());
    }
}

/// How many times as many instructions as usual.
fn rounds() -> u64 {
    std::env::var("LIFT_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Runs `count` instructions of every operation of the formats.
fn check_memory(formats: &[Format], count: u64) {
    let mut counts = Counts::default();
    for arch in ARCHS {
        let rows = ENCODINGS.iter().filter(|row| row.opcode(arch).is_some() && formats.contains(&row.format));
        for row in rows {
            let name = row.op.name();
            if LEFT_OUT.iter().any(|(start, _)| name.starts_with(start)) {
                continue;
            }
            let mut random = Random::new(row.op as u64 * 1000 + arch as u64 * 10 + 5);
            for _ in 0..count * rounds() {
                let Some((inst, bytes)) = words::draw(&mut random, arch, row, words::Form::Short) else {
                    counts.failures.push(format!("{arch:?} {name}: no operands found"));
                    break;
                };
                if !counts.add(name, compare::memory(&mut random, arch, &inst, &bytes)) {
                    break;
                }
            }
        }
    }
    counts.report(&format!("{formats:?}"));
}

#[test]
fn local_memory_operations_match_the_software_gpu() {
    check_memory(&[Format::Ds], 10);
}

#[test]
fn flat_and_global_operations_match_the_software_gpu() {
    check_memory(&[Format::Flat, Format::Global], 10);
}

#[test]
fn scratch_operations_match_the_software_gpu() {
    check_memory(&[Format::Scratch], 20);
}

#[test]
fn buffer_operations_match_the_software_gpu() {
    check_memory(&[Format::Mubuf, Format::Mtbuf], 20);
}

#[test]
fn scalar_memory_operations_match_the_software_gpu() {
    check_memory(&[Format::Smem], 20);
}
