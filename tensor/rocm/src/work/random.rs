//! Random numbers, identical on every device.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::random::per_block;
use tensor_core::step::{Distribution, Step};

use super::plan::{Plan, address};
use crate::expression::{cast, store};
use crate::source::Writer;
use crate::symbolic;

const THREADS: u32 = 256;

pub(super) fn plan(plan: &mut Plan, distribution: Distribution, step: &Step) -> Result<(), DeviceError> {
    let output = &step.outputs[0];
    let (dtype, count) = (output.dtype, output.layout.elements());
    let per_block = per_block(dtype, distribution) as usize;
    let blocks = count.div_ceil(per_block);
    let mut writer = Writer::new(Writer::needs_wide([count + 4]));
    let groups = blocks.div_ceil(THREADS as usize).clamp(1, 1 << 14);
    let [blocks, stride, count] =
        [blocks, groups * THREADS as usize, count].map(|number| writer.index(number as isize));
    let [seed, offset] = [symbolic::SEED, symbolic::OFFSET].map(|word| writer.address(word));
    let base = writer.address(address(output)?);
    writer.line(&format!(
        "for (I b = (I)pf::group() * {THREADS} + (I)pf::lane(); b < {blocks}; b += {stride}) {{"
    ));
    writer.line(&format!("const pf::Four four = pf::philox({seed}, {offset} + (pf::u64)b);"));
    let values: Vec<(String, DType)> = match distribution {
        Distribution::Integers { low, high } => {
            let (low, high) = (writer.word(low as u64), writer.word(high as u64));
            let range = format!("(pf::i64){low}, (pf::i64){high}");
            let of =
                |x: usize, y: usize| (format!("pf::integer(four.w[{x}], four.w[{y}], {range})"), DType::I64);
            vec![of(0, 1), of(2, 3)]
        }
        Distribution::Uniform if dtype == DType::F64 => {
            let of = |x: usize, y: usize| (format!("pf::uniform_f64(four.w[{x}], four.w[{y}])"), DType::F64);
            vec![of(0, 1), of(2, 3)]
        }
        Distribution::Uniform => (0..4)
            .map(|word| {
                let uniform = format!("pf::uniform_f32(four.w[{word}])");
                match dtype {
                    DType::F16 => (format!("pf::down_f16({uniform})"), DType::F16),
                    DType::BF16 => (format!("pf::down_bf16({uniform})"), DType::BF16),
                    _ => (uniform, DType::F32),
                }
            })
            .collect(),
        Distribution::Normal if dtype == DType::F64 => {
            writer.line("const pf::Two two = pf::normal_pair_f64(four);");
            vec![("two.x".to_owned(), DType::F64), ("two.y".to_owned(), DType::F64)]
        }
        Distribution::Normal => {
            writer.line("const pf::Two one = pf::normal_pair(four.w[0], four.w[1]), two = pf::normal_pair(four.w[2], four.w[3]);");
            ["one.x", "one.y", "two.x", "two.y"].map(|name| (format!("(float){name}"), DType::F32)).to_vec()
        }
    };
    for (number, (value, from)) in values.iter().enumerate() {
        let at = format!("b * {per_block} + {number}");
        writer.line(&format!("if ({at} < {count}) {}", store(dtype, &base, &at, &cast(dtype, *from, value))));
    }
    writer.line("}");
    plan.launches.push(writer.launch("random", groups, THREADS));
    Ok(())
}
