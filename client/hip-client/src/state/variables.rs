//! Managed variables: memory that exists from the program's start, before there is a session to mirror it in.
//!
//! All lie in one address range, so that a session mirrors them in few pieces: only libraries loaded later add another.

use std::ffi::{CStr, c_char};

use parking_lot::Mutex;

use crate::os::memory::{self, PAGE};

/// Address space reserved for managed variables; physical memory is used on demand.
const POOL_BYTES: usize = 1 << 30;
/// Far from program, heap, libraries and stack, and therefore most likely free on the worker too.
const POOL_HINT: usize = 0x1f00_0000_0000;

/// One managed variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The cookie of the binary that contains it.
    pub binary: u64,
    pub name: String,
    pub address: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Pool {
    base: usize,
    used: usize,
    variables: Vec<Variable>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { base: 0, used: 0, variables: Vec::new() });

/// Allocates a variable and copies its initial value; `None` if the pool is exhausted.
///
/// # Safety
/// `initial` is null or has `bytes` readable bytes, and `name` is null or a NUL-terminated string.
pub unsafe fn add(
    binary: u64,
    initial: *const u8,
    name: *const c_char,
    bytes: usize,
    align: usize,
) -> Option<*mut u8> {
    let mut pool = POOL.lock();
    if pool.base == 0 {
        pool.base = memory::map_pool(POOL_HINT, POOL_BYTES).ok()?;
    }
    let at = pool.used.checked_next_multiple_of(align.clamp(16, PAGE))?;
    let end = at.checked_add(bytes).filter(|end| *end <= POOL_BYTES)?;
    // Whole pages, because `beyond` shares whole pages.
    // SAFETY: inside the pool.
    unsafe { memory::grow_pool(pool.base + at, bytes) }.ok()?;
    pool.used = end;
    let address = (pool.base + at) as *mut u8;
    // SAFETY: inside the pool, whose bytes from here on are unused; the caller guarantees what is read.
    unsafe {
        if !initial.is_null() {
            std::ptr::copy_nonoverlapping(initial, address, bytes);
        }
        let name = if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into() };
        pool.variables.push(Variable { binary, name, address: address as u64, bytes: bytes as u64 });
    }
    Some(address)
}

/// The variables of a binary.
pub fn of_binary(binary: u64) -> Vec<Variable> {
    POOL.lock().variables.iter().filter(|variable| variable.binary == binary).cloned().collect()
}

/// The variable at an address.
pub fn at(address: u64) -> Option<Variable> {
    POOL.lock().variables.iter().find(|variable| variable.address == address).cloned()
}

/// Removes the variables of an unloaded binary. Their memory stays allocated: pointers to it may remain.
pub fn remove_binary(binary: u64) {
    POOL.lock().variables.retain(|variable| variable.binary != binary);
}

/// The part of the pool beyond its first `shared` bytes: start, size in whole pages, and the variables in it. Pieces
/// never share a page.
pub fn beyond(shared: u64) -> Option<(u64, u64, Vec<Variable>)> {
    let mut pool = POOL.lock();
    if pool.used as u64 <= shared {
        return None;
    }
    // Later variables begin on a new page.
    pool.used = pool.used.next_multiple_of(PAGE);
    let start = pool.base as u64 + shared;
    let variables = pool.variables.iter().filter(|variable| variable.address >= start).cloned().collect();
    Some((start, pool.used as u64 - shared, variables))
}

/// Runs in a forked child: the thread that may have held the lock does not exist here.
pub fn forget_lock_after_fork() {
    if POOL.is_locked() {
        // SAFETY: the child has one thread, which called fork and so is not inside this module.
        unsafe { POOL.force_unlock() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_their_initial_values_and_are_shared_in_whole_pages_once() {
        let five = 5u32.to_le_bytes();
        // SAFETY: the initial values and names are valid.
        let (a, b) = unsafe {
            (
                add(7, five.as_ptr(), c"a".as_ptr(), 4, 4).unwrap(),
                add(7, std::ptr::null(), c"b".as_ptr(), 10_000, 64).unwrap(),
            )
        };
        // SAFETY: just allocated.
        assert_eq!(unsafe { a.cast::<u32>().read() }, 5);
        assert!((b as usize).is_multiple_of(64) && b as usize >= a as usize + 4);
        let (start, bytes, variables) = beyond(0).unwrap();
        assert!(start <= a as u64 && start + bytes >= b as u64 + 10_000);
        assert!(start.is_multiple_of(4096) && bytes.is_multiple_of(4096));
        assert_eq!(variables.len(), 2);
        assert!(beyond(bytes).is_none());
        // SAFETY: as above.
        let c = unsafe { add(8, five.as_ptr(), c"c".as_ptr(), 4, 4) }.unwrap();
        let (next, _, variables) = beyond(bytes).unwrap();
        assert_eq!((next, variables.len()), (start + bytes, 1));
        assert!(c as u64 >= next);
        assert_eq!(of_binary(8)[0].name, "c");
        remove_binary(8);
        assert!(of_binary(8).is_empty());
        // SAFETY: no initial value and no name; larger than the pool.
        assert!(unsafe { add(9, std::ptr::null(), std::ptr::null(), POOL_BYTES, 4) }.is_none());
    }
}
