//! The migrations of the database schema, embedded into the program.
//!
//! `sqlx::migrate!` would do the same, but its macro crate compiles every database driver a second time for the build machine:
//! a minute of each cold build on two cores.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, MigrationSource, MigrationType};

/// File names and texts, in order. The database records each one's checksum: never change a released file, add another.
const FILES: [(i64, &str, &str); 5] = [
    (1, "board", include_str!("../../migrations/0001_board.sql")),
    (2, "intervals", include_str!("../../migrations/0002_intervals.sql")),
    (3, "shares", include_str!("../../migrations/0003_shares.sql")),
    (4, "discussion", include_str!("../../migrations/0004_discussion.sql")),
    (5, "login", include_str!("../../migrations/0005_login.sql")),
];

/// Source of the embedded migrations.
#[derive(Debug)]
pub(super) struct Migrations;

impl MigrationSource<'static> for Migrations {
    fn resolve(self) -> BoxFuture<'static, Result<Vec<Migration>, BoxDynError>> {
        let migrations = FILES.map(|(version, name, sql)| {
            Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, Cow::Borrowed(sql), false)
        });
        Box::pin(std::future::ready(Ok(migrations.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Row;

    #[tokio::test]
    async fn every_migration_file_is_embedded_under_its_number_and_name() {
        let embedded = Migrations.resolve().await.unwrap();
        let embedded: Vec<_> =
            embedded.iter().map(|it| format!("{:04}_{}.sql", it.version, it.description)).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(embedded, files);
    }

    #[tokio::test]
    async fn honest_submissions_lose_the_flag_that_they_are_not_deterministic() {
        sqlx::any::install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("board.sqlite").display());
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        sqlx::raw_sql(FILES[0].2).execute(&pool).await.unwrap();
        sqlx::query("INSERT INTO users (id, name, created_at) VALUES ('u', 'u', 0)")
            .execute(&pool)
            .await
            .unwrap();
        let (random, fast) = ("not-deterministic: n=4 gave", "faster-than-hardware: n=4 took");
        for (id, status, flags) in [
            ("clean", "BENCHMARKED", vec![]),
            ("random", "BENCHMARKED", vec![random, random]),
            ("both", "BENCHMARKED", vec![random, fast]),
            ("fast", "BENCHMARKED", vec![fast]),
            ("wrong", "WRONG_ANSWER", vec![]),
        ] {
            sqlx::query(
                "INSERT INTO submissions (id, user_id, problem, dtype, gpu, endpoint, source, seed, state, status, emulated,
                 price_per_hour, created_at, queued_at, flags)
                 VALUES ($1, 'u', 'relu', 'float32', 'MI300X', 'full', '', '0', 'done', $2, 0, 0, 0, 0, $3)",
            )
            .bind(id)
            .bind(status)
            .bind(serde_json::to_string(&flags).unwrap())
            .execute(&pool)
            .await
            .unwrap();
        }
        sqlx::raw_sql(FILES[1].2).execute(&pool).await.unwrap();
        let rows = sqlx::query("SELECT id, deterministic, flags FROM submissions ORDER BY id")
            .fetch_all(&pool)
            .await
            .unwrap();
        let found: Vec<(String, Option<i64>, bool)> = rows
            .iter()
            .map(|row| (row.get("id"), row.get("deterministic"), row.get::<String, _>("flags") == "[]"))
            .collect();
        let expected = [
            ("both", Some(0), false),
            ("clean", Some(1), true),
            ("fast", Some(1), false),
            ("random", Some(0), true),
            ("wrong", None, true),
        ];
        assert_eq!(found, expected.map(|(id, truth, unflagged)| (id.to_owned(), truth, unflagged)));
    }
}
