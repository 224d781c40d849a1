//! Attention and its gradients as one kernel each for queries and keys, where the GPU has matrix instructions; else as the products
//! and exponentials that they are.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::step::{Operand, Step, Work};

use super::plan::{Plan, address, apart};
use crate::axes::Axes;
use crate::source::{Address, Writer, element, word_of};

/// Rows of queries or keys that one work-group computes.
const ROWS: usize = 64;

/// The widest heads that the kernels take.
const WIDEST: usize = 128;

/// Whether operands of these types are possible.
pub(super) fn supports(dtypes: &[DType]) -> bool {
    matches!(dtypes.first(), Some(DType::F32 | DType::F16 | DType::BF16))
}

/// Adds the launches of an attention step or of its gradient.
pub(super) fn plan(plan: &mut Plan, step: &Step) -> Result<(), DeviceError> {
    let fits = step.inputs[0].layout.shape[3] <= WIDEST;
    if !(plan.target.matrix_cores && fits) {
        return apart(plan, step);
    }
    match step.work {
        Work::Attention { causal, scale } => forward(plan, step, causal, scale),
        Work::AttentionGradient { causal, scale } => backward(plan, step, causal, scale),
        _ => Err(DeviceError::Unsupported("this is no attention".to_owned())),
    }
}

/// A kernel over blocks of rows of every head.
struct Kernel<'a> {
    writer: Writer,
    step: &'a Step,
    /// The first element of each operand of a head.
    bases: Vec<String>,
    groups: usize,
}

impl<'a> Kernel<'a> {
    /// Opens the loop over blocks of `rows` rows of every head. The operands are the inputs, then the outputs.
    fn open(step: &'a Step, rows: usize) -> Kernel<'a> {
        let operands: Vec<&Operand> = step.inputs.iter().chain(&step.outputs).collect();
        let heads = Axes::new(
            &operands[0].layout.shape[..2],
            operands.iter().map(|operand| &operand.layout.strides[..2]),
        );
        let reach = |operand: &&Operand| {
            let layout = &operand.layout;
            let sizes = layout.shape.iter().zip(&layout.strides);
            sizes.map(|(&length, &stride)| length.saturating_sub(1) * stride.unsigned_abs()).sum::<usize>()
        };
        let mut writer = Writer::new(Writer::needs_wide(operands.iter().map(reach)));
        let blocks = rows.div_ceil(ROWS);
        let groups = heads.elements() * blocks;
        let started = groups.clamp(1, 1 << 22);
        let (end, stride) = (writer.index(groups as isize), writer.index(started as isize));
        writer.line(&format!("for (I all = (I)pf::group(); all < {end}; all += {stride}) {{\nI g = all;"));
        let (length, magic) = (writer.word(blocks as u64), writer.word(crate::axes::magic(blocks)));
        writer.line(&format!("const I row0 = pf::split(g, {length}, {magic}) * {ROWS};"));
        let numbers: Vec<usize> = (0..operands.len()).collect();
        let bases = writer.offsets(&heads, &numbers, "g", "h");
        Kernel { writer, step, bases, groups: started }
    }

    fn operand(&self, number: usize) -> &'a Operand {
        self.step.inputs.iter().chain(&self.step.outputs).nth(number).unwrap_or(&self.step.inputs[0])
    }

    /// The offset of an element at row `i` and column `j` of a head.
    fn at(&mut self, number: usize, column: bool) -> String {
        let strides = self.operand(number).layout.strides.clone();
        let row = self.writer.index(strides[2]);
        let mut at = format!("{} + i * {row}", self.bases[number]);
        if column {
            let step = self.writer.index(strides[3]);
            at = format!("{at} + j * {step}");
        }
        at
    }

    /// Writes a function that reads an element as it is in memory.
    fn reads(&mut self, name: &str, number: usize) -> Result<(), DeviceError> {
        let operand = self.operand(number);
        let base = self.writer.address(address(operand)?);
        let at = self.at(number, true);
        let storage = format!("{}::S", element(operand.dtype));
        self.writer.line(&format!(
            "const auto {name} = [&](I i, I j) {{ return ((const PF_GLOBAL {storage}*){base})[{at}]; }};"
        ));
        Ok(())
    }

    /// Writes a function that stores a float.
    fn stores(&mut self, name: &str, number: usize) -> Result<(), DeviceError> {
        let operand = self.operand(number);
        let base = self.writer.address(address(operand)?);
        let at = self.at(number, true);
        let element = element(operand.dtype);
        self.writer.line(&format!(
            "const auto {name} = [&](I i, I j, float y) {{ pf::put<{element}>({base}, {at}, y); }};"
        ));
        Ok(())
    }

