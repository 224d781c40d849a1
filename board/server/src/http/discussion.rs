//! Editorial and discussion of a problem.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use board_contract::{Comment, Discussion, Editorial, ErrorBody, MarkdownBody, route};
use board_problems::Problem;
use serde::Deserialize;
use serde_json::json;

use super::{Caller, JsonBody, Query, Visitor};
use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::store::{StoredComment, User, now};
use crate::{markdown, statement};

const PAGE: i64 = 20;
const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct DiscussionQuery {
    /// The `next` of the previous page.
    before: Option<String>,
}

/// Returns a page of a problem's discussion, newest comments first.
#[utoipa::path(get, path = route::DISCUSSION, params(("slug" = String, Path), DiscussionQuery), tag = "discussion",
    responses((status = 200, body = Discussion), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Visitor(user): Visitor,
    Path(slug): Path<String>,
    Query(query): Query<DiscussionQuery>,
) -> Result<Json<Discussion>, Refusal> {
    let problem = problem(&slug)?;
    let before = match &query.before {
        None => None,
        Some(text) => {
            let parts = text.split_once('-').and_then(|(time, id)| Some((time.parse().ok()?, id.to_owned())));
            Some(parts.ok_or_else(|| Refusal::bad_request("`before` is not the `next` of a response"))?)
        }
    };
    let mut found = app.store.comments(&problem.slug, before.as_ref(), PAGE + 1).await?;
    let more = found.len() as i64 > PAGE;
    found.truncate(PAGE as usize);
    let next = found.last().filter(|_| more).map(|last| format!("{}-{}", last.created_at, last.id));
    Ok(Json(Discussion {
        total: app.store.comment_count(&problem.slug).await?,
        comments: found.into_iter().map(|comment| shown(comment, user.as_ref())).collect(),
        next,
        limit_bytes: app.config.limits.comment_bytes,
    }))
}

/// Adds a comment to the discussion of a problem.
#[utoipa::path(post, path = route::DISCUSSION, params(("slug" = String, Path)), request_body = MarkdownBody, tag = "discussion",
    responses((status = 201, body = Comment), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 404, body = ErrorBody), (status = 413, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub async fn add(
    State(app): State<Arc<App>>,
    Caller(user): Caller,
    Path(slug): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let problem = problem(&slug)?;
    let markdown = text(&body, app.config.limits.comment_bytes, "comment")?;
    if markdown.is_empty() {
        return Err(Refusal::bad_request("the comment is empty").details("Write something first."));
    }
    // Serialized, so that two concurrent requests cannot both use the rest of the limit.
    let _gate = app.gate.lock().await;
    rate(&app, &user).await?;
    let comment = StoredComment {
        id: accounts::random_hex(10),
        problem: problem.slug.clone(),
        user_id: user.id.clone(),
        user: user.name.clone(),
        created_at: app.store.moment(),
        markdown,
    };
    app.store.add_comment(&comment).await?;
    Ok((StatusCode::CREATED, Json(shown(comment, Some(&user)))).into_response())
}

/// Removes a comment: its author's own, or any as a moderator.
#[utoipa::path(post, path = route::COMMENT_REMOVE, params(("id" = String, Path)), tag = "discussion",
    responses((status = 200, description = "It was removed"), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn remove(
    State(app): State<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
    JsonBody(_body): JsonBody,
) -> Result<Response, Refusal> {
    let comment = app.store.comment(&id).await?;
    if !removable(&comment, Some(&user)) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "this comment belongs to another user")
            .details("Its author and moderators may remove it."));
    }
    app.store.remove_comment(&id, &user.id).await?;
    tracing::info!("{} removed the comment {id} of {}", user.name, comment.user);
    Ok(Json(json!({ "id": id, "removed": true })).into_response())
}

