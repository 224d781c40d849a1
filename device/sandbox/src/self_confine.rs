//! Self-confinement: confines the calling process with a dedicated user, resource limits, Landlock, and a seccomp filter that
//! allows only listed system calls.
//!
//! For a process of ours that is about to read untrusted input. It opens what it needs first, then calls [`Confinement::apply`]
//! while it is single-threaded; threads started later inherit everything. This cannot be undone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// Newest Landlock ABI this was written for; the kernel applies what it supports of it.
const NEWEST: ABI = ABI::V6;

/// The first system call that is newer than our callers' tables (cachestat is the last older one). It gets ENOSYS, so that a C
/// library that tries a new call first falls back to the old one.
const FIRST_UNKNOWN_CALL: u32 = 452;

/// An allowed system call, with a condition on its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Number of the system call.
    pub number: libc::c_long,
    /// Condition on its arguments.
    pub when: When,
}

/// Condition on an argument of a system call. Compares the lower 32 bits.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// With any arguments.
    Always,
    /// Argument `.0` is one of these values.
    OneOf(u8, &'static [u32]),
    /// Argument `.0` is none of these values.
    NoneOf(u8, &'static [u32]),
    /// Argument `.0` has all these bits set.
    Has(u8, u32),
    /// Each of these arguments has this value.
    AllEqual(&'static [(u8, u32)]),
    /// Argument `.0` is the id of the calling process.
    Own(u8),
    /// Argument `.0` is the id of the calling process, or 0, which means the same.
    OwnOrZero(u8),
}

/// Access to a file, or to everything in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Read files and list folders.
    Read,
    /// Read, and map as executable.
    Load,
    /// Read, write and truncate existing files, such as devices.
    Use,
    /// Read, write, create and remove files in a folder.
    Keep,
}

/// User and groups of a confined process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub user: u32,
    /// The first is the group of the process and of the files it creates.
    pub groups: Vec<u32>,
}

/// How to confine the calling process.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// Needs root. Skipped if the user namespace does not map the user.
    pub identity: Option<Identity>,
    /// System calls that stay allowed.
    pub calls: Vec<Call>,
    /// Access to all other paths is denied. Skipped if the kernel has no Landlock.
    pub files: Vec<(PathBuf, Grant)>,
    /// Resource limits as in `setrlimit`; only ever lowered.
    pub limits: Vec<(u32, u64)>,
    /// Limit on threads and processes of the user of `identity`.
    pub threads: Option<u64>,
}

/// Which parts of a confinement are in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whether the process has another user now.
    pub user: bool,
    /// Whether Landlock restricts the process.
    pub landlock: bool,
}

/// Error while confining the process, which must not continue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum ConfineError {
    #[error("the system call filter could not be built")]
    Filter(#[source] seccompiler::BackendError),
    #[error("Landlock's rules could not be built")]
    Rules(#[source] RulesetError),
    #[error("the kernel refused {what}")]
    Refused { what: &'static str, source: io::Error },
}

impl Confinement {
    /// Confines the calling process, which must be single-threaded.
    pub fn apply(&self) -> Result<Applied, ConfineError> {
        let filter = self.filter().map_err(ConfineError::Filter)?;
        // Opens the paths here, while the process still may.
        let rules = self.rules().map_err(ConfineError::Rules)?;
        for &(resource, limit) in &self.limits {
            lower_limit(resource, limit).map_err(refused("a resource limit"))?;
        }
        let user = match &self.identity {
            Some(identity) => become_user(identity)?,
            None => false,
        };
        // The kernel counts all processes of a user, so the limit is set only with a dedicated user.
        if let Some(threads) = self.threads.filter(|_| user) {
            lower_limit(libc::RLIMIT_NPROC, threads).map_err(refused("a resource limit"))?;
        }
        drop_capabilities().map_err(refused("to drop capabilities"))?;
        // SAFETY: these requests pass integers.
        check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })
            .map_err(refused("to make the process non-dumpable"))?;
        // SAFETY: as above.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
            .map_err(refused("no_new_privs"))?;
        if let Some(rules) = &rules {
            // SAFETY: an open ruleset and no flags.
            let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
            check(done as i32).map_err(refused("Landlock's rules"))?;
        }
        install(&filter).map_err(refused("the system call filter"))?;
        Ok(Applied { user, landlock: rules.is_some() })
    }

    fn filter(&self) -> Result<BpfProgram, seccompiler::BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for call in &self.calls {
            let of_call = rules.entry(call.number).or_default();
            for conditions in conditions(call.when)? {
                of_call.push(SeccompRule::new(conditions)?);
            }
        }
        // An empty rule list allows every argument.
        for call in self.calls.iter().filter(|call| matches!(call.when, When::Always)) {
            rules.insert(call.number, Vec::new());
        }
        let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
        // An error instead of killing the process: a library that tries something optional continues without it.
        let refuse = SeccompAction::Errno(libc::EPERM as u32);
        let listed: BpfProgram = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch)?.try_into()?;
        let mut program = PRELUDE.to_vec();
        program.extend(listed);
        Ok(program)
    }

    fn rules(&self) -> Result<Option<OwnedFd>, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        for (path, grant) in &self.files {
            // A missing path can neither be granted nor used.
            let Ok(opened) = PathFd::new(path) else { continue };
            let access = rights(*grant);
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
        }
        Ok(ruleset.into())
    }
}

/// Lists what this machine lacks for full confinement, for the log.
pub fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !has_landlock() {
        missing.push("Landlock (Linux 5.13 with CONFIG_SECURITY_LANDLOCK)");
    }
    // SAFETY: returns a number and cannot fail.
    if unsafe { libc::geteuid() } == 0 && !can_change_user() {
        missing.push(
            "a user per session (root needs CAP_SETUID and CAP_SETGID, and a user namespace that maps their ids)",
        );
    }
    missing
}

