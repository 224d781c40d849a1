//! What a forked child does with what it inherited.

use std::sync::atomic::{AtomicI32, Ordering};

use transport::Link;

/// The file descriptor of a link, which a forked child closes without a lock or an allocation.
#[derive(Debug)]
pub struct Inherited(AtomicI32);

impl Inherited {
    /// The descriptor of this link.
    pub fn of(link: &Link) -> Inherited {
        Inherited(AtomicI32::new(link.raw_fd()))
    }

    /// Replaces it by the descriptor of another link.
    pub fn replace(&self, link: &Link) {
        self.0.store(link.raw_fd(), Ordering::Release);
    }

    /// Closes the descriptor in a forked child.
    ///
    /// # Safety
    /// Nothing in this process uses the link any more.
    pub unsafe fn close(&self) {
        let descriptor = self.0.swap(-1, Ordering::AcqRel);
        // SAFETY: guaranteed by the caller; -1 is refused by the kernel.
        unsafe { libc::close(descriptor) };
    }
}
