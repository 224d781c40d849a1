//! Seccomp tables: the system calls that a session's process may make, per back end.
//!
//! Derived from the calls in our sources, plus what the C library, threads and the allocator can call at any time. Any other call
//! fails with EPERM. Calls that start a process, open a connection, access another process or change the kernel must never get a
//! row.

use sandbox::self_confine::{Call, When};

const fn any(number: libc::c_long) -> Call {
    Call { number, when: When::Always }
}

const fn only(number: libc::c_long, when: When) -> Call {
    Call { number, when }
}

/// Flag of `userfaultfd`: only faults in user mode.
const UFFD_USER_MODE_ONLY: u32 = 1;

/// `UFFDIO_API`, `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER` and `PAGEMAP_SCAN` track written pages. `TCGETS` tells whether the log is
/// a terminal. The rest are descriptor flags.
const IOCTLS: &[u32] = &[
    0xc018_aa3f,
    0xc020_aa00,
    0x8010_aa01,
    0xc060_6610,
    libc::TCGETS as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOCLEX as u32,
];

/// Without `F_SETOWN` and similar commands, which send signals to other processes.
const FCNTLS: &[u32] = &[
    libc::F_DUPFD as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_SETFL as u32,
    libc::F_ADD_SEALS as u32,
    libc::F_GET_SEALS as u32,
];

/// Names for debuggers and allocators, permission for a client of the same user to access this process's memory, and the precision
/// of a thread's timers.
const PRCTLS: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_SET_VMA as u32,
    libc::PR_SET_PTRACER as u32,
    libc::PR_SET_DUMPABLE as u32,
    libc::PR_SET_TIMERSLACK as u32,
];

/// Without options that load code into the kernel, such as `SO_ATTACH_FILTER` and `TCP_ULP`.
const SOCKET_OPTIONS: &[u32] = &[
    libc::SO_RCVTIMEO as u32,
    libc::SO_SNDTIMEO as u32,
    libc::SO_KEEPALIVE as u32,
    libc::SO_RCVBUF as u32,
    libc::SO_SNDBUF as u32,
    libc::TCP_NODELAY as u32,
    libc::TCP_QUICKACK as u32,
    libc::TCP_KEEPIDLE as u32,
    libc::TCP_KEEPINTVL as u32,
    libc::TCP_KEEPCNT as u32,
    libc::TCP_USER_TIMEOUT as u32,
];

/// Calls that every back end needs.
pub(super) const BASE: &[Call] = &[
    // descriptors
    any(libc::SYS_read),
    any(libc::SYS_write),
    any(libc::SYS_readv),
    any(libc::SYS_writev),
    any(libc::SYS_pread64),
    any(libc::SYS_pwrite64),
    any(libc::SYS_preadv),
    any(libc::SYS_pwritev),
    any(libc::SYS_close),
    any(libc::SYS_lseek),
    any(libc::SYS_dup),
    any(libc::SYS_dup3),
    any(libc::SYS_flock),
    any(libc::SYS_ppoll),
    any(libc::SYS_eventfd2),
    only(libc::SYS_fcntl, When::OneOf(1, FCNTLS)),
    only(libc::SYS_ioctl, When::OneOf(1, IOCTLS)),
    any(libc::SYS_fstat),
    any(libc::SYS_fstatfs),
    any(libc::SYS_getdents64),
    any(libc::SYS_ftruncate),
    any(libc::SYS_fallocate),
    any(libc::SYS_fsync),
    any(libc::SYS_fdatasync),
    any(libc::SYS_copy_file_range),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_poll),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_dup2),
    // connections passed on by the supervisor; none is opened here
    any(libc::SYS_recvfrom),
    any(libc::SYS_recvmsg),
    any(libc::SYS_sendto),
    any(libc::SYS_sendmsg),
    any(libc::SYS_shutdown),
    any(libc::SYS_getsockname),
    any(libc::SYS_getpeername),
    any(libc::SYS_getsockopt),
    only(libc::SYS_setsockopt, When::OneOf(2, SOCKET_OPTIONS)),
    // memory, including JIT-compiled code
    any(libc::SYS_mmap),
    any(libc::SYS_munmap),
    any(libc::SYS_mremap),
    any(libc::SYS_mprotect),
    any(libc::SYS_madvise),
    any(libc::SYS_msync),
    any(libc::SYS_mincore),
    any(libc::SYS_brk),
    any(libc::SYS_membarrier),
    any(libc::SYS_memfd_create),
    only(libc::SYS_userfaultfd, When::Has(0, UFFD_USER_MODE_ONLY)),
    // threads of this process
    only(libc::SYS_clone, When::Has(0, libc::CLONE_THREAD as u32)),
    any(libc::SYS_futex),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_set_tid_address),
    any(libc::SYS_rseq),
    any(libc::SYS_gettid),
    any(libc::SYS_getpid),
    any(libc::SYS_getppid),
    any(libc::SYS_sched_yield),
    any(libc::SYS_sched_getaffinity),
    any(libc::SYS_getcpu),
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
    only(libc::SYS_prctl, When::OneOf(0, PRCTLS)),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_arch_prctl),
    // signals to this process
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_sigaltstack),
    any(libc::SYS_restart_syscall),
    only(libc::SYS_tgkill, When::Own(0)),
    // time, numbers, randomness
    any(libc::SYS_clock_gettime),
    any(libc::SYS_clock_getres),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_nanosleep),
    any(libc::SYS_gettimeofday),
    any(libc::SYS_getrusage),
    any(libc::SYS_getrandom),
    any(libc::SYS_sysinfo),
    any(libc::SYS_uname),
    any(libc::SYS_getuid),
    any(libc::SYS_geteuid),
    any(libc::SYS_getgid),
    any(libc::SYS_getegid),
    only(libc::SYS_prlimit64, When::OwnOrZero(0)),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_time),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_getrlimit),
];

