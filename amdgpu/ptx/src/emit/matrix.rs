//! Matrix operations: tensor cores where the lanes' layout fits, else shuffles and multiply-adds.
//!
//! The general way sums over k in ascending order with one rounding for each step, as the form says. Tensor cores sum in another
//! order and keep subnormal halves, as AMD's matrix cores also differ from the form; [`crate::Options::exact_matrix`] avoids them.

use isa::{Arch, DataType, Element, Flags, Op};
use lift::form::*;
use rustc_hash::FxHashMap;

use super::permutation::{Table, permute};
use crate::generator::{Generator, Reason};
use crate::{Mode, Options};

/// Whether the operation is fast only with permuted lanes.
pub(crate) fn wants_permuted_lanes(matrix: &Matrix, options: &Options) -> bool {
    !options.exact_matrix && tensor_type(matrix).is_some()
}

/// The element type of an operation that is two `mma.m16n8k16`.
fn tensor_type(matrix: &Matrix) -> Option<&'static str> {
    if (matrix.cbsz, matrix.abid, matrix.blgp) != (0, 0, 0) {
        return None;
    }
    match matrix.op {
        Op::v_mfma_f32_16x16x16f16 | Op::v_mfma_f32_16x16x16_f16 => Some("f16"),
        Op::v_mfma_f32_16x16x16bf16_1k | Op::v_mfma_f32_16x16x16_bf16 => Some("bf16"),
        _ => None,
    }
}

/// Writes an operation.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction, matrix: &Matrix) -> Result<(), Reason> {
    if g.mode != Mode::Pair {
        return Err("lane mode cannot cross lanes".into());
    }
    if wants_permuted_lanes(matrix, g.options)
        && let Some(name) = tensor_type(matrix)
    {
        return tensor(g, instruction, name);
    }
    general(g, instruction, matrix)
}

/// D^T = B^T A^T with the lanes of [`crate::lane_map::LaneMap::MATRIX`], where no operand has to move.
fn tensor(g: &mut Generator<'_>, instruction: &Instruction, name: &str) -> Result<(), Reason> {
    if instruction.operands.len() != 8 || instruction.results.len() != 4 {
        return Err("a matrix operation with other operands than its own".into());
    }
    let words: Vec<[String; 2]> =
        instruction.operands.iter().map(|value| [0, 1].map(|half| g.in_register(*value, half))).collect();
    let (a, b, c) = (&words[..2], &words[2..4], &words[4..]);
    let left = [&b[0][0], &b[0][1], &b[1][0], &b[1][1]].map(String::as_str);
    let left = if from_one_load(g, &instruction.operands[2..4]) { group(g, left) } else { left.join(", ") };
    let places = |half: usize| [(half, 0), (half + 2, 0), (half, 1), (half + 2, 1)];
    for half in [0, 1] {
        let right = format!("{}, {}", a[0][half], a[1][half]);
        let sums = places(half).map(|(register, of)| c[register][of].as_str()).join(", ");
        let out = places(half).map(|(register, of)| g.result(instruction.results[register], of)).join(", ");
        g.line(format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {{{out}}}, {{{left}}}, {{{right}}}, {{{sums}}}"
        ));
    }
    Ok(())
}

/// Whether words are results of one load, which puts them in consecutive registers.
fn from_one_load(g: &Generator<'_>, words: &[Value]) -> bool {
    let load = |value: &Value| g.function.values[value.0 as usize].instruction;
    matches!(g.function.definition(words[0]).operation, Operation::Load(_))
        && words.iter().all(|word| load(word) == load(&words[0]))
}

/// Copies of four words, which can be in consecutive registers although their originals cannot: a load puts the words of one lane
/// there, `mma` wants those of two lanes. ptxas would copy all four before every use. It cannot see through the addition of a zero
/// that it does not know, so that there is one copy in a block.
fn group(g: &mut Generator<'_>, words: [&str; 4]) -> String {
    let key = words.join(", ");
    if let Some(known) = g.groups.get(&key) {
        return known.clone();
    }
    // The grid has one dimension.
    let zero = g.once("zero", |g| {
        let zero = g.word();
        g.line(format!("mov.u32 {zero}, %ctaid.z"));
        zero
    });
    let copies = words.map(|word| {
        let copy = g.word();
        g.line(format!("add.u32 {copy}, {word}, {zero}"));
        copy
    });
    let group = copies.join(", ");
    g.groups.insert(key, group.clone());
    group
}

