//! Routes for submissions: create, list, follow, cancel, compare, export.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_contract::{
    Batch, BatchBody, CaseResult, Comparison, ErrorBody, Event, EventRecord, Isa, State, SubmissionDetail,
    SubmissionSummary, Submissions, SubmitBody, Submitted, VisibilityBody, route,
};
use serde::Deserialize;
use serde_json::json;

use super::{Caller, JsonBody, Query, Visitor, cell, csv};
use crate::app::App;
use crate::error::Refusal;
use crate::store::{Filter, Submission, User};
use crate::stream;
use crate::submit::{self, Accepted};

const PAGE: i64 = 50;
const LARGEST_PAGE: i64 = 500;
const MOST_COMPARED: usize = 10;

/// Submits a kernel and follows it: the response is the event stream, up to the terminal event. Closing the stream does not cancel the
/// submission.
#[utoipa::path(post, path = route::STREAM_SUBMIT, request_body = SubmitBody, tag = "submissions", responses(
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
    let accepted = submit::submit(&app, &user, &submit::parse(&body)?).await?;
    let mut response = stream::respond(Arc::clone(&app), accepted.id.clone(), 0);
    if let Ok(value) = HeaderValue::from_str(&route::of_submission(route::SUBMISSION_EVENTS, &accepted.id)) {
        response.headers_mut().insert(header::CONTENT_LOCATION, value);
    }
    Ok(response)
}

/// Submits a kernel. Its events are available at a separate address.
#[utoipa::path(post, path = route::SUBMISSIONS, request_body = SubmitBody, tag = "submissions", responses(
    (status = 202, body = Submitted), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 402, body = ErrorBody), (status = 429, body = ErrorBody), (status = 503, body = ErrorBody)))]
pub async fn submit(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let accepted = submit::submit(&app, &user, &submit::parse(&body)?).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted.answer())).into_response())
}

/// Submits a kernel for several devices: for all of them or, if one refuses it, for none.
#[utoipa::path(post, path = route::BATCHES, request_body = BatchBody, tag = "submissions", responses(
    (status = 202, body = Batch), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 402, body = ErrorBody), (status = 429, body = ErrorBody), (status = 503, body = ErrorBody)))]
pub async fn submit_batch(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let accepted = submit::submit_batch(&app, &user, &submit::parse(&body)?).await?;
    let ids: Vec<&str> = accepted.iter().map(|one| one.id.as_str()).collect();
    let page = format!("/batch?ids={}", ids.join(","));
    let submissions = accepted.into_iter().map(Accepted::answer).collect();
    Ok((StatusCode::ACCEPTED, Json(Batch { submissions, page })).into_response())
}

impl Accepted {
    fn answer(self) -> Submitted {
        let events = route::of_submission(route::SUBMISSION_EVENTS, &self.id);
        let Accepted { id, gpu, position, estimate } = self;
        Submitted { id, gpu, events, position, estimate }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct ListQuery {
    problem: Option<String>,
    status: Option<String>,
    gpu: Option<String>,
    /// Set to 1 for the caller's own submissions only.
    mine: Option<String>,
    /// Name of an author.
    user: Option<String>,
    /// Page size, at most 500; 50 by default.
    limit: Option<i64>,
    /// The `next` of the previous page.
    before: Option<String>,
}

/// Lists submissions, newest first.
#[utoipa::path(get, path = route::SUBMISSIONS, params(ListQuery), tag = "submissions",
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
        user: query.user.filter(|text| !text.is_empty()),
        before,
        limit: limit + 1,
    };
    let mut found = app.store.list(&filter).await?;
    let more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let next =
        found.last().filter(|_| more).map(|last| format!("{}-{}", last.summary.created_at, last.summary.id));
    Ok(Json(Submissions { submissions: found.into_iter().map(|one| one.summary).collect(), next }))
}

