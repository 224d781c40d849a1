//! Submissions, their events, and their states in the queue.
//!
//! A submission is `queued`, `running` or `done`. The transitions from queued to running (claim) and to done (finish) can each succeed only
//! once, and the terminal event is written in the same transaction as the second. So even if the server crashes, each submission gets
//! exactly one terminal event.

use board_contract::{
    Bill, CustomInput, Endpoint, Event, EventRecord, Isa, PassedCheck, State, Status, SubmissionSummary,
};
use sqlx::Any;
use sqlx::any::AnyRow;

use super::{Result, Store, StoreError, integer, later, maybe_integer, maybe_real, now, real, text};

/// A new submission to store.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    /// Id of the submission.
    pub id: String,
    /// The author.
    pub user_id: String,
    /// Slug of the problem; empty for the endpoint `sandbox`.
    pub problem: String,
    /// Element type.
    pub dtype: String,
    /// Device.
    pub gpu: String,
    /// What is requested.
    pub endpoint: Endpoint,
    /// The source.
    pub source: String,
    /// Seed of the hidden inputs.
    pub seed: u64,
    /// Whether the device is a software GPU.
    pub emulated: bool,
    /// Price at which the submission was accepted.
    pub price_per_hour: f64,
    /// Highest possible cost, reserved from the budget until the submission is done.
    pub reserved_usd: f64,
    /// Inputs of the endpoint `custom`.
    pub custom: Option<CustomInput>,
}

/// A stored submission.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The record that users see.
    pub summary: SubmissionSummary,
    /// The author.
    pub user_id: String,
    /// The source; empty if it was not requested.
    pub source: String,
    /// Seed of the hidden inputs.
    pub seed: u64,
    /// Whether it is to be cancelled.
    pub cancel: bool,
    /// Number of attempts to run it.
    pub attempt: i64,
    /// Number of the latest event.
    pub last_event: i64,
    /// Price at which the submission was accepted.
    pub price_per_hour: f64,
    /// Budget reserved for it.
    pub reserved_usd: f64,
    /// Milliseconds since the Unix epoch.
    pub queued_at: i64,
    /// Milliseconds since the Unix epoch.
    pub started_at: Option<i64>,
}

/// A submission that waits for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Id of the submission.
    pub id: String,
    /// The author.
    pub user_id: String,
    /// Name of the author.
    pub user: String,
    /// Submissions of the author that run at the same time; `None` for the server's default.
    pub concurrency: Option<i64>,
    /// Slug of the problem.
    pub problem: String,
    /// Device.
    pub gpu: String,
    /// What is requested.
    pub endpoint: Endpoint,
    /// Milliseconds since the Unix epoch.
    pub queued_at: i64,
}

/// One event of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Number of the event, counted from 1.
    pub number: i64,
    /// Name of its status.
    pub status: String,
    /// JSON.
    pub data: String,
}

/// The end of a submission: its last event, time and cost.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The last event.
    pub event: Event,
    /// Time and cost.
    pub bill: Bill,
    /// The check that the submission had passed, unless the event has its own figures.
    pub check: Option<PassedCheck>,
}

impl Ending {
    /// Ends a submission that had passed no check before.
    pub fn new(event: Event, execution_time: f64, cost_usd: f64) -> Ending {
        Ending { event, bill: Bill::new(execution_time, cost_usd), check: None }
    }
}

/// Which submissions to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only of this problem.
    pub problem: Option<String>,
    /// Only with this status.
    pub status: Option<String>,
    /// Only on this device.
    pub gpu: Option<String>,
    /// Only of this author.
    pub user_id: Option<String>,
    /// Only of the author with this name, unless banned.
    pub user: Option<String>,
    /// Only submissions older than this one (creation time and id of the last one seen).
    pub before: Option<(i64, String)>,
    /// At most this number.
    pub limit: i64,
}

