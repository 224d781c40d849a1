//! Users, their API keys and their spending.

use sqlx::any::AnyRow;

use super::{Result, Store, StoreError, integer, maybe_integer, maybe_real, now, real, text};

/// A user.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Id of the user.
    pub id: String,
    /// Name, unique.
    pub name: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Whether all requests are refused.
    pub banned: bool,
    /// Whether the user writes editorials and removes comments of others.
    pub moderator: bool,
    /// Daily budget; `None` for no limit.
    pub daily_budget_usd: Option<f64>,
    /// Highest allowed device price, in dollars per hour.
    pub max_price_usd: Option<f64>,
    /// Submissions per minute; `None` for the server's default, as in the following limits.
    pub per_minute: Option<i64>,
    /// Submissions per day.
    pub per_day: Option<i64>,
    /// Submissions that run at the same time.
    pub concurrency: Option<i64>,
}

/// A stored API key: the hash, never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Public part of the key, unique.
    pub prefix: String,
    /// The owner.
    pub user_id: String,
    /// Hash of the secret part.
    pub hash: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When the key was revoked.
    pub revoked_at: Option<i64>,
}

impl Store {
    /// Creates a user.
    pub async fn add_user(&self, user: &User) -> Result<()> {
        let done = sqlx::query(
            "INSERT INTO users (id, name, created_at, daily_budget_usd, max_price_usd, per_minute, per_day, concurrency)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
        )
        .bind(&user.id)
        .bind(&user.name)
        .bind(user.created_at)
        .bind(user.daily_budget_usd)
        .bind(user.max_price_usd)
        .bind(user.per_minute)
        .bind(user.per_day)
        .bind(user.concurrency)
        .execute(&self.pool)
        .await?;
        if done.rows_affected() == 0 {
            return Err(StoreError::Exists("user", user.name.clone()));
        }
        Ok(())
    }

    /// Sets the limits of a user.
    pub async fn set_limits(&self, user: &User) -> Result<()> {
        let done = sqlx::query(
            "UPDATE users SET daily_budget_usd = $2, max_price_usd = $3, per_minute = $4, per_day = $5, concurrency = $6
             WHERE id = $1",
        )
        .bind(&user.id)
        .bind(user.daily_budget_usd)
        .bind(user.max_price_usd)
        .bind(user.per_minute)
        .bind(user.per_day)
        .bind(user.concurrency)
        .execute(&self.pool)
        .await?;
        found(done.rows_affected(), "user", &user.name)
    }

    /// Returns all users.
    pub async fn users(&self) -> Result<Vec<User>> {
        let rows = sqlx::query("SELECT * FROM users ORDER BY name").fetch_all(&self.pool).await?;
        rows.iter().map(|row| user(row).map_err(StoreError::from)).collect()
    }

