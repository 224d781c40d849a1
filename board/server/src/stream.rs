//! Live event stream of a submission (server-sent events), resumable after any event.
//!
//! Numbered events come from the database, so missed events are sent on reconnect and none is sent twice. In between the stream sends
//! heartbeats and, for waiting submissions, the queue position; these have no number and are not repeated.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use board_contract::{Event, EventRecord, State, Status};
use futures_util::stream::{self, Stream};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::App;
use crate::store::{StoreError, now};

/// Polling interval of the database, in case a notification is missed.
const LOOK: Duration = Duration::from_secs(1);

/// Streams the events of a submission after a number, until it is done.
pub fn respond(app: Arc<App>, id: String, after: i64) -> Response {
    let mut response = Sse::new(events(app, id, after)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn events(app: Arc<App>, id: String, after: i64) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let watcher = Watcher {
        changed: app.hub.watch(&id),
        stopping: app.stopping.subscribe(),
        beat: Instant::now() + app.config.heartbeat,
        app,
        id,
        after,
        pending: VecDeque::new(),
        place: None,
        done: false,
    };
    stream::unfold(watcher, async |mut watcher| watcher.next().await.map(|event| (Ok(event), watcher)))
}

struct Watcher {
    app: Arc<App>,
    id: String,
    /// The number of the last event sent.
    after: i64,
    changed: watch::Receiver<i64>,
    stopping: watch::Receiver<bool>,
    /// Time of the next heartbeat.
    beat: Instant,
    pending: VecDeque<sse::Event>,
    /// Queue position that was last sent; `None` before the first.
    place: Option<usize>,
    done: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.done {
                return None;
            }
            self.changed.mark_unchanged();
            if let Err(error) = self.look().await {
                tracing::error!("events of {}: {error}", self.id);
                return None;
            }
            if !self.pending.is_empty() || self.done {
                continue;
            }
            if Instant::now() >= self.beat {
                self.beat = Instant::now() + self.app.config.heartbeat;
                let data = json!({ "ts": now() }).to_string();
                return Some(sse::Event::default().event("heartbeat").data(data));
            }
            let wake = (Instant::now() + LOOK).min(self.beat);
            tokio::select! {
                _ = self.changed.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
                // The client reconnects to the next server with the number of the last event it has seen.
                _ = self.stopping.wait_for(|stop| *stop) => return None,
            }
        }
    }

    /// Fetches new events from the database.
    async fn look(&mut self) -> Result<(), StoreError> {
        // Read the state before the events: if the submission is done, all its events are stored.
        let submission = self.app.store.submission_brief(&self.id).await?;
        let events = if submission.last_event > self.after {
            self.app.store.events_after(&self.id, self.after).await?
        } else {
            Vec::new()
        };
        for event in events {
            self.after = event.number;
            // A stored event has the position of its moment. The stream sends another one if the position is different by now: a
            // submission that was requeued, or queued by `remora board rejudge`, may have got another place meanwhile.
            if event.status == Status::InQueue.name() {
                self.place = position_in(&event.data);
            }
            self.pending.push_back(
                sse::Event::default().event(event.status).id(event.number.to_string()).data(event.data),
            );
        }
        self.done = submission.summary.state == State::Done && self.after >= submission.last_event;
        if submission.summary.state != State::Queued {
            return Ok(());
        }
        let Some(place) = self.app.positions.lock().get(&self.id).copied() else { return Ok(()) };
        if self.place.replace(place) != Some(place) {
            let gpu = &submission.summary.gpu;
            let event = Event::InQueue {
                message: format!("Position {place} in the queue for {gpu}"),
                position: place,
                expected_wait_s: self.app.wait_at(gpu, place).await?,
            };
            let name = event.status().name();
            let record = EventRecord {
                event,
                id: None,
                submission_id: self.id.clone(),
                timestamp: now(),
                bill: None,
                check: None,
            };
            let data = serde_json::to_string(&record).unwrap_or_default();
            self.pending.push_back(sse::Event::default().event(name).data(data));
        }
        Ok(())
    }
}

/// Returns the queue position in the record of an event.
fn position_in(data: &str) -> Option<usize> {
    match serde_json::from_str::<EventRecord>(data).ok()?.event {
        Event::InQueue { position, .. } => Some(position),
        _ => None,
    }
}
