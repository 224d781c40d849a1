//! The database: SQLite in a file, or PostgreSQL by a URL, with one text of SQL for both.
//!
//! Everything that must survive is here, and what must be true of it together is written in one transaction. Knows nothing of
//! HTTP, processes or devices.

mod accounts;
mod boards;
mod submissions;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{AnyPool, Executor};

pub use accounts::{Key, User};
pub use boards::{Entry, ProblemCount};
pub use submissions::{Filter, Finish, NewSubmission, State, StoredEvent, Submission, Waiting};

/// A PostgreSQL session lock of this number is held by the one server that works on a database.
const SERVER_LOCK: i64 = 0x0072_656d_6f72_6100;

/// What goes wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("the database cannot be brought up to date")]
    Migration(#[from] sqlx::migrate::MigrateError),
    #[error("there is already a {0} named \"{1}\"")]
    Exists(&'static str, String),
    #[error("there is no {0} \"{1}\"")]
    Missing(&'static str, String),
    #[error("another server is working on this database")]
    InUse,
    #[error("\"{0}\" is no database: write sqlite:///path/to/file or postgres://user@host/name")]
    Url(String),
}

type Result<T> = std::result::Result<T, StoreError>;

/// A pool of connections to the one database.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
    sqlite: bool,
    /// When something was last put into the queue.
    queued: Arc<AtomicI64>,
}

impl Store {
    /// The URL of an SQLite file.
    pub fn file_url(path: &Path) -> String {
        format!("sqlite://{}", path.display())
    }

    /// Opens a database, creating and updating its tables.
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
                        // A write-ahead log lets readers go on beside the writer. It is written to the disk at checkpoints: a
                        // killed server loses nothing, a machine that loses power may lose its last moments, never more.
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
        sqlx::migrate!("./migrations").run(&pool).await?;
        Ok(Store { pool, sqlite, queued: Arc::default() })
    }

    /// Makes this the only server of the database for as long as the guard lives. A file is guarded by its folder's lock.
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

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Begins a transaction that will write. SQLite gives up a read transaction that wants to write later; one that starts
    /// with a write waits its turn, so every such transaction here starts with its write.
    async fn begin(&self) -> Result<sqlx::Transaction<'static, sqlx::Any>> {
        Ok(self.pool.begin().await?)
    }
}

/// Held by the server that works on a PostgreSQL database.
#[derive(Debug)]
pub struct ServerLock {
    _connection: sqlx::AnyConnection,
}

/// Now, in milliseconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The present, but later than ever before: what was put into the queue one after another keeps its order, however fast that was.
fn later(last: &AtomicI64) -> i64 {
    let present = now();
    let after = |last: i64| present.max(last + 1);
    let last = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
    last.map_or(present, after)
}

/// The start of the present day (UTC).
pub fn today(now: i64) -> i64 {
    now - now.rem_euclid(86_400_000)
}

fn text(row: &AnyRow, column: &str) -> sqlx::Result<String> {
    sqlx::Row::try_get(row, column)
}

/// Some expressions have 32 bits in PostgreSQL.
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
