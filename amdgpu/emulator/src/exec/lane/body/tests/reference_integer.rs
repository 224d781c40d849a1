//! Scalar reference of integer and bit operations, one lane at a time, written to be compared with the ISA manual.

use super::Lane;

fn sext(value: u64, bits: u32) -> i128 {
    let value = i128::from(value) & ((1 << bits) - 1);
    if value >> (bits - 1) & 1 == 1 { value - (1 << bits) } else { value }
}

fn zext(value: u64, bits: u32) -> i128 {
    i128::from(value) & ((1 << bits) - 1)
}

fn low(value: i128, bits: u32) -> u64 {
    (value & ((1 << bits) - 1)) as u64
}

fn bytes(value: u64) -> [i128; 4] {
    [0, 8, 16, 24].map(|shift| i128::from(value >> shift & 0xff))
}

fn sad(a: u64, b: u64, masked: bool) -> i128 {
    let pairs = bytes(a).into_iter().zip(bytes(b));
    pairs.map(|(x, y)| if masked && y == 0 { 0 } else { (x - y).abs() }).sum()
}

fn med(mut values: [i128; 3]) -> i128 {
    values.sort_unstable();
    values[1]
}

/// Dot product of fields of `bits` bits.
fn dot(a: u64, b: u64, bits: u32, signed: bool) -> i128 {
    let field = |value: u64, n: u32| {
        let value = value >> (n * bits);
        if signed { sext(value, bits) } else { zext(value, bits) }
    };
    (0..32 / bits).map(|n| field(a, n) * field(b, n)).sum()
}

