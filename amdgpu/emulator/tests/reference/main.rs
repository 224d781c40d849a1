//! Every scalar and vector operation against an independent reference: a plain machine that works one lane at a time.
//!
//! Instructions are real words, drawn from the encoding tables with random operands of every kind (so operands overlap, are
//! constants, literals, scalar and accumulation registers) and decoded; both machines start from the same random state, with EXEC
//! full, partial or zero and MODE usual or not, and must end in the same one.

mod census;
mod convert;
mod exact;
mod float;
mod integer;
mod machine;
mod matrix;
mod random;
mod run;
mod scalar;
mod vector;
mod words;

use std::io::Write;

use isa::{Arch, ENCODINGS, Encoding, Format};
use random::Random;
use words::{FORMS, Form};

const ARCHS: [Arch; 2] = [Arch::Gfx90a, Arch::Gfx942];

/// Operations without a twin here, and why.
const NO_TWIN: &[(&str, &str)] = &[
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
    ("s_rfe_", "return from a trap handler, not executed"),
];

/// Operations of the wanted formats with the forms they have.
fn operations(arch: Arch, formats: &[Format]) -> impl Iterator<Item = (&'static Encoding, Form)> {
    ENCODINGS
        .iter()
        .filter(move |row| row.opcode(arch).is_some() && formats.contains(&row.format))
        .flat_map(|row| FORMS.into_iter().map(move |form| (row, form)))
        .filter(|(row, form)| words::has(row, *form))
}

/// Draws `rounds` instructions of every operation in every form, runs them on both machines and compares.
fn check(formats: &[Format], rounds: usize) {
    let mut failures: Vec<String> = Vec::new();
    let mut compared = 0;
    for arch in ARCHS {
        for (row, form) in operations(arch, formats) {
            let name = row.op.name();
            if NO_TWIN.iter().any(|(start, _)| name.starts_with(start)) {
                continue;
            }
            let mut random = Random(row.op as u64 * 1000 + arch as u64 * 10 + form as u64);
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
    // Written past the harness, which hides what passing tests print.
    let _ = writeln!(
        std::io::stdout().lock(),
        "{formats:?}: {compared} instructions run on both machines, {} different",
        failures.len()
    );
    assert!(failures.is_empty(), "{} operations differ:\n{}", failures.len(), failures.join("\n"));
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
