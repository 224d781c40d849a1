//! Submissions, their events, and their states in the queue.
//!
//! A submission is `queued`, `running` or `done`. The transitions from queued to running (claim) and to done (finish) can each succeed only
//! once, and the terminal event is written in the same transaction as the second. So even if the server crashes, each submission gets
//! exactly one terminal event.

use sqlx::Any;
use sqlx::any::AnyRow;

use crate::event::Event;

use super::{Result, Store, StoreError, integer, later, maybe_integer, maybe_real, now, real, text};

/// A new submission to store.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    pub id: String,
    pub user_id: String,
    pub problem: String,
    pub dtype: String,
    pub gpu: String,
    pub endpoint: String,
    pub source: String,
    pub seed: u64,
    pub emulated: bool,
    pub price_per_hour: f64,
    /// Highest possible cost, reserved from the budget until the submission is done.
    pub reserved_usd: f64,
}

/// A stored submission, with the name of its user.
#[derive(Clone, Debug)]
pub struct Submission {
    pub id: String,
    pub user_id: String,
    pub user: String,
    pub problem: String,
    pub dtype: String,
    pub gpu: String,
    pub endpoint: String,
    pub source: String,
    pub seed: u64,
    pub state: State,
    pub status: String,
    pub emulated: bool,
    pub public: bool,
    pub cancel: bool,
    pub attempt: i64,
    pub last_event: i64,
    pub price_per_hour: f64,
    pub reserved_usd: f64,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
    pub passed_tests: Option<i64>,
    pub total_tests: Option<i64>,
    pub avg_runtime_ms: Option<f64>,
    pub avg_gflops: Option<f64>,
    pub instructions: Option<f64>,
    pub execution_time: Option<f64>,
    pub cost_usd: Option<f64>,
    pub flags: Vec<String>,
}

/// State of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Queued,
    Running,
    Done,
}

/// A submission that waits for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub id: String,
    pub user_id: String,
    pub user: String,
    pub concurrency: Option<i64>,
    pub problem: String,
    pub gpu: String,
    pub endpoint: String,
    pub queued_at: i64,
}

/// One event of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub number: i64,
    pub status: String,
    /// JSON.
    pub data: String,
}

/// How a submission ended.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    pub status: String,
    pub passed_tests: Option<i64>,
    pub total_tests: Option<i64>,
    pub avg_runtime_ms: Option<f64>,
    pub avg_gflops: Option<f64>,
    pub instructions: Option<f64>,
    pub flags: Vec<String>,
    pub execution_time: f64,
    pub cost_usd: f64,
}

/// Which submissions to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub problem: Option<String>,
    pub status: Option<String>,
    pub gpu: Option<String>,
    pub user_id: Option<String>,
    /// Only submissions older than this one (creation time and id of the last one seen).
    pub before: Option<(i64, String)>,
    pub limit: i64,
}

const SELECT: &str = "SELECT s.*, u.name AS user_name FROM submissions s JOIN users u ON u.id = s.user_id";
/// Like `SELECT`, but without the source, which is large and not needed in lists.
const SELECT_BRIEF: &str = "SELECT s.id, s.user_id, s.problem, s.dtype, s.gpu, s.endpoint, '' AS source, s.seed, s.state, s.status,
     s.emulated, s.public, s.cancel, s.attempt, s.last_event, s.price_per_hour, s.reserved_usd, s.created_at, s.started_at,
     s.finished_at, s.passed_tests, s.total_tests, s.avg_runtime_ms, s.avg_gflops, s.instructions, s.execution_time,
     s.cost_usd, s.flags, u.name AS user_name FROM submissions s JOIN users u ON u.id = s.user_id";
const WAITING: &str =
    "SELECT s.id, s.user_id, u.name AS user_name, u.concurrency, s.problem, s.gpu, s.endpoint, s.queued_at
     FROM submissions s JOIN users u ON u.id = s.user_id WHERE s.state = 'queued' ORDER BY s.queued_at, s.id";

