//! Compares matrix operations with products computed element by element from the published register layouts.
//!
//! The layouts (which register and lane holds element i, j, k of which block, and the effects of cbsz, abid and blgp) are those
//! of AMD's matrix instruction calculator. The summation order of the hardware is not published, so float results are checked
//! against an error bound that holds for any order; integer results must be exact.

use isa::{Arch, DataType, ENCODINGS, Element, Encoding, Flags, decode};

use super::machine::{ACCUMULATORS, Machine, REGISTERS};
use super::run;
use isa_reference::exact::{F16, F32, F64, NEAREST, Number};
use isa_reference::random::Random;

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
    fn of(row: &Encoding) -> Shape {
        let dimensions = row.op.name().split('_').find(|part| part.matches('x').count() == 2);
        let mut numbers = dimensions.expect("a shape").split('x').map(|number| {
            let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
            number[..digits].parse::<usize>().expect("a number")
        });
        let [m, n, k] = [0; 3].map(|_| numbers.next().expect("three numbers"));
        Shape { m, n, k, blocks: row.dst.count() as usize * 64 / (m * n) }
    }
}

/// Position of an element: index within the lane's elements, and the lane.
type Place = (usize, usize);

/// Position of element (i, k) of A or (k, i) of B, with `rows` rows and `held` elements per lane.
fn operand_place(rows: usize, blocks: usize, held: usize, block: usize, i: usize, k: usize) -> Place {
    (k % held, (k / held * blocks + block) * rows + i)
}

/// Position of element (i, j) of the result.
fn result_place(shape: Shape, double: bool, block: usize, i: usize, j: usize) -> Place {
    let Shape { m, n, blocks, .. } = shape;
    match (n, double) {
        (4, false) => (i, 4 * block + j),
        (4, true) => (0, 16 * i + 4 * block + j),
        (_, true) => (i / 4, 16 * (i % 4) + j),
        _ => {
            let groups = 64 / n;
            let registers = m * n / 64;
            debug_assert!(registers * blocks <= 32);
            (block * registers + i / (4 * groups) * 4 + i % 4, i / 4 % groups * n + j)
        }
    }
}

/// The lane whose B elements a lane reads instead of its own.
fn lane_of_b(blgp: u32, lane: usize) -> usize {
    match blgp {
        0 => lane,
        1 => lane % 32,
        2 => 32 + lane % 32,
        3 => (lane + 16) % 64,
        _ => 16 * (blgp as usize - 4) + lane % 16,
    }
}

/// Bits of element `e` of a lane.
fn bits(machine: &Machine, first: usize, data_type: DataType, e: usize, lane: usize) -> u64 {
    let width = data_type.element_bits() as usize;
    if width == 64 {
        let at = first + 2 * e;
        return u64::from(machine.v[at][lane]) | u64::from(machine.v[at + 1][lane]) << 32;
    }
    let at = e * width;
    u64::from(machine.v[first + at / 32][lane] >> (at % 32)) & (u64::MAX >> (64 - width))
}

/// Value of an element in a product; `flushes` makes subnormal halves zero.
fn value(bits: u64, data_type: DataType, flushes: bool) -> f64 {
    let exact = |number: Number| f64::from_bits(number.bits(F64, NEAREST));
    let small = |fraction: u32, bias: i32| {
        let (sign, magnitude) = (if bits & 0x80 != 0 { -1.0 } else { 1.0 }, bits & 0x7f);
        let (exponent, rest) = ((magnitude >> fraction) as i32, magnitude & ((1 << fraction) - 1));
        let mantissa = rest as f64 / f64::from(1 << fraction) + if exponent == 0 { 0.0 } else { 1.0 };
        if bits == 0x80 { f64::NAN } else { sign * mantissa * f64::exp2(f64::from(exponent.max(1) - bias)) }
    };
    match (data_type.element(), data_type.element_bits()) {
        (Element::Signed, _) => f64::from(bits as i8),
        (Element::Float, 64) => f64::from_bits(bits),
        (Element::Float, 16) if flushes && F16.is_subnormal(bits) => 0.0,
        (Element::Float, 16) => exact(Number::of(F16, bits)),
        (Element::Brain, _) if flushes && F32.is_subnormal(bits << 16) => 0.0,
        (Element::Brain, _) => exact(Number::of(F32, bits << 16)),
        (Element::Fp8, _) => small(3, 8),
        (Element::Bf8, _) => small(2, 16),
        _ => exact(Number::of(F32, bits)),
    }
}

