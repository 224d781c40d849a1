//! Upload cache: deduplicates a tenant's uploads by content hash, so that later sessions send hashes instead of data.
//!
//! One folder per tenant, one file per content, named by its BLAKE3 hash. Shared by all sessions of the tenant, and kept after
//! they end. Contents that a session was advertised about stay while it lives: only a session that has the store to itself evicts,
//! least recently used first. Storing never blocks on the disk and never exceeds the limit, and a content whose hash does not
//! match is never returned.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

/// Limit on the number of hashes sent to a client; the newest are sent.
const MAX_ADVERTISED: usize = 4096;
/// Limit on bytes queued for writing; more is not stored.
const MOST_WAITING: u64 = 512 << 20;
/// Size limit of one content.
const LARGEST: u64 = 2 << 30;
/// Fill level in percent to which an eviction shrinks the store, so that the next sessions have room.
const TIDY_PERCENT: u64 = 80;

/// Mode of files in the store: group-writable, since sessions of a tenant may run as different users. Others cannot enter the
/// folder.
const FILE_MODE: u32 = 0o660;
/// Mode of a group-writable folder, with setgid: new files inherit the group.
const GROUP_FOLDER_MODE: u32 = 0o2770;

/// Folder and size limit of the upload cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadConfig {
    /// Folder of the cached contents.
    pub folder: PathBuf,
    /// Bytes that the contents may take.
    pub limit: u64,
}

impl UploadConfig {
    /// Narrows the configuration to the folder of one tenant, that is, of all clients with the same token.
    pub(crate) fn of_tenant(mut self, token: Option<&[u8]>) -> UploadConfig {
        self.folder.push(tenant("remora 2026 tenant of an upload store", token));
        self
    }
}

/// Group id of a tenant's folder.
pub(crate) fn group(folder: &Path) -> u32 {
    let hash = blake3::hash(folder.as_os_str().as_encoded_bytes());
    let bits = hash.as_bytes().first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    sandbox::TENANT_GROUPS + (bits & 0x07ff_ffff)
}

/// Folder of compiled kernels in a tenant's folder.
pub(crate) const COMPILED: &str = "kernels";

/// Like [`open_folder`], and creates the folders `inside` it with the same access.
pub(crate) fn open_folders(folder: &Path, inside: &[&str], group: Option<u32>) -> io::Result<OwnedFd> {
    let opened = open_folder(folder, group)?;
    for name in inside {
        open_folder(&folder.join(name), group)?;
    }
    Ok(opened)
}

/// Creates and opens a tenant's folder. With a `group`, which needs root, makes it accessible to that group's members.
pub(crate) fn open_folder(folder: &Path, group: Option<u32>) -> io::Result<OwnedFd> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let opened = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
    let data = opened.metadata()?;
    // A new folder inside another one inherits its group, but not its mode.
    if let Some(group) = group
        && (data.gid() != group || data.mode() & 0o7777 != GROUP_FOLDER_MODE)
    {
        // Files written before sessions had separate users. Only root could write here so far.
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            std::os::unix::fs::lchown(&path, None, Some(group))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(FILE_MODE))?;
        }
        std::os::unix::fs::fchown(&opened, None, Some(group))?;
        opened.set_permissions(fs::Permissions::from_mode(GROUP_FOLDER_MODE))?;
    }
    Ok(opened.into())
}

/// Folder name of clients without a token.
const OPEN: &str = "open";
const TENANT_DIGITS: usize = 32;

/// Returns the name of a tenant's folder, derived from the token. Different `purpose`s give unrelated names.
pub(crate) fn tenant(purpose: &str, token: Option<&[u8]>) -> String {
    match token {
        Some(token) => {
            let key = blake3::derive_key(purpose, token);
            blake3::Hash::from_bytes(key).to_hex()[..TENANT_DIGITS].to_owned()
        }
        None => OPEN.to_owned(),
    }
}

/// Whether a folder name may be that of a tenant.
pub(crate) fn is_tenant(name: &str) -> bool {
    name == OPEN || name.len() == TENANT_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    limit: u64,
    /// Shared file lock, held as long as the session lives.
    _lock: File,
    state: Mutex<State>,
    written: Condvar,
    writer: Sender<([u8; 32], Arc<[u8]>)>,
    advertised: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Not yet written.
    waiting: HashMap<[u8; 32], Arc<[u8]>>,
    waiting_bytes: u64,
}

struct Entry {
    used: SystemTime,
    bytes: u64,
    hash: [u8; 32],
}

