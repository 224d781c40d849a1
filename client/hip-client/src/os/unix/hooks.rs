//! Functions of this library that the system calls: when it is loaded, at fork and at exit.

use crate::process::exit;

/// Called by the dynamic linker when it has loaded the library.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    at_fork(exit::forked);
}

/// Called by the dynamic linker at exit, after every atexit handler and static destructor of the process, and after the
/// destructors of libraries that depend on this one. The library is never unloaded earlier.
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = exit::exiting;

/// Runs a function in every forked child.
pub fn at_fork(child: extern "C" fn()) {
    // SAFETY: the handler is a plain function of this library; it accesses only objects that are never freed.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Runs a function before any exit handler that is already registered.
pub fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler is a plain function of this library, which is never unloaded.
    unsafe { libc::atexit(handler) };
}

/// Whether the process is exiting beyond what `at_exit` reports.
pub fn is_exiting() -> bool {
    false
}

/// Whether the process's other threads still run while [`exit::exiting`] runs.
pub const THREADS_OUTLIVE_EXIT: bool = true;
