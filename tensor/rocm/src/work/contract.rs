//! Contractions: matrix products and convolutions, with an epilogue for each sum.

use std::ops::Range;

use tensor_core::decompose::is_composed;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::{Accumulation, Operand, PANEL, Step, Work};

use super::folded::Folded;
use super::map::Elements;
use super::plan::{Plan, Target, address, apart};
use super::reduce::After;
use crate::axes::Axes;
use crate::expression::{self, cast, load, store};
use crate::source::{Address, Launch, Writer, element, value_type};

/// Tile sizes: sides of the square of results that one work-group computes.
pub(crate) const TILES: [usize; 4] = [16, 32, 64, 128];
/// Those for matrix instructions.
const MATRIX_TILES: [usize; 3] = [32, 64, 128];
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
    /// Set if zeros around the right operand are not in memory. The last operand of batch, columns and depth are its marks then.
    folded: Option<Folded>,
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
    if it.folded.is_none() && is_composed(&step.work) {
        return apart(plan, step);
    }
    let sums = sum_type(step.inputs[0].dtype);
    let matrix = it.uses_matrix_cores(plan.target, accumulation);
    let division = if matrix { divide_matrix(plan.target, &it) } else { divide(plan.target, &it) };
    let launch = |workspace| match matrix {
        true => it.by_matrix_cores(division, workspace),
        false => it.launch(division, sums, workspace),
    };
    if division.pieces == 1 {
        plan.launches.push(launch(None)?);
        return Ok(());
    }
    let workspace = plan.workspace(it.results() * division.pieces * sums.bytes());
    plan.launches.push(launch(Some(workspace))?);
    plan.launches.push(it.rest(division.pieces, sums, workspace)?);
    Ok(())
}

