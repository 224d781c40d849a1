//! Scalar reference of float operations, one lane at a time, using f64, `half` and the standard library.

use half::f16;

use super::Lane;

fn s(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn h(bits: u64) -> f64 {
    f16::from_bits(bits as u16).to_f64()
}

fn from_s(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn from_h(value: f64) -> u64 {
    u64::from(f16::from_f64(value).to_bits())
}

/// Float class as encoded by the hardware: 0 signalling NaN, 1 quiet NaN, 2..=5 negative, 6..=9 positive.
fn class(value: f64, signalling: bool, smallest_normal: f64) -> u32 {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    let category = match value.classify() {
        Normal if value.abs() < smallest_normal => Subnormal,
        category => category,
    };
    match (category, value.is_sign_negative()) {
        (Nan, _) => u32::from(!signalling),
        (Infinite, true) => 2,
        (Normal, true) => 3,
        (Subnormal, true) => 4,
        (Zero, true) => 5,
        (Zero, false) => 6,
        (Subnormal, false) => 7,
        (Normal, false) => 8,
        (Infinite, false) => 9,
    }
}

/// Minimum or maximum of two values; the flag marks a signalling NaN.
fn extreme(a: (f64, bool), b: (f64, bool), larger: bool) -> (f64, bool) {
    if a.1 || b.1 {
        return (f64::NAN, false);
    }
    let (x, y) = (a.0, b.0);
    let take_first = if x.is_nan() {
        false
    } else if y.is_nan() {
        true
    } else if x == 0.0 && y == 0.0 {
        x.is_sign_negative() != larger
    } else {
        (x < y) != larger || x == y
    };
    (if take_first { x } else { y }, false)
}

fn extreme3(a: (f64, bool), b: (f64, bool), c: (f64, bool), which: &str) -> f64 {
    let mut all = [a, b, c];
    match which {
        "min3" => extreme(extreme(a, b, false), c, false).0,
        "max3" => extreme(extreme(a, b, true), c, true).0,
        _ if all.iter().any(|value| value.0.is_nan()) => extreme(extreme(a, b, false), c, false).0,
        _ => {
            all.sort_by(|x, y| x.0.total_cmp(&y.0));
            all[1].0
        }
    }
}

fn signalling_s(bits: u64) -> bool {
    s(bits).is_nan() && bits & 0x40_0000 == 0
}

fn signalling_h(bits: u64) -> bool {
    h(bits).is_nan() && bits & 0x200 == 0
}

fn signalling_d(bits: u64) -> bool {
    d(bits).is_nan() && bits & 1 << 51 == 0
}

fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

fn mad(a: f32, b: f32, c: f32) -> f32 {
    let product = flushed(flushed(a) * flushed(b));
    flushed(product + flushed(c))
}

/// Mantissa in [0.5, 1) and exponent.
fn frexp(value: f64) -> (f64, i32) {
    if value == 0.0 || !value.is_finite() {
        return (value, 0);
    }
    let (mut mantissa, mut exponent) = (value, 0);
    while mantissa.abs() >= 1.0 {
        mantissa /= 2.0;
        exponent += 1;
    }
    while mantissa.abs() < 0.5 {
        mantissa *= 2.0;
        exponent -= 1;
    }
    (mantissa, exponent)
}

/// x * 2^n in steps that are all exact except the last.
fn ldexp(value: f64, n: i32) -> f64 {
    let (mantissa, exponent) = frexp(value);
    if mantissa == 0.0 || !mantissa.is_finite() {
        return value;
    }
    match exponent + n.clamp(-5000, 5000) {
        power if power > 1024 => f64::INFINITY.copysign(value),
        power if power < -1080 => 0.0_f64.copysign(value),
        power if power > 1000 => mantissa * 2_f64.powi(power - 30) * 2_f64.powi(30),
        power if power >= -1021 => mantissa * 2_f64.powi(power),
        power => mantissa * 2_f64.powi(-1000) * 2_f64.powi(power + 1000),
    }
}

fn floor_fract(value: f64, below_one: f64) -> f64 {
    (value - value.floor()).min(below_one) + if value.is_finite() { 0.0 } else { f64::NAN }
}

/// sin(2 pi x); quarter turns are subtracted exactly.
fn sin_turns(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let turn = x % 1.0;
    let quarters = (turn * 4.0).round();
    let angle = (turn - quarters / 4.0) * std::f64::consts::TAU;
    match quarters.rem_euclid(4.0) as u32 {
        0 => angle.sin(),
        1 => angle.cos(),
        2 => -angle.sin(),
        _ => -angle.cos(),
    }
}

/// cos(2 pi x), as the sine a quarter turn ahead.
fn cos_turns(x: f64) -> f64 {
    sin_turns(x % 1.0 + 0.25)
}

fn toward_zero(value: f32) -> u64 {
    let nearest = f16::from_f32(value);
    let bits = nearest.to_bits();
    let over = nearest.to_f64().abs() > f64::from(value).abs();
    u64::from(if over && value.is_finite() { bits - 1 } else { bits })
}

fn norm(value: f64, signed: bool) -> u64 {
    if value.is_nan() {
        return 0;
    }
    if signed {
        u64::from((value.clamp(-1.0, 1.0) as f32 * 32767.0).round_ties_even() as i16 as u16)
    } else {
        u64::from((value.clamp(0.0, 1.0) as f32 * 65535.0).round_ties_even() as u16)
    }
}

fn face(x: f32, y: f32, z: f32) -> (f32, f32, f32, f32) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    if az >= ax && az >= ay {
        if z < 0.0 { (5.0, -x, -y, 2.0 * z) } else { (4.0, x, -y, 2.0 * z) }
    } else if ay >= ax {
        if y < 0.0 { (3.0, x, -z, 2.0 * y) } else { (2.0, x, z, 2.0 * y) }
    } else if x < 0.0 {
        (1.0, z, -y, 2.0 * x)
    } else {
        (0.0, -z, -y, 2.0 * x)
    }
}

/// Expected destination and mask of a float operation; `None` for other operations.
pub fn float(name: &str, lane: &Lane) -> Option<(Option<u64>, Option<bool>)> {
    let (a, b, c) = (lane.a, lane.b, lane.c);
    let (sa, sb, sc) = (s(a), s(b), s(c));
    let (da, db, dc) = (d(a), d(b), d(c));
    let (ha, hb, hc) = (h(a), h(b), h(c));
    let sm = |bits: u64| (f64::from(s(bits)), signalling_s(bits));
    let hm = |bits: u64| (h(bits), signalling_h(bits));
    let dm = |bits: u64| (d(bits), signalling_d(bits));
    let f = |value: f32| Some((Some(from_s(value)), None));
    let hf = |value: f64| Some((Some(from_h(value)), None));
    let df = |value: f64| Some((Some(value.to_bits()), None));
    let w = |value: u32| Some((Some(u64::from(value)), None));
    let pair = |value: &dyn Fn(u32) -> f64| Some((Some(from_h(value(0)) | from_h(value(16)) << 16), None));
    let both = |value: &dyn Fn(u32) -> f32| Some((Some(from_s(value(0)) | from_s(value(32)) << 32), None));
    match name {
        "v_add_f32" => f(sa + sb),
        "v_sub_f32" => f(sa - sb),
        "v_subrev_f32" => f(sb - sa),
        "v_mul_f32" => f(sa * sb),
        "v_mul_legacy_f32" => f(if sa == 0.0 || sb == 0.0 { 0.0 } else { sa * sb }),
        "v_fmac_f32" | "v_fma_f32" | "v_fmamk_f32" | "v_fmaak_f32" => f(sa.mul_add(sb, sc)),
        "v_fma_mix_f32" => f(sa.mul_add(sb, sc)),
        "v_mac_f32" | "v_mad_f32" | "v_madmk_f32" | "v_madak_f32" => f(mad(sa, sb, sc)),
        "v_mad_legacy_f32" => f(if flushed(sa) == 0.0 || flushed(sb) == 0.0 {
            flushed(0.0 + flushed(sc))
        } else {
            mad(sa, sb, sc)
        }),
        "v_min_f32" => f(extreme(sm(a), sm(b), false).0 as f32),
        "v_max_f32" => f(extreme(sm(a), sm(b), true).0 as f32),
        "v_min3_f32" | "v_max3_f32" | "v_med3_f32" => f(extreme3(sm(a), sm(b), sm(c), &name[2..6]) as f32),
        "v_min_f16" => hf(extreme(hm(a), hm(b), false).0),
        "v_max_f16" => hf(extreme(hm(a), hm(b), true).0),
        "v_min3_f16" | "v_max3_f16" | "v_med3_f16" => hf(extreme3(hm(a), hm(b), hm(c), &name[2..6])),
        "v_min_f64" => df(extreme(dm(a), dm(b), false).0),
        "v_max_f64" => df(extreme(dm(a), dm(b), true).0),
        "v_fmac_f64" | "v_fma_f64" => df(da.mul_add(db, dc)),
        "v_add_f64" => df(da + db),
        "v_mul_f64" => df(da * db),
        "v_ldexp_f64" => df(ldexp(da, b as i32)),
        "v_ldexp_f32" => f(ldexp(f64::from(sa), (b as i32).clamp(-500, 500)) as f32),
        "v_ldexp_f16" => hf(ldexp(ha, i32::from(b as i16))),
        "v_add_f16" => hf(ha + hb),
        "v_sub_f16" => hf(ha - hb),
        "v_subrev_f16" => hf(hb - ha),
        "v_mul_f16" => hf(ha * hb),
        "v_fma_f16" | "v_fma_legacy_f16" => hf(ha.mul_add(hb, hc)),
        "v_mad_f16" | "v_mad_legacy_f16" | "v_mac_f16" | "v_madmk_f16" | "v_madak_f16" => {
            hf(f16::from_f64(ha * hb).to_f64() + hc)
        }
        "v_pk_add_f16" => pair(&|n| h(a >> n) + h(b >> n)),
        "v_pk_mul_f16" => pair(&|n| h(a >> n) * h(b >> n)),
        "v_pk_fma_f16" | "v_pk_fmac_f16" => pair(&|n| h(a >> n).mul_add(h(b >> n), h(c >> n))),
        "v_pk_min_f16" => pair(&|n| extreme(hm(a >> n), hm(b >> n), false).0),
        "v_pk_max_f16" => pair(&|n| extreme(hm(a >> n), hm(b >> n), true).0),
        "v_pk_add_f32" => both(&|n| s(a >> n) + s(b >> n)),
        "v_pk_mul_f32" => both(&|n| s(a >> n) * s(b >> n)),
        "v_pk_fma_f32" => both(&|n| s(a >> n).mul_add(s(b >> n), s(c >> n))),
        "v_dot2c_f32_f16" | "v_dot2_f32_f16" => {
            let first = (h(a) * h(b)) as f32 + flushed(sc);
            f(flushed((h(a >> 16) * h(b >> 16)) as f32 + first))
        }
        "v_cvt_f32_i32" => f(a as i32 as f32),
        "v_cvt_f32_u32" => f(a as u32 as f32),
        "v_cvt_i32_f32" => w(sa as i32 as u32),
        "v_cvt_u32_f32" => w(sa as u32),
        "v_cvt_rpi_i32_f32" => w((sa + 0.5).floor() as i32 as u32),
        "v_cvt_flr_i32_f32" => w(sa.floor() as i32 as u32),
        "v_cvt_off_f32_i4" => f((if a & 8 != 0 { (a & 15) as f32 - 16.0 } else { (a & 15) as f32 }) / 16.0),
        "v_cvt_f32_ubyte0" => f(f32::from(a as u8)),
        "v_cvt_f32_ubyte1" => f(f32::from((a >> 8) as u8)),
        "v_cvt_f32_ubyte2" => f(f32::from((a >> 16) as u8)),
        "v_cvt_f32_ubyte3" => f(f32::from((a >> 24) as u8)),
        "v_cvt_f64_i32" => df(f64::from(a as i32)),
        "v_cvt_f64_u32" => df(f64::from(a as u32)),
        "v_cvt_f64_f32" => df(f64::from(sa)),
        "v_cvt_i32_f64" => w(da as i32 as u32),
        "v_cvt_u32_f64" => w(da as u32),
        "v_cvt_f32_f64" => f(da as f32),
        "v_cvt_f16_f32" => hf(f64::from(sa)),
        "v_cvt_f32_f16" => f(ha as f32),
        "v_cvt_f16_u16" => hf(f64::from(a as u16)),
        "v_cvt_f16_i16" => hf(f64::from(a as i16)),
        "v_cvt_u16_f16" => w(u32::from(ha as u16)),
        "v_cvt_i16_f16" => w(u32::from(ha as i16 as u16)),
        "v_cvt_norm_i16_f16" => Some((Some(norm(ha, true)), None)),
        "v_cvt_norm_u16_f16" => Some((Some(norm(ha, false)), None)),
        "v_cvt_pkrtz_f16_f32" => Some((Some(toward_zero(sa) | toward_zero(sb) << 16), None)),
        "v_cvt_pknorm_i16_f32" | "v_cvt_pknorm_u16_f32" => {
            let signed = name.contains("i16");
            Some((Some(norm(f64::from(sa), signed) | norm(f64::from(sb), signed) << 16), None))
        }
        "v_cvt_pknorm_i16_f16" | "v_cvt_pknorm_u16_f16" => {
            let signed = name.contains("i16");
            Some((Some(norm(ha, signed) | norm(hb, signed) << 16), None))
        }
        "v_cvt_pk_u8_f32" | "v_cvt_pkaccum_u8_f32" => {
            let shift = 8 * (b & 3);
            Some((Some(c & 0xffff_ffff & !(0xff << shift) | u64::from(sa as u8) << shift), None))
        }
        "v_trunc_f32" => f(sa.trunc()),
        "v_ceil_f32" => f(sa.ceil()),
        "v_rndne_f32" => f(sa.round_ties_even()),
        "v_floor_f32" => f(sa.floor()),
        "v_fract_f32" => f(floor_fract(f64::from(sa), 1.0 - 2_f64.powi(-24)) as f32),
        "v_trunc_f64" => df(da.trunc()),
        "v_ceil_f64" => df(da.ceil()),
        "v_rndne_f64" => df(da.round_ties_even()),
        "v_floor_f64" => df(da.floor()),
        "v_fract_f64" => df(floor_fract(da, 1.0 - 2_f64.powi(-53))),
        "v_trunc_f16" => hf(ha.trunc()),
        "v_ceil_f16" => hf(ha.ceil()),
        "v_rndne_f16" => hf(ha.round_ties_even()),
        "v_floor_f16" => hf(ha.floor()),
        "v_fract_f16" => hf(floor_fract(ha, 1.0 - 2_f64.powi(-11))),
        "v_exp_f32" | "v_exp_legacy_f32" => f(f64::from(sa).exp2() as f32),
        "v_log_f32" | "v_log_legacy_f32" => f(f64::from(sa).log2() as f32),
        "v_sin_f32" => f(sin_turns(f64::from(sa)) as f32),
        "v_cos_f32" => f(cos_turns(f64::from(sa)) as f32),
        "v_rcp_f32" | "v_rcp_iflag_f32" => f(1.0 / sa),
        "v_rsq_f32" => f((1.0 / f64::from(sa).sqrt()) as f32),
        "v_sqrt_f32" => f(f64::from(sa).sqrt() as f32),
        "v_rcp_f64" => df(1.0 / da),
        "v_rsq_f64" => df(1.0 / da.sqrt()),
        "v_sqrt_f64" => df(da.sqrt()),
        "v_exp_f16" => hf(ha.exp2()),
        "v_log_f16" => hf(ha.log2()),
        "v_sin_f16" => hf(sin_turns(ha)),
        "v_cos_f16" => hf(cos_turns(ha)),
        "v_rcp_f16" => hf(1.0 / ha),
        "v_rsq_f16" => hf(1.0 / ha.sqrt()),
        "v_sqrt_f16" => hf(ha.sqrt()),
        "v_frexp_mant_f32" => f(frexp(f64::from(sa)).0 as f32),
        "v_frexp_exp_i32_f32" => w(frexp(f64::from(sa)).1 as u32),
        "v_frexp_mant_f64" => df(frexp(da).0),
        "v_frexp_exp_i32_f64" => w(frexp(da).1 as u32),
        "v_frexp_mant_f16" => hf(frexp(ha).0),
        "v_frexp_exp_i16_f16" => w(u32::from(frexp(ha).1 as u16)),
        "v_cubeid_f32" => f(face(sa, sb, sc).0),
        "v_cubesc_f32" => f(face(sa, sb, sc).1),
        "v_cubetc_f32" => f(face(sa, sb, sc).2),
        "v_cubema_f32" => f(face(sa, sb, sc).3),
        _ => compare(name, lane),
    }
}

fn compare(name: &str, lane: &Lane) -> Option<(Option<u64>, Option<bool>)> {
    let rest = name.strip_prefix("v_cmp_").or_else(|| name.strip_prefix("v_cmpx_"))?;
    let (predicate, ty) = rest.split_once('_')?;
    let (a, b, signalling, smallest) = match ty {
        "f16" => (h(lane.a), h(lane.b), signalling_h(lane.a), 2_f64.powi(-14)),
        "f32" => (f64::from(s(lane.a)), f64::from(s(lane.b)), signalling_s(lane.a), 2_f64.powi(-126)),
        "f64" => (d(lane.a), d(lane.b), signalling_d(lane.a), f64::MIN_POSITIVE),
        _ => return None,
    };
    let ordered = !a.is_nan() && !b.is_nan();
    let set = match predicate {
        "f" => false,
        "tru" => true,
        "lt" => ordered && a < b,
        "eq" => ordered && a == b,
        "le" => ordered && a <= b,
        "gt" => ordered && a > b,
        "lg" => ordered && a != b,
        "ge" => ordered && a >= b,
        "o" => ordered,
        "u" => !ordered,
        "nge" => !ordered || a < b,
        "nlg" => !ordered || a == b,
        "ngt" => !ordered || a <= b,
        "nle" => !ordered || a > b,
        "neq" => !ordered || a != b,
        "nlt" => !ordered || a >= b,
        "class" => lane.b >> class(a, signalling, smallest) & 1 == 1,
        _ => return None,
    };
    Some((None, Some(set)))
}
