//! Run-time compilation: the compilers in the sandbox, the service that runs them, and the session's access to it.

pub(crate) mod budget;
pub(crate) mod cache;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod compiler;
mod link;
mod name_expression;
mod options;
mod prelude;
pub(crate) mod service;
pub(crate) mod task;