/// A random operand: ordinary values, or (`tiny`) subnormal ones.
fn fill(random: &mut Random, data_type: DataType, tiny: bool, special: bool) -> u64 {
    let everyday = (random.below(4001) as f64 - 2000.0) / 256.0;
    let sign = random.below(2);
    match (data_type.element(), data_type.element_bits()) {
        (Element::Float, 64) => everyday.to_bits(),
        (Element::Float, 32) if special => random.float(F32),
        (Element::Float, 32) | (Element::Xf32, _) => u64::from((everyday as f32).to_bits()),
        (Element::Float, 16) if special => random.float(F16),
        (Element::Float, 16) if tiny => sign << 15 | random.below(0x400),
        (Element::Float, 16) => Number::of(F64, everyday.to_bits()).bits(F16, NEAREST),
        (Element::Brain, _) if tiny => sign << 15 | random.below(0x80),
        (Element::Brain, _) => u64::from((everyday as f32).to_bits() >> 16),
        // One in 128 of all codes is the NaN, too many for sums of 64 elements.
        (Element::Fp8 | Element::Bf8, _) => sign << 7 | (1 + random.below(0x7f)),
        _ => random.bits(),
    }
}

/// Registers of the operands, which do not overlap.
const A: usize = 0;
const B: usize = 4;
const INDEX: usize = 12;
const RESULT: usize = 14;

/// Encodes the operation on those registers, with the result in vector or accumulation registers.
fn words(row: &Encoding, arch: Arch, controls: [u32; 3], accumulators: bool) -> [u32; 2] {
    let [cbsz, abid, blgp] = controls;
    let opcode = u32::from(row.opcode(arch).expect("an operation of the architecture"));
    let sparse = row.flags.has(Flags::SMFMAC);
    let result = if accumulators { 0 } else { RESULT as u32 };
    let third = if sparse { INDEX as u32 } else { result };
    [
        0xd380_0000 | opcode << 16 | result | cbsz << 8 | abid << 11 | u32::from(accumulators) << 15,
        256 | A as u32 | (256 | B as u32) << 9 | (256 | third) << 18 | blgp << 29,
    ]
}

fn check(random: &mut Random, arch: Arch, row: &Encoding) -> Result<(), String> {
    let shape = Shape::of(row);
    let Shape { m, n, k, blocks } = shape;
    let sparse = row.flags.has(Flags::SMFMAC);
    let (a_type, b_type) = (row.src[0], row.src[1]);
    let double = a_type.element_bits() == 64;
    let integer = a_type.element() == Element::Signed;
    let flushes = arch == Arch::Gfx90a && a_type.element_bits() == 16;
    let (a_held, b_held) = (a_type.count() as usize, b_type.count() as usize);
    assert_eq!(a_held * 64, m * k * blocks / if sparse { 2 } else { 1 }, "{}", row.op.name());
    assert_eq!(b_held * 64, k * n * blocks, "{}", row.op.name());
    // Broadcasts of A exist if there are several blocks; those of B for all but doubles, where the field negates operands.
    let broadcasts = if double { 0 } else { u64::from(blocks.trailing_zeros()) };
    let cbsz = if sparse { random.below(2) } else { random.below(broadcasts + 1) } as u32;
    let abid = if sparse { random.below(2) } else { random.below(1 << cbsz) } as u32;
    let blgp = if sparse { 0 } else { random.below(8) } as u32;
    let accumulators = random.chance(2);
    let words = words(row, arch, [cbsz, abid, blgp], accumulators);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(arch, &bytes).map_err(|error| format!("{}: {error}", row.op.name()))?;
    let (tiny, special) = (random.chance(4), random.chance(6));

    let mut start = run::blank(arch);
    let mut put = |first: usize, data_type: DataType, random: &mut Random, tiny: bool| {
        let width = data_type.element_bits() as usize;
        for lane in 0..64 {
            for e in 0..data_type.count() as usize {
                let bits = fill(random, data_type, tiny, special);
                for part in 0..width.div_ceil(32) {
                    let at = e * width + 32 * part;
                    let mask = (u64::MAX >> (64 - width.min(32))) as u32;
                    let register = &mut start.v[first + at / 32][lane];
                    let dword = (bits >> (32 * part)) as u32 & mask;
                    *register = *register & !(mask << (at % 32)) | dword << (at % 32);
                }
            }
        }
    };
    let result = if accumulators { ACCUMULATORS } else { RESULT };
    put(A, a_type, random, tiny);
    put(B, b_type, random, false);
    put(result, row.dst, random, false);
    for lane in 0..64 {
        // In each pair of stored elements, the first comes before the second.
        start.v[INDEX][lane] = (0..8)
            .map(|_| random.pick(&[0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]))
            .fold(0, |all, pair: u32| all << 4 | pair);
    }
    let got = run::emulate(run::level(random), &start, &inst)?;

    for block in 0..blocks {
        let block_of_a = if sparse { 0 } else { (block >> cbsz << cbsz) + abid as usize };
        for i in 0..m {
            for j in 0..n {
                let (e, lane) = result_place(shape, double, block, i, j);
                let sign = |n: u32| if double && blgp >> n & 1 == 1 { -1.0 } else { 1.0 };
                let c = sign(2) * wide(bits(&start, result, row.dst, e, lane), row.dst);
                let (mut sum, mut size) = (c, c.abs());
                for step in 0..k {
                    let left = if sparse {
                        stored(&start, shape, a_type, a_held, (cbsz, abid), i, step)
                    } else {
                        let (e, lane) = operand_place(m, blocks, a_held, block_of_a, i, step);
                        value(bits(&start, A, a_type, e, lane), a_type, flushes)
                    };
                    let (e, lane) = operand_place(n, blocks, b_held, block, j, step);
                    let lane = if double { lane } else { lane_of_b(blgp, lane) };
                    let right = value(bits(&start, B, b_type, e, lane), b_type, flushes);
                    // A zero that sparsity omits is not multiplied.
                    let Some(left) = left.into_option() else { continue };
                    let product = sign(0) * left * (sign(1) * right);
                    sum += product;
                    size += product.abs();
                }
                let found = bits(&got, result, row.dst, e, lane);
                let fits = if integer {
                    found as u32 == (sum as i64) as u32
                } else {
                    near(wide(found, row.dst), sum, size, a_type, flushes)
                };
                if !fits {
                    return Err(format!(
                        "{arch:?} {} cbsz {cbsz} abid {abid} blgp {blgp}: block {block} row {i} column {j}: got {:e}, want {sum:e}",
                        row.op.name(),
                        wide(found, row.dst)
                    ));
                }
            }
        }
    }
    // No other register changed.
    let registers = row.dst.dwords() as usize;
    for register in (0..REGISTERS).filter(|at| !(result..result + registers).contains(at)) {
        if got.v[register] != start.v[register] {
            return Err(format!("{arch:?} {}: register {register} changed", row.op.name()));
        }
    }
    Ok(())
}