impl Store {
    /// Queues a submission, with its first events.
    pub async fn enqueue(&self, new: &NewSubmission, events: &[Event]) -> Result<()> {
        let moment = later(&self.queued);
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO submissions (id, user_id, problem, dtype, gpu, endpoint, source, seed, state, status, emulated,
             last_event, price_per_hour, reserved_usd, created_at, queued_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', 'IN_QUEUE', $9, $13, $10, $11, $12, $12)",
        )
        .bind(&new.id)
        .bind(&new.user_id)
        .bind(&new.problem)
        .bind(&new.dtype)
        .bind(&new.gpu)
        .bind(&new.endpoint)
        .bind(&new.source)
        .bind(new.seed.to_string())
        .bind(i64::from(new.emulated))
        .bind(new.price_per_hour)
        .bind(new.reserved_usd)
        .bind(moment)
        .bind(events.len() as i64)
        .execute(&mut *transaction)
        .await?;
        for (event, number) in events.iter().zip(1..) {
            insert_event(&mut transaction, &new.id, number, event).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the waiting submissions, oldest first.
    pub async fn waiting(&self) -> Result<Vec<Waiting>> {
        let rows = sqlx::query(WAITING).fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                Ok(Waiting {
                    id: text(row, "id")?,
                    user_id: text(row, "user_id")?,
                    user: text(row, "user_name")?,
                    concurrency: maybe_integer(row, "concurrency")?,
                    problem: text(row, "problem")?,
                    gpu: text(row, "gpu")?,
                    endpoint: text(row, "endpoint")?,
                    queued_at: integer(row, "queued_at")?,
                })
            })
            .collect()
    }

    pub async fn queue_length(&self) -> Result<i64> {
        let row = sqlx::query("SELECT COUNT(*) AS n FROM submissions WHERE state = 'queued'")
            .fetch_one(&self.pool)
            .await?;
        Ok(integer(&row, "n")?)
    }

