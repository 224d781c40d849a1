//! `remora board`: administration of a board's database, whether its server runs or not.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use board_server::admin::{Admin, UserLimits};

use crate::env::Environment;
use crate::output::{out, outln};
use crate::serve::data_folder;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where the board's database file is [default: remora/board in XDG_DATA_HOME]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// The board's database, if it is another
    #[arg(long, value_name = "URL", global = true)]
    database: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// People who may submit
    #[command(subcommand)]
    User(UserCommand),
    /// What they prove it with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Refuse a user's requests and leave the user out of leaderboards
    Ban { name: String },
    /// Take a ban back
    Unban { name: String },
    /// Judge submissions again: one by its identifier, or all finished ones of a problem
    Rejudge {
        #[arg(required_unless_present = "problem")]
        id: Vec<String>,
        #[arg(long, conflicts_with = "id")]
        problem: Option<String>,
    },
    /// Cancel a submission of anybody
    Cancel { id: String },
    /// Start nothing more on a device; what runs on it runs to its end
    Drain { device: String },
    /// Use a device again
    Undrain { device: String },
    /// Users, submissions, money
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
    /// Change what a user may do
    Set {
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Show all users
    List,
}

#[derive(Debug, clap::Args)]
struct Limits {
    /// What may be spent in a day
    #[arg(long, value_name = "USD")]
    daily_budget: Option<f64>,
    /// The dearest device that may be used, in dollars an hour
    #[arg(long, value_name = "USD")]
    max_price: Option<f64>,
    /// Submissions a minute
    #[arg(long, value_name = "N")]
    per_minute: Option<i64>,
    /// Submissions a day
    #[arg(long, value_name = "N")]
    per_day: Option<i64>,
    /// Submissions that run at the same time
    #[arg(long, value_name = "N")]
    concurrency: Option<i64>,
}

#[derive(Debug, clap::Subcommand)]
enum KeyCommand {
    /// Make a key for a user and print it; it cannot be shown again
    Create { name: String },
    /// Refuse a key from now on, by the part between the underscores
    Revoke { prefix: String },
    /// Show a user's keys
    List { name: String },
}

pub fn administer(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let url = match &arguments.database {
        Some(url) => url.clone(),
        None => {
            let folder = data_folder(arguments.data.as_ref(), environment)?;
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("{} cannot be made", folder.display()))?;
            Admin::file_url(&folder)
        }
    };
    let admin = Admin::open(&url)?;
    match &arguments.command {
        Command::User(UserCommand::Add { name, limits }) => {
            admin.add_user(name, &limits.checked()?)?;
            outln!("{name} may submit with a key: remora board key create {name}");
        }
        Command::User(UserCommand::Set { name, limits }) => admin.set_user(name, &limits.checked()?)?,
        Command::User(UserCommand::List) => out!("{}", admin.users()?),
        Command::Key(KeyCommand::Create { name }) => outln!("{}", admin.create_key(name)?),
        Command::Key(KeyCommand::Revoke { prefix }) => {
            let prefix = prefix.strip_prefix("rmr_").unwrap_or(prefix);
            admin.revoke_key(prefix.split('_').next().unwrap_or(prefix))?;
        }
        Command::Key(KeyCommand::List { name }) => out!("{}", admin.keys(name)?),
        Command::Ban { name } => admin.ban(name, true)?,
        Command::Unban { name } => admin.ban(name, false)?,
        Command::Rejudge { id, problem } => {
            outln!("{} submissions are judged again", admin.rejudge(id, problem.as_deref())?);
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
            ensure!(amount.is_none_or(|usd| usd.is_finite() && usd >= 0.0), "{name} is no amount of money");
        }
        for (name, count) in [
            ("--per-minute", self.per_minute),
            ("--per-day", self.per_day),
            ("--concurrency", self.concurrency),
        ] {
            ensure!(count.is_none_or(|count| count > 0), "{name} is more than nothing");
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
