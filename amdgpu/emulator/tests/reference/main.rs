//! Compares every scalar and vector operation with an independent reference: a simple machine that works one lane at a time.
//!
//! Instructions are real encodings, generated from the encoding tables with random operands of every kind (so operands overlap,
//! are constants, literals, scalar and accumulation registers) and decoded. Both machines start from the same random state, with
//! EXEC full, partial or zero and MODE default or not, and must end in the same state.

mod access;
mod atomic;
mod census;
mod facts;
mod machine;
mod matrix;
mod memory;
mod run;
mod scalar;
mod words;

use std::io::Write;

use isa::{Arch, ENCODINGS, Encoding, Format};
use isa_reference::random::Random;
use words::{FORMS, Form};

const ARCHS: [Arch; 2] = [Arch::Gfx90a, Arch::Gfx942];

/// Operations without a reference implementation, and why.
const NO_REFERENCE: &[(&str, &str)] = &[
    ("v_nop", "does nothing"),
    ("v_clrexcp", "clears flags that nothing reads"),
    ("v_div_", "the steps of a division, held to correctly rounded quotients where they are written"),
    ("v_trig_preop_f64", "pieces of 2/pi, held to its digits where it is written"),
    ("v_cvt_sr_", "rounds at random; held to the two neighbours where it is written"),
    ("v_mfma_", "matrices, see matrix.rs"),
    ("v_smfmac_", "matrices, see matrix.rs"),
    ("v_screen_partition_4se_b32", "graphics, not executed"),
    ("s_getpc_b64", "control flow, see tests/instructions.rs"),
    ("s_setpc_b64", "control flow, see tests/instructions.rs"),
    ("s_swappc_b64", "control flow, see tests/instructions.rs"),
    ("s_call_b64", "control flow, see tests/instructions.rs"),
    ("s_cbranch_", "control flow, see tests/instructions.rs"),
    ("s_getreg_b32", "hardware registers, see tests/instructions.rs"),
    ("s_setreg_", "hardware registers, see tests/instructions.rs"),
    ("s_set_gpr_idx_", "relative indexing, see tests/instructions.rs"),
    ("s_setvskip", "skipped vector instructions, see tests/instructions.rs"),
    ("s_rfe_", "return from a trap handler, not supported"),
];

/// Memory operations without a reference implementation, and why.
const NO_MEMORY_REFERENCE: &[(&str, &str)] = &[
    ("buffer_load_format_", "formats, see tests/instructions.rs"),
    ("buffer_store_format_", "formats, see tests/instructions.rs"),
    ("tbuffer_", "formats, see tests/instructions.rs"),
    ("buffer_wb", "caches, of which there are none"),
    ("buffer_inv", "caches, of which there are none"),
    ("s_dcache_", "the emulator has no caches"),
    ("s_atc_probe", "the emulator has no address translation"),
    ("s_memtime", "a clock, see tests/kernels.rs"),
    ("s_memrealtime", "a clock, see tests/kernels.rs"),
    ("ds_nop", "does nothing"),
    ("ds_gws_", "the barrier of a grid, see tests/launches.rs; semaphores are not executed"),
    ("image_", "graphics, not executed"),
];

const MEMORY: [Format; 8] = [
    Format::Ds,
    Format::Flat,
    Format::Global,
    Format::Scratch,
    Format::Mubuf,
    Format::Mtbuf,
    Format::Smem,
    Format::Mimg,
];

/// Operations of the given formats, with the forms that they have.
fn operations(arch: Arch, formats: &[Format]) -> impl Iterator<Item = (&'static Encoding, Form)> {
    ENCODINGS
        .iter()
        .filter(move |row| row.opcode(arch).is_some() && formats.contains(&row.format))
        .flat_map(|row| FORMS.into_iter().map(move |form| (row, form)))
        .filter(|(row, form)| words::has(row, *form))
}

