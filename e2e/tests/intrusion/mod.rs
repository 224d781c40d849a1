//! Injects system calls into another process with ptrace.

use std::cell::Cell;

/// The stopped main thread of a process. It continues with its original registers when this is dropped.
#[derive(Debug)]
pub struct Intruder {
    pid: libc::pid_t,
    /// The original registers.
    registers: libc::user_regs_struct,
    /// The address of a `syscall` instruction.
    instruction: u64,
    used: Cell<bool>,
}

impl Intruder {
    /// Stops the thread while it waits in a system call.
    pub fn new(pid: u32) -> Intruder {
        let pid = libc::pid_t::try_from(pid).expect("a process id fits");
        let mut found = None;
        e2e::eventually("the thread waits in a system call", || {
            trace(libc::PTRACE_ATTACH, pid, 0, 0);
            wait(pid);
            let registers = registers(pid);
            let before = registers.rip - 2;
            let is_call = trace(libc::PTRACE_PEEKTEXT, pid, before, 0) & 0xffff == 0x050f;
            if is_call {
                found = Some((registers, before));
            } else {
                trace(libc::PTRACE_DETACH, pid, 0, 0);
            }
            is_call
        });
        let (registers, instruction) = found.expect("the thread was stopped in a system call");
        Intruder { pid, registers, instruction, used: Cell::new(false) }
    }

    /// Executes a system call in the process; the result is negative on failure.
    pub fn call(&self, number: libc::c_long, arguments: [i64; 6]) -> i64 {
        self.used.set(true);
        let mut registers = self.registers;
        let [first, second, third, fourth, fifth, sixth] = arguments.map(|argument| argument as u64);
        // Prevents the kernel from restarting the interrupted system call.
        registers.orig_rax = u64::MAX;
        registers.rax = number as u64;
        registers.rip = self.instruction;
        (registers.rdi, registers.rsi, registers.rdx) = (first, second, third);
        (registers.r10, registers.r8, registers.r9) = (fourth, fifth, sixth);
        set_registers(self.pid, &registers);
        trace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0);
        wait(self.pid);
        self::registers(self.pid).rax as i64
    }

    /// Writes a string into the process's memory and passes its address to `lend`.
    pub fn with_text<T>(&self, text: &str, lend: impl FnOnce(i64) -> T) -> T {
        // Below the current stack pointer, but within the part of the stack that is already mapped.
        let address = (self.registers.rsp - 4096) & !7;
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(bytes.len() / 8 * 8 + 8, 0);
        for (word, at) in bytes.as_chunks::<8>().0.iter().zip((address..).step_by(8)) {
            trace(libc::PTRACE_POKEDATA, self.pid, at, u64::from_le_bytes(*word));
        }
        lend(address as i64)
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        if self.used.get() {
            set_registers(self.pid, &self.registers);
        }
        trace(libc::PTRACE_DETACH, self.pid, 0, 0);
    }
}

fn registers(pid: libc::pid_t) -> libc::user_regs_struct {
    // SAFETY: all-zero is a valid value of this struct of numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    trace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers as u64);
    registers
}

fn set_registers(pid: libc::pid_t, registers: &libc::user_regs_struct) {
    trace(libc::PTRACE_SETREGS, pid, 0, std::ptr::from_ref(registers) as u64);
}

fn trace(request: libc::c_uint, pid: libc::pid_t, address: u64, data: u64) -> i64 {
    // SAFETY: errno is thread-local; addresses are those of the other process, except for the registers, which outlive the call.
    let (result, error) = unsafe {
        *libc::__errno_location() = 0;
        let result = libc::ptrace(request, pid, address, data);
        (result, *libc::__errno_location())
    };
    assert!(error == 0, "ptrace request {request}: {}", std::io::Error::from_raw_os_error(error));
    result
}

fn wait(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the status is written to a local variable.
    let waited = unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
    assert_eq!(waited, pid, "{}", std::io::Error::last_os_error());
    assert!(libc::WIFSTOPPED(status), "the process ended: {status:#x}");
}
