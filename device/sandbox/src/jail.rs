//! The processes of a sandbox, from the fork to the exec of the command.
//!
//! There are three. The *warden* creates the namespaces and the file system, and collects the results at the end. The *first* is
//! process 1 of the sandbox; when it exits, everything inside ends. The third becomes the command. All code here runs
//! after a fork of a process that may have threads: system calls only, no allocation, no locks, no unwinding.

use std::ffi::CStr;
use std::io;

use crate::descriptor::{check, check_long, close_others, raise, write_all};
use crate::level::Level;
use crate::plan::{Plan, ROOTS, Step};
use crate::report::{Record, Stage};

/// Pipe ends that the warden gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub input: i32,
    pub output: i32,
    pub error: i32,
    /// Pipe for records to the caller.
    pub report: i32,
    /// Closed by the caller to end everything.
    pub leash: i32,
    /// Landlock ruleset; negative if there is none.
    pub rules: i32,
}

type Staged<T> = Result<T, (Stage, i32)>;

/// Limit on the descriptors that a warden handles.
const MOST: usize = 64;

/// Pointer arrays for arguments and environment, built before the fork.
#[derive(Debug)]
pub(crate) struct Pointers {
    pub arguments: Vec<*const libc::c_char>,
    pub environment: Vec<*const libc::c_char>,
    pub chunk: Vec<u8>,
}

/// Runs the warden. Never returns.
pub(crate) fn warden(plan: &Plan, mut ends: Ends, pointers: &mut Pointers) -> ! {
    if let Err((stage, error)) = guard(plan, &mut ends, pointers) {
        let _ = write_all(ends.report, &Record::Failed(stage, error).bytes());
    }
    exit(0)
}

fn guard(plan: &Plan, ends: &mut Ends, pointers: &mut Pointers) -> Staged<()> {
    // SAFETY: only changes this process. The command must not inherit the caller's signal mask and handlers, nor its session.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::umask(0o022);
    }
    be_first_to_go();
    let mut given = [(0, 0); MOST];
    let given = arrange(plan, ends, &mut given)?;
    if plan.level == Level::Namespaces {
        namespaces(plan)?;
        mounts(plan)?;
    } else {
        // SAFETY: a NUL-terminated path.
        check(unsafe { libc::chdir(plan.work.as_ptr()) }).map_err(|error| at(Stage::Files, &error))?;
    }
    put_files(plan)?;
    // SAFETY: the child only makes system calls, below.
    let first = check(unsafe { libc::fork() }).map_err(|error| at(Stage::Processes, &error))?;
    if first == 0 {
        self::first(plan, *ends, given, pointers);
    }
    // SAFETY: changes only this process; the command is forked already. If the caller is gone, writes must fail instead of
    // killing the warden before the cleanup.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let ended = wait_on_leash(ends.leash, first);
    // SAFETY: a process group that our child created, if it got that far.
    unsafe { libc::kill(-first, libc::SIGKILL) };
    reap();
    let _ = write_all(ends.report, &used().bytes());
    if ended {
        collect(plan, ends.report, &mut pointers.chunk);
    }
    if plan.removes_work {
        // Done by the warden: a caller that was killed removes nothing.
        remove_work(plan);
    }
    Ok(())
}

/// Makes the OOM killer pick the untrusted command first. May be denied.
fn be_first_to_go() {
    // SAFETY: a NUL-terminated path.
    let file = unsafe { libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file >= 0 {
        let _ = write_all(file, b"800");
        // SAFETY: opened above.
        unsafe { libc::close(file) };
    }
}

/// Moves the needed descriptors to numbers that cannot collide with the command's, and closes all others.
fn arrange<'a>(plan: &Plan, ends: &mut Ends, given: &'a mut [(i32, i32); MOST]) -> Staged<&'a [(i32, i32)]> {
    let failed = |error: &io::Error| at(Stage::Descriptors, error);
    let too_many = (Stage::Descriptors, libc::EMFILE);
    let mut kept = [0; MOST + 8];
    let mut count = 0;
    let mut keep = |descriptor: i32| {
        if let Some(place) = kept.get_mut(count) {
            *place = descriptor;
            count += 1;
        }
    };
    for end in [&mut ends.report, &mut ends.input, &mut ends.output, &mut ends.error, &mut ends.leash] {
        *end = raise(*end).map_err(|error| failed(&error))?;
        keep(*end);
    }
    let used = given.get_mut(..plan.descriptors.len()).ok_or(too_many)?;
    for (place, (descriptor, number)) in used.iter_mut().zip(&plan.descriptors) {
        *place = (raise(*descriptor).map_err(|error| failed(&error))?, *number);
        keep(place.0);
    }
    if ends.rules >= 0 {
        ends.rules = raise(ends.rules).map_err(|error| failed(&error))?;
        keep(ends.rules);
    }
    let kept = &mut kept[..count];
    kept.sort_unstable();
    close_others(kept);
    Ok(used)
}

