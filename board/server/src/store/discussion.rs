//! Comments and editorials of problems.

use sqlx::any::AnyRow;

use super::{Result, Store, StoreError, integer, maybe_integer, now, text};

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredComment {
    /// Id of the comment.
    pub id: String,
    /// Slug of the problem.
    pub problem: String,
    /// The author.
    pub user_id: String,
    /// Name of the author.
    pub user: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// The text.
    pub markdown: String,
}

/// An editorial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEditorial {
    /// Name of the last author.
    pub user: String,
    /// Milliseconds since the Unix epoch.
    pub updated_at: i64,
    /// The text.
    pub markdown: String,
}

/// Comments that are shown: neither removed nor of banned users.
const SHOWN: &str =
    "FROM comments c JOIN users u ON u.id = c.user_id WHERE c.removed_at IS NULL AND u.banned = 0";

impl Store {
    /// Stores a comment.
    pub async fn add_comment(&self, comment: &StoredComment) -> Result<()> {
        sqlx::query(
            "INSERT INTO comments (id, problem, user_id, created_at, markdown) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&comment.id)
        .bind(&comment.problem)
        .bind(&comment.user_id)
        .bind(comment.created_at)
        .bind(&comment.markdown)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns the comments on a problem, newest first, at most `limit` of those older than `before` (creation time and id).
    pub async fn comments(
        &self,
        problem: &str,
        before: Option<&(i64, String)>,
        limit: i64,
    ) -> Result<Vec<StoredComment>> {
        let older = before.map_or("", |_| "AND (c.created_at < $3 OR (c.created_at = $3 AND c.id < $4))");
        let sql = format!(
            "SELECT c.*, u.name AS user_name {SHOWN} AND c.problem = $1 {older} ORDER BY c.created_at DESC, c.id DESC LIMIT $2"
        );
        let mut query = sqlx::query(&sql).bind(problem).bind(limit);
        if let Some((time, id)) = before {
            query = query.bind(*time).bind(id);
        }
        let rows = query.fetch_all(&self.pool).await?;
        rows.iter().map(|row| comment(row).map_err(StoreError::from)).collect()
    }

    /// Returns the number of comments on a problem.
    pub async fn comment_count(&self, problem: &str) -> Result<i64> {
        let sql = format!("SELECT COUNT(*) AS n {SHOWN} AND c.problem = $1");
        let row = sqlx::query(&sql).bind(problem).fetch_one(&self.pool).await?;
        Ok(integer(&row, "n")?)
    }

    /// Finds a comment that is shown.
    pub async fn comment(&self, id: &str) -> Result<StoredComment> {
        let sql = format!("SELECT c.*, u.name AS user_name {SHOWN} AND c.id = $1");
        let row = sqlx::query(&sql).bind(id).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("comment", id.to_owned()))?;
        Ok(comment(&row)?)
    }

    /// Removes a comment: deletes its text, and records who removed it.
    pub async fn remove_comment(&self, id: &str, by: &str) -> Result<()> {
        sqlx::query(
            "UPDATE comments SET markdown = '', removed_by = $2, removed_at = $3 WHERE id = $1 AND removed_at IS NULL",
        )
        .bind(id)
        .bind(by)
        .bind(now())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns the number of comments of a user since a time, removed ones included, and the time of the first of them.
    pub async fn commented(&self, user: &str, since: i64) -> Result<(i64, Option<i64>)> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS n, MIN(created_at) AS first FROM comments WHERE user_id = $1 AND created_at > $2",
        )
        .bind(user)
        .bind(since)
        .fetch_one(&self.pool)
        .await?;
        Ok((integer(&row, "n")?, maybe_integer(&row, "first")?))
    }

    /// Returns the editorial of a problem.
    pub async fn editorial(&self, problem: &str) -> Result<Option<StoredEditorial>> {
        let row = sqlx::query(
            "SELECT e.*, u.name AS user_name FROM editorials e JOIN users u ON u.id = e.user_id WHERE e.problem = $1",
        )
        .bind(problem)
        .fetch_optional(&self.pool)
        .await?;
        let editorial = |row: &AnyRow| {
            Ok(StoredEditorial {
                user: text(row, "user_name")?,
                updated_at: integer(row, "updated_at")?,
                markdown: text(row, "markdown")?,
            })
        };
        row.as_ref().map(editorial).transpose()
    }

    /// Replaces the editorial of a problem; an empty text removes it.
    pub async fn set_editorial(&self, problem: &str, user: &str, markdown: &str) -> Result<()> {
        if markdown.is_empty() {
            sqlx::query("DELETE FROM editorials WHERE problem = $1")
                .bind(problem)
                .execute(&self.pool)
                .await?;
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO editorials (problem, user_id, updated_at, markdown) VALUES ($1, $2, $3, $4)
             ON CONFLICT (problem) DO UPDATE SET user_id = excluded.user_id, updated_at = excluded.updated_at,
             markdown = excluded.markdown",
        )
        .bind(problem)
        .bind(user)
        .bind(now())
        .bind(markdown)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

fn comment(row: &AnyRow) -> sqlx::Result<StoredComment> {
    Ok(StoredComment {
        id: text(row, "id")?,
        problem: text(row, "problem")?,
        user_id: text(row, "user_id")?,
        user: text(row, "user_name")?,
        created_at: integer(row, "created_at")?,
        markdown: text(row, "markdown")?,
    })
}
