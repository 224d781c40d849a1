//! Routes for submissions: create, list, follow, cancel, compare, export.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Caller, JsonBody, Query, Visitor, cell, csv};
use crate::app::App;
use crate::error::{ErrorBody, Refusal};
use crate::store::{Filter, State, Submission, User};
use crate::stream;
use crate::submit::{self, Estimate, SubmitBody};

const PAGE: i64 = 50;
const LARGEST_PAGE: i64 = 500;
const MOST_COMPARED: usize = 10;

/// Summary of a submission, for lists.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Summary {
    pub id: String,
    pub problem: String,
    pub title: String,
    pub user: String,
    pub gpu: String,
    pub dtype: String,
    pub endpoint: String,
    /// Status of its latest event.
    pub status: String,
    /// queued, running or done.
    pub state: String,
    /// Whether it ran on a software GPU. Such results are never ranked with real ones.
    pub emulated: bool,
    pub public: bool,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    pub finished_at: Option<i64>,
    pub passed_tests: Option<i64>,
    pub total_tests: Option<i64>,
    pub avg_runtime_ms: Option<f64>,
    pub avg_gflops: Option<f64>,
    pub instructions: Option<f64>,
    pub cost_usd: Option<f64>,
    pub execution_time: Option<f64>,
    pub flags: Vec<String>,
}

impl Summary {
    pub fn of(submission: &Submission) -> Summary {
        let title = board_problems::find(&submission.problem).map_or("", |problem| problem.title.as_str());
        Summary {
            id: submission.id.clone(),
            problem: submission.problem.clone(),
            title: title.to_owned(),
            user: submission.user.clone(),
            gpu: submission.gpu.clone(),
            dtype: submission.dtype.clone(),
            endpoint: submission.endpoint.clone(),
            status: submission.status.clone(),
            state: match submission.state {
                State::Queued => "queued",
                State::Running => "running",
                State::Done => "done",
            }
            .to_owned(),
            emulated: submission.emulated,
            public: submission.public,
            created_at: submission.created_at,
            finished_at: submission.finished_at,
            passed_tests: submission.passed_tests,
            total_tests: submission.total_tests,
            avg_runtime_ms: submission.avg_runtime_ms,
            avg_gflops: submission.avg_gflops,
            instructions: submission.instructions,
            cost_usd: submission.cost_usd,
            execution_time: submission.execution_time,
            flags: submission.flags.clone(),
        }
    }
}

/// Details of a submission.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Detail {
    #[serde(flatten)]
    pub summary: Summary,
    /// Whether the caller is its author.
    pub mine: bool,
    /// The source; visible to its author, and to everyone once it is public.
    pub code: Option<String>,
    /// Results of the checked and measured cases.
    pub results: Vec<Value>,
    /// Events; visible to its author, and to everyone once it is public.
    pub events: Vec<Value>,
    /// Queue position while it waits.
    pub position: Option<usize>,
    pub expected_wait_s: Option<f64>,
}

/// An accepted submission.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Submitted {
    pub id: String,
    /// Address of its event stream.
    pub events: String,
    pub position: usize,
    pub estimate: Estimate,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Submissions {
    pub submissions: Vec<Summary>,
    /// Value of `before` for the next page.
    pub next: Option<String>,
}

/// Submits a kernel and follows it: the response is the event stream, up to the terminal event. Closing the stream does not cancel the
/// submission.
#[utoipa::path(post, path = "/api/amd/submit", request_body = SubmitBody, tag = "submissions", responses(
    (status = 200, description = "Events: `event: STATUS`, `id: N`, `data: {...}`", content_type = "text/event-stream", body = String),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 402, body = ErrorBody),
    (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 413, body = ErrorBody),
    (status = 415, body = ErrorBody), (status = 422, body = ErrorBody),
    (status = 429, body = ErrorBody, headers(("Retry-After" = u64))), (status = 503, body = ErrorBody)))]
pub async fn stream_submit(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let accepted = submit::submit(&app, &user, &SubmitBody::parse(&body)?).await?;
    let mut response = stream::respond(Arc::clone(&app), accepted.id.clone(), 0);
    if let Ok(value) = HeaderValue::from_str(&format!("/api/submissions/{}/events", accepted.id)) {
        response.headers_mut().insert(header::CONTENT_LOCATION, value);
    }
    Ok(response)
}

/// Submits a kernel. Its events are available at a separate address.
#[utoipa::path(post, path = "/api/submissions", request_body = SubmitBody, tag = "submissions", responses(
    (status = 202, body = Submitted), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 402, body = ErrorBody), (status = 429, body = ErrorBody), (status = 503, body = ErrorBody)))]
