//! Request and response bodies that update the connection table, and a time limit for request bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use crate::table::{Entry, Phase};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request. It must be complete within the time limit.
pub(crate) struct Received {
    body: Incoming,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    entry: Arc<Entry>,
}

impl Received {
    pub(crate) fn new(body: Incoming, limit: Duration, entry: Arc<Entry>) -> Received {
        Received { body, limit, deadline: Box::pin(tokio::time::sleep(limit)), entry }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if frame.is_none() {
                this.entry.set(Phase::Serving);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        ready!(this.deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(format!("the body was not complete after {:?}", this.limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. When it ends, the connection waits for the next request.
pub(crate) struct Sent {
    body: Body,
    entry: Arc<Entry>,
}

impl Sent {
    pub(crate) fn new(body: Body, entry: Arc<Entry>) -> Sent {
        Sent { body, entry }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.entry.set(Phase::Receiving);
    }
}
