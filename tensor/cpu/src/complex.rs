//! Complex functions by C's annex G: signs of zeros select the side of a branch cut, and infinities and NaN give the results that
//! the array API standard requires.

use std::f64::consts::{FRAC_PI_2, LN_2, LN_10};

use num_complex::Complex64;

/// Squares of numbers below this one do not overflow.
const SQUARES: f64 = 1e150;

const NAN: Complex64 = Complex64::new(f64::NAN, f64::NAN);

pub fn exp(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.exp(), z.im);
    }
    if !z.im.is_finite() {
        return match z.re {
            f64::INFINITY => Complex64::new(f64::INFINITY, f64::NAN),
            f64::NEG_INFINITY => Complex64::ZERO,
            _ => NAN,
        };
    }
    let (sine, cosine) = z.im.sin_cos();
    let size = z.re.exp();
    Complex64::new(size * cosine, size * sine)
}

pub fn expm1(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        // The result for either zero is positive zero.
        return Complex64::new(z.re.exp_m1() + 0.0, z.im);
    }
    if z.re.is_infinite() || z.re > 700.0 || !z.im.is_finite() {
        return exp(z) - 1.0;
    }
    // e^x cos y - 1 without cancellation for small arguments.
    let half = (z.im / 2.0).sin();
    let grown = z.re.exp_m1();
    Complex64::new(grown - 2.0 * half * half * (grown + 1.0), (grown + 1.0) * z.im.sin())
}

pub fn log(z: Complex64) -> Complex64 {
    let (large, small) = (z.re.abs().max(z.im.abs()), z.re.abs().min(z.im.abs()));
    let size = if z.re.is_nan() || z.im.is_nan() || !(0.5..2.0).contains(&large) {
        z.re.hypot(z.im).ln()
    } else {
        // Near the unit circle: the absolute value minus one is small and must not be lost by rounding.
        ((large - 1.0) * (large + 1.0) + small * small).ln_1p() / 2.0
    };
    Complex64::new(size, z.im.atan2(z.re))
}

