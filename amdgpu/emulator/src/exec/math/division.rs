//! The three instructions of the IEEE division sequence: `v_div_scale`, `v_div_fmas` and `v_div_fixup`.

use crate::exec::math::float::{ldexp_f32, ldexp_f64};

macro_rules! division {
    (
        $scale:ident, $fmas:ident, $fixup:ident, $float:ty, $ldexp:ident,
        $round_to_subnormal:ident, $quantum:expr, $mantissa:literal,
        $exponent:expr, $underflow:literal, $step:literal, $near_max:literal, $tiny:literal, $bias:literal, $indefinite:expr
    ) => {
        /// `v_div_scale`: scales the numerator or denominator (whichever `a` is) so that the iteration neither overflows nor
        /// loses bits. The flag requests that `v_div_fmas` scales the quotient back.
        #[inline(always)]
        pub fn $scale(a: $float, denominator: $float, numerator: $float) -> ($float, bool) {
            let exponent: fn($float) -> i32 = $exponent;
            let subnormal = |x: $float| x.abs() < <$float>::MIN_POSITIVE;
            let (is_denominator, is_numerator) = (a == denominator, a == numerator);
            let up = $ldexp(a, $step);
            let down = $ldexp(a, -$step);
            let reciprocal_subnormal = subnormal(1.0 / denominator);
            let quotient_subnormal = subnormal(numerator / denominator);
            if numerator == 0.0 || denominator == 0.0 {
                (<$float>::NAN, false)
            } else if exponent(numerator) - exponent(denominator) >= $near_max {
                (if is_denominator { up } else { a }, true)
            } else if subnormal(denominator) {
                (up, false)
            } else if reciprocal_subnormal && quotient_subnormal {
                (if is_denominator { down } else { a }, true)
            } else if reciprocal_subnormal {
                (down, false)
            } else if quotient_subnormal {
                (if is_numerator { up } else { a }, true)
            } else if exponent(numerator) <= $tiny {
                (up, false)
            } else {
                (a, false)
            }
        }

        /// `v_div_fmas`: `a * b + c`, scaled back if `scaled`; the exponent of the quotient `c` determines the direction.
        #[inline(always)]
        pub fn $fmas(a: $float, b: $float, c: $float, scaled: bool) -> $float {
            let exponent: fn($float) -> i32 = $exponent;
            let plain = a.mul_add(b, c);
            if !scaled {
                plain
            } else if exponent(c) > $bias {
                $ldexp(plain, $step)
            } else {
                $ldexp($round_to_subnormal(plain, a, b, c), -$step)
            }
        }

        /// Rounds `plain`, which is `a * b + c` already rounded, to the precision of the subnormal it becomes when scaled down.
        /// In a tie, the part lost by the first rounding decides.
        #[inline(always)]
        fn $round_to_subnormal(plain: $float, a: $float, b: $float, c: $float) -> $float {
            // The ULP of a subnormal, scaled up, and the power of two that has this ULP.
            let (quantum, magic) = const { ($quantum, $quantum * (1_u64 << $mantissa) as $float) };
            let product = a * b;
            let sum = product + c;
            let part = sum - product;
            let low = (product - (sum - part)) + (c - part);
            let residual = ((sum - plain) + low) + a.mul_add(b, -product);
            let outward = if plain < 0.0 { -residual } else { residual };
            let magnitude = plain.abs();
            let nearest = (magnitude + magic) - magic;
            let tie = (magnitude - nearest).abs() == quantum / 2.0;
            let up = magnitude + quantum / 2.0;
            let down = magnitude - quantum / 2.0;
            let rounded = if tie && outward > 0.0 {
                up
            } else if tie && outward < 0.0 {
                down
            } else {
                nearest
            };
            if magnitude < magic { rounded.copysign(plain) } else { plain }
        }

        /// `v_div_fixup`: handles the special cases of numerator and denominator; `quotient` is the result of `v_div_fmas`.
        #[inline(always)]
        pub fn $fixup(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let exponent: fn($float) -> i32 = $exponent;
            let distance = exponent(numerator) - exponent(denominator);
            let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |x: $float| if negative { -x } else { x };
            if numerator.is_nan() {
                numerator + 0.0
            } else if denominator.is_nan() {
                denominator + 0.0
            } else if numerator == 0.0 && denominator == 0.0
                || numerator.is_infinite() && denominator.is_infinite()
            {
                $indefinite
            } else if denominator == 0.0 || numerator.is_infinite() {
                signed(<$float>::INFINITY)
            } else if denominator.is_infinite() || numerator == 0.0 || distance < $underflow {
                signed(0.0)
            } else if quotient.is_nan() {
                // The iteration overflowed, so the quotient does too.
                signed(<$float>::INFINITY)
            } else {
                signed(quotient.abs())
            }
        }
    };
}

