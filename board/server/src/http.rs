//! The HTTP interface: routes, authentication, and common response headers.

mod account;
mod boards;
mod devices;
mod discussion;
mod embed;
mod login;
mod openapi;
mod pages;
mod problems;
mod ranking;
mod shares;
mod submissions;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use board_contract::{Authentication, route};
use futures_util::StreamExt;

use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::login::{Cookie, login_hash};
use crate::store::User;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let body_limit = app.config.limits.body_bytes;
    Router::new()
        .route(route::STREAM_SUBMIT, post(submissions::stream_submit))
        .route(route::BATCHES, post(submissions::submit_batch))
        .route(route::SUBMISSIONS, get(submissions::list).post(submissions::submit))
        .route(route::SUBMISSION, get(submissions::detail))
        .route(route::SUBMISSION_EVENTS, get(submissions::events))
        .route(route::SUBMISSION_CANCEL, post(submissions::cancel))
        .route(route::SUBMISSION_PUBLIC, post(submissions::set_public))
        .route(route::SUBMISSION_ISA, get(submissions::isa))
        .route(route::SUBMISSION_JSON, get(submissions::export_json))
        .route(route::SUBMISSION_CSV, get(submissions::export_csv))
        .route(route::COMPARE, get(submissions::compare))
        .route(route::PROBLEMS, get(problems::list))
        .route(route::PROBLEM, get(problems::detail))
        .route(route::LEADERBOARD, get(boards::leaderboard))
        .route(route::RANKING, get(ranking::overall))
        .route(route::USER, get(ranking::profile))
        .route(route::SUBMISSION_SHARE, post(shares::share))
        .route(route::SHARED, get(shares::shared))
        .route(route::SHARED_ISA, get(shares::shared_isa))
        .route(route::EMBED_LEADERBOARD, get(embed::leaderboard))
        .route(route::EMBED_RESULT, get(embed::result))
        .route(embed::STYLE, get(embed::style))
        .route(route::EDITORIAL, get(discussion::editorial).post(discussion::set_editorial))
        .route(route::DISCUSSION, get(discussion::list).post(discussion::add))
        .route(route::COMMENT_REMOVE, post(discussion::remove))
        .route(route::DEVICES, get(devices::list))
        .route(route::ESTIMATE, post(devices::estimate))
        .route(route::QUEUE, get(devices::queue))
        .route(route::ME, get(account::me))
        .route(route::LOGIN, get(login::options))
        .route(route::LOGIN_START, post(login::start))
        .route(route::LOGIN_FINISH, post(login::finish))
        .route(route::LOGIN_LINK, post(login::use_link))
        .route(route::LOGOUT, post(login::logout))
        .route(route::ACCOUNT, get(account::account))
        .route(route::ACCOUNT_KEYS, post(account::create_key))
        .route(route::ACCOUNT_KEY_REVOKE, post(account::revoke_key))
        .route(route::ACCOUNT_UNLINK, post(account::unlink))
        .route(route::OPENAPI, get(openapi::document))
        .route(route::HEALTH, get(account::health))
        .route(route::METRICS, get(account::metrics))
        .fallback(pages::serve)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(body_limit))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), around))
        .with_state(app)
}

async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed for this address")
}

/// Marker of a response that other sites may show in a frame. It has its own policy.
#[derive(Clone, Copy, Debug)]
pub struct Framed;

/// Refuses requests of foreign web pages, counts responses and adds security headers to all of them.
async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let public = app.logins.public.as_deref();
    let mut response = if !request.method().is_safe() && is_foreign(request.headers(), public) {
        Refusal::new(StatusCode::FORBIDDEN, "this request comes from another site")
            .details("Web pages of other sites may not change anything here. Use the board's own pages, or a program with an API key.")
            .into_response()
    } else {
        next.run(request).await
    };
    let framed = response.extensions().get::<Framed>().is_some();
    app.counters.requests.fetch_add(1, Ordering::Relaxed);
    let refused = response.status().is_client_error() || response.status().is_server_error();
    app.counters.refused.fetch_add(u64::from(refused), Ordering::Relaxed);
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        // Resources only from this origin, and nothing inline.
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ] {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    if !framed {
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    response
}

/// Returns whether a browser sends a request for a page of another site. Such a page could otherwise act as the user who is logged in, or
/// as the user of a board without accounts. Programs send neither header.
fn is_foreign(headers: &HeaderMap, public: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        // `none` is an action of the user, such as a bookmark.
        return site != "same-origin" && site != "none";
    }
    // Browsers leave the header above out for plain HTTP to other machines than this one.
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().unwrap_or_default();
    // A proxy may have changed the host.
    if public == Some(origin) {
        return false;
    }
    let from = origin.split_once("://").map(|(_, host)| host);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    from.is_none() || from != host
}

/// The user of a request.
pub struct Identified {
    pub user: User,
    /// How the request was authenticated.
    pub authentication: Authentication,
}

/// Extractor for the caller; `None` for an anonymous request.
pub struct Visitor(pub Option<User>);

/// Extractor for the authenticated caller; rejects anonymous requests and banned users.
pub struct Caller(pub User);

