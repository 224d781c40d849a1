//! Contractions: matrix products and convolutions, with an epilogue for each sum.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::{Accumulation, Operand, PANEL, Step, Work};

use super::map::Elements;
use super::plan::{Plan, Target, address};
use super::reduce::After;
use crate::axes::Axes;
use crate::expression::{self, cast, load, store};
use crate::source::{Address, Launch, Writer, element, value_type};

/// Tile sizes: sides of the square of results that one work-group computes.
pub(crate) const TILES: [usize; 4] = [16, 32, 64, 128];
const THREADS: u32 = 256;

/// A contraction with its axes sorted and merged.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    /// Axes of left, right and all others.
    pub batch: Axes,
    /// Axes of left and all others.
    pub rows: Axes,
    /// Axes of right and all others.
    pub columns: Axes,
    /// Axes of left and right.
    pub depth: Axes,
    pub step: &'a Step,
    epilogue: &'a Program,
    /// Whether indices need 64 bits.
    pub wide: bool,
}

/// How the work is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    tile: usize,
    /// Number of panels computed by separate work-groups and added by another launch; 1 if each group computes the whole depth.
    pieces: usize,
}

pub(super) fn plan(
    plan: &mut Plan,
    groups: [usize; 4],
    accumulation: Accumulation,
    epilogue: &Program,
    step: &Step,
) -> Result<(), DeviceError> {
    let it = Problem::new(groups, epilogue, step);
    let sums = sum_type(step.inputs[0].dtype);
    let division = divide(plan.target, &it);
    if accumulation == Accumulation::Fast && plan.target.matrix_cores && it.fits_matrix_cores() {
        let launch = it.by_matrix_cores()?;
        plan.launches.push(launch);
        return Ok(());
    }
    if division.pieces == 1 {
        plan.launches.push(it.launch(division, sums, None)?);
        return Ok(());
    }
    let workspace = plan.workspace(it.results() * division.pieces * sums.bytes());
    plan.launches.push(it.launch(division, sums, Some(workspace))?);
    plan.launches.push(it.rest(division.pieces, sums, workspace)?);
    Ok(())
}

/// Returns the tuning key of a contraction; `None` if there is only one way to compute it.
pub(crate) fn tuning_key(target: Target, step: &Step) -> Option<String> {
    let Work::Contract { batch, rows, columns, depth, accumulation, epilogue } = &step.work else {
        return None;
    };
    let it = Problem::new([*batch, *rows, *columns, *depth], epilogue, step);
    if *accumulation == Accumulation::Fast && target.matrix_cores && it.fits_matrix_cores() {
        return None;
    }
    let sizes =
        [&it.batch, &it.rows, &it.columns, &it.depth].map(|axes| axes.elements().to_string()).join("x");
    let near = [it.depth.innermost(0), it.depth.innermost(1)]
        .map(|stride| if stride.abs() == 1 { 'n' } else { 't' });
    Some(format!("contract {} {sizes} {}{}", step.inputs[0].dtype, near[0], near[1]))
}