    /// Claims a queued submission to run it. `None` if it was already claimed or cancelled.
    pub async fn claim(&self, id: &str) -> Result<Option<Submission>> {
        let mut transaction = self.begin().await?;
        let taken = sqlx::query(
            "UPDATE submissions SET state = 'running', attempt = attempt + 1, started_at = $2
             WHERE id = $1 AND state = 'queued' AND cancel = 0",
        )
        .bind(id)
        .bind(now())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(None);
        }
        let row =
            sqlx::query(&format!("{SELECT} WHERE s.id = $1")).bind(id).fetch_one(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(submission(&row)?))
    }

    /// Adds an event to a running submission; `None` if this attempt is no longer the current one.
    pub async fn append(&self, id: &str, attempt: i64, event: &Event) -> Result<Option<i64>> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, status = $3
             WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING last_event",
        )
        .bind(id)
        .bind(attempt)
        .bind(&event.status)
        .fetch_optional(&mut *transaction)
        .await?;
        commit_event(transaction, row, id, event).await
    }

    /// Ends a submission with its terminal event; `None` if it has already ended, or another attempt is running.
    pub async fn finish(
        &self,
        id: &str,
        attempt: i64,
        finish: &Finish,
        event: &Event,
    ) -> Result<Option<i64>> {
        let moment = now();
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'done', status = $3, finished_at = $4,
             passed_tests = $5, total_tests = $6, avg_runtime_ms = $7, avg_gflops = $8, instructions = $9,
             execution_time = $10, cost_usd = $11, flags = $12, reserved_usd = 0
             WHERE id = $1 AND attempt = $2 AND state <> 'done' RETURNING last_event, user_id",
        )
        .bind(id)
        .bind(attempt)
        .bind(&finish.status)
        .bind(moment)
        .bind(finish.passed_tests)
        .bind(finish.total_tests)
        .bind(finish.avg_runtime_ms)
        .bind(finish.avg_gflops)
        .bind(finish.instructions)
        .bind(finish.execution_time)
        .bind(finish.cost_usd)
        .bind(serde_json::to_string(&finish.flags).unwrap_or_default())
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let number = integer(&row, "last_event")?;
        insert_event(&mut transaction, id, number, event).await?;
        if finish.cost_usd > 0.0 {
            sqlx::query(
                "INSERT INTO charges (submission_id, attempt, user_id, created_at, seconds, usd)
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(id)
            .bind(attempt)
            .bind(text(&row, "user_id")?)
            .bind(moment)
            .bind(finish.execution_time)
            .bind(finish.cost_usd)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(Some(number))
    }

    /// Requeues a running submission at its old position, after its server or device was lost.
    pub async fn requeue(&self, id: &str, attempt: i64, event: &Event) -> Result<Option<i64>> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'queued', status = 'IN_QUEUE', started_at = NULL
             WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING last_event",
        )
        .bind(id)
        .bind(attempt)
        .fetch_optional(&mut *transaction)
        .await?;
        commit_event(transaction, row, id, event).await
    }

    /// Queues a finished submission to be judged again. Deletes its old events; the numbering continues.
    pub async fn rejudge(&self, id: &str, event: &Event) -> Result<()> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'queued', status = 'IN_QUEUE', queued_at = $2,
             attempt = 0, cancel = 0, started_at = NULL, finished_at = NULL, passed_tests = NULL, total_tests = NULL,
             avg_runtime_ms = NULL, avg_gflops = NULL, instructions = NULL, execution_time = NULL, flags = '[]'
             WHERE id = $1 AND state = 'done' RETURNING last_event",
        )
        .bind(id)
        .bind(later(&self.queued))
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = row else {
            return Err(StoreError::Missing("finished submission", id.to_owned()));
        };
        let number = integer(&row, "last_event")?;
        for table in ["events", "artefacts"] {
            sqlx::query(&format!("DELETE FROM {table} WHERE submission_id = $1"))
                .bind(id)
                .execute(&mut *transaction)
                .await?;
        }
        insert_event(&mut transaction, id, number, event).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Marks a submission for cancellation; false if it is done.
    pub async fn ask_to_cancel(&self, id: &str) -> Result<bool> {
        let done = sqlx::query("UPDATE submissions SET cancel = 1 WHERE id = $1 AND state <> 'done'")
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Returns the unfinished submissions marked for cancellation.
    pub async fn to_cancel(&self) -> Result<Vec<Submission>> {
        self.select("WHERE s.cancel = 1 AND s.state <> 'done'").await
    }

    /// Returns the submissions that were running when the previous server ended.
    pub async fn interrupted(&self) -> Result<Vec<Submission>> {
        self.select("WHERE s.state = 'running' ORDER BY s.queued_at, s.id").await
    }

    async fn select(&self, rest: &str) -> Result<Vec<Submission>> {
        let rows = sqlx::query(&format!("{SELECT_BRIEF} {rest}")).fetch_all(&self.pool).await?;
        rows.iter().map(|row| submission(row).map_err(StoreError::from)).collect()
    }

    pub async fn submission(&self, id: &str) -> Result<Submission> {
        let row =
            sqlx::query(&format!("{SELECT} WHERE s.id = $1")).bind(id).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("submission", id.to_owned()))?;
        Ok(submission(&row)?)
    }

    /// Returns a submission without its source.
    pub async fn submission_brief(&self, id: &str) -> Result<Submission> {
        let row = sqlx::query(&format!("{SELECT_BRIEF} WHERE s.id = $1"))
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        let row = row.ok_or_else(|| StoreError::Missing("submission", id.to_owned()))?;
        Ok(submission(&row)?)
    }

    /// Lists submissions, newest first, without their sources.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Submission>> {
        let mut sql = format!("{SELECT_BRIEF} WHERE 1 = 1");
        let mut texts: Vec<&str> = Vec::new();
        for (column, value) in [
            ("s.problem", &filter.problem),
            ("s.status", &filter.status),
            ("s.gpu", &filter.gpu),
            ("s.user_id", &filter.user_id),
        ] {
            if let Some(value) = value {
                texts.push(value);
                sql.push_str(&format!(" AND {column} = ${}", texts.len()));
            }
        }
        let mut next = texts.len();
        if filter.before.is_some() {
            let (time, id) = (next + 1, next + 2);
            sql.push_str(&format!(
                " AND (s.created_at < ${time} OR (s.created_at = ${time} AND s.id < ${id}))"
            ));
            next += 2;
        }
        sql.push_str(&format!(" ORDER BY s.created_at DESC, s.id DESC LIMIT ${}", next + 1));
        let mut query = sqlx::query(&sql);
        for value in texts {
            query = query.bind(value);
        }
        if let Some((time, id)) = &filter.before {
            query = query.bind(*time).bind(id);
        }
        let rows = query.bind(filter.limit).fetch_all(&self.pool).await?;
        rows.iter().map(|row| submission(row).map_err(StoreError::from)).collect()
    }

    /// Returns the events after a number, in order.
    pub async fn events_after(&self, id: &str, after: i64) -> Result<Vec<StoredEvent>> {
        let rows = sqlx::query(
            "SELECT number, status, data FROM events WHERE submission_id = $1 AND number > $2 ORDER BY number",
        )
        .bind(id)
        .bind(after)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(StoredEvent {
                    number: integer(row, "number")?,
                    status: text(row, "status")?,
                    data: text(row, "data")?,
                })
            })
            .collect()
    }

    pub async fn set_public(&self, id: &str, public: bool) -> Result<()> {
        sqlx::query("UPDATE submissions SET public = $2 WHERE id = $1")
            .bind(id)
            .bind(i64::from(public))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub async fn keep_artefact(&self, id: &str, kind: &str, data: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO artefacts (submission_id, kind, data) VALUES ($1, $2, $3)
             ON CONFLICT (submission_id, kind) DO UPDATE SET data = excluded.data",
        )
        .bind(id)
        .bind(kind)
        .bind(data)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    pub async fn artefact(&self, id: &str, kind: &str) -> Result<Option<String>> {
        let row = sqlx::query("SELECT data FROM artefacts WHERE submission_id = $1 AND kind = $2")
            .bind(id)
            .bind(kind)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| text(&row, "data")).transpose()?)
    }
}