pub async fn submit(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let accepted = submit::submit(&app, &user, &SubmitBody::parse(&body)?).await?;
    let events = format!("/api/submissions/{}/events", accepted.id);
    let answer =
        Submitted { id: accepted.id, events, position: accepted.position, estimate: accepted.estimate };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct ListQuery {
    problem: Option<String>,
    status: Option<String>,
    gpu: Option<String>,
    /// Set to 1 for the caller's own submissions only.
    mine: Option<String>,
    /// Page size, at most 500; 50 by default.
    limit: Option<i64>,
    /// The `next` of the previous page.
    before: Option<String>,
}

/// Lists submissions, newest first.
#[utoipa::path(get, path = "/api/submissions", params(ListQuery), tag = "submissions",
    responses((status = 200, body = Submissions), (status = 400, body = ErrorBody)))]
pub async fn list(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Json<Submissions>, Refusal> {
    let mine = query.mine.as_deref().is_some_and(|value| matches!(value, "1" | "true"));
    let user_id = match (mine, user) {
        (false, _) => None,
        (true, Some(user)) => Some(user.id),
        (true, None) => return Err(Refusal::new(StatusCode::UNAUTHORIZED, "`mine` needs an API key")),
    };
    let before = match &query.before {
        None => None,
        Some(text) => {
            let parts = text.split_once('-').and_then(|(time, id)| Some((time.parse().ok()?, id.to_owned())));
            Some(parts.ok_or_else(|| Refusal::bad_request("`before` is not the `next` of a response"))?)
        }
    };
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Refusal::bad_request(format!("`limit` must be from 1 to {LARGEST_PAGE}")));
    }
    let filter = Filter {
        problem: query.problem.filter(|text| !text.is_empty()),
        status: query.status.filter(|text| !text.is_empty()),
        gpu: query.gpu.filter(|text| !text.is_empty()),
        user_id,
        before,
        limit: limit + 1,
    };
    let mut found = app.store.list(&filter).await?;
    let more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|last| format!("{}-{}", last.created_at, last.id));
    Ok(Json(Submissions { submissions: found.iter().map(Summary::of).collect(), next }))
}

/// Shows one submission with its results.
#[utoipa::path(get, path = "/api/submissions/{id}", params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = Detail), (status = 404, body = ErrorBody)))]
pub async fn detail(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Json<Detail>, Refusal> {
    let submission = app.store.submission(&id).await?;
    detail_of(&app, user.as_ref(), &submission).await.map(Json)
}

async fn detail_of(app: &App, user: Option<&User>, submission: &Submission) -> Result<Detail, Refusal> {
    let mine = user.is_some_and(|user| user.id == submission.user_id);
    let open = mine || submission.public;
    let mut events = Vec::new();
    for event in app.store.events_after(&submission.id, 0).await? {
        events.push(serde_json::from_str::<Value>(&event.data).unwrap_or_default());
    }
    let results = results_in(&events);
    let mut detail = Detail {
        summary: Summary::of(submission),
        mine,
        code: open.then(|| submission.source.clone()),
        results,
        events: if open { events } else { Vec::new() },
        position: None,
        expected_wait_s: None,
    };
    if submission.state == State::Queued {
        let line = app.line(&submission.gpu).await?;
        detail.position = line.iter().position(|one| one.id == submission.id).map(|index| index + 1);
        if let Some(position) = detail.position {
            detail.expected_wait_s = Some(app.wait_at(&submission.gpu, position).await?);
        }
    }
    Ok(detail)
}

/// Returns the results of the latest attempt by case.
fn results_in(events: &[Value]) -> Vec<Value> {
    let started = events.iter().rposition(|event| event["status"] == "PROVISIONING").unwrap_or(0);
    let of_case =
        |event: &&Value| matches!(event["status"].as_str(), Some("TEST_RESULT" | "BENCHMARK_RESULT"));
    let result = |event: &Value| {
        let mut result = event["result"].clone();
        if let Value::Object(fields) = &mut result {
            let kind = if event["status"] == "TEST_RESULT" { "check" } else { "bench" };
            fields.insert("kind".to_owned(), json!(kind));
        }
        result
    };
    events[started.min(events.len())..].iter().filter(of_case).map(result).collect()
}

/// Returns a submission if the caller may see all of it.
async fn open_submission(app: &App, user: Option<&User>, id: &str) -> Result<Submission, Refusal> {
    let submission = app.store.submission(id).await?;
    if submission.public || user.is_some_and(|user| user.id == submission.user_id) {
        return Ok(submission);
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "this submission is visible only to its author"))
}

