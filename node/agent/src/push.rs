//! Pushes metrics to a receiver. Each batch is written to a spool on disk first and removed when the receiver has accepted it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::agent::{Agent, now_ms};
use crate::config::PushConfig;
use crate::spool::Spool;

/// Timeout of a request to the receiver.
const PATIENCE: Duration = Duration::from_secs(10);
/// Retry backoff: initial and longest delay.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Outcome of sending a batch.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    /// Permanently rejected. A retry would block all later batches.
    Refused(String),
    /// Temporary failure; the batch is retried.
    Failed(String),
}

/// Measures and delivers until the agent stops.
pub(crate) async fn push(agent: Arc<Agent>, config: PushConfig) {
    let client = match reqwest::Client::builder().timeout(PATIENCE).no_proxy().build() {
        Ok(client) => client,
        Err(error) => return tracing::error!("metrics are not pushed: {error}"),
    };
    let folder = agent.folder.path().join("spool");
    let spool = match Spool::open(&folder, config.spool_bytes) {
        Ok(spool) => Mutex::new(spool),
        Err(error) => return tracing::error!("metrics are not pushed: {}: {error}", folder.display()),
    };
    let added = Notify::new();
    // Measuring and delivering are separate, so that a slow or hanging receiver does not delay measurements.
    tokio::join!(measure(&agent, &config, &spool, &added), deliver(&agent, &config, &client, &spool, &added));
}

/// Puts a batch into the spool at each tick.
async fn measure(agent: &Arc<Agent>, config: &PushConfig, spool: &Mutex<Spool>, added: &Notify) {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(config.interval_s));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while !agent.stopping.load(Ordering::Relaxed) {
        ticks.tick().await;
        let measured = Arc::clone(agent);
        let lines = tokio::task::spawn_blocking(move || measured.lines(now_ms())).await.unwrap_or_default();
        let counters = &agent.counters;
        let mut spool = spool.lock();
        match spool.add(&lines) {
            Ok(()) => drop(counters.push_batches.fetch_add(1, Ordering::Relaxed)),
            Err(error) => tracing::error!("a batch of metrics could not be spooled and is lost: {error}"),
        }
        counters.spooled_bytes.store(spool.bytes(), Ordering::Relaxed);
        let evicted = spool.take_dropped();
        counters.dropped_bytes.fetch_add(evicted, Ordering::Relaxed);
        added.notify_one();
    }
}

/// Sends the spooled batches, oldest first.
async fn deliver(
    agent: &Arc<Agent>,
    config: &PushConfig,
    client: &reqwest::Client,
    spool: &Mutex<Spool>,
    added: &Notify,
) {
    let counters = &agent.counters;
    let mut pause = FIRST_PAUSE;
    while !agent.stopping.load(Ordering::Relaxed) {
        let oldest = spool.lock().oldest();
        let Some((number, lines)) = oldest else {
            added.notified().await;
            continue;
        };
        let bytes = lines.len() as u64;
        match send(client, config, &lines).await {
            Answer::Taken => {
                counters.pushed_bytes.fetch_add(bytes, Ordering::Relaxed);
                spool.lock().done(number);
                pause = FIRST_PAUSE;
            }
            Answer::Refused(why) => {
                tracing::error!("the receiver rejected a batch of metrics, which is dropped: {why}");
                counters.push_failures.fetch_add(1, Ordering::Relaxed);
                counters.dropped_bytes.fetch_add(bytes, Ordering::Relaxed);
                spool.lock().done(number);
            }
            Answer::Failed(why) => {
                let waiting = spool.lock().bytes();
                tracing::warn!("pushing metrics failed and is retried, {waiting} bytes are spooled: {why}");
                counters.push_failures.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        counters.spooled_bytes.store(spool.lock().bytes(), Ordering::Relaxed);
    }
}

async fn send(client: &reqwest::Client, config: &PushConfig, lines: &str) -> Answer {
    let mut request = client.post(&config.url).header("content-type", "text/plain; charset=utf-8");
    if let Some(authorization) = &config.authorization {
        request = request.header("authorization", authorization);
    }
    match request.body(lines.to_owned()).send().await {
        Err(error) => Answer::Failed(error.to_string()),
        Ok(response) if response.status().is_success() => Answer::Taken,
        Ok(response) => {
            let status = response.status();
            let text = response.text().await.unwrap_or_default();
            let why = format!("{status}: {}", text.chars().take(200).collect::<String>());
            // Rate limits, timeouts and missing permissions may be temporary. Malformed lines stay malformed.
            match status.as_u16() {
                400 | 413 | 422 => Answer::Refused(why),
                _ => Answer::Failed(why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn answer_with(status: &'static str) -> Answer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/write", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !seen.ends_with(b"a b=1 2\n") {
                let read = stream.read(&mut buffer).await.unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(seen).unwrap()
        });
        let authorization = Some("token user:pass".to_owned());
        let config = PushConfig { url, authorization, interval_s: 1.0, spool_bytes: 1 << 20 };
        let answer = send(&reqwest::Client::new(), &config, "a b=1 2\n").await;
        assert!(server.await.unwrap().contains("authorization: token user:pass"));
        answer
    }

    #[tokio::test]
    async fn a_batch_is_kept_unless_it_was_taken_or_never_will_be() {
        assert_eq!(answer_with("204 No Content").await, Answer::Taken);
        assert!(matches!(answer_with("400 Bad Request").await, Answer::Refused(_)));
        assert!(matches!(answer_with("503 Service Unavailable").await, Answer::Failed(_)));
        assert!(matches!(answer_with("401 Unauthorized").await, Answer::Failed(_)));
    }
}
