//! Kernels by the type that they compute: a family has one for each class of types.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::step::Operand;

use super::table::Table;
use super::{Class, class};
use crate::axes::Axes;
use crate::work::address;

/// Threads of kernels with one element per thread.
pub(super) const THREADS: usize = 256;

/// The names of a family's kernels; `whole` is the one for integers.
macro_rules! family {
    ($name:literal) => {
        family!($name, "_signed", "_unsigned")
    };
    ($name:literal, whole) => {
        family!($name, "_unsigned", "_unsigned")
    };
    ($name:literal, $signed:literal, $unsigned:literal) => {
        [
            concat!("pf_run_", $name, "_float"),
            concat!("pf_run_", $name, "_double"),
            concat!("pf_run_", $name, $signed),
            concat!("pf_run_", $name, $unsigned),
        ]
    };
}
pub(super) use family;

/// The kernel for a type, of those for floats, doubles, and signed and unsigned integers.
pub(super) fn named(names: [&'static str; 4], dtype: DType) -> Result<&'static str, DeviceError> {
    match class(dtype) {
        Class::Float => Ok(names[0]),
        Class::Double => Ok(names[1]),
        Class::Signed => Ok(names[2]),
        Class::Unsigned => Ok(names[3]),
        Class::Complex => Err(mismatch("a step", &[dtype])),
    }
}

/// The error of a step with types that its kernel cannot handle; the graph does not make such steps.
pub(super) fn mismatch(what: &str, dtypes: &[DType]) -> DeviceError {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    DeviceError::Unsupported(format!("{what} of {} needs a kernel compiler", names.join(" to ")))
}

/// Work-groups for this many elements, and the stride over elements.
pub(super) fn groups_for(count: usize) -> (usize, u64) {
    let groups = count.div_ceil(THREADS).clamp(1, 1 << 14);
    (groups, (groups * THREADS) as u64)
}

pub(super) fn set_all<const N: usize>(table: &mut Table, place: usize, numbers: [usize; N]) {
    for (number, word) in numbers.into_iter().enumerate() {
        table.set(place + number, word as u64);
    }
}

/// Sets type and address of an operand.
pub(super) fn set_operand(table: &mut Table, place: usize, operand: &Operand) -> Result<(), DeviceError> {
    table.set(place, operand.dtype as u64);
    table.set_address(place + 1, address(operand)?);
    Ok(())
}

/// Appends walks, and sets where they are.
pub(super) fn set_walks(table: &mut Table, place: usize, walks: &[(&Axes, &[usize])], wide: bool) {
    for (number, (axes, operands)) in walks.iter().enumerate() {
        let walk = table.walk(axes, operands, wide);
        table.set(place + number, walk);
    }
}
