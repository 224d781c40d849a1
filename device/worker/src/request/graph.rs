//! Requests about executable graphs.

use wire::{Handle, HandleBody, Header, Payload as _};

use crate::request::answer::{Answer, RequestError};
use crate::request::graphs::Site;
use crate::request::payload::Payload;
use crate::request::{Dispatcher, tag};

impl Handle<wire::DefineGraph> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::DefineGraph,
    ) -> Result<Answer<wire::DefineGraph>, RequestError> {
        self.graphs.define(it.graph)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::AddGraphNodes> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::AddGraphNodes,
    ) -> Result<Answer<wire::AddGraphNodes>, RequestError> {
        self.graphs.add(it.graph, it.nodes)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::UpdateGraphNodes> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::UpdateGraphNodes,
    ) -> Result<Answer<wire::UpdateGraphNodes>, RequestError> {
        self.graphs.update(it.graph, it.updates)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::DestroyGraph> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::DestroyGraph,
    ) -> Result<Answer<wire::DestroyGraph>, RequestError> {
        self.graphs.destroy(&*self.device, it.graph)?;
        Ok(Answer::done())
    }
}

impl HandleBody<wire::LaunchGraph> for Dispatcher {
    /// A launch is answered once it is queued, even as a call: it may wait for the program itself.
    fn handle(
        &mut self,
        header: &Header,
        it: wire::LaunchGraph,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::LaunchGraph>, RequestError> {
        self.charge_large(body)?;
        let site = Site { device: &*self.device, outgoing: &self.outgoing, tag: tag(header) };
        let launched = self.graphs.launch(&site, &it, body.whole()?);
        self.outgoing.mirrors.worked();
        launched?;
        Ok(Answer::done())
    }
}
