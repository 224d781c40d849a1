//! `remora snapshot`, `remora resume` and `remora migrate`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transport::Endpoint;
use worker::Place;

use crate::env::Environment;
use crate::inspect;

#[derive(Debug, clap::Args)]
pub struct SnapshotArguments {
    /// The session: its 16 hexadecimal digits as the worker logs them, its number as `remora devices --json` shows it, or pid:N
    /// for that of a process
    session: String,
    /// The worker that has it (else REMORA_WORKER)
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Where it is written. Holds the session's memory and secret, so only the owner may read it
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Let the session go on; the file is good until the program's next call
    #[arg(long)]
    keep: bool,
    /// Seconds its work may take to end; if it does not, the session goes on and is not taken
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    patience: f64,
}

#[derive(Debug, clap::Args)]
pub struct ResumeArguments {
    file: PathBuf,
    /// The worker that shall have it (else REMORA_WORKER)
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Whose it is there, if the worker has several tokens: the name of one
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The worker it was taken from, if that is another: it sends the program on
    #[arg(long, value_name = "ENDPOINT")]
    from: Option<String>,
    /// Where the program finds the worker, if not by the same name
    #[arg(long, value_name = "ENDPOINT")]
    seen_at: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct MigrateArguments {
    /// The session: its 16 hexadecimal digits as the worker logs them, its number as `remora devices --json` shows it, or pid:N
    /// for that of a process
    session: String,
    /// The worker that has it
    #[arg(long, value_name = "ENDPOINT")]
    from: String,
    /// The worker that shall have it
    #[arg(long, value_name = "ENDPOINT")]
    to: String,
    /// Whose it is there, if that worker has several tokens; the tenant of the same name by default
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Where the program finds that worker, if not by the same name
    #[arg(long, value_name = "ENDPOINT")]
    seen_at: Option<String>,
    /// Seconds its work may take to end; if it does not, the session goes on and is not moved
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    patience: f64,
}

pub fn snapshot(arguments: &SnapshotArguments, environment: &Environment) -> Result<()> {
    let from = named(arguments.worker.as_deref(), environment)?;
    let session = find(&arguments.session, &from)?;
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| std::path::Path::new("."));
    // For the owner alone, and under its name only when it is whole.
    let file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("nothing can be written to {}", folder.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let taken = ::worker::snapshot(&from, session, patience(arguments.patience)?, &mut out)?;
    let file = out.into_inner().context("the session cannot be written")?;
    file.as_file().sync_all().context("the session cannot be written")?;
    file.persist(&arguments.out).with_context(|| format!("{}", arguments.out.display()))?;
    if arguments.keep {
        taken.stay()?;
    } else {
        taken.suspend()?;
    }
    let what = if arguments.keep { "goes on and was copied to" } else { "is suspended in" };
    say(&format!("session {session:016x} {what} {}", arguments.out.display()))
}

pub fn resume(arguments: &ResumeArguments, environment: &Environment) -> Result<()> {
    let to = named(arguments.worker.as_deref(), environment)?;
    let file = File::open(&arguments.file).with_context(|| format!("{}", arguments.file.display()))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let session = ::worker::resume_for(&to, arguments.tenant.as_deref(), &mut file)?;
    if let Some(from) = &arguments.from {
        let from = place(from, environment)?;
        let seen_at = seen_at(arguments.seen_at.as_deref(), &to)?;
        ::worker::redirect(&from, session, &seen_at)?;
    }
    say(&format!("session {session:016x} goes on at {}", to.endpoint))
}

pub fn migrate(arguments: &MigrateArguments, environment: &Environment) -> Result<()> {
    let from = place(&arguments.from, environment)?;
    let to = place(&arguments.to, environment)?;
    let session = find(&arguments.session, &from)?;
    let seen_at = seen_at(arguments.seen_at.as_deref(), &to)?;
    let tenant = match &arguments.tenant {
        Some(tenant) => Some(tenant.clone()),
        None => tenant_of(session, &from)?,
    };
    let patience = patience(arguments.patience)?;
    ::worker::migrate(&from, &to, session, tenant.as_deref(), patience, Some(&seen_at))?;
    say(&format!("session {session:016x} moved to {seen_at}"))
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("nobody reads the output")
}

fn seen_at(named: Option<&str>, to: &Place) -> Result<Endpoint> {
    Ok(named.map(str::parse).transpose()?.unwrap_or_else(|| to.endpoint.clone()))
}

fn named(worker: Option<&str>, environment: &Environment) -> Result<Place> {
    let environment = &environment.for_worker(worker);
    let endpoint = environment.worker(None)?.context("name a worker with --worker or REMORA_WORKER")?;
    inspect::place(endpoint, environment)
}

fn place(text: &str, environment: &Environment) -> Result<Place> {
    named(Some(text), environment)
}

/// The tenant a session belongs to, if its worker has several.
fn tenant_of(session: u64, from: &Place) -> Result<Option<String>> {
    let status = from.inspect()?;
    let found = status.sessions.into_iter().find(|it| it.id == session).map(|it| it.tenant);
    Ok(found.filter(|tenant| !tenant.is_empty() && tenant != ::worker::DEFAULT_TENANT))
}

/// The number of a session that a person names.
fn find(text: &str, place: &Place) -> Result<u64> {
    let Some(pid) = text.strip_prefix("pid:") else { return parse(text) };
    let pid: u32 = pid.parse().with_context(|| format!("\"{pid}\" is no process"))?;
    let status = place.inspect()?;
    let found: Vec<u64> = status.sessions.iter().filter(|it| it.pid == pid).map(|it| it.id).collect();
    match found[..] {
        [session] => Ok(session),
        [] => bail!("process {pid} has no session at {}", place.endpoint),
        _ => {
            bail!("process {pid} has {} sessions at {}; name one by its number", found.len(), place.endpoint)
        }
    }
}

/// 16 digits are hexadecimal, as in logs; any other number is decimal, as in JSON.
fn parse(text: &str) -> Result<u64> {
    let number = match text.len() {
        16 => u64::from_str_radix(text, 16),
        _ => text.parse(),
    };
    number.with_context(|| format!("\"{text}\" is no session"))
}

fn patience(seconds: f64) -> Result<Duration> {
    ensure!((0.0..=86_400.0).contains(&seconds), "--patience {seconds} is no time span");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_named_as_logs_and_json_show_them() {
        assert_eq!(parse("00000000000000ff").unwrap(), 255);
        assert_eq!(parse("255").unwrap(), 255);
        assert_eq!(parse("18446744073709551615").unwrap(), u64::MAX);
        assert!(parse("zz").is_err() && parse("").is_err());
    }
}
