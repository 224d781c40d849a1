//! Client for the parts of dstack's REST API that a board needs: plans, and starting, querying and stopping runs.
//!
//! Every call is a POST with JSON. Responses are limited in size, and errors contain dstack's own message.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::run::{Offer, Plan, Run, RunSpec};

/// Largest accepted response in bytes; a page has up to a hundred runs with all details.
const ANSWER: usize = 16 << 20;
/// Most characters shown of an invalid response.
const SHOWN: usize = 400;
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout of a call. It is long because a plan queries every back end for its offers.
const WHOLE: Duration = Duration::from_secs(60);
/// Runs per page, and most pages.
const PAGE: usize = 100;
const PAGES: usize = 50;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    #[error("dstack at {url} does not answer: {why}")]
    Unreachable { url: String, why: String },
    #[error("dstack does not accept the token, or the token's user is not a member of the project \"{0}\"")]
    Denied(String),
    #[error("dstack refused the request: {0}")]
    Refused(String),
    #[error("not found at dstack: {0}")]
    Missing(String),
    #[error("dstack failed ({status}): {text}")]
    Failed { status: u16, text: String },
    #[error("dstack's response to {call} is invalid: {why}")]
    NotUnderstood { call: String, why: String },
}

impl RestError {
    /// Returns whether the error is temporary, so that the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self, RestError::Unreachable { .. } | RestError::Failed { .. })
    }
}

/// A project at a dstack server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    project: String,
    token: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keeps the token out of logs.
        formatter
            .debug_struct("Client")
            .field("url", &self.url)
            .field("project", &self.project)
            .finish_non_exhaustive()
    }
}

impl Client {
    pub fn new(url: &str, project: &str, token: &str) -> Result<Client, RestError> {
        let url = url.trim_end_matches('/').to_owned();
        let wrong = |why: String| RestError::Unreachable { url: url.clone(), why };
        if !project.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(wrong(format!("\"{project}\" is not a valid project name")));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| wrong(chain(&error)))?;
        Ok(Client { http, project: project.to_owned(), token: token.to_owned(), url })
    }

    /// Returns the offers for a run, best first.
    pub async fn plan(&self, spec: &RunSpec) -> Result<Vec<Offer>, RestError> {
        let body = json!({ "run_spec": spec, "max_offers": 50 });
        let plan: Plan = self.in_project("runs/get_plan", &body).await?;
        Ok(plan.job_plans.into_iter().next().map(|job| job.offers).unwrap_or_default())
    }

    /// Starts a run. Without a response it is unknown whether the run exists; the caller must query it by name.
    pub async fn apply(&self, spec: &RunSpec) -> Result<Run, RestError> {
        let body = json!({ "plan": { "run_spec": spec, "current_resource": null }, "force": false });
        self.in_project("runs/apply", &body).await
    }

    /// Returns a run by name.
    pub async fn run(&self, name: &str) -> Result<Option<Run>, RestError> {
        match self.in_project("runs/get", &json!({ "run_name": name })).await {
            Ok(run) => Ok(Some(run)),
            Err(RestError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the project's active runs with this name prefix.
    pub async fn active(&self, prefix: &str) -> Result<Vec<Run>, RestError> {
        let mut found = Vec::new();
        let mut body = json!({ "project_name": self.project, "only_active": true, "limit": PAGE });
        for _ in 0..PAGES {
            let page: Vec<Run> = self.call("/api/runs/list", &body).await?;
            let full = page.len() >= PAGE;
            if let Some(last) = page.last() {
                body["prev_submitted_at"] = json!(last.submitted_at);
                body["prev_run_id"] = json!(last.id);
            }
            found.extend(page.into_iter().filter(|run| run.name().starts_with(prefix)));
            if !full {
                break;
            }
        }
        Ok(found)
    }

    /// Stops runs. A run that has ended or never existed is not an error.
    pub async fn stop(&self, names: &[&str], at_once: bool) -> Result<(), RestError> {
        match self.in_project("runs/stop", &json!({ "runs_names": names, "abort": at_once })).await {
            Ok(Value::Null) | Ok(_) | Err(RestError::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn in_project<T: DeserializeOwned>(
        &self,
        call: &str,
        body: &impl Serialize,
    ) -> Result<T, RestError> {
        self.call(&format!("/api/project/{}/{call}", self.project), body).await
    }

    async fn call<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, RestError> {
        let unreachable =
            |error: reqwest::Error| RestError::Unreachable { url: self.url.clone(), why: chain(&error) };
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token).json(body);
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + piece.len() > ANSWER {
                let why = format!("it is longer than {ANSWER} bytes");
                return Err(RestError::NotUnderstood { call: path.to_owned(), why });
            }
            bytes.extend_from_slice(&piece);
        }
        if status == 200 {
            return serde_json::from_slice(&bytes)
                .map_err(|error| RestError::NotUnderstood { call: path.to_owned(), why: error.to_string() });
        }
        let (text, code) = refusal(&bytes);
        Err(match status {
            401 | 403 => RestError::Denied(self.project.clone()),
            _ if code.as_deref() == Some("resource_not_exists") => RestError::Missing(text),
            400..=499 => RestError::Refused(text),
            _ => RestError::Failed { status, text },
        })
    }
}

/// Extracts the message and code of an error response. `detail` is a string, an object or a list.
fn refusal(bytes: &[u8]) -> (String, Option<String>) {
    let answer: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let detail = &answer["detail"];
    let items: Vec<&Value> = match detail {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    };
    let mut words = Vec::new();
    let mut code = None;
    for item in items {
        if let Some(text) = item.as_str().or_else(|| item["msg"].as_str()) {
            let place = item["loc"].as_array().map(|parts| {
                let parts: Vec<String> = parts.iter().map(plain).collect();
                parts.join(".")
            });
            words.push(place.map_or_else(|| text.to_owned(), |place| format!("{place}: {text}")));
        }
        code = code.or_else(|| item["code"].as_str().map(str::to_owned));
    }
    if words.is_empty() {
        words.push(String::from_utf8_lossy(bytes).into_owned());
    }
    let mut text = words.join("; ");
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push_str("...");
    }
    (text, code)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats an error with its causes, which reqwest's own message omits.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_dstacks_words_whatever_their_form() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            (r#"{"detail":"Not authenticated"}"#, "Not authenticated", None),
            (r#"{"detail":{"msg":"Invalid token","code":null}}"#, "Invalid token", None),
            (
                r#"{"detail":[{"msg":"Run not found","code":"resource_not_exists"}]}"#,
                "Run not found",
                Some("resource_not_exists"),
            ),
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","run_spec",0,"x"],"msg":"Extra inputs are not permitted"}]}"#,
                "body.run_spec.0.x: Extra inputs are not permitted",
                None,
            ),
            ("<html>502</html>", "<html>502</html>", None),
        ];
        for (text, words, code) in cases {
            assert_eq!(refusal(text.as_bytes()), ((*words).to_owned(), code.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn a_project_is_a_name_and_no_path() {
        assert!(Client::new("http://127.0.0.1:1", "../../users", "t").is_err());
        let client = Client::new("http://127.0.0.1:1/", "main", "secret").unwrap();
        assert!(!format!("{client:?}").contains("secret"));
    }
}
