//! The second line behind the table of ranges: a page that the host has taken away although the table still has it.
//!
//! Whoever maps memory for kernels unmaps it only when no kernel can touch it, so this is for mistakes, and for programs that
//! unmap what they lent. The access is not undone, which could only be done by jumping out of a signal handler. Instead the
//! handler puts a page of zeros where it happened, which makes the access valid, and marks the dispatch, which ends as soon as
//! it looks. Only accesses of running kernels to watched ranges are treated so; every other one is a crash, as it should be.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ranges that can be watched at once.
const PLACES: usize = 64;
/// Bytes given for each access to a missing page.
const PAGE: u64 = 4096;

/// Starts and ends; a range with end 0 is free.
static WATCHED: [(AtomicU64, AtomicU64); PLACES] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; PLACES];

/// What the signals did before, for accesses that are none of ours.
static mut BEFORE: [MaybeUninit<libc::sigaction>; 2] = [MaybeUninit::zeroed(); 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

thread_local! {
    /// Where the dispatch that runs on this thread is marked; null when none does.
    static MARK: Cell<*const AtomicU64> = const { Cell::new(ptr::null()) };
}

/// A range whose missing pages end a dispatch and not the process, until this is dropped.
#[derive(Debug)]
pub struct Watch {
    place: usize,
}

impl Watch {
    /// Watches a range of addresses that belongs to the caller for as long as it is watched. `None` if too many are.
    ///
    /// # Safety
    /// Nothing but kernels' memory may ever lie in the range: the handler maps fresh pages over what is missing in it.
    pub unsafe fn new(start: u64, bytes: u64) -> Option<Watch> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let end = start.checked_add(bytes).filter(|end| *end > start)?;
        let place = WATCHED.iter().position(|(_, place)| {
            // Taken with an end no address is below, so that the handler skips it until its start is there.
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

/// This thread runs a dispatch until the value is dropped.
pub(crate) struct Entered<'a> {
    before: *const AtomicU64,
    _mark: PhantomData<&'a AtomicU64>,
}

impl<'a> Entered<'a> {
    /// The address of the first missing page is left in `mark`.
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
        // SAFETY: the structs are plain data; the handler does only what a handler may. `BEFORE` is written here, once, before
        // the handler that reads it exists.
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

/// Runs where the access happened: reads and writes atomics and a thread-local without destructor, and makes system calls.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the system passes a valid struct.
    let address = unsafe { (*info).si_addr() } as u64;
    let mark = MARK.get();
    let ours = !mark.is_null() && is_watched(address) && give_page(address);
    if ours {
        // SAFETY: the mark outlives the dispatch that runs on this thread.
        let _ = unsafe { &*mark }.compare_exchange(0, address.max(1), Ordering::Relaxed, Ordering::Relaxed);
        return;
    }
    let at = usize::from(signal == SIGNALS[1]);
    // SAFETY: written before this handler was installed. The access happens again when this returns, under the old rules.
    unsafe { libc::sigaction(signal, (&raw const BEFORE[at]).cast(), ptr::null_mut()) };
}

fn is_watched(address: u64) -> bool {
    WATCHED
        .iter()
        .any(|(start, end)| address < end.load(Ordering::Acquire) && address >= start.load(Ordering::Acquire))
}

fn give_page(address: u64) -> bool {
    let page = address / PAGE * PAGE;
    // SAFETY: the page is in a range that holds nothing but kernels' memory, by the contract of `Watch::new`.
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
