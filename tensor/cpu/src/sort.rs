//! Sorts by radix, and selection of the first elements. Both are stable, and NaN is last.

use std::cell::RefCell;

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use crate::level::Level;
use crate::memory::{Line, ask_for_large_pages};
use crate::order::{Key, Ordered, with_ordered};
use crate::sequence::{Rows, check};
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};

/// Rows from this length on are divided by digits of [`LONG`] bits, others by [`SHORT`]: a pass over few elements should not cost
/// as much as its counters.
const MANY: usize = 1 << 13;
const LONG: u32 = 11;
const SHORT: u32 = 8;
/// The longest rows that are sorted by comparing.
const FEW: usize = 64;

pub fn sort(
    threads: &Threads,
    axis: usize,
    descending: bool,
    input: &View,
    outputs: &[View],
) -> Result<(), DeviceError> {
    let Some(targets) = Targets::of(axis, input, outputs, |length| length)? else { return Ok(()) };
    with_ordered!(input.dtype, T => {
        let rows = Rows::<T>::new(input, axis);
        let long = u32::try_from(rows.length).is_err();
        rows.each(threads, 10_000, |number, row| {
            let place = rows.place(number, rows.length);
            match long {
                false => by_radix(row, descending, |n, at| targets.set(place, n, rows.inner, row[at], at)),
                true => by_comparing(row, descending, |n, at| targets.set(place, n, rows.inner, row[at], at)),
            }
        });
        Ok(())
    })
}

/// The first elements of each row in the order of a sort; as many as the outputs are long.
pub fn select(
    threads: &Threads,
    axis: usize,
    descending: bool,
    input: &View,
    outputs: &[View],
) -> Result<(), DeviceError> {
    let count = outputs.first().and_then(|values| values.shape().get(axis)).copied().unwrap_or(0);
    let Some(targets) = Targets::of(axis, input, outputs, |length| count.min(length))? else { return Ok(()) };
    let level = threads.level();
    with_ordered!(input.dtype, T => {
        let rows = Rows::<T>::new(input, axis);
        rows.each(threads, 1000, |number, row| {
            let place = rows.place(number, count);
            for (n, &(_, at)) in first(row, count, descending, level).iter().enumerate() {
                targets.set(place, n, rows.inner, row[at], at);
            }
        });
        Ok(())
    })
}

/// Where values and their indices are written.
struct Targets {
    values: Shared<u8>,
    indices: Option<Shared<i64>>,
}

impl Targets {
    /// Checks the outputs; `along` returns their length along the axis from that of the input. `None`: nothing is wanted.
    fn of(
        axis: usize,
        input: &View,
        outputs: &[View],
        along: impl Fn(usize) -> usize,
    ) -> Result<Option<Targets>, DeviceError> {
        let Some((values, indices)) = outputs.split_first() else { return Ok(None) };
        check(axis, input, values, along(input.shape().get(axis).copied().unwrap_or(0)))?;
        if values.dtype != input.dtype
            || indices.len() > 1
            || indices.iter().any(|view| view.dtype != DType::I64 || view.shape() != values.shape())
        {
            return Err(wrong("a sort writes values and int64 indices"));
        }
        let indices = indices.first().map(|view| Shared::new(view.start::<i64>()));
        Ok(Some(Targets { values: Shared::new(values.start()), indices }))
    }

    /// Writes element `at` of a row as the nth of a result that starts at `place`.
    #[inline(always)]
    fn set<T: Copy>(&self, place: usize, n: usize, inner: usize, value: T, at: usize) {
        let place = place.wrapping_add(n.wrapping_mul(inner));
        // SAFETY: every element of a result has a position in each output, which has the type of the row.
        unsafe {
            *self.values.get().cast::<T>().add(place) = value;
            if let Some(indices) = self.indices {
                *indices.get().add(place) = at as i64;
            }
        }
    }
}

