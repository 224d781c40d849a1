//! f32 functions that the compiler can vectorise: no branches, no tables, no calls. Each is within 2.5 ulp of the true value,
//! with the same bits at every instruction level. Coefficients: exp by Taylor terms fitted to half of ln 2; log and tanh as in S.
//! L. Moshier's Cephes library; erf as published by N. Juffa.

/// e to the power of x.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
    let shifted = f32::mul_add(x, std::f32::consts::LOG2_E, 12_582_912.0);
    let power = (shifted.to_bits() as i32).wrapping_sub(0x4B40_0000);
    let whole = shifted - 12_582_912.0;
    let rest = f32::mul_add(whole, -0.693_145_75, x);
    let rest = f32::mul_add(whole, -1.428_606_8e-6, rest);
    let mut sum = 1.985_276_2e-4;
    sum = f32::mul_add(sum, rest, 1.393_043_6e-3);
    sum = f32::mul_add(sum, rest, 8.333_361e-3);
    sum = f32::mul_add(sum, rest, 4.166_648_5e-2);
    sum = f32::mul_add(sum, rest, 1.666_666_7e-1);
    sum = f32::mul_add(sum, rest, 0.5);
    sum = f32::mul_add(sum, rest * rest, rest) + 1.0;
    // Subnormal results are computed as normal numbers and scaled down at the end.
    let low = x < -87.0;
    let power = power.wrapping_add(if low { 64 } else { 0 });
    let result = f32::from_bits(sum.to_bits().wrapping_add((power as u32).wrapping_shl(23)));
    let result = if low { result * 5.421_011e-20 } else { result };
    let result = if x > 88.722_84 { f32::INFINITY } else { result };
    let result = if x < -103.972_08 { 0.0 } else { result };
    if x.is_nan() { x } else { result }
}

/// The natural logarithm.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // The mantissa is between the square roots of one half and of two.
    let exponent = (bits.wrapping_sub(0x3F35_04F3) as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent as u32).wrapping_shl(23)));
    let exponent = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let z = mantissa - 1.0;
    let square = z * z;
    let mut sum = 7.037_683_6e-2;
    sum = f32::mul_add(sum, z, -1.151_461e-1);
    sum = f32::mul_add(sum, z, 1.167_699_9e-1);
    sum = f32::mul_add(sum, z, -1.242_014_1e-1);
    sum = f32::mul_add(sum, z, 1.424_932_3e-1);
    sum = f32::mul_add(sum, z, -1.666_805_8e-1);
    sum = f32::mul_add(sum, z, 2.000_071_5e-1);
    sum = f32::mul_add(sum, z, -2.499_999_4e-1);
    sum = f32::mul_add(sum, z, 3.333_333e-1);
    sum = sum * square * z;
    sum = f32::mul_add(exponent, -2.121_944_4e-4, sum);
    sum = f32::mul_add(square, -0.5, sum);
    let result = f32::mul_add(exponent, 0.693_359_4, z + sum);
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    let result = if x < 0.0 { f32::NAN } else { result };
    // The logarithms of infinity and NaN are infinity and NaN.
    if x < f32::INFINITY { result } else { x }
}

/// Computed from `e^-2|x| - 1`, which is exact near zero and tends to minus one for large arguments.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    // Beyond this it is one. NaN fails the comparison and stays.
    let magnitude = if magnitude > 9.1 { 9.1 } else { magnitude };
    let shifted = f32::mul_add(magnitude, -2.0 * std::f32::consts::LOG2_E, 12_582_912.0);
    let power = (shifted.to_bits() as i32).wrapping_sub(0x4B40_0000);
    let whole = shifted - 12_582_912.0;
    let rest = f32::mul_add(whole, -0.693_145_75, magnitude * -2.0);
    let rest = f32::mul_add(whole, -1.428_606_8e-6, rest);
    let mut sum = 1.985_276_2e-4;
    sum = f32::mul_add(sum, rest, 1.393_043_6e-3);
    sum = f32::mul_add(sum, rest, 8.333_361e-3);
    sum = f32::mul_add(sum, rest, 4.166_648_5e-2);
    sum = f32::mul_add(sum, rest, 1.666_666_7e-1);
    sum = f32::mul_add(sum, rest, 0.5);
    sum = f32::mul_add(sum, rest * rest, rest);
    let scale = f32::from_bits((power.wrapping_add(127) as u32).wrapping_shl(23));
    let less = f32::mul_add(sum, scale, scale - 1.0);
    let below = less + 2.0;
    let quotient = less / below;
    // Corrects the rounding error of the divisor, which is about one where the error matters.
    let lost = less - (below - 2.0);
    f32::mul_add(lost, -quotient, quotient).copysign(x)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let power = exp(-x.abs());
    let share = 1.0 / (1.0 + power);
    if x < 0.0 { power * share } else { share }
}