impl Store {
    /// Opens the store of a tenant. Evicts old contents if no other session uses the store.
    pub(crate) fn open(config: &UploadConfig) -> io::Result<Arc<Store>> {
        // A confined process finds the folder, and has no permission to create it.
        if !config.folder.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.folder)?;
        }
        let lock =
            File::options().create(true).append(true).mode(FILE_MODE).open(config.folder.join("lock"))?;
        let alone = flock(&lock, libc::LOCK_EX | libc::LOCK_NB).is_ok();
        if !alone {
            flock(&lock, libc::LOCK_SH)?;
        }
        let mut entries = list(&config.folder, alone)?;
        let mut used: u64 = entries.iter().map(|entry| entry.bytes).sum();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        if alone {
            if used > config.limit {
                while used > config.limit / 100 * TIDY_PERCENT
                    && let Some(oldest) = entries.pop()
                {
                    fs::remove_file(config.folder.join(name(&oldest.hash)))?;
                    used -= oldest.bytes;
                }
            }
            flock(&lock, libc::LOCK_SH)?;
        }
        let advertised =
            entries.iter().take(MAX_ADVERTISED).flat_map(|entry| entry.hash[..16].to_vec()).collect();
        let (writer, contents) = channel();
        let store = Arc::new(Store {
            folder: config.folder.clone(),
            limit: config.limit,
            _lock: lock,
            state: Mutex::new(State { used, ..State::default() }),
            written: Condvar::new(),
            writer,
            advertised,
        });
        let weak = Arc::downgrade(&store);
        std::thread::Builder::new().name("store".to_owned()).spawn(move || write_all(&weak, &contents))?;
        Ok(store)
    }

    /// Returns the first halves of the hashes that were stored when the session began.
    pub(crate) fn advertised(&self) -> &[u8] {
        &self.advertised
    }

    /// Returns code objects that the session was advertised about and may refer to by hash: the newest, up to `most` bytes.
    pub(crate) fn advertised_code_objects(&self, most: u64) -> Vec<Arc<[u8]>> {
        let (advertised, _) = self.advertised.as_chunks::<16>();
        let advertised: HashSet<&[u8; 16]> = advertised.iter().collect();
        let mut entries = list(&self.folder, false).unwrap_or_default();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        let mut left = most;
        let mut found = Vec::new();
        for entry in entries {
            let known = entry.hash.first_chunk::<16>().is_some_and(|half| advertised.contains(half));
            let mut magic = [0; 4];
            let path = self.folder.join(name(&entry.hash));
            let code = known && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
            if !code || magic != *b"\x7fELF" || entry.bytes > left {
                continue;
            }
            if let Some(content) = self.get(&entry.hash) {
                left -= entry.bytes;
                found.push(content);
            }
        }
        found
    }

    /// Returns the content with this hash.
    pub(crate) fn get(&self, hash: &[u8; 32]) -> Option<Arc<[u8]>> {
        if let Some(content) = self.state.lock().waiting.get(hash) {
            return Some(Arc::clone(content));
        }
        let path = self.folder.join(name(hash));
        let file = File::open(&path).ok()?;
        let mut content = Vec::new();
        (&file).take(LARGEST + 1).read_to_end(&mut content).ok()?;
        if *blake3::hash(&content).as_bytes() != *hash {
            tracing::warn!(
                "removed {} from the upload cache: its content does not match its hash",
                path.display()
            );
            let _ = fs::remove_file(&path);
            return None;
        }
        // Updates the last use, so that it is not evicted next. Errors are ignored: a read-only store still serves reads.
        // Not `File::set_modified`, which only the file's owner may call: sessions of one tenant may run as different users.
        // SAFETY: the descriptor is open, and a null pointer means the current time.
        unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) };
        Some(content.into())
    }

    /// Queues a content for writing, if there is room for it.
    pub(crate) fn put(&self, hash: [u8; 32], content: Arc<[u8]>) {
        let bytes = content.len() as u64;
        let mut state = self.state.lock();
        if bytes > LARGEST
            || state.waiting.contains_key(&hash)
            || state.waiting_bytes + bytes > MOST_WAITING
            || state.used + state.waiting_bytes + bytes > self.limit
            || self.folder.join(name(&hash)).exists()
        {
            return;
        }
        state.waiting_bytes += bytes;
        state.waiting.insert(hash, Arc::clone(&content));
        // The receiver lives as long as the store.
        let _ = self.writer.send((hash, content));
    }

    /// Waits up to `patience` until all queued contents are written.
    pub(crate) fn settle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        while !state.waiting.is_empty() && !self.written.wait_until(&mut state, deadline).timed_out() {}
    }

    fn write(&self, hash: &[u8; 32], content: &[u8]) -> io::Result<()> {
        // The hash is recomputed: the client may have sent a wrong one, and the next session would rely on it.
        if *blake3::hash(content).as_bytes() != *hash {
            return Err(io::Error::other("the content does not match the hash sent with it"));
        }
        // A name relative to the folder: a confined process may not enter its parent folders, and crates for temporary files make
        // absolute names. Each process has one writing thread, so the process id makes the name unique.
        let part = self.folder.join(format!("{}.part", std::process::id()));
        let _ = fs::remove_file(&part);
        let mut options = File::options();
        let opened = options.write(true).create_new(true).mode(FILE_MODE).open(&part);
        let written = opened.and_then(|mut file| file.write_all(content));
        written.and_then(|()| fs::rename(&part, self.folder.join(name(hash)))).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
    }
}

