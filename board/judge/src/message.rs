//! Protocol between the judge and the runner process, over a socket: length-prefixed frames.
//!
//! The runner only executes requests: contents, guards, poison, samples and verdicts are up to the judge. The C++ that is linked to a
//! solution of the host shape (`host_main.hip`) has requests of its own: it maps buffers of the runner, and calls the solution.

use std::io::{self, Read, Write};

use board_contract::Counters;

/// Largest frame in bytes.
pub(crate) const MOST: usize = 72 << 20;
/// Most bytes of a buffer in one frame. Larger buffers are read in parts: the next part is read from the device while the judge processes
/// the last one.
pub(crate) const CHUNK: usize = 8 << 20;
/// Memory for a frame before any of it was received.
const FIRST_BYTES: usize = 64 << 10;
/// File descriptor of the socket in the runner process.
pub(crate) const DESCRIPTOR: i32 = 3;

/// A range of words in a buffer to fill with a pattern before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub buffer: u32,
    pub offset: u64,
    pub words: u64,
    pub pattern: u32,
}

/// An argument of a solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Buffer { buffer: u32, offset: u64 },
    Scalar { bytes: [u8; 8] },
}

/// What precedes a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preparation {
    /// Bytes to write in order to flush the caches.
    pub flush: u64,
    pub fills: Vec<Fill>,
}

/// One call of a solution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub local: u32,
    pub count: bool,
    pub slots: Vec<Slot>,
}

