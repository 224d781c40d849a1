//! Operand values for tests: edge cases of every type, and random bits.

use fastrand::Rng;
use isa::Operand;

use crate::exec::lane::op::{Kind, Shape};
use crate::wave::sreg;
use crate::{Lanes, Wave};

const EDGES_32: &[u32] = &[
    0,
    1,
    2,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0xffff_8000,
    0x3f80_0000,
    0xbf80_0000,
    0x4000_0000,
    0x3f00_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc0_1234,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0x4f7f_ffff,
    0x4f80_0000,
    0x4b00_0001,
    0x3f00_0001,
    0x3eff_ffff,
    0x4020_0000,
    0x3fc0_0000,
    0x477f_e000,
    0x477f_f000,
    0x3380_0000,
    0x3300_0000,
    0x3300_0001,
    0x387f_c000,
    0x00ff_ffff,
    0x0080_0001,
];

const EDGES_16: &[u16] = &[
    0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff, 0x7fff,
    0x3c00, 0xbc00, 0x4000, 0x3800, 0x3555, 0x6400, 0x7800, 0x0f, 0x10, 0x11, 0x3c01, 0x4248,
];

const EDGES_64: &[u64] = &[
    0,
    1,
    63,
    64,
    1 << 63,
    u64::MAX,
    i64::MAX as u64,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x8000_0000_0000_0001,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0xc1e0_0000_001f_ffff,
    0x41ef_ffff_ffff_ffff,
    0x3fe0_0000_0000_0000,
    0x4004_0000_0000_0000,
    0xffff_ffff,
];

/// A dword that is an edge case of some type.
pub fn edges(choice: u64) -> u32 {
    EDGES_32[choice as usize % EDGES_32.len()]
}

/// Source values of one run, for vector, scalar and constant operands.
#[derive(Debug)]
pub struct Operands {
    /// Low and high dwords of the three sources and of the destination's old value.
    lanes: [[Lanes; 2]; 4],
    scalars: [u64; 2],
    pub constant: Operand,
    pub select: u64,
    pub random_mask: u64,
}

impl Operands {
    pub fn new(seed: u64, shape: Shape) -> Operands {
        let mut random = Rng::with_seed(seed);
        let mut lanes = [[Lanes::ZERO; 2]; 4];
        let kinds = [shape.src[0], shape.src[1], shape.src[2], Kind::B64];
        for (source, kind) in lanes.iter_mut().zip(kinds) {
            for lane in 0..64 {
                let bits = value(&mut random, kind);
                source[0].0[lane] = bits as u32;
                source[1].0[lane] = (bits >> 32) as u32;
            }
        }
        let scalars = [value(&mut random, shape.src[0]), value(&mut random, shape.src[2])];
        let constant = match random.u64(..6) {
            0 => Operand::Int(0),
            1 => Operand::Int(-16),
            2 => Operand::Int(64),
            3 => Operand::Float(1.0_f32.to_bits()),
            4 => Operand::Float((-0.5_f32).to_bits()),
            _ => Operand::Int(5),
        };
        let (select, random_mask) = (random.u64(..), random.u64(..) | 1);
        Operands { lanes, scalars, constant, select, random_mask }
    }

    /// A wave whose registers hold the operands.
    pub fn wave(&self, first: &[u8; 3], dst: u8, exec: u64) -> Wave {
        let mut wave = Wave::new(64);
        for (register, lanes) in wave.vgprs.iter_mut().enumerate() {
            *lanes = Lanes(std::array::from_fn(|lane| 0x0bad_0000 + 64 * register as u32 + lane as u32));
        }
        let place = |wave: &mut Wave, register: u8, lanes: &[Lanes; 2]| {
            wave.vgprs[usize::from(register)] = lanes[0];
            wave.vgprs[usize::from(register) + 1] = lanes[1];
        };
        place(&mut wave, dst, &self.lanes[3]);
        for (n, &register) in first.iter().enumerate() {
            place(&mut wave, register, &self.lanes[n]);
        }
        wave.set_sgpr64(2, self.scalars[0]);
        wave.set_sgpr64(6, self.scalars[1]);
        wave.set_sgpr64(20, self.select);
        wave.set_sgpr64(30, 0x5555_0000_aaaa_ffff);
        wave.set_sgpr64(sreg::VCC, self.select);
        wave.set_sgpr64(sreg::EXEC, exec);
        wave
    }

    /// Value of an operand in a lane, read from the registers before the run.
    pub fn read(&self, registers: &[Lanes], operand: &Operand, kind: Kind, lane: usize) -> u64 {
        let wide = |low: u32, high: u32| u64::from(low) | if kind.wide() { u64::from(high) << 32 } else { 0 };
        match *operand {
            Operand::Vgpr(n) => {
                wide(registers[usize::from(n)].0[lane], registers[usize::from(n) + 1].0[lane])
            }
            Operand::Sgpr(2) => wide(self.scalars[0] as u32, (self.scalars[0] >> 32) as u32),
            Operand::Sgpr(_) => wide(self.scalars[1] as u32, (self.scalars[1] >> 32) as u32),
            Operand::Int(value) if kind == Kind::PkF32 => {
                u64::from(i32::from(value) as u32) | u64::from(i32::from(value) as u32) << 32
            }
            Operand::Int(value) if kind.wide() => i64::from(value) as u64,
            Operand::Int(value) => u64::from(i32::from(value) as u32),
            Operand::Float(bits) => {
                let value = f32::from_bits(bits);
                match kind {
                    Kind::F16 | Kind::PkF16 => u64::from(half::f16::from_f32(value).to_bits()),
                    Kind::F64 | Kind::B64 => f64::from(value).to_bits(),
                    Kind::PkF32 => u64::from(bits) | u64::from(bits) << 32,
                    _ => u64::from(bits),
                }
            }
            other => panic!("{other:?} is not an operand of these tests"),
        }
    }
}

fn value(random: &mut Rng, kind: Kind) -> u64 {
    let choice = random.u64(..);
    let pick = random.u64(..);
    let half = |random: &mut Rng| {
        let (choice, bits) = (random.u64(..), random.u64(..));
        if choice & 1 == 0 { EDGES_16[bits as usize % EDGES_16.len()] } else { bits as u16 }
    };
    match kind {
        Kind::B16 | Kind::F16 | Kind::Pk16 | Kind::PkF16 => {
            u64::from(half(random)) | u64::from(half(random)) << 16
        }
        Kind::B64 | Kind::F64 if choice & 1 == 0 => EDGES_64[pick as usize % EDGES_64.len()],
        // Doubles of moderate magnitude.
        Kind::F64 if choice % 4 == 1 => (f64::from(pick as i32) / 1024.0).to_bits(),
        Kind::B64 | Kind::F64 => pick,
        Kind::PkF32 => {
            let low = value(random, Kind::F32);
            low | value(random, Kind::F32) << 32
        }
        _ if choice % 4 < 2 => u64::from(EDGES_32[pick as usize % EDGES_32.len()]),
        Kind::F32 | Kind::Mix if choice % 4 == 2 => u64::from((pick as i32 as f32 / 65536.0).to_bits()),
        _ => pick & 0xffff_ffff,
    }
}
