//! Requests: decodes each operation of a client, executes it on the device and sends the reply.
//!
//! One file per family of operations. [`wire::Requests`] requires a handler for every request in the operation table. Everything
//! here runs on the thread that reads the connection, so nothing waits for device work: slow operations are queued, and the
//! thread that completes them replies.

mod answer;
mod compile;
mod copy;
mod device;
mod event;
pub(crate) mod exchange;
mod graph;
pub(crate) mod graphs;
mod images;
pub(crate) mod inbox;
mod memory;
mod module;
pub(crate) mod packed;
mod payload;
mod region;
mod stream;
mod virtual_memory;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use backend::{Command, Completion, Device, DeviceError, Scope, StreamId, Tag};
use hip_api::types::hipErrorNotSupported;
use limits::{HostCharge, HostMemory};
use wire::{Header, MAX_GRAPH_PIECE, Opcode, Operation, Receiver, dispatch};

use crate::compile::client::CompileClient;
use crate::outgoing::Outgoing;
use crate::outgoing::device_events::DeviceEvents;
use crate::outgoing::watches::Watches;
use crate::store::Store;
use answer::{Answer, RequestError};
use exchange::Exchange;
use graphs::Graphs;
use images::Images;
use inbox::{Broken, Inbox};
use payload::Payload;

pub(crate) use payload::Receipt;

/// Limit on the kernel arguments of one launch; no kernel has more.
const MAX_ARGUMENTS_BYTES: u64 = 64 << 10;
/// Limit on one MirrorWrite; clients send far smaller pieces.
const MAX_CHANGES_BYTES: u64 = 4 << 20;

/// Whether the session continues after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    /// The client has said goodbye. Its reply is sent, or will be when its work has finished.
    End,
}

/// Executes the operations of one session.
pub(crate) struct Dispatcher {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) outgoing: Arc<Outgoing>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) images: Images,
    pub(crate) graphs: Graphs,
    compiler: Arc<CompileClient>,
    /// Number of compilations that run or wait.
    compilations: Arc<AtomicUsize>,
    watches: Arc<Watches>,
    /// Host memory charged for what the client makes this process allocate.
    host: Arc<HostMemory>,
    farewell: Arc<dyn Fn() + Send + Sync>,
}

