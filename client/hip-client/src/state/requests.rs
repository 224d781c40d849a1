//! Requests of HIP functions: sends what they depend on first, and turns failures into HIP errors.

#![allow(non_upper_case_globals, reason = "constants are named as in HIP")]

use std::ptr::NonNull;
use std::sync::Arc;

use hip_api::types::*;
use wire::{Failure, Opcode, Operation, capability};

use super::memory::Place;
use super::runtime::{Runtime, existing};
use super::{Status, thread, unmirrored};
use crate::telemetry::progress::Upload;
use crate::telemetry::report;

impl Runtime {
    /// Sends without waiting. Fails only when the session is over; later failures are reported by a later call.
    #[inline]
    pub fn post<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<(), hipError_t> {
        self.before(O::OPCODE, body)?;
        self.connection.post(operation, body, thread::current_call()).map_err(status)
    }

    /// Sends and waits for the reply. Fails also with a pending error of an earlier posted request.
    pub fn call<O: Operation>(&self, operation: &O) -> Result<O::Reply, hipError_t> {
        self.before(O::OPCODE, &[])?;
        let sent = self.connection.mirrors().sent();
        let result = self.settle(self.connection.call(operation, thread::current_call()));
        if O::OPCODE == Opcode::SynchronizeDevice && self.devices.len() == 1 && result.is_ok() {
            self.connection.mirrors().ended(sent);
        }
        result
    }

    /// Whether other sessions allocate from the same device memory.
    pub fn shares_memory(&self) -> bool {
        self.connection.capabilities() & capability::SHARED_MEMORY != 0
    }

    /// Whether the worker limits mirrored host memory and may refuse it.
    fn limits_host(&self) -> bool {
        self.connection.capabilities() & capability::HOST_LIMIT != 0
    }

    /// Allocates the worker's side of memory that this process has too. Waits for the reply if the worker limits such
    /// memory, unless a stream waits for this thread: then the worker may not reply before that stream continues.
    pub fn allocate_mirror_side(&self, operation: &wire::Allocate) -> Result<(), hipError_t> {
        if !self.limits_host() || thread::holds_stream() {
            return self.post(operation, &[]);
        }
        self.before(wire::Allocate::OPCODE, &[])?;
        self.connection.call(operation, thread::current_call()).map(drop).map_err(status)
    }

    /// Allocates device memory that the ledger says is available. If other sessions share the memory, only the worker can
    /// decide that, so the reply is awaited.
    pub fn allocate_remote<O: Operation>(&self, operation: &O) -> Result<(), hipError_t> {
        if !self.shares_memory() {
            return self.post(operation, &[]);
        }
        self.before(O::OPCODE, &[])?;
        // Does not take late errors of earlier requests: the next call that waits for work reports them.
        self.connection.call(operation, thread::current_call()).map(drop).map_err(status)
    }

    /// Like [`allocate_remote`](Self::allocate_remote), with a body of any size.
    pub fn allocate_remote_with<O: Operation>(
        &self,
        operation: &O,
        body: &Arc<[u8]>,
    ) -> Result<(), hipError_t> {
        if !self.shares_memory() {
            return self.post_shared(operation, body);
        }
        self.connection.call_with_body(operation, body, thread::current_call()).map(drop).map_err(status)
    }

    /// Sends without waiting, with a body of any size. A reference to it is held until it has arrived.
    pub fn post_shared<O: Operation>(&self, operation: &O, body: &Arc<[u8]>) -> Result<(), hipError_t> {
        self.connection.post_shared(operation, body, thread::current_call()).map_err(status)
    }

    /// Sends with a body of any size: a small one is copied and posted, a large one is sent without copying and the reply
    /// is awaited.
    pub fn send<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<(), hipError_t> {
        if body.len() <= Runtime::POSTED_BODY {
            return self.post(operation, body);
        }
        self.before(O::OPCODE, body)?;
        self.settle(self.connection.call_with_body(operation, body, thread::current_call())).map(|_| ())
    }

    /// Sends with a body, without copying it, and waits for the reply.
    pub fn call_with_body<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<O::Reply, hipError_t> {
        self.before(O::OPCODE, body)?;
        self.settle(self.connection.call_with_body(operation, body, thread::current_call()))
    }

