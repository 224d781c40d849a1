//! The MODE register: how float operations round, flush and clamp.

/// The MODE register, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// 0 nearest even, 1 towards +inf, 2 towards -inf, 3 towards zero.
    pub round_f32: u8,
    /// Like `round_f32`, for f64 and f16.
    pub round_f64: u8,
    /// Bit mask: bit 0 keeps input denormals, bit 1 output denormals; a cleared bit flushes. 0 flushes both, 3 keeps both.
    pub denorm_f32: u8,
    /// Like `denorm_f32`, for f64 and f16.
    pub denorm_f64: u8,
    /// The float clamp turns a NaN into zero.
    pub dx10_clamp: bool,
    /// Minimum and maximum treat signalling NaNs as IEEE 754 says; output scaling is ignored.
    pub ieee: bool,
    /// An f16 result that overflows becomes the largest finite value.
    pub fp16_ovfl: bool,
}

impl Default for Mode {
    /// Mode that HIP compilers set: round to nearest even, denormals kept, IEEE, DX10 clamp.
    fn default() -> Mode {
        Mode {
            round_f32: 0,
            round_f64: 0,
            denorm_f32: 3,
            denorm_f64: 3,
            dx10_clamp: true,
            ieee: true,
            fp16_ovfl: false,
        }
    }
}

impl Mode {
    /// Bits of the MODE register as `s_getreg_b32` and `s_setreg_b32` access them.
    pub fn to_bits(self) -> u32 {
        u32::from(self.round_f32 & 3)
            | u32::from(self.round_f64 & 3) << 2
            | u32::from(self.denorm_f32 & 3) << 4
            | u32::from(self.denorm_f64 & 3) << 6
            | u32::from(self.dx10_clamp) << 8
            | u32::from(self.ieee) << 9
            | u32::from(self.fp16_ovfl) << 23
    }

    /// The reverse of [`Mode::to_bits`]; other bits are ignored.
    pub fn from_bits(bits: u32) -> Mode {
        Mode {
            round_f32: (bits & 3) as u8,
            round_f64: (bits >> 2 & 3) as u8,
            denorm_f32: (bits >> 4 & 3) as u8,
            denorm_f64: (bits >> 6 & 3) as u8,
            dx10_clamp: bits >> 8 & 1 != 0,
            ieee: bits >> 9 & 1 != 0,
            fp16_ovfl: bits >> 23 & 1 != 0,
        }
    }

    /// Mode that a kernel descriptor's `compute_pgm_rsrc1` requests.
    pub fn from_rsrc1(rsrc1: u32) -> Mode {
        Mode {
            round_f32: (rsrc1 >> 12 & 3) as u8,
            round_f64: (rsrc1 >> 14 & 3) as u8,
            denorm_f32: (rsrc1 >> 16 & 3) as u8,
            denorm_f64: (rsrc1 >> 18 & 3) as u8,
            dx10_clamp: rsrc1 >> 21 & 1 != 0,
            ieee: rsrc1 >> 23 & 1 != 0,
            fp16_ovfl: rsrc1 >> 26 & 1 != 0,
        }
    }
}
