//! Requests to compile and to link, which the session's compiler service executes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backend::DeviceError;
use hip_api::types::hipErrorOutOfMemory;
use wire::{Handle, Header, Operation};

use crate::compile::channel::Task;
use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};

/// Limit on compilations of one session that run or wait at the same time; more are refused.
const MAX_COMPILATIONS: usize = 64;
/// Host memory charged for one compilation: what clang takes for a program of average size.
const COMPILER_BYTES: u64 = 128 << 20;

impl Handle<wire::Compile> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::Compile) -> Result<Answer<wire::Compile>, RequestError> {
        self.on_compiler::<wire::Compile>(header, Task::Compile(it), |result| result)
    }
}

impl Handle<wire::Link> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::Link) -> Result<Answer<wire::Link>, RequestError> {
        self.on_compiler::<wire::Link>(header, Task::Link(it), |result| wire::reply::Link {
            status: result.status,
            log: result.log,
            code: result.code,
        })
    }
}

impl Dispatcher {
    /// Sends a task to the session's compiler service and replies with the result, on a separate thread so that no other call is
    /// blocked. Refuses the task if too many are pending.
    fn on_compiler<O: Operation>(
        &self,
        header: &Header,
        task: Task,
        reply: impl FnOnce(wire::reply::Compile) -> O::Reply + Send + 'static,
    ) -> Result<Answer<O>, RequestError> {
        if self.compilations.fetch_add(1, Ordering::Relaxed) >= MAX_COMPILATIONS {
            self.compilations.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{MAX_COMPILATIONS} compilations are already running or waiting");
            return Err(DeviceError::new(hipErrorOutOfMemory, text).into());
        }
        let charge = self.count_host(COMPILER_BYTES).inspect_err(|_| {
            self.compilations.fetch_sub(1, Ordering::Relaxed);
        })?;
        let (outgoing, compiler, compilations) =
            (Arc::clone(&self.outgoing), Arc::clone(&self.compiler), Arc::clone(&self.compilations));
        let header = *header;
        let started = std::thread::Builder::new().name("compile".to_owned()).spawn(move || {
            let reply = reply(compiler.perform(&task));
            drop(charge);
            compilations.fetch_sub(1, Ordering::Relaxed);
            outgoing.outbox.finish::<O>(&header, Ok(reply));
        });
        started.map_err(|error| {
            self.compilations.fetch_sub(1, Ordering::Relaxed);
            DeviceError::new(hipErrorOutOfMemory, error.to_string())
        })?;
        Ok(Answer::Later)
    }
}