    /// Writes device memory in stream order; on return the program may change the bytes.
    pub fn write(&self, stream: u64, destination: u64, bytes: &[u8]) -> Result<(), hipError_t> {
        let (unmirrored, cause) = (&self.host_memory.unmirrored, thread::current_call());
        let mut progress = Upload::start(bytes.len());
        let mut show = |end| progress.iter_mut().for_each(|progress| progress.reached(end));
        if bytes.len() < unmirrored::LARGE || unmirrored.is_empty() {
            self.before(Opcode::Write, bytes)?;
            let written = self.connection.write_checked(stream, destination, bytes, cause, &mut show);
            return written.map_err(status);
        }
        self.before(Opcode::Write, &[])?;
        let mut exposed = Ok(());
        let written = unmirrored.search_ahead(bytes, |found| {
            self.connection.write_checked(stream, destination, bytes, cause, &mut |end| {
                show(end);
                for start in found(end) {
                    exposed = exposed.and(self.expose(start));
                    // The write counts as work that may change the mirror.
                    self.connection.mirrors().worked();
                }
            })
        });
        exposed.and(written.map_err(status))
    }

    /// Reads device memory in stream order, directly into program memory.
    pub fn read(&self, stream: u64, source: u64, into: &mut [u8]) -> Result<(), hipError_t> {
        if let Some(here) = self.host_side(source, into.as_ptr() as u64, into.len()) {
            self.call(&wire::SynchronizeStream { stream })?;
            // SAFETY: the range lies in a mirror, which is memory of this process; it may overlap the destination.
            unsafe { std::ptr::copy(here as *const u8, into.as_mut_ptr(), into.len()) };
            return Ok(());
        }
        self.settle(self.connection.read(stream, source, into, thread::current_call()))
    }

    /// Sends and waits for a reply whose body fills `into`.
    pub fn call_into<O: Operation>(&self, operation: &O, into: &mut [u8]) -> Result<(), hipError_t> {
        self.before(O::OPCODE, &[])?;
        self.settle(self.connection.call_into(operation, into, thread::current_call())).map(|_| ())
    }

    /// Requests device memory in stream order. It has arrived when a call that synchronizes with the stream returns, or
    /// on return if `into` is not pinned.
    ///
    /// # Safety
    /// `into` is valid for writes of `bytes` bytes until then.
    pub unsafe fn read_later(
        &self,
        stream: u64,
        source: u64,
        into: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), hipError_t> {
        if let Some(here) = self.host_side(source, into.as_ptr() as u64, bytes) {
            self.call(&wire::SynchronizeStream { stream })?;
            // SAFETY: the range lies in a mirror, which is memory of this process; the caller guarantees the other range.
            unsafe { std::ptr::copy(here as *const u8, into.as_ptr(), bytes) };
            return Ok(());
        }
        if self.memory.find(into.as_ptr() as u64).is_none() {
            // HIP completes copies into unpinned memory during the call, and programs read the result at once.
            // SAFETY: guaranteed by the caller.
            self.read(stream, source, unsafe { std::slice::from_raw_parts_mut(into.as_ptr(), bytes) })?;
            *self.waits.idle_stream.lock() = (stream, self.connection.requests());
            return Ok(());
        }
        let cause = thread::current_call();
        // SAFETY: guaranteed by the caller.
        unsafe { self.connection.read_later(stream, source, into, bytes as u64, cause) }.map_err(status)
    }

    /// Whether a stream is known to be idle: a copy has synchronized with it, and nothing was sent since.
    pub fn has_waited_for(&self, stream: u64) -> bool {
        *self.waits.idle_stream.lock() == (stream, self.connection.requests())
            && !self.connection.mirrors().any()
    }

    /// Runs `function` in this process when the stream reaches it.
    pub fn host_function(
        &self,
        stream: u64,
        function: impl FnOnce(hipError_t) + Send + 'static,
    ) -> Result<(), hipError_t> {
        self.connection.host_function(stream, thread::current_call(), turn(function)).map_err(status)
    }

    /// Sends the program's changes of mirrored memory, and mirrors pinned memory that the changes point to.
    pub fn flush(&self) -> Result<(), hipError_t> {
        let cause = thread::current_call();
        let post =
            |number, changes: &[u8]| self.connection.post(&wire::MirrorWrite { number }, changes, cause);
        loop {
            let mut found = Vec::new();
            let look = |bytes: &[u8]| found.extend(self.host_memory.unmirrored.search(bytes));
            self.connection.mirrors().flush(look, post).map_err(status)?;
            if found.is_empty() {
                return Ok(());
            }
            for start in found {
                self.expose(start)?;
            }
        }
    }