fn namespaces(plan: &Plan) -> Staged<()> {
    if plan.user.is_none() {
        // SAFETY: only this single-threaded process changes its namespaces.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map_err(|error| at(Stage::Users, &error))?;
        let map = |file: &CStr, text: &str| -> io::Result<()> {
            // SAFETY: a NUL-terminated path.
            let descriptor = check(unsafe { libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) })?;
            let written = write_all(descriptor, text.as_bytes());
            // SAFETY: opened above.
            unsafe { libc::close(descriptor) };
            written
        };
        map(c"/proc/self/setgroups", "deny")
            .and_then(|()| map(c"/proc/self/uid_map", &plan.uid_map))
            .and_then(|()| map(c"/proc/self/gid_map", &plan.gid_map))
            .map_err(|error| at(Stage::Users, &error))?;
    }
    let kinds = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // SAFETY: as above.
    check(unsafe { libc::unshare(kinds) }).map_err(|error| at(Stage::Namespaces, &error))?;
    let name = c"sandbox";
    // SAFETY: sets the host name of our own namespace only.
    unsafe { libc::sethostname(name.as_ptr(), 7) };
    Ok(())
}

/// Argument of mount_setattr, in the kernel's layout.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const READ_ONLY: u64 = 0x1;
const NO_SUID: u64 = 0x2;
const NO_DEVICES: u64 = 0x4;

fn mounts(plan: &Plan) -> Staged<()> {
    make_mounts(plan).map_err(|error| at(Stage::Mounts, &error))
}

fn make_mounts(plan: &Plan) -> io::Result<()> {
    let null = std::ptr::null();
    // SAFETY: NUL-terminated constants; changes only the namespace created above.
    check(unsafe { libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) })
        .map(drop)
        // After chroot the root is not a mount point, and its propagation cannot be changed; then no mount may be shared already.
        .or_else(|error| if nothing_is_shared()? { Ok(()) } else { Err(error) })?;
    // Opened before a root is mounted over a folder that some of them may be in.
    let mut taken = [-1; 128];
    let mut shown = taken.iter_mut();
    for step in &plan.steps {
        if let Step::Show { source, .. } = step {
            let place = shown.next().ok_or_else(|| io::Error::from_raw_os_error(libc::E2BIG))?;
            *place = open_tree(source)?;
        }
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let mut rooted = Err(io::Error::from_raw_os_error(libc::ENOENT));
    for place in ROOTS {
        // SAFETY: NUL-terminated constants.
        rooted = check(unsafe {
            libc::mount(
                c"root".as_ptr(),
                place.as_ptr(),
                c"tmpfs".as_ptr(),
                flags,
                c"mode=0755,size=1m".as_ptr().cast(),
            )
        })
        // SAFETY: as above.
        .and_then(|_| check(unsafe { libc::chdir(place.as_ptr()) }));
        if rooted.is_ok() {
            break;
        }
    }
    rooted?;
    let mut taken = taken.iter();
    for step in &plan.steps {
        match step {
            // SAFETY: NUL-terminated paths, in a root that is ours.
            Step::Folder { target } => check(unsafe { libc::mkdir(target.as_ptr(), 0o755) }).map(drop)?,
            Step::Link { target, to } => {
                // SAFETY: as above.
                check(unsafe { libc::symlink(to.as_ptr(), target.as_ptr()) }).map(drop)?;
            }
            Step::Show { target, folder, .. } => show(*taken.next().unwrap_or(&-1), target, *folder)?,
        }
    }
    let work = &plan.work.to_bytes_with_nul()[1..];
    // SAFETY: the private folder's path without its leading slash, and options, both NUL-terminated.
    check(unsafe {
        libc::mount(
            c"work".as_ptr(),
            work.as_ptr().cast(),
            c"tmpfs".as_ptr(),
            flags,
            plan.work_options.as_ptr().cast(),
        )
    })?;
    enter_root()?;
    set_attributes(c"/", READ_ONLY | NO_SUID | NO_DEVICES, 0)?;
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::chdir(plan.work.as_ptr()) }).map(drop)
}