/// Input that the device generates. `generator.hip` describes the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generate {
    pub buffer: u32,
    pub offset: u64,
    pub bytes: u64,
    pub count: u64,
    pub seed: u64,
    pub element: u32,
    pub kind: u32,
    pub low: u64,
    pub span: u64,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallReport {
    /// Time between the device's events.
    pub device_ms: f64,
    /// Time on the host until all work has completed.
    pub host_ms: f64,
    pub counts: Option<[u64; Counters::COUNT]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Name of the first device.
    Device,
    /// Number of devices.
    DeviceCount,
    /// Id of the session on the worker; 0 if it is not known.
    SessionId,
    Load {
        code: Vec<u8>,
        kernel: String,
    },
    Allocate {
        device: u32,
        buffer: u32,
        bytes: u64,
    },
    Free {
        buffer: u32,
    },
    Write {
        buffer: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Read {
        buffer: u32,
        offset: u64,
        bytes: u64,
    },
    Fill(Vec<Fill>),
    Call(Call),
    /// Loads the code again.
    Reload,
    /// Allocates a buffer that another process can map. Returns the handle for that.
    Share {
        device: u32,
        buffer: u32,
        bytes: u64,
    },
    /// Code of the kernel that generates inputs.
    Generator {
        code: Vec<u8>,
    },
    /// Generates an input.
    Generate(Generate),
    /// Does what precedes a call: fills, flushes the caches, and waits.
    Prepare(Preparation),
}

/// A request to the process of a solution of the host shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostRequest<'a> {
    /// Connect to the device.
    Start,
    /// Map a buffer of the runner, with its device as the current one.
    Open { device: u32, buffer: u32, handle: &'a [u8] },
    /// Unmap it.
    Close { buffer: u32 },
    /// Call the solution and wait until its work has ended.
    Call { slots: &'a [Slot] },
}

const DEVICE: u8 = 1;
const LOAD: u8 = 2;
const ALLOCATE: u8 = 3;
const FREE: u8 = 4;
const WRITE: u8 = 5;
const READ: u8 = 6;
const FILL: u8 = 7;
const CALL: u8 = 8;
const SHARE: u8 = 9;
const PREPARE: u8 = 10;
const RELOAD: u8 = 11;
const DEVICE_COUNT: u8 = 12;
const SESSION_ID: u8 = 15;
const GENERATOR: u8 = 13;
const GENERATE: u8 = 14;

/// Requests to a solution of the host shape, as in `host_main.hip`.
const HOST_START: u8 = 1;
const HOST_OPEN: u8 = 2;
const HOST_CLOSE: u8 = 3;
const HOST_CALL: u8 = 4;

/// Size of a handle of shared memory.
pub(crate) const HANDLE_BYTES: usize = 64;

/// First byte of a reply.
pub(crate) const DONE: u8 = 0;
pub(crate) const HIP_ERROR: u8 = 1;
pub(crate) const OTHER_ERROR: u8 = 2;

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Request::Device => out.push(DEVICE),
            Request::DeviceCount => out.push(DEVICE_COUNT),
            Request::SessionId => out.push(SESSION_ID),
            Request::Load { code, kernel } => {
                out.push(LOAD);
                put_bytes(&mut out, kernel.as_bytes());
                put_bytes(&mut out, code);
            }
            Request::Allocate { device, buffer, bytes } => {
                out.push(ALLOCATE);
                out.extend(device.to_le_bytes());
                out.extend(buffer.to_le_bytes());
                out.extend(bytes.to_le_bytes());
            }
            Request::Free { buffer } => {
                out.push(FREE);
                out.extend(buffer.to_le_bytes());
            }
            Request::Write { buffer, offset, bytes } => {
                out.extend(write_head(*buffer, *offset, bytes.len()));
                out.extend(bytes);
            }
            Request::Read { buffer, offset, bytes } => {
                out.push(READ);
                out.extend(buffer.to_le_bytes());
                out.extend(offset.to_le_bytes());
                out.extend(bytes.to_le_bytes());
            }
            Request::Fill(fills) => {
                out.push(FILL);
                put_fills(&mut out, fills);
            }
            Request::Call(call) => {
                out.push(CALL);
                for number in call.grid.iter().chain(&call.block).chain([&call.local, &u32::from(call.count)])
                {
                    out.extend(number.to_le_bytes());
                }
                put_slots(&mut out, &call.slots);
            }
            Request::Reload => out.push(RELOAD),
            Request::Share { device, buffer, bytes } => {
                out.push(SHARE);
                out.extend(device.to_le_bytes());
                out.extend(buffer.to_le_bytes());
                out.extend(bytes.to_le_bytes());
            }
            Request::Generator { code } => {
                out.push(GENERATOR);
                put_bytes(&mut out, code);
            }
            Request::Generate(it) => {
                out.push(GENERATE);
                for number in [it.buffer, it.element, it.kind] {
                    out.extend(number.to_le_bytes());
                }
                for number in [it.offset, it.bytes, it.count, it.seed, it.low, it.span] {
                    out.extend(number.to_le_bytes());
                }
            }
            Request::Prepare(it) => {
                out.push(PREPARE);
                out.extend(it.flush.to_le_bytes());
                put_fills(&mut out, &it.fills);
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let mut fields = Fields(bytes);
        let request = match fields.byte()? {
            DEVICE => Request::Device,
            DEVICE_COUNT => Request::DeviceCount,
            SESSION_ID => Request::SessionId,
            LOAD => {
                let kernel = String::from_utf8(fields.bytes()?.to_vec()).ok()?;
                Request::Load { kernel, code: fields.bytes()?.to_vec() }
            }
            ALLOCATE => {
                Request::Allocate { device: fields.u32()?, buffer: fields.u32()?, bytes: fields.u64()? }
            }
            FREE => Request::Free { buffer: fields.u32()? },
            WRITE => Request::Write {
                buffer: fields.u32()?,
                offset: fields.u64()?,
                bytes: fields.bytes()?.to_vec(),
            },
            READ => Request::Read { buffer: fields.u32()?, offset: fields.u64()?, bytes: fields.u64()? },
            FILL => Request::Fill(fields.fills()?),
            RELOAD => Request::Reload,
            SHARE => Request::Share { device: fields.u32()?, buffer: fields.u32()?, bytes: fields.u64()? },
            GENERATOR => Request::Generator { code: fields.bytes()?.to_vec() },
            GENERATE => Request::Generate(Generate {
                buffer: fields.u32()?,
                element: fields.u32()?,
                kind: fields.u32()?,
                offset: fields.u64()?,
                bytes: fields.u64()?,
                count: fields.u64()?,
                seed: fields.u64()?,
                low: fields.u64()?,
                span: fields.u64()?,
            }),
            PREPARE => Request::Prepare(Preparation { flush: fields.u64()?, fills: fields.fills()? }),
            CALL => {
                let mut numbers = [0; 8];
                for number in &mut numbers {
                    *number = fields.u32()?;
                }
                let [gx, gy, gz, bx, by, bz, local, count] = numbers;
                let mut slots = Vec::new();
                for _ in 0..fields.u32()?.min(256) {
                    let buffer = fields.u32()?;
                    let bytes: [u8; 8] = fields.take(8)?.try_into().ok()?;
                    slots.push(match buffer {
                        u32::MAX => Slot::Scalar { bytes },
                        buffer => Slot::Buffer { buffer, offset: u64::from_le_bytes(bytes) },
                    });
                }
                Request::Call(Call {
                    grid: [gx, gy, gz],
                    block: [bx, by, bz],
                    local,
                    count: count != 0,
                    slots,
                })
            }
            _ => return None,
        };
        fields.0.is_empty().then_some(request)
    }
}

/// Returns what precedes the contents in a [`Request::Write`].
pub(crate) fn write_head(buffer: u32, offset: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![WRITE];
    out.extend(buffer.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend((bytes as u32).to_le_bytes());
    out
}

impl HostRequest<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            HostRequest::Start => out.push(HOST_START),
            HostRequest::Open { device, buffer, handle } => {
                out.push(HOST_OPEN);
                out.extend(device.to_le_bytes());
                out.extend(buffer.to_le_bytes());
                out.extend(*handle);
            }
            HostRequest::Close { buffer } => {
                out.push(HOST_CLOSE);
                out.extend(buffer.to_le_bytes());
            }
            HostRequest::Call { slots } => {
                out.push(HOST_CALL);
                put_slots(&mut out, slots);
            }
        }
        out
    }
}

