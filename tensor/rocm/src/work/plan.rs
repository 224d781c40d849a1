//! The plan of a step: its launches and their workspaces.

use std::sync::Arc;

use tensor_core::decompose::decompose;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::step::{Operand, Step};

use crate::axes::Axes;
use crate::interpret::Interpret;
use crate::memory::{Imaginary, address_of};
use crate::source::{Address, Launch};
use crate::symbolic;

/// The launches of a step, and the sizes of the workspaces they need.
#[derive(Debug)]
pub(crate) struct Plan {
    pub launches: Vec<Launch>,
    pub target: Target,
    pub workspaces: Vec<usize>,
}

/// The device properties that determine how work is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub compute_units: usize,
    /// gfx90a and gfx942 have matrix instructions (MFMA).
    pub matrix_cores: bool,
    /// Tile size of contractions, if tuning or the user has chosen one.
    pub tile: Option<usize>,
    /// Set if there is no compiler.
    pub interpret: Option<Interpret>,
}

impl Plan {
    pub(crate) fn new(target: Target) -> Plan {
        Plan { launches: Vec::new(), target, workspaces: Vec::new() }
    }

    /// Reserves memory that lives until the launches have run.
    pub(crate) fn workspace(&mut self, bytes: usize) -> Address {
        self.workspaces.push(bytes);
        symbolic::workspace(self.workspaces.len() - 1)
    }
}

/// Returns the address of an operand's first element.
pub(crate) fn address(operand: &Operand) -> Result<Address, DeviceError> {
    let address = address_of(&*operand.buffer).ok_or_else(|| {
        DeviceError::Unsupported(
            "an operand is on another device; move it with `.to(device)` first".to_owned(),
        )
    })?;
    Ok(Address(address + (operand.layout.offset * operand.dtype.bytes()) as u64))
}

/// The axes of operands of one shape: the others, and the given ones.
pub(crate) fn merged(operands: &[&Operand], axes: &[usize]) -> [Axes; 2] {
    let shape = &operands[0].layout.shape;
    [false, true].map(|given| {
        let chosen: Vec<usize> = (0..shape.len()).filter(|axis| axes.contains(axis) == given).collect();
        let lengths: Vec<usize> = chosen.iter().map(|&axis| shape[axis]).collect();
        let strides: Vec<Vec<isize>> = operands
            .iter()
            .map(|operand| chosen.iter().map(|&axis| operand.layout.strides[axis]).collect())
            .collect();
        Axes::new(&lengths, strides.iter().map(Vec::as_slice))
    })
}

/// Adds the launches of the simpler steps that a step consists of.
pub(crate) fn apart(plan: &mut Plan, step: &Step) -> Result<(), DeviceError> {
    let steps = decompose(step, &mut |shape: &[usize], dtype: DType| {
        let layout = Layout::contiguous(shape);
        let place = plan.workspace(layout.elements().max(1) * dtype.bytes());
        Ok(Operand { buffer: Arc::new(Imaginary(place.0)), layout, dtype })
    })?;
    steps.iter().try_for_each(|step| plan.add(step))
}