/// Calls `set(n, at)` with the index of the nth element in order.
fn by_comparing<T: Ordered>(row: &[T], descending: bool, mut set: impl FnMut(usize, usize)) {
    let mut order: Vec<(T::Key, usize)> = row.iter().map(|one| one.key(descending)).zip(0..).collect();
    order.sort_unstable();
    order.iter().enumerate().for_each(|(n, &(_, at))| set(n, at));
}

/// The index of an element, and how far its key is from the smallest.
#[derive(Clone, Copy)]
struct Item<K> {
    at: u32,
    key: K,
}

thread_local! {
    /// Items of this thread's last sort, kept because fresh pages cost more than a pass.
    static ROOM: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Like [`by_comparing`], for fewer than 2^32 elements: by one digit of the key after another, least significant first.
fn by_radix<T: Ordered>(row: &[T], descending: bool, mut set: impl FnMut(usize, usize)) {
    // Keys are counted from the smallest, so that numbers in a small range have few digits.
    let keys = || row.iter().map(|one| one.key(descending));
    let Some(least) = keys().min() else { return };
    let bits = 64 - keys().map(|key| key.less(least)).max().map_or(0, |most| most.wide().leading_zeros());
    // Taken, not borrowed: this thread may start a task while it waits inside another one.
    let mut room = ROOM.take();
    let lines = (row.len() * size_of::<Item<T::Key>>()).div_ceil(size_of::<Line>());
    if room.len() < 2 * lines {
        room = Vec::with_capacity(2 * lines);
        ask_for_large_pages(room.as_mut_ptr().cast(), 2 * lines * size_of::<Line>());
        room.resize(2 * lines, Line::default());
    }
    let (first, second) = room.split_at_mut(lines);
    // SAFETY: both have space for the items of the row, and lines are aligned for them; items are plain numbers, which every
    // pattern of bits is valid for.
    let (mut items, mut spare) = unsafe {
        let slice = |lines: &mut [Line]| {
            std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<Item<T::Key>>(), row.len())
        };
        (slice(first), slice(second))
    };
    for ((item, key), at) in items.iter_mut().zip(keys()).zip(0..) {
        *item = Item { at, key: key.less(least) };
    }
    if row.len() <= FEW {
        items.sort_unstable_by_key(|item| (item.key, item.at));
    } else {
        let long = row.len() >= MANY;
        let digit = if long { LONG } else { SHORT };
        for shift in (0..bits).step_by(digit as usize) {
            let moved = match long {
                true => divide::<_, { 1 << LONG }>(items, spare, shift),
                false => divide::<_, { 1 << SHORT }>(items, spare, shift),
            };
            if moved {
                std::mem::swap(&mut items, &mut spare);
            }
        }
    }
    items.iter().enumerate().for_each(|(n, item)| set(n, item.at as usize));
    ROOM.set(room);
}

/// Copies items in the order of a digit of their keys, of which there are `COUNT`; not if it is the same in all.
fn divide<K: Key, const COUNT: usize>(items: &[Item<K>], to: &mut [Item<K>], shift: u32) -> bool {
    assert_eq!(items.len(), to.len());
    let digit = |item: &Item<K>| item.key.shifted(shift) % COUNT;
    let mut places = [0_u32; COUNT];
    for item in items {
        let place = &mut places[digit(item)];
        *place = place.wrapping_add(1);
    }
    if places.iter().any(|&count| count as usize == items.len()) {
        return false;
    }
    let mut sum = 0_u32;
    for place in &mut places {
        let count = std::mem::replace(place, sum);
        sum = sum.wrapping_add(count);
    }
    for item in items {
        let place = &mut places[digit(item)];
        // SAFETY: each digit has as many places as items were counted, before those of the next digit.
        unsafe { *to.get_unchecked_mut(*place as usize) = *item };
        *place = place.wrapping_add(1);
    }
    true
}

/// Elements that are compared with the last candidate at a time.
const BLOCK: usize = 64;