/// Shows one submission with its results.
#[utoipa::path(get, path = route::SUBMISSION, params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = SubmissionDetail), (status = 404, body = ErrorBody)))]
pub async fn detail(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Json<SubmissionDetail>, Refusal> {
    let submission = app.store.submission(&id).await?;
    detail_of(&app, user.as_ref(), submission, false).await.map(Json)
}

/// Returns the details of a submission. `open` shows its source and events to others than its author.
pub(super) async fn detail_of(
    app: &App,
    user: Option<&User>,
    submission: Submission,
    open: bool,
) -> Result<SubmissionDetail, Refusal> {
    let mine = user.is_some_and(|user| user.id == submission.user_id);
    let Submission { summary, source, .. } = submission;
    let open = open || mine || summary.public;
    let custom = if open { app.store.custom(&summary.id).await? } else { None };
    let share = if mine { app.store.share_of(&summary.id).await? } else { None };
    let mut events: Vec<EventRecord> = Vec::new();
    for event in app.store.events_after(&summary.id, 0).await? {
        match serde_json::from_str(&event.data) {
            Ok(record) => events.push(record),
            Err(error) => tracing::warn!("event {} of {} cannot be read: {error}", event.number, summary.id),
        }
    }
    let (mut position, mut expected_wait_s) = (None, None);
    if summary.state == State::Queued {
        let line = app.line(&summary.gpu).await?;
        position = line.iter().position(|one| one.id == summary.id).map(|index| index + 1);
        if let Some(position) = position {
            expected_wait_s = Some(app.wait_at(&summary.gpu, position).await?);
        }
    }
    Ok(SubmissionDetail {
        summary,
        mine,
        code: open.then_some(source),
        custom,
        results: results_in(&events),
        events: if open { events } else { Vec::new() },
        position,
        expected_wait_s,
        share,
    })
}

/// Returns the results of the latest attempt by case.
fn results_in(events: &[EventRecord]) -> Vec<CaseResult> {
    let begins = |record: &EventRecord| matches!(record.event, Event::Provisioning { .. });
    let started = events.iter().rposition(begins).unwrap_or(0);
    let result = |record: &EventRecord| match &record.event {
        Event::TestResult { result, .. } => Some(CaseResult::Check(result.clone())),
        Event::BenchmarkResult { result, .. } => Some(CaseResult::Bench((**result).clone())),
        _ => None,
    };
    events[started..].iter().filter_map(result).collect()
}

/// Returns a submission if the caller may see all of it.
async fn open_submission(app: &App, user: Option<&User>, id: &str) -> Result<Submission, Refusal> {
    let submission = app.store.submission(id).await?;
    if submission.summary.public || user.is_some_and(|user| user.id == submission.user_id) {
        return Ok(submission);
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "this submission is visible only to its author"))
}

/// Returns a submission if it belongs to the caller.
pub(super) async fn own_submission(app: &App, user: &User, id: &str) -> Result<Submission, Refusal> {
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
#[utoipa::path(get, path = route::SUBMISSION_EVENTS, params(("id" = String, Path), EventsQuery), tag = "submissions",
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
    Ok(stream::respond(app, submission.summary.id, after))
}

/// Cancels a waiting or running submission.
#[utoipa::path(post, path = route::SUBMISSION_CANCEL, params(("id" = String, Path)), tag = "submissions",
    responses((status = 202, description = "It will end with CANCELLED"), (status = 403, body = ErrorBody),
    (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn cancel(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = own_submission(&app, &user, &id).await?;
    if !app.store.ask_to_cancel(&submission.summary.id).await? {
        return Err(Refusal::new(StatusCode::CONFLICT, "the submission has already ended"));
    }
    app.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Json(json!({ "id": submission.summary.id, "cancelling": true })))
        .into_response())
}

/// Makes a submission public or private.
#[utoipa::path(post, path = route::SUBMISSION_PUBLIC, params(("id" = String, Path)), request_body = VisibilityBody,
    tag = "submissions", responses((status = 200, body = SubmissionSummary), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn set_public(
    Shared(app): Shared<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<SubmissionSummary>, Refusal> {
    own_submission(&app, &user, &id).await?;
    let body: VisibilityBody = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "say {\"public\": true} or false")
            .details(error.to_string())
    })?;
    app.store.set_public(&id, body.public).await?;
    Ok(Json(app.store.submission_brief(&id).await?.summary))
}

/// Returns the disassembly of a submission, with source lines.
#[utoipa::path(get, path = route::SUBMISSION_ISA, params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = Isa), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn isa(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    open_submission(&app, user.as_ref(), &id).await?;
    let Some(text) = app.store.isa(&id).await? else {
        return Err(Refusal::not_found("this submission has no disassembly"));
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Exports a submission as a JSON file.
#[utoipa::path(get, path = route::SUBMISSION_JSON, params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, body = SubmissionDetail), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn export_json(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let detail = detail_of(&app, user.as_ref(), submission, false).await?;
    let name = format!("attachment; filename=\"{id}.json\"");
    Ok(([(header::CONTENT_DISPOSITION, name)], Json(detail)).into_response())
}

/// Exports the results of a submission as a CSV table, one row per case.
#[utoipa::path(get, path = route::SUBMISSION_CSV, params(("id" = String, Path)), tag = "submissions",
    responses((status = 200, content_type = "text/csv", body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn export_csv(
    Shared(app): Shared<Arc<App>>,
    Visitor(user): Visitor,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let submission = open_submission(&app, user.as_ref(), &id).await?;
    let detail = detail_of(&app, user.as_ref(), submission, false).await?;
    let mut text = format!("{}\n", CaseResult::columns().collect::<Vec<&str>>().join(","));
    for result in &detail.results {
        let cells: Vec<String> = result.cells().iter().map(|text| cell(text)).collect();
        let _ = writeln!(text, "{}", cells.join(","));
    }
    Ok(csv(&format!("{id}.csv"), text))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct CompareQuery {
    /// Comma-separated ids, at most ten.
    ids: String,
}

/// Returns several submissions for comparison.
#[utoipa::path(get, path = route::COMPARE, params(CompareQuery), tag = "submissions",
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
        submissions.push(detail_of(&app, user.as_ref(), submission, false).await?);
    }
    Ok(Json(Comparison { submissions }))
}
