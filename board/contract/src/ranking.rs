//! The overall ranking of a device, and the profiles of users.

use serde::Serialize;

/// A user in the overall ranking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RankingEntry {
    /// Rank, counted from 1. Users with equal points share one: 1, 1, 3.
    pub rank: usize,
    /// Name of the user.
    pub user: String,
    /// Points over all problems.
    pub points: u64,
    /// Number of solved problems.
    pub solved: usize,
    /// Number of problems on whose leaderboard the user has the first rank.
    pub first_ranks: usize,
}

/// The first rank of a problem's leaderboard, in the problem's first element type.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Leader {
    /// Slug of the problem.
    pub problem: String,
    /// Title of the problem.
    pub title: String,
    /// Users who share the first rank, fastest first.
    pub users: Vec<String>,
    /// Geometric mean of the fastest one's run times.
    pub avg_runtime_ms: f64,
    /// Number of users on the leaderboard.
    pub entries: usize,
}

/// The overall ranking of a device.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Ranking {
    /// Device.
    pub gpu: String,
    /// Whether it is a software GPU. Its results are never ranked together with those of real GPUs.
    pub emulated: bool,
    /// Number of problems of the board.
    pub problems: usize,
    /// Number of ranked users; the list has the first 500.
    pub users: usize,
    /// Users, best first.
    pub entries: Vec<RankingEntry>,
    /// The first ranks of all leaderboards with an entry, by title.
    pub leaders: Vec<Leader>,
}

/// A problem that a user has solved on a device, with the submission that gives the most points.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SolvedProblem {
    /// Slug of the problem.
    pub problem: String,
    /// Title of the problem.
    pub title: String,
    /// easy, medium or hard.
    pub difficulty: String,
    /// Device.
    pub gpu: String,
    /// Whether it is a software GPU.
    pub emulated: bool,
    /// Element type of the submission.
    pub dtype: String,
    /// Id of the submission.
    pub submission_id: String,
    /// Geometric mean of the run times.
    pub avg_runtime_ms: f64,
    /// Rank on the leaderboard of this problem, device and element type.
    pub rank: usize,
    /// Points for this problem.
    pub points: u64,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
}

/// Rank of a user on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Standing {
    /// Device.
    pub gpu: String,
    /// Whether it is a software GPU.
    pub emulated: bool,
    /// Place in the overall ranking of the device.
    pub entry: RankingEntry,
    /// Number of ranked users.
    pub users: usize,
}

/// Profile of a user: what leaderboards and lists show anyway, in one place.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Profile {
    /// Name.
    pub user: String,
    /// Whether it is the caller's own.
    pub mine: bool,
    /// Number of submissions.
    pub submissions: i64,
    /// Number of correct submissions.
    pub accepted: i64,
    /// Ranks by device.
    pub standings: Vec<Standing>,
    /// Solved problems by device and title.
    pub solved: Vec<SolvedProblem>,
}
