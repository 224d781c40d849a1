//! What a forked child does with what it inherited: Windows has no fork.

use transport::Link;

/// Nothing is inherited.
#[derive(Debug)]
pub struct Inherited;

impl Inherited {
    pub fn of(_link: &Link) -> Inherited {
        Inherited
    }

    pub fn replace(&self, _link: &Link) {}

    /// Does nothing.
    ///
    /// # Safety
    /// None to keep; the signature is the same on all systems.
    pub unsafe fn close(&self) {}
}
