//! Reference implementation of integer and bit operations.

use crate::lane::{Lane, Outcome};

use Outcome::{Both, Value};

pub fn integer(name: &str, lane: &Lane) -> Option<Outcome> {
    let [a, b, c] = lane.s;
    let (ua, ub, uc) = (i128::from(a as u32), i128::from(b as u32), i128::from(c as u32));
    let (ia, ib, ic) = (i128::from(a as i32), i128::from(b as i32), i128::from(c as i32));
    let (ha, hb, hc) = (i128::from(a as u16), i128::from(b as u16), i128::from(c as u16));
    let (ga, gb, gc) = (i128::from(a as i16), i128::from(b as i16), i128::from(c as i16));
    let carry = i128::from(lane.carry);
    let u32_of = |value: i128| lane.wrap(value, 32, false);
    let i32_of = |value: i128| lane.wrap(value, 32, true);
    let u16_of = |value: i128| lane.wrap(value, 16, false);
    let i16_of = |value: i128| lane.wrap(value, 16, true);
    let carried = |value: i128| Both(u32_of(value), !(0..1 << 32).contains(&value));
    let low24 = |value: u64| i128::from(value as u32 & 0xff_ffff);
    let signed24 = |value: u64| i128::from((value as u32) << 8) << 96 >> 104;
    let d = |value: i128| value as u32 as u64;
    let (x, y, z) = (a as u32, b as u32, c as u32);
    Some(Value(match name.strip_prefix("v_")? {
        "mov_b32" | "accvgpr_mov_b32" | "accvgpr_read_b32" | "accvgpr_write_b32" | "mov_b64" => a,
        "cndmask_b32" => {
            if lane.carry {
                b
            } else {
                a
            }
        }
        "not_b32" => d(!ua),
        "bfrev_b32" => (0..32).map(|bit| u64::from(x >> bit & 1) << (31 - bit)).sum(),
        "ffbh_u32" => (0..32).find(|bit| x >> (31 - bit) & 1 == 1).unwrap_or(0xffff_ffff),
        "ffbl_b32" => (0..32).find(|bit| x >> bit & 1 == 1).unwrap_or(0xffff_ffff),
        "ffbh_i32" => (1..32).find(|bit| x >> (31 - bit) & 1 != x >> 31).unwrap_or(0xffff_ffff),
        "sat_pk_u8_i16" => {
            let byte = |value: u32| i64::from(value as i16).clamp(0, 255) as u64;
            byte(x & 0xffff) | byte(x >> 16) << 8
        }
        "add_i32" => i32_of(ia + ib),
        "sub_i32" => i32_of(ia - ib),
        "add_u32" => u32_of(ua + ub),
        "sub_u32" => u32_of(ua - ub),
        "subrev_u32" => u32_of(ub - ua),
        "add_co_u32" => return Some(carried(ua + ub)),
        "sub_co_u32" => return Some(carried(ua - ub)),
        "subrev_co_u32" => return Some(carried(ub - ua)),
        "addc_co_u32" => return Some(carried(ua + ub + carry)),
        "subb_co_u32" => return Some(carried(ua - ub - carry)),
        "subbrev_co_u32" => return Some(carried(ub - ua - carry)),
        "mul_u32_u24" => u32_of(low24(a) * low24(b)),
        "mul_hi_u32_u24" => d((low24(a) * low24(b)) >> 32),
        "mul_i32_i24" => i32_of(signed24(a) * signed24(b)),
        "mul_hi_i32_i24" => d((signed24(a) * signed24(b)) >> 32),
        "mad_u32_u24" => u32_of(low24(a) * low24(b) + uc),
        "mad_i32_i24" => i32_of(signed24(a) * signed24(b) + ic),
        "mul_lo_u32" => d(ua * ub),
        "mul_hi_u32" => d((ua * ub) >> 32),
        "mul_hi_i32" => d((ia * ib) >> 32),
        "mad_u64_u32" => {
            let sum = ua * ub + i128::from(c);
            return Some(Both(lane.wrap(sum, 64, false), sum >> 64 & 1 == 1));
        }
        "mad_i64_i32" => {
            let sum = ia * ib + i128::from(c as i64);
            return Some(Both(lane.wrap(sum, 64, true), sum >> 64 & 1 == 1));
        }
        "min_i32" => d(ia.min(ib)),
        "max_i32" => d(ia.max(ib)),
        "min_u32" => d(ua.min(ub)),
        "max_u32" => d(ua.max(ub)),
        "min3_i32" => d(ia.min(ib).min(ic)),
        "max3_i32" => d(ia.max(ib).max(ic)),
        "med3_i32" => d(middle([ia, ib, ic])),
        "min3_u32" => d(ua.min(ub).min(uc)),
        "max3_u32" => d(ua.max(ub).max(uc)),
        "med3_u32" => d(middle([ua, ub, uc])),
        "lshlrev_b32" => d(ub << (ua & 31)),
        "lshrrev_b32" => d(ub >> (ua & 31)),
        "ashrrev_i32" => d(ib >> (ua & 31)),
        "and_b32" => d(ua & ub),
        "or_b32" => d(ua | ub),
        "xor_b32" => d(ua ^ ub),
        "xnor_b32" => d(!(ua ^ ub)),
        "add3_u32" => d(ua + ub + uc),
        "xad_u32" => d((ua ^ ub) + uc),
        "lshl_add_u32" => d((ua << (ub & 31)) + uc),
        "add_lshl_u32" => d((ua + ub) << (uc & 31)),
        "lshl_or_b32" => d(ua << (ub & 31) | uc),
        "and_or_b32" => d(ua & ub | uc),
        "or3_b32" => d(ua | ub | uc),
        "lshl_add_u64" => (a << (b & 7)).wrapping_add(c),
        "lshlrev_b64" => b << (a & 63),
        "lshrrev_b64" => b >> (a & 63),
        "ashrrev_i64" => ((b as i64) >> (a & 63)) as u64,
        "bfe_u32" => d(ua >> (ub & 31) & ((1 << (uc & 31)) - 1)),
        "bfe_i32" => {
            // The sign is the field's top bit, or the source's sign bit where the field extends past it.
            let (offset, width) = (y & 31, z & 31);
            let field = i128::from((x as i32) >> offset);
            if width == 0 { 0 } else { d(field << (128 - width) >> (128 - width)) }
        }
        "bfi_b32" => d(ua & ub | !ua & uc),
        "bfm_b32" => d(((1 << (ua & 31)) - 1) << (ub & 31)),
        "alignbit_b32" => d((ua << 32 | ub) >> (uc & 31)),
        "alignbyte_b32" => d((ua << 32 | ub) >> (8 * (uc & 3))),
        "perm_b32" => {
            let all = u64::from(x) << 32 | u64::from(y);
            let byte = |n: u32| all >> (8 * n) & 0xff;
            let chosen = |select: u32| match select {
                0..=7 => byte(select),
                8..=11 => {
                    if byte(2 * (select - 8) + 1) >> 7 == 1 {
                        0xff
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 0xff,
            };
            (0..4).map(|n| chosen(z >> (8 * n) & 0xff) << (8 * n)).sum()
        }
        "bcnt_u32_b32" => d((0..32).map(|bit| ua >> bit & 1).sum::<i128>() + ub),
        "mbcnt_lo_u32_b32" => d((0..lane.number.min(32)).map(|bit| ua >> bit & 1).sum::<i128>() + ub),
        "mbcnt_hi_u32_b32" => {
            d((0..lane.number.saturating_sub(32)).map(|bit| ua >> bit & 1).sum::<i128>() + ub)
        }
        "add_u16" => u16_of(ha + hb),
        "sub_u16" => u16_of(ha - hb),
        "subrev_u16" => u16_of(hb - ha),
        "add_i16" => i16_of(ga + gb),
        "sub_i16" => i16_of(ga - gb),
        "mul_lo_u16" => ((ha * hb) & 0xffff) as u64,
        "mad_u16" | "mad_legacy_u16" => u16_of(ha * hb + hc),
        "mad_i16" | "mad_legacy_i16" => i16_of(ga * gb + gc),
        "mad_u32_u16" => u32_of(ha * hb + uc),
        "mad_i32_i16" => i32_of(ga * gb + ic),
        "lshlrev_b16" => ((hb << (ha & 15)) & 0xffff) as u64,
        "lshrrev_b16" => (hb >> (ha & 15)) as u64,
        "ashrrev_i16" => ((gb >> (ha & 15)) & 0xffff) as u64,
        "min_u16" => ha.min(hb) as u64,
        "max_u16" => ha.max(hb) as u64,
        "min_i16" => ga.min(gb) as u64 & 0xffff,
        "max_i16" => ga.max(gb) as u64 & 0xffff,
        "min3_u16" => ha.min(hb).min(hc) as u64,
        "max3_u16" => ha.max(hb).max(hc) as u64,
        "med3_u16" => middle([ha, hb, hc]) as u64,
        "min3_i16" => ga.min(gb).min(gc) as u64 & 0xffff,
        "max3_i16" => ga.max(gb).max(gc) as u64 & 0xffff,
        "med3_i16" => middle([ga, gb, gc]) as u64 & 0xffff,
        "pack_b32_f16" => a & 0xffff | (b & 0xffff) << 16,
        "dot2_i32_i16" | "dot2c_i32_i16" => i32_of(ic + sum_of_products(a, b, 16, true)),
        "dot2_u32_u16" => u32_of(uc + sum_of_products(a, b, 16, false)),
        "dot4_i32_i8" | "dot4c_i32_i8" => i32_of(ic + sum_of_products(a, b, 8, true)),
        "dot4_u32_u8" => u32_of(uc + sum_of_products(a, b, 8, false)),
        "dot8_i32_i4" | "dot8c_i32_i4" => i32_of(ic + sum_of_products(a, b, 4, true)),
        "dot8_u32_u4" => u32_of(uc + sum_of_products(a, b, 4, false)),
        "sad_u8" => u32_of(differences(x, y, 8, false) + uc),
        "sad_hi_u8" => u32_of((differences(x, y, 8, false) << 16) + uc),
        "sad_u16" => u32_of(differences(x, y, 16, false) + uc),
        "sad_u32" => u32_of((ua - ub).abs() + uc),
        "msad_u8" => u32_of(differences(x, y, 8, true) + uc),
        "qsad_pk_u16_u8" | "mqsad_pk_u16_u8" => (0..4)
            .map(|n| {
                let window = (a >> (8 * n)) as u32;
                let sum =
                    differences(window, y, 8, name.contains("mqsad")) + i128::from(c >> (16 * n) & 0xffff);
                lane.wrap(sum, 16, false) << (16 * n)
            })
            .sum(),
        "lerp_u8" => (0..4)
            .map(|n| {
                let byte = |value: u32| u64::from(value >> (8 * n) & 0xff);
                ((byte(x) + byte(y) + (byte(z) & 1)) >> 1) << (8 * n)
            })
            .sum(),
        _ => return None,
    }))
}

fn middle(mut values: [i128; 3]) -> i128 {
    values.sort();
    values[1]
}

fn sum_of_products(a: u64, b: u64, bits: u32, signed: bool) -> i128 {
    let part = |value: u64, n: u32| {
        let field = i128::from(value >> (bits * n) & ((1 << bits) - 1));
        if signed && field >> (bits - 1) == 1 { field - (1 << bits) } else { field }
    };
    (0..32 / bits).map(|n| part(a, n) * part(b, n)).sum()
}

/// Sum of the absolute differences of the parts of two dwords; with `masked`, parts whose reference in `b` is zero are skipped.
fn differences(a: u32, b: u32, bits: u32, masked: bool) -> i128 {
    let part = |value: u32, n: u32| i128::from(value >> (bits * n) & ((1 << bits) - 1));
    (0..32 / bits).filter(|n| !masked || part(b, *n) != 0).map(|n| (part(a, n) - part(b, n)).abs()).sum()
}