/// Whether no mount of this namespace is shared with others.
fn nothing_is_shared() -> io::Result<bool> {
    const WORD: &[u8] = b" shared:";
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a NUL-terminated path.
    let file = check(unsafe { libc::open(c"/proc/self/mountinfo".as_ptr(), flags) })?;
    let mut text = [0; 4096];
    let mut kept = 0;
    let shared = loop {
        // SAFETY: the rest of the array, with its exact length.
        let read = unsafe { libc::read(file, text[kept..].as_mut_ptr().cast(), text.len() - kept) };
        let Ok(read) = usize::try_from(read) else { break Err(io::Error::last_os_error()) };
        if read == 0 {
            break Ok(false);
        }
        let end = kept + read;
        if text[..end].windows(WORD.len()).any(|part| part == WORD) {
            break Ok(true);
        }
        // The word may span two reads.
        kept = end.min(WORD.len() - 1);
        text.copy_within(end - kept..end, 0);
    };
    // SAFETY: opened above, and not used any more.
    unsafe { libc::close(file) };
    shared.map(|shared| !shared)
}

/// Makes the current folder, a mount point, the root of this process.
fn enter_root() -> io::Result<()> {
    let here = c".".as_ptr();
    // SAFETY: the old root is stacked below the new one at the same path, and then unmounted.
    match check_long(unsafe { libc::syscall(libc::SYS_pivot_root, here, here) }) {
        // SAFETY: as above.
        Ok(_) => check(unsafe { libc::umount2(here, libc::MNT_DETACH) }).map(drop),
        // pivot_root fails if the old root is not a mount point, as after chroot. The new root is moved over it instead: no path
        // leads below it, and the seccomp filter denies chroot to the command.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // SAFETY: NUL-terminated paths; a move takes neither type nor data.
            check(unsafe {
                libc::mount(here, c"/".as_ptr(), std::ptr::null(), libc::MS_MOVE, std::ptr::null())
            })?;
            // SAFETY: a NUL-terminated path.
            check(unsafe { libc::chroot(here) }).map(drop)
        }
        Err(error) => Err(error),
    }
}

fn open_tree(source: &CStr) -> io::Result<i32> {
    const CLONE: libc::c_int = 1;
    let flags = CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE;
    // SAFETY: a NUL-terminated path.
    check_long(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, source.as_ptr(), flags) })
}

/// Mounts a tree that was opened earlier at its target, read-only.
fn show(tree: i32, target: &CStr, folder: bool) -> io::Result<()> {
    if folder {
        // SAFETY: a NUL-terminated path.
        let made = check(unsafe { libc::mkdir(target.as_ptr(), 0o755) });
        // It exists already if something inside it was shown; the tree mounted now contains that too.
        made.map(drop).or_else(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => Ok(()),
            _ => Err(error),
        })?;
    } else {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: as above.
        let file = check(unsafe { libc::open(target.as_ptr(), flags, 0o644) })?;
        // SAFETY: opened above.
        unsafe { libc::close(file) };
    }
    const EMPTY_PATH: libc::c_uint = 4;
    // SAFETY: the tree is open, and both paths are NUL-terminated.
    check_long(unsafe {
        libc::syscall(libc::SYS_move_mount, tree, c"".as_ptr(), libc::AT_FDCWD, target.as_ptr(), EMPTY_PATH)
    })?;
    // SAFETY: not used any more.
    unsafe { libc::close(tree) };
    // A device cannot be opened on a nodev mount. The devices shown (null, zero, random) are harmless.
    let device = target.to_bytes().starts_with(b"dev/");
    let flags = if device { NO_SUID } else { READ_ONLY | NO_SUID | NO_DEVICES };
    set_attributes(target, flags, libc::AT_RECURSIVE)
}

fn set_attributes(target: &CStr, set: u64, flags: libc::c_int) -> io::Result<()> {
    let attributes = MountAttributes { set, ..MountAttributes::default() };
    // SAFETY: the path is NUL-terminated, and the size is that of the attributes.
    check_long(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    })
    .map(drop)
}

/// Writes the command's files into the private folder, which is the current directory.
fn put_files(plan: &Plan) -> Staged<()> {
    for folder in &plan.folders {
        // SAFETY: a relative NUL-terminated path; parents come before their subfolders.
        check(unsafe { libc::mkdir(folder.as_ptr(), 0o755) }).map_err(|error| at(Stage::Files, &error))?;
    }
    for file in &plan.files {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: a NUL-terminated name.
        let opened = check(unsafe { libc::open(file.name.as_ptr(), flags, 0o755) });
        let written = opened.and_then(|descriptor| {
            let written = write_all(descriptor, &file.content);
            // SAFETY: opened above.
            unsafe { libc::close(descriptor) };
            written
        });
        written.map_err(|error| at(Stage::Files, &error))?;
    }
    Ok(())
}

