//! SDWA (sub-dword addressing): reading and writing bytes and words of registers.

use isa::Sdwa;

use crate::Lanes;

/// Selects part of each dword, zero- or sign-extended. Selectors: 0..=3 byte, 4 and 5 word, 6 dword.
#[inline(always)]
pub fn select(sel: u8, sext: bool, lanes: &mut Lanes) {
    let Some((shift, bits)) = field(sel) else { return };
    let up = 32 - bits;
    for value in &mut lanes.0 {
        let top = *value << (up - shift);
        *value = if sext { (top as i32 >> up) as u32 } else { top >> up };
    }
}

/// Moves the low bits of each result to the position given by the destination selector and fills the rest of the dword.
#[inline(always)]
pub fn place(sdwa: &Sdwa, old: &Lanes, lanes: &mut Lanes) {
    let Some((shift, bits)) = field(sdwa.dst_sel) else { return };
    let mask = (u32::MAX >> (32 - bits)) << shift;
    for (value, &old) in lanes.0.iter_mut().zip(&old.0) {
        let placed = *value << shift & mask;
        *value = match sdwa.dst_unused {
            // Sign-extends above the field, zeros below.
            1 => ((placed << (32 - bits - shift)) as i32 >> (32 - bits - shift)) as u32,
            2 => placed | old & !mask,
            _ => placed,
        };
    }
}

/// First bit and width in bits of a selector; `None` for the whole dword.
#[inline(always)]
fn field(sel: u8) -> Option<(u32, u32)> {
    match sel {
        0..=3 => Some((8 * u32::from(sel), 8)),
        4 | 5 => Some((16 * u32::from(sel - 4), 16)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(sel: u8, sext: bool) -> u32 {
        let mut lanes = Lanes::splat(0x81f2_7384);
        select(sel, sext, &mut lanes);
        lanes.0[63]
    }

    fn placed(dst_sel: u8, dst_unused: u8) -> u32 {
        let sdwa = Sdwa { dst_sel, dst_unused, src0_sel: 6, src0_sext: false, src1_sel: 6, src1_sext: false };
        let mut lanes = Lanes::splat(0x1234_f69a);
        place(&sdwa, &Lanes::splat(0x5555_5555), &mut lanes);
        lanes.0[5]
    }

    #[test]
    fn bytes_and_words_are_selected_and_extended() {
        assert_eq!(selected(0, false), 0x84);
        assert_eq!(selected(0, true), 0xffff_ff84);
        assert_eq!(selected(1, true), 0x73);
        assert_eq!(selected(3, true), 0xffff_ff81);
        assert_eq!(selected(4, true), 0x7384);
        assert_eq!(selected(5, false), 0x81f2);
        assert_eq!(selected(5, true), 0xffff_81f2);
        assert_eq!(selected(6, true), 0x81f2_7384);
    }

    #[test]
    fn results_are_placed_with_padding_sign_or_the_old_value() {
        assert_eq!(placed(1, 0), 0x0000_9a00);
        assert_eq!(placed(1, 1), 0xffff_9a00);
        assert_eq!(placed(1, 2), 0x5555_9a55);
        assert_eq!(placed(5, 0), 0xf69a_0000);
        assert_eq!(placed(4, 1), 0xffff_f69a);
        assert_eq!(placed(4, 2), 0x5555_f69a);
        assert_eq!(placed(6, 0), 0x1234_f69a);
    }
}
