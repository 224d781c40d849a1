//! `/metrics` in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::app::App;
use crate::histogram::BOUNDS;
use crate::store::StoreError;

/// Formats all metrics as text.
pub async fn text(app: &App) -> Result<String, StoreError> {
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, rows: &[(String, f64)], kind: &str| {
        let _ = writeln!(out, "# HELP remora_board_{name} {help}\n# TYPE remora_board_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(out, "remora_board_{name}{labels} {value}");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    let counters = &app.counters;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    gauge(
        "uptime_seconds",
        "Time since the server started.",
        &one(app.started.elapsed().as_secs_f64()),
        "gauge",
    );
    gauge("requests_total", "Requests answered.", &one(read(&counters.requests)), "counter");
    gauge("refused_total", "Requests refused.", &one(read(&counters.refused)), "counter");
    gauge(
        "finished_total",
        "Submissions finished by this server.",
        &one(read(&counters.finished)),
        "counter",
    );
    gauge("queued", "Waiting submissions.", &one(app.store.queue_length().await? as f64), "gauge");
    gauge("running", "Running submissions.", &one(app.running.lock().len() as f64), "gauge");
    gauge("watched", "Submissions whose events are streamed.", &one(app.hub.watched() as f64), "gauge");
    gauge("spent_usd_total", "Money spent.", &one(app.store.total_spent().await?), "counter");
    let statuses: Vec<(String, f64)> = app
        .store
        .status_counts()
        .await?
        .into_iter()
        .map(|(status, count)| (format!("{{status=\"{status}\"}}"), count as f64))
        .collect();
    gauge("submissions", "Submissions by their latest event.", &statuses, "gauge");
    let restarts: Vec<(String, f64)> = app
        .devices
        .iter()
        .map(|device| (format!("{{gpu=\"{}\"}}", device.config.gpu_type), device.restarts() as f64))
        .collect();
    gauge("worker_restarts_total", "Worker restarts.", &restarts, "counter");
    let latency = app.counters.latency.lock().clone();
    let _ = writeln!(
        out,
        "# HELP remora_board_verdict_seconds Time from submission to verdict.\n# TYPE remora_board_verdict_seconds histogram"
    );
    for (bucket, bound) in latency.buckets.iter().zip(BOUNDS) {
        let _ = writeln!(out, "remora_board_verdict_seconds_bucket{{le=\"{bound}\"}} {bucket}");
    }
    let _ = writeln!(out, "remora_board_verdict_seconds_bucket{{le=\"+Inf\"}} {}", latency.count);
    let _ = writeln!(out, "remora_board_verdict_seconds_sum {}", latency.sum);
    let _ = writeln!(out, "remora_board_verdict_seconds_count {}", latency.count);
    Ok(out)
}