impl Dispatcher {
    /// `farewell` is called once a goodbye has been answered.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        outgoing: Arc<Outgoing>,
        compiler: Arc<CompileClient>,
        store: Option<Arc<Store>>,
        exchange: Arc<Exchange>,
        farewell: Arc<dyn Fn() + Send + Sync>,
    ) -> Dispatcher {
        let watches = Watches::new(Arc::clone(&device), &outgoing);
        device.notify(Arc::new(DeviceEvents::new(&outgoing, &watches)));
        Dispatcher {
            watches,
            store,
            device,
            outgoing,
            exchange,
            compiler,
            compilations: Arc::new(AtomicUsize::new(0)),
            images: Images::default(),
            host: HostMemory::new(None),
            graphs: Graphs::default(),
            farewell,
        }
    }

    /// Charges memory that this process allocates for the client to the worker's host memory.
    pub(crate) fn count_against(&mut self, host: Arc<HostMemory>) {
        self.outgoing.mirrors.count_against(&host);
        self.graphs.count_against(&host);
        self.host = host;
    }

    /// Whether every reply and every completion notification has been sent. Device work may still be running.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outgoing.outbox.owes_nothing() && self.watches.are_told()
    }

    /// Restores a code object of a migrated session.
    pub(crate) fn restore_image(&mut self, image: Arc<[u8]>) -> Result<(), DeviceError> {
        let charge = self.count_host(image.len() as u64)?;
        self.images.keep(*blake3::hash(&image).as_bytes(), image, charge);
        Ok(())
    }

    /// Handles one request whose header has been read; its payload is still in the inbox. The receipt counts it once the last
    /// byte of the payload has been read.
    pub(crate) fn request(
        &mut self,
        number: u64,
        header: &Header,
        inbox: &mut Inbox,
        receipt: Receipt<'_>,
    ) -> Result<Next, Broken> {
        let mut payload = Payload::new(header, inbox, receipt);
        let opcode = match header.known() {
            Ok(opcode) => opcode,
            Err(error) => {
                tracing::warn!(opcode = header.opcode, flags = header.flags.0, "request refused: {error}");
                payload.skip()?;
                let error = DeviceError::new(hipErrorNotSupported, error.to_string());
                self.outgoing.outbox.fail(header, &error);
                return Ok(Next::GoOn);
            }
        };
        if opcode.effect().may_change() {
            self.outgoing.outbox.will_change(number);
        }
        if let Err(error) = self.admit(opcode, &mut payload) {
            payload.skip()?;
            self.outgoing.outbox.fail(header, &error);
            return Ok(Next::GoOn);
        }
        dispatch(self, opcode, header, payload)
    }

    /// Checks the size of a payload and charges what must be kept in memory as a whole.
    fn admit(&self, opcode: Opcode, payload: &mut Payload<'_>) -> Result<(), DeviceError> {
        let bytes = payload.bytes();
        let (limit, what) = match opcode {
            Opcode::Launch => (MAX_ARGUMENTS_BYTES, "kernel arguments"),
            Opcode::AddGraphNodes | Opcode::UpdateGraphNodes => {
                (MAX_GRAPH_PIECE, "graph nodes in one request")
            }
            Opcode::MirrorWrite => (MAX_CHANGES_BYTES, "mirror changes in one request"),
            _ => (u64::MAX, ""),
        };
        if bytes > limit {
            return Err(DeviceError::invalid_value(format!("{bytes} bytes of {what} exceed the limit")));
        }
        // The handlers of operations with a body decide themselves where it goes.
        if !opcode.request_has_body() {
            self.charge_large(payload)?;
        }
        Ok(())
    }

    /// Charges the memory of a payload that does not fit into the connection's buffer.
    fn charge_large(&self, payload: &mut Payload<'_>) -> Result<(), DeviceError> {
        if payload.is_large() {
            payload.charge(self.count_host(payload.bytes())?);
        }
        Ok(())
    }

    /// Charges host memory that this process allocates for the client.
    fn count_host(&self, bytes: u64) -> Result<HostCharge, DeviceError> {
        self.host.charge(bytes).map_err(|left| {
            DeviceError::out_of_memory(format!("{bytes} bytes of the worker's host memory: {left}"))
        })
    }

    /// Queues a command. A posted request needs no reply; a call is answered when the command has ended.
    fn enqueue<O: Operation>(&self, header: &Header, stream: StreamId, command: Command) {
        let reads = matches!(command, Command::Read { .. });
        let queued = self.device.enqueue(stream, tag(header), command);
        if !reads {
            self.outgoing.mirrors.worked();
        }
        match queued {
            Err(error) => self.outgoing.outbox.fail(header, &error),
            Ok(()) if header.is_posted() => {}
            Ok(()) => self.device.synchronize(Scope::Stream(stream), self.completion::<O>(header)),
        }
    }

    /// Returns a callback that answers a request when its work has ended.
    fn completion<O: Operation>(&self, header: &Header) -> Completion {
        let (outgoing, header, watches) = (Arc::clone(&self.outgoing), *header, Arc::clone(&self.watches));
        Box::new(move |result| {
            watches.sweep();
            if result.is_ok() {
                outgoing.tell_changes();
            }
            outgoing.outbox.finish::<O>(&header, result.map(|()| Default::default()));
        })
    }

    /// Whether work has ended. If it has, sends the client the memory it changed before the reply reports completion.
    fn is_done(&self, scope: Scope) -> Result<bool, DeviceError> {
        let done = self.device.query(scope)?;
        if done {
            self.outgoing.tell_changes();
        }
        Ok(done)
    }
}

impl Receiver for Dispatcher {
    type Error = RequestError;
    type Payload<'a> = Payload<'a>;
    type Answer<O: Operation> = Answer<O>;
    type Outcome = Result<Next, Broken>;

    fn complete<O: Operation>(
        &mut self,
        header: &Header,
        mut payload: Payload<'_>,
        answer: Result<Answer<O>, RequestError>,
    ) -> Result<Next, Broken> {
        let reply = match answer {
            Err(RequestError::Broken(broken)) => return Err(broken),
            Err(RequestError::Failed(error)) => Err(error),
            Ok(Answer::Reply(reply)) => Ok(reply),
            Ok(other) => {
                payload.skip()?;
                match other {
                    Answer::Queued(stream, command) => self.enqueue::<O>(header, stream, command),
                    Answer::Read(stream, command) => {
                        if let Err(error) = self.device.enqueue(stream, tag(header), command) {
                            self.outgoing.outbox.fail(header, &error);
                        }
                    }
                    Answer::After(scope) => self.device.synchronize(scope, self.completion::<O>(header)),
                    Answer::Goodbye => return Ok(Next::End),
                    Answer::Later | Answer::Reply(_) => {}
                }
                return Ok(Next::GoOn);
            }
        };
        payload.skip()?;
        if !header.is_posted() {
            self.watches.sweep();
        }
        self.outgoing.outbox.finish::<O>(header, reply);
        Ok(Next::GoOn)
    }

    fn refuse(&mut self, opcode: Opcode, header: &Header, mut payload: Payload<'_>) -> Result<Next, Broken> {
        payload.skip()?;
        let text = format!("{} is not a request", opcode.name());
        self.outgoing.outbox.fail(header, &DeviceError::not_supported(text));
        Ok(Next::GoOn)
    }
}

/// Tag for late errors: the request and the HIP function that caused it.
fn tag(header: &Header) -> Tag {
    u64::from(header.request_id) | u64::from(header.function) << 32
}