/// Declares the columns of a submission, in its record and beside it, with the functions that read them. The source is read separately,
/// because it is large and not needed in lists.
macro_rules! columns {
    (summary { $($seen:ident: $read_seen:ident,)* } beside { $($own:ident: $read_own:ident,)* }) => {
        const COLUMNS: &str =
            concat!($("s.", stringify!($seen), ", ",)* $("s.", stringify!($own), ", ",)* "u.name AS user_name");

        pub(super) fn submission(row: &AnyRow) -> sqlx::Result<Submission> {
            let problem = text(row, "problem")?;
            let title = board_problems::find(&problem).map(|problem| problem.title.clone()).unwrap_or_default();
            let user = text(row, "user_name")?;
            let summary = SubmissionSummary { title, user, $($seen: $read_seen(row, stringify!($seen))?,)* };
            Ok(Submission { summary, source: text(row, "source")?, $($own: $read_own(row, stringify!($own))?,)* })
        }
    };
}

columns! {
    summary {
        id: text,
        problem: text,
        gpu: text,
        dtype: text,
        endpoint: endpoint,
        status: status,
        state: state,
        emulated: truth,
        public: truth,
        created_at: integer,
        finished_at: maybe_integer,
        passed_tests: maybe_integer,
        total_tests: maybe_integer,
        avg_runtime_ms: maybe_real,
        ci_low_ms: maybe_real,
        ci_high_ms: maybe_real,
        avg_gflops: maybe_real,
        instructions: maybe_real,
        cost_usd: maybe_real,
        execution_time: maybe_real,
        deterministic: maybe_truth,
        flags: list,
    }
    beside {
        user_id: text,
        seed: seed,
        cancel: truth,
        attempt: integer,
        last_event: integer,
        price_per_hour: real,
        reserved_usd: real,
        queued_at: integer,
        started_at: maybe_integer,
    }
}

/// Returns a query for submissions with their sources.
pub(super) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS}, s.source FROM submissions s JOIN users u ON u.id = s.user_id {rest}")
}

/// Returns a query for submissions without their sources.
fn select_brief(rest: &str) -> String {
    format!("SELECT {COLUMNS}, '' AS source FROM submissions s JOIN users u ON u.id = s.user_id {rest}")
}

const WAITING: &str =
    "SELECT s.id, s.user_id, u.name AS user_name, u.concurrency, s.problem, s.gpu, s.endpoint, s.queued_at
     FROM submissions s JOIN users u ON u.id = s.user_id WHERE s.state = 'queued' ORDER BY s.queued_at, s.id";