/// The accumulator type.
fn sum_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Chooses the largest tile that keeps the whole device busy; if even small tiles do not, panels are distributed too.
fn divide(target: Target, it: &Problem<'_>) -> Division {
    let (batch, rows, columns) = (it.batch.elements(), it.rows.elements(), it.columns.elements());
    let groups = |tile: usize| batch * rows.div_ceil(tile) * columns.div_ceil(tile);
    let fits = |&tile: &usize| groups(tile) >= target.compute_units && tile <= 64;
    let tile = target.tile.unwrap_or_else(|| TILES.into_iter().rev().find(fits).unwrap_or(TILES[0]));
    let panels = it.depth.elements().div_ceil(PANEL);
    let pieces = if panels >= 4 && groups(tile) * 2 < target.compute_units { panels } else { 1 };
    Division { tile, pieces }
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        [batch, rows, columns, depth]: [usize; 4],
        epilogue: &'a Program,
        step: &'a Step,
    ) -> Problem<'a> {
        let (left, right, others) = (&step.inputs[0].layout, &step.inputs[1].layout, &step.inputs[2..]);
        let with = |shape: &[usize], mut all: Vec<&'a [isize]>, from: usize, count: usize| {
            all.extend(others.iter().map(|other| &other.layout.strides[from..from + count]));
            Axes::new(shape, all.iter().copied())
        };
        let (m, n) = (batch..batch + rows, batch..batch + columns);
        let (left_k, right_k) =
            (batch + rows..batch + rows + depth, batch + columns..batch + columns + depth);
        let mut it = Problem {
            batch: with(
                &left.shape[..batch],
                vec![&left.strides[..batch], &right.strides[..batch]],
                0,
                batch,
            ),
            rows: with(&left.shape[m.clone()], vec![&left.strides[m]], batch, rows),
            columns: with(&right.shape[n.clone()], vec![&right.strides[n]], batch + rows, columns),
            depth: Axes::new(
                &left.shape[left_k.clone()],
                [&left.strides[left_k], &right.strides[right_k]].into_iter(),
            ),
            step,
            epilogue,
            wide: false,
        };
        let reaches =
            (0..others.len()).map(|n| it.batch.reach(n + 2) + it.rows.reach(n + 1) + it.columns.reach(n + 1));
        it.wide = Writer::needs_wide(reaches.chain([
            it.batch.reach(0) + it.rows.reach(0) + it.depth.reach(0),
            it.batch.reach(1) + it.columns.reach(0) + it.depth.reach(1),
            it.results(),
            it.depth.elements(),
        ]));
        it
    }

    fn results(&self) -> usize {
        self.batch.elements() * self.rows.elements() * self.columns.elements()
    }

    fn others(&self) -> &'a [Operand] {
        &self.step.inputs[2..]
    }

    fn fits_matrix_cores(&self) -> bool {
        let dtype = self.step.inputs[0].dtype;
        dtype == self.step.inputs[1].dtype
            && matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
            && self.rows.elements() >= 16
            && self.columns.elements() >= 16
    }

    /// Opens the loop over work-groups; afterwards `g` is the batch index. Returns the group count and the batch offsets of the
    /// operands.
    fn open(&self, writer: &mut Writer, tile: usize, pieces: usize) -> (usize, Vec<String>) {
        let (rows, columns) = (self.rows.elements(), self.columns.elements());
        let tiles = [columns.div_ceil(tile), rows.div_ceil(tile), pieces];
        let groups = self.batch.elements() * tiles.iter().product::<usize>();
        let started = groups.clamp(1, 1 << 22);
        let (end, stride) = (writer.index(groups as isize), writer.index(started as isize));
        let [rows, columns] = [rows, columns].map(|length| writer.index(length as isize));
        writer.line(&format!("const I rows = {rows}, columns = {columns};"));
        writer.line(&format!("for (I all = (I)pf::group(); all < {end}; all += {stride}) {{\nI g = all;"));
        for (name, length) in ["tile_column", "tile_row", "piece"].into_iter().zip(tiles) {
            let (length, magic) = (writer.word(length as u64), writer.word(crate::axes::magic(length)));
            writer.line(&format!("const I {name} = pf::split(g, {length}, {magic});"));
        }
        let operands: Vec<usize> = (0..2 + self.others().len()).collect();
        (started, writer.offsets(&self.batch, &operands, "g", "b"))
    }

    /// Writes the functions from an index to an offset: `row`, `column` and `depth`.
    fn places(&self, writer: &mut Writer) {
        for (name, axes) in [("row", &self.rows), ("column", &self.columns)] {
            writer.line(&format!("const auto {name} = [&](I i) {{"));
            let offset = writer.offsets(axes, &[0], "i", "p");
            writer.line(&format!("return (I)({});\n}};", offset[0]));
        }
        writer.line("const auto depth = [&](I i, I& l, I& r) {");
        let offsets = writer.offsets(&self.depth, &[0, 1], "i", "d");
        writer.line(&format!("l = {};\nr = {};\n}};", offsets[0], offsets[1]));
    }

    /// Writes the function `store`, which applies the epilogue or writes to a workspace.
    fn store(
        &self,
        writer: &mut Writer,
        batch: &[String],
        sums: DType,
        workspace: Option<Address>,
    ) -> Result<(), DeviceError> {
        writer.line(&format!("const auto store = [&](I m, I n, {} sum) {{", value_type(sums)));
        writer.line("const I o = (g * rows + m) * columns + n;");
        if let Some(workspace) = workspace {
            let base = writer.address(workspace);
            let results = writer.index(self.results() as isize);
            writer.line(&store(sums, &base, &format!("(pf::i64)piece * (pf::i64){results} + o"), "sum"));
        } else {
            let operands: Vec<usize> = (1..=self.others().len()).collect();
            let rows = writer.offsets(&self.rows, &operands, "m", "m");
            let columns = writer.offsets(&self.columns, &operands, "n", "n");
            let offsets: Vec<String> = (0..operands.len())
                .map(|number| format!("{} + {} + {}", batch[number + 2], rows[number], columns[number]))
                .collect();
            self.finish(writer, &offsets, sums)?;
        }
        writer.line("};");
        Ok(())
    }

    /// Writes the epilogue of `sum` for the result at `o`.
    fn finish(&self, writer: &mut Writer, offsets: &[String], sums: DType) -> Result<(), DeviceError> {
        let output = &self.step.outputs[0];
        let mut elements = Vec::new();
        for (other, offset) in self.others().iter().zip(offsets) {
            elements.push((writer.address(address(other)?), offset.clone(), other.dtype));
        }
        let others = Elements { inputs: &elements, index: "o", shape: &output.layout.shape };
        let results = expression::write(writer, self.epilogue, "w", &After { value: ("sum", sums), others });
        for (output, (value, from)) in self.step.outputs.iter().zip(&results) {
            let base = writer.address(address(output)?);
            writer.line(&store(output.dtype, &base, "o", &cast(output.dtype, *from, value)));
        }
        Ok(())
    }

    fn launch(
        &self,
        division: Division,
        sums: DType,
        workspace: Option<Address>,
    ) -> Result<Launch, DeviceError> {
        let Division { tile, pieces } = division;
        let mut writer = Writer::new(self.wide);
        let (groups, batch) = self.open(&mut writer, tile, pieces);
        self.places(&mut writer);
        for (name, operand, batch) in
            [("left", &self.step.inputs[0], &batch[0]), ("right", &self.step.inputs[1], &batch[1])]
        {
            let base = writer.address(address(operand)?);
            let value = cast(sums, operand.dtype, &load(operand.dtype, &base, &format!("{batch} + at")));
            writer.line(&format!("const auto {name} = [&](I at) {{ return {value}; }};"));
        }
        self.store(&mut writer, &batch, sums, workspace)?;
        let depth = writer.index(self.depth.elements() as isize);
        if pieces == 1 {
            writer.line(&format!("const I from = 0, to = {depth};"));
        } else {
            writer.line(&format!(
                "const I from = piece * {PANEL}, to = {depth} - from < {PANEL} ? {depth} : from + {PANEL};"
            ));
        }
        writer.line(&format!(
            "pf::contract<{}, {tile}, {tile}, {}, {}>(rows, columns, from, to, tile_row * {tile}, tile_column * {tile}, row, column, depth, left, right, store);\npf::barrier();\n}}",
            element(sums),
            self.depth.innermost(0).abs() == 1,
            self.depth.innermost(1).abs() == 1,
        ));
        Ok(writer.launch("contract", groups, THREADS))
    }

    /// The launch that adds the pieces, in their order.
    fn rest(&self, pieces: usize, sums: DType, workspace: Address) -> Result<Launch, DeviceError> {
        let output = &self.step.outputs[0];
        let shape = &output.layout.shape;
        let axes = Axes::new(shape, self.others().iter().map(|other| &other.layout.strides[..]));
        let mut writer = Writer::new(self.wide);
        let results = self.results();
        let groups = results.div_ceil(THREADS as usize).clamp(1, 1 << 14);
        let (end, stride) =
            (writer.index(results as isize), writer.index((groups * THREADS as usize) as isize));
        let (base, pieces) = (writer.address(workspace), writer.index(pieces as isize));
        writer.line(&format!(
            "for (I o = (I)pf::group() * {THREADS} + (I)pf::lane(); o < {end}; o += {stride}) {{"
        ));
        let value = value_type(sums);
        writer.line(&format!("{value} sum = {};", load(sums, &base, "o")));
        let next = load(sums, &base, &format!("(pf::i64)p * (pf::i64){end} + o"));
        writer.line(&format!("for (I p = 1; p < {pieces}; p++) sum = ({value})(sum + {next});"));
        let operands: Vec<usize> = (0..self.others().len()).collect();
        let offsets = writer.offsets(&axes, &operands, "o", "e");
        self.finish(&mut writer, &offsets, sums)?;
        writer.line("}");
        Ok(writer.launch("contract_rest", groups, THREADS))
    }

    /// The launch with matrix instructions (MFMA), which add in their own order.
    fn by_matrix_cores(&self) -> Result<Launch, DeviceError> {
        let dtype = self.step.inputs[0].dtype;
        let mut writer = Writer::new(self.wide);
        let (groups, batch) = self.open(&mut writer, 64, 1);
        self.places(&mut writer);
        let storage = format!("{}::S", element(dtype));
        for (name, operand, batch) in
            [("left", &self.step.inputs[0], &batch[0]), ("right", &self.step.inputs[1], &batch[1])]
        {
            let base = writer.address(address(operand)?);
            writer.line(&format!(
                "const auto {name} = [&](I at) {{ return ((const PF_GLOBAL {storage}*){base})[{batch} + at]; }};"
            ));
        }
        self.store(&mut writer, &batch, DType::F32, None)?;
        let depth = writer.index(self.depth.elements() as isize);
        writer.line(&format!(
            "pf::contract_matrix<{}, {}, {}>(rows, columns, {depth}, tile_row * 64, tile_column * 64, row, column, depth, left, right, store);\npf::barrier();\n}}",
            element(dtype),
            self.depth.innermost(0).abs() == 1,
            self.depth.innermost(1).abs() == 1,
        ));
        Ok(writer.launch("contract_matrix", groups, THREADS))
    }
}
