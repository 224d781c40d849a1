//! Share links: an unguessable address that shows one submission with its source, until its author revokes it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_contract::{ErrorBody, Isa, Share, ShareBody, SubmissionDetail, route};

use super::submissions::{detail_of, own_submission};
use super::{Caller, JsonBody};
use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::store::Submission;

/// Random bytes of a link: too many to guess.
const TOKEN_BYTES: usize = 24;

/// Creates or revokes the share link of a submission. A submission has at most one link; creating it again returns the same.
#[utoipa::path(post, path = route::SUBMISSION_SHARE, params(("id" = String, Path)), request_body = ShareBody, tag = "submissions",
    responses((status = 200, body = Share), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn share(
    State(app): State<Arc<App>>,
    Caller(user): Caller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Share>, Refusal> {
    own_submission(&app, &user, &id).await?;
    let body: ShareBody = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "say {\"shared\": true} or false")
            .details(error.to_string())
    })?;
    if !body.shared {
        app.store.unshare(&id).await?;
        return Ok(Json(Share { token: None }));
    }
    let token = app.store.share(&id, &accounts::random_hex(TOKEN_BYTES)).await?;
    Ok(Json(Share { token: Some(token) }))
}

/// Shows the submission of a share link to everyone who has the link.
#[utoipa::path(get, path = route::SHARED, params(("token" = String, Path)), tag = "submissions",
    responses((status = 200, body = SubmissionDetail), (status = 404, body = ErrorBody)))]
pub async fn shared(State(app): State<Arc<App>>, Path(token): Path<String>) -> Result<Response, Refusal> {
    let submission = find(&app, &token).await?;
    let mut detail = detail_of(&app, None, submission, true).await?;
    detail.share = Some(token);
    Ok(secret(Json(detail).into_response()))
}

/// Returns the disassembly of the submission of a share link.
#[utoipa::path(get, path = route::SHARED_ISA, params(("token" = String, Path)), tag = "submissions",
    responses((status = 200, body = Isa), (status = 404, body = ErrorBody)))]
pub async fn shared_isa(State(app): State<Arc<App>>, Path(token): Path<String>) -> Result<Response, Refusal> {
    let submission = find(&app, &token).await?;
    let Some(text) = app.store.isa(&submission.summary.id).await? else {
        return Err(Refusal::not_found("this submission has no disassembly"));
    };
    Ok(secret(([(header::CONTENT_TYPE, "application/json")], text).into_response()))
}

/// Returns the submission of a share link.
pub async fn find(app: &App, token: &str) -> Result<Submission, Refusal> {
    let none = || {
        Refusal::not_found("this share link does not exist or was revoked")
            .details("Ask the author of the submission for another link.")
    };
    let plausible = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plausible {
        return Err(none());
    }
    app.store.shared(token).await?.ok_or_else(none)
}

/// Keeps a response out of caches and search engines: the link may be revoked, and is for those who were given it.
pub fn secret(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex"));
    response
}