/// Whether the kernel has Landlock.
pub fn has_landlock() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(Ruleset::create);
    ruleset.ok().and_then(Option::<OwnedFd>::from).is_some()
}

/// Whether this process can switch to the users and groups of sessions: it has the capabilities, and the user namespace maps the
/// ids.
pub fn can_change_user() -> bool {
    const CAP_SETGID: u32 = 6;
    const CAP_SETUID: u32 = 7;
    let header: [u32; 2] = [0x2008_0522, 0];
    let mut sets = [0_u32; 6];
    // SAFETY: version 3 of the call, whose sets are six words.
    let read = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } == 0;
    let wanted = 1 << CAP_SETUID | 1 << CAP_SETGID;
    if !read || sets[0] & wanted != wanted {
        return false;
    }
    let covers = |file: &str| {
        let Ok(text) = std::fs::read_to_string(file) else { return false };
        text.lines().any(|line| {
            let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
            let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
            matches!((first, count), (Some(first), Some(count))
                if first <= u64::from(crate::SESSION_USERS) && first + count > u64::from(i32::MAX as u32))
        })
    };
    covers("/proc/self/uid_map") && covers("/proc/self/gid_map")
}

/// Checked before the table. x32 numbers are a second set of numbers for every call. None of our programs uses them, only hostile
/// code would, so they kill the process. The flags of clone3 are behind a pointer, which seccomp cannot inspect; without clone3
/// the C library uses clone.
const PRELUDE: [sock_filter; 6] = [
    // load the system call number
    sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
    // first x32 number or higher: kill the process
    sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS },
    // clone3, or newer than the tables: ENOSYS
    sock_filter { code: 0x15, jt: 1, jf: 0, k: libc::SYS_clone3 as u32 },
    sock_filter { code: 0x35, jt: 0, jf: 1, k: FIRST_UNKNOWN_CALL },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 },
];

/// Returns alternatives, each a list of conditions that must all hold.
fn conditions(when: When) -> Result<Vec<Vec<SeccompCondition>>, seccompiler::BackendError> {
    let compare = |argument: u8, operator: SeccompCmpOp, value: u32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
    };
    let equal = |argument: u8, value: u32| Ok(vec![compare(argument, SeccompCmpOp::Eq, value)?]);
    Ok(match when {
        When::Always => Vec::new(),
        When::OneOf(argument, values) => {
            values.iter().map(|value| equal(argument, *value)).collect::<Result<_, _>>()?
        }
        When::NoneOf(argument, values) => {
            let differ = |value: &u32| compare(argument, SeccompCmpOp::Ne, *value);
            vec![values.iter().map(differ).collect::<Result<_, _>>()?]
        }
        When::Has(argument, bits) => {
            vec![vec![compare(argument, SeccompCmpOp::MaskedEq(bits.into()), bits)?]]
        }
        When::AllEqual(values) => {
            let equals = |(argument, value): &(u8, u32)| compare(*argument, SeccompCmpOp::Eq, *value);
            vec![values.iter().map(equals).collect::<Result<_, _>>()?]
        }
        When::Own(argument) => vec![equal(argument, std::process::id())?],
        When::OwnOrZero(argument) => vec![equal(argument, std::process::id())?, equal(argument, 0)?],
    })
}

fn rights(grant: Grant) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match grant {
        Grant::Read => read,
        Grant::Load => read | AccessFs::Execute,
        Grant::Use => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        Grant::Keep => {
            read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile
        }
    }
}

/// Lowers the soft and hard limit, never raises them.
fn lower_limit(resource: u32, limit: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure receives the values.
    check(unsafe { libc::getrlimit(resource, &mut now) })?;
    let lower = libc::rlimit { rlim_cur: now.rlim_cur.min(limit), rlim_max: now.rlim_max.min(limit) };
    // SAFETY: the structure lives until the call returns.
    check(unsafe { libc::setrlimit(resource, &lower) }).map(drop)
}

/// Switches to another user and its groups. Returns false if this process may not, or the user namespace does not map them.
fn become_user(identity: &Identity) -> Result<bool, ConfineError> {
    let Some(&group) = identity.groups.first() else { return Ok(false) };
    let (user, groups) = (identity.user, &identity.groups);
    // Groups first: after the user change the process can no longer change them.
    // SAFETY: the list outlives the call; the rest are integers.
    let done = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(group, group, group) == 0
            && libc::setresuid(user, user, user) == 0
    };
    if !done {
        return match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL)) => Ok(false),
            source => Err(ConfineError::Refused { what: "another user", source }),
        };
    }
    // Files are shared with the group, never with others.
    // SAFETY: passes an integer.
    unsafe { libc::umask(0o007) };
    Ok(true)
}

fn drop_capabilities() -> io::Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0_u32; 6];
    // SAFETY: version 3 of the call, whose sets are six words.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } as i32).map(drop)
}

fn install(program: &[sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // Without this flag, kernels before 5.16 disable speculative store bypass for the process, which slows kernels of a software
    // GPU. The mitigation protects only memory within one process, and this process serves a single session.
    for flags in [libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0] {
        // SAFETY: the program outlives the call, and sock_filter has the kernel's layout.
        let done = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        match check(done as i32) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && flags != 0 => {}
            result => return result.map(drop),
        }
    }
    Ok(())
}

fn refused(what: &'static str) -> impl FnOnce(io::Error) -> ConfineError {
    move |source| ConfineError::Refused { what, source }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