/// Calls that name files. Landlock decides which files; without it, executors of the emulator do not get these.
pub(super) const FILES: &[Call] = &[
    any(libc::SYS_openat),
    any(libc::SYS_newfstatat),
    any(libc::SYS_statx),
    any(libc::SYS_faccessat),
    any(libc::SYS_faccessat2),
    any(libc::SYS_readlinkat),
    any(libc::SYS_getcwd),
    any(libc::SYS_unlinkat),
    any(libc::SYS_renameat),
    any(libc::SYS_renameat2),
    any(libc::SYS_utimensat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_rename),
];

/// ioctl requests that inject input into a terminal.
const TERMINAL_INPUT: &[u32] = &[libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// Additional calls of AMD's runtime, derived from its sources (ROCr, libhsakmt, libdrm, libnuma): every ioctl of the drivers,
/// NUMA placement of memory and threads, locked memory, and semaphores and files in /dev/shm.
pub(super) const HIP: &[Call] = &[
    only(libc::SYS_ioctl, When::NoneOf(1, TERMINAL_INPUT)),
    any(libc::SYS_mlock),
    any(libc::SYS_mlock2),
    any(libc::SYS_munlock),
    any(libc::SYS_mbind),
    any(libc::SYS_get_mempolicy),
    any(libc::SYS_set_mempolicy),
    only(libc::SYS_move_pages, When::OwnOrZero(0)),
    only(libc::SYS_sched_setaffinity, When::OwnOrZero(0)),
    any(libc::SYS_sched_getparam),
    any(libc::SYS_sched_getscheduler),
    any(libc::SYS_sched_get_priority_max),
    any(libc::SYS_sched_get_priority_min),
    any(libc::SYS_epoll_create1),
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    any(libc::SYS_pipe2),
    any(libc::SYS_fchmod),
    any(libc::SYS_fchown),
    any(libc::SYS_linkat),
    any(libc::SYS_statfs),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_epoll_wait),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_pipe),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_link),
];

/// The socket that NVIDIA's driver listens on so that other processes can import memory. Its kind sends only over connections, and
/// a session's process can neither open nor accept one, so it reaches nobody.
const DRIVER_SOCKET: &[(u8, u32)] =
    &[(0, libc::AF_UNIX as u32), (1, (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u32)];

/// Additional calls of NVIDIA's driver, which does not start without its socket.
pub(super) const CUDA: &[Call] = &[
    only(libc::SYS_socket, When::AllEqual(DRIVER_SOCKET)),
    any(libc::SYS_bind),
    any(libc::SYS_listen),
    any(libc::SYS_eventfd2),
    any(libc::SYS_sched_setscheduler),
    any(libc::SYS_fallocate),
    any(libc::SYS_mincore),
    any(libc::SYS_timer_create),
    any(libc::SYS_timer_settime),
    any(libc::SYS_timer_delete),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_poll),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_select),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that reach another process, another program, the network or the kernel.
    const NEVER: &[libc::c_long] = &[
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_clone3,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_setuid,
        libc::SYS_setresuid,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_chroot,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
        libc::SYS_personality,
        libc::SYS_open_by_handle_at,
        libc::SYS_seccomp,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork,
    ];

    #[test]
    fn no_back_end_may_start_a_process_or_reach_another() {
        let listens = |call: &Call| match call.number {
            libc::SYS_socket => matches!(call.when, When::AllEqual(DRIVER_SOCKET)),
            number => [libc::SYS_bind, libc::SYS_listen].contains(&number),
        };
        for table in [BASE, FILES, HIP] {
            for call in table {
                assert!(!NEVER.contains(&call.number), "system call {} is in a table", call.number);
            }
        }
        for call in CUDA.iter().filter(|call| !listens(call)) {
            assert!(!NEVER.contains(&call.number), "system call {} is in a table", call.number);
        }
    }

    #[test]
    fn threads_and_signals_stay_in_the_process() {
        let rows = |number| BASE.iter().chain(HIP).chain(CUDA).filter(move |call| call.number == number);
        assert!(
            rows(libc::SYS_clone)
                .all(|call| matches!(call.when, When::Has(0, flags) if flags == libc::CLONE_THREAD as u32))
        );
        assert!(rows(libc::SYS_tgkill).all(|call| matches!(call.when, When::Own(0))));
        assert!(rows(libc::SYS_prlimit64).all(|call| matches!(call.when, When::OwnOrZero(0))));
    }
}
