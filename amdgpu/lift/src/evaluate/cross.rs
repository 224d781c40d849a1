//! Lanes that operations read from.

use crate::form::Pattern;

/// The lane that a lane reads from, if it exists.
pub fn source_lane(pattern: Pattern, lane: usize) -> Option<usize> {
    match pattern {
        Pattern::Dpp(control) => dpp(control, lane),
        Pattern::Swizzle(offset) => swizzle(offset.into(), lane),
    }
}

fn dpp(control: u16, lane: usize) -> Option<usize> {
    let (row, column, count) = (lane / 16 * 16, lane % 16, usize::from(control & 15));
    let within = |column: Option<usize>| column.filter(|column| *column < 16).map(|column| row + column);
    match control {
        0x000..=0x0ff => Some(lane / 4 * 4 + usize::from(control >> (2 * (lane % 4)) & 3)),
        0x101..=0x10f => within(Some(column + count)),
        0x111..=0x11f => within(column.checked_sub(count)),
        0x121..=0x12f => within(Some((column + 16 - count) % 16)),
        0x130 => Some(lane + 1).filter(|lane| *lane < 64),
        0x134 => Some((lane + 1) % 64),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) % 64),
        0x140 => within(Some(15 - column)),
        0x141 => Some(lane / 8 * 8 + 7 - lane % 8),
        0x142 => row.checked_sub(1),
        0x143 => Some(31).filter(|_| lane > 31),
        _ => within(Some(count)),
    }
}

fn swizzle(offset: u32, lane: usize) -> Option<usize> {
    let (group, within) = (lane / 32 * 32, lane as u32 % 32);
    let from = match offset >> 13 {
        7 => return None,
        6 => {
            let (keep, count) = (offset % 32, offset / 32 % 32);
            let turned = if offset >> 10 & 1 == 1 { within + 32 - count } else { within + count };
            (within & keep) | ((turned % 32) & !keep)
        }
        4 | 5 => within / 4 * 4 + (offset >> (2 * (within % 4)) & 3),
        _ => ((within & (offset % 32)) | (offset / 32 % 32)) ^ (offset / 1024 % 32),
    };
    Some(group + from as usize)
}
