//! `remora board`: administers the database of a kernel board, whether its server is running or not.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use board_server::admin::{Admin, UserLimits};

use crate::env::Environment;
use crate::output::{out, outln};
use crate::serve::data_folder;
use crate::submit::DEFAULT_BOARD;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 done, 1 not done (standard error says why), 2 wrong arguments.")]
pub struct Arguments {
    /// Folder of the board's database file [default: remora/board in XDG_DATA_HOME]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// URL of the board's database, if it is not the file in the data folder
    #[arg(long, value_name = "URL", global = true)]
    database: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Manage the users who may submit
    #[command(subcommand)]
    User(UserCommand),
    /// Manage the API keys of users
    #[command(subcommand)]
    Key(KeyCommand),
    /// Create a link that logs a browser in as a user, once, and print it; no mail server is needed
    LoginLink {
        name: String,
        /// Minutes until the link expires
        #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=10_080))]
        minutes: u64,
        /// Address at which the browser reaches the board [default: REMORA_BOARD, else http://127.0.0.1:3000]
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Log all browsers of a user out, and cancel the user's login links
    Logout { name: String },
    /// Ban a user: reject their requests and hide them from leaderboards
    Ban { name: String },
    /// Lift a ban
    Unban { name: String },
    /// Make a user a moderator, who writes editorials and removes comments
    Promote { name: String },
    /// Make a moderator an ordinary user
    Demote { name: String },
    /// Judge submissions again: those with the given IDs, or all finished ones of a problem
    Rejudge {
        #[arg(required_unless_present = "problem")]
        id: Vec<String>,
        #[arg(long, conflicts_with = "id")]
        problem: Option<String>,
    },
    /// Cancel a submission of any user
    Cancel { id: String },
    /// Drain a device: start no new submissions on it; running ones continue to their end
    Drain { device: String },
    /// Use a drained device again
    Undrain { device: String },
    /// Show numbers of users and submissions, and costs
    Stats,
}

#[derive(Debug, clap::Subcommand)]
enum UserCommand {
    /// Add a user
    Add {
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Change the limits of a user
    Set {
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// List all users
    List,
}

#[derive(Debug, clap::Args)]
struct Limits {
    /// Daily budget in dollars
    #[arg(long, value_name = "USD")]
    daily_budget: Option<f64>,
    /// Maximum price of a device, in dollars per hour
    #[arg(long, value_name = "USD")]
    max_price: Option<f64>,
    /// Maximum number of submissions per minute
    #[arg(long, value_name = "N")]
    per_minute: Option<i64>,
    /// Maximum number of submissions per day
    #[arg(long, value_name = "N")]
    per_day: Option<i64>,
    /// Maximum number of submissions that run at the same time
    #[arg(long, value_name = "N")]
    concurrency: Option<i64>,
}

#[derive(Debug, clap::Subcommand)]
enum KeyCommand {
    /// Create a key for a user and print it; it cannot be shown again
    Create { name: String },
    /// Revoke a key, given by its prefix: the part between the underscores
    Revoke { prefix: String },
    /// List a user's keys
    List { name: String },
}

pub fn administer(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let url = match &arguments.database {
        Some(url) => url.clone(),
        None => {
            let folder = data_folder(arguments.data.as_ref(), environment)?;
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            Admin::file_url(&folder)
        }
    };
    let admin = Admin::open(&url)?;
    match &arguments.command {
        Command::User(UserCommand::Add { name, limits }) => {
            admin.add_user(name, &limits.checked()?)?;
            outln!("added {name}; create a key for programs with: remora board key create {name}");
            outln!("or a link for a browser with: remora board login-link {name}");
        }
        Command::User(UserCommand::Set { name, limits }) => admin.set_user(name, &limits.checked()?)?,
        Command::User(UserCommand::List) => out!("{}", admin.users()?),
        Command::Key(KeyCommand::Create { name }) => outln!("{}", admin.create_key(name)?),
        Command::Key(KeyCommand::Revoke { prefix }) => {
            let prefix = prefix.strip_prefix("rmr_").unwrap_or(prefix);
            admin.revoke_key(prefix.split('_').next().unwrap_or(prefix))?;
        }
        Command::Key(KeyCommand::List { name }) => out!("{}", admin.keys(name)?),
        Command::LoginLink { name, minutes, url } => {
            let url = url.as_deref().or(environment.board.as_deref()).unwrap_or(DEFAULT_BOARD);
            let path = admin.create_login_link(name, Duration::from_secs(minutes * 60))?;
            outln!("{}{path}", url.trim_end_matches('/'));
        }
        Command::Logout { name } => admin.logout(name)?,
        Command::Ban { name } => admin.ban(name, true)?,
        Command::Unban { name } => admin.ban(name, false)?,
        Command::Promote { name } => admin.promote(name, true)?,
        Command::Demote { name } => admin.promote(name, false)?,
        Command::Rejudge { id, problem } => {
            outln!("{} submissions queued for judging again", admin.rejudge(id, problem.as_deref())?);
        }
        Command::Cancel { id } => {
            ensure!(admin.cancel(id)?, "submission {id} has ended already");
        }
        Command::Drain { device } => admin.drain(device, true)?,
        Command::Undrain { device } => admin.drain(device, false)?,
        Command::Stats => out!("{}", admin.stats()?),
    }
    Ok(())
}

impl Limits {
    fn checked(&self) -> Result<UserLimits> {
        for (name, amount) in [("--daily-budget", self.daily_budget), ("--max-price", self.max_price)] {
            ensure!(
                amount.is_none_or(|usd| usd.is_finite() && usd >= 0.0),
                "{name} must be an amount of at least 0"
            );
        }
        for (name, count) in [
            ("--per-minute", self.per_minute),
            ("--per-day", self.per_day),
            ("--concurrency", self.concurrency),
        ] {
            ensure!(count.is_none_or(|count| count > 0), "{name} must be at least 1");
        }
        Ok(UserLimits {
            daily_budget_usd: self.daily_budget,
            max_price_usd: self.max_price,
            per_minute: self.per_minute,
            per_day: self.per_day,
            concurrency: self.concurrency,
        })
    }
}
