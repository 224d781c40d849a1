//! Requests about streams and the host functions that run in them.

use backend::{Command, Scope};
use hip_api::types::hipStreamNonBlocking;
use wire::{Handle, Header};

use crate::request::answer::{Answer, RequestError};
use crate::request::{Dispatcher, region, tag};

impl Handle<wire::CreateStream> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::CreateStream,
    ) -> Result<Answer<wire::CreateStream>, RequestError> {
        let non_blocking = it.flags & hipStreamNonBlocking != 0;
        self.device.create_stream(it.device, it.stream, non_blocking, it.priority)?;
        self.outgoing.spans.stream(it.stream, it.device);
        Ok(Answer::done())
    }
}

impl Handle<wire::DestroyStream> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::DestroyStream,
    ) -> Result<Answer<wire::DestroyStream>, RequestError> {
        self.device.destroy_stream(it.stream)?;
        self.outgoing.spans.stream_gone(it.stream);
        Ok(Answer::done())
    }
}

impl Handle<wire::SynchronizeStream> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::SynchronizeStream,
    ) -> Result<Answer<wire::SynchronizeStream>, RequestError> {
        Ok(Answer::After(Scope::Stream(it.stream)))
    }
}

impl Handle<wire::QueryStream> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::QueryStream,
    ) -> Result<Answer<wire::QueryStream>, RequestError> {
        let done = self.is_done(Scope::Stream(it.stream))?;
        Ok(Answer::Reply(wire::reply::QueryStream { done }))
    }
}

impl Handle<wire::QueryWatched> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::QueryWatched,
    ) -> Result<Answer<wire::QueryWatched>, RequestError> {
        let done = self.is_done(Scope::Stream(it.stream))?;
        if !done {
            self.watches.add(it.stream, Scope::Stream(it.stream), it.stamp);
        }
        Ok(Answer::Reply(wire::reply::QueryWatched { done }))
    }
}

impl Handle<wire::WaitValue> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::WaitValue,
    ) -> Result<Answer<wire::WaitValue>, RequestError> {
        // Answered at once even as a call: the client's next request may be what ends the wait.
        self.device.enqueue(it.stream, tag(header), Command::WaitValue(region::wait(&it)?))?;
        Ok(Answer::done())
    }
}

impl Handle<wire::HostFunction> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::HostFunction,
    ) -> Result<Answer<wire::HostFunction>, RequestError> {
        self.device.enqueue(it.stream, tag(header), Command::HostFunction { token: it.token })?;
        Ok(Answer::done())
    }
}

impl Handle<wire::HostFunctionDone> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::HostFunctionDone,
    ) -> Result<Answer<wire::HostFunctionDone>, RequestError> {
        if !self.graphs.was_called_off(it.token) {
            self.device.host_function_done(it.token)?;
        }
        Ok(Answer::done())
    }
}