/// Expected destination and mask of an integer operation; `None` for other operations.
pub fn integer(name: &str, lane: &Lane) -> Option<(Option<u64>, Option<bool>)> {
    let (a, b, c) = (lane.a, lane.b, lane.c);
    let (ua, ub, uc) = (zext(a, 32), zext(b, 32), zext(c, 32));
    let (ia, ib, ic) = (sext(a, 32), sext(b, 32), sext(c, 32));
    let (ha, hb, hc) = (zext(a, 16), zext(b, 16), zext(c, 16));
    let (sa, sb, sc) = (sext(a, 16), sext(b, 16), sext(c, 16));
    let carry = i128::from(lane.select);
    let w = |value: i128| Some((Some(low(value, 32)), None));
    let h = |value: i128| Some((Some(low(value, 16)), None));
    let q = |value: i128| Some((Some(low(value, 64)), None));
    let co = |value: i128| Some((Some(low(value, 32)), Some(!(0..1 << 32).contains(&value))));
    let pk = |signed: bool, f: &dyn Fn(i128, i128, i128) -> i128| {
        let half = |n: u32| {
            let get =
                |value: u64| if signed { sext(value >> (16 * n), 16) } else { zext(value >> (16 * n), 16) };
            low(f(get(a), get(b), get(c)), 16)
        };
        Some((Some(half(0) | half(1) << 16), None))
    };
    match name {
        "v_mov_b32" | "v_accvgpr_mov_b32" | "v_accvgpr_read_b32" | "v_accvgpr_write_b32" => w(ua),
        "v_mov_b64" => q(i128::from(a)),
        "v_not_b32" => w(!ua),
        "v_bfrev_b32" => w((0..32).map(|n| (ua >> n & 1) << (31 - n)).sum()),
        "v_ffbh_u32" => w((0..32).find(|n| ua >> (31 - n) & 1 == 1).unwrap_or(-1)),
        "v_ffbl_b32" => w((0..32).find(|n| ua >> n & 1 == 1).unwrap_or(-1)),
        "v_ffbh_i32" => w((1..32).find(|n| ua >> (31 - n) & 1 != ua >> 31).unwrap_or(-1)),
        "v_sat_pk_u8_i16" => w(sa.clamp(0, 255) | sext(a >> 16, 16).clamp(0, 255) << 8),
        "v_cndmask_b32" => w(if lane.select { ub } else { ua }),
        "v_mul_i32_i24" => w(sext(a, 24) * sext(b, 24)),
        "v_mul_hi_i32_i24" => w((sext(a, 24) * sext(b, 24)) >> 32),
        "v_mul_u32_u24" => w(zext(a, 24) * zext(b, 24)),
        "v_mul_hi_u32_u24" => w((zext(a, 24) * zext(b, 24)) >> 32),
        "v_min_i32" => w(ia.min(ib)),
        "v_max_i32" => w(ia.max(ib)),
        "v_min_u32" => w(ua.min(ub)),
        "v_max_u32" => w(ua.max(ub)),
        "v_lshrrev_b32" => w(ub >> (a & 31)),
        "v_ashrrev_i32" => w(ib >> (a & 31)),
        "v_lshlrev_b32" => w(ub << (a & 31)),
        "v_and_b32" => w(ua & ub),
        "v_or_b32" => w(ua | ub),
        "v_xor_b32" => w(ua ^ ub),
        "v_xnor_b32" => w(!(ua ^ ub)),
        "v_add_u32" | "v_add_i32" => w(ua + ub),
        "v_sub_u32" | "v_sub_i32" => w(ua - ub),
        "v_subrev_u32" => w(ub - ua),
        "v_add_co_u32" => co(ua + ub),
        "v_sub_co_u32" => co(ua - ub),
        "v_subrev_co_u32" => co(ub - ua),
        "v_addc_co_u32" => co(ua + ub + carry),
        "v_subb_co_u32" => co(ua - ub - carry),
        "v_subbrev_co_u32" => co(ub - ua - carry),
        "v_add_u16" | "v_add_i16" => h(ha + hb),
        "v_sub_u16" | "v_sub_i16" => h(ha - hb),
        "v_subrev_u16" => h(hb - ha),
        "v_mul_lo_u16" => h(ha * hb),
        "v_lshlrev_b16" => h(hb << (a & 15)),
        "v_lshrrev_b16" => h(hb >> (a & 15)),
        "v_ashrrev_i16" => h(sb >> (a & 15)),
        "v_min_u16" => h(ha.min(hb)),
        "v_max_u16" => h(ha.max(hb)),
        "v_min_i16" => h(sa.min(sb)),
        "v_max_i16" => h(sa.max(sb)),
        "v_dot2c_i32_i16" | "v_dot2_i32_i16" => w(dot(a, b, 16, true) + ic),
        "v_dot4c_i32_i8" | "v_dot4_i32_i8" => w(dot(a, b, 8, true) + ic),
        "v_dot8c_i32_i4" | "v_dot8_i32_i4" => w(dot(a, b, 4, true) + ic),
        "v_dot2_u32_u16" => w(dot(a, b, 16, false) + uc),
        "v_dot4_u32_u8" => w(dot(a, b, 8, false) + uc),
        "v_dot8_u32_u4" => w(dot(a, b, 4, false) + uc),
        "v_mul_lo_u32" => w(ua * ub),
        "v_mul_hi_u32" => w((ua * ub) >> 32),
        "v_mul_hi_i32" => w((ia * ib) >> 32),
        "v_mad_i32_i24" => w(sext(a, 24) * sext(b, 24) + ic),
        "v_mad_u32_u24" => w(zext(a, 24) * zext(b, 24) + uc),
        "v_mad_u32_u16" => w(ha * hb + uc),
        "v_mad_i32_i16" => w(sa * sb + ic),
        "v_mad_u16" | "v_mad_legacy_u16" | "v_mad_i16" | "v_mad_legacy_i16" => h(ha * hb + hc),
        "v_mad_u64_u32" => {
            let sum = ua * ub + i128::from(c);
            Some((Some(low(sum, 64)), Some(sum >> 64 & 1 == 1)))
        }
        "v_mad_i64_i32" => {
            let sum = ia * ib + i128::from(c as i64);
            Some((Some(low(sum, 64)), Some(sum >> 64 & 1 == 1)))
        }
        "v_add3_u32" => w(ua + ub + uc),
        "v_xad_u32" => w((ua ^ ub) + uc),
        "v_add_lshl_u32" => w(i128::from(low(ua + ub, 32)) << (c & 31)),
        "v_lshl_add_u32" => w((ua << (b & 31)) + uc),
        "v_lshl_add_u64" => q((i128::from(a) << (b & 7)) + i128::from(c)),
        "v_lshl_or_b32" => w(ua << (b & 31) | uc),
        "v_and_or_b32" => w(ua & ub | uc),
        "v_or3_b32" => w(ua | ub | uc),
        "v_bfe_u32" => w(ua >> (b & 31) & ((1 << (c & 31)) - 1)),
        "v_bfe_i32" => {
            let bits = (c & 31) as u32;
            if bits == 0 { w(0) } else { w(sext(low(ia >> (b & 31), 32), bits)) }
        }
        "v_bfi_b32" => w(ua & ub | !ua & uc),
        "v_bfm_b32" => w(((1 << (a & 31)) - 1) << (b & 31)),
        "v_alignbit_b32" => w((ua << 32 | ub) >> (c & 31)),
        "v_alignbyte_b32" => w((ua << 32 | ub) >> (8 * (c & 3))),
        "v_perm_b32" => {
            let data = ua << 32 | ub;
            let pick = |select: i128| match select {
                0..=7 => data >> (8 * select) & 0xff,
                8 => (data >> 15 & 1) * 0xff,
                9 => (data >> 31 & 1) * 0xff,
                10 => (data >> 47 & 1) * 0xff,
                11 => (data >> 63 & 1) * 0xff,
                12 => 0,
                _ => 0xff,
            };
            w((0..4).map(|n| pick(uc >> (8 * n) & 0xff) << (8 * n)).sum())
        }
        "v_lshlrev_b64" => q(i128::from(b) << (a & 63)),
        "v_lshrrev_b64" => q(i128::from(b) >> (a & 63)),
        "v_ashrrev_i64" => q(i128::from(b as i64) >> (a & 63)),
        "v_bcnt_u32_b32" => w(i128::from(ua.count_ones()) + ub),
        "v_mbcnt_lo_u32_b32" => {
            w((0..32).filter(|&n| n < lane.number && ua >> n & 1 == 1).count() as i128 + ub)
        }
        "v_mbcnt_hi_u32_b32" => {
            w((0..32).filter(|&n| n + 32 < lane.number && ua >> n & 1 == 1).count() as i128 + ub)
        }
        "v_min3_i32" => w(ia.min(ib).min(ic)),
        "v_max3_i32" => w(ia.max(ib).max(ic)),
        "v_med3_i32" => w(med([ia, ib, ic])),
        "v_min3_u32" => w(ua.min(ub).min(uc)),
        "v_max3_u32" => w(ua.max(ub).max(uc)),
        "v_med3_u32" => w(med([ua, ub, uc])),
        "v_min3_i16" => h(sa.min(sb).min(sc)),
        "v_max3_i16" => h(sa.max(sb).max(sc)),
        "v_med3_i16" => h(med([sa, sb, sc])),
        "v_min3_u16" => h(ha.min(hb).min(hc)),
        "v_max3_u16" => h(ha.max(hb).max(hc)),
        "v_med3_u16" => h(med([ha, hb, hc])),
        "v_cvt_pk_u16_u32" => w(ua.min(0xffff) | ub.min(0xffff) << 16),
        "v_cvt_pk_i16_i32" => w(ia.clamp(-0x8000, 0x7fff) & 0xffff | ib.clamp(-0x8000, 0x7fff) << 16),
        "v_pack_b32_f16" => w(ha | hb << 16),
        "v_sad_u8" => w(sad(a, b, false) + uc),
        "v_sad_hi_u8" => w((sad(a, b, false) << 16) + uc),
        "v_sad_u16" => w((ha - hb).abs() + (zext(a >> 16, 16) - zext(b >> 16, 16)).abs() + uc),
        "v_sad_u32" => w((ua - ub).abs() + uc),
        "v_msad_u8" => w(sad(a, b, true) + uc),
        "v_qsad_pk_u16_u8" | "v_mqsad_pk_u16_u8" => {
            let one = |n: u32| zext(c >> (16 * n), 16) + sad(a >> (8 * n), b, name.starts_with("v_m"));
            q((0..4).map(|n| (one(n) & 0xffff) << (16 * n)).sum())
        }
        "v_lerp_u8" => {
            let (x, y, z) = (bytes(a), bytes(b), bytes(c));
            w((0..4).map(|n| ((x[n] + y[n] + (z[n] & 1)) / 2) << (8 * n)).sum())
        }
        "v_pk_mad_i16" | "v_pk_mad_u16" => pk(false, &|a, b, c| a * b + c),
        "v_pk_mul_lo_u16" => pk(false, &|a, b, _| a * b),
        "v_pk_add_i16" | "v_pk_add_u16" => pk(false, &|a, b, _| a + b),
        "v_pk_sub_i16" | "v_pk_sub_u16" => pk(false, &|a, b, _| a - b),
        "v_pk_lshlrev_b16" => pk(false, &|a, b, _| b << (a & 15)),
        "v_pk_lshrrev_b16" => pk(false, &|a, b, _| b >> (a & 15)),
        "v_pk_ashrrev_i16" => pk(true, &|a, b, _| b >> (a & 15)),
        "v_pk_max_i16" => pk(true, &|a, b, _| a.max(b)),
        "v_pk_min_i16" => pk(true, &|a, b, _| a.min(b)),
        "v_pk_max_u16" => pk(false, &|a, b, _| a.max(b)),
        "v_pk_min_u16" => pk(false, &|a, b, _| a.min(b)),
        _ => compare(name, lane),
    }
}

fn compare(name: &str, lane: &Lane) -> Option<(Option<u64>, Option<bool>)> {
    let rest = name.strip_prefix("v_cmp_").or_else(|| name.strip_prefix("v_cmpx_"))?;
    let (predicate, ty) = rest.split_once('_')?;
    let bits = ty[1..].parse().ok()?;
    let (a, b) = match &ty[..1] {
        "i" => (sext(lane.a, bits), sext(lane.b, bits)),
        "u" => (zext(lane.a, bits), zext(lane.b, bits)),
        _ => return None,
    };
    let set = match predicate {
        "f" => false,
        "t" => true,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        "ge" => a >= b,
        "eq" => a == b,
        "ne" => a != b,
        _ => return None,
    };
    Some((None, Some(set)))
}