impl CallReport {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.device_ms.to_le_bytes());
        out.extend(self.host_ms.to_le_bytes());
        out.push(u8::from(self.counts.is_some()));
        for number in self.counts.iter().flatten() {
            out.extend(number.to_le_bytes());
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<CallReport> {
        let mut fields = Fields(bytes);
        let mut called = CallReport {
            device_ms: f64::from_bits(fields.u64()?),
            host_ms: f64::from_bits(fields.u64()?),
            counts: None,
        };
        if fields.byte()? != 0 {
            let mut counts = [0; Counters::COUNT];
            for number in &mut counts {
                *number = fields.u64()?;
            }
            called.counts = Some(counts);
        }
        let sane = |value: f64| value.is_finite() && value >= 0.0;
        (fields.0.is_empty() && sane(called.device_ms) && sane(called.host_ms)).then_some(called)
    }
}

pub(crate) fn send(stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    send_parts(stream, &[frame])
}

/// Sends a frame that consists of these parts.
pub(crate) fn send_parts(stream: &mut impl Write, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_le_bytes())?;
    parts.iter().try_for_each(|part| stream.write_all(part))
}

/// Receives a frame into `frame`, whose memory is used again.
pub(crate) fn receive_into(stream: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.clear();
    // The memory grows with the received data, not with the announced length.
    while frame.len() < length {
        let (start, room) = (frame.len(), frame.capacity().max(FIRST_BYTES));
        frame.resize(length.min((2 * start).max(room)), 0);
        stream.read_exact(&mut frame[start..])?;
    }
    Ok(())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn put_fills(out: &mut Vec<u8>, fills: &[Fill]) {
    out.extend((fills.len() as u32).to_le_bytes());
    for fill in fills {
        out.extend(fill.buffer.to_le_bytes());
        out.extend(fill.pattern.to_le_bytes());
        out.extend(fill.offset.to_le_bytes());
        out.extend(fill.words.to_le_bytes());
    }
}

fn put_slots(out: &mut Vec<u8>, slots: &[Slot]) {
    out.extend((slots.len() as u32).to_le_bytes());
    for slot in slots {
        let (buffer, bytes) = match slot {
            Slot::Buffer { buffer, offset } => (*buffer, offset.to_le_bytes()),
            Slot::Scalar { bytes } => (u32::MAX, *bytes),
        };
        out.extend(buffer.to_le_bytes());
        out.extend(bytes);
    }
}

/// Reader of the remaining bytes of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn fills(&mut self) -> Option<Vec<Fill>> {
        let mut fills = Vec::new();
        for _ in 0..self.u32()? {
            let (buffer, pattern) = (self.u32()?, self.u32()?);
            fills.push(Fill { buffer, pattern, offset: self.u64()?, words: self.u64()? });
        }
        Some(fills)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let fill = Fill { buffer: 1, offset: 2, words: 3, pattern: 4 };
        vec![
            Request::Device,
            Request::DeviceCount,
            Request::SessionId,
            Request::Load { code: vec![1, 2, 3], kernel: "solution".into() },
            Request::Allocate { device: 1, buffer: 7, bytes: 1 << 40 },
            Request::Free { buffer: 7 },
            Request::Write { buffer: 7, offset: 9, bytes: vec![5; 100] },
            Request::Read { buffer: 7, offset: 9, bytes: 100 },
            Request::Fill(vec![fill; 2]),
            Request::Reload,
            Request::Share { device: 1, buffer: 7, bytes: 1 << 40 },
            Request::Generator { code: vec![1, 2, 3] },
            Request::Generate(Generate {
                buffer: 1,
                offset: 2,
                bytes: 3,
                count: 4,
                seed: 5,
                element: 6,
                kind: 7,
                low: 8,
                span: 9,
            }),
            Request::Prepare(Preparation { flush: 8, fills: vec![fill] }),
            Request::Call(Call {
                grid: [1, 2, 3],
                block: [4, 5, 6],
                local: 7,
                count: true,
                slots: vec![Slot::Buffer { buffer: 1, offset: 4096 }, Slot::Scalar { bytes: [9; 8] }],
            }),
        ]
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        for request in requests() {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        for request in requests() {
            let bytes = request.encode();
            for length in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..length]), None, "{request:?} cut to {length}");
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn a_time_that_is_no_number_is_refused() {
        let mut out = Vec::new();
        CallReport { device_ms: f64::NAN, ..CallReport::default() }.encode(&mut out);
        assert_eq!(CallReport::decode(&out), None);
        out.clear();
        let called = CallReport { device_ms: 1.5, host_ms: 2.0, counts: Some([3; Counters::COUNT]) };
        called.encode(&mut out);
        assert_eq!(CallReport::decode(&out), Some(called));
    }
}
