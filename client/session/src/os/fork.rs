//! What a forked child does with what it inherited.

/// Closes a file descriptor, without a lock or an allocation; -1 is ignored.
///
/// # Safety
/// Nothing in this process uses the descriptor any more.
pub unsafe fn close(descriptor: i32) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::close(descriptor) };
}
