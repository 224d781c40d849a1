//! Events of a submission: fields that the server adds to the judge's events, and which events are terminal.

use serde_json::{Map, Value, json};

use crate::store::Finish;

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub status: String,
    pub fields: Map<String, Value>,
}

impl Event {
    /// Creates an event from the fields of a JSON object.
    pub fn new(status: &str, fields: Value) -> Event {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Event { status: status.to_owned(), fields }
    }

    /// Parses a line of the judge's output; `None` if it is not an event.
    pub fn from_line(line: &str) -> Option<Event> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return None };
        let Some(Value::String(status)) = fields.remove("status") else { return None };
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        (!status.is_empty() && status.len() <= 64 && status.bytes().all(plain))
            .then_some(Event { status, fields })
    }

    pub fn error(error: &str, message: &str, details: &str) -> Event {
        Event::new("ERROR", json!({ "error": error, "message": message, "details": details }))
    }

    pub fn in_queue(message: &str, position: usize, expected_wait_s: f64) -> Event {
        Event::new(
            "IN_QUEUE",
            json!({ "message": message, "position": position, "expected_wait_s": expected_wait_s }),
        )
    }

    /// Formats the event as it is stored and sent. The status comes first, which makes streams easier to read.
    pub fn to_json(&self, submission: &str, number: Option<i64>, moment: i64) -> String {
        let mut text = format!("{{\"status\":{}", json!(self.status));
        if let Some(number) = number {
            text.push_str(&format!(",\"id\":{number}"));
        }
        text.push_str(&format!(",\"submission_id\":{},\"timestamp\":{moment}", json!(submission)));
        for (name, value) in &self.fields {
            if !["status", "id", "submission_id", "timestamp"].contains(&name.as_str()) {
                text.push_str(&format!(",{}:{value}", json!(name)));
            }
        }
        text.push('}');
        text
    }

    /// Returns whether the event is the last one of a submission.
    pub fn is_terminal(&self, endpoint: &str) -> bool {
        match self.status.as_str() {
            "CHECKED" => endpoint == "checker",
            "COMPILED" => endpoint == "compile",
            "PASSED" | "FAILED" => endpoint == "sample",
            "BENCHMARKED"
            | "WRONG_ANSWER"
            | "SANDBOX_SUCCESS"
            | "SANDBOX_ERROR"
            | "SANDBOX_TIMEOUT"
            | "COMPILE_ERROR"
            | "RUNTIME_ERROR"
            | "TIME_LIMIT_EXCEEDED"
            | "MEMORY_LIMIT_EXCEEDED"
            | "REJECTED"
            | "ERROR"
            | "CANCELLED" => true,
            _ => false,
        }
    }

    /// Adds execution time and cost to a terminal event.
    pub fn bill(&mut self, execution_time: f64, cost_usd: f64) {
        self.fields.insert("execution_time".to_owned(), json!(round(execution_time, 1e3)));
        self.fields.insert("cost_usd".to_owned(), json!(round(cost_usd, 1e6)));
    }

    /// Extracts the fields of a terminal event that are stored in separate columns.
    pub fn finish(&self, execution_time: f64, cost_usd: f64) -> Finish {
        let integer = |name: &str| self.fields.get(name).and_then(Value::as_i64);
        let real = |name: &str| self.fields.get(name).and_then(Value::as_f64);
        let results = self.fields.get("test_results").and_then(Value::as_array);
        let instructions: f64 = results
            .into_iter()
            .flatten()
            .filter_map(|result| result.get("counts")?.get("instructions")?.as_f64())
            .sum();
        let flags = self.fields.get("flags").and_then(Value::as_array);
        Finish {
            status: self.status.clone(),
            passed_tests: integer("passed_tests"),
            total_tests: integer("total_tests"),
            avg_runtime_ms: real("avg_runtime_ms"),
            avg_gflops: real("avg_gflops"),
            instructions: (instructions > 0.0).then_some(instructions),
            flags: flags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            execution_time: round(execution_time, 1e3),
            cost_usd: round(cost_usd, 1e6),
        }
    }
}

fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_of_an_event_is_not_the_judges_to_change() {
        let event = Event::from_line(r#"{"status":"CHECKING","id":99,"submission_id":"x","total_tests":4}"#);
        let text = event.unwrap().to_json("mine", Some(7), 1000);
        assert_eq!(
            text,
            r#"{"status":"CHECKING","id":7,"submission_id":"mine","timestamp":1000,"total_tests":4}"#
        );
    }

    #[test]
    fn lines_that_are_no_events_are_refused() {
        for line in
            ["", "hello", "[]", "{}", r#"{"status":3}"#, r#"{"status":"a\nid: 4"}"#, r#"{"status":""}"#]
        {
            assert_eq!(Event::from_line(line), None, "{line}");
        }
    }

    #[test]
    fn whether_an_event_ends_a_submission_depends_on_what_was_asked() {
        let checked = Event::new("CHECKED", json!({}));
        assert!(checked.is_terminal("checker") && !checked.is_terminal("full"));
        let compiled = Event::new("COMPILED", json!({}));
        assert!(compiled.is_terminal("compile") && !compiled.is_terminal("checker"));
        assert!(Event::error("x", "y", "z").is_terminal("full"));
    }

    #[test]
    fn the_price_of_the_first_design_s_example_comes_out() {
        let mut event = Event::new("BENCHMARKED", json!({ "avg_runtime_ms": 1.5, "flags": ["slow"] }));
        let cost = 1.99 * 390.87 / 3600.0;
        event.bill(390.87, cost);
        assert_eq!(event.fields["cost_usd"], json!(0.216064));
        let finish = event.finish(390.87, cost);
        assert_eq!((finish.avg_runtime_ms, finish.flags), (Some(1.5), vec!["slow".to_owned()]));
    }
}
