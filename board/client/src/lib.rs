//! Client for `remora submit`: sends a submission to a server, follows its events to the end, and cancels it on Ctrl-C.

#![warn(missing_docs)]

use std::time::Duration;

use board_contract::{
    Batch, BatchBody, Endpoint, ErrorBody, EventRecord, Status, SubmitBody, Submitted, route,
};
use reqwest::StatusCode;

/// How long to retry while the server is unreachable.
const AWAY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);
/// Largest accepted event in bytes.
const LONGEST: usize = 64 << 20;

/// Error of sending or following a submission.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not a URL.
    #[error("{url} is not a valid URL: {source}")]
    Address {
        /// The address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The server does not answer.
    #[error("no response from {url}; is `remora serve` running there? ({source})")]
    Connection {
        /// The address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The server refused the request.
    #[error("{error}{}", details.as_ref().map(|text| format!("\n  {text}")).unwrap_or_default())]
    Refused {
        /// HTTP status.
        status: u16,
        /// What is wrong.
        error: String,
        /// More about it.
        details: Option<String>,
    },
    /// The server sent something unexpected.
    #[error("the server sent an invalid response: {0}")]
    InvalidReply(String),
    /// The async runtime could not be started.
    #[error("cannot start the async runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Progress of a followed submission.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The server accepted the submission.
    Accepted {
        /// The submission.
        submitted: &'a Submitted,
    },
    /// An event of the submission.
    Event {
        /// The event.
        record: &'a EventRecord,
        /// The record as the server sent it.
        json: &'a str,
    },
    /// The connection is lost and being retried.
    Away,
    /// The user pressed Ctrl-C, and the server was asked to cancel.
    Cancelling,
}

/// Connection settings of a server.
#[derive(Debug)]
pub struct Client {
    url: String,
    key: Option<String>,
    http: reqwest::Client,
}

impl Client {
    /// Creates a client of a server, with an API key if it needs one.
    pub fn new(url: &str, key: Option<&str>) -> Result<Client, ClientError> {
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).build();
        let http = http.map_err(|source| ClientError::Address { url: url.to_owned(), source })?;
        Ok(Client { url: url.trim_end_matches('/').to_owned(), key: key.map(str::to_owned), http })
    }

    /// Submits to one device or to several, and follows the events; returns the terminal event of each. Ctrl-C cancels all.
    pub fn run(
        &self,
        body: &SubmitBody,
        gpus: &[String],
        mut tell: impl FnMut(Progress),
    ) -> Result<Vec<(Submitted, EventRecord)>, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let batch = self.submit(body, gpus).await?;
            let name = body.endpoint.as_deref().unwrap_or(Endpoint::Full.name()).to_ascii_lowercase();
            let endpoint = Endpoint::from_name(&name)
                .ok_or_else(|| ClientError::InvalidReply(format!("an unknown endpoint \"{name}\"")))?;
            let mut ended = Vec::new();
            let mut cancelled = false;
            for submitted in batch {
                tell(Progress::Accepted { submitted: &submitted });
                if cancelled {
                    self.cancel(&submitted.id).await?;
                }
                let follower =
                    Follower { client: self, id: &submitted.id, endpoint, seen: 0, tell: &mut tell };
                let last = self.follow(follower, &mut cancelled).await?;
                ended.push((submitted, last));
            }
            Ok(ended)
        })
    }

    async fn submit(&self, body: &SubmitBody, gpus: &[String]) -> Result<Vec<Submitted>, ClientError> {
        let invalid = |error: reqwest::Error| ClientError::InvalidReply(error.to_string());
        if let [gpu] = gpus {
            let body = SubmitBody { gpu_type: Some(gpu.clone()), ..body.clone() };
            let answer = self.send(self.http.post(self.at(route::SUBMISSIONS)).json(&body)).await?;
            return Ok(vec![answer.json().await.map_err(invalid)?]);
        }
        let body = BatchBody { submission: body.clone(), gpu_types: gpus.to_vec() };
        let answer = self.send(self.http.post(self.at(route::BATCHES)).json(&body)).await?;
        let batch: Batch = answer.json().await.map_err(invalid)?;
        Ok(batch.submissions)
    }

    async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let cancel = route::of_submission(route::SUBMISSION_CANCEL, id);
        match self.send(self.http.post(self.at(&cancel))).await {
            // A submission that has just ended has its terminal event.
            Ok(_) | Err(ClientError::Refused { status: 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Follows a submission to its terminal event. Ctrl-C cancels it.
    async fn follow<F: FnMut(Progress)>(
        &self,
        mut follower: Follower<'_, F>,
        cancelled: &mut bool,
    ) -> Result<EventRecord, ClientError> {
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        let mut since: Option<std::time::Instant> = None;
        loop {
            let end = if *cancelled {
                follower.follow().await
            } else {
                tokio::select! {
                    end = follower.follow() => end,
                    _ = &mut interrupt => {
                        *cancelled = true;
                        (follower.tell)(Progress::Cancelling);
                        self.cancel(follower.id).await?;
                        continue;
                    }
                }
            };
            match end {
                Ok(Some(last)) => return Ok(last),
                // The stream ended early, perhaps because the server restarts.
                Ok(None) => since = None,
                Err(ClientError::Connection { url, source }) => {
                    let started = *since.get_or_insert_with(std::time::Instant::now);
                    if started.elapsed() > AWAY {
                        return Err(ClientError::Connection { url, source });
                    }
                    (follower.tell)(Progress::Away);
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<reqwest::Response, ClientError> {
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response = request
            .send()
            .await
            .map_err(|source| ClientError::Connection { url: self.url.clone(), source })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let body = serde_json::from_str::<ErrorBody>(&text);
        let ErrorBody { error, details } =
            body.unwrap_or_else(|_| ErrorBody { error: default_words(status), details: None });
        Err(ClientError::Refused { status: status.as_u16(), error, details })
    }
}

fn default_words(status: StatusCode) -> String {
    format!("the server answered with status {status}")
}

struct Follower<'a, F> {
    client: &'a Client,
    id: &'a str,
    endpoint: Endpoint,
    /// Number of the last event that was reported.
    seen: i64,
    tell: &'a mut F,
}

impl<F: FnMut(Progress)> Follower<'_, F> {
    /// Follows the event stream until it ends; returns the terminal event if there was one.
    async fn follow(&mut self) -> Result<Option<EventRecord>, ClientError> {
        let url = self.client.at(&route::of_submission(route::SUBMISSION_EVENTS, self.id));
        let request = self.client.http.get(url).header("Last-Event-ID", self.seen.to_string());
        let mut response = self.client.send(request).await?;
        let mut buffer: Vec<u8> = Vec::new();
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                // A broken connection is treated like the end of the stream: the missing events are requested again.
                Ok(None) | Err(_) => return Ok(None),
            };
            buffer.extend_from_slice(&chunk);
            if buffer.len() > LONGEST {
                return Err(ClientError::InvalidReply("an event that is too long".to_owned()));
            }
            while let Some(end) = buffer.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = buffer.drain(..end + 2).collect();
                if let Some(last) = self.take(&String::from_utf8_lossy(&block))? {
                    return Ok(Some(last));
                }
            }
        }
    }

    /// Processes one event; returns it if it is terminal.
    fn take(&mut self, block: &str) -> Result<Option<EventRecord>, ClientError> {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let (Some(status), Some(data)) = (field("event:"), field("data:")) else { return Ok(None) };
        // Heartbeats, and statuses of newer servers.
        if Status::from_name(status).is_none() {
            return Ok(None);
        }
        let record: EventRecord =
            serde_json::from_str(data).map_err(|error| ClientError::InvalidReply(error.to_string()))?;
        if let Some(number) = field("id:").and_then(|id| id.parse().ok()) {
            self.seen = number;
        }
        (self.tell)(Progress::Event { record: &record, json: data });
        let terminal = record.event.status().is_terminal(self.endpoint);
        Ok(terminal.then_some(record))
    }
}
