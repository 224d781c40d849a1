//! Half precision and bfloat16 on hosts that have neither.

/// Value of an f16. NaNs become quiet and keep their payload.
pub fn from_half(bits: u64) -> f32 {
    let bits = bits as u32;
    let magnitude = bits & 0x7fff;
    let value = match magnitude {
        // Subnormals are multiples of 2^-24.
        ..0x400 => (magnitude as f32 * f32::from_bits(103 << 23)).to_bits(),
        0x400..0x7c00 => (magnitude << 13) + (112 << 23),
        0x7c00 => 0x7f80_0000,
        _ => 0x7fc0_0000 | magnitude << 13,
    };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

/// The nearest f16, ties to even. NaNs become quiet and keep the upper bits of their payload.
pub fn to_half(value: f32) -> u64 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let rounded = match magnitude {
        // Adding 0.5 aligns the last bit of the f16 with the last bit of the sum, so that the addition rounds.
        ..0x3880_0000 => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5_f32.to_bits(),
        0x3880_0000..0x4780_0000 => {
            let rebased = magnitude - (112 << 23);
            (rebased + 0xfff + (rebased >> 13 & 1)) >> 13
        }
        0x4780_0000..=0x7f80_0000 => 0x7c00,
        _ => 0x7e00 | magnitude >> 13 & 0x3ff,
    };
    u64::from(bits >> 16 & 0x8000 | rounded)
}

/// Value of a bfloat16.
pub fn from_brain(bits: u64) -> f32 {
    let value = f32::from_bits((bits as u32) << 16);
    if value.is_nan() { f32::from_bits(value.to_bits() | 0x40_0000) } else { value }
}

/// The nearest bfloat16, ties to even.
pub fn to_brain(value: f32) -> u64 {
    let bits = value.to_bits();
    if value.is_nan() {
        return u64::from(bits >> 16 | 0x40);
    }
    u64::from((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
}
