//! Matrix multiplications, element by element, in the layouts of the machine instructions.
//!
//! Sums accumulate over k in ascending order, each step a fused multiply-add, in the precision of the result: the order of the
//! software GPU. The hardware's is not documented.

use isa::{Arch, DataType, Element, Flags};
use isa_reference::exact::{F16, F32, NEAREST, Number};

use crate::form::Matrix;

/// `blocks` products of `m x k` and `k x n` matrices.
#[derive(Clone, Copy, Debug)]
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    blocks: usize,
}

impl Shape {
    /// Parsed from the name, `..._32x32x8...`, and the size of the result.
    fn of(matrix: &Matrix) -> Option<Shape> {
        let row = matrix.op.encoding();
        let dimensions = row.op.name().split('_').find(|part| part.matches('x').count() == 2)?;
        let mut numbers = dimensions.split('x').map(|number| {
            let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            number[..digits].parse::<usize>().ok()
        });
        let [m, n, k] = [numbers.next()??, numbers.next()??, numbers.next()??];
        Some(Shape { m, n, k, blocks: row.dst.count() as usize * 64 / (m * n) })
    }

    /// Element in a lane's registers, and lane, of element (i, j) of the result.
    fn result(self, double: bool, block: usize, i: usize, j: usize) -> (usize, usize) {
        match (self.n, double) {
            (4, false) => (i, 4 * block + j),
            (4, true) => (0, 16 * i + 4 * block + j),
            (_, true) => (i / 4, 16 * (i % 4) + j),
            _ => {
                let groups = 64 / self.n;
                let registers = self.m * self.n / 64;
                (block * registers + i / (4 * groups) * 4 + i % 4, i / 4 % groups * self.n + j)
            }
        }
    }
}

/// The words of the product. `words` are those of A, B and C, and the indices of a sparse A.
pub fn multiply(matrix: &Matrix, words: &[[u32; 64]]) -> Result<Vec<[u32; 64]>, String> {
    let row = matrix.op.encoding();
    let shape = Shape::of(matrix).ok_or_else(|| format!("{} has no shape", row.op.name()))?;
    let sparse = row.flags.has(Flags::SMFMAC);
    let (a_words, b_words) = (row.src[0].dwords() as usize, row.src[1].dwords() as usize);
    let c_words = row.dst.dwords() as usize;
    if words.len() != a_words + b_words + c_words + usize::from(sparse) {
        return Err(format!("{} has {} words", row.op.name(), words.len()));
    }
    let (a, rest) = words.split_at(a_words);
    let (b, rest) = rest.split_at(b_words);
    let (c, index) = rest.split_at(c_words);
    let product = Product { matrix, shape, a, b, index: index.first() };
    let mut out = c.to_vec();
    match row.src[0].element_bits() {
        64 => product.doubles(&mut out),
        _ => product.words(&mut out),
    }
    Ok(out)
}

struct Product<'a> {
    matrix: &'a Matrix,
    shape: Shape,
    a: &'a [[u32; 64]],
    b: &'a [[u32; 64]],
    index: Option<&'a [u32; 64]>,
}