    /// Writes functions for a float of each row.
    fn row(&mut self, name: &str, base: Address, at: &str, stores: bool) {
        let base = self.writer.address(base);
        self.writer.line(&match stores {
            true => {
                format!("const auto {name} = [&](I i, float y) {{ pf::put<pf::F32>({base}, {at}, y); }};")
            }
            false => format!("const auto {name} = [&](I i) {{ return pf::get<pf::F32>({base}, {at}); }};"),
        });
    }

    /// The template arguments, and the first arguments of each function.
    fn arguments(&mut self, small: bool, causal: bool, scale: f64) -> String {
        let (q, k) = (&self.step.inputs[0], &self.step.inputs[1]);
        let wide = q.layout.shape[3];
        // What fits into shared memory; see the tiles in `attention.hip`.
        let block = match (q.dtype == DType::F32, small) {
            (true, false) => 32,
            (true, true) => 16,
            (false, false) => 64,
            (false, true) => 32,
        };
        let (queries, keys) = (q.layout.shape[2] as isize, k.layout.shape[2] as isize);
        let (queries, keys) = (self.writer.index(queries), self.writer.index(keys));
        let width = self.writer.word(wide as u64);
        let scale = self.writer.word(word_of(DType::F32, tensor_core::dtype::Scalar::Float(scale)));
        format!(
            "<{}, {}, {block}, {causal}>({queries}, {keys}, (int){width}, pf::bits<float>((pf::u32){scale}), row0",
            element(q.dtype),
            wide.div_ceil(16).max(1) * 16
        )
    }

    fn close(mut self, plan: &mut Plan, family: &'static str) {
        self.writer.line("pf::barrier();\n}");
        plan.launches.push(self.writer.launch(family, self.groups, 256));
    }
}

fn forward(plan: &mut Plan, step: &Step, causal: bool, scale: f64) -> Result<(), DeviceError> {
    let mut kernel = Kernel::open(step, step.inputs[0].layout.shape[2]);
    for (number, name) in ["q", "k", "v"].into_iter().enumerate() {
        kernel.reads(name, number)?;
    }
    kernel.stores("store", 3)?;
    for (number, name) in [(4, "keep_highest"), (5, "keep_share")] {
        let at = kernel.at(number, false);
        kernel.row(name, address(kernel.operand(number))?, &at, true);
    }
    let arguments = kernel.arguments(false, causal, scale);
    kernel.writer.line(&format!("pf::attention{arguments}, q, k, v, store, keep_highest, keep_share);"));
    kernel.close(plan, "attention");
    Ok(())
}

fn backward(plan: &mut Plan, step: &Step, causal: bool, scale: f64) -> Result<(), DeviceError> {
    let queries = step.inputs[0].layout.shape[2];
    let heads = step.inputs[0].layout.shape[..2].iter().product::<usize>();
    let delta = plan.workspace(heads * queries * DType::F32.bytes());
    for of_keys in [false, true] {
        let rows = step.inputs[usize::from(of_keys)].layout.shape[2];
        let mut kernel = Kernel::open(step, rows);
        for (number, name) in ["q", "k", "v", "o"].into_iter().enumerate() {
            kernel.reads(name, number)?;
        }
        for (number, name) in [(4, "highest"), (5, "share")] {
            let at = kernel.at(number, false);
            kernel.row(name, address(kernel.operand(number))?, &at, false);
        }
        kernel.reads("g_", 6)?;
        let length = kernel.writer.index(queries as isize);
        kernel.row("delta", delta, &format!("g * {length} + i"), !of_keys);
        if of_keys {
            kernel.stores("store_key", 8)?;
            kernel.stores("store_value", 9)?;
        } else {
            kernel.stores("store", 7)?;
        }
        let arguments = kernel.arguments(true, causal, scale);
        let (line, family) = if of_keys {
            (
                format!(
                    "pf::attention_of_keys{arguments}, q, k, v, g_, highest, share, delta, store_key, store_value);"
                ),
                "attention_of_keys",
            )
        } else {
            (
                format!(
                    "pf::attention_of_queries{arguments}, q, k, v, o, g_, highest, share, store, delta);"
                ),
                "attention_of_queries",
            )
        };
        kernel.writer.line(&line);
        kernel.close(plan, family);
    }
    Ok(())
}
