//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Returns the mode of a file that other users may read; `None` if only its owner may.
pub(crate) fn shared_mode(file: &File) -> io::Result<Option<u32>> {
    let data = file.metadata()?;
    let mode = data.permissions().mode() & 0o777;
    Ok((data.is_file() && mode & 0o077 != 0 && !is_ours_by_list(file)).then_some(mode))
}

/// Creates a new file that only its owner can read.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether a file belongs to this process's user or to the administrator.
pub(crate) fn is_trusted(path: &Path) -> io::Result<bool> {
    // SAFETY: takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let owner = std::fs::metadata(path)?.uid();
    Ok(owner == user || owner == 0)
}

/// Whether the file's access control list grants access to no one but this process's user. systemd passes credentials to services
/// this way, and the group bits of the mode are then the list's mask.
fn is_ours_by_list(file: &File) -> bool {
    // Tags of linux/posix_acl.h.
    const USER: u16 = 2;
    const GROUP_OBJ: u16 = 4;
    const GROUP: u16 = 8;
    const OTHER: u16 = 0x20;
    let mut list = [0u8; 512];
    // SAFETY: the name is NUL-terminated and the buffer is writable for its length.
    let bytes = unsafe {
        let name = c"system.posix_acl_access";
        libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), list.as_mut_ptr().cast(), list.len())
    };
    let Some(entries) = usize::try_from(bytes).ok().and_then(|bytes| list.get(4..bytes)) else {
        return false;
    };
    // SAFETY: takes no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    entries.chunks_exact(8).all(|entry| {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let may = u16::from_le_bytes([entry[2], entry[3]]) != 0;
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        !(may && ([GROUP_OBJ, GROUP, OTHER].contains(&tag) || tag == USER && id != own))
    })
}
