//! Test fixtures: a worker process, and a minimal client that encodes the wire protocol itself.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use transport::{Endpoint, Link, TransportError, greet};
use wire::{Failure, Flags, Frame, Header, Hello, MAX_VERSION, MIN_VERSION, Opcode, Operation, Welcome};

pub const REMORA: &str = env!("CARGO_BIN_EXE_remora");
/// Kernels of the back-end conformance suite: add_one, slow_store, write_through, forever, bump_counter.
pub const KERNELS: &[u8] = include_bytes!("../../../device/backend-suite/kernels/suite.gfx942.co");
pub const TIMEOUT: Duration = Duration::from_secs(60);
pub const MIB: u64 = 1 << 20;

pub struct Worker {
    pub child: Child,
    pub endpoint: Endpoint,
    pub log: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Worker {
    pub fn start(arguments: &[&str]) -> Worker {
        Worker::start_with(arguments, &[])
    }

    /// Starts a worker on a free loopback port, unless the arguments set an address.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(REMORA);
        command.args(["worker", "--ready", "--exit-with-parent", "--memory", "2G", "--no-upload-cache"]);
        command.args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        for name in ["REMORA_TOKEN", "REMORA_TOKEN_FILE", "REMORA_WORKER", "TF_WORKER_HOST", "REMORA_TLS_CA"]
        {
            command.env_remove(name);
        }
        command.env("REMORA_LOG", "info").envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoint = line.trim().strip_prefix("listening on ").map(|text| text.parse().unwrap());
        let endpoint =
            endpoint.unwrap_or_else(|| panic!("no worker: {}", std::fs::read_to_string(&log).unwrap()));
        Worker { child, endpoint, log, _folder: folder }
    }

    pub fn connect(&self) -> Link {
        self.endpoint.connect(TIMEOUT).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::open(self.connect(), None).unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn wait_for_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < TIMEOUT, "not logged: {text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn status(&self) -> worker_status::Status {
        self.status_with(None)
    }

    pub fn status_with(&self, token: Option<&[u8]>) -> worker_status::Status {
        let hello = Hello { purpose: wire::Purpose::Inspect as u8, ..hello() };
        let credentials = greet::Credentials { token, secret: None };
        let status: wire::Status =
            greet::greet(&self.connect(), &hello, &credentials, TIMEOUT, TIMEOUT).unwrap();
        worker_status::Status::from_json(&status.text).unwrap()
    }

    /// Polls the status until `wanted` returns true, and returns how long that took.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&worker_status::Status) -> bool) -> Duration {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return start.elapsed();
            }
            assert!(start.elapsed() < TIMEOUT, "never {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the process is our child and has not been reaped.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the worker's log\n{}---", self.log());
        }
    }
}

pub fn hello() -> Hello {
    Hello {
        min_version: MIN_VERSION,
        max_version: MAX_VERSION,
        client: "test".to_owned(),
        pid: std::process::id(),
        nonce: greet::nonce().unwrap(),
        ..Hello::default()
    }
}

/// Client of one session.
pub struct Client {
    pub link: Link,
    pub welcome: Welcome,
    sent: u64,
    received: u64,
    /// All frames sent, for retransmission after a reconnect.
    pub frames: Vec<Vec<u8>>,
    pub pushes: VecDeque<Frame>,
    replies: HashMap<u32, Frame>,
}

impl Client {
    pub fn open(link: Link, token: Option<&[u8]>) -> Result<Client, TransportError> {
        let credentials = greet::Credentials { token, secret: None };
        let (welcome, _) = greet::open_session(&link, &hello(), &credentials, TIMEOUT, TIMEOUT)?;
        let (pushes, replies) = (VecDeque::new(), HashMap::new());
        Ok(Client { link, welcome, sent: 0, received: 0, frames: Vec::new(), pushes, replies })
    }

    /// Continues the session on a new connection and retransmits the frames that the worker has not received.
    pub fn reattach(&mut self, link: Link) -> Result<(), TransportError> {
        let hello = Hello { session_id: self.welcome.session_id, received: self.received, ..hello() };
        let credentials = greet::Credentials { token: None, secret: Some(&self.welcome.session_secret) };
        let (welcome, _) = greet::open_session(&link, &hello, &credentials, TIMEOUT, TIMEOUT)?;
        assert_eq!(welcome.session_id, self.welcome.session_id);
        self.link = link;
        for frame in &self.frames[welcome.received as usize..] {
            self.link.write_all(frame)?;
        }
        Ok(())
    }

    pub fn arena(&self) -> u64 {
        self.welcome.arena_base
    }