/// Extractor for the authenticated caller that also says how; rejects the same requests.
pub struct Authenticated(pub Identified);

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Visitor, Refusal> {
        let found = identify(&parts.method, &parts.headers, app).await?;
        Ok(Visitor(found.map(|found| found.user)))
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Refusal> {
        Ok(Caller(authenticate(&parts.method, &parts.headers, app).await?.user))
    }
}

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Authenticated, Refusal> {
        Ok(Authenticated(authenticate(&parts.method, &parts.headers, app).await?))
    }
}

/// Returns the user of a request; refuses anonymous requests and banned users.
async fn authenticate(method: &Method, headers: &HeaderMap, app: &App) -> Result<Identified, Refusal> {
    match identify(method, headers, app).await? {
        Some(found) if found.user.banned => Err(banned(&found.user)),
        Some(found) => Ok(found),
        None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "this request needs an API key or a login").details(
            "Log in on the board's pages, or send the header \"Authorization: Bearer rmr_...\" with a key. \
             The operator of this server creates keys and login links.",
        )),
    }
}

fn banned(user: &User) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, format!("the user {} is banned on this server", user.name))
}

async fn identify(method: &Method, headers: &HeaderMap, app: &App) -> Result<Option<Identified>, Refusal> {
    // A server without accounts on a loopback address belongs to the user of the machine.
    let needs_account = app.config.require_key || !app.logins.providers.is_empty();
    if !needs_account && !app.store.has_users_besides(accounts::LOCAL).await? {
        if !from_here(headers) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "without keys this server only serves requests to localhost",
            )
            .details(
                "The Host header names another machine, so the request may come from a foreign web page.",
            ));
        }
        let user = app.store.user_named(accounts::LOCAL).await?;
        return Ok(Some(Identified { user, authentication: Authentication::Local }));
    }
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let key = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
        return match accounts::owner(&app.store, key.unwrap_or_default()).await? {
            Some(user) => Ok(Some(Identified { user, authentication: Authentication::Key })),
            None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "the API key is unknown or was revoked")),
        };
    }
    let Some(token) = Cookie::Session.read(headers, app.logins.is_secure()) else { return Ok(None) };
    let Some(user) = app.store.user_of_login(&login_hash(token)).await? else { return Ok(None) };
    // A browser adds cookies by itself. Requests of foreign pages were refused before, if the browser names the page; all that
    // keep cookies do.
    let names_page = headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN);
    if !method.is_safe() && !names_page {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "this request does not say which page it comes from",
        )
        .details("With a login, changes are accepted from the board's own pages. Programs use an API key."));
    }
    Ok(Some(Identified { user, authentication: Authentication::Login }))
}

/// Returns whether a request's Host header names this machine. This protects against DNS rebinding by foreign web pages.
fn from_here(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Extractor for a body with the content type JSON.
pub struct JsonBody(pub Bytes);

/// Multiple of the body limit that is read before the connection is closed. A client that is still sending would not receive the error.
const READ_ON: usize = 16;

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<JsonBody, Refusal> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" {
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON")
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
                .details(format!("The limit is {limit} bytes.")));
        }
        Ok(JsonBody(kept.into()))
    }
}

/// Parses the body of a request.
fn parse<T: serde::de::DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the body is not a valid {what}"))
            .details(error.to_string())
    })
}

/// Extractor for the query string that returns errors as [`Refusal`].
pub struct Query<T>(pub T);

impl<T: serde::de::DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Query<T>, Refusal> {
        match axum::extract::Query::<T>::from_request_parts(parts, app).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => {
                Err(Refusal::bad_request("the query is invalid").details(rejection.body_text()))
            }
        }
    }
}

/// Builds a response that is downloaded as a CSV file.
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

/// Escapes a CSV cell. Text that a spreadsheet would interpret as a formula gets a leading quote.
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
    fn pages_of_other_sites_are_foreign_and_programs_are_not() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let pair = |(name, value): &(&'static str, &str)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            };
            HeaderMap::from_iter(pairs.iter().map(pair))
        };
        let host = ("host", "board.example:3000");
        let public = Some("https://public.example");
        for own in [
            vec![host],
            vec![host, ("origin", "http://board.example:3000")],
            // A proxy may change the host, but not what the browser says about the site.
            vec![
                ("host", "10.0.0.1"),
                ("origin", "https://board.example"),
                ("sec-fetch-site", "same-origin"),
            ],
            vec![host, ("sec-fetch-site", "none")],
            vec![("host", "10.0.0.1"), ("origin", "https://public.example")],
        ] {
            assert!(!is_foreign(&headers(&own), public), "{own:?}");
        }
        for foreign in [
            vec![host, ("origin", "http://evil.example")],
            vec![host, ("origin", "null")],
            vec![host, ("origin", "http://public.example")],
            vec![host, ("origin", "http://board.example")],
            vec![host, ("sec-fetch-site", "cross-site")],
            vec![host, ("sec-fetch-site", "same-site"), ("origin", "http://board.example:3000")],
        ] {
            assert!(is_foreign(&headers(&foreign), public), "{foreign:?}");
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
