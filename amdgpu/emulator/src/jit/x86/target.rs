//! Target instruction sets: vector width, number of registers, and the table of instructions available on both.
//!
//! Templates refer to an instruction by its row in the table below; the target selects one of its two encodings. Operations that
//! only one target has as an instruction are in [`super::avx2_fallback`].

use iced_x86::{Code, Register};

use crate::Level;

/// The vector instruction set that code is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Eight lanes per register, 16 registers. A lane mask is a vector with lanes of all-ones or all-zeros.
    Avx2,
    /// 16 lanes per register, 32 registers, and mask registers.
    Avx512,
}

impl Target {
    /// The target of a CPU level; `None` below AVX2.
    pub fn of(level: Level) -> Option<Target> {
        match level {
            Level::V4 => Some(Target::Avx512),
            Level::V3 => Some(Target::Avx2),
            Level::Base => None,
        }
    }

    pub fn lanes(self) -> usize {
        match self {
            Target::Avx2 => 8,
            Target::Avx512 => 16,
        }
    }

    pub fn registers(self) -> usize {
        match self {
            Target::Avx2 => 16,
            Target::Avx512 => 32,
        }
    }

    /// The full vector register `n`.
    pub fn whole(self, n: u8) -> Register {
        match self {
            Target::Avx2 => Register::YMM0 + u32::from(n),
            Target::Avx512 => Register::ZMM0 + u32::from(n),
        }
    }

    /// The low half of vector register `n`.
    pub fn half(self, n: u8) -> Register {
        match self {
            Target::Avx2 => Register::XMM0 + u32::from(n),
            Target::Avx512 => Register::YMM0 + u32::from(n),
        }
    }
}

/// An instruction that both targets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    avx512: Code,
    avx2: Code,
}

impl Vector {
    pub fn on(self, target: Target) -> Code {
        match target {
            Target::Avx2 => self.avx2,
            Target::Avx512 => self.avx512,
        }
    }
}

macro_rules! vectors {
    ($($name:ident $avx512:ident $avx2:ident)*) => {
        $(pub const $name: Vector = Vector { avx512: Code::$avx512, avx2: Code::$avx2 };)*
    };
}

