//! SIGSEGV/SIGBUS handler for kernel accesses to pages that the host has unmapped although the range table still lists them.
//!
//! Memory of kernels is unmapped only when no kernel can access it, so this handles bugs, and programs that unmap memory they
//! registered. The handler does not abort the access, since that would mean jumping out of a signal handler. Instead it maps a
//! zero page at the address, which makes the access succeed, and marks the dispatch, which ends at its next check. Only accesses
//! by running kernels to watched ranges are handled; any other access crashes the process, as it would without the handler.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of watched ranges.
const PLACES: usize = 64;
/// Bytes mapped per access to an unmapped page.
const PAGE: u64 = 4096;

/// Start and end of each watched range; end 0 marks a free slot.
static WATCHED: [(AtomicU64, AtomicU64); PLACES] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; PLACES];

/// Previous signal actions, restored for faults that are not caused by kernels.
static mut BEFORE: [MaybeUninit<libc::sigaction>; 2] = [MaybeUninit::zeroed(); 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

thread_local! {
    /// Where the dispatch on this thread records the faulting address; null when no dispatch runs.
    static MARK: Cell<*const AtomicU64> = const { Cell::new(ptr::null()) };
}

/// A watched range: an access to an unmapped page in it ends the dispatch instead of the process. Ends when dropped.
#[derive(Debug)]
pub struct Watch {
    place: usize,
}

impl Watch {
    /// Watches an address range, which must belong to the caller while it is watched. `None` if too many ranges are watched.
    ///
    /// # Safety
    /// Nothing but kernel memory may be in the range at any time: the handler maps fresh pages over unmapped ones.
    pub unsafe fn new(start: u64, bytes: u64) -> Option<Watch> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let end = start.checked_add(bytes).filter(|end| *end > start)?;
        let place = WATCHED.iter().position(|(_, place)| {
            // The slot is reserved with end 1, which matches no address, so that the handler skips it until the start is stored.
            place.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        WATCHED[place].0.store(start, Ordering::Release);
        WATCHED[place].1.store(end, Ordering::Release);
        Some(Watch { place })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED[self.place].1.store(0, Ordering::Release);
    }
}

/// Guard for the time during which this thread runs a dispatch.
pub(crate) struct Entered<'a> {
    before: *const AtomicU64,
    _mark: PhantomData<&'a AtomicU64>,
}

impl<'a> Entered<'a> {
    /// Marks the thread. The handler stores the address of the first access to an unmapped page in `mark`.
    pub(crate) fn new(mark: &'a AtomicU64) -> Entered<'a> {
        Entered { before: MARK.replace(mark), _mark: PhantomData }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        MARK.set(self.before);
    }
}

fn install() {
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: the structs are plain data, and the handler is async-signal-safe. `BEFORE` is written only here, once, before
        // the handler that reads it is installed.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut before);
            (&raw mut BEFORE[at]).write(MaybeUninit::new(before));
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// Signal handler. Async-signal-safe: it uses atomics, a thread-local without destructor, and system calls only.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid struct.
    let address = unsafe { (*info).si_addr() } as u64;
    let mark = MARK.get();
    let ours = !mark.is_null() && is_watched(address) && give_page(address);
    if ours {
        // SAFETY: the mark outlives the dispatch that runs on this thread.
        let _ = unsafe { &*mark }.compare_exchange(0, address.max(1), Ordering::Relaxed, Ordering::Relaxed);
        return;
    }
    let at = usize::from(signal == SIGNALS[1]);
    // SAFETY: `BEFORE` was written before this handler was installed. On return the access faults again, under the previous
    // action.
    unsafe { libc::sigaction(signal, (&raw const BEFORE[at]).cast(), ptr::null_mut()) };
}

fn is_watched(address: u64) -> bool {
    WATCHED
        .iter()
        .any(|(start, end)| address < end.load(Ordering::Acquire) && address >= start.load(Ordering::Acquire))
}

fn give_page(address: u64) -> bool {
    let page = address / PAGE * PAGE;
    // SAFETY: the page is in a watched range, which contains only kernel memory by the contract of `Watch::new`.
    let got = unsafe {
        libc::mmap(
            page as *mut c_void,
            PAGE as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    got != libc::MAP_FAILED
}
