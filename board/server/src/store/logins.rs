//! Logins of people: accounts at login providers, browsers that are logged in, and links that log a browser in once.

use super::accounts::user;
use super::{Result, Store, StoreError, User, integer, now, text};

/// Browsers of one user that are logged in at the same time. The oldest one is logged out.
const BROWSERS: i64 = 20;

impl Store {
    /// Returns the user of an account at a login provider.
    pub async fn user_of_identity(&self, issuer: &str, subject: &str) -> Result<Option<User>> {
        let row = sqlx::query(
            "SELECT u.* FROM identities i JOIN users u ON u.id = i.user_id WHERE i.issuer = $1 AND i.subject = $2",
        )
        .bind(issuer)
        .bind(subject)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(user).transpose()?)
    }

    /// Adds an account at a login provider to a user.
    pub async fn add_identity(&self, user: &str, issuer: &str, subject: &str) -> Result<()> {
        let done = sqlx::query(
            "INSERT INTO identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        )
        .bind(issuer)
        .bind(subject)
        .bind(user)
        .bind(now())
        .execute(&self.pool)
        .await?;
        match done.rows_affected() {
            0 => Err(StoreError::Exists("linked account", subject.to_owned())),
            _ => Ok(()),
        }
    }

    /// Creates a user with an account at a login provider: both or neither. The name must differ from others in more than its case.
    pub async fn register(&self, new: &User, issuer: &str, subject: &str) -> Result<()> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query(
            "INSERT INTO users (id, name, created_at, daily_budget_usd, max_price_usd)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        )
        .bind(&new.id)
        .bind(&new.name)
        .bind(new.created_at)
        .bind(new.daily_budget_usd)
        .bind(new.max_price_usd)
        .execute(&mut *transaction)
        .await?;
        let row = sqlx::query("SELECT COUNT(*) AS n FROM users WHERE LOWER(name) = LOWER($1)")
            .bind(&new.name)
            .fetch_one(&mut *transaction)
            .await?;
        if done.rows_affected() == 0 || integer(&row, "n")? > 1 {
            return Err(StoreError::Exists("user", new.name.clone()));
        }
        let done = sqlx::query(
            "INSERT INTO identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        )
        .bind(issuer)
        .bind(subject)
        .bind(&new.id)
        .bind(new.created_at)
        .execute(&mut *transaction)
        .await?;
        if done.rows_affected() == 0 {
            return Err(StoreError::Exists("linked account", subject.to_owned()));
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the issuers of a user's accounts at login providers.
    pub async fn issuers_of(&self, user: &str) -> Result<Vec<String>> {
        let rows = sqlx::query("SELECT issuer FROM identities WHERE user_id = $1 ORDER BY issuer")
            .bind(user)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| text(row, "issuer").map_err(StoreError::from)).collect()
    }

    /// Removes a user's accounts at a login provider.
    pub async fn remove_identity(&self, user: &str, issuer: &str) -> Result<()> {
        sqlx::query("DELETE FROM identities WHERE user_id = $1 AND issuer = $2")
            .bind(user)
            .bind(issuer)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Stores that a browser is logged in, and removes what has expired.
    pub async fn add_login(&self, hash: &str, user: &str, expires_at: i64) -> Result<()> {
        let mut transaction = self.begin().await?;
        let moment = now();
        sqlx::query("DELETE FROM logins WHERE expires_at <= $1")
            .bind(moment)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO logins (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)")
            .bind(hash)
            .bind(user)
            .bind(moment)
            .bind(expires_at)
            .execute(&mut *transaction)
            .await?;
        // Two logins within a millisecond have no order, but the new one stays.
        sqlx::query(
            "DELETE FROM logins WHERE user_id = $1 AND hash <> $2 AND hash NOT IN
             (SELECT hash FROM logins WHERE user_id = $1 AND hash <> $2 ORDER BY created_at DESC, hash LIMIT $3)",
        )
        .bind(user)
        .bind(hash)
        .bind(BROWSERS - 1)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the user of a browser that is logged in.
    pub async fn user_of_login(&self, hash: &str) -> Result<Option<User>> {
        let row = sqlx::query(
            "SELECT u.* FROM logins l JOIN users u ON u.id = l.user_id WHERE l.hash = $1 AND l.expires_at > $2",
        )
        .bind(hash)
        .bind(now())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(user).transpose()?)
    }

    /// Returns the number of a user's browsers that are logged in.
    pub async fn logins_of(&self, user: &str) -> Result<i64> {
        let row = sqlx::query("SELECT COUNT(*) AS n FROM logins WHERE user_id = $1 AND expires_at > $2")
            .bind(user)
            .bind(now())
            .fetch_one(&self.pool)
            .await?;
        Ok(integer(&row, "n")?)
    }

    /// Logs one browser out.
    pub async fn remove_login(&self, hash: &str) -> Result<()> {
        sqlx::query("DELETE FROM logins WHERE hash = $1").bind(hash).execute(&self.pool).await?;
        Ok(())
    }

    /// Logs all browsers of a user out and removes the user's login links.
    pub async fn remove_logins(&self, user: &str) -> Result<()> {
        let mut transaction = self.begin().await?;
        for table in ["DELETE FROM logins WHERE user_id = $1", "DELETE FROM login_links WHERE user_id = $1"] {
            sqlx::query(table).bind(user).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Stores a login link, and removes those that have expired.
    pub async fn add_login_link(&self, hash: &str, user: &str, expires_at: i64) -> Result<()> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM login_links WHERE expires_at <= $1")
            .bind(now())
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "INSERT INTO login_links (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)",
        )
        .bind(hash)
        .bind(user)
        .bind(now())
        .bind(expires_at)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the user of a login link that is still valid.
    pub async fn user_of_login_link(&self, hash: &str) -> Result<Option<User>> {
        let row = sqlx::query(
            "SELECT u.* FROM login_links l JOIN users u ON u.id = l.user_id WHERE l.hash = $1 AND l.expires_at > $2",
        )
        .bind(hash)
        .bind(now())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(user).transpose()?)
    }

    /// Uses a login link up; false if it was used before or has expired. Of concurrent requests one succeeds.
    pub async fn use_login_link(&self, hash: &str) -> Result<bool> {
        let done = sqlx::query("DELETE FROM login_links WHERE hash = $1 AND expires_at > $2")
            .bind(hash)
            .bind(now())
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}
