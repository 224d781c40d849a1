//! The overall ranking, and profiles.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use board_contract::{ErrorBody, Profile, Ranking, route};
use serde::Deserialize;

use super::{Query, Visitor};
use crate::app::App;
use crate::error::Refusal;
use crate::ranking;

/// Most users that the ranking lists.
const LISTED: usize = 500;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct RankingQuery {
    /// GPU; the server's first device by default.
    gpu: Option<String>,
}

/// Returns the overall ranking of a device: points over all problems. Users with equal points share a rank.
#[utoipa::path(get, path = route::RANKING, params(RankingQuery), tag = "users",
    responses((status = 200, body = Ranking), (status = 400, body = ErrorBody)))]
pub async fn overall(
    State(app): State<Arc<App>>,
    Query(query): Query<RankingQuery>,
) -> Result<Json<Ranking>, Refusal> {
    let device = app.device_or_first(query.gpu.as_deref())?;
    let (gpu, emulated) = (device.config.gpu_type.clone(), device.config.emulated);
    let boards = ranking::boards(&app).await?;
    let board = boards.iter().find(|board| board.gpu == gpu && board.emulated == emulated);
    Ok(Json(Ranking {
        gpu,
        emulated,
        problems: board_problems::all().len(),
        users: board.map_or(0, |board| board.entries.len()),
        entries: board.map(|board| board.entries.iter().take(LISTED).cloned().collect()).unwrap_or_default(),
        leaders: board.map(|board| board.leaders.clone()).unwrap_or_default(),
    }))
}

/// Returns the profile of a user who has submitted something. Others have none, so that the response does not tell which names exist.
#[utoipa::path(get, path = route::USER, params(("name" = String, Path)), tag = "users",
    responses((status = 200, body = Profile), (status = 404, body = ErrorBody)))]
pub async fn profile(
    State(app): State<Arc<App>>,
    Visitor(caller): Visitor,
    Path(name): Path<String>,
) -> Result<Json<Profile>, Refusal> {
    let mine = caller.is_some_and(|caller| caller.name == name);
    let activity = app.store.activity(&name).await?;
    let none = || {
        Refusal::not_found(format!("there is no profile of \"{name}\""))
            .details("A user has a profile after the first submission. Names are case-sensitive.")
    };
    let activity = activity.filter(|activity| mine || activity.submissions > 0).ok_or_else(none)?;
    let boards = ranking::boards(&app).await?;
    Ok(Json(Profile {
        mine,
        submissions: activity.submissions,
        accepted: activity.accepted,
        standings: ranking::standings(&boards, &name),
        solved: boards.iter().filter_map(|board| board.solved.get(&name)).flatten().cloned().collect(),
        user: name,
    }))
}
