//! The caller's account, and the server's health.

use serde::Serialize;

use crate::Authentication;

/// Account of the caller.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Me {
    /// Name.
    pub user: String,
    /// How the request was authenticated.
    pub authentication: Authentication,
    /// Budget.
    pub budget: Budget,
    /// Limits.
    pub limits: AccountLimits,
}

/// Budget of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Budget {
    /// Daily budget; null for no limit.
    #[schema(required)]
    pub daily_usd: Option<f64>,
    /// Spent today (UTC).
    pub spent_usd: f64,
    /// Reserved for waiting and running submissions.
    pub reserved_usd: f64,
    /// Highest allowed device price, in dollars per hour.
    #[schema(required)]
    pub max_price_usd: Option<f64>,
}

/// Limits of the caller; null for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AccountLimits {
    /// Submissions per minute.
    #[schema(required)]
    pub per_minute: Option<i64>,
    /// Submissions per day.
    #[schema(required)]
    pub per_day: Option<i64>,
    /// Submissions that run at the same time.
    pub concurrency: i64,
    /// Size of a source.
    pub source_bytes: usize,
    /// Size of a request.
    pub body_bytes: usize,
    /// Waiting submissions of all users together.
    pub queue: i64,
}

/// Health of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Health {
    /// ok
    pub status: String,
    /// Version of the server.
    pub version: String,
    /// Time since it started.
    pub uptime_s: u64,
}