/// Returns the tuning key of a contraction, and the tile sizes to choose from; `None` for other steps.
pub(crate) fn tuning_key(target: Target, step: &Step) -> Option<(String, &'static [usize])> {
    let Work::Contract { batch, rows, columns, depth, accumulation, epilogue, padding, .. } = &step.work
    else {
        return None;
    };
    let it = Problem::new([*batch, *rows, *columns, *depth], epilogue, step);
    let matrix = it.uses_matrix_cores(target, *accumulation);
    let sizes =
        [&it.batch, &it.rows, &it.columns, &it.depth].map(|axes| axes.elements().to_string()).join("x");
    let near = [it.depth.innermost(0), it.depth.innermost(1)]
        .map(|stride| if stride.abs() == 1 { 'n' } else { 't' });
    let kind = if matrix { "matrix" } else { "contract" };
    let padded = if padding.is_some() { " padded" } else { "" };
    let key = format!("{kind} {} {sizes} {}{}{padded}", step.inputs[0].dtype, near[0], near[1]);
    Some((key, if matrix { &MATRIX_TILES } else { &TILES }))
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

/// Like [`divide`] for matrix instructions, which may add in any order. Smaller tiles than 64 read more than they multiply, so
/// they are only for small matrices; panels are distributed instead.
fn divide_matrix(target: Target, it: &Problem<'_>) -> Division {
    let (batch, rows, columns) = (it.batch.elements(), it.rows.elements(), it.columns.elements());
    let groups = |tile: usize| batch * rows.div_ceil(tile) * columns.div_ceil(tile);
    let chosen = target.tile.filter(|tile| MATRIX_TILES.contains(tile));
    let tile = chosen.unwrap_or(match rows.min(columns) {
        ..=32 => 32,
        _ if groups(128) >= target.compute_units => 128,
        _ => 64,
    });
    let panels = it.depth.elements().div_ceil(PANEL);
    let pieces = if panels >= 4 && groups(tile) * 2 < target.compute_units { panels } else { 1 };
    Division { tile, pieces }
}

/// How a kernel reads a tile of an operand; the names are those of the enumeration in `matrix.hip`.
fn reading(operand: &Operand, side: &Axes, depth: &Axes, number: usize, batch: &Axes) -> &'static str {
    let by_depth = depth.innermost(number).abs() == 1;
    // Every offset must be a multiple of four, except along the axis that is read four at a time.
    let fours = |near: &Axes, near_number: usize, far: &Axes, far_number: usize| {
        let four = |number: isize| number % 4 == 0;
        let inner =
            near.0.last().is_some_and(|axis| axis.strides[near_number] == 1 && axis.length.is_multiple_of(4));
        let outer = near.0.iter().rev().skip(1).all(|axis| four(axis.strides[near_number]));
        let others = far.0.iter().all(|axis| four(axis.strides[far_number]));
        let batches = batch.0.iter().all(|axis| four(axis.strides[number]));
        inner && outer && others && batches && operand.layout.offset.is_multiple_of(4)
    };
    if fours(depth, number, side, 0) {
        "pf::FOUR_DEPTH"
    } else if fours(side, 0, depth, number) {
        "pf::FOUR_ROWS"
    } else if by_depth {
        "pf::DEPTH"
    } else {
        "pf::ROWS"
    }
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        [batch, rows, columns, depth]: [usize; 4],
        epilogue: &'a Program,
        step: &'a Step,
    ) -> Problem<'a> {
        let (left, right, others) = (&step.inputs[0].layout, &step.inputs[1].layout, &step.inputs[2..]);
        let folded = Folded::of_step(step);
        let strides = folded.as_ref().map_or(&right.strides, |folded| &folded.strides);
        // Axes of these operands, of those of the epilogue along the same axes of the result, and of the marks of the right one.
        let of = |shape: &[usize], own: &[&[isize]], result: Range<usize>, marked: Option<&Range<usize>>| {
            let mut operands = own.to_vec();
            if !result.is_empty() {
                operands.extend(others.iter().map(|other| &other.layout.strides[result.clone()]));
            }
            operands.extend(folded.iter().zip(marked).map(|(folded, axes)| &folded.marks[axes.clone()]));
            Axes::new(shape, operands.iter().copied())
        };
        let (b, m, n) = (0..batch, batch..batch + rows, batch..batch + columns);
        let (left_k, right_k) =
            (batch + rows..batch + rows + depth, batch + columns..batch + columns + depth);
        let across = batch + rows..batch + rows + columns;
        let mut it = Problem {
            batch: of(
                &left.shape[b.clone()],
                &[&left.strides[b.clone()], &strides[b.clone()]],
                b.clone(),
                Some(&b),
            ),
            rows: of(&left.shape[m.clone()], &[&left.strides[m.clone()]], m, None),
            columns: of(&right.shape[n.clone()], &[&strides[n.clone()]], across, Some(&n)),
            depth: of(
                &left.shape[left_k.clone()],
                &[&left.strides[left_k], &strides[right_k.clone()]],
                0..0,
                Some(&right_k),
            ),
            step,
            epilogue,
            folded: None,
            wide: false,
        };
        let folded_reach = folded.as_ref().map_or(0, |folded| folded.reach(right));
        it.folded = folded;
        let reaches =
            (0..others.len()).map(|n| it.batch.reach(n + 2) + it.rows.reach(n + 1) + it.columns.reach(n + 1));
        it.wide = Writer::needs_wide(reaches.chain([
            it.batch.reach(0) + it.rows.reach(0) + it.depth.reach(0),
            it.batch.reach(1) + it.columns.reach(0) + it.depth.reach(1),
            it.results(),
            it.depth.elements(),
            folded_reach,
        ]));
        it
    }

    fn results(&self) -> usize {
        self.batch.elements() * self.rows.elements() * self.columns.elements()
    }

    fn others(&self) -> &'a [Operand] {
        &self.step.inputs[2..]
    }

    fn uses_matrix_cores(&self, target: Target, accumulation: Accumulation) -> bool {
        let dtype = self.step.inputs[0].dtype;
        accumulation == Accumulation::Fast
            && target.matrix_cores
            && dtype == self.step.inputs[1].dtype
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
        let operands: Vec<usize> =
            (0..2 + self.others().len() + usize::from(self.folded.is_some())).collect();
        (started, writer.offsets(&self.batch, &operands, "g", "b"))
    }

    /// Writes the functions from an index to an offset: `row`, `column` and `depth`. Offsets of a folded operand have marks.
    fn places(&self, writer: &mut Writer, batch: &[String]) {
        writer.line("const auto row = [&](I i) {");
        let offset = writer.offsets(&self.rows, &[0], "i", "p");
        writer.line(&format!("return (I)({});\n}};", offset[0]));
        writer.line("const auto column = [&](I i) {");
        let Some(folded) = &self.folded else {
            let offset = writer.offsets(&self.columns, &[0], "i", "p");
            writer.line(&format!("return (I)({});\n}};", offset[0]));
            writer.line("const auto depth = [&](I i, I& l, I& r) {");
            let offsets = writer.offsets(&self.depth, &[0, 1], "i", "d");
            writer.line(&format!("l = {};\nr = {};\n}};", offsets[0], offsets[1]));
            return;
        };
        let marks = 1 + self.others().len();
        let offsets = writer.offsets(&self.columns, &[0, marks], "i", "p");
        let (shift, first) = (writer.index(folded.shift), writer.index(folded.first));
        writer.line(&format!(
            "return pf::Spot<I>{{{} + {shift} + {}, (pf::u32)({} + {first} + {})}};\n}};",
            batch[1],
            offsets[0],
            batch[1 + marks],
            offsets[1]
        ));
        writer.line("const auto depth = [&](I i, I& l, pf::Spot<I>& r) {");
        let offsets = writer.offsets(&self.depth, &[0, 1, 2], "i", "d");
        writer.line(&format!(
            "l = {};\nr = pf::Spot<I>{{{}, (pf::u32)({})}};\n}};",
            offsets[0], offsets[1], offsets[2]
        ));
    }

    /// Writes the function `right` of a folded operand: the element at a spot, or zero. `read` is the expression of the element at
    /// `from`, of this type.
    fn folded_right(&self, writer: &mut Writer, folded: &Folded, value: &str, read: &str) {
        let (lengths, limits) = (writer.word(folded.lengths.into()), writer.word(folded.limits.into()));
        writer.line("const auto right = [&](pf::Spot<I> spot) {");
        writer
            .line(&format!("const bool in = pf::inside(spot.mark, (pf::u32){lengths}, (pf::u32){limits});"));
        // The first element within is read for those outside, so that no branch is needed.
        writer.line("const I from = in ? spot.at : (I)0;");
        writer.line(&format!("const {value} there = {read};\nreturn in ? there : ({value})0;\n}};"));
    }

    /// The address of an operand's first element in memory.
    fn base(&self, number: usize) -> Result<Address, DeviceError> {
        let operand = &self.step.inputs[number];
        match &self.step.work {
            Work::Contract { padding: Some(padding), .. } if number == 1 => {
                address(&Operand { layout: padding.within.clone(), ..operand.clone() })
            }
            _ => address(operand),
        }
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

    /// Writes the range of depth of a work-group.
    fn piece(&self, writer: &mut Writer, pieces: usize) {
        let depth = writer.index(self.depth.elements() as isize);
        if pieces == 1 {
            writer.line(&format!("const I from = 0, to = {depth};"));
        } else {
            writer.line(&format!(
                "const I from = piece * {PANEL}, to = {depth} - from < {PANEL} ? {depth} : from + {PANEL};"
            ));
        }
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
        self.places(&mut writer, &batch);
        for (number, name) in ["left", "right"].into_iter().enumerate() {
            let (operand, batch) = (&self.step.inputs[number], &batch[number]);
            let base = writer.address(self.base(number)?);
            if let Some(folded) = self.folded.as_ref().filter(|_| number == 1) {
                let value = cast(sums, operand.dtype, &load(operand.dtype, &base, "from"));
                self.folded_right(&mut writer, folded, value_type(sums), &value);
                continue;
            }
            let value = cast(sums, operand.dtype, &load(operand.dtype, &base, &format!("{batch} + at")));
            writer.line(&format!("const auto {name} = [&](I at) {{ return {value}; }};"));
        }
        self.store(&mut writer, &batch, sums, workspace)?;
        self.piece(&mut writer, pieces);
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
    fn by_matrix_cores(&self, division: Division, workspace: Option<Address>) -> Result<Launch, DeviceError> {
        let Division { tile, pieces } = division;
        let dtype = self.step.inputs[0].dtype;
        let mut writer = Writer::new(self.wide);
        let (groups, batch) = self.open(&mut writer, tile, pieces);
        self.places(&mut writer, &batch);
        let storage = format!("{}::S", element(dtype));
        writer.line(&format!("typedef {storage} Quad __attribute__((ext_vector_type(4)));"));
        for (number, name) in ["left", "right"].into_iter().enumerate() {
            let (base, batch) = (writer.address(self.base(number)?), &batch[number]);
            if let Some(folded) = self.folded.as_ref().filter(|_| number == 1) {
                let read = format!("((const PF_GLOBAL {storage}*){base})[from]");
                self.folded_right(&mut writer, folded, &storage, &read);
                writer.line("const auto right4 = right;");
                continue;
            }
            writer.line(&format!(
                "const auto {name} = [&](I at) {{ return ((const PF_GLOBAL {storage}*){base})[{batch} + at]; }};"
            ));
            writer.line(&format!(
                "const auto {name}4 = [&](I at) {{ return *(const PF_GLOBAL Quad*)((const PF_GLOBAL {storage}*){base} + ({batch} + at)); }};"
            ));
        }
        self.store(&mut writer, &batch, DType::F32, workspace)?;
        self.piece(&mut writer, pieces);
        let [left, right] = [&self.step.inputs[0], &self.step.inputs[1]];
        let left = reading(left, &self.rows, &self.depth, 0, &self.batch);
        let right = match self.folded {
            None => reading(right, &self.columns, &self.depth, 1, &self.batch),
            // Groups of four may be partly outside.
            Some(_) if self.depth.innermost(1).abs() == 1 => "pf::DEPTH",
            Some(_) => "pf::ROWS",
        };
        writer.line(&format!(
            "pf::contract_matrix<{}, {tile}, {left}, {right}>(rows, columns, from, to, tile_row * {tile}, tile_column * {tile}, row, column, depth, left, left4, right, right4, store);\npf::barrier();\n}}",
            element(dtype),
        ));
        Ok(writer.launch("contract_matrix", groups, THREADS))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor_core::layout::Layout;

    use super::*;
    use crate::memory::Imaginary;

    #[test]
    fn tiles_are_read_four_at_a_time_only_where_every_offset_allows_it() {
        let read = |rows: usize, depth: usize, strides: [isize; 2], offset: usize| {
            let layout = Layout { offset, strides: strides[..].into(), ..Layout::contiguous(&[rows, depth]) };
            let operand = Operand { buffer: Arc::new(Imaginary(4096)), layout, dtype: DType::F16 };
            let strides = &operand.layout.strides;
            let axes = |n: usize| Axes::new(&operand.layout.shape[n..=n], [&strides[n..=n]].into_iter());
            reading(&operand, &axes(0), &axes(1), 0, &Axes::default())
        };
        assert_eq!(read(64, 64, [64, 1], 0), "pf::FOUR_DEPTH");
        assert_eq!(read(63, 64, [64, 1], 8), "pf::FOUR_DEPTH");
        assert_eq!(read(64, 64, [64, 1], 2), "pf::DEPTH");
        assert_eq!(read(64, 64, [66, 1], 0), "pf::DEPTH");
        assert_eq!(read(64, 62, [64, 1], 0), "pf::DEPTH");
        assert_eq!(read(64, 63, [1, 64], 0), "pf::FOUR_ROWS");
        assert_eq!(read(63, 64, [1, 64], 0), "pf::ROWS");
        assert_eq!(read(64, 64, [128, 2], 0), "pf::ROWS");
    }
}
