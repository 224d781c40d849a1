//! Loads from memory to LDS, without registers in between.

use super::addresses::Addresses;
use super::element::LoadElement;
use crate::Wave;
use crate::wave::sreg;

/// Copies elements to LDS at M0 + `offset` + lane * element size (in whole dwords). Active lanes that are not in `within` write
/// zero.
///
/// # Safety
/// The address of every lane in `within` must be readable for the element's bytes.
pub(crate) unsafe fn to_local(
    wave: &mut Wave,
    element: &LoadElement,
    addresses: &Addresses,
    exec: u64,
    within: u64,
    offset: i64,
) {
    let base = u64::from(wave.sgprs[sreg::M0] & 0xffff).wrapping_add_signed(offset);
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        for register in 0..element.registers {
            let to = base.wrapping_add(4 * (lane * element.registers + register) as u64);
            if to.checked_add(4).is_some_and(|end| end <= u64::from(wave.lds_size)) {
                // SAFETY: the caller guarantees the source; the destination is within LDS.
                unsafe {
                    let value = match within >> lane & 1 {
                        0 => 0,
                        _ => (element.one)(0, (addresses.0[lane] as *const u8).add(4 * register)),
                    };
                    wave.lds.add(to as usize).cast::<u32>().write_unaligned(value);
                }
            }
        }
    }
}
