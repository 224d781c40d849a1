//! Reference implementation of float operations whose result has the type of their sources.

use crate::exact::{DOWN, F32, F64, NEAREST, Number, UP, Unit, ZERO_WARD};
use crate::lane::{Lane, dot2, is_zero, mix};

/// Result of `v_<stem>_<format>`.
pub fn float(stem: &str, unit: &Unit, lane: &Lane) -> Option<u64> {
    let [a, b, c] = lane.s;
    let ieee = lane.mode.ieee;
    let format = unit.format;
    Some(match stem {
        "add" => unit.add(a, b),
        "sub" => unit.sub(a, b),
        "subrev" => unit.sub(b, a),
        "mul" => unit.mul(a, b),
        "mul_legacy" => {
            if is_zero(unit.read(a)) || is_zero(unit.read(b)) {
                0
            } else {
                unit.mul(a, b)
            }
        }
        "fma" | "fmac" | "fmamk" | "fmaak" | "fma_legacy" => unit.fma(a, b, c),
        "mad" | "mac" | "madmk" | "madak" if format == F32 => unit.flushing().mad(a, b, c),
        "mad_legacy" if format == F32 => {
            let unit = unit.flushing();
            if is_zero(unit.read(a)) || is_zero(unit.read(b)) { unit.add(0, c) } else { unit.mad(a, b, c) }
        }
        "mad" | "mac" | "madmk" | "madak" | "mad_legacy" => unit.mad(a, b, c),
        "fma_mix" | "fma_mixlo" | "fma_mixhi" => mix(lane, format),
        "dot2_f32" | "dot2c_f32" => dot2(lane),
        "min" => unit.extreme(a, b, false, ieee),
        "max" => unit.extreme(a, b, true, ieee),
        "min3" => unit.extreme(unit.extreme(a, b, false, ieee), c, false, ieee),
        "max3" => unit.extreme(unit.extreme(a, b, true, ieee), c, true, ieee),
        "med3" if lane.s.iter().any(|source| format.is_nan(*source)) => {
            unit.extreme(unit.extreme(a, b, false, ieee), c, false, ieee)
        }
        "med3" => {
            let mut sorted = lane.s.map(|source| unit.flushed(source));
            // By value, with -0 below +0.
            sorted.sort_by(|x, y| {
                let signs = (y & format.sign()).cmp(&(x & format.sign()));
                unit.compare(*x, *y).expect("no NaN").then(signs)
            });
            unit.finish(sorted[1])
        }
        "trunc" => unit.write(unit.read(a).rounded(ZERO_WARD)),
        "ceil" => unit.write(unit.read(a).rounded(UP)),
        "floor" => unit.write(unit.read(a).rounded(DOWN)),
        "rndne" => unit.write(unit.read(a).rounded(NEAREST)),
        "fract" => {
            let fraction = unit.read(a).plus(unit.read(a).rounded(DOWN).negated(), unit.round);
            let below_one = Number::integer(1).bits(format, NEAREST) - 1;
            let bits = unit.write(fraction);
            if format.is_nan(bits) || bits & format.sign() != 0 { bits } else { bits.min(below_one) }
        }
        "rcp" | "rcp_iflag" => unit.nearest().write(unit.read(a).reciprocal()),
        "sqrt" => unit.nearest().write(unit.read(a).square_root()),
        "rsq" => unit.nearest().write(unit.read(a).square_root().reciprocal()),
        "exp" | "exp_legacy" => host(unit, a, f64::exp2),
        "log" | "log_legacy" => host(unit, a, f64::log2),
        "sin" => host(unit, a, |x| turns(x, f64::sin)),
        "cos" => host(unit, a, |x| turns(x, f64::cos)),
        "ldexp" => {
            let power = (b << if format.bits == 16 { 48 } else { 32 }) as i64
                >> if format.bits == 16 { 48 } else { 32 };
            unit.write(unit.read(a).scaled(power.clamp(-5000, 5000) as i32))
        }
        "frexp_mant" => match unit.read(a) {
            number @ Number::Finite { mantissa: 1.., .. } => unit.write(number.scaled(-exponent(number))),
            _ => unit.finish(unit.flushed(a)),
        },
        "cubeid" | "cubesc" | "cubetc" | "cubema" => cube(stem, unit, a, b, c),
        _ => return None,
    })
}

/// Exponent e such that the value is m * 2^e with 0.5 <= m < 1.
pub fn exponent(number: Number) -> i32 {
    match number {
        Number::Finite { mantissa: mantissa @ 1.., exponent, .. } => {
            exponent + 128 - mantissa.leading_zeros() as i32
        }
        _ => 0,
    }
}

/// Approximates a hardware function with the host's f64 functions, accurate to one unit in the last place.
fn host(unit: &Unit, bits: u64, function: impl Fn(f64) -> f64) -> u64 {
    let value = f64::from_bits(unit.read(bits).bits(F64, NEAREST));
    unit.nearest().write(Number::of(F64, function(value).to_bits()))
}

/// Evaluates a function of an angle given in turns.
fn turns(x: f64, function: impl Fn(f64) -> f64) -> f64 {
    let turn = x - x.round_ties_even();
    // Quarter turns are exact.
    let value = function(turn * std::f64::consts::TAU);
    if (turn * 4.0).fract() == 0.0 { value.round() } else { value }
}

/// Cube map: the face that a direction hits, the coordinates on it, and twice the length along its axis.
fn cube(stem: &str, unit: &Unit, x: u64, y: u64, z: u64) -> u64 {
    let at_least = |a: u64, b: u64| {
        let magnitude = |bits: u64| unit.read(bits).magnitude();
        matches!(magnitude(a).compare(magnitude(b)), Some(order) if order.is_ge())
    };
    let negative = |bits: u64| unit.compare(bits, 0).is_some_and(|order| order.is_lt());
    let minus = |bits: u64| bits ^ unit.format.sign();
    let small = |value: i128| Number::integer(value).bits(unit.format, NEAREST);
    let axis = if at_least(z, x) && at_least(z, y) {
        2
    } else if at_least(y, x) {
        1
    } else {
        0
    };
    let along = [x, y, z][axis];
    let bits = match (stem, axis) {
        ("cubeid", _) => small(2 * axis as i128 + i128::from(negative(along))),
        ("cubema", _) => return unit.mul(small(2), along),
        ("cubesc", 2) => {
            if negative(z) {
                minus(x)
            } else {
                x
            }
        }
        ("cubesc", 1) => x,
        ("cubesc", _) => {
            if negative(x) {
                z
            } else {
                minus(z)
            }
        }
        (_, 1) => {
            if negative(y) {
                minus(z)
            } else {
                z
            }
        }
        _ => minus(y),
    };
    unit.finish(unit.flushed(bits))
}
