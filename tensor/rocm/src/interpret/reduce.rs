//! Reductions and contractions without programs.

use tensor_core::error::DeviceError;
use tensor_core::step::Operand;

use super::family::{family, named, set_all, set_operand, set_walks};
use super::table::{Table, inverse};
use super::{stored, temporary};
use crate::axes::Axes;
use crate::source::Writer;
use crate::work::{Division, Plan, Problem, Reduce, merged};

/// The tile size of contractions.
const TILE: usize = 32;

/// One launch of a reduction: `pieces` parts of every result, each by `threads` threads.
#[derive(Clone, Copy)]
struct Pass {
    reduction: u64,
    pieces: usize,
    threads: u32,
}

pub(super) fn reduce(
    plan: &mut Plan,
    it: Reduce<'_>,
    division: Division,
    source: &Operand,
    output: &Operand,
) -> Result<(), DeviceError> {
    let reduction = it.reduction as u64;
    let (pieces, threads) = match division {
        Division::Thread => (1, 1),
        Division::Group(threads) => (1, threads),
        Division::Groups(pieces) => (pieces, 256),
    };
    let pass = Pass { reduction, pieces, threads };
    if pieces == 1 {
        return pass.launch(plan, it.axes, source, output);
    }
    // Each work-group writes a partial result; a second launch reduces those.
    let partial = temporary(plan, &[output.layout.elements(), pieces], stored(source.dtype));
    pass.launch(plan, it.axes, source, &partial)?;
    Pass { reduction, pieces: 1, threads: 64 }.launch(plan, &[1], &partial, output)
}

impl Pass {
    fn launch(
        self,
        plan: &mut Plan,
        axes: &[usize],
        from: &Operand,
        to: &Operand,
    ) -> Result<(), DeviceError> {
        let Pass { reduction, pieces, threads } = self;
        let name = named(family!("reduce"), from.dtype)?;
        let [kept, reduced] = merged(&[from], axes);
        let (results, length) = (kept.elements(), reduced.elements());
        let wide = Writer::needs_wide([kept.reach(0) + reduced.reach(0), results, length, results * 256]);
        let groups = if threads == 1 { results.div_ceil(256) } else { results * pieces }.clamp(1, 1 << 22);
        let mut table = Table::with(14);
        let size = length.div_ceil(pieces);
        table.set(0, reduction);
        set_all(&mut table, 1, [threads as usize, results, length, pieces, size, groups]);
        set_operand(&mut table, 7, from)?;
        set_operand(&mut table, 9, to)?;
        set_walks(&mut table, 11, &[(&kept, &[0]), (&reduced, &[0])], wide);
        table.set(13, inverse(pieces));
        table.launch(plan, name, groups, if threads == 1 { 256 } else { threads });
        Ok(())
    }
}

pub(super) fn contract(plan: &mut Plan, it: &Problem<'_>) -> Result<(), DeviceError> {
    let (left, right, output) = (&it.step.inputs[0], &it.step.inputs[1], &it.step.outputs[0]);
    let name = named(family!("contract", whole), left.dtype)?;
    let (rows, columns) = (it.rows.elements(), it.columns.elements());
    let (across, down) = (columns.div_ceil(TILE), rows.div_ceil(TILE));
    let tiles = it.batch.elements() * across * down;
    let groups = tiles.clamp(1, 1 << 22);
    let mut table = Table::with(19);
    set_all(&mut table, 0, [tiles, groups, rows, columns, it.depth.elements(), across, down]);
    for (place, operand) in [(7, left), (9, right), (11, output)] {
        set_operand(&mut table, place, operand)?;
    }
    let walks: [(&Axes, &[usize]); 4] =
        [(&it.batch, &[0, 1]), (&it.rows, &[0]), (&it.columns, &[0]), (&it.depth, &[0, 1])];
    set_walks(&mut table, 13, &walks, it.wide);
    table.set(17, inverse(across));
    table.set(18, inverse(down));
    table.launch(plan, name, groups, 256);
    Ok(())
}
