//! Sorting, as generated kernels do it.

use tensor_core::error::DeviceError;
use tensor_core::step::{Operand, Step};

use super::family::{THREADS, groups_for, mismatch, set_all, set_walks};
use super::table::{Table, inverse};
use super::{Class, class};
use crate::axes::Axes;
use crate::source::{Address, Writer};
use crate::work::{Plan, SORTED_IN_SHARED, address, merged};

/// A sort of all lines along an axis.
struct Sort<'a> {
    step: &'a Step,
    axis: usize,
    descending: bool,
    lines: Axes,
    length: usize,
}

/// What the passes over long lines share: the padded length, keys and places.
struct Workspaces {
    size: usize,
    keys: Address,
    places: Address,
}

pub(super) fn sort(plan: &mut Plan, axis: usize, descending: bool, step: &Step) -> Result<(), DeviceError> {
    let (input, values) = (&step.inputs[0], &step.outputs[0]);
    if input.dtype != values.dtype || class(input.dtype) == Class::Complex {
        return Err(mismatch("sort", &[input.dtype, values.dtype]));
    }
    let [lines, _] = merged(&[input, values], &[axis]);
    let length = input.layout.shape.get(axis).copied().unwrap_or(1);
    if length > u32::MAX as usize / 2 {
        return Err(DeviceError::Unsupported(format!("sorting a line of {length} elements")));
    }
    let it = Sort { step, axis, descending, lines, length };
    let count = it.lines.elements();
    if length <= SORTED_IN_SHARED {
        let groups = count.clamp(1, 1 << 22);
        let (name, threads) = if length <= 64 { ("pf_run_sort_64", 64) } else { ("pf_run_sort_1024", 256) };
        it.table(groups as u64, None)?.launch(plan, name, groups, threads);
        return Ok(());
    }
    let size = length.next_power_of_two();
    let (keys, places) = (plan.workspace(count * size * 8), plan.workspace(count * size * 4));
    let shared = Workspaces { size, keys, places };
    let mut pass = |name: &'static str, elements: usize, sizes: [usize; 2]| {
        let (groups, stride) = groups_for(elements);
        let mut table = it.table(stride, Some(&shared))?;
        set_all(&mut table, 17, sizes);
        table.launch(plan, name, groups, THREADS as u32);
        Ok::<_, DeviceError>(())
    };
    pass("pf_run_sort_begin", count * size, [0, 0])?;
    let mut part = 2;
    while part <= size {
        let mut far = part / 2;
        while far > 0 {
            pass("pf_run_sort_pass", count * size / 2, [part, far])?;
            far /= 2;
        }
        part *= 2;
    }
    pass("pf_run_sort_end", count * length, [0, 0])
}

impl Sort<'_> {
    fn table(&self, stride: u64, shared: Option<&Workspaces>) -> Result<Table, DeviceError> {
        let (input, outputs) = (&self.step.inputs[0], &self.step.outputs[..]);
        let along = |operand: &Operand| operand.layout.strides.get(self.axis).copied().unwrap_or(1);
        let mut table = Table::with(19);
        table.set(0, input.dtype as u64);
        table.set(1, u64::from(self.descending));
        table.set_address(2, address(input)?);
        table.set(3, along(input) as u64);
        table.set(4, outputs.len() as u64);
        for (number, output) in outputs.iter().enumerate() {
            table.set_address(5 + number, address(output)?);
        }
        table.set(7, along(&outputs[0]) as u64);
        table.set(8, self.lines.elements() as u64);
        table.set(9, stride);
        table.set(10, self.length as u64);
        let padded = self.length.next_power_of_two();
        let far = |number: usize, operand: &Operand| {
            self.lines.reach(number) + along(operand).unsigned_abs() * self.length
        };
        let sizes = [self.lines.elements() * padded, far(0, input), far(1, &outputs[0])];
        set_walks(&mut table, 11, &[(&self.lines, &[0, 1])], Writer::needs_wide(sizes));
        table.set(12, inverse(self.length));
        if let Some(Workspaces { size, keys, places }) = shared {
            table.set(13, *size as u64);
            table.set(14, inverse(*size));
            table.set_address(15, *keys);
            table.set_address(16, *places);
        }
        Ok(table)
    }
}
