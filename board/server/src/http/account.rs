//! Routes for the caller's account, health and metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use board_contract::{AccountLimits, Budget, ErrorBody, Health, Me, route};

use super::Caller;
use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::metrics as figures;
use crate::store::{now, today};

/// Returns the caller's account, limits and budget.
#[utoipa::path(get, path = route::ME, tag = "account", responses((status = 200, body = Me), (status = 401, body = ErrorBody)))]
pub async fn me(State(app): State<Arc<App>>, Caller(user): Caller) -> Result<Json<Me>, Refusal> {
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
        user: user.name,
    }))
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
