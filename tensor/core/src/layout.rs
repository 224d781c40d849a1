//! The layout of a tensor's elements in a buffer: shape, strides and offset.

use smallvec::SmallVec;

/// Lengths of axes, outermost first.
pub type Shape = SmallVec<[usize; 6]>;
/// Distances between neighbours along each axis, in elements.
pub type Strides = SmallVec<[isize; 6]>;

/// A strided view of a buffer. A stride of zero repeats an element. Strides may be negative, and views may overlap if they are
/// only read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The lengths of the dimensions.
    pub shape: Shape,
    /// The distances between neighbours along each dimension, in elements.
    pub strides: Strides,
    /// Offset of the first element, in elements.
    pub offset: usize,
}

impl Layout {
    /// Returns the row-major layout without gaps.
    pub fn contiguous(shape: &[usize]) -> Layout {
        let mut strides = Strides::from_elem(1, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
        }
        Layout { shape: shape.into(), strides, offset: 0 }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether the elements are row-major without gaps, at any offset.
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

    /// Whether several indices refer to the same element.
    pub fn overlaps(&self) -> bool {
        if self.elements() <= 1 {
            return false;
        }
        let mut axes: SmallVec<[(usize, usize); 6]> = self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(length, _)| **length > 1)
            .map(|(&length, stride)| (stride.unsigned_abs(), length))
            .collect();
        axes.sort_unstable();
        // No axis reaches the next index of a wider one: the usual case.
        let (mut reach, mut apart) = (0, true);
        for &(stride, length) in &axes {
            apart &= stride > reach;
            reach += stride * (length - 1);
        }
        if apart || axes[0].0 == 0 {
            return !apart;
        }
        // Interleaved axes: marks every element.
        let mut seen = vec![false; reach + 1];
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, axes.len());
        loop {
            let at: usize = index.iter().zip(&axes).map(|(at, (stride, _))| at * stride).sum();
            if std::mem::replace(&mut seen[at], true) {
                return true;
            }
            let Some(axis) = (0..axes.len()).find(|&axis| index[axis] + 1 < axes[axis].1) else {
                return false;
            };
            index[axis] += 1;
            index[..axis].fill(0);
        }
    }

    /// Returns the layout with its axes reordered.
    pub fn permute(&self, order: &[usize]) -> Layout {
        Layout {
            shape: order.iter().map(|&axis| self.shape[axis]).collect(),
            strides: order.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Broadcasts along new leading axes and along axes of length one. Returns `None` if the shapes are incompatible.
    pub fn expand(&self, shape: &[usize]) -> Option<Layout> {
        let added = shape.len().checked_sub(self.rank())?;
        let mut strides = Strides::from_elem(0, shape.len());
        for axis in 0..self.rank() {
            if shape[added + axis] == self.shape[axis] {
                strides[added + axis] = self.strides[axis];
            } else if self.shape[axis] != 1 {
                return None;
            }
        }
        Some(Layout { shape: shape.into(), strides, offset: self.offset })
    }

    /// Returns every `step`th element along an axis, `length` of them from `start`; `step` may be negative.
    pub fn slice(&self, axis: usize, start: usize, length: usize, step: isize) -> Layout {
        let mut layout = self.clone();
        if length > 0 {
            layout.offset = layout.offset.wrapping_add_signed(start as isize * self.strides[axis]);
        }
        layout.shape[axis] = length;
        layout.strides[axis] *= step;
        layout
    }

    /// Returns the same elements in the same order under another shape, or `None` if no strides express that.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        if self.shape.as_slice() == shape {
            return Some(self.clone());
        }
        if self.elements() == 0 {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Axes of length one do not matter. The others are walked from the innermost: a run of old axes with uniform spacing can
        // be split into any new axes.
        let old: SmallVec<[(usize, isize); 6]> = self
            .shape
            .iter()
            .copied()
            .zip(self.strides.iter().copied())
            .filter(|&(length, _)| length != 1)
            .collect();
        let mut strides = Strides::from_elem(0, shape.len());
        let (mut axis, mut new) = (old.len(), shape.len());
        while axis > 0 {
            axis -= 1;
            let (mut run, mut next) = old[axis];
            while axis > 0 && old[axis - 1].1 == old[axis].1 * old[axis].0 as isize {
                axis -= 1;
                run *= old[axis].0;
            }
            while run > 1 {
                new = new.checked_sub(1)?;
                if !run.is_multiple_of(shape[new]) {
                    return None;
                }
                strides[new] = next;
                next *= shape[new] as isize;
                run /= shape[new];
            }
        }
        Some(Layout { shape: shape.into(), strides, offset: self.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_elements_take_any_shape() {
        let layout = Layout::contiguous(&[2, 3, 4]);
        assert_eq!(layout.reshape(&[6, 1, 2, 2]).unwrap().strides.as_slice(), [4, 4, 2, 1]);
        assert_eq!(layout.reshape(&[24]).unwrap().strides.as_slice(), [1]);
    }

    #[test]
    fn transposed_elements_split_but_do_not_merge() {
        let layout = Layout::contiguous(&[4, 6]).permute(&[1, 0]);
        assert_eq!(layout.reshape(&[2, 3, 4]).unwrap().strides.as_slice(), [3, 1, 6]);
        assert!(layout.reshape(&[24]).is_none());
        assert!(layout.reshape(&[3, 8]).is_none());
    }

    #[test]
    fn repeated_elements_merge_with_repeated_ones_only() {
        let layout = Layout::contiguous(&[1, 3, 1]).expand(&[5, 3, 2]).unwrap();
        assert_eq!(layout.strides.as_slice(), [0, 1, 0]);
        assert!(layout.reshape(&[15, 2]).is_none());
        assert_eq!(Layout::contiguous(&[1]).expand(&[4, 5]).unwrap().reshape(&[20]).unwrap().strides[0], 0);
    }

    #[test]
    fn overlapping_layouts_are_found() {
        let layout = |shape: &[usize], strides: &[isize]| Layout {
            shape: shape.into(),
            strides: strides.into(),
            offset: 0,
        };
        assert!(!layout(&[4, 6], &[1, 4]).overlaps());
        assert!(!layout(&[3], &[7]).overlaps());
        assert!(!layout(&[3, 2], &[2, 3]).overlaps());
        assert!(!layout(&[2, 0], &[0, 0]).overlaps());
        assert!(layout(&[2, 3], &[0, 1]).overlaps());
        assert!(layout(&[3, 3], &[1, 2]).overlaps());
        assert!(layout(&[4, 2], &[2, 4]).overlaps());
        assert!(layout(&[2, 3, 2], &[1, 1, 4]).overlaps());
        assert!(!layout(&[5], &[-1]).overlaps());
    }

    #[test]
    fn a_negative_step_begins_at_the_end() {
        let layout = Layout::contiguous(&[5]).slice(0, 4, 3, -2);
        assert_eq!((layout.offset, layout.strides[0]), (4, -2));
    }
}