/// The keys and indices of the first `count` elements in order.
fn first<T: Ordered>(row: &[T], count: usize, descending: bool, level: Level) -> Vec<(T::Key, usize)> {
    let mut found: Vec<(T::Key, usize)> = Vec::new();
    if count == 0 {
        return found;
    }
    // Candidates are kept until there are too many; then those that are certainly not among the first are dropped.
    let most = count + (count / 2).max(8);
    // Only keys before this one can be among the first: of equal elements, those with lower indices were found already.
    let mut bound: Option<T::Key> = None;
    for (number, block) in row.chunks(BLOCK).enumerate() {
        if let Some(bound) = bound {
            // SAFETY: the level was detected on this processor.
            if unsafe { !has_before(level, block, descending, bound) } {
                continue;
            }
        }
        for (one, at) in block.iter().zip(number * BLOCK..) {
            let key = one.key(descending);
            if bound.is_none_or(|bound| key < bound) {
                found.push((key, at));
            }
        }
        if found.len() >= most {
            let (_, last, _) = found.select_nth_unstable(count - 1);
            bound = Some(last.0);
            found.truncate(count);
        }
    }
    if found.len() > count {
        found.select_nth_unstable(count - 1);
        found.truncate(count);
    }
    found.sort_unstable();
    found
}

/// Whether an element of a block is before the bound.
///
/// # Safety
/// The processor has the instructions of the level.
unsafe fn has_before<T: Ordered>(level: Level, block: &[T], descending: bool, bound: T::Key) -> bool {
    #[inline(always)]
    fn body<T: Ordered>(block: &[T], descending: bool, bound: T::Key) -> bool {
        // Two loops, so that neither tests the direction of each element.
        macro_rules! any {
            ($descending:literal) => {
                block.iter().fold(false, |any, one| any | (one.key($descending) < bound))
            };
        }
        if descending { any!(true) } else { any!(false) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<T: Ordered>(block: &[T], descending: bool, bound: T::Key) -> bool {
        body(block, descending, bound)
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512<T: Ordered>(block: &[T], descending: bool, bound: T::Key) -> bool {
        body(block, descending, bound)
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(block, descending, bound),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(block, descending, bound),
            _ => body(block, descending, bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with many duplicates, zeros of both signs and NaN.
    fn row(length: usize) -> Vec<f32> {
        let mut state = 7_u32;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match state >> 27 {
                    0 => f32::NAN,
                    1 => -0.0,
                    2 => 0.0,
                    _ => (state >> 16 & 0x3FF) as f32 - 300.0,
                }
            })
            .collect()
    }

    fn expected<T: Ordered>(row: &[T], descending: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by_key(|&at| row[at].key(descending));
        order
    }

    fn sorted<T: Ordered>(row: &[T], descending: bool) -> Vec<usize> {
        let mut order = vec![usize::MAX; row.len()];
        by_radix(row, descending, |n, at| order[n] = at);
        order
    }

    #[test]
    fn a_radix_sort_is_the_stable_sort() {
        for length in [0, 1, 2, FEW, FEW + 1, 1000, MANY - 1, MANY + 1, 30_000] {
            let row = row(length);
            let whole: Vec<i64> = row.iter().map(|&one| (one as i64) << 40 | (one as i64 & 3)).collect();
            for descending in [false, true] {
                assert_eq!(sorted(&row, descending), expected(&row, descending));
                assert_eq!(sorted(&whole, descending), expected(&whole, descending));
                let mut order = Vec::new();
                by_comparing(&row, descending, |_, at| order.push(at));
                assert_eq!(order, expected(&row, descending));
            }
        }
    }

    #[test]
    fn the_first_elements_are_those_of_the_stable_sort() {
        for length in [0, 1, 100, 5000] {
            let row = row(length);
            for (descending, count) in [(false, 1), (true, 7), (true, length), (false, length / 2), (true, 0)]
            {
                let count = count.min(length);
                for level in Level::all() {
                    let found: Vec<usize> =
                        first(&row, count, descending, level).iter().map(|&(_, at)| at).collect();
                    assert_eq!(found, expected(&row, descending)[..count], "{count} of {length}");
                }
            }
        }
    }
}
