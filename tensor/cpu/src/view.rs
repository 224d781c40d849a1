//! An operand that was checked to be within its buffer. The unsafe code of the kernels relies on this check.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::step::Operand;

use crate::memory::memory;
use crate::walk::Walk;

#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The address of the first element.
    start: *mut u8,
    pub layout: &'a Layout,
    pub dtype: DType,
}

impl<'a> View<'a> {
    /// Returns an error for buffers of other devices and for layouts that exceed the buffer.
    pub fn new(operand: &'a Operand) -> Result<View<'a>, DeviceError> {
        let memory = memory(&operand.buffer)?;
        let layout = &operand.layout;
        let (shape, strides) = (&layout.shape, &layout.strides);
        if shape.len() != strides.len() {
            return Err(wrong("a layout needs one stride for each axis"));
        }
        if !shape.contains(&0) {
            let (mut low, mut high) = (layout.offset as i128, layout.offset as i128);
            for (&length, &stride) in shape.iter().zip(strides) {
                let reach = (length as i128 - 1) * stride as i128;
                low += reach.min(0);
                high += reach.max(0);
            }
            let room = (operand.buffer.bytes() / operand.dtype.bytes()) as i128;
            if low < 0 || high >= room {
                return Err(wrong("a layout exceeds its buffer"));
            }
        }
        let start = memory.start().wrapping_add(layout.offset.wrapping_mul(operand.dtype.bytes()));
        Ok(View { start, layout, dtype: operand.dtype })
    }

    /// Like [`View::new`], for an operand that is written: it must be contiguous.
    pub fn output(operand: &'a Operand) -> Result<View<'a>, DeviceError> {
        let view = View::new(operand)?;
        if !view.layout.is_contiguous() {
            return Err(wrong("an output is not contiguous"));
        }
        Ok(view)
    }

    pub fn start<T>(&self) -> *mut T {
        self.start.cast()
    }

    pub fn shape(&self) -> &'a [usize] {
        &self.layout.shape
    }

    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    pub fn walk(&self) -> Walk {
        Walk::new(&self.layout.shape, &self.layout.strides)
    }

    /// Returns a walk over only these axes, in this order.
    pub fn walk_of(&self, axes: &[usize]) -> Walk {
        let shape: Vec<_> = axes.iter().map(|&axis| self.layout.shape[axis]).collect();
        let strides: Vec<_> = axes.iter().map(|&axis| self.layout.strides[axis]).collect();
        Walk::new(&shape, &strides)
    }
}

// SAFETY: a view is an address and a description; every read or write through it has its own safety argument.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

/// An error for an invalid step; the graph should have rejected it before.
pub fn wrong(why: impl Into<String>) -> DeviceError {
    DeviceError::Call { call: "run", error: why.into() }
}
