//! Routes for the caller's account and keys, health and metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_contract::{
    Account, AccountKey, AccountLimits, Authentication, Budget, ErrorBody, Health, LinkedProvider, Me,
    NewKey, RevokeKeyBody, UnlinkBody, route,
};
use serde_json::json;

use super::login::provider;
use super::{Authenticated, Caller, Identified, JsonBody, parse};
use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::metrics as figures;
use crate::store::{User, now, today};

/// Most API keys of a user that are in use.
const KEYS: usize = 20;

/// Returns the caller's account, limits and budget.
#[utoipa::path(get, path = route::ME, tag = "account", responses((status = 200, body = Me), (status = 401, body = ErrorBody)))]
pub async fn me(
    State(app): State<Arc<App>>,
    Authenticated(Identified { user, authentication }): Authenticated,
) -> Result<Json<Me>, Refusal> {
    let limits = &app.config.limits;
    let limited = user.name != accounts::LOCAL;
    Ok(Json(Me {
        budget: Budget {
            daily_usd: user.daily_budget_usd,
            spent_usd: app.store.spent(&user.id, today(now())).await?,
            reserved_usd: app.store.reserved(&user.id).await?,
            max_price_usd: user.max_price_usd,
        },
        limits: AccountLimits {
            per_minute: limited.then(|| user.per_minute.unwrap_or(limits.per_minute)),
            per_day: limited.then(|| user.per_day.unwrap_or(limits.per_day)),
            concurrency: user.concurrency.unwrap_or(limits.concurrency as i64),
            source_bytes: limits.source_bytes,
            body_bytes: limits.body_bytes,
            queue: limits.queue,
        },
        authentication,
        user: user.name,
    }))
}

/// Returns the caller's keys and linked login providers.
#[utoipa::path(get, path = route::ACCOUNT, tag = "account", responses((status = 200, body = Account), (status = 401, body = ErrorBody)))]
pub async fn account(
    State(app): State<Arc<App>>,
    Authenticated(Identified { user, authentication }): Authenticated,
) -> Result<Json<Account>, Refusal> {
    let keys = app.store.keys_of(&user.id).await?.into_iter().filter(|key| key.revoked_at.is_none());
    let issuers = app.store.issuers_of(&user.id).await?;
    let providers = app.logins.providers.iter().map(|provider| LinkedProvider {
        key: provider.config.key.clone(),
        name: provider.config.name.clone(),
        linked: issuers.contains(&provider.config.issuer),
    });
    Ok(Json(Account {
        manages_keys: authentication == Authentication::Login,
        keys: keys.map(|key| AccountKey { prefix: key.prefix, created_at: key.created_at }).collect(),
        providers: providers.collect(),
        browsers: app.store.logins_of(&user.id).await?,
        user: user.name,
    }))
}

/// Creates an API key of the caller, in a browser that is logged in.
#[utoipa::path(post, path = route::ACCOUNT_KEYS, tag = "account",
    responses((status = 201, body = NewKey), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn create_key(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    JsonBody(_body): JsonBody,
) -> Result<Response, Refusal> {
    let user = in_browser(caller)?;
    // Serialized, so that two concurrent requests cannot both create the last key.
    let _gate = app.gate.lock().await;
    let keys = app.store.keys_of(&user.id).await?;
    if keys.iter().filter(|key| key.revoked_at.is_none()).count() >= KEYS {
        return Err(Refusal::new(StatusCode::CONFLICT, format!("you have {KEYS} keys in use"))
            .details("Revoke one that you do not need."));
    }
    let key = accounts::create_key(&app.store, &user).await?;
    let mut response = (StatusCode::CREATED, Json(NewKey { key })).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Revokes an API key of the caller, in a browser that is logged in.
#[utoipa::path(post, path = route::ACCOUNT_KEY_REVOKE, request_body = RevokeKeyBody, tag = "account",
    responses((status = 200, description = "The key no longer works"), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn revoke_key(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let user = in_browser(caller)?;
    let body: RevokeKeyBody = parse(&body, "request to revoke a key")?;
    app.store.revoke_key_of(&user.id, &body.prefix).await?;
    Ok(Json(json!({ "prefix": body.prefix, "revoked": true })).into_response())
}

/// Unlinks the caller's account at a login provider.
#[utoipa::path(post, path = route::ACCOUNT_UNLINK, request_body = UnlinkBody, tag = "account",
    responses((status = 200, description = "The account at the provider no longer logs in"), (status = 404, body = ErrorBody)))]
pub async fn unlink(
    State(app): State<Arc<App>>,
    Caller(user): Caller,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let body: UnlinkBody = parse(&body, "request to unlink a provider")?;
    app.store.remove_identity(&user.id, &provider(&app, &body.provider)?.config.issuer).await?;
    Ok(Json(json!({ "provider": body.provider, "linked": false })).into_response())
}

/// Returns the user of a logged-in browser. API keys are not accepted here: otherwise a stolen key could create new keys, and revoking
/// it would not end the thief's access.
fn in_browser(caller: Identified) -> Result<User, Refusal> {
    match caller.authentication {
        Authentication::Login => Ok(caller.user),
        _ => Err(Refusal::new(StatusCode::FORBIDDEN, "keys are managed in a browser that is logged in")
            .details(
                "Log in on the board's pages. The operator of this server creates keys and login links too.",
            )),
    }
}

/// Health check of the server and its database.
#[utoipa::path(get, path = route::HEALTH, tag = "operation", responses((status = 200, body = Health), (status = 503, body = ErrorBody)))]
pub async fn health(State(app): State<Arc<App>>) -> Result<Json<Health>, Refusal> {
    app.store.ping().await?;
    Ok(Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: app.started.elapsed().as_secs(),
    }))
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = route::METRICS, tag = "operation",
    responses((status = 200, content_type = "text/plain", body = String)))]
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let text = figures::text(&app).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