/// Returns a submission if it belongs to the caller.
async fn own_submission(app: &App, user: &User, id: &str) -> Result<Submission, Refusal> {
    let submission = app.store.submission(id).await?;
    if submission.user_id == user.id {
        return Ok(submission);
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "this submission belongs to another user"))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct EventsQuery {
    /// Same as the header Last-Event-ID, for clients that cannot set headers.
    last_event_id: Option<i64>,
}

/// Streams the events of a submission from the beginning, or after Last-Event-ID, up to the terminal event.
#[utoipa::path(get, path = "/api/submissions/{id}/events", params(("id" = String, Path), EventsQuery), tag = "submissions",
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 403, body = ErrorBody),
    (status = 404, body = ErrorBody)))]
pub async fn events(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let header = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse::<i64>().ok());
            Some(number.ok_or_else(|| Refusal::bad_request("Last-Event-ID is not a number"))?)
        }
    };
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let after = header.or(query.last_event_id).unwrap_or(0).max(0);
    Ok(stream::respond(app, submission.id, after))
}

/// Cancels a waiting or running submission.
#[utoipa::path(post, path = "/api/submissions/{id}/cancel", params(("id" = String, Path)), tag = "submissions",
    responses((status = 202, description = "It will end with CANCELLED"), (status = 403, body = ErrorBody),
    (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn cancel(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = own_submission(&app, &user, &id).await?;
    if !app.store.ask_to_cancel(&submission.id).await? {
        return Err(Refusal::new(StatusCode::CONFLICT, "the submission has already ended"));
    }
    app.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Json(json!({ "id": submission.id, "cancelling": true }))).into_response())
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub struct PublicBody {
    public: bool,
}

/// Makes a submission public or private.
#[utoipa::path(post, path = "/api/submissions/{id}/public", params(("id" = String, Path)), request_body = PublicBody,
    tag = "submissions", responses((status = 200, body = Summary), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn set_public(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Summary>, Refusal> {
    let submission = own_submission(&app, &user, &id).await?;
    let body: PublicBody = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "say {\"public\": true} or false")
            .details(error.to_string())
    })?;
    app.store.set_public(&submission.id, body.public).await?;
    Ok(Json(Summary::of(&app.store.submission(&submission.id).await?)))
}

/// Returns the disassembly of a submission, with source lines.
#[utoipa::path(get, path = "/api/submissions/{id}/isa", params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = Value), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn isa(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let Some(text) = app.store.artefact(&submission.id, "isa").await? else {
        return Err(Refusal::not_found("this submission has no disassembly"));
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Exports a submission as a JSON file.
#[utoipa::path(get, path = "/api/submissions/{id}/export.json", params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = Detail), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn export_json(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let detail = detail_of(&app, user.as_ref(), &submission).await?;
    let name = format!("attachment; filename=\"{}.json\"", submission.id);
    Ok(([(header::CONTENT_DISPOSITION, name)], Json(detail)).into_response())
}

/// Exports the results of a submission as a CSV table, one row per case.
#[utoipa::path(get, path = "/api/submissions/{id}/export.csv", params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, content_type = "text/csv", body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn export_csv(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    const COLUMNS: &[&str] = &[
        "kind",
        "test_id",
        "name",
        "status",
        "runtime_ms",
        "ci_low_ms",
        "ci_high_ms",
        "mean_ms",
        "min_ms",
        "p95_ms",
        "gflops",
        "gbytes_per_s",
        "floor_ms",
        "max_difference",
    ];
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let detail = detail_of(&app, user.as_ref(), &submission).await?;
    let mut text = format!("{}\n", COLUMNS.join(","));
    for result in &detail.results {
        let cells = COLUMNS.iter().map(|column| match &result[*column] {
            Value::Null => String::new(),
            Value::String(text) => cell(text),
            other => cell(&other.to_string()),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(","));
    }
    Ok(csv(&format!("{}.csv", submission.id), text))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct CompareQuery {
    /// Comma-separated ids, at most ten.
    ids: String,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Comparison {
    pub submissions: Vec<Detail>,
}

/// Returns several submissions for comparison.
#[utoipa::path(get, path = "/api/compare", params(CompareQuery), tag = "submissions",
    responses((status = 200, body = Comparison), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn compare(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Query(query): Query<CompareQuery>,
) -> Result<Json<Comparison>, Refusal> {
    let ids: Vec<&str> = query.ids.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    if ids.is_empty() || ids.len() > MOST_COMPARED {
        return Err(Refusal::bad_request(format!("`ids` must name 1 to {MOST_COMPARED} submissions")));
    }
    let mut submissions = Vec::new();
    for id in ids {
        let submission = app.store.submission(id).await?;
        submissions.push(detail_of(&app, user.as_ref(), &submission).await?);
    }
    Ok(Json(Comparison { submissions }))
}
