//! The facts in the rows of the encoding tables agree with the reference.

use isa::{DataType, ENCODINGS, Encoding, Format, Mode};
use isa_reference::random::Random;
use isa_reference::{Lane, Outcome, evaluate};

/// Rows of per-lane vector operations.
fn vector_rows() -> impl Iterator<Item = &'static Encoding> {
    let formats = [Format::Vop1, Format::Vop2, Format::Vop3, Format::Vop3p];
    ENCODINGS.iter().filter(move |row| formats.contains(&row.format))
}

/// Random sources of an operation; an accumulator has the type of the destination.
fn sources(random: &mut Random, row: &Encoding) -> [u64; 3] {
    [0, 1, 2].map(|n| {
        let declared = if row.src[n] == DataType::None { row.dst } else { row.src[n] };
        let value = if declared.dwords() > 1 { random.qword() } else { random.dword().into() };
        if declared.element_bits() == 16 && declared.count() == 1 { value & 0xffff } else { value }
    })
}

/// Whether two settings give different results for some sources; `None` for operations without a reference.
fn differs(row: &Encoding, settings: [(Mode, bool); 2]) -> Option<bool> {
    let mut random = Random::new(row.op as u64);
    let mut found = false;
    for _ in 0..4000 {
        let s = sources(&mut random, row);
        let result = |(mode, clamp): &(Mode, bool)| -> Option<Outcome> {
            evaluate(row.op, &Lane { mode, s, carry: false, number: 0, clamp: *clamp })
        };
        found |= result(&settings[0])? != result(&settings[1])?;
    }
    Some(found)
}

#[test]
fn rows_saturate_where_the_reference_does() {
    let mode = Mode::default();
    for row in vector_rows().filter(|row| !row.dst.is_float()) {
        if let Some(differs) = differs(row, [(mode, false), (mode, true)]) {
            assert_eq!(differs, row.op.saturates(), "{}", row.op.name());
        }
    }
}

#[test]
fn rows_round_where_the_reference_does() {
    let nearest = Mode::default();
    let up = Mode { round_f32: 1, round_f64: 1, ..nearest };
    for row in vector_rows().filter(|row| row.dst.is_float()) {
        // The reverse does not hold: the reference computes square roots to nearest, with a tolerance.
        if differs(row, [(nearest, false), (up, false)]) == Some(true) {
            assert!(row.op.rounds(), "{}", row.op.name());
        }
    }
}
