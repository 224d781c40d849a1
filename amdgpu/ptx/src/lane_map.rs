//! Which lane a thread's half is.

/// A permutation of the six bits of a lane's number: bit `b` of the lane is bit `bits[b]` of the thread's number in the warp, or
/// the half if that is 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneMap {
    bits: [u8; 6],
}

/// Number of the half's bit.
const HALF: u8 = 5;

impl LaneMap {
    /// Thread i holds lanes i and i + 32.
    pub(crate) const PLAIN: LaneMap = LaneMap { bits: [0, 1, 2, 3, 4, HALF] };

    /// With thread bits g2 g1 g0 t1 t0 and half h, the lane is t1 t0 g2 g1 g0 h: a thread then holds just the parts of the
    /// operands of a 16x16x16 MFMA that it needs for `mma.m16n8k16`. The half could be the second bit as well; but then the rows
    /// of a matrix that threads read at once from LDS are not two apart, and rows with the usual padding are in the same banks.
    pub(crate) const MATRIX: LaneMap = LaneMap { bits: [HALF, 2, 3, 4, 0, 1] };

    /// The lane of a thread's half.
    pub(crate) fn lane(self, thread: u32, half: u32) -> u32 {
        let source = thread | half << HALF;
        (0..6).map(|bit| (source >> self.bits[bit] & 1) << bit).sum()
    }

    /// Thread and half of a lane.
    pub(crate) fn place(self, lane: u32) -> (u32, u32) {
        let source: u32 = (0..6).map(|bit| (lane >> bit & 1) << self.bits[bit]).sum();
        (source & 31, source >> HALF)
    }

    /// Bit of the lane's number that tells the half.
    pub(crate) fn half_bit(self) -> u8 {
        (0..6).find(|bit| self.bits[*bit as usize] == HALF).unwrap_or(HALF)
    }

    /// For each bit of the lane's number, the bit of the thread's number that it is, or none for the half.
    pub(crate) fn thread_bits(self) -> [Option<u8>; 6] {
        self.bits.map(|bit| (bit != HALF).then_some(bit))
    }

    /// Exchanges of two bits of an index that turn an index `half << 5 | thread` into the lane's number, in order.
    pub(crate) fn exchanges(self) -> Vec<(u8, u8)> {
        let mut now: [u8; 6] = std::array::from_fn(|bit| bit as u8);
        let mut steps = Vec::new();
        for to in 0..6u8 {
            let from = (to..6).find(|at| now[*at as usize] == self.bits[to as usize]).unwrap_or(to);
            if from != to {
                now.swap(from.into(), to.into());
                steps.push((to, from));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::LaneMap;

    #[test]
    fn places_and_lanes_are_inverse() {
        for map in [LaneMap::PLAIN, LaneMap::MATRIX] {
            for lane in 0..64 {
                let (thread, half) = map.place(lane);
                assert_eq!(map.lane(thread, half), lane);
            }
        }
    }

    #[test]
    fn exchanges_of_index_bits_give_the_lane() {
        for map in [LaneMap::PLAIN, LaneMap::MATRIX] {
            for lane in 0..64 {
                let (thread, half) = map.place(lane);
                let mut index = half << 5 | thread;
                for (a, b) in map.exchanges() {
                    let (x, y) = (index >> a & 1, index >> b & 1);
                    index = index & !(1 << a | 1 << b) | x << b | y << a;
                }
                assert_eq!(index, lane);
            }
        }
    }
}