/// Waits until a process exits, or the caller closes the leash, and then kills the process. Returns whether the process exited by
/// itself. Nothing may outlive the caller.
fn wait_on_leash(leash: i32, first: libc::pid_t) -> bool {
    // SAFETY: our own child, not yet waited for.
    let ending = unsafe { libc::syscall(libc::SYS_pidfd_open, first, 0) } as i32;
    let mut watched = [
        libc::pollfd { fd: leash, events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: ending, events: libc::POLLIN, revents: 0 },
    ];
    loop {
        // SAFETY: the array has two entries.
        let ready = unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) };
        if ready < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        let ended = ending >= 0 && watched[1].revents != 0;
        if !ended {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(first, libc::SIGKILL) };
        }
        return ended;
    }
}

/// Waits for every child, including orphans that were reparented to us.
fn reap() {
    // SAFETY: waits for our children.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0
        || io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
}

/// CPU time of all processes that were waited for.
fn used() -> Record {
    // SAFETY: filled in by the call below; all zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes the given struct.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let micros = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + micros / 1_000_000;
    Record::Used(i32::try_from(seconds).unwrap_or(i32::MAX), (micros % 1_000_000) as i32)
}

/// Folders nested deeper than this are left behind; no compiler creates such.
const DEEPEST: usize = 32;

/// Removes the private folder. No process writes to it any more.
fn remove_work(plan: &Plan) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a NUL-terminated path.
    let folder = unsafe { libc::open(plan.work.as_ptr(), flags) };
    if folder < 0 {
        return;
    }
    empty(folder, DEEPEST);
    // SAFETY: opened above; the paths are NUL-terminated.
    unsafe {
        libc::close(folder);
        libc::chdir(c"/".as_ptr());
        libc::rmdir(plan.work.as_ptr());
    }
}

/// Removes everything in an open folder, without following symbolic links.
fn empty(folder: i32, depth: usize) {
    #[repr(C, align(8))]
    struct Entries([u8; 2048]);
    /// Bytes of a directory entry before its name: inode, offset, length, kind.
    const NAME: usize = 19;
    let mut entries = Entries([0; 2048]);
    loop {
        let room = entries.0.len();
        // SAFETY: the buffer has that much room.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, folder, entries.0.as_mut_ptr(), room) };
        let Ok(read @ 1..) = usize::try_from(read) else { return };
        let mut rest = &entries.0[..read];
        let mut removed = false;
        while let (Some(length), Some(kind)) = (rest.get(16..18), rest.get(18)) {
            let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
            let (Some(entry), kind) = (rest.get(NAME..length), *kind) else { break };
            rest = &rest[length..];
            let Ok(name) = CStr::from_bytes_until_nul(entry) else { continue };
            if name == c"." || name == c".." {
                continue;
            }
            if kind == libc::DT_DIR && depth > 0 {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
                // SAFETY: a NUL-terminated name, in an open folder.
                let inner = unsafe { libc::openat(folder, name.as_ptr(), flags) };
                if inner >= 0 {
                    empty(inner, depth - 1);
                    // SAFETY: opened above.
                    unsafe { libc::close(inner) };
                }
            }
            let flags = if kind == libc::DT_DIR { libc::AT_REMOVEDIR } else { 0 };
            // SAFETY: a NUL-terminated name, in an open folder.
            removed |= unsafe { libc::unlinkat(folder, name.as_ptr(), flags) } == 0;
        }
        if !removed {
            return;
        }
        // Entries move when others are removed: start again.
        // SAFETY: an open folder.
        unsafe { libc::lseek(folder, 0, libc::SEEK_SET) };
    }
}

/// Sends the files to be collected to the caller. No process writes to them any more.
fn collect(plan: &Plan, report: i32, chunk: &mut [u8]) {
    for name in &plan.collected {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        // SAFETY: a NUL-terminated name.
        let file = unsafe { libc::open(name.as_ptr(), flags) };
        // SAFETY: fstat fills in the struct, and its result is checked.
        let length = unsafe {
            let mut data: libc::stat = std::mem::zeroed();
            let regular = file >= 0
                && libc::fstat(file, &mut data) == 0
                && data.st_mode & libc::S_IFMT == libc::S_IFREG
                && data.st_size as u64 <= plan.largest_file;
            if regular { data.st_size as i32 } else { -1 }
        };
        if write_all(report, &Record::File(length).bytes()).is_err() {
            return;
        }
        let mut left = length.max(0) as usize;
        while left > 0 {
            let part = left.min(chunk.len());
            // SAFETY: the chunk has room for that many bytes.
            let read = unsafe { libc::read(file, chunk.as_mut_ptr().cast(), part) };
            if read <= 0 || write_all(report, &chunk[..read as usize]).is_err() {
                return;
            }
            left -= read as usize;
        }
        // SAFETY: opened above.
        unsafe { libc::close(file) };
    }
}