/// The error function.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    let mut large = f32::mul_add(-1.728_534_7e-5, magnitude, 3.831_971_3e-4);
    let even = f32::mul_add(-3.883_964_4e-3, magnitude, 2.425_462_2e-2);
    large = f32::mul_add(large, square, even);
    large = f32::mul_add(large, magnitude, -1.067_778_8e-1);
    large = f32::mul_add(large, magnitude, -6.348_467e-1);
    large = f32::mul_add(large, magnitude, -1.287_175_1e-1);
    large = f32::mul_add(large, magnitude, -magnitude);
    // Beyond four the difference to one is below the precision, and the polynomial would turn around.
    let large = if magnitude > 4.0 { 1.0 } else { 1.0 - exp(large) };
    let mut small = -5.967_617e-4;
    small = f32::mul_add(small, square, 4.991_194_2e-3);
    small = f32::mul_add(small, square, -2.676_813_5e-2);
    small = f32::mul_add(small, square, 1.128_199_25e-1);
    small = f32::mul_add(small, square, -3.761_253_4e-1);
    small = f32::mul_add(small, square, 1.283_791_7e-1);
    let small = f32::mul_add(small, x, x);
    let result = if magnitude > 0.927_734_4 { large.copysign(x) } else { small };
    if x.is_nan() { x } else { result }
}

/// The largest angle for which `sine` and `cosine` are accurate; `far_sine` and `far_cosine` cover up to [`ANGLE`].
pub const NEAR: f32 = 1e4;

/// The largest angle of `far_sine` and `far_cosine`; beyond it libm is used.
pub const ANGLE: f32 = 1e8;

/// The sine of an angle in radians, of at most [`NEAR`].
#[inline(always)]
pub fn sine(x: f32) -> f32 {
    near_turn(x, 0)
}

/// The cosine of an angle in radians, of at most [`NEAR`].
#[inline(always)]
pub fn cosine(x: f32) -> f32 {
    near_turn(x, 1)
}

/// The sine of an angle of at most [`ANGLE`].
#[inline(always)]
pub fn far_sine(x: f32) -> f32 {
    if x.abs() <= NEAR { sine(x) } else { turn(x, 0) }
}

/// The cosine of an angle of at most [`ANGLE`].
#[inline(always)]
pub fn far_cosine(x: f32) -> f32 {
    if x.abs() <= NEAR { cosine(x) } else { turn(x, 1) }
}

/// The sine after `quarters` more quarter turns. The quarter turns are subtracted in three parts (Cody-Waite): the first
/// difference is exact, and no part changes the sign of zero. Coefficients as in Cephes.
#[inline(always)]
fn near_turn(x: f32, quarters: u32) -> f32 {
    // The float below pi/2, not the nearest one.
    const FIRST: f32 = f32::from_bits(0x3fc9_0fda);
    let shifted = f32::mul_add(x, std::f32::consts::FRAC_2_PI, 12_582_912.0);
    let quarter = shifted.to_bits().wrapping_add(quarters);
    let whole = shifted - 12_582_912.0;
    let rest = f32::mul_add(whole, -FIRST, x);
    let rest = f32::mul_add(whole, -7.549_789_4e-8, rest);
    let rest = f32::mul_add(whole, -5.390_303e-15, rest);
    let square = rest * rest;
    let mut sine = -1.951_529_6e-4;
    sine = f32::mul_add(sine, square, 8.332_161e-3);
    sine = f32::mul_add(sine, square, -1.666_665_5e-1);
    let sine = f32::mul_add(sine * square, rest, rest).copysign(rest);
    let mut cosine = 2.443_315_7e-5;
    cosine = f32::mul_add(cosine, square, -1.388_731_6e-3);
    cosine = f32::mul_add(cosine, square, 4.166_664_6e-2);
    let cosine = f32::mul_add(cosine, square * square, f32::mul_add(square, -0.5, 1.0));
    let value = if quarter & 1 == 0 { sine } else { cosine };
    f32::from_bits(value.to_bits() ^ (quarter & 2) << 30)
}

