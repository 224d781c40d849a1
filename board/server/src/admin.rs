//! Commands of `remora board`: changes to the database, which a running server picks up.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use board_contract::{Endpoint, Event, State};
use tokio::runtime::Runtime;

use crate::accounts;
use crate::login::{Cookie, link_hash};
use crate::queue::{self, Turns};
use crate::serve::ServeError;
use crate::store::{Filter, Store, StoreError, Submission, User, now, today};

/// Error of an administration command.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The async runtime could not be started.
    #[error(transparent)]
    Runtime(#[from] ServeError),
    /// The name has characters that names must not have.
    #[error("\"{0}\" is not a valid name: use 1 to 40 letters, digits, dots, dashes and underscores")]
    Name(String),
    /// The name is reserved.
    #[error("\"{0}\" is reserved for requests without a key")]
    Reserved(String),
    /// The user cannot log in.
    #[error("{0} is banned; lift the ban first: remora board unban {0}")]
    Banned(String),
}

type Result<T> = std::result::Result<T, AdminError>;

/// Limits of a user; `None` leaves a limit unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserLimits {
    /// Daily budget.
    pub daily_budget_usd: Option<f64>,
    /// Highest allowed device price, in dollars per hour.
    pub max_price_usd: Option<f64>,
    /// Submissions per minute.
    pub per_minute: Option<i64>,
    /// Submissions per day.
    pub per_day: Option<i64>,
    /// Submissions that run at the same time.
    pub concurrency: Option<i64>,
}

/// An open database.
#[derive(Debug)]
pub struct Admin {
    runtime: Runtime,
    store: Store,
}

impl Admin {
    /// Returns the URL of the database file in a board's folder.
    pub fn file_url(folder: &Path) -> String {
        Store::file_url(&folder.join("board.sqlite"))
    }