/// Returns the editorial of a problem.
#[utoipa::path(get, path = route::EDITORIAL, params(("slug" = String, Path)), tag = "discussion",
    responses((status = 200, body = Editorial), (status = 404, body = ErrorBody)))]
pub async fn editorial(
    State(app): State<Arc<App>>,
    Visitor(user): Visitor,
    Path(slug): Path<String>,
) -> Result<Json<Editorial>, Refusal> {
    of_problem(&app, problem(&slug)?, user.as_ref()).await
}

/// Replaces the editorial of a problem, as a moderator. An empty text removes it.
#[utoipa::path(post, path = route::EDITORIAL, params(("slug" = String, Path)), request_body = MarkdownBody, tag = "discussion",
    responses((status = 200, body = Editorial), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 413, body = ErrorBody)))]
pub async fn set_editorial(
    State(app): State<Arc<App>>,
    Caller(user): Caller,
    Path(slug): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Editorial>, Refusal> {
    if !accounts::moderates(&user) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "only moderators write editorials")
            .details("The operator of this server names moderators: remora board promote NAME."));
    }
    let problem = problem(&slug)?;
    let markdown = text(&body, app.config.limits.editorial_bytes, "editorial")?;
    app.store.set_editorial(&problem.slug, &user.id, &markdown).await?;
    of_problem(&app, problem, Some(&user)).await
}

async fn of_problem(app: &App, problem: &Problem, user: Option<&User>) -> Result<Json<Editorial>, Refusal> {
    let found = app.store.editorial(&problem.slug).await?;
    let editable = user.is_some_and(|user| !user.banned && accounts::moderates(user));
    let text = found.as_ref().map(|found| found.markdown.as_str()).unwrap_or_default();
    Ok(Json(Editorial {
        html: statement::html(text),
        markdown: editable.then(|| text.to_owned()),
        user: found.as_ref().map(|found| found.user.clone()),
        updated_at: found.as_ref().map(|found| found.updated_at),
        editable,
    }))
}

fn problem(slug: &str) -> Result<&'static Problem, Refusal> {
    board_problems::find(slug).ok_or_else(|| Refusal::not_found(format!("there is no problem \"{slug}\"")))
}

fn shown(comment: StoredComment, user: Option<&User>) -> Comment {
    Comment {
        removable: removable(&comment, user),
        html: markdown::comment(&comment.markdown),
        id: comment.id,
        user: comment.user,
        created_at: comment.created_at,
    }
}

fn removable(comment: &StoredComment, user: Option<&User>) -> bool {
    user.is_some_and(|user| !user.banned && (user.id == comment.user_id || accounts::moderates(user)))
}

/// Returns the text of a request, without white space around it.
fn text(body: &[u8], limit: usize, what: &str) -> Result<String, Refusal> {
    let body: MarkdownBody = serde_json::from_slice(body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the body is not a valid {what}"))
            .details(format!("Send {{\"markdown\": \"...\"}}: {error}."))
    })?;
    let text = body.markdown.trim();
    if text.len() > limit {
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the {what} is too long"))
            .details(format!("It has {} bytes; the limit is {limit}.", text.len())));
    }
    if text.contains('\0') {
        return Err(Refusal::bad_request(format!("the {what} contains a zero byte")));
    }
    Ok(text.to_owned())
}

/// Checks the rate limits of comments.
async fn rate(app: &App, user: &User) -> Result<(), Refusal> {
    let limits = &app.config.limits;
    let moment = now();
    for (span, limit, name) in
        [(MINUTE, limits.comments_per_minute, "a minute"), (DAY, limits.comments_per_day, "a day")]
    {
        let (made, first) = app.store.commented(&user.id, moment - span).await?;
        if made >= limit {
            let wait = first.map_or(span, |first| first + span - moment);
            let error = format!("rate limit reached: {limit} comments {name}");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
                .details("Removed comments count too.")
                .retry_after((wait.max(0) as u64).div_ceil(1000)));
        }
    }
    Ok(())
}