vectors! {
    LOAD              EVEX_Vmovdqu32_zmm_k1z_zmmm512                VEX_Vmovdqu_ymm_ymmm256
    COPY              EVEX_Vmovdqa32_zmm_k1z_zmmm512                VEX_Vmovdqa_ymm_ymmm256
    BROADCAST_32      EVEX_Vpbroadcastd_zmm_k1z_xmmm32              VEX_Vpbroadcastd_ymm_xmmm32
    BROADCAST_64      EVEX_Vpbroadcastq_zmm_k1z_xmmm64              VEX_Vpbroadcastq_ymm_xmmm64

    AND               EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32            VEX_Vpand_ymm_ymm_ymmm256
    OR                EVEX_Vpord_zmm_k1z_zmm_zmmm512b32             VEX_Vpor_ymm_ymm_ymmm256
    XOR               EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32            VEX_Vpxor_ymm_ymm_ymmm256
    AND_64            EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64            VEX_Vpand_ymm_ymm_ymmm256
    OR_64             EVEX_Vporq_zmm_k1z_zmm_zmmm512b64             VEX_Vpor_ymm_ymm_ymmm256
    XOR_64            EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64            VEX_Vpxor_ymm_ymm_ymmm256

    ADD_I32           EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32            VEX_Vpaddd_ymm_ymm_ymmm256
    SUB_I32           EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32            VEX_Vpsubd_ymm_ymm_ymmm256
    MUL_I32           EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32           VEX_Vpmulld_ymm_ymm_ymmm256
    MIN_I32           EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32           VEX_Vpminsd_ymm_ymm_ymmm256
    MAX_I32           EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32           VEX_Vpmaxsd_ymm_ymm_ymmm256
    MIN_U32           EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32           VEX_Vpminud_ymm_ymm_ymmm256
    MAX_U32           EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32           VEX_Vpmaxud_ymm_ymm_ymmm256
    SHL_32            EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8           VEX_Vpslld_ymm_ymm_imm8
    SHR_32            EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8           VEX_Vpsrld_ymm_ymm_imm8
    SAR_32            EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8           VEX_Vpsrad_ymm_ymm_imm8
    SHL_EACH_32       EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32           VEX_Vpsllvd_ymm_ymm_ymmm256
    SHR_EACH_32       EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32           VEX_Vpsrlvd_ymm_ymm_ymmm256
    SAR_EACH_32       EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32           VEX_Vpsravd_ymm_ymm_ymmm256
    SHUFFLE_8         EVEX_Vpshufb_zmm_k1z_zmm_zmmm512              VEX_Vpshufb_ymm_ymm_ymmm256
    INTERLEAVE_LOW    EVEX_Vpunpckldq_zmm_k1z_zmm_zmmm512b32        VEX_Vpunpckldq_ymm_ymm_ymmm256
    INTERLEAVE_HIGH   EVEX_Vpunpckhdq_zmm_k1z_zmm_zmmm512b32        VEX_Vpunpckhdq_ymm_ymm_ymmm256
    SHUFFLE_32        EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8      VEX_Vshufps_ymm_ymm_ymmm256_imm8

    ADD_I64           EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64            VEX_Vpaddq_ymm_ymm_ymmm256
    MUL_U32_U64       EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64          VEX_Vpmuludq_ymm_ymm_ymmm256
    MUL_I32_I64       EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64           VEX_Vpmuldq_ymm_ymm_ymmm256
    SHL_64            EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8           VEX_Vpsllq_ymm_ymm_imm8
    SHR_64            EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8           VEX_Vpsrlq_ymm_ymm_imm8
    SHL_EACH_64       EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64           VEX_Vpsllvq_ymm_ymm_ymmm256
    SHR_EACH_64       EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64           VEX_Vpsrlvq_ymm_ymm_ymmm256

    ADD_F32           EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er         VEX_Vaddps_ymm_ymm_ymmm256
    SUB_F32           EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er         VEX_Vsubps_ymm_ymm_ymmm256
    MUL_F32           EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er         VEX_Vmulps_ymm_ymm_ymmm256
    DIV_F32           EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er         VEX_Vdivps_ymm_ymm_ymmm256
    SQRT_F32          EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er            VEX_Vsqrtps_ymm_ymmm256
    LESSER_F32        EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae        VEX_Vminps_ymm_ymm_ymmm256
    ROUND_F32         EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae  VEX_Vroundps_ymm_ymmm256_imm8
    F32_FROM_I32      EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er          VEX_Vcvtdq2ps_ymm_ymmm256
    I32_FROM_F32      EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae        VEX_Vcvttps2dq_ymm_ymmm256
    FMADD231_F32      EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmadd231ps_ymm_ymm_ymmm256
    FMSUB231_F32      EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmsub231ps_ymm_ymm_ymmm256
    FNMADD231_F32     EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmadd231ps_ymm_ymm_ymmm256
    FNMSUB231_F32     EVEX_Vfnmsub231ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmsub231ps_ymm_ymm_ymmm256
    FMADD213_F32      EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmadd213ps_ymm_ymm_ymmm256
    FMSUB213_F32      EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmsub213ps_ymm_ymm_ymmm256
    FNMADD213_F32     EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmadd213ps_ymm_ymm_ymmm256
    FNMSUB213_F32     EVEX_Vfnmsub213ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmsub213ps_ymm_ymm_ymmm256
    FMADD132_F32      EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmadd132ps_ymm_ymm_ymmm256
    FMSUB132_F32      EVEX_Vfmsub132ps_zmm_k1z_zmm_zmmm512b32_er    VEX_Vfmsub132ps_ymm_ymm_ymmm256
    FNMADD132_F32     EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmadd132ps_ymm_ymm_ymmm256
    FNMSUB132_F32     EVEX_Vfnmsub132ps_zmm_k1z_zmm_zmmm512b32_er   VEX_Vfnmsub132ps_ymm_ymm_ymmm256

    ADD_F64           EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er         VEX_Vaddpd_ymm_ymm_ymmm256
    MUL_F64           EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er         VEX_Vmulpd_ymm_ymm_ymmm256
    DIV_F64           EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er         VEX_Vdivpd_ymm_ymm_ymmm256
    SQRT_F64          EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er            VEX_Vsqrtpd_ymm_ymmm256
    FMADD231_F64      EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er    VEX_Vfmadd231pd_ymm_ymm_ymmm256

    // From half a register to a full one.
    F32_FROM_F16      EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae            VEX_Vcvtph2ps_ymm_xmmm128
    F64_FROM_F32      EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae         VEX_Vcvtps2pd_ymm_xmmm128
    F64_FROM_I32      EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er          VEX_Vcvtdq2pd_ymm_xmmm128
    U32_FROM_U16      EVEX_Vpmovzxwd_zmm_k1z_ymmm256                VEX_Vpmovzxwd_ymm_xmmm128
    U64_FROM_U32      EVEX_Vpmovzxdq_zmm_k1z_ymmm256                VEX_Vpmovzxdq_ymm_xmmm128

    // From a full register to half of one.
    F16_FROM_F32      EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae       VEX_Vcvtps2ph_xmmm128_ymm_imm8
    F32_FROM_F64      EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er          VEX_Vcvtpd2ps_xmm_ymmm256
}
