use isa_reference::exact::{F16, F32, F64, Unit};
use isa_reference::random::Random;

use super::*;
use crate::form::{Float, FloatType, NumberType, Rounding};

const ROUNDINGS: [Rounding; 4] = [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero];

/// A unit that keeps subnormals.
fn unit(of: FloatType, rounding: Rounding) -> Unit {
    let format = match of {
        FloatType::F16 => F16,
        FloatType::F32 => F32,
        FloatType::F64 => F64,
    };
    Unit { format, round: rounding as u8, flush_in: false, flush_out: false, saturates: false }
}

#[test]
fn float_arithmetic_matches_exact_numbers_in_every_direction() {
    let mut random = Random::new(1);
    for of in [FloatType::F16, FloatType::F32, FloatType::F64] {
        for rounding in ROUNDINGS {
            let unit = unit(of, rounding);
            for _ in 0..20_000 {
                let [a, b, c] = [0; 3].map(|_| random.float(unit.format));
                let check = |operation: Float, want: u64| {
                    let got =
                        evaluate_pure(&Operation::Float(operation, of, rounding), of.kind(), &[a, b, c])
                            .expect("a pure operation");
                    let nan = unit.format.is_nan(got) && unit.format.is_nan(want);
                    assert!(
                        got == want || nan,
                        "{operation:?} {of:?} {rounding:?} {a:#x} {b:#x} {c:#x}: {got:#x}, not {want:#x}"
                    );
                };
                check(Float::Add, unit.add(a, b));
                check(Float::Multiply, unit.mul(a, b));
                check(Float::MultiplyAdd, unit.fma(a, b, c));
                check(Float::SquareRoot, unit.write(unit.read(a).square_root()));
                check(Float::Integral, unit.write(unit.read(a).rounded(rounding as u8)));
                check(Float::Minimum, unit.extreme(a, b, false, false));
                check(Float::Maximum, unit.extreme(a, b, true, false));
            }
        }
    }
}

#[test]
fn directed_quotients_enclose_the_nearest_one() {
    let mut random = Random::new(2);
    let divide = |rounding: Rounding, a: u64, b: u64| {
        let operation = Operation::Float(Float::Divide, FloatType::F32, rounding);
        f32::from_bits(evaluate_pure(&operation, Kind::Word, &[a, b]).expect("a pure operation") as u32)
    };
    for _ in 0..50_000 {
        let (a, b) = (random.float(F32), random.float(F32));
        let [nearest, up, down, zero] = ROUNDINGS.map(|rounding| divide(rounding, a, b));
        let exact = f64::from(f32::from_bits(a as u32)) / f64::from(f32::from_bits(b as u32));
        if exact.is_nan() {
            assert!(nearest.is_nan() && up.is_nan() && down.is_nan() && zero.is_nan());
            continue;
        }
        assert!(f64::from(down) <= exact && exact <= f64::from(up), "{a:#x} / {b:#x}: {down:e} {up:e}");
        assert!(nearest == up || nearest == down, "{a:#x} / {b:#x}");
        assert!(zero == if exact < 0.0 { up } else { down }, "{a:#x} / {b:#x}");
        assert!(down == up || down.next_up() == up, "{a:#x} / {b:#x}");
    }
}

#[test]
fn conversions_match_exact_numbers() {
    let mut random = Random::new(3);
    let convert = |from, to, rounding, a| {
        evaluate_pure(&Operation::Convert { from, to, rounding }, Kind::Word, &[a]).expect("a conversion")
    };
    let formats = [(NumberType::F16, F16), (NumberType::F32, F32), (NumberType::F64, F64)];
    for _ in 0..20_000 {
        for rounding in ROUNDINGS {
            for (from, source) in formats {
                let a = random.float(source);
                let number = isa_reference::exact::Number::of(source, a);
                for (to, result) in formats {
                    let (got, want) = (convert(from, to, rounding, a), number.bits(result, rounding as u8));
                    let nan = result.is_nan(got) && result.is_nan(want);
                    assert!(
                        got == want || nan,
                        "{from:?} {to:?} {rounding:?} {a:#x}: {got:#x}, not {want:#x}"
                    );
                }
                for (to, low, high) in [
                    (NumberType::U16, 0, 0xffff),
                    (NumberType::I16, -0x8000, 0x7fff),
                    (NumberType::U32, 0, i128::from(u32::MAX)),
                    (NumberType::I32, i128::from(i32::MIN), i128::from(i32::MAX)),
                ] {
                    let want = number.rounded(rounding as u8).to_integer(low, high) as u32;
                    assert_eq!(
                        convert(from, to, rounding, a),
                        want.into(),
                        "{from:?} {to:?} {rounding:?} {a:#x}"
                    );
                }
            }
            let a = random.dword();
            for (from, value) in [
                (NumberType::U32, i128::from(a)),
                (NumberType::I32, i128::from(a as i32)),
                (NumberType::I16, i128::from(a as i16)),
            ] {
                for (to, result) in formats {
                    let want = isa_reference::exact::Number::integer(value).bits(result, rounding as u8);
                    assert_eq!(
                        convert(from, to, rounding, a.into()),
                        want,
                        "{from:?} {to:?} {rounding:?} {a:#x}"
                    );
                }
            }
        }
    }
}