/// The sine after `quarters` more quarter turns, in f64 and rounded once.
#[inline(always)]
fn turn(x: f32, quarters: u64) -> f32 {
    // Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let shifted = f64::mul_add(x, std::f64::consts::FRAC_2_PI, SHIFT);
    let quarter = shifted.to_bits().wrapping_add(quarters);
    let whole = shifted - SHIFT;
    let rest = f64::mul_add(whole, -std::f64::consts::FRAC_PI_2, x);
    let rest = f64::mul_add(whole, -6.123_233_995_736_766e-17, rest);
    let square = rest * rest;
    let mut sine = 2.755_731_921_1e-6;
    sine = f64::mul_add(sine, square, -1.984_126_984_126_98e-4);
    sine = f64::mul_add(sine, square, 8.333_333_333_333_33e-3);
    sine = f64::mul_add(sine, square, -1.666_666_666_666_666_6e-1);
    let sine = rest * f64::mul_add(sine, square, 1.0);
    let mut cosine = 2.480_158_730_158_7e-5;
    cosine = f64::mul_add(cosine, square, -1.388_888_888_888_89e-3);
    cosine = f64::mul_add(cosine, square, 4.166_666_666_666_666e-2);
    cosine = f64::mul_add(cosine, square, -0.5);
    let cosine = f64::mul_add(cosine, square, 1.0);
    let value = if quarter & 1 == 0 { sine } else { cosine };
    (if quarter & 2 == 0 { value } else { -value }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance from the true value in ulp.
    fn units(value: f32, truth: f64) -> f64 {
        let nearest = truth as f32;
        if value == nearest || (value.is_nan() && nearest.is_nan()) {
            return 0.0;
        }
        let unit = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
        ((f64::from(value) - truth) / unit).abs()
    }

    fn check(name: &str, limit: f64, range: (f32, f32), own: fn(f32) -> f32, truth: fn(f64) -> f64) {
        let (mut worst, mut at) = (0.0, 0.0);
        let count = 50_000;
        for n in 0..=count {
            let x = range.0 + (range.1 - range.0) * (n as f32 / count as f32);
            let error = units(own(x), truth(f64::from(x)));
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        assert!(worst <= limit, "{name} is {worst} units off at {at}");
    }

    fn true_sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    #[test]
    fn functions_are_within_two_and_a_half_units() {
        check("exp", 1.5, (-104.5, 90.0), exp, f64::exp);
        check("exp", 1.5, (-1.0, 1.0), exp, f64::exp);
        check("log", 1.5, (1e-3, 10.0), log, f64::ln);
        check("log", 1.5, (0.0, 1e-38), log, f64::ln);
        check("log", 1.5, (1.0, 1e30), log, f64::ln);
        check("tanh", 2.5, (-10.0, 10.0), tanh, f64::tanh);
        check("tanh", 2.5, (-0.7, 0.7), tanh, f64::tanh);
        check("sigmoid", 2.5, (-80.0, 40.0), sigmoid, true_sigmoid);
        check("erf", 2.0, (-5.0, 5.0), erf, libm::erf);
        check("erf", 2.0, (-1.0, 1.0), erf, libm::erf);
        for limit in [1.0, 10.0, 1000.0, NEAR] {
            check("sin", 1.75, (-limit, limit), sine, f64::sin);
            check("cos", 1.75, (-limit, limit), cosine, f64::cos);
        }
        check("sin", 1.5, (-ANGLE, ANGLE), far_sine, f64::sin);
        check("cos", 1.5, (-ANGLE, ANGLE), far_cosine, f64::cos);
    }

    #[test]
    fn functions_know_the_ends_of_the_numbers() {
        let (infinity, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!((exp(infinity), exp(-infinity), exp(0.0)), (infinity, 0.0, 1.0));
        assert_eq!((log(0.0), log(infinity), log(1.0)), (-infinity, infinity, 0.0));
        assert_eq!((tanh(infinity), tanh(-infinity)), (1.0, -1.0));
        assert_eq!((sigmoid(infinity), sigmoid(-infinity)), (1.0, 0.0));
        assert_eq!((erf(infinity), erf(-infinity), erf(30.0)), (1.0, -1.0, 1.0));
        assert!(log(-1.0).is_nan() && log(-infinity).is_nan());
        for function in [exp, log, tanh, sigmoid, erf, sine, cosine] {
            assert!(function(nan).is_nan());
        }
        for function in [tanh, erf, sine] {
            assert_eq!(function(-0.0).to_bits(), (-0.0_f32).to_bits());
        }
    }
}