/// A dense element is always present, a sparse one may be absent.
trait Maybe {
    fn into_option(self) -> Option<f64>;
}

impl Maybe for f64 {
    fn into_option(self) -> Option<f64> {
        // Absent elements are marked by a dedicated NaN.
        (self.to_bits() != ABSENT).then_some(self)
    }
}

const ABSENT: u64 = 0x7ff8_dead_0000_0000;

/// Element (i, k) of a matrix that stores two of every four elements; the index register selects which two.
fn stored(
    machine: &Machine,
    shape: Shape,
    data_type: DataType,
    held: usize,
    (cbsz, abid): (u32, u32),
    i: usize,
    k: usize,
) -> f64 {
    let set = if cbsz == 0 { abid as usize * 2 * held % 32 } else { 0 };
    let mut found = f64::from_bits(ABSENT);
    for s in [k / 4 * 2, k / 4 * 2 + 1] {
        let (e, lane) = (s % held, s / held * shape.m + i);
        let place = machine.v[INDEX][lane] >> (set + 2 * e) & 3;
        if place as usize == k % 4 {
            found = value(bits(machine, A, data_type, e, lane), data_type, false);
        }
    }
    found
}

fn wide(bits: u64, data_type: DataType) -> f64 {
    match (data_type.element(), data_type.element_bits()) {
        (Element::Signed, _) => f64::from(bits as u32 as i32),
        (_, 64) => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// Whether a sum is possible for some summation order; `size` is the sum of the magnitudes.
fn near(got: f64, want: f64, size: f64, a_type: DataType, flushes: bool) -> bool {
    let double = a_type.element_bits() == 64;
    if !want.is_finite() || !double && size > f64::from(f32::MAX) {
        // An intermediate overflow may produce anything but an ordinary number.
        return want.is_finite() || got.is_nan() || got == want || !got.is_finite();
    }
    let precision = match a_type.element() {
        Element::Xf32 => f64::exp2(-9.0),
        _ if double => f64::exp2(-49.0),
        _ => f64::exp2(-18.0),
    };
    let smallest = if flushes { f64::from(f32::MIN_POSITIVE) } else { f64::from(f32::from_bits(64)) };
    (got - want).abs() <= size * precision + if double { 0.0 } else { smallest }
}

#[test]
fn matrix_operations_match_the_published_layouts() {
    let mut failures = Vec::new();
    let mut operations = 0;
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        let matrices = ENCODINGS
            .iter()
            .filter(|row| row.flags.has(Flags::MFMA | Flags::SMFMAC) && row.opcode(arch).is_some());
        for row in matrices {
            operations += 1;
            let mut random = Random::new(row.op as u64 + 7);
            for _ in 0..12 {
                if let Err(difference) = check(&mut random, arch, row) {
                    failures.push(difference);
                    break;
                }
            }
        }
    }
    assert!(operations > 70, "{operations} operations");
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
