//! Operations on streams: resolving arguments, creation, queries, and work of this process in stream order.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;

use hip_api::types::*;
use parking_lot::Mutex;
use session::progress::{Completion, WatchTarget};

use super::credit::Credit;
use super::runtime::{Runtime, existing, runtime};
use super::stream::{Stream, StreamRef};
use super::{Status, thread};
use crate::telemetry::report;

impl Runtime {
    /// Resolves a stream handle for a call that queues work on it; counts the command against the stream's credit.
    #[inline]
    pub fn resolve(&self, stream: hipStream_t) -> Result<StreamRef, hipError_t> {
        self.find_stream(stream, |credit, at| self.use_credit(credit, at))
    }

    /// Like [`resolve`](Self::resolve), for a call that only queries.
    #[inline]
    pub fn look_up(&self, stream: hipStream_t) -> Result<StreamRef, hipError_t> {
        self.find_stream(stream, |_, _| ())
    }

    /// Null and hipStreamLegacy are the null stream of the current device.
    #[inline]
    fn find_stream(
        &self,
        stream: hipStream_t,
        charge: impl FnOnce(&Credit, StreamRef),
    ) -> Result<StreamRef, hipError_t> {
        if stream.is_null() || stream == hipStreamLegacy {
            let (device, found) = self.current()?;
            let at = StreamRef { id: u64::from(found.ordinal), device };
            charge(&found.credit, at);
            return Ok(at);
        }
        let handle = if stream == hipStreamPerThread { self.per_thread_stream()? } else { stream as u64 };
        let found = self.tables.streams.get(handle).ok_or(hipErrorContextIsDestroyed)?;
        let at = StreamRef { id: found.id, device: found.device };
        charge(&found.credit, at);
        Ok(at)
    }

    fn per_thread_stream(&self) -> Result<u64, hipError_t> {
        let (device, _) = self.current()?;
        let create = || self.create_stream(hipStreamDefault, 0, Vec::new());
        thread::default_stream(self.session, device, create, destroy_thread_stream)
    }

    /// Creates a stream on the current device.
    pub fn create_stream(
        &self,
        flags: c_uint,
        priority: c_int,
        cu_mask: Vec<u32>,
    ) -> Result<u64, hipError_t> {
        let (index, _) = self.current()?;
        let stream = self.create_stream_on(index, flags, priority, cu_mask)?;
        if flags & hipStreamNonBlocking != 0 {
            self.wait_for_copies(stream)?;
        }
        Ok(stream)
    }

    /// Creates a stream on a visible device, current or not. It does not wait for earlier copies.
    pub fn create_stream_on(
        &self,
        index: usize,
        flags: c_uint,
        priority: c_int,
        cu_mask: Vec<u32>,
    ) -> Result<u64, hipError_t> {
        let device = &self.devices[index];
        let (attributes, credit) = (Mutex::default(), Credit::default());
        let make = |id| Stream { id, device: index, flags, priority, cu_mask, attributes, credit };
        let (id, _) = self.tables.streams.insert_with(make).ok_or(hipErrorOutOfMemory)?;
        self.post(&wire::CreateStream { device: device.ordinal, stream: id, flags, priority }, &[])?;
        Ok(id)
    }

    /// Runs `work` on the callback thread once everything before it on the stream is done; later work of the stream waits
    /// for it. `work` receives a new, idle stream.
    pub fn when_due(
        &self,
        at: StreamRef,
        work: impl FnOnce(&'static Runtime, u64) -> Status + Send + 'static,
    ) -> Status {
        let due = self.due(at.device, move |runtime, own| work(runtime, own.id));
        self.host_function(at.id, due).inspect_err(|_| {
            self.waits.copies_due.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Like [`when_due`](Self::when_due), for a turn whose Callback was requested by another operation.
    pub fn do_when_due(
        &self,
        token: u64,
        device: usize,
        work: impl FnOnce(&'static Runtime, StreamRef) -> Status + Send + 'static,
    ) -> Status {
        self.expect_turn(token, self.due(device, work)).inspect_err(|_| {
            self.waits.copies_due.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Counts the work in `copies_due` until it is done.
    fn due(
        &self,
        device: usize,
        work: impl FnOnce(&'static Runtime, StreamRef) -> Status + Send + 'static,
    ) -> impl FnOnce(hipError_t) + Send + 'static {
        let cause = thread::current_call();
        let run = move |runtime: &'static Runtime| {
            let own = runtime.create_stream_on(device, hipStreamNonBlocking, 0, Vec::new())?;
            let done = work(runtime, StreamRef { id: own, device });
            // Calls the connection directly: errors of posted requests must be reported by the program's next call, not by
            // this one.
            let finished = runtime.connection.call(&wire::SynchronizeStream { stream: own }, cause);
            runtime.tables.streams.remove(own);
            runtime.post(&wire::DestroyStream { stream: own }, &[])?;
            done.and(finished.map_err(|failure| hipError_t(failure.status as u32)))
        };
        self.waits.copies_due.fetch_add(1, Ordering::SeqCst);
        move |status| {
            let Ok(runtime) = runtime() else { return };
            let outer = thread::enter_call(cause);
            if status == hipSuccess
                && let Err(error) = run(runtime)
            {
                report::line(format_args!(
                    "a copy that waited for a host function failed (error {})",
                    error.0
                ));
            }
            thread::leave_call(outer);
            runtime.waits.copies_due.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether a stream is idle. Queries the worker once after each new request; then its notifications suffice.
    pub fn query_stream(&self, stream: u64) -> Status {
        let mark = self.connection.progress().mark(WatchTarget::Stream(stream));
        let mut asked_at = mark.asked_at.lock();
        if *asked_at == self.connection.requests() {
            if mark.completion() == Completion::Pending {
                self.connection.read_available();
            }
            match mark.completion() {
                Completion::Reached(0) => return Ok(()),
                Completion::Reached(status) => return Err(hipError_t(status as u32)),
                Completion::Pending => return self.not_ready(),
                Completion::Unknown => {}
            }
        }
        // The query itself counts as one. If other requests were made meanwhile, the count is too low and the next query
        // asks again.
        *asked_at = self.connection.requests() + 1;
        let stamp = mark.advance();
        mark.watch(stamp);
        if !self.call(&wire::QueryWatched { stream, stamp })?.done {
            return Err(hipErrorNotReady);
        }
        mark.reach(stamp, 0);
        Ok(())
    }

    /// hipErrorNotReady, or the failure if the session is over.
    pub fn not_ready(&self) -> Status {
        match self.connection.ending() {
            Some(failure) => Err(hipError_t(failure.status as u32)),
            None => Err(hipErrorNotReady),
        }
    }
}

/// Maps the error for a nonexistent stream, for functions that have a different one.
pub fn gone_is(word: hipError_t) -> impl Fn(hipError_t) -> hipError_t {
    move |error| if error == hipErrorContextIsDestroyed { word } else { error }
}

/// The stream that `_spt` functions use when they are passed null.
pub fn spt(stream: hipStream_t) -> hipStream_t {
    if stream.is_null() { hipStreamPerThread } else { stream }
}

/// Destroys the per-thread stream of a thread that ends, unless its session was lost.
fn destroy_thread_stream(session: u64, stream: u64) {
    if let Some(runtime) = existing().filter(|runtime| runtime.session == session)
        && let Some(gone) = runtime.tables.streams.remove(stream)
    {
        runtime.forget_credit(&gone.credit);
        let _ = runtime.post(&wire::DestroyStream { stream }, &[]);
    }
}
