//! The two fences of an asymmetric memory fence.
//!
//! Two threads that each write one location and then read the other's must not both read the old value. On Linux the frequent side
//! needs no instruction. FlushProcessWriteBuffers could do the same here, but Wine implements it only partly, so both sides use
//! a full fence, which costs some ten nanoseconds.

use std::sync::atomic::{Ordering, fence};

/// The fence of the frequent side.
#[inline]
pub fn light() {
    fence(Ordering::SeqCst);
}

/// The fence of the rare side.
pub fn heavy() {
    fence(Ordering::SeqCst);
}
