//! Requests about events.
//!
//! Recording and waiting are answered at once even as calls: they take no time themselves, and a program may record or wait long
//! before the stream gets there.

use backend::{Command, Scope};
use wire::{Handle, Header};

use crate::request::answer::{Answer, RequestError};
use crate::request::{Dispatcher, tag};

impl Handle<wire::CreateEvent> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::CreateEvent,
    ) -> Result<Answer<wire::CreateEvent>, RequestError> {
        self.device.create_event(it.event, it.device, it.flags)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::DestroyEvent> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::DestroyEvent,
    ) -> Result<Answer<wire::DestroyEvent>, RequestError> {
        self.device.destroy_event(it.event)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::RecordEvent> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::RecordEvent,
    ) -> Result<Answer<wire::RecordEvent>, RequestError> {
        self.device.enqueue(it.stream, tag(header), Command::RecordEvent(it.event))?;
        Ok(Answer::done())
    }
}

impl Handle<wire::RecordWatched> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::RecordWatched,
    ) -> Result<Answer<wire::RecordWatched>, RequestError> {
        self.device.enqueue(it.stream, tag(header), Command::RecordEvent(it.event))?;
        self.watches.add(it.stream, Scope::Event(it.event), it.stamp);
        Ok(Answer::done())
    }
}

impl Handle<wire::WaitEvent> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::WaitEvent,
    ) -> Result<Answer<wire::WaitEvent>, RequestError> {
        self.device.enqueue(it.stream, tag(header), Command::WaitEvent(it.event))?;
        Ok(Answer::done())
    }
}

impl Handle<wire::SynchronizeEvent> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::SynchronizeEvent,
    ) -> Result<Answer<wire::SynchronizeEvent>, RequestError> {
        Ok(Answer::After(Scope::Event(it.event)))
    }
}

impl Handle<wire::QueryEvent> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::QueryEvent) -> Result<Answer<wire::QueryEvent>, RequestError> {
        Ok(Answer::Reply(wire::reply::QueryEvent { done: self.is_done(Scope::Event(it.event))? }))
    }
}

impl Handle<wire::QueryEventWatched> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::QueryEventWatched,
    ) -> Result<Answer<wire::QueryEventWatched>, RequestError> {
        let done = self.is_done(Scope::Event(it.event))?;
        if !done {
            self.watches.add(it.event, Scope::Event(it.event), it.stamp);
        }
        Ok(Answer::Reply(wire::reply::QueryEventWatched { done }))
    }
}

impl Handle<wire::ElapsedTime> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::ElapsedTime,
    ) -> Result<Answer<wire::ElapsedTime>, RequestError> {
        let milliseconds = self.device.elapsed(it.start, it.stop)?;
        Ok(Answer::Reply(wire::reply::ElapsedTime { milliseconds }))
    }
}