/// `blocks` products of `m x k` and `k x n` matrices.
#[derive(Clone, Copy, Debug)]
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    blocks: usize,
    double: bool,
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
        let double = row.src[0].element_bits() == 64;
        Some(Shape { m, n, k, blocks: row.dst.count() as usize * 64 / (m * n), double })
    }

    /// Element in a lane's registers, and lane, of element (i, j) of the result.
    fn place(self, block: usize, i: usize, j: usize) -> (usize, usize) {
        match (self.n, self.double) {
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

    /// Block, row and column that each lane holds in an element of its result.
    fn contents(self, element: usize) -> [(usize, usize, usize); 64] {
        let mut all = [(0, 0, 0); 64];
        for block in 0..self.blocks {
            for i in 0..self.m {
                for j in 0..self.n {
                    let (at, lane) = self.place(block, i, j);
                    if at == element {
                        all[lane] = (block, i, j);
                    }
                }
            }
        }
        all
    }
}

/// The lane whose elements of B a lane reads.
fn lane_of_b(permutation: u8, lane: usize) -> usize {
    match usize::from(permutation) {
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        permutation @ 4..=7 => lane % 16 + 16 * (permutation - 4),
        _ => lane,
    }
}

/// Words and elements that were moved already, by operand, word and sources.
type Moved = FxHashMap<(usize, Table), [String; 2]>;

/// A product by shuffles and multiply-adds.
fn general(g: &mut Generator<'_>, instruction: &Instruction, matrix: &Matrix) -> Result<(), Reason> {
    let row = matrix.op.encoding();
    let shape = Shape::of(matrix).ok_or("a matrix operation without a shape")?;
    let (a_type, b_type) = (row.src[0], row.src[1]);
    let (a_words, b_words) = (a_type.dwords() as usize, b_type.dwords() as usize);
    let c_words = row.dst.dwords() as usize;
    if row.flags.has(Flags::SMFMAC) {
        return Err("a sparse matrix operation".into());
    }
    if instruction.operands.len() != a_words + b_words + c_words || instruction.results.len() != c_words {
        return Err("a matrix operation with other operands than its own".into());
    }
    let words: Vec<[String; 2]> =
        instruction.operands.iter().map(|value| [0, 1].map(|half| g.in_register(*value, half))).collect();
    let flushes = a_type.element_bits() == 16 && row.opcode(Arch::Gfx942).is_none();
    let integer = a_type.element() == Element::Signed;
    let (a_held, b_held) = (a_type.count() as usize, b_type.count() as usize);
    let (cbsz, abid) = (usize::from(matrix.cbsz), usize::from(matrix.abid));
    let mut moved: Moved = FxHashMap::default();
    let mut widened: FxHashMap<(usize, usize, Table), [String; 2]> = FxHashMap::default();
    for element in 0..c_words / if shape.double { 2 } else { 1 } {
        let contents = shape.contents(element);
        let mut sums = start(g, &words[a_words + b_words..], element, shape, matrix);
        for step in 0..shape.k {
            let mut from_a: Table = [None; 64];
            let mut from_b: Table = [None; 64];
            for (lane, (block, i, j)) in contents.iter().enumerate() {
                let block_of_a =
                    if shape.double { *block } else { ((block >> cbsz << cbsz) + abid) % shape.blocks };
                from_a[lane] = Some(((step / a_held * shape.blocks + block_of_a) * shape.m + i) as u8);
                let source = (step / b_held * shape.blocks + block) * shape.n + j;
                let source = if shape.double { source } else { lane_of_b(matrix.blgp, source) };
                from_b[lane] = Some(source as u8);
            }
            let mut fetch = |g: &mut Generator<'_>, of: DataType, first: usize, e: usize, table: &Table| {
                let key = (first, e, *table);
                if let Some(known) = widened.get(&key) {
                    return known.clone();
                }
                let operand = usize::from(first != 0);
                let value = element_of(
                    g,
                    &words,
                    of,
                    first,
                    e,
                    table,
                    &mut moved,
                    flushes,
                    matrix.blgp >> operand & 1,
                );
                widened.insert(key, value.clone());
                value
            };
            let left = fetch(g, a_type, 0, step % a_held, &from_a);
            let right = fetch(g, b_type, a_words, step % b_held, &from_b);
            let name = match (integer, shape.double) {
                (true, _) => "mad.lo.s32",
                (_, true) => "fma.rn.f64",
                _ => "fma.rn.f32",
            };
            for half in 0..2 {
                let sum = if shape.double { g.double() } else { g.word() };
                g.line(format!("{name} {sum}, {}, {}, {}", left[half], right[half], sums[half]));
                sums[half] = sum;
            }
        }
        finish(g, instruction, element, shape, &sums, flushes && !integer);
    }
    Ok(())
}

/// The element of C that a sum starts from.
fn start(
    g: &mut Generator<'_>,
    c: &[[String; 2]],
    element: usize,
    shape: Shape,
    matrix: &Matrix,
) -> [String; 2] {
    [0, 1].map(|half| {
        if !shape.double {
            return c[element][half].clone();
        }
        let double = g.double();
        g.line(format!("mov.b64 {double}, {{{}, {}}}", c[2 * element][half], c[2 * element + 1][half]));
        if matrix.blgp >> 2 & 1 == 1 {
            g.line(format!("xor.b64 {double}, {double}, 0x8000000000000000"));
        }
        double
    })
}

