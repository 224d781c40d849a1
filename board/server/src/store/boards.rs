//! Queries across submissions: leaderboards, counts, durations.

use board_contract::{Endpoint, LeaderboardEntry, Status};
use sqlx::any::AnyRow;

use super::{Result, Store, integer, maybe_integer, maybe_real, real, text};

/// Number of submissions and solutions of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemCount {
    /// Slug of the problem.
    pub problem: String,
    /// Number of submissions.
    pub submissions: i64,
    /// Number of correct submissions.
    pub accepted: i64,
    /// Whether the requesting user has solved it.
    pub solved: bool,
}

/// A user's best result on one leaderboard.
#[derive(Clone, Debug, PartialEq)]
pub struct BestResult {
    /// Slug of the problem.
    pub problem: String,
    /// Device.
    pub gpu: String,
    /// Whether the device is a software GPU.
    pub emulated: bool,
    /// Element type.
    pub dtype: String,
    /// The entry of the leaderboard, not yet ranked.
    pub entry: LeaderboardEntry,
}

/// Numbers of a user's submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Number of submissions.
    pub submissions: i64,
    /// Number of correct submissions.
    pub accepted: i64,
}

/// Condition for submissions that leaderboards rank.
fn ranked() -> String {
    let (measured, full) = (Status::Benchmarked, Endpoint::Full);
    format!(
        "s.status = '{measured}' AND s.endpoint = '{full}' AND s.avg_runtime_ms IS NOT NULL AND s.flags = '[]' AND u.banned = 0"
    )
}