    /// Where a copy finds `bytes` bytes at `address`: mirrored host memory counts as device memory.
    pub fn locate(&self, address: u64, bytes: u64) -> Result<(u64, Place), hipError_t> {
        match self.memory.view(address, bytes) {
            Some(view) => Ok((view, Place::Device)),
            None => Ok((address, self.memory.place(address, bytes)?)),
        }
    }

    /// Checks a copy direction against the actual locations of the pointers.
    pub fn check_kind(
        &self,
        kind: hipMemcpyKind,
        to: Place,
        from: Place,
        to_at: u64,
        from_at: u64,
    ) -> Status {
        let pinned = |at| self.memory.find(at).is_some();
        let host = |at| self.memory.is_host(at);
        // Pinned host memory is accessible to the device, so directions that call it device memory are accepted.
        let to_known = matches!(to, Place::Device) || pinned(to_at);
        let from_known = matches!(from, Place::Device) || pinned(from_at);
        let fits = match kind {
            hipMemcpyDefault => true,
            hipMemcpyHostToHost => host(to_at) && host(from_at),
            hipMemcpyHostToDevice => to_known,
            hipMemcpyDeviceToHost => from_known,
            hipMemcpyDeviceToDevice | hipMemcpyDeviceToDeviceNoCU => to_known && from_known,
            _ => return Err(hipErrorInvalidMemcpyDirection),
        };
        if fits { Ok(()) } else { Err(hipErrorInvalidValue) }
    }

    /// The host address of a mirror to read from, unless `into` is that address: the worker treats what was read from a
    /// mirror as up to date on this side.
    fn host_side(&self, source: u64, into: u64, bytes: usize) -> Option<u64> {
        self.connection.mirrors().host_of(source, bytes as u64).filter(|here| *here != into)
    }

    /// Called before a request is sent: sends the memory changes that its work may read.
    #[inline]
    fn before(&self, opcode: Opcode, body: &[u8]) -> Result<(), hipError_t> {
        let nothing = !self.connection.mirrors().any() && self.host_memory.unmirrored.is_empty();
        if nothing { Ok(()) } else { self.before_work(opcode, body) }
    }

    #[cold]
    fn before_work(&self, opcode: Opcode, body: &[u8]) -> Result<(), hipError_t> {
        if !opcode.effect().is_work() {
            return Ok(());
        }
        self.expose_in(body)?;
        if self.connection.mirrors().any() {
            self.connection.mirrors().worked();
            if opcode.effect() != wire::Effect::Writes {
                return self.flush();
            }
        }
        Ok(())
    }

    /// Registers a function until the worker's Callback arrives.
    pub fn expect_turn(
        &self,
        token: u64,
        function: impl FnOnce(hipError_t) + Send + 'static,
    ) -> Result<(), hipError_t> {
        self.connection.expect_turn(token, turn(function)).map_err(status)
    }

    /// Bodies up to this size are copied.
    const POSTED_BODY: usize = 256 << 10;

    /// The result of a call that waited: its own failure, or the first late error of an earlier posted request.
    fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, hipError_t> {
        let late = self.connection.take_late_error();
        match (outcome, late) {
            (Err(failure), _) => Err(status(failure)),
            (Ok(_), Some(late)) => Err(hipError_t(late.code as u32)),
            (Ok(reply), None) => Ok(reply),
        }
    }
}

/// Wraps a host function of the program: marks the thread as holding its stream, and flushes mirrors afterwards.
fn turn(function: impl FnOnce(hipError_t) + Send + 'static) -> impl FnOnce(i32) + Send + 'static {
    move |code| {
        thread::set_holds_stream(true);
        function(hipError_t(code as u32));
        // Later work of the stream may read what the function wrote.
        if let Some(runtime) = existing() {
            let _ = runtime.flush();
        }
        thread::set_holds_stream(false);
    }
}

/// The HIP error of a failed request. The text is only printed for debugging.
fn status(failure: Failure) -> hipError_t {
    report::debug(format_args!("{} (error {})", failure.text, failure.status));
    hipError_t(failure.status as u32)
}