/// Writes a sum to the result.
fn finish(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    element: usize,
    shape: Shape,
    sums: &[String; 2],
    flushes: bool,
) {
    for (half, sum) in sums.iter().enumerate() {
        if shape.double {
            let [low, high] = [0, 1].map(|part| g.result(instruction.results[2 * element + part], half));
            g.line(format!("mov.b64 {{{low}, {high}}}, {sum}"));
            continue;
        }
        let result = g.result(instruction.results[element], half);
        if flushes {
            flush(g, sum, &result);
        } else {
            g.line(format!("mov.b32 {result}, {sum}"));
        }
    }
}

/// Replaces a subnormal f32 by a zero of its sign.
fn flush(g: &mut Generator<'_>, from: &str, to: &str) {
    let (exponent, zero, small) = (g.word(), g.word(), g.predicate());
    g.line(format!("and.b32 {exponent}, {from}, 0x7f800000"));
    g.line(format!("and.b32 {zero}, {from}, 0x80000000"));
    g.line(format!("setp.eq.u32 {small}, {exponent}, 0"));
    g.line(format!("selp.b32 {to}, {zero}, {from}, {small}"));
}

/// Element `e` of the lanes that a table names, widened to the type of the sum. `first` is the operand's first word.
#[expect(clippy::too_many_arguments, reason = "the parts of one element")]
fn element_of(
    g: &mut Generator<'_>,
    words: &[[String; 2]],
    of: DataType,
    first: usize,
    e: usize,
    table: &Table,
    moved: &mut Moved,
    flushes: bool,
    negate: u8,
) -> [String; 2] {
    let mut fetch = |g: &mut Generator<'_>, word: usize| {
        if let Some(known) = moved.get(&(word, *table)) {
            return known.clone();
        }
        let from = &words[word];
        let value = permute(g, [&from[0], &from[1]], table);
        moved.insert((word, *table), value.clone());
        value
    };
    let width = of.element_bits() as usize;
    if width == 64 {
        let (low, high) = (fetch(g, first + 2 * e), fetch(g, first + 2 * e + 1));
        return [0, 1].map(|half| {
            let double = g.double();
            g.line(format!("mov.b64 {double}, {{{}, {}}}", low[half], high[half]));
            if negate == 1 {
                g.line(format!("xor.b64 {double}, {double}, 0x8000000000000000"));
            }
            double
        });
    }
    let source = fetch(g, first + e * width / 32);
    let shift = e * width % 32;
    source.map(|word| {
        let wide = g.word();
        match of.element() {
            Element::Signed => g.line(format!("bfe.s32 {wide}, {word}, {shift}, 8")),
            Element::Xf32 => {
                // Ten mantissa bits, ties to even; a NaN stays.
                let (odd, sum, magnitude, nan) = (g.word(), g.word(), g.word(), g.predicate());
                g.line(format!("bfe.u32 {odd}, {word}, 13, 1"));
                g.line(format!("add.u32 {sum}, {word}, 0xfff"));
                g.line(format!("add.u32 {sum}, {sum}, {odd}"));
                g.line(format!("and.b32 {sum}, {sum}, 0xffffe000"));
                g.line(format!("and.b32 {magnitude}, {word}, 0x7fffffff"));
                g.line(format!("setp.gt.u32 {nan}, {magnitude}, 0x7f800000"));
                g.line(format!("selp.b32 {wide}, {word}, {sum}, {nan}"));
            }
            Element::Float if width == 16 => {
                let (bits, half) = (g.word(), g.half());
                g.line(format!("shr.u32 {bits}, {word}, {shift}"));
                if flushes {
                    let (exponent, zero, small) = (g.word(), g.word(), g.predicate());
                    g.line(format!("and.b32 {exponent}, {bits}, 0x7c00"));
                    g.line(format!("and.b32 {zero}, {bits}, 0x8000"));
                    g.line(format!("setp.eq.u32 {small}, {exponent}, 0"));
                    g.line(format!("selp.b32 {bits}, {zero}, {bits}, {small}"));
                }
                g.line(format!("cvt.u16.u32 {half}, {bits}"));
                g.line(format!("cvt.f32.f16 {wide}, {half}"));
            }
            Element::Brain => {
                match shift {
                    0 => g.line(format!("shl.b32 {wide}, {word}, 16")),
                    _ => g.line(format!("and.b32 {wide}, {word}, 0xffff0000")),
                }
                if flushes {
                    let flushed = g.word();
                    flush(g, &wide, &flushed);
                    g.line(format!("mov.b32 {wide}, {flushed}"));
                }
            }
            Element::Fp8 | Element::Bf8 => {
                let bits = g.word();
                g.line(format!("shr.u32 {bits}, {word}, {shift}"));
                let from = if of.element() == Element::Fp8 { NumberType::F8 } else { NumberType::Bf8 };
                super::convert::widen_small(g, from, &bits, &wide);
            }
            _ => g.line(format!("mov.b32 {wide}, {word}")),
        }
        wide
    })
}
