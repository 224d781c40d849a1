//! Leaderboards, one per problem and device.

use serde::Serialize;

/// The best submission of a user.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct LeaderboardEntry {
    /// Rank, counted from 1.
    pub rank: usize,
    /// Name of the author.
    pub user: String,
    /// Id of the submission.
    pub submission_id: String,
    /// Element type.
    pub dtype: String,
    /// Geometric mean of the run times.
    pub avg_runtime_ms: f64,
    /// Geometric mean of the operations per second.
    #[schema(required)]
    pub avg_gflops: Option<f64>,
    /// Instructions of all measured cases together; software GPUs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Whether everyone may see its source.
    pub public: bool,
}

/// The best submissions of a problem on a device, fastest first.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Leaderboard {
    /// Slug of the problem.
    pub problem: String,
    /// Device.
    pub gpu: String,
    /// Whether these are results of a software GPU. They are never ranked together with those of real GPUs.
    pub emulated: bool,
    /// One submission per user.
    pub entries: Vec<LeaderboardEntry>,
}