/// Smith's method: the square of the divisor would overflow.
pub fn quotient(x: Complex64, y: Complex64) -> Complex64 {
    if y.re.abs() >= y.im.abs() {
        if y == Complex64::ZERO {
            return x / y;
        }
        let ratio = y.im / y.re;
        let scale = y.re + y.im * ratio;
        return Complex64::new((x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale);
    }
    let ratio = y.re / y.im;
    let scale = y.re * ratio + y.im;
    Complex64::new((x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale)
}

pub fn recip(z: Complex64) -> Complex64 {
    if z.re.abs().max(z.im.abs()) < SQUARES { z.inv() } else { quotient(Complex64::ONE, z) }
}

pub fn rsqrt(z: Complex64) -> Complex64 {
    sqrt(z).inv()
}

pub fn exp2(z: Complex64) -> Complex64 {
    exp(z * LN_2)
}

pub fn log2(z: Complex64) -> Complex64 {
    log(z) / LN_2
}

pub fn log10(z: Complex64) -> Complex64 {
    log(z) / LN_10
}

pub fn log1p(z: Complex64) -> Complex64 {
    let grown = z.re * (2.0 + z.re) + z.im * z.im;
    let size = if grown.abs() < 0.5 { grown.ln_1p() / 2.0 } else { (1.0 + z.re).hypot(z.im).ln() };
    Complex64::new(size, z.im.atan2(1.0 + z.re))
}

pub fn sqrt(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if re == 0.0 && im == 0.0 {
        return Complex64::new(0.0, im);
    }
    if im.is_infinite() {
        return Complex64::new(f64::INFINITY, im);
    }
    if re.is_infinite() {
        let lost = if im.is_nan() { f64::NAN } else { 0.0 };
        return if re > 0.0 {
            Complex64::new(re, lost.copysign(im))
        } else {
            Complex64::new(lost, f64::INFINITY.copysign(im))
        };
    }
    // Halves, because the absolute value of a finite number may overflow.
    let side = (re.abs() / 2.0 + (re / 2.0).hypot(im / 2.0)).sqrt();
    if re >= 0.0 {
        Complex64::new(side, im / (2.0 * side))
    } else {
        Complex64::new(im.abs() / (2.0 * side), side.copysign(im))
    }
}

pub fn sinh(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if im == 0.0 {
        return Complex64::new(re.sinh(), im);
    }
    if !im.is_finite() {
        return Complex64::new(if re == 0.0 || re.is_infinite() { re } else { f64::NAN }, f64::NAN);
    }
    let (sine, cosine) = im.sin_cos();
    Complex64::new(re.sinh() * cosine, re.cosh() * sine)
}

pub fn cosh(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if im == 0.0 {
        let turned = if re.is_nan() { im } else { im * 1_f64.copysign(re) };
        return Complex64::new(re.cosh(), turned);
    }
    if !im.is_finite() {
        return match re {
            0.0 => Complex64::new(f64::NAN, re),
            re if re.is_infinite() => Complex64::new(f64::INFINITY, f64::NAN),
            _ => NAN,
        };
    }
    let (sine, cosine) = im.sin_cos();
    Complex64::new(re.cosh() * cosine, re.sinh() * sine)
}

pub fn tanh(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if re.is_nan() {
        return Complex64::new(f64::NAN, if im == 0.0 { im } else { f64::NAN });
    }
    if re.is_infinite() {
        return Complex64::new(1_f64.copysign(re), 0_f64.copysign(im));
    }
    if !im.is_finite() {
        return Complex64::new(if re == 0.0 { re } else { f64::NAN }, f64::NAN);
    }
    if re.abs() > 20.0 {
        let (sine, cosine) = im.sin_cos();
        return Complex64::new(1_f64.copysign(re), 4.0 * sine * cosine * (-2.0 * re.abs()).exp());
    }
    let (slope, rise) = (im.tan(), re.sinh());
    let (wide, run) = (1.0 + slope * slope, (1.0 + rise * rise).sqrt());
    let all = 1.0 + wide * rise * rise;
    Complex64::new(wide * run * rise / all, slope / all)
}

pub fn asinh(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if re.is_infinite() || im.is_infinite() {
        return Complex64::new(f64::INFINITY.copysign(re), im.abs().atan2(re.abs()).copysign(im));
    }
    if re.is_nan() || im.is_nan() {
        return Complex64::new(f64::NAN, if im == 0.0 { im } else { f64::NAN });
    }
    // Kahan's method: by square roots, whose signs of zero select the side of the branch cut.
    let (less, more) = (sqrt(Complex64::new(1.0 + im, -re)), sqrt(Complex64::new(1.0 - im, re)));
    let cut = less.re * more.re - less.im * more.im;
    Complex64::new(libm::asinh(less.re * more.im - less.im * more.re), im.atan2(cut))
}

pub fn acos(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if re.is_infinite() || im.is_infinite() {
        return Complex64::new(im.abs().atan2(re), -f64::INFINITY.copysign(im));
    }
    if re.is_nan() || im.is_nan() {
        return Complex64::new(if re == 0.0 { FRAC_PI_2 } else { f64::NAN }, f64::NAN);
    }
    let (less, more) = (sqrt(Complex64::new(1.0 - re, -im)), sqrt(Complex64::new(1.0 + re, im)));
    Complex64::new(2.0 * less.re.atan2(more.re), libm::asinh(more.re * less.im - more.im * less.re))
}

pub fn acosh(z: Complex64) -> Complex64 {
    let turned = acos(z);
    Complex64::new(turned.im.abs(), turned.re.copysign(z.im))
}

pub fn atanh(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    if re.is_infinite() || im.is_infinite() {
        let quarter = if im.is_nan() { f64::NAN } else { FRAC_PI_2.copysign(im) };
        return Complex64::new(0_f64.copysign(re), quarter);
    }
    if re.is_nan() || im.is_nan() {
        return Complex64::new(if re == 0.0 { re } else { f64::NAN }, f64::NAN);
    }
    if re.abs().max(im.abs()) > SQUARES {
        let small = recip(z).re.abs();
        return Complex64::new(small.copysign(re), FRAC_PI_2.copysign(im));
    }
    let (size, below) = (re.abs(), 1.0 - re.abs());
    let grown = (4.0 * size / (below * below + im * im)).ln_1p() / 4.0;
    let turned = (2.0 * im).atan2(below * (1.0 + size) - im * im) / 2.0;
    Complex64::new(grown.copysign(re), turned)
}

pub fn sin(z: Complex64) -> Complex64 {
    turned(sinh, z)
}

pub fn cos(z: Complex64) -> Complex64 {
    cosh(Complex64::new(-z.im, z.re))
}

pub fn tan(z: Complex64) -> Complex64 {
    turned(tanh, z)
}

pub fn asin(z: Complex64) -> Complex64 {
    turned(asinh, z)
}

pub fn atan(z: Complex64) -> Complex64 {
    turned(atanh, z)
}

/// The number divided by its absolute value; zero for zero.
pub fn sign(z: Complex64) -> Complex64 {
    if z == Complex64::ZERO { Complex64::ZERO } else { z / z.norm() }
}

pub fn sigmoid(z: Complex64) -> Complex64 {
    (exp(-z) + 1.0).inv()
}

/// Computes `-i f(i z)`.
fn turned(function: fn(Complex64) -> Complex64, z: Complex64) -> Complex64 {
    let answer = function(Complex64::new(-z.im, z.re));
    Complex64::new(answer.im, -answer.re)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;
    type Function = fn(Complex64) -> Complex64;

    /// Functions and their inverses.
    const PAIRS: [(Function, Function); 8] = [
        (exp, log),
        (expm1, log1p),
        (sinh, asinh),
        (cosh, acosh),
        (tanh, atanh),
        (sin, asin),
        (cos, acos),
        (tan, atan),
    ];

    #[test]
    fn inverses_lead_back() {
        for (function, inverse) in PAIRS {
            for re in [-2.5, -1.0, -0.3, -1e-7, 1e-7, 0.4, 1.5, 30.0] {
                for im in [-3.0, -0.7, -1e-6, 1e-6, 0.2, 2.0] {
                    let z = Complex64::new(re, im);
                    let back = function(inverse(z));
                    assert!((back - z).norm() <= 1e-9 * z.norm(), "{z}: {back}");
                }
            }
        }
    }

    #[test]
    fn conjugates_answer_conjugates_also_at_the_edges() {
        let edges = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF];
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        for (function, inverse) in PAIRS {
            for function in [function, inverse, sqrt] {
                for (re, im) in edges.iter().flat_map(|re| edges.iter().map(move |im| (*re, *im))) {
                    let (above, below) =
                        (function(Complex64::new(re, im)), function(Complex64::new(re, -im)));
                    let near = (above.re - below.re).abs() <= 1e-12 || same(above.re, below.re);
                    let mirrored = (above.im + below.im).abs() <= 1e-12 || same(above.im, -below.im);
                    assert!(near && mirrored, "{re} {im}: {above} {below}");
                }
            }
        }
    }

    #[test]
    fn infinities_answer_as_annex_g_says() {
        let check = |answer: Complex64, re: f64, im: f64| {
            let same = |a: f64, b: f64| {
                (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
            };
            assert!(same(answer.re, re) && same(answer.im, im), "{answer} is not {re} {im}");
        };
        let z = Complex64::new;
        check(exp(z(-INF, INF)), 0.0, 0.0);
        check(exp(z(f64::NAN, 0.0)), f64::NAN, 0.0);
        check(sqrt(z(f64::NAN, INF)), INF, INF);
        check(sqrt(z(-INF, 3.0)), 0.0, INF);
        check(log(z(-0.0, 0.0)), -INF, std::f64::consts::PI);
        check(sinh(z(0.0, INF)), 0.0, f64::NAN);
        check(cosh(z(INF, f64::NAN)), INF, f64::NAN);
        check(tanh(z(0.0, f64::NAN)), 0.0, f64::NAN);
        check(asinh(z(f64::NAN, 0.0)), f64::NAN, 0.0);
        check(acos(z(-INF, INF)), 0.75 * std::f64::consts::PI, -INF);
        check(acosh(z(f64::NAN, INF)), INF, f64::NAN);
        check(atanh(z(1.0, 0.0)), INF, 0.0);
        check(atanh(z(f64::NAN, INF)), 0.0, FRAC_PI_2);
    }
}
