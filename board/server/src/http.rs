//! The HTTP interface: routes, who is calling, and what every answer has in common.

mod account;
mod boards;
mod devices;
mod openapi;
mod pages;
mod problems;
mod submissions;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::StreamExt;

use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::store::User;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let body_limit = app.config.limits.body_bytes;
    Router::new()
        .route("/api/amd/submit", post(submissions::stream_submit))
        .route("/api/submissions", get(submissions::list).post(submissions::submit))
        .route("/api/submissions/{id}", get(submissions::detail))
        .route("/api/submissions/{id}/events", get(submissions::events))
        .route("/api/submissions/{id}/cancel", post(submissions::cancel))
        .route("/api/submissions/{id}/public", post(submissions::set_public))
        .route("/api/submissions/{id}/isa", get(submissions::isa))
        .route("/api/submissions/{id}/export.json", get(submissions::export_json))
        .route("/api/submissions/{id}/export.csv", get(submissions::export_csv))
        .route("/api/compare", get(submissions::compare))
        .route("/api/problems", get(problems::list))
        .route("/api/problems/{slug}", get(problems::detail))
        .route("/api/leaderboards/{slug}", get(boards::leaderboard))
        .route("/api/devices", get(devices::list))
        .route("/api/estimate", post(devices::estimate))
        .route("/api/queue", get(devices::queue))
        .route("/api/me", get(account::me))
        .route("/api/openapi.json", get(openapi::document))
        .route("/healthz", get(account::health))
        .route("/metrics", get(account::metrics))
        .fallback(pages::serve)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(body_limit))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), around))
        .with_state(app)
}

async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take that method")
}

/// Counts answers, and says on all of them what a browser may do with them.
async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    app.counters.requests.fetch_add(1, Ordering::Relaxed);
    let refused = response.status().is_client_error() || response.status().is_server_error();
    app.counters.refused.fetch_add(u64::from(refused), Ordering::Relaxed);
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        // Everything only from here, and nothing inline.
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ] {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Who is calling, if it can be told.
pub struct Visitor(pub Option<User>);

/// Who is calling; nobody else gets past this.
pub struct Caller(pub User);

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Visitor, Refusal> {
        identify(&parts.headers, app).await.map(Visitor)
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Refusal> {
        match identify(&parts.headers, app).await? {
            Some(user) if user.banned => {
                Err(Refusal::new(StatusCode::FORBIDDEN, format!("{} is banned here", user.name)))
            }
            Some(user) => Ok(Caller(user)),
            None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "this needs a key").details(
                "Send the header \"Authorization: Bearer rmr_...\". Whoever runs this server makes keys.",
            )),
        }
    }
}

async fn identify(headers: &HeaderMap, app: &App) -> Result<Option<User>, Refusal> {
    // A server nobody has keys for, on an address only this machine reaches, belongs to whoever is at the machine.
    if !app.config.require_key && !app.store.has_keys().await? {
        if !from_here(headers) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "without keys this server answers to localhost only",
            )
            .details("The Host header names another machine: a page in a browser may be the one asking."));
        }
        return Ok(Some(app.store.user_named(accounts::LOCAL).await?));
    }
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let key = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
    match accounts::owner(&app.store, key.unwrap_or_default()).await? {
        Some(user) => Ok(Some(user)),
        None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "the key is not known, or was revoked")),
    }
}

/// Whether a request names this machine as its host. A page from elsewhere whose name was made to point here does not.
fn from_here(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The body of a request that says it is JSON.
pub struct JsonBody(pub Bytes);

/// How many times the limit of a body is read before the connection is closed: who is still sending would not hear why.
const READ_ON: usize = 16;

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<JsonBody, Refusal> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" {
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be JSON")
                .details("Send the header \"Content-Type: application/json\"."));
        }
        let limit = app.config.limits.body_bytes;
        let (mut kept, mut sent) = (Vec::new(), 0);
        let mut parts = request.into_body().into_data_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| {
                Refusal::bad_request("the body cannot be read").details(error.to_string())
            })?;
            sent += part.len();
            if sent <= limit {
                kept.extend_from_slice(&part);
            } else if sent > READ_ON * limit {
                break;
            }
        }
        if sent > limit {
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")
                .details(format!("{limit} bytes are the limit.")));
        }
        Ok(JsonBody(kept.into()))
    }
}

/// The query of an address, with errors of our own kind.
pub struct Query<T>(pub T);

impl<T: serde::de::DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Query<T>, Refusal> {
        match axum::extract::Query::<T>::from_request_parts(parts, app).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => {
                Err(Refusal::bad_request("the query is not understood").details(rejection.body_text()))
            }
        }
    }
}

/// Text that is downloaded as a table.
pub fn csv(name: &str, text: String) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    (
        [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8")),
            (
                header::CONTENT_DISPOSITION,
                HeaderValue::from_str(&disposition).unwrap_or(HeaderValue::from_static("attachment")),
            ),
        ],
        text,
    )
        .into_response()
}

/// A cell of such a table. What a spreadsheet would take for a formula is made text.
pub fn cell(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '@', '\t']) || (text.starts_with('-') && text.parse::<f64>().is_err());
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_from_here() {
        let headers =
            |host: &str| HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        for host in ["localhost", "localhost:3000", "127.0.0.1:3000", "[::1]:3000", "LOCALHOST:1"] {
            assert!(from_here(&headers(host)), "{host}");
        }
        for host in ["example.com", "127.0.0.1.example.com:3000", "10.0.0.1", "", "[2001:db8::1]:3000"] {
            assert!(!from_here(&headers(host)), "{host}");
        }
    }

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("-2.5", "-2.5"),
            ("-cmd", "'-cmd"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
