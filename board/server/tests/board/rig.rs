//! Test rig: a server in this process, with a fake judge that emits what the submitted source specifies.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use board_server::Server;
use board_server::accounts;
use board_server::config::{Config, DeviceConfig, Limits, LoginConfig, PlaceConfig};
use board_server::store::{Store, User};
use serde_json::{Value, json};

pub const JUDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/board/rig/judge.sh");
/// Timeout, longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Rig {
    pub server: Option<Server>,
    pub store: Store,
    pub http: reqwest::Client,
    pub folder: tempfile::TempDir,
    config: Config,
    address: SocketAddr,
}

/// One event of a stream as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub name: String,
    pub id: Option<i64>,
    pub data: Value,
}

/// Configures a device that is never contacted, because the fake judge does not use it.
pub fn device(gpu: &str, slots: usize, price: f64, emulated: bool) -> DeviceConfig {
    DeviceConfig {
        gpu_type: gpu.to_owned(),
        name: gpu.to_owned(),
        place: PlaceConfig::Worker { endpoint: "unix:/nowhere".to_owned(), token: None },
        emulated,
        price_per_hour: price,
        slots,
        gpus: 1,
    }
}

pub fn config(folder: &Path) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        data: folder.join("data"),
        database: None,
        require_key: false,
        login: LoginConfig::default(),
        judge: vec!["/bin/sh".into(), JUDGE.into()],
        worker: Vec::new(),
        devices: vec![device("MI300X", 2, 0.0, true), device("MI210", 1, 36.0, false)],
        // Tests of the queue decide which submissions run.
        limits: Limits { compile_ahead: 0, ..Limits::default() },
        heartbeat: Duration::from_secs(15),
    }
}

impl Rig {
    pub async fn start() -> Rig {
        Rig::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        let server = Server::start(config.clone()).await.unwrap();
        let file = Store::file_url(&config.data.join("board.sqlite"));
        let store = Store::open(config.database.as_deref().unwrap_or(&file)).await.unwrap();
        let address = server.address;
        Rig { server: Some(server), store, http: reqwest::Client::new(), folder, config, address }
    }

    /// Stops the server gracefully, and starts another one on the same data.
    pub async fn restart(&mut self) {
        self.server.take().unwrap().stop().await;
        let server = Server::start(self.config.clone()).await.unwrap();
        self.address = server.address;
        self.server = Some(server);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Creates a user and returns the user's key.
    pub async fn user(&self, name: &str, change: impl FnOnce(&mut User)) -> String {
        let mut user = accounts::new_user(name);
        change(&mut user);
        self.store.add_user(&user).await.unwrap();
        accounts::create_key(&self.store, &user).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.get_as("", path).await
    }

    pub async fn get_as(&self, key: &str, path: &str) -> (u16, Value) {
        let mut request = self.http.get(self.url(path));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    pub async fn post_as(&self, key: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut request = self.http.post(self.url(path)).json(body);
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    /// Submits and returns the submission's id.
    pub async fn submit(&self, key: &str, source: &str, endpoint: &str) -> String {
        let (status, answer) = self.post_as(key, "/api/submissions", &body(source, endpoint)).await;
        assert_eq!(status, 202, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    /// Returns all events of a submission until its stream ends.
    pub async fn events(&self, key: &str, id: &str) -> Vec<Sent> {
        let mut request = self.http.get(self.url(&format!("/api/submissions/{id}/events")));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        read(request.send().await.unwrap()).await
    }

    /// Waits until a submission has reached a status.
    pub async fn wait_for(&self, id: &str, status: &str) {
        let reached = async {
            loop {
                if self.store.submission(id).await.unwrap().summary.status.name() == status {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, reached).await;
        assert!(done.is_ok(), "{id} is {}", self.store.submission(id).await.unwrap().summary.status);
    }
}

pub fn body(source: &str, endpoint: &str) -> Value {
    json!({
        "solution_code": source, "problem": "leaky-relu", "gpu_type": "MI300X", "dtype": "float32", "language": "hip",
        "endpoint": endpoint
    })
}

/// Reads an event stream to its end.
pub async fn read(response: reqwest::Response) -> Vec<Sent> {
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = tokio::time::timeout(PATIENCE, response.text()).await.unwrap().unwrap();
    parse(&text)
}

pub fn parse(text: &str) -> Vec<Sent> {
    let mut sent = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        sent.push(Sent {
            name: field("event:").unwrap_or_default().to_owned(),
            id: field("id:").map(|id| id.parse().unwrap()),
            data: serde_json::from_str(field("data:").unwrap()).unwrap(),
        });
    }
    sent
}

/// Returns the names of the stored (numbered) events.
pub fn names(events: &[Sent]) -> Vec<&str> {
    events.iter().filter(|event| event.id.is_some()).map(|event| event.name.as_str()).collect()
}
