//! Float operations whose result has the type of their sources.

use super::lane::{Lane, number};
use super::scale;
use crate::Value;
use crate::form::{Approximate, Float, FloatCompare, FloatType, NumberType, Operation, Rounding};

use FloatType::{F16, F32, F64};

/// The result of a float operation. Mnemonics are regular: a stem and a type.
pub fn lift(l: &Lane<'_, '_>) -> Option<Value> {
    let (stem, suffix) = l.op.name().strip_prefix("v_")?.rsplit_once('_')?;
    let of = match suffix {
        "f16" => F16,
        "f32" => F32,
        "f64" => F64,
        _ => return None,
    };
    if matches!(stem, "fma_mix" | "fma_mixlo" | "fma_mixhi") {
        return Some(mixed(l, of));
    }
    if matches!(stem, "dot2_f32" | "dot2c_f32") {
        return Some(dot2(l));
    }
    let value = single(l, stem, of, l.s)?;
    // The power of `v_ldexp` is no float.
    let count = if stem == "ldexp" { 1 } else { super::source_kinds(l.op)?.len().min(3) };
    let sources: Vec<_> = l.s[..count].iter().map(|source| (of, *source)).collect();
    Some(if of == F16 { l.write_half(value, &sources) } else { l.write(of, value) })
}

/// The result for one set of sources, before MODE's treatment of results.
pub fn single(l: &Lane<'_, '_>, stem: &str, of: FloatType, sources: [Value; 3]) -> Option<Value> {
    let rounding = l.rounding(of);
    // An operation reads only the sources that it has.
    let [a, b, c] = [0, 1, 2].map(|n| move || l.read(of, sources[n]));
    let float = |operation: Float, operands: &[Value]| l.float(operation, of, rounding, operands);
    let approximate = |function: Approximate| l.pure(Operation::Approximate(function, of), &[a()], of.kind());
    let integral = |rounding: Rounding| l.float(Float::Integral, of, rounding, &[a()]);
    Some(match stem {
        "add" => float(Float::Add, &[a(), b()]),
        "sub" => float(Float::Add, &[a(), l.negated(of, b())]),
        "subrev" => float(Float::Add, &[b(), l.negated(of, a())]),
        "mul" => float(Float::Multiply, &[a(), b()]),
        "mul_legacy" => {
            let (a, b) = (a(), b());
            l.select(either_zero(l, of, a, b), l.bits(of, 0), float(Float::Multiply, &[a, b]))
        }
        "fma" | "fmac" | "fmamk" | "fmaak" | "fma_legacy" => float(Float::MultiplyAdd, &[a(), b(), c()]),
        "mad" | "mac" | "madmk" | "madak" | "mad_legacy" if of == F32 => {
            let flush = |value: Value| l.exact(Float::Flush, of, &[value]);
            let [a, b, c] = sources.map(flush);
            let product = flush(float(Float::Multiply, &[a, b]));
            let product = match stem {
                "mad_legacy" => l.select(either_zero(l, of, a, b), l.bits(of, 0), product),
                _ => product,
            };
            flush(float(Float::Add, &[product, c]))
        }
        "mad" | "mac" | "madmk" | "madak" | "mad_legacy" => {
            float(Float::Add, &[float(Float::Multiply, &[a(), b()]), c()])
        }
        "min" => extreme(l, Float::Minimum, of, sources[0], sources[1]),
        "max" => extreme(l, Float::Maximum, of, sources[0], sources[1]),
        "min3" => extreme3(l, Float::Minimum, of, sources),
        "max3" => extreme3(l, Float::Maximum, of, sources),
        "med3" => median(l, of, sources),
        "trunc" => integral(Rounding::Zero),
        "ceil" => integral(Rounding::Up),
        "floor" => integral(Rounding::Down),
        "rndne" => integral(Rounding::Nearest),
        "fract" => {
            let whole = integral(Rounding::Down);
            let fraction = float(Float::Add, &[a(), l.negated(of, whole)]);
            let below_one = l.bits(
                of,
                match of {
                    F16 => 0x3bff,
                    F32 => 0x3f7f_ffff,
                    F64 => 0x3fef_ffff_ffff_ffff,
                },
            );
            let above = l.float_compare(FloatCompare::Less, of, below_one, fraction);
            l.select(above, below_one, fraction)
        }
        "rcp" | "rcp_iflag" => approximate(Approximate::Reciprocal),
        "sqrt" if rounding != Rounding::Nearest => float(Float::SquareRoot, &[a()]),
        "sqrt" => approximate(Approximate::SquareRoot),
        "rsq" => approximate(Approximate::ReciprocalSquareRoot),
        "exp" | "exp_legacy" => approximate(Approximate::Exponential),
        "log" | "log_legacy" => approximate(Approximate::Logarithm),
        "sin" => approximate(Approximate::Sine),
        "cos" => approximate(Approximate::Cosine),
        "ldexp" => scale::by_power(l, of, rounding, a(), sources[1]),
        "frexp_mant" => scale::mantissa(l, of, a()),
        "cubeid" | "cubesc" | "cubetc" | "cubema" => cube(l, stem, [a(), b(), c()]),
        _ => return None,
    })
}

fn either_zero(l: &Lane<'_, '_>, of: FloatType, a: Value, b: Value) -> Value {
    let zero = |value: Value| l.float_compare(FloatCompare::Equal, of, value, l.bits(of, 0));
    l.or(zero(a), zero(b))
}

