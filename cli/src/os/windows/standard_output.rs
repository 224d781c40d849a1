//! Standard output that is a pipe or a console.

use std::io::IsTerminal;

use windows_sys::Win32::System::Console::{
    ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle, STD_OUTPUT_HANDLE, SetConsoleMode,
};

/// Ends the process: nobody reads what it writes.
pub fn end_by_broken_pipe() -> ! {
    std::process::exit(1)
}

/// Whether standard output is a console that understands escape sequences. Consoles before Windows 10 do not: they would show them.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && enable_escapes()
}

/// Makes the console interpret escape sequences. Fails for old consoles.
fn enable_escapes() -> bool {
    let mut mode = 0;
    // SAFETY: the handle belongs to this process, and the mode is a local variable.
    unsafe {
        let console = GetStdHandle(STD_OUTPUT_HANDLE);
        GetConsoleMode(console, &raw mut mode) != 0
            && SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
    }
}