/// Generates `rounds` instructions of every operation in every form, runs them on both machines and compares the results.
fn check(formats: &[Format], rounds: usize) {
    let mut failures: Vec<String> = Vec::new();
    let mut compared = 0;
    for arch in ARCHS {
        for (row, form) in operations(arch, formats) {
            let name = row.op.name();
            if NO_REFERENCE.iter().any(|(start, _)| name.starts_with(start)) {
                continue;
            }
            let mut random = Random::new(row.op as u64 * 1000 + arch as u64 * 10 + form as u64);
            for _ in 0..rounds {
                let Some((inst, bytes)) = words::draw(&mut random, arch, row, form) else {
                    failures.push(format!("{arch:?} {name} {form:?}: no operands found"));
                    break;
                };
                match run::compare(&mut random, arch, &inst, &bytes) {
                    Ok(()) => compared += 1,
                    Err(difference) => {
                        failures.push(difference);
                        break;
                    }
                }
            }
        }
    }
    // Write directly to stdout: the test harness hides what passing tests print.
    let _ = writeln!(
        std::io::stdout().lock(),
        "{formats:?}: {compared} instructions run on both machines, {} different",
        failures.len()
    );
    assert!(failures.is_empty(), "{} operations differ:\n{}", failures.len(), failures.join("\n"));
}

/// Like [`check`], but for memory operations, which all have a reference implementation or a reason to have none.
fn check_memory(formats: &[Format], rounds: usize) {
    let mut failures: Vec<String> = Vec::new();
    let (mut compared, mut refused) = (0, 0);
    for arch in ARCHS {
        for (row, form) in operations(arch, formats) {
            let name = row.op.name();
            if NO_MEMORY_REFERENCE.iter().any(|(start, _)| name.starts_with(start)) {
                continue;
            }
            let mut random = Random::new(row.op as u64 * 1000 + arch as u64 * 10);
            for _ in 0..rounds {
                let Some((inst, bytes)) = words::draw(&mut random, arch, row, form) else {
                    failures.push(format!("{arch:?} {name}: no operands found"));
                    break;
                };
                match access::compare(&mut random, arch, &inst, &bytes) {
                    Ok(access::Came::Done) => compared += 1,
                    Ok(access::Came::Refused) => refused += 1,
                    Err(difference) => {
                        failures.push(difference);
                        break;
                    }
                }
            }
        }
    }
    let _ = writeln!(
        std::io::stdout().lock(),
        "{formats:?}: {compared} instructions run on both machines, {refused} refused by both, {} different",
        failures.len()
    );
    assert!(failures.is_empty(), "{} operations differ:\n{}", failures.len(), failures.join("\n"));
    assert!(refused < compared, "most instructions should reach memory");
}

#[test]
fn local_memory_operations_match_the_reference() {
    check_memory(&[Format::Ds], 30);
}

#[test]
fn flat_and_global_operations_match_the_reference() {
    check_memory(&[Format::Flat, Format::Global], 30);
}

#[test]
fn scratch_operations_match_the_reference() {
    check_memory(&[Format::Scratch], 30);
}

#[test]
fn buffer_operations_match_the_reference() {
    check_memory(&[Format::Mubuf], 30);
}

#[test]
fn scalar_memory_operations_match_the_reference() {
    check_memory(&[Format::Smem], 30);
}

/// The tests above fail for an operation without a reference implementation; this one fails for an operation that no test covers
/// and no reason excludes.
#[test]
fn every_memory_operation_has_a_reference_or_a_reason() {
    let drawn = [Format::Ds, Format::Flat, Format::Global, Format::Scratch, Format::Mubuf, Format::Smem];
    for arch in ARCHS {
        for (row, _) in operations(arch, &MEMORY) {
            let name = row.op.name();
            let left_out = NO_MEMORY_REFERENCE.iter().any(|(start, _)| name.starts_with(start));
            assert!(left_out || drawn.contains(&row.format), "{arch:?} {name}");
        }
    }
    for (start, _) in NO_MEMORY_REFERENCE {
        let found = ENCODINGS.iter().any(|row| row.op.name().starts_with(start));
        assert!(found, "no operation starts with {start}");
    }
}

#[test]
fn scalar_operations_match_the_reference() {
    check(&[Format::Sop1, Format::Sop2, Format::Sopc, Format::Sopk], 100);
}

#[test]
fn one_source_vector_operations_match_the_reference() {
    check(&[Format::Vop1], 25);
}

#[test]
fn two_source_vector_operations_match_the_reference() {
    check(&[Format::Vop2], 25);
}

#[test]
fn comparisons_match_the_reference() {
    check(&[Format::Vopc], 8);
}

#[test]
fn three_source_vector_operations_match_the_reference() {
    check(&[Format::Vop3], 40);
}

#[test]
fn packed_operations_match_the_reference() {
    check(&[Format::Vop3p], 40);
}