/// Minimum or maximum. In IEEE mode a signalling NaN takes precedence over everything and becomes quiet; the test for it is left out
/// where the operand's definition rules it out.
fn extreme(l: &Lane<'_, '_>, operation: Float, of: FloatType, a: Value, b: Value) -> Value {
    if a == b {
        // The compiler's idiom to make a NaN quiet.
        let quiet = l.mode.ieee && l.may_signal(of, a);
        // Nothing else clears the half of the register above an f16.
        let value = if of == F16 { l.unsigned(l.read(of, a)) } else { l.read(of, a) };
        return if quiet { l.exact(Float::Quiet, of, &[value]) } else { value };
    }
    // Of two NaNs the second one stays.
    let value = l.exact(operation, of, &[l.read(of, b), l.read(of, a)]);
    [b, a].into_iter().fold(value, |value, source| {
        if l.mode.ieee && l.may_signal(of, source) {
            l.select(signals(l, of, source), quieted(l, of, source), value)
        } else {
            value
        }
    })
}

fn extreme3(l: &Lane<'_, '_>, operation: Float, of: FloatType, [a, b, c]: [Value; 3]) -> Value {
    extreme(l, operation, of, extreme(l, operation, of, a, b), c)
}

/// Whether a float is a signalling NaN.
fn signals(l: &Lane<'_, '_>, of: FloatType, value: Value) -> Value {
    // Shifts out the sign; infinity and the quiet bit in this position.
    let (shift, infinity, quiet) = match of {
        F16 => (17, 0xf800_0000, 1 << 26),
        F32 => (1, 0xff00_0000, 1 << 23),
        F64 => (1, 0xffe0_0000_0000_0000, 1 << 52),
    };
    let magnitude = l.up(value, shift);
    l.less(l.sub(magnitude, l.like(value, infinity + 1)), l.like(value, quiet - 1))
}

fn quieted(l: &Lane<'_, '_>, of: FloatType, value: Value) -> Value {
    match of {
        F16 => l.unsigned(l.or(value, l.word(0x200))),
        F32 => l.or(value, l.word(0x40_0000)),
        F64 => l.or(value, l.double(1 << 51)),
    }
}

/// The number in the middle; the minimum if there is a NaN.
fn median(l: &Lane<'_, '_>, of: FloatType, sources: [Value; 3]) -> Value {
    let [a, b, c] = sources.map(|source| l.read(of, source));
    let upper = l.exact(Float::Minimum, of, &[l.exact(Float::Maximum, of, &[a, b]), c]);
    let middle = l.exact(Float::Maximum, of, &[l.exact(Float::Minimum, of, &[a, b]), upper]);
    let unordered = |x: Value, y: Value| l.float_compare(FloatCompare::Unordered, of, x, y);
    let nan = l.or(unordered(a, b), unordered(c, c));
    l.select(nan, extreme3(l, Float::Minimum, of, sources), middle)
}

/// Mixed-precision FMA; the sources have been converted to f32. A half is rounded twice.
fn mixed(l: &Lane<'_, '_>, of: FloatType) -> Value {
    let sources = l.s.map(|source| l.read(F32, source));
    let sum = l.float(Float::MultiplyAdd, F32, super::lane::direction(l.mode.round_f32), &sources);
    if of == F32 {
        return l.write(F32, sum);
    }
    let rounding = super::lane::direction(l.mode.round_f64);
    let half = l.convert(NumberType::F32, NumberType::F16, rounding, sum);
    l.write_half(half, &sources.map(|source| (F32, source)))
}

/// Sum of two products of halves and an f32. Products of halves are exact in f32, so that each step is an FMA. Ignores MODE:
/// rounds to nearest and flushes.
fn dot2(l: &Lane<'_, '_>) -> Value {
    let [a, b, c] = l.s;
    let halves = |value: Value| {
        [value, l.extract(value, 16, 16)]
            .map(|half| l.convert(number(F16), number(F32), Rounding::Nearest, half))
    };
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    let flush = |value: Value| l.exact(Float::Flush, F32, &[value]);
    let sum = l.exact(Float::MultiplyAdd, F32, &[a0, b0, flush(c)]);
    flush(l.exact(Float::MultiplyAdd, F32, &[a1, b1, sum]))
}

/// Cube map: the face that a direction hits, the coordinates on it, and twice the length along its axis.
fn cube(l: &Lane<'_, '_>, stem: &str, [x, y, z]: [Value; 3]) -> Value {
    let at_least = |a: Value, b: Value| {
        let magnitude = |value: Value| l.exact(Float::Absolute, F32, &[value]);
        l.float_compare(FloatCompare::LessEqual, F32, magnitude(b), magnitude(a))
    };
    let negative = |value: Value| l.float_compare(FloatCompare::Less, F32, value, l.word(0));
    let minus = |value: Value| l.negated(F32, value);
    let z_major = l.and(at_least(z, x), at_least(z, y));
    let y_major = at_least(y, x);
    // `y_major` counts only where z is not the major axis.
    let choose =
        |of_z: Value, of_y: Value, of_x: Value| l.select(z_major, of_z, l.select(y_major, of_y, of_x));
    let constant = |value: f32| l.word(value.to_bits());
    match stem {
        "cubeid" => {
            let along = choose(z, y, x);
            let front = choose(constant(4.0), constant(2.0), constant(0.0));
            let back = choose(constant(5.0), constant(3.0), constant(1.0));
            l.select(negative(along), back, front)
        }
        "cubesc" => choose(l.select(negative(z), minus(x), x), x, l.select(negative(x), z, minus(z))),
        "cubetc" => {
            let of_y = l.select(negative(y), minus(z), z);
            choose(minus(y), of_y, minus(y))
        }
        _ => l.float(Float::Multiply, F32, l.rounding(F32), &[constant(2.0), choose(z, y, x)]),
    }
}