/// Stores an event under the number that an update of its submission returned in `row`; `None` if nothing was updated.
async fn commit_event(
    mut transaction: sqlx::Transaction<'static, Any>,
    row: Option<AnyRow>,
    id: &str,
    event: &Event,
) -> Result<Option<i64>> {
    let Some(row) = row else { return Ok(None) };
    let number = integer(&row, "last_event")?;
    insert_event(&mut transaction, id, number, event).await?;
    transaction.commit().await?;
    Ok(Some(number))
}

async fn insert_event(
    transaction: &mut sqlx::Transaction<'static, Any>,
    id: &str,
    number: i64,
    event: &Event,
) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO events (submission_id, number, status, data) VALUES ($1, $2, $3, $4)")
        .bind(id)
        .bind(number)
        .bind(&event.status)
        .bind(event.to_json(id, Some(number), now()))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

pub(super) fn submission(row: &AnyRow) -> sqlx::Result<Submission> {
    Ok(Submission {
        id: text(row, "id")?,
        user_id: text(row, "user_id")?,
        user: text(row, "user_name")?,
        problem: text(row, "problem")?,
        dtype: text(row, "dtype")?,
        gpu: text(row, "gpu")?,
        endpoint: text(row, "endpoint")?,
        source: text(row, "source")?,
        seed: text(row, "seed")?.parse().unwrap_or_default(),
        state: match text(row, "state")?.as_str() {
            "queued" => State::Queued,
            "running" => State::Running,
            _ => State::Done,
        },
        status: text(row, "status")?,
        emulated: integer(row, "emulated")? != 0,
        public: integer(row, "public")? != 0,
        cancel: integer(row, "cancel")? != 0,
        attempt: integer(row, "attempt")?,
        last_event: integer(row, "last_event")?,
        price_per_hour: real(row, "price_per_hour")?,
        reserved_usd: real(row, "reserved_usd")?,
        created_at: integer(row, "created_at")?,
        started_at: maybe_integer(row, "started_at")?,
        finished_at: maybe_integer(row, "finished_at")?,
        passed_tests: maybe_integer(row, "passed_tests")?,
        total_tests: maybe_integer(row, "total_tests")?,
        avg_runtime_ms: maybe_real(row, "avg_runtime_ms")?,
        avg_gflops: maybe_real(row, "avg_gflops")?,
        instructions: maybe_real(row, "instructions")?,
        execution_time: maybe_real(row, "execution_time")?,
        cost_usd: maybe_real(row, "cost_usd")?,
        flags: serde_json::from_str(&text(row, "flags")?).unwrap_or_default(),
    })
}
