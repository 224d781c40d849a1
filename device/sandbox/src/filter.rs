//! Seccomp filter of commands: a denylist of system calls that a command does not need.
//!
//! A denylist, because the calls of compilers and language run times change over time. Denied calls fail with EPERM, as if the
//! privilege were missing, so that the command can continue. This includes calls that are mostly useful for attacking the kernel.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// Denied whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // namespaces and mounts
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // the kernel itself
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    libc::SYS_seccomp,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    // memory that no process limit counts
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// Denied to commands without sockets, which use no device: memory that is charged to no process.
const FILES_OF_MEMORY: &[libc::c_long] = &[libc::SYS_memfd_create, libc::SYS_memfd_secret];

/// Denied without a separate process id namespace: leaving the process group that is killed as a whole.
const GROUPS: &[libc::c_long] = &[libc::SYS_setsid, libc::SYS_setpgid];

/// Flags of clone that create namespaces.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Builds the filter for a command: with unix sockets or none at all, with a separate process id namespace or not.
pub(crate) fn program(sockets: bool, own_processes: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for &call in REFUSED {
        rules.insert(call, Vec::new());
    }
    if !own_processes {
        for &call in GROUPS {
            rules.insert(call, Vec::new());
        }
    }
    if !sockets {
        for &call in FILES_OF_MEMORY {
            rules.insert(call, Vec::new());
        }
    }
    let is_set = |bit: u64| condition(0, SeccompCmpOp::MaskedEq(bit), bit);
    let mut namespaces = Vec::new();
    for bit in (0..u64::BITS).map(|bit| 1_u64 << bit).filter(|bit| NEW_NAMESPACES & bit != 0) {
        namespaces.push(SeccompRule::new(vec![is_set(bit)?])?);
    }
    rules.insert(libc::SYS_clone, namespaces);
    let unix = libc::AF_UNIX as u64;
    let other = vec![SeccompRule::new(vec![condition(0, SeccompCmpOp::Ne, unix)?])?];
    rules.insert(libc::SYS_socket, if sockets { other } else { Vec::new() });
    let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let named: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?;
    let mut program = PRELUDE.to_vec();
    program.extend(named);
    Ok(program)
}

/// Checked before everything else. x32 numbers are a second set of numbers for the same calls, which none of our programs uses.
/// The flags of clone3 are behind a pointer, which seccomp cannot inspect; without clone3 the C library uses clone.
const PRELUDE: [sock_filter; 5] = [
    // load the system call number
    sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
    // first x32 number or higher: kill the process
    sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS },
    // clone3: fails with ENOSYS
    sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_clone3 as u32 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 },
];

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