    pub fn send<O: Operation>(&mut self, fields: &O, body: &[u8], flags: Flags) -> u32 {
        self.sent += 1;
        let mut bytes = Vec::new();
        wire::encode_request(fields, body, flags, self.sent as u32, 0x77, &mut bytes);
        // A broken connection is noticed when a reply is awaited.
        let _ = self.link.write_all(&bytes);
        self.frames.push(bytes);
        self.sent as u32
    }

    /// Sends a frame with an arbitrary opcode and payload, under the next request number.
    pub fn send_raw(&mut self, opcode: u16, flags: Flags, payload: &[u8]) -> u32 {
        self.sent += 1;
        let mut header = Header::new(Opcode::Goodbye, flags, self.sent as u32, payload.len() as u64);
        header.opcode = opcode;
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        self.link.write_all(&bytes).unwrap();
        self.frames.push(bytes);
        self.sent as u32
    }

    pub fn post<O: Operation>(&mut self, fields: &O, body: &[u8]) -> u32 {
        self.send(fields, body, Flags::POSTED)
    }

    pub fn call<O: Operation>(&mut self, fields: &O, body: &[u8]) -> Result<(O::Reply, Vec<u8>), Failure> {
        let id = self.send(fields, body, Flags::NONE);
        self.reply::<O>(id)
    }

    /// Waits for the reply to a request, whether success or failure; pushes that arrive before it are kept.
    pub fn any_reply(&mut self, id: u32) -> Frame {
        loop {
            if let Some(frame) = self.replies.remove(&id) {
                return frame;
            }
            self.receive();
        }
    }

    pub fn reply<O: Operation>(&mut self, id: u32) -> Result<(O::Reply, Vec<u8>), Failure> {
        let frame = self.any_reply(id);
        assert_eq!(frame.header.opcode, O::OPCODE.number());
        let decoded = wire::decode_reply::<O>(&frame.header, &frame.payload).unwrap();
        decoded.map(|(fields, body)| (fields, body.to_vec()))
    }

    pub fn push<O: Operation>(&mut self) -> (O, Vec<u8>) {
        loop {
            if let Some(at) = self.pushes.iter().position(|frame| frame.header.is(O::OPCODE)) {
                let frame = self.pushes.remove(at).unwrap();
                let (fields, body) = wire::decode_request::<O>(&frame.payload).unwrap();
                return (fields, body.to_vec());
            }
            self.receive();
        }
    }

    /// Receives one frame.
    pub fn receive(&mut self) {
        self.link.set_read_timeout(Some(TIMEOUT)).unwrap();
        let frame = greet::receive(&self.link, u64::MAX).unwrap();
        if !frame.header.is_sequenced() {
            return;
        }
        self.received += 1;
        if frame.header.is_reply() {
            self.replies.insert(frame.header.request_id, frame);
        } else {
            self.pushes.push_back(frame);
        }
    }

    pub fn allocate(&mut self, address: u64, bytes: u64) {
        self.post(&wire::Allocate { device: 0, kind: 0, address, bytes }, &[]);
    }

    pub fn read(&mut self, source: u64, bytes: u64) -> Result<Vec<u8>, Failure> {
        self.call(&wire::Read { stream: 0, source, bytes }, &[]).map(|(_, body)| body)
    }

    pub fn word(&mut self, address: u64) -> i32 {
        i32::from_le_bytes(self.read(address, 4).unwrap().try_into().unwrap())
    }

    /// Loads the suite's kernels at the start of the arena, as functions 1 to 5.
    pub fn load_kernels(&mut self) {
        let hash = *blake3::hash(KERNELS).as_bytes();
        let base = self.arena();
        self.post(&wire::LoadModule { module: 1, device: 0, base, hash }, KERNELS);
        for (at, name) in
            ["add_one", "slow_store", "write_through", "forever", "bump_counter"].iter().enumerate()
        {
            let name = (*name).to_owned();
            self.post(&wire::DefineFunction { function: at as u64 + 1, module: 1, name }, &[]);
        }
    }

    pub fn launch(&mut self, function: u64, stream: u64, address: u64, rest: &[i32]) -> u32 {
        let mut body = address.to_le_bytes().to_vec();
        rest.iter().for_each(|value| body.extend_from_slice(&value.to_le_bytes()));
        let launch =
            wire::Launch { function, stream, grid: [1, 1, 1], block: [1, 1, 1], ..wire::Launch::default() };
        self.post(&launch, &body)
    }

    pub fn synchronize(&mut self) -> Result<(), Failure> {
        self.call(&wire::SynchronizeDevice { device: 0 }, &[]).map(|_| ())
    }
}
