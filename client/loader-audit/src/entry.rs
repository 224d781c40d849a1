//! The shared object: entry points for the dynamic linker, and the functions that a library without libc must define itself.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_uint};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::take_over::{Libraries, is_foreign, replacement};
use crate::{name, system};

const LA_SER_ORIG: c_uint = 1;
/// Limit on foreign libraries that are reported, per process.
const MOST_REPORTS: usize = 4;
const OWN_FILE: &[u8] = b"libremora_audit.so";

/// Written once, before the dynamic linker calls any entry point.
struct Found(UnsafeCell<Libraries>);
// SAFETY: `loaded` writes it while the process is single-threaded; afterwards it is only read.
unsafe impl Sync for Found {}
static FOUND: Found = Found(UnsafeCell::new(Libraries::NONE));
static REPORTS: AtomicUsize = AtomicUsize::new(0);

/// Hashes of paths that were found in a searched folder and replaced. The dynamic linker keeps such a path as the name of the
/// replacement it loads.
static REPLACED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// The public part of the dynamic linker's link_map.
#[repr(C)]
#[allow(missing_debug_implementations, reason = "the dynamic linker's structure, only read")]
pub struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const [u64; 2],
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

/// Finds Remora's folder, the one that contains this file, from `LD_AUDIT`.
unsafe extern "C" fn loaded(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    let mut entry = environment;
    // SAFETY: glibc passes the environment to initialisers: strings, then a null pointer.
    while let Some(text) = unsafe { entry.as_ref() }.filter(|text| !text.is_null()) {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(*text) }.to_bytes();
        if let Some(files) = text.strip_prefix(b"LD_AUDIT=") {
            let own = files.split(|byte| *byte == b':').find(|file| name::file_name(file) == OWN_FILE);
            if let Some(folder) = own.and_then(|own| own.strip_suffix(OWN_FILE)).filter(|it| !it.is_empty()) {
                // SAFETY: see `Found`.
                unsafe { &mut *FOUND.0.get() }.set(folder, system::exists);
            }
            return;
        }
        // SAFETY: the null pointer was not reached.
        entry = unsafe { entry.add(1) };
    }
}

/// Accepts the dynamic linker's version of the interface; every version has what is used here.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(version: c_uint) -> c_uint {
    version
}

/// # Safety
/// Called by the dynamic linker with a NUL-terminated name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objsearch(asked: *const c_char, _: *mut usize, flag: c_uint) -> *const c_char {
    // SAFETY: see `Found`.
    let found = unsafe { &*FOUND.0.get() };
    // SAFETY: the dynamic linker passes a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(asked) }.to_bytes();
    // SAFETY: as above.
    let generation = || unsafe { system::generation(asked) };
    let Some(path) = replacement(found, text, flag == LA_SER_ORIG, generation) else { return asked };
    if flag != LA_SER_ORIG {
        remember(text);
    }
    path.as_ptr().cast()
}

/// Records a path that was replaced. When the table is full an earlier one is overwritten, and would be reported if it were
/// loaded again.
fn remember(path: &[u8]) {
    let hash = hash(path);
    if !was_replaced(path)
        && let Some(place) = REPLACED.get(hash as usize % REPLACED.len())
    {
        place.store(hash, Ordering::Relaxed);
    }
}

fn was_replaced(path: &[u8]) -> bool {
    let hash = hash(path);
    REPLACED.iter().any(|place| place.load(Ordering::Relaxed) == hash)
}

/// FNV-1a hash; never 0, which marks an empty slot.
fn hash(path: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325u64;
    path.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)) | 1
}

/// Called for each loaded object. Returns 0: symbol bindings are not audited.
///
/// # Safety
/// Called by the dynamic linker with its description of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(map: *const LinkMap, _: isize, _: *mut usize) -> c_uint {
    // SAFETY: the dynamic linker passes a link_map whose name is a string and whose dynamic section is mapped.
    let (path, soname) = unsafe {
        let path = (*map).name;
        (if path.is_null() { c"" } else { CStr::from_ptr(path) }.to_bytes(), soname(&*map))
    };
    // SAFETY: see `Found`.
    if is_foreign(unsafe { &*FOUND.0.get() }, path, soname.to_bytes())
        && !was_replaced(path)
        && REPORTS.fetch_add(1, Ordering::Relaxed) < MOST_REPORTS
    {
        report(path);
    }
    0
}

