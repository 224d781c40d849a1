//! Axes of several operands at once, merged where the outer stride equals the whole inner axis for all of them. The source of a
//! kernel depends on the number of remaining axes; lengths and strides are arguments.

use smallvec::SmallVec;

/// One axis: its length, and its stride in every operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub length: usize,
    pub strides: SmallVec<[isize; 6]>,
}

/// Axes, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Axes(pub Vec<Axis>);

/// How an operand's offset depends on the linear index over all axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The same element everywhere.
    Still,
    /// The offset is the index itself.
    Linear,
    Strided,
}

impl Axes {
    /// Merges the common axes of several operands.
    pub(crate) fn new<'a>(shape: &[usize], operands: impl Iterator<Item = &'a [isize]> + Clone) -> Axes {
        let axes = shape.iter().enumerate().map(|(axis, &length)| Axis {
            length,
            strides: operands.clone().map(|strides| strides[axis]).collect(),
        });
        Axes(axes.collect()).joined()
    }

    fn joined(self) -> Axes {
        let mut joined: Vec<Axis> = Vec::with_capacity(self.0.len());
        for axis in self.0.into_iter().filter(|axis| axis.length != 1) {
            let length = axis.length as isize;
            match joined.last_mut() {
                Some(outer)
                    if outer
                        .strides
                        .iter()
                        .zip(&axis.strides)
                        .all(|(outer, inner)| *outer == inner * length) =>
                {
                    outer.length *= axis.length;
                    outer.strides = axis.strides;
                }
                _ => joined.push(axis),
            }
        }
        Axes(joined)
    }

    pub(crate) fn rank(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn elements(&self) -> usize {
        self.0.iter().map(|axis| axis.length).product()
    }

    pub(crate) fn pattern(&self, operand: usize) -> Pattern {
        if self.0.iter().all(|axis| axis.strides[operand] == 0) {
            return Pattern::Still;
        }
        let mut expected = 1;
        for axis in self.0.iter().rev() {
            if axis.strides[operand] != expected {
                return Pattern::Strided;
            }
            expected *= axis.length as isize;
        }
        Pattern::Linear
    }

    /// The stride of the innermost axis.
    pub(crate) fn innermost(&self, operand: usize) -> isize {
        self.0.last().map_or(0, |axis| axis.strides[operand])
    }

    /// The largest distance from the first element, in either direction.
    pub(crate) fn reach(&self, operand: usize) -> usize {
        self.0.iter().map(|axis| axis.length.saturating_sub(1) * axis.strides[operand].unsigned_abs()).sum()
    }
}

/// Below this, indices and offsets have 32 bits, with room to step beyond the end.
pub(crate) const NARROW: usize = 1 << 30;

/// Returns shift and factor that turn a division of numbers below 2^31 by `length` into a multiplication (Granlund and Montgomery
/// 1994).
pub(crate) fn magic(length: usize) -> u64 {
    if length == 0 || length >= NARROW {
        return 0;
    }
    let length = length as u64;
    let shift = u64::from(u64::BITS - (length - 1).leading_zeros());
    let factor = ((1_u64 << 32) * ((1_u64 << shift) - length)) / length + 1;
    shift << 32 | factor & 0xFFFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_join_only_where_all_operands_allow_it() {
        let joined = Axes::new(&[2, 3, 4], [&[12_isize, 4, 1][..], &[0, 0, 0]].into_iter());
        assert_eq!(joined.rank(), 1);
        assert_eq!((joined.pattern(0), joined.pattern(1)), (Pattern::Linear, Pattern::Still));
        let row = Axes::new(&[2, 3, 4], [&[12_isize, 4, 1][..], &[0, 4, 1]].into_iter());
        assert_eq!(row.rank(), 2);
        assert_eq!((row.pattern(0), row.pattern(1)), (Pattern::Linear, Pattern::Strided));
        let turned = Axes::new(&[5, 1, 7], [&[1_isize, 99, 5][..]].into_iter());
        assert_eq!((turned.rank(), turned.reach(0)), (2, 34));
    }

    #[test]
    fn multiplication_by_the_magic_number_divides() {
        let divide = |n: u32, length: usize| {
            let magic = magic(length);
            ((((u64::from(n) * (magic & 0xFFFF_FFFF)) >> 32) as u32 + n) >> (magic >> 32)) as usize
        };
        for length in (1..300).chain([511, 512, 513, 65_535, 65_536, 65_537, 1_000_003, NARROW - 1]) {
            for n in (0..1000).chain([65_535, 65_536, 1 << 20, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]) {
                assert_eq!(divide(n, length), n as usize / length, "{n} / {length}");
            }
        }
    }
}
