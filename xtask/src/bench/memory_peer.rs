//! The reference for shared memory: two processes that exchange counters and bytes in memory that both have mapped, and wait as
//! Remora does: they poll for a while and then sleep on a futex.
//!
//! The other end is this same program, started with `bench --memory-peer FILE`.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// As long as in Remora.
const POLLING: Duration = Duration::from_micros(20);
const BYTES: usize = 1 << 20;
const HEADER: usize = 4096;
/// The value of a turn that ends the other process.
const END: u32 = u32::MAX;
/// How long the local end waits for the other process.
const PATIENCE: Duration = Duration::from_secs(20);

/// One direction: whose turn it is, and whether the receiver sleeps.
#[repr(C, align(128))]
struct Turn {
    number: AtomicU32,
    sleeps: AtomicU32,
    /// Length of the message.
    bytes: AtomicU32,
}

#[repr(C)]
struct Words {
    there: Turn,
    back: Turn,
}

/// Memory that two processes have mapped.
struct Memory {
    base: NonNull<u8>,
}

impl Memory {
    fn map(file: &File) -> Result<Memory> {
        let length = HEADER + 2 * BYTES;
        // SAFETY: maps a file at an address that the kernel chooses; nothing existing is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            bail!("cannot map the shared memory: {}", std::io::Error::last_os_error());
        }
        Ok(Memory { base: NonNull::new(base.cast()).context("the mapping is at address 0")? })
    }

    fn words(&self) -> &Words {
        // SAFETY: the first page is mapped and aligned, every field is atomic, and zero is a valid value.
        unsafe { self.base.cast::<Words>().as_ref() }
    }

    /// Copies a message into the memory.
    fn put(&self, half: usize, message: &[u8]) {
        let length = message.len().min(BYTES);
        // SAFETY: the range lies in the mapping; the other process reads it only after its turn was announced.
        unsafe {
            let place = self.base.as_ptr().add(HEADER + half * BYTES);
            std::ptr::copy_nonoverlapping(message.as_ptr(), place, length);
        }
    }

    /// Copies a message out of the memory.
    fn get(&self, half: usize, message: &mut [u8]) {
        let length = message.len().min(BYTES);
        // SAFETY: the range lies in the mapping; the other process writes it only in its own turn.
        unsafe {
            let place = self.base.as_ptr().add(HEADER + half * BYTES);
            std::ptr::copy_nonoverlapping(place, message.as_mut_ptr(), length);
        }
    }
}

impl Turn {
    fn give(&self, number: u32) {
        self.number.store(number, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) != 0 {
            self.sleeps.store(0, Ordering::Relaxed);
            // SAFETY: passes the address of a mapped word, which the kernel does not access here.
            unsafe { libc::syscall(libc::SYS_futex, self.number.as_ptr(), libc::FUTEX_WAKE, 1) };
        }
    }

    /// Waits until the number is no longer `before`.
    fn take(&self, before: u32) -> Result<u32> {
        let start = Instant::now();
        let mut polls = 0u32;
        loop {
            let number = self.number.load(Ordering::Acquire);
            if number != before {
                return Ok(number);
            }
            std::hint::spin_loop();
            polls += 1;
            if polls.is_multiple_of(16) && start.elapsed() >= POLLING {
                self.sleeps.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                let limit = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                // SAFETY: the word and the time outlive the call; the kernel only reads both.
                unsafe {
                    libc::syscall(libc::SYS_futex, self.number.as_ptr(), libc::FUTEX_WAIT, before, &limit)
                };
                if start.elapsed() > PATIENCE {
                    bail!("the other end of the shared memory does not reply");
                }
            }
        }
    }
}

/// Runs the other end until it receives the request to stop.
pub fn serve(file: &Path) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let memory = Memory::map(&file)?;
    let words = memory.words();
    let mut buffer = vec![0; BYTES];
    let mut turn = 0;
    loop {
        turn = words.there.take(turn)?;
        if turn == END {
            return Ok(());
        }
        let bytes = words.there.bytes.load(Ordering::Relaxed) as usize;
        memory.get(0, &mut buffer[..bytes.min(BYTES)]);
        let reply = words.back.bytes.load(Ordering::Relaxed) as usize;
        memory.put(1, &buffer[..reply.min(BYTES)]);
        words.back.give(turn);
    }
}

/// The local end.
pub struct MemoryPeer {
    child: Child,
    memory: Memory,
    turn: u32,
    path: PathBuf,
}

impl MemoryPeer {
    pub fn start(path: &Path) -> Result<MemoryPeer> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len((HEADER + 2 * BYTES) as u64)?;
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        let child = Command::new(program)
            .args(["bench", "--memory-peer"])
            .arg(path)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the other end of the shared-memory measurements")?;
        Ok(MemoryPeer { child, memory: Memory::map(&file)?, turn: 0, path: path.to_owned() })
    }

    /// Seconds for `count` messages of `request` bytes, each answered by one of `reply` bytes.
    pub fn echo(&mut self, request: usize, reply: usize, count: u64) -> Result<f64> {
        let (message, mut answer) = (vec![1; request], vec![0; reply]);
        let words = self.memory.words();
        words.there.bytes.store(request as u32, Ordering::Relaxed);
        words.back.bytes.store(reply as u32, Ordering::Relaxed);
        let started = Instant::now();
        for _ in 0..count {
            let before = self.turn;
            self.turn = before.wrapping_add(1) % (END - 1);
            self.memory.put(0, &message);
            words.there.give(self.turn);
            words.back.take(before)?;
            self.memory.get(1, &mut answer);
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

impl Drop for MemoryPeer {
    fn drop(&mut self) {
        self.memory.words().there.give(END);
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Speed of one copy in memory, in bytes per second: half of it is the most that a copy into shared memory and one out of it reach
/// on one processor.
pub fn copy_speed(bytes: usize, rounds: usize) -> f64 {
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    let mut best = f64::INFINITY;
    for _ in 0..rounds.max(2) {
        let started = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        best = best.min(started.elapsed().as_secs_f64());
    }
    bytes as f64 / best
}