/// Returns the DT_SONAME of a loaded object, or an empty string.
///
/// # Safety
/// The map must come from the dynamic linker.
unsafe fn soname(map: &LinkMap) -> &CStr {
    let (mut strings, mut soname) = (0, None);
    let mut entry = map.dynamic;
    if entry.is_null() {
        return c"";
    }
    loop {
        // SAFETY: the dynamic section ends with DT_NULL, which was not reached.
        let [tag, value] = unsafe { *entry };
        match tag {
            0 => break,
            5 => strings = value as usize,
            14 => soname = Some(value as usize),
            _ => {}
        }
        // SAFETY: as above.
        entry = unsafe { entry.add(1) };
    }
    let Some(soname) = soname.filter(|_| strings != 0) else { return c"" };
    // The dynamic linker relocates the entry in place, unless the section is read-only.
    let strings = if strings < map.base { strings + map.base } else { strings };
    // SAFETY: DT_SONAME is an offset into the string table.
    unsafe { CStr::from_ptr((strings + soname) as *const c_char) }
}

/// Prints one line with a single write, so that lines of several processes do not mix.
fn report(path: &[u8]) {
    let mut line = [0u8; 1536];
    let mut length = 0;
    let before: &[u8] = b"remora: the program loaded ";
    let after: &[u8] = b", which is not Remora's libamdhip64: HIP calls through it do not reach the worker. Remora \
        replaces libamdhip64.so.5, .so.6 and .so.7; make the program load one of these names, or remove that file\n";
    for part in [before, path.get(..path.len().min(1024)).unwrap_or_default(), after] {
        if let Some(place) = line.get_mut(length..length + part.len()) {
            place.copy_from_slice(part);
            length += part.len();
        }
    }
    system::complain(line.get(..length).unwrap_or_default());
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing here can panic; if it does, the process must not continue with a half-replaced library.
    loop {
        core::hint::spin_loop();
    }
}

/// Referenced by the unwind tables of Rust's core library; nothing unwinds.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

// Functions that the compiler calls for copies and comparisons. They have C's names; this library has a linker namespace to
// itself.

/// # Safety
/// As C's memcpy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    for at in 0..bytes {
        // SAFETY: guaranteed by the caller. Volatile, so that the compiler does not turn the loop into a call of memcpy.
        unsafe { to.add(at).write_volatile(from.add(at).read()) };
    }
    to
}

/// # Safety
/// As C's memmove.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize) <= from as usize {
        // SAFETY: guaranteed by the caller; copying forwards is correct when `to` is not above `from`.
        return unsafe { memcpy(to, from, bytes) };
    }
    for at in (0..bytes).rev() {
        // SAFETY: as in memcpy.
        unsafe { to.add(at).write_volatile(from.add(at).read()) };
    }
    to
}

/// # Safety
/// As C's memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, value: c_int, bytes: usize) -> *mut u8 {
    for at in 0..bytes {
        // SAFETY: as in memcpy.
        unsafe { to.add(at).write_volatile(value as u8) };
    }
    to
}

/// # Safety
/// As C's memcmp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, bytes: usize) -> c_int {
    for at in 0..bytes {
        // SAFETY: guaranteed by the caller. Volatile, so that the compiler does not turn the loop into a call of memcmp.
        let (left, right) = unsafe { (left.add(at).read_volatile(), right.add(at).read()) };
        if left != right {
            return c_int::from(left) - c_int::from(right);
        }
    }
    0
}

/// # Safety
/// As bcmp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, bytes: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { memcmp(left, right, bytes) }
}

/// # Safety
/// As C's strlen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: guaranteed by the caller.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