impl Product<'_> {
    fn doubles(&self, out: &mut [[u32; 64]]) {
        let Shape { m, n, k, blocks } = self.shape;
        // The permutation field negates the operands.
        let read = |words: &[[u32; 64]], pair: usize, lane: usize, operand: u32| {
            let bits = u64::from(words[2 * pair][lane]) | u64::from(words[2 * pair + 1][lane]) << 32;
            f64::from_bits(bits ^ u64::from(self.matrix.blgp >> operand & 1) << 63)
        };
        for block in 0..blocks {
            for i in 0..m {
                for j in 0..n {
                    let (pair, lane) = self.shape.result(true, block, i, j);
                    let mut sum = read(out, pair, lane, 2);
                    for step in 0..k {
                        let left = read(self.a, 0, (step * blocks + block) * m + i, 0);
                        let right = read(self.b, 0, (step * blocks + block) * n + j, 1);
                        sum = left.mul_add(right, sum);
                    }
                    out[2 * pair][lane] = sum.to_bits() as u32;
                    out[2 * pair + 1][lane] = (sum.to_bits() >> 32) as u32;
                }
            }
        }
    }

    fn words(&self, out: &mut [[u32; 64]]) {
        let row = self.matrix.op.encoding();
        let Shape { m, n, k, blocks } = self.shape;
        let integer = row.src[0].element() == Element::Signed;
        // Operations of gfx90a flush subnormal halves, and then their results.
        let flushes = row.src[0].element_bits() == 16 && row.opcode(Arch::Gfx942).is_none();
        let (a_held, b_held) = (row.src[0].count() as usize, row.src[1].count() as usize);
        let (cbsz, abid) = (usize::from(self.matrix.cbsz), usize::from(self.matrix.abid));
        let b_all: Vec<[u32; 64]> = (0..b_held)
            .map(|e| {
                std::array::from_fn(|lane| widened(self.b, row.src[1], e, self.lane_of_b(lane), flushes))
            })
            .collect();
        let finite = b_all.iter().flatten().all(|value| value & 0x7f80_0000 != 0x7f80_0000);
        for block in 0..blocks {
            let block_of_a = ((block >> cbsz << cbsz) + abid) % blocks;
            for i in 0..m {
                let left: Vec<(usize, u32)> = match self.index {
                    None => (0..k)
                        .map(|step| {
                            let lane = (step / a_held * blocks + block_of_a) * m + i;
                            (step, widened(self.a, row.src[0], step % a_held, lane, flushes))
                        })
                        .collect(),
                    Some(index) => {
                        let set = if cbsz == 0 { abid * 2 * a_held % 32 } else { 0 };
                        let stored = (0..k / 2).map(|stored| {
                            let (e, lane) = (stored % a_held, stored / a_held * m + i);
                            let place = index[lane] >> (set + 2 * e) & 3;
                            (stored / 2 * 4 + place as usize, widened(self.a, row.src[0], e, lane, flushes))
                        });
                        if finite || integer {
                            // Elements that are not stored are multiplied as zeros.
                            let mut all: Vec<(usize, u32)> = (0..k).map(|step| (step, 0)).collect();
                            stored.for_each(|(step, value)| all[step].1 = value);
                            all
                        } else {
                            stored.collect()
                        }
                    }
                };
                for j in 0..n {
                    let (register, lane) = self.shape.result(false, block, i, j);
                    let mut sum = out[register][lane];
                    for (step, left) in &left {
                        let right = b_all[step % b_held][(step / b_held * blocks + block) * n + j];
                        sum = if integer {
                            left.wrapping_mul(right).wrapping_add(sum)
                        } else {
                            let [left, right, sum] = [*left, right, sum].map(f32::from_bits);
                            left.mul_add(right, sum).to_bits()
                        };
                    }
                    out[register][lane] = if flushes && !integer { flushed(sum) } else { sum };
                }
            }
        }
    }

    /// The lane whose elements of B a lane reads.
    fn lane_of_b(&self, lane: usize) -> usize {
        match usize::from(self.matrix.blgp) {
            1 => lane % 32,
            2 => lane % 32 + 32,
            3 => (lane + 16) % 64,
            permutation @ 4..=7 => lane % 16 + 16 * (permutation - 4),
            _ => lane,
        }
    }
}

fn flushed(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// Element `e` of a lane, as an f32 or a 32-bit integer.
fn widened(words: &[[u32; 64]], data_type: DataType, e: usize, lane: usize, flushes: bool) -> u32 {
    let width = data_type.element_bits() as usize;
    let bits = words[e * width / 32][lane] >> (e * width % 32);
    match data_type.element() {
        Element::Signed => i32::from(bits as i8) as u32,
        Element::Xf32 => {
            // Ten mantissa bits, ties to even.
            let rounded = bits.wrapping_add(0xfff).wrapping_add(bits >> 13 & 1) & !0x1fff;
            if bits & 0x7fff_ffff > 0x7f80_0000 { bits } else { rounded }
        }
        Element::Float if width == 16 => {
            let half = bits & 0xffff;
            let half = if flushes && half & 0x7c00 == 0 { half & 0x8000 } else { half };
            Number::of(F16, half.into()).bits(F32, NEAREST) as u32
        }
        Element::Brain if flushes => flushed(bits << 16),
        Element::Brain => bits << 16,
        Element::Fp8 => small(bits & 0xff, 3, 8),
        Element::Bf8 => small(bits & 0xff, 2, 16),
        _ => bits,
    }
}

/// An 8-bit float without infinities, whose negative zero is the only NaN.
fn small(bits: u32, fraction: u32, bias: i32) -> u32 {
    let (exponent, rest) = ((bits >> fraction & (0x7f >> fraction)) as i32, bits & ((1 << fraction) - 1));
    if bits == 0x80 {
        return f32::NAN.to_bits();
    }
    let whole = if exponent == 0 { 0.0 } else { 1.0 };
    let mantissa = rest as f32 / (1_u32 << fraction) as f32 + whole;
    let magnitude = mantissa * f32::powi(2.0, exponent.max(1) - bias);
    if bits & 0x80 != 0 { (-magnitude).to_bits() } else { magnitude.to_bits() }
}