/// Runs process 1 of the sandbox: starts the command, reaps orphans, and exits when the command does.
fn first(plan: &Plan, ends: Ends, given: &[(i32, i32)], pointers: &mut Pointers) -> ! {
    // SAFETY: only changes this process: a separate process group, so that it can be killed as a whole, and death together with
    // the warden.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::close(ends.leash);
    }
    let failed = |(stage, error): (Stage, i32)| -> ! {
        let _ = write_all(ends.report, &Record::Failed(stage, error).bytes());
        exit(1)
    };
    // SAFETY: the child only makes system calls, below.
    let command = match check(unsafe { libc::fork() }) {
        Err(error) => failed(at(Stage::Processes, &error)),
        Ok(0) => match become_command(plan, ends, given, pointers) {
            Err(error) => failed(error),
            Ok(never) => match never {},
        },
        Ok(command) => command,
    };
    close_others(&[ends.report]);
    let mut status = 0;
    loop {
        // SAFETY: waits for our children, including reparented orphans.
        let ended = unsafe { libc::waitpid(-1, &mut status, 0) };
        if ended == command {
            break;
        }
        if ended < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            exit(1);
        }
    }
    let _ = write_all(ends.report, &Record::Ended(status).bytes());
    exit(0)
}

enum Never {}

fn become_command(plan: &Plan, ends: Ends, given: &[(i32, i32)], pointers: &Pointers) -> Staged<Never> {
    let descriptors = [(ends.input, 0), (ends.output, 1), (ends.error, 2)];
    for (from, to) in descriptors.iter().chain(given) {
        // SAFETY: our own descriptors are above; numbers below 100 are the command's.
        check(unsafe { libc::dup2(*from, *to) }).map_err(|error| at(Stage::Descriptors, &error))?;
    }
    if let Some(folder) = &plan.start_folder {
        // SAFETY: a relative NUL-terminated path.
        check(unsafe { libc::chdir(folder.as_ptr()) }).map_err(|error| at(Stage::Files, &error))?;
    }
    drop_privileges(plan).map_err(|error| at(Stage::Credentials, &error))?;
    // SAFETY: as for the first process; changing credentials has cleared the setting.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    for (which, limit) in &plan.limits {
        // SAFETY: the limit lives as long as the plan.
        check(unsafe { libc::setrlimit(*which, limit) }).map_err(|error| at(Stage::Limits, &error))?;
    }
    if ends.rules >= 0 {
        // SAFETY: an open ruleset and no flags.
        check_long(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ends.rules, 0) })
            .map_err(|error| at(Stage::Landlock, &error))?;
    }
    seccompiler::apply_filter(&plan.filter).map_err(|_| at(Stage::Filter, &io::Error::last_os_error()))?;
    write_all(ends.report, &Record::Started.bytes()).map_err(|error| at(Stage::Execute, &error))?;
    // SAFETY: null-terminated lists of NUL-terminated strings, all owned by the plan.
    unsafe {
        libc::execve(plan.program.as_ptr(), pointers.arguments.as_ptr(), pointers.environment.as_ptr())
    };
    Err(at(Stage::Execute, &io::Error::last_os_error()))
}

fn drop_privileges(plan: &Plan) -> io::Result<()> {
    if let Some(user) = plan.user {
        // Raw system calls: the C library's functions would signal the other threads, which do not exist in this process.
        let user = libc::c_long::from(user);
        // SAFETY: only this process is changed.
        unsafe {
            check_long(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
            check_long(libc::syscall(libc::SYS_setresgid, user, user, user))?;
            check_long(libc::syscall(libc::SYS_setresuid, user, user, user))?;
            // A new user namespace without mappings, where the command's processes are counted separately. If it is denied, they
            // count with all other processes of this user.
            libc::unshare(libc::CLONE_NEWUSER);
        }
    }
    // SAFETY: only drops privileges.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0_u32; 6];
    // SAFETY: version 3 of the call, whose sets are six words.
    check_long(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) })?;
    Ok(())
}

fn at(stage: Stage, error: &io::Error) -> (Stage, i32) {
    (stage, error.raw_os_error().unwrap_or(libc::EIO))
}

fn exit(code: i32) -> ! {
    // SAFETY: ends this process alone, without running any of the caller's exit handlers.
    unsafe { libc::_exit(code) }
}
