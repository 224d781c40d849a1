//! Where the elements of a tensor lie in a buffer.

use smallvec::SmallVec;

/// Lengths of axes, outermost first.
pub type Shape = SmallVec<[usize; 6]>;
/// Distances between neighbours along each axis, in elements.
pub type Strides = SmallVec<[isize; 6]>;

/// A strided window of a buffer. A stride of zero repeats an element; strides may be negative and windows may overlap in what is only read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    pub shape: Shape,
    pub strides: Strides,
    /// Of the first element, in elements.
    pub offset: usize,
}

impl Layout {
    /// Row by row, without gaps.
    pub fn contiguous(shape: &[usize]) -> Layout {
        let mut strides = Strides::from_elem(1, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
        }
        Layout { shape: shape.into(), strides, offset: 0 }
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether the elements lie row by row without gaps, wherever they begin.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if length == 0 {
                return true;
            }
            if length != 1 && stride != expected {
                return false;
            }
            expected *= length as isize;
        }
        true
    }
}
