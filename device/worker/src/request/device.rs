//! Requests about whole devices, the links between them, measurements, and the end of the session.

use std::sync::Arc;

use backend::{DeviceError, Scope};
use wire::{Handle, Header};

use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};

impl Handle<wire::Goodbye> for Dispatcher {
    fn handle(&mut self, header: &Header, _: wire::Goodbye) -> Result<Answer<wire::Goodbye>, RequestError> {
        let (outgoing, farewell) = (Arc::clone(&self.outgoing), Arc::clone(&self.farewell));
        let header = *header;
        self.device.synchronize(
            Scope::Everything,
            Box::new(move |_| {
                outgoing.last_spans();
                outgoing.outbox.finish::<wire::Goodbye>(&header, Ok(Default::default()));
                farewell();
            }),
        );
        Ok(Answer::Goodbye)
    }
}

impl Handle<wire::SynchronizeDevice> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::SynchronizeDevice,
    ) -> Result<Answer<wire::SynchronizeDevice>, RequestError> {
        Ok(Answer::After(Scope::Device(it.device)))
    }
}

impl Handle<wire::ResetDevice> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::ResetDevice,
    ) -> Result<Answer<wire::ResetDevice>, RequestError> {
        self.outgoing.mirrors.remove_of(it.device);
        self.exchange.withdraw_all();
        self.device.reset(it.device)?;
        self.graphs.reset(&*self.device);
        Ok(Answer::done())
    }
}

impl Handle<wire::SetLimit> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::SetLimit) -> Result<Answer<wire::SetLimit>, RequestError> {
        let value = self.device.set_limit(it.device, it.limit, it.value)?;
        Ok(Answer::Reply(wire::reply::SetLimit { value }))
    }
}

impl Handle<wire::QueryLink> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::QueryLink) -> Result<Answer<wire::QueryLink>, RequestError> {
        let (kind, hops) = self.device.link(it.from, it.to)?;
        Ok(Answer::Reply(wire::reply::QueryLink { kind, hops }))
    }
}

impl Handle<wire::BeginCounting> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::BeginCounting,
    ) -> Result<Answer<wire::BeginCounting>, RequestError> {
        self.require_no_observer()?;
        self.device.begin_counting(it.device)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::EndCounting> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::EndCounting,
    ) -> Result<Answer<wire::EndCounting>, RequestError> {
        self.require_no_observer()?;
        let numbers = self.device.end_counting(it.device)?.numbers();
        Ok(Answer::Reply(wire::reply::EndCounting { numbers }))
    }
}

impl Handle<wire::ReadClock> for Dispatcher {
    fn handle(&mut self, _: &Header, _: wire::ReadClock) -> Result<Answer<wire::ReadClock>, RequestError> {
        Ok(Answer::Reply(wire::reply::ReadClock { nanoseconds: self.outgoing.spans.clock() }))
    }
}

impl Handle<wire::RecordSpans> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::RecordSpans,
    ) -> Result<Answer<wire::RecordSpans>, RequestError> {
        self.outgoing.spans.turn(it.on);
        self.outgoing.record_spans();
        Ok(Answer::done())
    }
}

impl Dispatcher {
    /// A device has one set of counters, which an observer uses.
    fn require_no_observer(&self) -> Result<(), DeviceError> {
        match self.outgoing.observation.is_on() {
            true => {
                Err(DeviceError::new(hip_api::types::hipErrorNotSupported, "an observer uses the counters"))
            }
            false => Ok(()),
        }
    }
}
