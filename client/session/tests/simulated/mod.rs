//! A simulated worker that implements only the protocol: one flat memory, a digest of the launches in order of arrival,
//! and all session rules. The connection is tested and measured against it.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transport::greet;
use transport::{Endpoint, Link, Listener, Transport};
use wire::*;

pub const MEMORY: usize = 64 << 20;
/// Releasing this address fails.
pub const BAD_ADDRESS: u64 = 0xbad;
/// The status of a time that is not known yet.
pub const NOT_READY: i32 = 600;
/// Launching this function prints.
pub const PRINTING_FUNCTION: u64 = 0xfeed;
/// Launching this function reports a translation and its end.
pub const TRANSLATED_FUNCTION: u64 = 0xfeee;
/// Launching this function writes a number that differs every time.
pub const RANDOM_FUNCTION: u64 = 0xfeef;

#[derive(Debug, Default)]
pub struct State {
    pub memory: Vec<u8>,
    pub digest: u64,
    pub launches: u64,
    pub host_functions_done: Vec<u64>,
    pub released: u64,
    pub goodbye: bool,
}

struct Session {
    secret: [u8; 32],
    serving: Mutex<ReceiveCounter>,
    /// The connection in use, so that it can be shut down without waiting for the thread that writes to it.
    current: Mutex<Option<Link>>,
    out: Mutex<Out>,
    state: Mutex<State>,
    arena: u64,
    busy: Arc<AtomicBool>,
}

struct Out {
    link: Option<Link>,
    window: SendWindow<Kept>,
}

/// A frame that may have to be resent: its bytes, or the bytes before a body that lies in device memory.
struct Kept {
    bytes: Vec<u8>,
    memory: std::ops::Range<usize>,
}

pub struct Simulated {
    pub endpoint: Endpoint,
    shared: Arc<Shared>,
}

struct Shared {
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    next: AtomicU64,
    token: Option<Vec<u8>>,
    tls: Option<Arc<transport::tls::Identity>>,
    grace: Duration,
    patience_ms: AtomicU64,
    refuses: AtomicBool,
    /// Where new sessions are redirected, and how often.
    elsewhere: Mutex<Option<(String, u64)>>,
    busy: Arc<AtomicBool>,
}

impl Simulated {
    pub fn start() -> Simulated {
        Simulated::start_with(None, None, Duration::from_secs(20))
    }

    pub fn start_with(
        token: Option<&str>,
        tls: Option<Arc<transport::tls::Identity>>,
        grace: Duration,
    ) -> Simulated {
        Simulated::serve_at(&Endpoint::tcp("127.0.0.1", 0), token, tls, grace)
    }

    /// Listens on the given address.
    pub fn start_at(endpoint: &Endpoint, token: Option<&str>) -> Simulated {
        Simulated::serve_at(endpoint, token, None, Duration::from_secs(20))
    }

    fn serve_at(
        endpoint: &Endpoint,
        token: Option<&str>,
        tls: Option<Arc<transport::tls::Identity>>,
        grace: Duration,
    ) -> Simulated {
        let listener = Listener::bind(endpoint).unwrap();
        let endpoint = listener.endpoint().unwrap();
        let shared = Arc::new(Shared {
            sessions: Mutex::default(),
            next: AtomicU64::new(1),
            token: token.map(|token| token.as_bytes().to_vec()),
            tls,
            grace,
            patience_ms: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            elsewhere: Mutex::default(),
            busy: Arc::default(),
        });
        let serving = shared.clone();
        thread::spawn(move || {
            while let Ok((link, _)) = listener.accept() {
                let shared = serving.clone();
                thread::spawn(move || shared.serve(link));
            }
        });
        Simulated { endpoint, shared }
    }

