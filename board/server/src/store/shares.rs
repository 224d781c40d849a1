//! Share links of submissions.

use super::{Result, Store, Submission, now, submissions, text};

impl Store {
    /// Creates the share link of a submission, with this token, unless there is one. Returns the token of the link.
    pub async fn share(&self, submission: &str, token: &str) -> Result<String> {
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO shares (token, submission_id, created_at) VALUES ($1, $2, $3)
             ON CONFLICT (submission_id) DO NOTHING",
        )
        .bind(token)
        .bind(submission)
        .bind(now())
        .execute(&mut *transaction)
        .await?;
        let row = sqlx::query("SELECT token FROM shares WHERE submission_id = $1")
            .bind(submission)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(text(&row, "token")?)
    }

    /// Revokes the share link of a submission.
    pub async fn unshare(&self, submission: &str) -> Result<()> {
        sqlx::query("DELETE FROM shares WHERE submission_id = $1")
            .bind(submission)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Returns the token of a submission's share link.
    pub async fn share_of(&self, submission: &str) -> Result<Option<String>> {
        let row = sqlx::query("SELECT token FROM shares WHERE submission_id = $1")
            .bind(submission)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| text(&row, "token")).transpose()?)
    }

    /// Returns the submission of a share link, with its source. The links of banned users do not work.
    pub async fn shared(&self, token: &str) -> Result<Option<Submission>> {
        let sql = submissions::select(
            "JOIN shares h ON h.submission_id = s.id WHERE h.token = $1 AND u.banned = 0",
        );
        let row = sqlx::query(&sql).bind(token).fetch_optional(&self.pool).await?;
        Ok(row.as_ref().map(submissions::submission).transpose()?)
    }
}
