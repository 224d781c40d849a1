//! The database: an SQLite file or PostgreSQL, with the same SQL for both.
//!
//! All persistent state is here, and changes that belong together are made in one transaction. The module does not handle HTTP, processes
//! or devices.

mod accounts;
mod boards;
mod discussion;
mod logins;
mod schema;
mod shares;
mod submissions;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::migrate::Migrator;
use sqlx::{AnyPool, Executor};

pub use accounts::{Key, User};
pub use boards::{Activity, BestResult, ProblemCount};
pub use discussion::{StoredComment, StoredEditorial};
pub use submissions::{Ending, Filter, NewSubmission, StoredEvent, Submission, Waiting};

/// Number of the PostgreSQL advisory lock that the active server of a database holds.
const SERVER_LOCK: i64 = 0x0072_656d_6f72_6100;

/// Database error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A query failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// The schema could not be migrated.
    #[error("migrating the database schema failed")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// There is already such a thing: its kind and its name.
    #[error("there is already a {0} named \"{1}\"")]
    Exists(&'static str, String),
    /// There is no such thing: its kind and its name.
    #[error("there is no {0} \"{1}\"")]
    Missing(&'static str, String),
    /// Another server uses the database.
    #[error("another server is working on this database")]
    InUse,
    /// The URL names no supported database.
    #[error("\"{0}\" is not a database URL: use sqlite:///path/to/file or postgres://user@host/name")]
    Url(String),
}

type Result<T> = std::result::Result<T, StoreError>;

/// Connection pool of the database.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
    sqlite: bool,
    /// Time at which a submission was last queued.
    queued: Arc<AtomicI64>,
}

impl Store {
    /// Returns the URL of an SQLite file.
    pub fn file_url(path: &Path) -> String {
        format!("sqlite://{}", path.display())
    }

    /// Opens a database and migrates its schema.
    pub async fn open(url: &str) -> Result<Store> {
        sqlx::any::install_default_drivers();
        let sqlite = url.starts_with("sqlite:");
        if !sqlite && !url.starts_with("postgres:") && !url.starts_with("postgresql:") {
            return Err(StoreError::Url(url.to_owned()));
        }
        let url = if sqlite && !url.contains("mode=") {
            format!("{url}{}mode=rwc", if url.contains('?') { '&' } else { '?' })
        } else {
            url.to_owned()
        };
        let options = AnyConnectOptions::from_str(&url)?;
        let pool = AnyPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(Duration::from_secs(30))
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if sqlite {
                        // A write-ahead log lets readers proceed alongside the writer. It is synced at checkpoints: a killed
                        // server loses nothing; a power failure may lose the most recent transactions, but nothing else.
                        for pragma in [
                            "PRAGMA busy_timeout = 20000",
                            "PRAGMA journal_mode = WAL",
                            "PRAGMA synchronous = NORMAL",
                            "PRAGMA foreign_keys = ON",
                        ] {
                            connection.execute(pragma).await?;
                        }
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await?;
        Migrator::new(schema::Migrations).await?.run(&pool).await?;
        Ok(Store { pool, sqlite, queued: Arc::default() })
    }

    /// Locks the database against other servers as long as the guard exists. An SQLite file is protected by its folder's lock instead.
    pub async fn serve_alone(&self) -> Result<Option<ServerLock>> {
        if self.sqlite {
            return Ok(None);
        }
        let mut connection = self.pool.acquire().await?.detach();
        let row = sqlx::query("SELECT CASE WHEN pg_try_advisory_lock($1) THEN 1 ELSE 0 END AS taken")
            .bind(SERVER_LOCK)
            .fetch_one(&mut connection)
            .await?;
        match integer(&row, "taken")? {
            1 => Ok(Some(ServerLock { _connection: connection })),
            _ => Err(StoreError::InUse),
        }
    }

    /// Checks that the database answers.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Returns the current time, made strictly increasing, so that what happens within one millisecond keeps its order.
    pub fn moment(&self) -> i64 {
        later(&self.queued)
    }

    /// Begins a write transaction. Its first statement must be a write: SQLite fails a read transaction that writes later, whereas one that
    /// starts with a write waits for its turn.
    async fn begin(&self) -> Result<sqlx::Transaction<'static, sqlx::Any>> {
        Ok(self.pool.begin().await?)
    }
}

/// Advisory lock of the active server of a PostgreSQL database.
#[derive(Debug)]
pub struct ServerLock {
    _connection: sqlx::AnyConnection,
}

/// Returns the current time in milliseconds since the Unix epoch.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Returns the current time, made strictly increasing, so that submissions queued within one millisecond keep their order.
fn later(last: &AtomicI64) -> i64 {
    let present = now();
    let after = |last: i64| present.max(last + 1);
    let last = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
    last.map_or(present, after)
}

/// Returns the start of the current day (UTC).
pub fn today(now: i64) -> i64 {
    now - now.rem_euclid(86_400_000)
}

fn text(row: &AnyRow, column: &str) -> sqlx::Result<String> {
    sqlx::Row::try_get(row, column)
}

/// Reads an integer column. Some expressions have 32 bits in PostgreSQL.
fn integer(row: &AnyRow, column: &str) -> sqlx::Result<i64> {
    sqlx::Row::try_get::<i64, _>(row, column)
        .or_else(|_| sqlx::Row::try_get::<i32, _>(row, column).map(i64::from))
}

fn maybe_integer(row: &AnyRow, column: &str) -> sqlx::Result<Option<i64>> {
    sqlx::Row::try_get(row, column)
}

fn real(row: &AnyRow, column: &str) -> sqlx::Result<f64> {
    sqlx::Row::try_get(row, column)
}

fn maybe_real(row: &AnyRow, column: &str) -> sqlx::Result<Option<f64>> {
    sqlx::Row::try_get(row, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_within_one_millisecond_keeps_its_order() {
        let last = AtomicI64::new(0);
        let moments: Vec<i64> = (0..1000).map(|_| later(&last)).collect();
        assert!(moments.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(moments[0] >= now() - 60_000);
    }
}