    /// Inspects the state of the only session.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.look_at(1, look)
    }

    /// Inspects the state of a session; the first is 1.
    pub fn look_at<T>(&self, session: u64, look: impl FnOnce(&State) -> T) -> T {
        let sessions = self.shared.sessions.lock().unwrap();
        look(&sessions.get(&session).expect("a session").state.lock().unwrap())
    }

    pub fn sessions(&self) -> usize {
        self.shared.sessions.lock().unwrap().len()
    }

    /// Drops all sessions, so that reattaching fails.
    pub fn forget(&self) {
        for session in self.shared.sessions.lock().unwrap().drain() {
            if let Some(link) = session.1.out.lock().unwrap().link.take() {
                link.shutdown();
            }
        }
    }

    /// Accepts no new sessions any more.
    pub fn refuse_sessions(&self) {
        self.shared.refuses.store(true, Ordering::Relaxed);
    }

    /// Redirects the next so many new sessions.
    pub fn redirect_sessions(&self, to: &Endpoint, times: u64) {
        *self.shared.elsewhere.lock().unwrap() = Some((to.to_string(), times));
    }

    /// Whether events are not reached from now on. They stay so: no notification is sent.
    pub fn set_busy(&self, busy: bool) {
        self.shared.busy.store(busy, Ordering::Relaxed);
    }

    /// Closes every connection. The sessions stay.
    pub fn cut(&self) {
        for session in self.shared.sessions.lock().unwrap().values() {
            if let Some(link) = &*session.current.lock().unwrap() {
                link.shutdown();
            }
        }
    }

    /// Delays every request by this time from now on.
    pub fn dawdle(&self, time: Duration) {
        self.shared.patience_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Shared {
    fn serve(&self, link: Link) {
        let link = match &self.tls {
            Some(identity) => {
                match transport::tls::accept(link, identity.server_config().unwrap(), Duration::from_secs(5))
                {
                    Ok(link) => link,
                    Err(_) => return,
                }
            }
            None => link,
        };
        if let Ok((session, link)) = self.greet(link) {
            // However it ends, the session remains for the next connection.
            let _ = self.serve_session(&session, &link);
            link.shutdown();
        }
    }

    fn next_redirect(&self) -> Option<String> {
        let mut elsewhere = self.elsewhere.lock().unwrap();
        let (to, times) = elsewhere.as_mut().filter(|(_, times)| *times > 0)?;
        *times -= 1;
        Some(to.clone())
    }

    fn greet(&self, link: Link) -> Result<(Arc<Session>, Link), transport::TransportError> {
        link.set_read_timeout(Some(Duration::from_secs(5)))?;
        let hello: Hello = greet::expect(&link, MAX_HANDSHAKE_BYTES)?;
        let reject = |reject: Reject| -> Result<_, transport::TransportError> {
            greet::send(&link, &reject)?;
            Err(WireError::from(reject).into())
        };
        let greeting = match Greeting::new(hello, greet::nonce()?, self.token.is_some()) {
            Ok(greeting) => greeting,
            Err(why) => return reject(why),
        };
        greet::send(&link, greeting.challenge())?;
        let proof = match greeting.challenge().wants_proof {
            true => greet::expect(&link, MAX_HANDSHAKE_BYTES)?,
            false => Proof::default(),
        };
        let known = self.sessions.lock().unwrap().get(&greeting.hello().session_id).cloned();
        let secret = known.as_ref().map(|session| session.secret);
        let hello = match greeting.accept(&proof, self.token.as_deref(), secret.as_ref()) {
            Ok(hello) => hello,
            Err(why) => return reject(why),
        };
        link.set_read_timeout(None)?;
        if known.is_none()
            && let Some(to) = self.next_redirect()
        {
            assert_ne!(hello.capabilities & capability::REDIRECTS, 0, "the client cannot follow");
            return reject(RejectCode::Moved.reject(to));
        }
        let (id, session) = match known {
            Some(session) => (hello.session_id, session),
            None if self.refuses.load(Ordering::Relaxed) => {
                return reject(RejectCode::Full.reject("no more sessions"));
            }
            None => {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                let session = Arc::new(Session {
                    secret: greet::nonce()?,
                    serving: Mutex::new(ReceiveCounter::new()),
                    current: Mutex::default(),
                    out: Mutex::new(Out { link: None, window: SendWindow::new(u64::MAX) }),
                    state: Mutex::new(State { memory: vec![0; MEMORY], ..State::default() }),
                    arena: hello.arena_base,
                    busy: self.busy.clone(),
                });
                self.sessions.lock().unwrap().insert(id, session.clone());
                (id, session)
            }
        };
        let socket = link;
        let link = match hello.capabilities & capability::MEMORY_LINK != 0 && socket.unix_peer().is_some() {
            true => socket.share_memory()?,
            false => socket,
        };
        // The old connection must end before the number of received frames is final.
        let old = session.current.lock().unwrap().replace(link.clone());
        if let Some(old) = old {
            old.shutdown();
        }
        session.out.lock().unwrap().link = None;
        let received = session.serving.lock().unwrap().received();
        let welcome = Welcome {
            version: greeting_version(),
            capabilities: capability::PLACED_MODULES
                | if link.transport() == Transport::SharedMemory { capability::MEMORY_LINK } else { 0 },
            session_id: id,
            session_secret: session.secret,
            received,
            arena_base: hello.arena_base.max(session.arena),
            arena_bytes: 1 << 36,
            grace_ms: self.grace.as_millis() as u32,
            worker: "simulated".to_owned(),
            devices: vec![],
            ..Welcome::default()
        };
        let state = session.state.lock().unwrap();
        let mut out = session.out.lock().unwrap();
        let mut bytes = Vec::new();
        encode_request(&welcome, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        link.write_greeting(&bytes)?;
        for (_, frame) in out.window.resume(hello.received)? {
            let body = &state.memory[frame.memory.clone()];
            link.write_all_vectored(&mut [IoSlice::new(&frame.bytes), IoSlice::new(body)])?;
        }
        drop(state);
        out.link = Some(link.clone());
        drop(out);
        Ok((session, link))
    }

    fn serve_session(&self, session: &Session, link: &Link) -> Result<(), transport::TransportError> {
        let mut counter = session.serving.lock().unwrap();
        let mut reader = io::BufReader::with_capacity(64 << 10, link);
        let mut payload = Vec::new();
        loop {
            let mut head = [0; Header::BYTES];
            io::Read::read_exact(&mut reader, &mut head)?;
            let header = Header::decode(&head)?;
            let opcode = header.known()?;
            if opcode == Opcode::Write && matches!(counter.arrive_request(&header)?, Arrival::Next(_)) {
                session.write(&mut reader, &header)?;
                payload.clear();
            } else {
                payload.resize(header.payload_len as usize, 0);
                io::Read::read_exact(&mut reader, &mut payload)?;
            }
            match counter.arrive_request(&header)? {
                Arrival::Next(_) => counter.count(header.payload_len),
                Arrival::Duplicate => continue,
                Arrival::Unsequenced => {
                    if opcode == Opcode::Ack {
                        let (ack, _) = decode_request::<Ack>(&payload)?;
                        session.out.lock().unwrap().window.acknowledge(ack.received)?;
                    }
                    if opcode == Opcode::Ping
                        && let Some(link) = &session.out.lock().unwrap().link
                    {
                        greet::send(link, &Pong {})?;
                    }
                    continue;
                }
            }
            let dawdle = self.patience_ms.load(Ordering::Relaxed);
            if dawdle > 0 {
                thread::sleep(Duration::from_millis(dawdle));
            }
            let bye = session.handle(opcode, &header, &payload)?;
            if counter.ack_due()
                && let Some(ack) = counter.take_ack()
            {
                greet::send(link, &ack)?;
            }
            if bye {
                return Ok(());
            }
        }
    }
}

impl Session {
    fn handle(&self, opcode: Opcode, header: &Header, payload: &[u8]) -> Result<bool, WireError> {
        let mut state = self.state.lock().unwrap();
        let at = |address: u64| (address - self.arena) as usize;
        match opcode {
            Opcode::Write => self.reply(header, &reply::Write {}, &[]),
            Opcode::Read => {
                let (Read { source, bytes, .. }, _) = decode_request(payload)?;
                let range = at(source)..at(source) + bytes as usize;
                let mut bytes = Vec::new();
                Header::new(Opcode::Read, Flags::REPLY, header.request_id, 4 + range.len() as u64)
                    .encode()
                    .put(&mut bytes);
                encode_reply_head(&reply::Read {}, &mut bytes);
                let mut out = self.out.lock().unwrap();
                if let Some(link) = &out.link {
                    let body = IoSlice::new(&state.memory[range.clone()]);
                    let _ = link.write_all_vectored(&mut [IoSlice::new(&bytes), body]);
                }
                out.window.push(Kept { bytes, memory: range }, 0);
            }
            Opcode::ReadLater => {
                let (ReadLater { source, bytes, token, .. }, _) = decode_request(payload)?;
                let bytes = &state.memory[at(source)..][..bytes as usize];
                for (index, piece) in bytes.chunks(1 << 20).enumerate() {
                    self.push(&Deliver { token, offset: (index as u64) << 20 }, piece);
                }
            }
            Opcode::Launch => {
                let (launch, body) = decode_request::<Launch>(payload)?;
                let argument = u64::from_le_bytes(*body.first_chunk().unwrap_or(&[0; 8]));
                state.digest = (state.digest ^ argument ^ launch.function)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(23);
                state.launches += 1;
                if launch.function == PRINTING_FUNCTION {
                    self.push(&Output { fd: 1 }, b"printed by a kernel\n");
                }
                if launch.function == RANDOM_FUNCTION {
                    static NEXT: AtomicU64 = AtomicU64::new(1);
                    let number = NEXT.fetch_add(1, Ordering::Relaxed);
                    state.memory[..8].copy_from_slice(&number.to_le_bytes());
                }
                if launch.function == TRANSLATED_FUNCTION {
                    self.push(&Translating { kernel: "saxpy".to_owned() }, &[]);
                    self.push(&Translating { kernel: String::new() }, &[]);
                }
                self.reply(header, &reply::Launch {}, &[]);
            }
            Opcode::MemoryInfo => {
                let reply = reply::MemoryInfo { free: state.digest, total: state.launches };
                self.reply(header, &reply, &[]);
            }
            Opcode::HostFunction => {
                let (HostFunction { token, .. }, _) = decode_request(payload)?;
                self.push(&Callback { token, status: 0 }, &[]);
            }
            Opcode::HostFunctionDone => {
                let (HostFunctionDone { token }, _) = decode_request(payload)?;
                state.host_functions_done.push(token);
            }
            Opcode::Release => {
                let (Release { address }, _) = decode_request(payload)?;
                if address == BAD_ADDRESS {
                    self.fail(header, 1, "nothing lies at that address");
                } else {
                    state.released += 1;
                    self.reply(header, &reply::Release {}, &[]);
                }
            }
            Opcode::Goodbye => {
                state.goodbye = true;
                self.reply(header, &reply::Goodbye {}, &[]);
                return Ok(true);
            }
            Opcode::QueryEventWatched => {
                let done = !self.busy.load(Ordering::Relaxed);
                self.reply(header, &reply::QueryEventWatched { done }, &[]);
            }
            Opcode::ElapsedTime => match self.busy.load(Ordering::Relaxed) {
                true => self.fail(header, NOT_READY, "the event was not reached"),
                false => self.reply(header, &reply::ElapsedTime { milliseconds: 1.0 }, &[]),
            },
            Opcode::SynchronizeStream => self.reply(header, &reply::SynchronizeStream {}, &[]),
            other => self.fail(header, 801, &format!("{} is not simulated", other.name())),
        }
        Ok(false)
    }

    /// Reads the body of a Write directly into memory.
    fn write(&self, reader: &mut impl io::Read, header: &Header) -> Result<(), transport::TransportError> {
        let mut head = [0; 16];
        reader.read_exact(&mut head)?;
        let (Write { destination, .. }, _) = decode_request(&head)?;
        let start = (destination - self.arena) as usize;
        let bytes = header.payload_len as usize - head.len();
        reader.read_exact(&mut self.state.lock().unwrap().memory[start..][..bytes])?;
        Ok(())
    }

    fn reply<R: Field>(&self, header: &Header, fields: &R, body: &[u8]) {
        if header.is_posted() {
            return;
        }
        let mut head = Vec::new();
        encode_reply_head(fields, &mut head);
        self.send(header.known().unwrap(), Flags::REPLY, header.request_id, &head, body);
    }

    fn fail(&self, header: &Header, status: i32, text: &str) {
        if header.is_posted() {
            let (request_id, function) = (header.request_id, header.function);
            return self.push(&LateError { request_id, function, code: status, text: text.to_owned() }, &[]);
        }
        let mut head = Vec::new();
        Failure { status, text: text.to_owned() }.encode(&mut head);
        self.send(header.known().unwrap(), Flags::REPLY.with(Flags::ERROR), header.request_id, &head, &[]);
    }

    fn push<O: Operation>(&self, fields: &O, body: &[u8]) {
        let mut head = Vec::new();
        fields.put(&mut head);
        self.send(O::OPCODE, Flags::NONE, 0, &head, body);
    }

    fn send(&self, opcode: Opcode, flags: Flags, request_id: u32, head: &[u8], body: &[u8]) {
        let header = Header::new(opcode, flags, request_id, (head.len() + body.len()) as u64);
        let mut out = self.out.lock().unwrap();
        let header = header.encode();
        let bytes = [&header[..], head, body].concat();
        if let Some(link) = &out.link {
            // Ignore a lost connection: the frame is kept and will be resent.
            let _ = link.write_all(&bytes);
        }
        let kept = bytes.len() as u64;
        out.window.push(Kept { bytes, memory: 0..0 }, kept);
    }
}

fn greeting_version() -> u16 {
    MAX_VERSION
}
