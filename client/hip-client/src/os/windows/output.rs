//! Writes device printf output to this program's stdout and stderr, through the buffers of its C runtime so that it stays in order
//! with the program's own output.
//!
//! A Windows process may have several C runtimes, each with its own buffers. The one that the program imports counts; a program
//! with a static runtime gets the output unbuffered.

use std::ffi::{c_char, c_void};
use std::io::Write;
use std::sync::OnceLock;

use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

/// C runtimes, newest first.
const RUNTIMES: [&std::ffi::CStr; 2] = [c"ucrtbase.dll", c"msvcrt.dll"];
/// Size of a FILE in msvcrt.dll, which exports its streams as an array.
const OLD_FILE_BYTES: usize = 48;

type Stream = unsafe extern "C" fn(u32) -> *mut c_void;
type OldStreams = unsafe extern "C" fn() -> *mut c_void;
type Write_ = unsafe extern "C" fn(*const c_void, usize, usize, *mut c_void) -> usize;
type Flush = unsafe extern "C" fn(*mut c_void) -> i32;

/// The streams of the program's C runtime.
struct Runtime {
    out: *mut c_void,
    error: *mut c_void,
    write: Write_,
    flush: Flush,
}

// SAFETY: the C runtime locks its streams.
unsafe impl Send for Runtime {}
// SAFETY: as above.
unsafe impl Sync for Runtime {}

pub fn write(descriptor: u32, text: &[u8]) {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    match RUNTIME.get_or_init(|| runtime_of(imports())) {
        Some(runtime) => {
            let stream = if descriptor == 2 { runtime.error } else { runtime.out };
            // SAFETY: a stream of this runtime; the bytes are readable for the length passed.
            unsafe {
                (runtime.write)(text.as_ptr().cast(), 1, text.len(), stream);
                (runtime.flush)(stream);
            }
        }
        // A closed stream is ignored.
        None if descriptor == 2 => drop(std::io::stderr().write_all(text)),
        None => {
            let mut out = std::io::stdout();
            let _ = out.write_all(text).and_then(|()| out.flush());
        }
    }
}

fn runtime_of(imports: Vec<String>) -> Option<Runtime> {
    let is_universal = |name: &String| name.starts_with("ucrtbase") || name.starts_with("api-ms-win-crt");
    let library = if imports.iter().any(is_universal) {
        RUNTIMES[0]
    } else if imports.iter().any(|name| name == "msvcrt.dll") {
        RUNTIMES[1]
    } else {
        return None;
    };
    // SAFETY: NUL-terminated names; the functions have these types in both runtimes, which are never unloaded.
    unsafe {
        let module = GetModuleHandleA(library.as_ptr().cast());
        if module.is_null() {
            return None;
        }
        let find = |name: &std::ffi::CStr| GetProcAddress(module, name.as_ptr().cast());
        let write = std::mem::transmute::<_, Write_>(find(c"fwrite")?);
        let flush = std::mem::transmute::<_, Flush>(find(c"fflush")?);
        let (out, error) = match find(c"__acrt_iob_func") {
            Some(stream) => {
                let stream = std::mem::transmute::<_, Stream>(stream);
                (stream(1), stream(2))
            }
            None => {
                let streams = std::mem::transmute::<_, OldStreams>(find(c"__iob_func")?)();
                (streams.byte_add(OLD_FILE_BYTES), streams.byte_add(2 * OLD_FILE_BYTES))
            }
        };
        Some(Runtime { out, error, write, flush })
    }
}

/// The names of the DLLs that the program itself imports, in lower case.
fn imports() -> Vec<String> {
    // Offsets in the headers of a loaded PE32+ file.
    const NEW_HEADER: usize = 0x3c;
    const IMPORT_DIRECTORY: usize = 24 + 120;
    const ENTRY_BYTES: usize = 20;
    const NAME: usize = 12;
    // SAFETY: without a name this is the program, whose headers and import directory the loader has mapped and checked; the
    // directory ends with an entry without a name, and names end with NUL.
    unsafe {
        let base: *const u8 = GetModuleHandleA(std::ptr::null()).cast_const().cast();
        let number = |offset: usize| base.add(offset).cast::<u32>().read_unaligned() as usize;
        let mut entry = number(number(NEW_HEADER) + IMPORT_DIRECTORY);
        let mut names = Vec::new();
        while entry != 0 && number(entry + NAME) != 0 {
            let name = std::ffi::CStr::from_ptr(base.add(number(entry + NAME)).cast::<c_char>());
            names.push(name.to_string_lossy().to_ascii_lowercase());
            entry += ENTRY_BYTES;
        }
        names
    }
}
