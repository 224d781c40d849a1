//! Leaderboards, one per problem, GPU and element type.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use board_contract::{ErrorBody, Leaderboard, route};
use board_problems::Problem;
use serde::Deserialize;

use super::{Query, cell, csv};
use crate::app::App;
use crate::error::Refusal;
use crate::submit;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct BoardQuery {
    /// GPU; the server's first device by default.
    gpu: Option<String>,
    /// Element type; the problem's first by default.
    dtype: Option<String>,
}

/// Returns the best submission of each user, fastest first. Submissions whose 95 % confidence intervals overlap share a rank. With
/// `.csv` after the slug the response is a CSV table.
#[utoipa::path(get, path = route::LEADERBOARD, params(("slug" = String, Path), BoardQuery), tag = "problems",
    responses((status = 200, body = Leaderboard), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn leaderboard(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(query): Query<BoardQuery>,
) -> Result<Response, Refusal> {
    let (slug, table) = match name.strip_suffix(".csv") {
        Some(slug) => (slug, true),
        None => (name.as_str(), false),
    };
    let (problem, board) = find(&app, slug, &query).await?;
    if !table {
        return Ok(Json(board).into_response());
    }
    let Leaderboard { gpu, dtype, emulated, entries, .. } = board;
    let mut text =
        "rank,user,submission_id,dtype,avg_runtime_ms,ci_low_ms,ci_high_ms,avg_gflops,instructions,\
                    deterministic,created_at,emulated\n"
            .to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for place in entries {
        let _ = writeln!(
            text,
            "{},{},{},{dtype},{},{},{},{},{},{},{},{emulated}",
            place.rank,
            cell(&place.user),
            place.submission_id,
            place.avg_runtime_ms,
            number(place.ci_low_ms),
            number(place.ci_high_ms),
            number(place.avg_gflops),
            number(place.instructions),
            place.deterministic,
            place.created_at
        );
    }
    Ok(csv(&format!("{}-{gpu}-{dtype}.csv", problem.slug), text))
}

/// Returns a problem and its leaderboard for the device and element type of a query.
pub async fn find(
    app: &App,
    slug: &str,
    query: &BoardQuery,
) -> Result<(&'static Problem, Leaderboard), Refusal> {
    let problem = board_problems::find(slug)
        .ok_or_else(|| Refusal::not_found(format!("there is no problem \"{slug}\"")))?;
    let device = app.device_or_first(query.gpu.as_deref())?;
    let dtype = submit::dtype_of(problem, query.dtype.as_deref().filter(|dtype| !dtype.is_empty()))?;
    let (gpu, emulated) = (device.config.gpu_type.clone(), device.config.emulated);
    let entries = app.store.leaderboard(&problem.slug, &gpu, dtype, emulated).await?;
    let board =
        Leaderboard { problem: problem.slug.clone(), gpu, dtype: dtype.to_owned(), emulated, entries };
    Ok((problem, board))
}