fn write_all(store: &Weak<Store>, contents: &Receiver<([u8; 32], Arc<[u8]>)>) {
    for (hash, content) in contents {
        let Some(store) = store.upgrade() else { return };
        let written = store.write(&hash, &content);
        if let Err(error) = &written {
            tracing::warn!("cannot store an upload: {error}");
        }
        let mut state = store.state.lock();
        state.waiting.remove(&hash);
        state.waiting_bytes -= content.len() as u64;
        if written.is_ok() {
            state.used += content.len() as u64;
        }
        store.written.notify_all();
    }
}

/// Lists the store. If `alone`, also removes partial files left by killed sessions.
fn list(folder: &Path, alone: bool) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name();
        let Some(hash) = file.to_str().and_then(|name| blake3::Hash::from_hex(name).ok()) else {
            // A folder holds something else of the tenant, such as compiled kernels.
            if alone && file != "lock" && !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
            }
            continue;
        };
        let data = entry.metadata()?;
        entries.push(Entry { used: data.modified()?, bytes: data.len(), hash: *hash.as_bytes() });
    }
    Ok(entries)
}

fn name(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

fn flock(file: &File, how: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open; no memory is accessed.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(seed: u8, bytes: usize) -> ([u8; 32], Arc<[u8]>) {
        let content: Arc<[u8]> = (0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ seed).collect();
        (*blake3::hash(&content).as_bytes(), content)
    }

    fn config(folder: &Path, limit: u64) -> UploadConfig {
        UploadConfig { folder: folder.to_owned(), limit }
    }

    #[test]
    fn folders_inside_a_tenants_folder_have_its_access() {
        let place = tempfile::tempdir().unwrap();
        let tenant = place.path().join("tenant");
        // SAFETY: returns a number and cannot fail.
        let group = (unsafe { libc::geteuid() } == 0).then_some(4242);
        for _ in 0..2 {
            open_folders(&tenant, &[COMPILED], group).unwrap();
            let (outside, inside) = (tenant.metadata().unwrap(), tenant.join(COMPILED).metadata().unwrap());
            assert!(inside.is_dir());
            assert_eq!((outside.mode(), outside.gid()), (inside.mode(), inside.gid()));
        }
    }

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_kept_is_there_for_the_next_session_and_told_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (hash, bytes) = content(1, 100_000);
        let store = Store::open(&config(folder.path(), 1 << 20)).unwrap();
        assert!(store.advertised().is_empty() && store.get(&hash).is_none());
        store.put(hash, Arc::clone(&bytes));
        assert_eq!(store.get(&hash), Some(Arc::clone(&bytes)));
        store.settle(SOON);
        drop(store);
        let store = Store::open(&config(folder.path(), 1 << 20)).unwrap();
        assert_eq!(store.advertised(), &hash[..16]);
        assert_eq!(store.get(&hash), Some(bytes));
    }

    #[test]
    fn a_content_that_lies_about_its_hash_or_was_damaged_is_never_given_out() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&config(folder.path(), 1 << 20)).unwrap();
        let (hash, bytes) = content(1, 5000);
        let (_, others) = content(2, 5000);
        store.put(hash, others);
        store.settle(SOON);
        assert!(store.get(&hash).is_none());
        store.put(hash, bytes);
        store.settle(SOON);
        fs::write(folder.path().join(name(&hash)), b"something else").unwrap();
        assert!(store.get(&hash).is_none());
        assert!(!folder.path().join(name(&hash)).exists());
    }

    #[test]
    fn the_limit_holds_and_the_longest_unused_goes_first_but_not_while_another_session_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&config(folder.path(), 1 << 20)).unwrap();
        let contents: Vec<_> = (0..5).map(|seed| content(seed, 1000)).collect();
        for (age, (hash, bytes)) in contents.iter().enumerate() {
            store.put(*hash, Arc::clone(bytes));
            store.settle(SOON);
            let file = File::options().append(true).open(folder.path().join(name(hash))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + age as u64)).unwrap();
        }
        assert!(store.get(&contents[0].0).is_some(), "recently used");
        let crowded = Store::open(&config(folder.path(), 4000)).unwrap();
        assert_eq!(crowded.advertised().len(), 5 * 16);
        let (hash, bytes) = content(9, 1000);
        crowded.put(hash, bytes);
        crowded.settle(SOON);
        assert!(crowded.get(&hash).is_none(), "there was no room");
        drop(crowded);
        drop(store);
        // The last session's writer thread, or a process that was just forked, may hold the lock a moment longer.
        let there = || contents.iter().map(|(hash, _)| folder.path().join(name(hash)).exists());
        let deadline = Instant::now() + SOON;
        while there().all(|there| there) && Instant::now() < deadline {
            drop(Store::open(&config(folder.path(), 4000)).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(there().collect::<Vec<_>>(), [true, false, false, true, true]);
    }

    #[test]
    fn tenants_have_nothing_of_each_other() {
        let base = config(Path::new("/store"), 1);
        let folders =
            [None, Some(&b"one"[..]), Some(&b"two"[..])].map(|token| base.clone().of_tenant(token).folder);
        assert!(folders[0] != folders[1] && folders[1] != folders[2] && folders[0] != folders[2]);
        assert!(!folders[1].to_string_lossy().contains("one"));
    }
}