    /// Opens a database.
    pub fn open(url: &str) -> Result<Admin> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Runtime)?;
        let store = runtime.block_on(Store::open(url))?;
        Ok(Admin { runtime, store })
    }

    /// Creates a user.
    pub fn add_user(&self, name: &str, limits: &UserLimits) -> Result<()> {
        if !accounts::valid_name(name) {
            return Err(AdminError::Name(name.to_owned()));
        }
        if name == accounts::LOCAL {
            return Err(AdminError::Reserved(name.to_owned()));
        }
        let user = limits.over(accounts::new_user(name));
        Ok(self.runtime.block_on(self.store.add_user(&user))?)
    }

    /// Changes the limits of a user.
    pub fn set_user(&self, name: &str, limits: &UserLimits) -> Result<()> {
        self.runtime.block_on(async {
            let user = limits.over(self.store.user_named(name).await?);
            Ok(self.store.set_limits(&user).await?)
        })
    }

    /// Returns a table of users.
    pub fn users(&self) -> Result<String> {
        self.runtime.block_on(async {
            let mut text = format!(
                "{:<20} {:>7} {:>12} {:>10} {:>12} {:>7}\n",
                "NAME", "BANNED", "BUDGET/DAY", "SPENT", "MAX PRICE/H", "KEYS"
            );
            let usd = |amount: Option<f64>| amount.map_or("-".to_owned(), |usd| format!("${usd:.2}"));
            for user in self.store.users().await? {
                let spent = self.store.spent(&user.id, today(now())).await?;
                let keys = self.store.keys_of(&user.id).await?;
                let keys = keys.iter().filter(|key| key.revoked_at.is_none()).count();
                let _ = writeln!(
                    text,
                    "{:<20} {:>7} {:>12} {:>10} {:>12} {keys:>7}",
                    user.name,
                    if user.banned { "yes" } else { "no" },
                    usd(user.daily_budget_usd),
                    format!("${spent:.4}"),
                    usd(user.max_price_usd),
                );
            }
            Ok(text)
        })
    }

    /// Creates an API key of a user and returns it. It is not stored.
    pub fn create_key(&self, name: &str) -> Result<String> {
        self.runtime.block_on(async {
            let user = self.store.user_named(name).await?;
            Ok(accounts::create_key(&self.store, &user).await?)
        })
    }

    /// Revokes the key with this prefix.
    pub fn revoke_key(&self, prefix: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.store.revoke_key(prefix))?)
    }

    /// Returns a table of a user's keys.
    pub fn keys(&self, name: &str) -> Result<String> {
        self.runtime.block_on(async {
            let user = self.store.user_named(name).await?;
            let mut text = String::new();
            for key in self.store.keys_of(&user.id).await? {
                let state = if key.revoked_at.is_some() { "revoked" } else { "in use" };
                let _ = writeln!(text, "rmr_{}_...  {state}", key.prefix);
            }
            Ok(text)
        })
    }

    /// Creates a link that logs a browser in as a user, once and for a limited time. Returns its path; the secret is not stored.
    pub fn create_login_link(&self, name: &str, lifetime: Duration) -> Result<String> {
        if name == accounts::LOCAL {
            return Err(AdminError::Reserved(name.to_owned()));
        }
        self.runtime.block_on(async {
            let user = self.store.user_named(name).await?;
            if user.banned {
                return Err(AdminError::Banned(user.name));
            }
            let token = Cookie::token();
            let expires_at = now() + lifetime.as_millis() as i64;
            self.store.add_login_link(&link_hash(&token), &user.id, expires_at).await?;
            // Browsers do not send what follows the #, so the secret is in no log and in no Referer header.
            Ok(format!("/login/link#{token}"))
        })
    }

    /// Logs all browsers of a user out and removes the user's login links.
    pub fn logout(&self, name: &str) -> Result<()> {
        self.runtime.block_on(async {
            let user = self.store.user_named(name).await?;
            Ok(self.store.remove_logins(&user.id).await?)
        })
    }

    /// Bans a user, or lifts a ban.
    pub fn ban(&self, name: &str, banned: bool) -> Result<()> {
        Ok(self.runtime.block_on(self.store.set_banned(name, banned))?)
    }

    /// Makes a user a moderator, who writes editorials and removes comments, or no longer.
    pub fn promote(&self, name: &str, moderator: bool) -> Result<()> {
        Ok(self.runtime.block_on(self.store.set_moderator(name, moderator))?)
    }

    /// Queues the named submissions, or all finished ones of a problem, to be judged again. Returns their number.
    pub fn rejudge(&self, ids: &[String], problem: Option<&str>) -> Result<usize> {
        self.runtime.block_on(async {
            let mut ids = ids.to_vec();
            if let Some(problem) = problem {
                let filter =
                    Filter { problem: Some(problem.to_owned()), limit: i64::MAX, ..Filter::default() };
                let found = self.store.list(&filter).await?;
                ids.extend(
                    found
                        .into_iter()
                        .map(|one| one.summary)
                        .filter(|one| one.state == State::Done)
                        .map(|one| one.id),
                );
            }
            self.rejudge_all(&ids).await?;
            Ok(ids.len())
        })
    }

    /// Queues submissions behind the waiting ones. Their positions and waits are estimates, which the server corrects: only it knows
    /// whose turn it is and how many slots the device has.
    async fn rejudge_all(&self, ids: &[String]) -> Result<()> {
        let mut joining = Vec::new();
        for (id, moment) in ids.iter().zip(now()..) {
            let found = self.store.submission_brief(id).await.map_err(|error| match error {
                StoreError::Missing(_, id) => StoreError::Missing("finished submission", id),
                error => error,
            })?;
            joining.push(Submission { queued_at: moment, ..found });
        }
        let positions = queue::requeue_positions(&self.store.waiting().await?, &joining, &Turns::default());
        for (submission, position) in joining.iter().zip(positions) {
            let usual = self.store.usual_seconds(&submission.summary.gpu, Endpoint::Full, None).await?;
            let event = Event::InQueue {
                message: format!("The submission is judged again, from position {position} in the queue"),
                position,
                expected_wait_s: (position - 1) as f64 * usual.unwrap_or_default(),
            };
            self.store.rejudge(&submission.summary.id, event).await?;
        }
        Ok(())
    }

    /// Requests the cancellation of a submission; false if it has already ended.
    pub fn cancel(&self, id: &str) -> Result<bool> {
        self.runtime.block_on(async {
            self.store.submission(id).await?;
            Ok(self.store.ask_to_cancel(id).await?)
        })
    }

    /// Stops starting submissions on a device, or starts again.
    pub fn drain(&self, gpu: &str, drained: bool) -> Result<()> {
        Ok(self.runtime.block_on(self.store.set_drained(&gpu.to_uppercase(), drained))?)
    }

    /// Returns a short summary of the database.
    pub fn stats(&self) -> Result<String> {
        self.runtime.block_on(async {
            let store = &self.store;
            let mut text = String::new();
            let _ = writeln!(text, "users        {}", store.users().await?.len());
            let _ = writeln!(text, "waiting      {}", store.queue_length().await?);
            let _ = writeln!(text, "running      {}", store.interrupted().await?.len());
            let _ = writeln!(text, "spent        ${:.4}", store.total_spent().await?);
            let drained = store.drained().await?;
            let drained = if drained.is_empty() { "none".to_owned() } else { drained.join(", ") };
            let _ = writeln!(text, "draining     {drained}");
            for (status, count) in store.status_counts().await? {
                let _ = writeln!(text, "{count:>8}  {status}");
            }
            Ok(text)
        })
    }
}

impl UserLimits {
    fn over(&self, user: User) -> User {
        User {
            daily_budget_usd: self.daily_budget_usd.or(user.daily_budget_usd),
            max_price_usd: self.max_price_usd.or(user.max_price_usd),
            per_minute: self.per_minute.or(user.per_minute),
            per_day: self.per_day.or(user.per_day),
            concurrency: self.concurrency.or(user.concurrency),
            ..user
        }
    }
}
