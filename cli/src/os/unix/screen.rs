//! Full-screen terminal output, which restores the terminal's settings on drop.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

use crate::os::escapes::{CLOSE, OPEN, frame};

#[derive(Debug)]
pub struct Screen {
    signals: i32,
    /// The original settings of standard input, if it is a terminal.
    before: Option<libc::termios>,
    woken: PipeReader,
    waker: PipeWriter,
}

/// Makes [`Screen::wait`] return.
#[derive(Debug)]
pub struct Waker(PipeWriter);

impl Waker {
    pub fn wake(&self) {
        // Errors are ignored: if the pipe is full, the reader wakes up anyway.
        let _ = (&self.0).write_all(&[0]);
    }
}

impl Screen {
    /// Takes over the terminal. Also blocks the signals that would end the program, so that the terminal can be restored.
    pub fn open() -> Result<Screen> {
        let (woken, waker) = io::pipe().context("cannot create a pipe")?;
        // SAFETY: the signal set and the settings struct are valid for the duration of the calls.
        let (signals, before) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGWINCH] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            let mut settings: libc::termios = std::mem::zeroed();
            let is_terminal = libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) == 0;
            let before = is_terminal.then_some(settings);
            if is_terminal {
                // Raw keys: no line buffering, no echo.
                settings.c_lflag &= !(libc::ICANON | libc::ECHO);
                libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const settings);
            }
            (libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC), before)
        };
        let screen = Screen { signals, before, woken, waker };
        if signals < 0 {
            return Err(io::Error::last_os_error()).context("cannot create a signal descriptor");
        }
        screen.put(OPEN)?;
        Ok(screen)
    }

    pub fn waker(&self) -> Result<Waker> {
        Ok(Waker(self.waker.try_clone().context("cannot create a pipe")?))
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        // SAFETY: the system call writes to the struct, for which all-zero is valid.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size);
            size
        };
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => (80, 24),
            (columns, rows) => (columns.into(), rows.into()),
        }
    }

    /// Redraws the screen with `text`; lines and columns that do not fit are cut off.
    pub fn draw(&self, text: &str) -> Result<()> {
        self.put(&frame(text, self.size()))
    }

    /// Waits until there is something new to draw. Returns true if the user wants to quit.
    pub fn wait(&mut self) -> Result<bool> {
        let mut polls = [libc::STDIN_FILENO, self.signals, self.woken.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        if self.before.is_none() {
            // Standard input is not a terminal; a closed input would always be ready.
            polls[0].fd = -1;
        }
        // SAFETY: the array is valid for its length.
        if unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, -1) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error.into()) };
        }
        if polls[2].revents != 0 {
            let mut sink = [0; 64];
            let _ = self.woken.read(&mut sink).context("cannot read the wake-up pipe")?;
        }
        if polls[1].revents != 0 {
            // SAFETY: a signal is pending, and is read into a struct of the matching size.
            let signal = unsafe {
                let mut info: libc::signalfd_siginfo = std::mem::zeroed();
                libc::read(self.signals, (&raw mut info).cast(), size_of_val(&info));
                info.ssi_signo
            };
            if signal != libc::SIGWINCH as u32 {
                return Ok(true);
            }
        }
        if polls[0].revents != 0 {
            let mut key = [0];
            // SAFETY: reads at most one byte into the array.
            let read = unsafe { libc::read(libc::STDIN_FILENO, key.as_mut_ptr().cast(), 1) };
            return Ok(read <= 0 || matches!(key[0], b'q' | b'Q' | 3 | 4));
        }
        Ok(false)
    }

    fn put(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Restore as much as possible; errors cannot be reported here.
        let _ = self.put(CLOSE);
        if let Some(before) = &self.before {
            // SAFETY: restores the settings that `open` read.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before) };
        }
        if self.signals >= 0 {
            // SAFETY: this struct owns the descriptor and does not use it again.
            unsafe { libc::close(self.signals) };
        }
    }
}