impl Store {
    /// Returns the best measured submission without flags of each user, fastest first. Submissions that are not deterministic have no
    /// flag for that: sums in any order are correct.
    pub async fn leaderboard(
        &self,
        problem: &str,
        gpu: &str,
        dtype: &str,
        emulated: bool,
    ) -> Result<Vec<LeaderboardEntry>> {
        let ranked = ranked();
        let sql = format!(
            "SELECT * FROM (
                SELECT u.name AS user_name, s.id, s.avg_runtime_ms, s.ci_low_ms, s.ci_high_ms, s.avg_gflops, s.instructions,
                       s.deterministic, s.created_at, s.public,
                       ROW_NUMBER() OVER (PARTITION BY s.user_id ORDER BY s.avg_runtime_ms, s.created_at) AS place
                FROM submissions s JOIN users u ON u.id = s.user_id
                WHERE s.problem = $1 AND s.gpu = $2 AND s.emulated = $3 AND s.dtype = $4 AND {ranked}
             ) best WHERE place = 1 ORDER BY avg_runtime_ms, created_at LIMIT 500"
        );
        let query = sqlx::query(&sql).bind(problem).bind(gpu).bind(i64::from(emulated)).bind(dtype);
        let rows = query.fetch_all(&self.pool).await?;
        let entries: sqlx::Result<Vec<LeaderboardEntry>> = rows.iter().map(entry).collect();
        let mut entries = entries?;
        LeaderboardEntry::rank(&mut entries);
        Ok(entries)
    }

    /// Returns the best result of each user on every leaderboard, fastest first within each leaderboard.
    pub async fn best_results(&self) -> Result<Vec<BestResult>> {
        let ranked = ranked();
        let rows = sqlx::query(&format!(
            "SELECT * FROM (
                SELECT s.problem, s.gpu, s.emulated, s.dtype, u.name AS user_name, s.id, s.avg_runtime_ms, s.ci_low_ms,
                       s.ci_high_ms, s.avg_gflops, s.instructions, s.deterministic, s.created_at, s.public,
                       ROW_NUMBER() OVER (PARTITION BY s.user_id, s.problem, s.gpu, s.emulated, s.dtype
                                          ORDER BY s.avg_runtime_ms, s.created_at) AS place
                FROM submissions s JOIN users u ON u.id = s.user_id WHERE {ranked}
             ) best WHERE place = 1 ORDER BY avg_runtime_ms, created_at"
        ))
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(BestResult {
                    problem: text(row, "problem")?,
                    gpu: text(row, "gpu")?,
                    emulated: integer(row, "emulated")? != 0,
                    dtype: text(row, "dtype")?,
                    entry: entry(row)?,
                })
            })
            .collect()
    }

    /// Returns the numbers of a user's submissions; `None` for a name that does not exist or is banned.
    pub async fn activity(&self, name: &str) -> Result<Option<Activity>> {
        let correct = format!("s.status IN ('{}', '{}')", Status::Checked, Status::Benchmarked);
        let row = sqlx::query(&format!(
            "SELECT COUNT(s.id) AS n, COUNT(CASE WHEN {correct} THEN 1 END) AS accepted
             FROM users u LEFT JOIN submissions s ON s.user_id = u.id WHERE u.name = $1 AND u.banned = 0 GROUP BY u.id"
        ))
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        let activity = |row: &AnyRow| {
            Ok(Activity { submissions: integer(row, "n")?, accepted: integer(row, "accepted")? })
        };
        row.as_ref().map(activity).transpose()
    }

    /// Returns the submission counts of every problem.
    pub async fn problem_counts(&self, user: &str) -> Result<Vec<ProblemCount>> {
        let correct = format!("status IN ('{}', '{}')", Status::Checked, Status::Benchmarked);
        let judged = format!("'{}', '{}', '{}'", Endpoint::Checker, Endpoint::Full, Endpoint::Benchmark);
        let rows = sqlx::query(&format!(
            "SELECT problem, COUNT(*) AS n,
                    COUNT(CASE WHEN {correct} THEN 1 END) AS accepted,
                    COUNT(CASE WHEN {correct} AND user_id = $1 THEN 1 END) AS mine
             FROM submissions WHERE endpoint IN ({judged}) GROUP BY problem",
        ))
        .bind(user)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(ProblemCount {
                    problem: text(row, "problem")?,
                    submissions: integer(row, "n")?,
                    accepted: integer(row, "accepted")?,
                    solved: integer(row, "mine")? > 0,
                })
            })
            .collect()
    }

    /// Returns the number of submissions by status.
    pub async fn status_counts(&self) -> Result<Vec<(String, i64)>> {
        let rows =
            sqlx::query("SELECT status, COUNT(*) AS n FROM submissions GROUP BY status ORDER BY status")
                .fetch_all(&self.pool)
                .await?;
        rows.iter().map(|row| Ok((text(row, "status")?, integer(row, "n")?))).collect()
    }

    /// Returns the median time on the device of recent submissions of this kind, in seconds; of all problems without one.
    pub async fn usual_seconds(
        &self,
        gpu: &str,
        endpoint: Endpoint,
        problem: Option<&str>,
    ) -> Result<Option<f64>> {
        let rows = sqlx::query(
            "SELECT CAST(execution_time AS DOUBLE PRECISION) AS seconds FROM submissions
             WHERE gpu = $1 AND endpoint = $2 AND ($3 = '' OR problem = $3) AND state = 'done' AND execution_time > 0
             ORDER BY created_at DESC LIMIT 20",
        )
        .bind(gpu)
        .bind(endpoint.name())
        .bind(problem.unwrap_or_default())
        .fetch_all(&self.pool)
        .await?;
        let seconds = rows.iter().map(|row| real(row, "seconds")).collect::<sqlx::Result<Vec<f64>>>()?;
        Ok(median(seconds))
    }

    /// Returns the total spending of all users.
    pub async fn total_spent(&self) -> Result<f64> {
        let row = sqlx::query("SELECT CAST(COALESCE(SUM(usd), 0) AS DOUBLE PRECISION) AS usd FROM charges")
            .fetch_one(&self.pool)
            .await?;
        Ok(real(&row, "usd")?)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn entry(row: &AnyRow) -> sqlx::Result<LeaderboardEntry> {
    Ok(LeaderboardEntry {
        rank: 0,
        user: text(row, "user_name")?,
        submission_id: text(row, "id")?,
        avg_runtime_ms: real(row, "avg_runtime_ms")?,
        ci_low_ms: maybe_real(row, "ci_low_ms")?,
        ci_high_ms: maybe_real(row, "ci_high_ms")?,
        avg_gflops: maybe_real(row, "avg_gflops")?,
        instructions: maybe_real(row, "instructions")?,
        deterministic: maybe_integer(row, "deterministic")? != Some(0),
        created_at: integer(row, "created_at")?,
        public: integer(row, "public")? != 0,
    })
}
