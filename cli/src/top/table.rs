//! Formats a worker's status as a table or as JSON, with rates computed from two samples.

use serde_json::{Value, json};
use transport::Endpoint;
use worker_status::{SessionStatus, Status};

use crate::devices::{bytes, duration};

/// Rates of a session per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    calls: f64,
    round_trips: f64,
    received: f64,
    sent: f64,
}

/// A status, with the rates since the previous one.
#[derive(Clone, Debug)]
pub struct View {
    status: Status,
    /// Rates of each session, in the order of `status.sessions`.
    rates: Vec<Rates>,
    seconds: f64,
}

impl View {
    pub fn new(status: Status, before: Option<&Status>) -> View {
        // If the worker has restarted, its sessions are new as well, so there is nothing to compare.
        let before = before.filter(|before| before.pid == status.pid && before.uptime_ms < status.uptime_ms);
        let seconds = before.map_or(0.0, |before| (status.uptime_ms - before.uptime_ms) as f64 / 1000.0);
        let rates = status.sessions.iter().map(|session| {
            let Some(before) = before else { return Rates::default() };
            let new = SessionStatus::default();
            let then = before.sessions.iter().find(|then| then.id == session.id).unwrap_or(&new);
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            Rates {
                calls: rate(session.requests, then.requests),
                round_trips: rate(session.round_trips, then.round_trips),
                received: rate(session.bytes_received, then.bytes_received),
                sent: rate(session.bytes_sent, then.bytes_sent),
            }
        });
        let rates = rates.collect();
        View { status, rates, seconds }
    }

    /// One line of JSON: the complete status and the rates of each session.
    pub fn json(&self) -> String {
        let mut all = serde_json::to_value(&self.status).unwrap_or_default();
        let sessions = all["sessions"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
        for (session, rates) in sessions.iter_mut().zip(&self.rates) {
            session["rates"] = json!({
                "calls": rates.calls,
                "round_trips": rates.round_trips,
                "bytes_received": rates.received,
                "bytes_sent": rates.sent,
            });
        }
        all["rates_over_s"] = Value::from(self.seconds);
        all.to_string() + "\n"
    }

    /// A table of devices and a table of sessions, cut to `size` (columns and lines).
    pub fn text(&self, endpoint: &Endpoint, size: Option<(usize, usize)>) -> String {
        let status = &self.status;
        let mut lines = vec![format!(
            "{} at {endpoint}, up {}, {} of {} sessions",
            status.worker,
            duration(status.uptime_s),
            status.sessions.len(),
            status.max_sessions
        )];
        lines.push(String::new());
        let mut devices =
            vec![["#", "DEVICE", "MEMORY", "USED", "LOAD", "SHARE", "SESSIONS"].map(str::to_owned)];
        for device in &status.devices {
            devices.push([
                device.ordinal.to_string(),
                device.name.clone(),
                bytes(device.memory_total),
                bytes(device.memory_used),
                format!("{:.0} %", device.load_percent),
                device.limits.as_ref().map_or("all".to_owned(), |limits| {
                    format!("{:.0} of {:.0} %", limits.used_percent, limits.compute_percent)
                }),
                device.sessions.to_string(),
            ]);
        }
        lines.extend(aligned(&devices, &[1]));
        lines.push(String::new());
        let mut sessions = vec![
            [
                "PROGRAM", "PID", "FROM", "OVER", "AGE", "MEMORY", "LOAD", "CALLS/s", "TRIPS/s", "IN/s",
                "OUT/s",
            ]
            .map(str::to_owned),
        ];
        for (session, rates) in status.sessions.iter().zip(&self.rates) {
            sessions.push([
                session.client.clone(),
                session.pid.to_string(),
                if session.connected { session.peer.clone() } else { "(disconnected)".to_owned() },
                session.transport.clone(),
                duration(session.age_s),
                bytes(session.memory_used.iter().sum()),
                format!("{:.0} %", session.load_percent.iter().fold(0.0, |sum, load| sum + load)),
                format!("{:.0}", rates.calls),
                format!("{:.0}", rates.round_trips),
                bytes(rates.received as u64),
                bytes(rates.sent as u64),
            ]);
        }
        lines.extend(aligned(&sessions, &[0, 2, 3]));
        if status.sessions.is_empty() {
            lines.push("no sessions".to_owned());
        }
        fitted(lines, size)
    }
}

/// Formats rows with aligned columns: the columns in `left` are left-aligned, the others right-aligned.
fn aligned<const N: usize>(rows: &[[String; N]], left: &[usize]) -> Vec<String> {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(wide).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if left.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Cuts lines to the size of a terminal; the last line says how many are hidden.
fn fitted(mut lines: Vec<String>, size: Option<(usize, usize)>) -> String {
    if let Some((columns, rows)) = size {
        if lines.len() > rows.max(1) {
            let hidden = lines.len() + 1 - rows.max(1);
            lines.truncate(rows.max(1) - 1);
            lines.push(format!("... {hidden} more lines"));
        }
        for line in &mut lines {
            if let Some((at, _)) = line.char_indices().nth(columns) {
                line.truncate(at);
            }
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use worker_status::DeviceStatus;

    fn status(uptime_ms: u64, requests: u64) -> Status {
        let session = SessionStatus {
            id: 1,
            client: "saxpy".to_owned(),
            pid: 42,
            peer: "127.0.0.1:5".to_owned(),
            transport: "shared memory".to_owned(),
            connected: true,
            requests,
            round_trips: requests / 10,
            bytes_received: requests * 100,
            memory_used: vec![64 << 20],
            ..SessionStatus::default()
        };
        let device = DeviceStatus { name: "AMD Instinct MI300X".to_owned(), ..DeviceStatus::default() };
        Status { uptime_ms, devices: vec![device], sessions: vec![session], ..Status::default() }
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let view = View::new(status(3000, 500), Some(&status(1000, 100)));
        assert_eq!(view.rates, [Rates { calls: 200.0, round_trips: 20.0, received: 20_000.0, sent: 0.0 }]);
        let json: Value = serde_json::from_str(&view.json()).unwrap();
        assert_eq!(json["sessions"][0]["rates"]["calls"], 200.0);
        assert_eq!(json["sessions"][0]["requests"], 500);
    }

    #[test]
    fn a_worker_that_started_anew_has_no_rates_yet() {
        let view = View::new(status(500, 10), Some(&status(9000, 100)));
        assert_eq!(view.rates, [Rates::default()]);
        assert_eq!(View::new(status(500, 10), None).rates, [Rates::default()]);
    }

    #[test]
    fn a_small_terminal_gets_what_fits() {
        let endpoint = Endpoint::tcp("127.0.0.1", 1);
        let whole = View::new(status(1, 1), None).text(&endpoint, None);
        assert!(whole.contains("saxpy") && whole.contains("64.0 MiB"), "{whole}");
        assert!(whole.contains("127.0.0.1:5  shared memory"), "{whole}");
        for (columns, rows) in [(0, 0), (1, 1), (20, 3), (200, 100)] {
            let text = View::new(status(1, 1), None).text(&endpoint, Some((columns, rows)));
            assert!(text.lines().count() <= rows.max(1), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
    }
}
