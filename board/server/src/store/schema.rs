//! The migrations of the database schema, embedded into the program.
//!
//! `sqlx::migrate!` would do the same, but its macro crate compiles every database driver a second time for the build machine:
//! a minute of each cold build on two cores.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, MigrationSource, MigrationType};

/// File names and texts, in order. The database records each one's checksum: never change a released file, add another.
const FILES: [(i64, &str, &str); 1] = [(1, "board", include_str!("../../migrations/0001_board.sql"))];

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
}