division!(
    scale_f32,
    fmas_f32,
    fixup_f32,
    f32,
    ldexp_f32,
    round_to_subnormal_f32,
    f32::from_bits((127 + 64 - 149) << 23),
    23,
    |x| (x.to_bits() >> 23 & 0xff) as i32,
    -150,
    64,
    96,
    23,
    127,
    f32::from_bits(0xffc0_0000)
);
division!(
    scale_f64,
    fmas_f64,
    fixup_f64,
    f64,
    ldexp_f64,
    round_to_subnormal_f64,
    f64::from_bits((1023 + 128 - 1074) << 52),
    52,
    |x| (x.to_bits() >> 52 & 0x7ff) as i32,
    -1075,
    128,
    768,
    53,
    1023,
    f64::from_bits(0xfff8_0000_0000_0000)
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The instruction sequence that compilers emit for `numerator / denominator`.
    fn divide_f32(numerator: f32, denominator: f32) -> f32 {
        let (d, _) = scale_f32(denominator, denominator, numerator);
        let (n, scaled) = scale_f32(numerator, denominator, numerator);
        let rcp = 1.0 / d;
        let e = (-d).mul_add(rcp, 1.0);
        let rcp = e.mul_add(rcp, rcp);
        let q = n * rcp;
        let r = (-d).mul_add(q, n);
        let q = r.mul_add(rcp, q);
        let r = (-d).mul_add(q, n);
        fixup_f32(fmas_f32(r, rcp, q, scaled), denominator, numerator)
    }

    fn divide_f64(numerator: f64, denominator: f64) -> f64 {
        let (d, _) = scale_f64(denominator, denominator, numerator);
        let (n, scaled) = scale_f64(numerator, denominator, numerator);
        let rcp = 1.0 / d;
        let e = (-d).mul_add(rcp, 1.0);
        let rcp = rcp.mul_add(e, rcp);
        let e = (-d).mul_add(rcp, 1.0);
        let rcp = rcp.mul_add(e, rcp);
        let q = n * rcp;
        let r = (-d).mul_add(q, n);
        fixup_f64(fmas_f64(r, rcp, q, scaled), denominator, numerator)
    }

    #[test]
    fn the_division_sequence_is_correctly_rounded_for_f32() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut specials =
            vec![0.0, -0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e-39];
        specials.extend((0..2000).map(|_| f32::from_bits(random.u32(..))));
        for &n in &specials {
            for &d in &specials[..200] {
                let (got, want) = (divide_f32(n, d), n / d);
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{n:e} / {d:e}: {got:e}, {want:e}"
                );
            }
        }
    }

    #[test]
    fn the_division_sequence_is_correctly_rounded_for_f64() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut specials =
            vec![0.0, -0.0, 1.0, f64::INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324, 3e-310];
        specials.extend((0..2000).map(|_| f64::from_bits(random.u64(..))));
        for &n in &specials {
            for &d in &specials[..200] {
                let (got, want) = (divide_f64(n, d), n / d);
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{n:e} / {d:e}: {got:e}, {want:e}"
                );
            }
        }
    }
}
