//! DPP (data-parallel primitives): the lane permutations of DPP sources.

use isa::Dpp;

use crate::Lanes;

/// The lane permutation of one control value.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    /// Source lane of each lane; undefined for lanes that are not in `valid`.
    from: [u8; 64],
    valid: u64,
}

/// Exclusive upper bound of the control values.
const CONTROLS: usize = 0x160;

/// Table of all permutations, computed at compile time because every executed DPP instruction looks one up.
static PERMUTATIONS: [Permutation; CONTROLS] = {
    let mut all = [Permutation { from: [0; 64], valid: 0 }; CONTROLS];
    let mut ctrl = 0;
    while ctrl < CONTROLS {
        let mut lane = 0;
        while lane < 64 {
            if let Some(from) = source_lane(ctrl as u16, lane) {
                all[ctrl].from[lane as usize] = from;
                all[ctrl].valid |= 1 << lane;
            }
            lane += 1;
        }
        ctrl += 1;
    }
    all
};

/// Returns true if `ctrl` is a valid control value on this hardware.
pub fn known(ctrl: u16) -> bool {
    matches!(
        ctrl,
        0x000..=0x0ff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143
            | 0x150..=0x15f
    )
}

/// Permutes `lanes` in place; `exec` are the active lanes. Returns the lanes that may be written.
///
/// A lane whose source lane does not exist or is inactive reads 0 with `bound_ctrl`, else is not written.
///
/// The three loops are vectorised for the level of the handler this is inlined into. Real kernels use DPP mostly in reductions
/// with all lanes active, where the second loop is skipped.
#[inline(always)]
pub fn permute(dpp: &Dpp, exec: u64, lanes: &mut Lanes) -> u64 {
    let permutation = &PERMUTATIONS[usize::from(dpp.ctrl) % CONTROLS];
    let old = *lanes;
    for lane in 0..64 {
        lanes.0[lane] = old.0[usize::from(permutation.from[lane] & 63)];
    }
    let mut readable = permutation.valid;
    if exec != !0 {
        let mut active = 0;
        for lane in 0..64 {
            active |= (exec >> (permutation.from[lane] & 63) & 1) << lane;
        }
        readable &= active;
    }
    if readable != !0 {
        for lane in 0..64 {
            lanes.0[lane] &= ((readable >> lane & 1) as u32).wrapping_neg();
        }
    }
    let written = exec & enabled(dpp);
    if dpp.bound_ctrl { written } else { written & readable }
}

/// Lanes enabled by the row and bank masks. A row is 16 lanes, a bank is 4 lanes of each row.
fn enabled(dpp: &Dpp) -> u64 {
    let mut row = 0;
    let mut all = 0;
    for bank in 0..4 {
        row |= u64::from(dpp.bank_mask >> bank & 1) * (0xf << (4 * bank));
    }
    for r in 0..4 {
        all |= u64::from(dpp.row_mask >> r & 1) * (row << (16 * r));
    }
    all
}

/// The lane that `lane` reads, if it exists.
const fn source_lane(ctrl: u16, lane: u8) -> Option<u8> {
    let row = lane & !15;
    let column = lane & 15;
    let count = (ctrl & 15) as u8;
    match ctrl {
        // quad_perm
        0x000..=0x0ff => Some(lane & !3 | (ctrl >> (2 * (lane & 3)) & 3) as u8),
        // row_shl, row_shr, row_ror
        0x101..=0x10f if column + count < 16 => Some(lane + count),
        0x111..=0x11f if column >= count => Some(lane - count),
        0x121..=0x12f => Some(row | (column + 16 - count) & 15),
        // wave_shl:1, wave_rol:1, wave_shr:1, wave_ror:1
        0x130 if lane < 63 => Some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 if lane > 0 => Some(lane - 1),
        0x13c => Some(lane.wrapping_sub(1) & 63),
        // row_mirror, row_half_mirror
        0x140 => Some(row | (15 - column)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        // row_bcast:15, row_bcast:31
        0x142 if row > 0 => Some(row - 1),
        0x143 if lane >= 32 => Some(31),
        // row_newbcast
        0x150..=0x15f => Some(row | count),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permuted(ctrl: u16, row_mask: u8, bound_ctrl: bool, exec: u64) -> (Lanes, u64) {
        let mut lanes = Lanes(std::array::from_fn(|lane| 100 + lane as u32));
        let written = permute(&Dpp { ctrl, row_mask, bank_mask: 15, bound_ctrl }, exec, &mut lanes);
        (lanes, written)
    }

    #[test]
    fn quad_perm_and_mirrors_stay_in_their_group() {
        let (lanes, written) = permuted(0b00_01_10_11, 15, false, !0);
        assert_eq!(&lanes.0[..8], &[103, 102, 101, 100, 107, 106, 105, 104]);
        assert_eq!(written, !0);
        assert_eq!(&permuted(0x140, 15, false, !0).0.0[16..18], &[131, 130]);
        assert_eq!(&permuted(0x141, 15, false, !0).0.0[8..10], &[115, 114]);
    }

    #[test]
    fn row_shifts_leave_lanes_without_source_unwritten_or_zero() {
        let (lanes, written) = permuted(0x111, 15, false, !0);
        assert_eq!(lanes.0[1], 100);
        assert_eq!(written, !0x0001_0001_0001_0001);
        let (lanes, written) = permuted(0x111, 15, true, !0);
        assert_eq!((lanes.0[0], lanes.0[17], written), (0, 116, !0));
        assert_eq!(permuted(0x101, 15, true, !0).0.0[15], 0);
        assert_eq!(permuted(0x121, 15, false, !0).0.0[0], 115);
    }

    #[test]
    fn broadcasts_reach_the_next_rows_only() {
        let (lanes, written) = permuted(0x142, 0b1010, false, !0);
        assert_eq!((lanes.0[16], lanes.0[63]), (115, 147));
        assert_eq!(written, 0xffff_0000_ffff_0000);
        let (lanes, written) = permuted(0x143, 0b1100, false, !0);
        assert_eq!(lanes.0[40], 131);
        assert_eq!(written, 0xffff_ffff_0000_0000);
        assert_eq!(permuted(0x153, 15, false, !0).0.0[20], 119);
    }

    #[test]
    fn inactive_source_lanes_count_as_missing() {
        let (lanes, written) = permuted(0x13c, 15, true, !1);
        assert_eq!((lanes.0[1], lanes.0[2]), (0, 101));
        assert_eq!(written, !1);
        assert_eq!(permuted(0x13c, 15, false, !1).1, !0b11);
    }

    #[test]
    fn unknown_controls_are_refused() {
        assert!(!known(0x100) && !known(0x131) && !known(0x1ff));
        assert!(known(0) && known(0x142) && known(0x15f));
    }
}
