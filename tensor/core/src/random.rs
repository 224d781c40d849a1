//! Random numbers that are identical on every device: Philox 4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1,
//! 2, 3", 2011), and functions built from correctly rounded operations only. Other implementations must write every fused
//! multiply-add explicitly and must not let the compiler contract anything else.

use crate::dtype::DType;
use crate::step::Distribution;

/// One block of the generator: four words for a seed and a position.
pub fn philox(seed: u64, position: u64) -> [u32; 4] {
    let mut counter = [position as u32, (position >> 32) as u32, 0, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let first = 0xD251_1F53_u64 * u64::from(counter[0]);
        let second = 0xCD9E_8D57_u64 * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// Elements per block: element `i` comes from block `offset + i / per_block`.
pub fn per_block(dtype: DType, distribution: Distribution) -> u64 {
    match distribution {
        Distribution::Integers { .. } => 2,
        Distribution::Uniform | Distribution::Normal if dtype == DType::F64 => 2,
        Distribution::Uniform | Distribution::Normal => 4,
    }
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Uniform in [0, 1) with 24 bits, for f32 and smaller. Narrower types round it down.
pub fn uniform_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Uniform in [0, 1) with 53 bits.
pub fn uniform_f64(low: u32, high: u32) -> f64 {
    (wide(low, high) >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Uniform in [low, high): the high word of a 64x64-bit product, so the bias is negligible.
pub fn integer(low_word: u32, high_word: u32, low: i64, high: i64) -> i64 {
    let range = high.wrapping_sub(low) as u64;
    low.wrapping_add(((u128::from(wide(low_word, high_word)) * u128::from(range)) >> 64) as i64)
}

/// Two normally distributed numbers from two words, computed in f64; f32 rounds them, and narrower types round the f32 values.
pub fn normal_pair(first: u32, second: u32) -> (f64, f64) {
    box_muller(
        (f64::from(first) + 1.0) * (1.0 / 4_294_967_296.0),
        f64::from(second) * (1.0 / 4_294_967_296.0),
    )
}

/// Two normally distributed numbers from one block, for f64.
pub fn normal_pair_f64(block: [u32; 4]) -> (f64, f64) {
    let first = uniform_f64(block[0], block[1]) + 1.0 / 9_007_199_254_740_992.0;
    box_muller(first, uniform_f64(block[2], block[3]))
}

/// Box-Muller transform; `first` in (0, 1], `second` in [0, 1).
fn box_muller(first: f64, second: f64) -> (f64, f64) {
    let radius = (-2.0 * ln(first)).sqrt();
    let (sine, cosine) = sine_cosine_of_turns(second);
    (radius * cosine, radius * sine)
}

/// The natural logarithm, for normal (not subnormal) numbers in (0, 1].
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF) | 0x3FF0_0000_0000_0000);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for n in (0..LN_TERMS).rev() {
        sum = f64::mul_add(sum, square, 1.0 / (2 * n + 1) as f64);
    }
    f64::mul_add(exponent as f64, std::f64::consts::LN_2, 2.0 * s * sum)
}

/// Terms of the series of `ln`: s is at most 0.172.
pub const LN_TERMS: usize = 11;
/// Terms of the series of sine and cosine, for arguments up to an eighth of a turn on either side.
pub const TRIGONOMETRIC_TERMS: usize = 10;

/// Sine and cosine of a number of turns in [0, 1).
pub fn sine_cosine_of_turns(turns: f64) -> (f64, f64) {
    let quarter = (turns * 4.0 + 0.5).floor();
    let x = (turns * 4.0 - quarter) * std::f64::consts::FRAC_PI_2;
    let square = x * x;
    let (mut sine, mut cosine) = (0.0, 0.0);
    for n in (0..TRIGONOMETRIC_TERMS).rev() {
        // x - x^3/3! + ..., 1 - x^2/2! + ...: Horner's scheme, so that only quotients of small integers are needed.
        sine = f64::mul_add(-(square / ((2 * n + 2) * (2 * n + 3)) as f64), sine, 1.0);
        cosine = f64::mul_add(-(square / ((2 * n + 1) * (2 * n + 2)) as f64), cosine, 1.0);
    }
    sine *= x;
    match quarter as u32 % 4 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_answers_the_published_vectors() {
        // Random123's known answers for philox4x32-10.
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn logarithm_and_angles_agree_with_the_library() {
        for n in 1..=10_000_u32 {
            let u = f64::from(n) / 10_000.0;
            assert!((ln(u) - u.ln()).abs() <= 4e-16 * u.ln().abs().max(0.1), "ln {u}");
            let (sine, cosine) = sine_cosine_of_turns(u - 1e-4);
            let angle = (u - 1e-4) * std::f64::consts::TAU;
            assert!((sine - angle.sin()).abs() < 1e-15 && (cosine - angle.cos()).abs() < 1e-15, "{u}");
        }
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let (mut sum, mut squares, count) = (0.0, 0.0, 40_000_u32);
        for position in 0..u64::from(count) / 4 {
            let [a, b, c, d] = philox(7, position);
            for (x, y) in [normal_pair(a, b), normal_pair(c, d)] {
                sum += x + y;
                squares += x * x + y * y;
            }
        }
        assert!((sum / f64::from(count)).abs() < 0.02);
        assert!((squares / f64::from(count) - 1.0).abs() < 0.03);
    }

    #[test]
    fn integers_stay_in_their_range() {
        for position in 0..1000 {
            let [a, b, ..] = philox(3, position);
            assert!((-5..9).contains(&integer(a, b, -5, 9)));
            integer(a, b, i64::MIN, i64::MAX);
        }
    }
}