impl Store {
    /// Queues a submission, with its first events.
    pub async fn enqueue(&self, new: &NewSubmission, events: Vec<Event>) -> Result<()> {
        let moment = self.moment();
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO submissions (id, user_id, problem, dtype, gpu, endpoint, source, seed, state, status, emulated,
             last_event, price_per_hour, reserved_usd, created_at, queued_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', $14, $9, $13, $10, $11, $12, $12)",
        )
        .bind(&new.id)
        .bind(&new.user_id)
        .bind(&new.problem)
        .bind(&new.dtype)
        .bind(&new.gpu)
        .bind(new.endpoint.name())
        .bind(&new.source)
        .bind(new.seed.to_string())
        .bind(i64::from(new.emulated))
        .bind(new.price_per_hour)
        .bind(new.reserved_usd)
        .bind(moment)
        .bind(events.len() as i64)
        .bind(Status::InQueue.name())
        .execute(&mut *transaction)
        .await?;
        if let Some(custom) = &new.custom {
            let data = serde_json::to_string(custom).map_err(|error| sqlx::Error::Encode(error.into()))?;
            sqlx::query("INSERT INTO artefacts (submission_id, kind, data) VALUES ($1, 'custom', $2)")
                .bind(&new.id)
                .bind(data)
                .execute(&mut *transaction)
                .await?;
        }
        for (event, number) in events.into_iter().zip(1..) {
            insert_event(&mut transaction, record(&new.id, number, event)).await?;
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
                    endpoint: endpoint(row, "endpoint")?,
                    queued_at: integer(row, "queued_at")?,
                })
            })
            .collect()
    }

    /// Returns the number of waiting submissions.
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
        let row = sqlx::query(&select("WHERE s.id = $1")).bind(id).fetch_one(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(submission(&row)?))
    }

    /// Adds an event to a running submission; `None` if this attempt is no longer the current one.
    pub async fn append(&self, id: &str, attempt: i64, event: Event) -> Result<Option<i64>> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, status = $3
             WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING last_event",
        )
        .bind(id)
        .bind(attempt)
        .bind(event.status().name())
        .fetch_optional(&mut *transaction)
        .await?;
        commit_event(transaction, row, id, event).await
    }

    /// Ends a submission with its terminal event; `None` if it has already ended, or another attempt is running.
    pub async fn finish(&self, id: &str, attempt: i64, ending: Ending) -> Result<Option<i64>> {
        let moment = now();
        let Ending { event, bill, check } = ending;
        let outcome = event.outcome();
        let passed_tests = outcome.passed_tests.or(check.map(|check| check.passed_tests));
        let count = |tests: usize| tests as i64;
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'done', status = $3, finished_at = $4,
             passed_tests = $5, total_tests = $6, avg_runtime_ms = $7, avg_gflops = $8, instructions = $9,
             execution_time = $10, cost_usd = $11, flags = $12, ci_low_ms = $13, ci_high_ms = $14, deterministic = $15,
             reserved_usd = 0
             WHERE id = $1 AND attempt = $2 AND state <> 'done' RETURNING last_event, user_id",
        )
        .bind(id)
        .bind(attempt)
        .bind(event.status().name())
        .bind(moment)
        .bind(passed_tests.map(count))
        .bind(outcome.total_tests.map(count))
        .bind(outcome.avg_runtime_ms)
        .bind(outcome.avg_gflops)
        .bind(outcome.instructions)
        .bind(bill.execution_time)
        .bind(bill.cost_usd)
        .bind(serde_json::to_string(&outcome.flags).unwrap_or_default())
        .bind(outcome.ci_low_ms)
        .bind(outcome.ci_high_ms)
        .bind(outcome.deterministic.map(i64::from))
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let number = integer(&row, "last_event")?;
        let record = EventRecord { bill: Some(bill), check, ..record(id, number, event) };
        insert_event(&mut transaction, record).await?;
        if bill.cost_usd > 0.0 {
            sqlx::query(
                "INSERT INTO charges (submission_id, attempt, user_id, created_at, seconds, usd)
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(id)
            .bind(attempt)
            .bind(text(&row, "user_id")?)
            .bind(moment)
            .bind(bill.execution_time)
            .bind(bill.cost_usd)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(Some(number))
    }

    /// Requeues a running submission at its old position, after its server or device was lost.
    pub async fn requeue(&self, id: &str, attempt: i64, event: Event) -> Result<Option<i64>> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'queued', status = $3, started_at = NULL
             WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING last_event",
        )
        .bind(id)
        .bind(attempt)
        .bind(Status::InQueue.name())
        .fetch_optional(&mut *transaction)
        .await?;
        commit_event(transaction, row, id, event).await
    }

    /// Queues a finished submission to be judged again. Deletes its old events; the numbering continues.
    pub async fn rejudge(&self, id: &str, event: Event) -> Result<()> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE submissions SET last_event = last_event + 1, state = 'queued', status = $3, queued_at = $2,
             attempt = 0, cancel = 0, started_at = NULL, finished_at = NULL, passed_tests = NULL, total_tests = NULL,
             avg_runtime_ms = NULL, ci_low_ms = NULL, ci_high_ms = NULL, avg_gflops = NULL, instructions = NULL,
             execution_time = NULL, deterministic = NULL, flags = '[]'
             WHERE id = $1 AND state = 'done' RETURNING last_event",
        )
        .bind(id)
        .bind(later(&self.queued))
        .bind(Status::InQueue.name())
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = row else {
            return Err(StoreError::Missing("finished submission", id.to_owned()));
        };
        let number = integer(&row, "last_event")?;
        // Inputs that the user chose are used again.
        for table in ["events WHERE", "artefacts WHERE kind <> 'custom' AND"] {
            sqlx::query(&format!("DELETE FROM {table} submission_id = $1"))
                .bind(id)
                .execute(&mut *transaction)
                .await?;
        }
        insert_event(&mut transaction, record(id, number, event)).await?;
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
        let rows = sqlx::query(&select_brief(rest)).fetch_all(&self.pool).await?;
        rows.iter().map(|row| submission(row).map_err(StoreError::from)).collect()
    }

    /// Finds a submission, with its source.
    pub async fn submission(&self, id: &str) -> Result<Submission> {
        let row = sqlx::query(&select("WHERE s.id = $1")).bind(id).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("submission", id.to_owned()))?;
        Ok(submission(&row)?)
    }

    /// Returns a submission without its source.
    pub async fn submission_brief(&self, id: &str) -> Result<Submission> {
        let row = sqlx::query(&select_brief("WHERE s.id = $1")).bind(id).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("submission", id.to_owned()))?;
        Ok(submission(&row)?)
    }

    /// Lists submissions, newest first, without their sources.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Submission>> {
        let mut sql = select_brief("WHERE 1 = 1");
        let mut texts: Vec<&str> = Vec::new();
        for (column, value) in [
            ("s.problem", &filter.problem),
            ("s.status", &filter.status),
            ("s.gpu", &filter.gpu),
            ("s.user_id", &filter.user_id),
            ("u.banned = 0 AND u.name", &filter.user),
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

    /// Makes a submission public or private.
    pub async fn set_public(&self, id: &str, public: bool) -> Result<()> {
        sqlx::query("UPDATE submissions SET public = $2 WHERE id = $1")
            .bind(id)
            .bind(i64::from(public))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Stores the disassembly of a submission.
    pub async fn keep_isa(&self, id: &str, isa: &Isa) -> Result<()> {
        let data = serde_json::to_string(isa).map_err(|error| sqlx::Error::Encode(error.into()))?;
        sqlx::query(
            "INSERT INTO artefacts (submission_id, kind, data) VALUES ($1, 'isa', $2)
             ON CONFLICT (submission_id, kind) DO UPDATE SET data = excluded.data",
        )
        .bind(id)
        .bind(data)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns the disassembly of a submission, as JSON.
    pub async fn isa(&self, id: &str) -> Result<Option<String>> {
        self.artefact(id, "isa").await
    }

    /// Returns the inputs that the user chose for a submission.
    pub async fn custom(&self, id: &str) -> Result<Option<CustomInput>> {
        let Some(data) = self.artefact(id, "custom").await? else { return Ok(None) };
        let custom = serde_json::from_str(&data).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok(Some(custom))
    }

    async fn artefact(&self, id: &str, kind: &str) -> Result<Option<String>> {
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
    event: Event,
) -> Result<Option<i64>> {
    let Some(row) = row else { return Ok(None) };
    let number = integer(&row, "last_event")?;
    insert_event(&mut transaction, record(id, number, event)).await?;
    transaction.commit().await?;
    Ok(Some(number))
}

fn record(id: &str, number: i64, event: Event) -> EventRecord {
    EventRecord {
        event,
        id: Some(number),
        submission_id: id.to_owned(),
        timestamp: now(),
        bill: None,
        check: None,
    }
}

async fn insert_event(
    transaction: &mut sqlx::Transaction<'static, Any>,
    record: EventRecord,
) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO events (submission_id, number, status, data) VALUES ($1, $2, $3, $4)")
        .bind(&record.submission_id)
        .bind(record.id)
        .bind(record.event.status().name())
        .bind(serde_json::to_string(&record).map_err(|error| sqlx::Error::Encode(error.into()))?)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

fn endpoint(row: &AnyRow, column: &str) -> sqlx::Result<Endpoint> {
    named(row, column, Endpoint::from_name)
}

fn status(row: &AnyRow, column: &str) -> sqlx::Result<Status> {
    named(row, column, Status::from_name)
}

fn state(row: &AnyRow, column: &str) -> sqlx::Result<State> {
    named(row, column, State::from_name)
}

fn named<T>(row: &AnyRow, column: &str, find: fn(&str) -> Option<T>) -> sqlx::Result<T> {
    let name = text(row, column)?;
    find(&name).ok_or_else(|| sqlx::Error::Decode(format!("there is no {column} \"{name}\"").into()))
}

fn truth(row: &AnyRow, column: &str) -> sqlx::Result<bool> {
    Ok(integer(row, column)? != 0)
}

fn maybe_truth(row: &AnyRow, column: &str) -> sqlx::Result<Option<bool>> {
    Ok(maybe_integer(row, column)?.map(|truth| truth != 0))
}

fn seed(row: &AnyRow, column: &str) -> sqlx::Result<u64> {
    Ok(text(row, column)?.parse().unwrap_or_default())
}

fn list(row: &AnyRow, column: &str) -> sqlx::Result<Vec<String>> {
    Ok(serde_json::from_str(&text(row, column)?).unwrap_or_default())
}
