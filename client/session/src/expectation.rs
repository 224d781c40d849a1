//! What the caller registers before the worker pushes it: host functions and bytes, by token.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use wire::Failure;

use crate::connection::Connection;
use crate::receive::pending::Destination;

impl Connection {
    /// Runs a function on the host in stream order; the stream waits for it. Its argument is 0, or the error that
    /// prevented the stream from reaching it. All host functions run on one dedicated thread.
    pub fn host_function(
        &self,
        stream: u64,
        cause: u16,
        function: impl FnOnce(i32) + Send + 'static,
    ) -> Result<(), Failure> {
        let token = self.tokens(1);
        self.shared.expect_callback(token, Box::new(function))?;
        self.post(&wire::HostFunction { stream, token }, &[], cause)
            .inspect_err(|_| self.shared.arrivals.callbacks.forget(token))
    }

    /// Allocates `count` consecutive tokens for deliveries and callbacks, and returns the first.
    pub fn tokens(&self, count: u64) -> u64 {
        self.shared.arrivals.next_token.fetch_add(count, Ordering::Relaxed)
    }

    /// Registers a host function to run when the worker's Callback with this token arrives. The caller sends the request
    /// for it.
    pub fn expect_turn(
        &self,
        token: u64,
        function: impl FnOnce(i32) + Send + 'static,
    ) -> Result<(), Failure> {
        self.shared.expect_callback(token, Box::new(function))
    }

    /// Registers the destination of bytes that the worker will deliver under this token. The caller sends the request for
    /// them.
    ///
    /// # Safety
    /// `destination` must be valid for writes of `bytes` bytes until they have arrived.
    pub unsafe fn expect_bytes(&self, token: u64, destination: NonNull<u8>, bytes: usize) {
        self.shared.arrivals.deliveries.expect(token, Destination::new(destination, bytes));
    }

    /// Like [`expect_bytes`](Self::expect_bytes), for packed bytes that `unpack` scatters over `covered` bytes of program
    /// memory from `address` on.
    pub fn expect_packed(
        &self,
        token: u64,
        bytes: usize,
        address: u64,
        covered: u64,
        unpack: impl FnOnce(&[u8]) + Send + 'static,
    ) {
        if bytes == 0 {
            return;
        }
        let staging = Packed(Box::into_raw(vec![0; bytes].into_boxed_slice()));
        let start = staging.0.cast::<u8>();
        let then = move || {
            let staging = staging;
            // SAFETY: made by `into_raw` above; the last byte has arrived, so the reader no longer uses it.
            let packed = unsafe { Box::from_raw(staging.0) };
            unpack(&packed);
        };
        if let Some(start) = NonNull::new(start) {
            let covers = address..address.saturating_add(covered);
            let destination = Destination::new(start, bytes);
            self.shared.arrivals.deliveries.expect_then(token, destination, covers, Some(Box::new(then)));
        }
    }

    /// Whether requested bytes are still to arrive in this range of program memory.
    pub fn awaits_bytes(&self, address: u64, bytes: u64) -> bool {
        self.shared.arrivals.deliveries.is_expected_at(&(address..address.saturating_add(bytes)))
    }

    /// Whether a host function of any stream is pending or running.
    pub fn awaits_host_function(&self) -> bool {
        self.shared.arrivals.callbacks.any_outstanding()
    }
}

/// A staging buffer that the reader fills and the unpacking closure frees.
struct Packed(*mut [u8]);

// SAFETY: the sole owner of the buffer; the reader stops writing before the owner reads it.
unsafe impl Send for Packed {}
