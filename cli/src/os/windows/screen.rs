//! Full-screen console output, which restores the console's settings on drop.

use std::io::{self, Write};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::Arc;

use anyhow::{Context, Result};
use windows_sys::Win32::Foundation::{HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, ENABLE_ECHO_INPUT, ENABLE_LINE_INPUT, ENABLE_PROCESSED_INPUT, GetConsoleMode,
    GetConsoleScreenBufferInfo, GetStdHandle, INPUT_RECORD, KEY_EVENT, ReadConsoleInputW, STD_INPUT_HANDLE,
    STD_OUTPUT_HANDLE, SetConsoleMode,
};
use windows_sys::Win32::System::Threading::{CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects};

use crate::os::escapes::{CLOSE, OPEN, frame};

#[derive(Debug)]
pub struct Screen {
    /// The original mode of standard input, if it is a console.
    before: Option<u32>,
    woken: Arc<OwnedHandle>,
}

/// Makes [`Screen::wait`] return.
#[derive(Debug)]
pub struct Waker(Arc<OwnedHandle>);

impl Waker {
    pub fn wake(&self) {
        // SAFETY: the event is open as long as this value exists.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }
}

impl Screen {
    /// Takes over the console, whose escape sequences are on. Ctrl-C becomes a key, so that the console can be restored.
    pub fn open() -> Result<Screen> {
        // SAFETY: an event of this process that resets itself; the handle is checked and owned from here on.
        let woken = unsafe {
            let event = CreateEventW(std::ptr::null(), 0, 0, std::ptr::null());
            if event.is_null() {
                return Err(io::Error::last_os_error()).context("cannot create an event");
            }
            OwnedHandle::from_raw_handle(event)
        };
        let mut mode = 0;
        // SAFETY: the handle belongs to this process, and the mode is a local variable.
        let before = unsafe {
            let is_console = GetConsoleMode(input(), &raw mut mode) != 0;
            if is_console {
                let raw = mode & !(ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT | ENABLE_PROCESSED_INPUT);
                SetConsoleMode(input(), raw);
            }
            is_console.then_some(mode)
        };
        let screen = Screen { before, woken: Arc::new(woken) };
        screen.put(OPEN)?;
        Ok(screen)
    }

    pub fn waker(&self) -> Result<Waker> {
        Ok(Waker(Arc::clone(&self.woken)))
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let mut info = CONSOLE_SCREEN_BUFFER_INFO::default();
        // SAFETY: the call writes to the structure, which is valid.
        let is_known =
            unsafe { GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &raw mut info) != 0 };
        let window = info.srWindow;
        let (columns, rows) = (window.Right - window.Left + 1, window.Bottom - window.Top + 1);
        match (usize::try_from(columns), usize::try_from(rows)) {
            (Ok(columns), Ok(rows)) if is_known && columns > 1 && rows > 1 => (columns, rows),
            _ => (80, 24),
        }
    }

    /// Redraws the screen with `text`; lines and columns that do not fit are cut off.
    pub fn draw(&self, text: &str) -> Result<()> {
        self.put(&frame(text, self.size()))
    }

    /// Waits until there is something new to draw. Returns true if the user wants to quit.
    pub fn wait(&mut self) -> Result<bool> {
        let handles = [self.woken.as_raw_handle(), input()];
        // Standard input that is not a console may always be ready.
        let count = if self.before.is_some() { 2 } else { 1 };
        // SAFETY: the array has at least this many open handles.
        match unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, INFINITE) } {
            WAIT_FAILED => Err(io::Error::last_os_error()).context("cannot wait for the console"),
            ready if ready == WAIT_OBJECT_0 + 1 => Ok(is_quit(read_key()?)),
            _ => Ok(false),
        }
    }

    fn put(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to the console")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Restore as much as possible; errors cannot be reported here.
        let _ = self.put(CLOSE);
        if let Some(before) = self.before {
            // SAFETY: restores the mode that `open` read.
            unsafe { SetConsoleMode(input(), before) };
        }
    }
}

/// The handle of standard input.
fn input() -> HANDLE {
    // SAFETY: has no preconditions; a missing handle makes later calls fail.
    unsafe { GetStdHandle(STD_INPUT_HANDLE) }
}

/// The character of the next key that was pressed; `None` for other events, such as a new size.
fn read_key() -> Result<Option<u16>> {
    let (mut record, mut count) = (INPUT_RECORD::default(), 0);
    // SAFETY: reads one event into the structure.
    if unsafe { ReadConsoleInputW(input(), &raw mut record, 1, &raw mut count) } == 0 {
        return Err(io::Error::last_os_error()).context("cannot read the console");
    }
    if count == 0 || u32::from(record.EventType) != KEY_EVENT {
        return Ok(None);
    }
    // SAFETY: the type of the event says that this is the member.
    let key = unsafe { record.Event.KeyEvent };
    // SAFETY: both members of the union are integers, and the call with W filled this one.
    let letter = unsafe { key.uChar.UnicodeChar };
    Ok((key.bKeyDown != 0).then_some(letter))
}

/// Whether a key ends the program: q, Ctrl-C or Ctrl-D.
fn is_quit(key: Option<u16>) -> bool {
    key.is_some_and(|key| [b'q', b'Q', 3, 4].map(u16::from).contains(&key))
}