    /// Finds a user by name.
    pub async fn user_named(&self, name: &str) -> Result<User> {
        let row =
            sqlx::query("SELECT * FROM users WHERE name = $1").bind(name).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("user", name.to_owned()))?;
        Ok(user(&row)?)
    }

    /// Finds a user by id.
    pub async fn user(&self, id: &str) -> Result<User> {
        let row =
            sqlx::query("SELECT * FROM users WHERE id = $1").bind(id).fetch_optional(&self.pool).await?;
        let row = row.ok_or_else(|| StoreError::Missing("user", id.to_owned()))?;
        Ok(user(&row)?)
    }

    /// Bans a user and cancels the user's waiting and running submissions, or lifts a ban.
    pub async fn set_banned(&self, name: &str, banned: bool) -> Result<()> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query("UPDATE users SET banned = $2 WHERE name = $1")
            .bind(name)
            .bind(i64::from(banned))
            .execute(&mut *transaction)
            .await?;
        found(done.rows_affected(), "user", name)?;
        if banned {
            sqlx::query(
                "UPDATE submissions SET cancel = 1 WHERE state <> 'done' AND user_id = (SELECT id FROM users WHERE name = $1)",
            )
            .bind(name)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Makes a user a moderator, or no longer.
    pub async fn set_moderator(&self, name: &str, moderator: bool) -> Result<()> {
        let done = sqlx::query("UPDATE users SET moderator = $2 WHERE name = $1")
            .bind(name)
            .bind(i64::from(moderator))
            .execute(&self.pool)
            .await?;
        found(done.rows_affected(), "user", name)
    }

    /// Returns whether there are users besides this one.
    pub async fn has_users_besides(&self, name: &str) -> Result<bool> {
        let row = sqlx::query("SELECT COUNT(*) AS n FROM users WHERE name <> $1")
            .bind(name)
            .fetch_one(&self.pool)
            .await?;
        Ok(integer(&row, "n")? > 0)
    }

    /// Stores a key.
    pub async fn add_key(&self, key: &Key) -> Result<()> {
        sqlx::query("INSERT INTO keys (prefix, user_id, hash, created_at) VALUES ($1, $2, $3, $4)")
            .bind(&key.prefix)
            .bind(&key.user_id)
            .bind(&key.hash)
            .bind(key.created_at)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Finds a key by its prefix.
    pub async fn key(&self, prefix: &str) -> Result<Option<Key>> {
        let row = sqlx::query("SELECT * FROM keys WHERE prefix = $1")
            .bind(prefix)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(key).transpose()?)
    }

    /// Returns the keys of a user, oldest first.
    pub async fn keys_of(&self, user: &str) -> Result<Vec<Key>> {
        let rows = sqlx::query("SELECT * FROM keys WHERE user_id = $1 ORDER BY created_at, prefix")
            .bind(user)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| key(row).map_err(StoreError::from)).collect()
    }

    /// Revokes the key with this prefix if it belongs to this user.
    pub async fn revoke_key_of(&self, user: &str, prefix: &str) -> Result<()> {
        let done = sqlx::query(
            "UPDATE keys SET revoked_at = $3 WHERE prefix = $1 AND user_id = $2 AND revoked_at IS NULL",
        )
        .bind(prefix)
        .bind(user)
        .bind(now())
        .execute(&self.pool)
        .await?;
        found(done.rows_affected(), "key in use with the prefix", prefix)
    }

    /// Revokes the key with this prefix.
    pub async fn revoke_key(&self, prefix: &str) -> Result<()> {
        let done = sqlx::query("UPDATE keys SET revoked_at = $2 WHERE prefix = $1 AND revoked_at IS NULL")
            .bind(prefix)
            .bind(now())
            .execute(&self.pool)
            .await?;
        found(done.rows_affected(), "key in use with the prefix", prefix)
    }

    /// Returns the user's spending since a time.
    pub async fn spent(&self, user: &str, since: i64) -> Result<f64> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(usd), 0) AS DOUBLE PRECISION) AS usd FROM charges
             WHERE user_id = $1 AND created_at >= $2",
        )
        .bind(user)
        .bind(since)
        .fetch_one(&self.pool)
        .await?;
        Ok(real(&row, "usd")?)
    }

    /// Returns the budget reserved for the user's unfinished submissions.
    pub async fn reserved(&self, user: &str) -> Result<f64> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(reserved_usd), 0) AS DOUBLE PRECISION) AS usd FROM submissions
             WHERE user_id = $1 AND state <> 'done'",
        )
        .bind(user)
        .fetch_one(&self.pool)
        .await?;
        Ok(real(&row, "usd")?)
    }

    /// Returns the number of the user's submissions since a time, and the time of the first of them.
    pub async fn submitted(&self, user: &str, since: i64) -> Result<(i64, Option<i64>)> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS n, MIN(created_at) AS first FROM submissions WHERE user_id = $1 AND created_at > $2",
        )
        .bind(user)
        .bind(since)
        .fetch_one(&self.pool)
        .await?;
        Ok((integer(&row, "n")?, maybe_integer(&row, "first")?))
    }

    /// Stops starting submissions on a device, or starts again.
    pub async fn set_drained(&self, gpu: &str, drained: bool) -> Result<()> {
        let query = if drained {
            sqlx::query("INSERT INTO drained (gpu, since) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(gpu)
                .bind(now())
        } else {
            sqlx::query("DELETE FROM drained WHERE gpu = $1").bind(gpu)
        };
        query.execute(&self.pool).await?;
        Ok(())
    }

    /// Returns the devices on which nothing is started.
    pub async fn drained(&self) -> Result<Vec<String>> {
        let rows = sqlx::query("SELECT gpu FROM drained ORDER BY gpu").fetch_all(&self.pool).await?;
        rows.iter().map(|row| text(row, "gpu").map_err(StoreError::from)).collect()
    }
}

fn found(rows: u64, what: &'static str, name: &str) -> Result<()> {
    if rows == 0 { Err(StoreError::Missing(what, name.to_owned())) } else { Ok(()) }
}

pub(super) fn user(row: &AnyRow) -> sqlx::Result<User> {
    Ok(User {
        id: text(row, "id")?,
        name: text(row, "name")?,
        created_at: integer(row, "created_at")?,
        banned: integer(row, "banned")? != 0,
        moderator: integer(row, "moderator")? != 0,
        daily_budget_usd: maybe_real(row, "daily_budget_usd")?,
        max_price_usd: maybe_real(row, "max_price_usd")?,
        per_minute: maybe_integer(row, "per_minute")?,
        per_day: maybe_integer(row, "per_day")?,
        concurrency: maybe_integer(row, "concurrency")?,
    })
}

fn key(row: &AnyRow) -> sqlx::Result<Key> {
    Ok(Key {
        prefix: text(row, "prefix")?,
        user_id: text(row, "user_id")?,
        hash: text(row, "hash")?,
        created_at: integer(row, "created_at")?,
        revoked_at: maybe_integer(row, "revoked_at")?,
    })
}
