//! A terminal that is drawn over again, and is left as it was found.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

/// Another screen than the one people work on, without a cursor; and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left; the rest of a line, the rest of the screen is blank.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST: &str = "\x1b[J";

#[derive(Debug)]
pub struct Screen {
    signals: i32,
    /// How standard input was set, if it is a terminal.
    before: Option<libc::termios>,
    woken: PipeReader,
    waker: PipeWriter,
}

/// Makes [`Screen::wait`] return.
#[derive(Debug)]
pub struct Waker(PipeWriter);

impl Waker {
    pub fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.0).write_all(&[0]);
    }
}

impl Screen {
    /// Takes the terminal. Signals that end the program are taken too, so that it can be given back.
    pub fn open() -> Result<Screen> {
        let (woken, waker) = io::pipe().context("no pipe")?;
        // SAFETY: plain system calls on a set and a struct that live through them.
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
                // Keys come one by one, and are not shown.
                settings.c_lflag &= !(libc::ICANON | libc::ECHO);
                libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const settings);
            }
            (libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC), before)
        };
        let screen = Screen { signals, before, woken, waker };
        if signals < 0 {
            return Err(io::Error::last_os_error()).context("signals cannot be watched");
        }
        screen.put(OPEN)?;
        Ok(screen)
    }

    pub fn waker(&self) -> Result<Waker> {
        Ok(Waker(self.waker.try_clone().context("no pipe")?))
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        // SAFETY: the system call fills the struct, for which all zero is valid.
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

    /// Shows text in place of what was shown; what does not fit is left out.
    pub fn draw(&self, text: &str) -> Result<()> {
        let (columns, rows) = self.size();
        let mut out = HOME.to_owned();
        for (index, line) in text.lines().take(rows).enumerate() {
            if index > 0 {
                out.push_str("\r\n");
            }
            // Text of other machines is shown, not obeyed.
            out.extend(line.chars().filter(|c| !c.is_control()).take(columns));
            out.push_str(REST_OF_LINE);
        }
        out.push_str(REST);
        self.put(&out)
    }

    /// Waits until there is something new to draw; whether it is time to leave.
    pub fn wait(&mut self) -> Result<bool> {
        let mut polls = [libc::STDIN_FILENO, self.signals, self.woken.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        if self.before.is_none() {
            // Not the terminal's keys; a closed input would be ready all the time.
            polls[0].fd = -1;
        }
        // SAFETY: the array is valid for its length.
        if unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, -1) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error.into()) };
        }
        if polls[2].revents != 0 {
            let mut sink = [0; 64];
            let _ = self.woken.read(&mut sink).context("the pipe broke")?;
        }
        if polls[1].revents != 0 {
            // SAFETY: a signal is there, and is read into a struct of its own size.
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
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("the terminal cannot be written")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whatever can be put back is.
        let _ = self.put(CLOSE);
        if let Some(before) = &self.before {
            // SAFETY: the settings are those that were found.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before) };
        }
        if self.signals >= 0 {
            // SAFETY: ours, and not used any more.
            unsafe { libc::close(self.signals) };
        }
    }
}
