//! Results of request handlers: how the client gets its reply, or why it gets an error.

use backend::{Command, DeviceError, Scope, StreamId};
use wire::{Operation, WireError};

use crate::request::inbox::Broken;

/// What a handler returns if it succeeds.
pub(crate) enum Answer<O: Operation> {
    /// The reply, which is sent now.
    Reply(O::Reply),
    /// A command. A call is answered when the stream has executed it.
    Queued(StreamId, Command),
    /// A command whose sink sends the reply.
    Read(StreamId, Command),
    /// A call that is answered when this work has ended.
    After(Scope),
    /// Another thread sends the reply later.
    Later,
    /// Like `Later`, and the session ends.
    Goodbye,
}

impl<O: Operation> Answer<O> {
    /// A reply without content.
    pub(crate) fn done() -> Answer<O> {
        Answer::Reply(O::Reply::default())
    }
}

/// Reason why a handler fails.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The request fails. The connection continues after the request's last byte.
    Failed(DeviceError),
    /// The connection cannot be read any further.
    Broken(Broken),
}

impl From<DeviceError> for RequestError {
    fn from(error: DeviceError) -> RequestError {
        RequestError::Failed(error)
    }
}

impl From<Broken> for RequestError {
    fn from(broken: Broken) -> RequestError {
        RequestError::Broken(broken)
    }
}

impl From<WireError> for RequestError {
    fn from(error: WireError) -> RequestError {
        RequestError::Failed(DeviceError::invalid_value(error.to_string()))
    }
}
