//! `remora snapshot`, `remora resume` and `remora migrate`: save, restore and move sessions.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transport::{Address, Endpoint, TransportError};
use wire::{RejectCode, SessionId, WireError};
use worker_client::{InspectError, WorkerAddress};

use crate::env::Environment;
use crate::inspect;

#[derive(Debug, clap::Args)]
pub struct SnapshotArguments {
    /// Session ID (16 hexadecimal digits, as in logs and `remora devices --json`), or pid:N for the session of a process
    session: String,
    /// Worker that serves the session [default: REMORA_WORKER]
    #[arg(long, value_name = "ENDPOINT|URL")]
    worker: Option<String>,
    /// File to write. It contains the session's memory and secret, so only its owner may read it
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Do not suspend the session; the file is valid only until the program's next call
    #[arg(long)]
    keep: bool,
    /// Timeout in seconds for running work to end; after it the session continues and is not saved
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    patience: f64,
}

#[derive(Debug, clap::Args)]
pub struct ResumeArguments {
    /// File written by `remora snapshot`
    file: PathBuf,
    /// Worker that resumes the session [default: REMORA_WORKER]
    #[arg(long, value_name = "ENDPOINT|URL")]
    worker: Option<String>,
    /// Tenant that gets the session, by token name, if the worker has several tokens
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Worker that served the session before, if it is a different one; it redirects the program to the new worker
    #[arg(long, value_name = "ENDPOINT|URL")]
    from: Option<String>,
    /// Address under which the program reaches the worker, if it differs
    #[arg(long, value_name = "ENDPOINT|URL")]
    seen_at: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct MigrateArguments {
    /// Session ID (16 hexadecimal digits, as in logs and `remora devices --json`), or pid:N for the session of a process
    session: String,
    /// Worker that serves the session now
    #[arg(long, value_name = "ENDPOINT|URL")]
    from: String,
    /// Worker to move the session to
    #[arg(long, value_name = "ENDPOINT|URL")]
    to: String,
    /// Tenant that gets the session, if the new worker has several tokens [default: the tenant of the same name]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Address under which the program reaches the new worker, if it differs
    #[arg(long, value_name = "ENDPOINT|URL")]
    seen_at: Option<String>,
    /// Timeout in seconds for running work to end; after it the session continues and is not moved
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    patience: f64,
}

pub fn snapshot(arguments: &SnapshotArguments, environment: &Environment) -> Result<()> {
    let from = named(arguments.worker.as_deref(), environment)?;
    let session = find(&arguments.session, &from)?;
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| std::path::Path::new("."));
    // A temporary file with mode 0600, renamed only when it is complete.
    let file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot create a file in {}", folder.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let taken = worker_client::snapshot(&from, session.0, patience(arguments.patience)?, &mut out)?;
    let file = out.into_inner().context("cannot write the session")?;
    file.as_file().sync_all().context("cannot write the session")?;
    file.persist(&arguments.out).with_context(|| format!("{}", arguments.out.display()))?;
    if arguments.keep {
        taken.stay()?;
    } else {
        taken.suspend()?;
    }
    let what = if arguments.keep { "continues and was copied to" } else { "is suspended and saved in" };
    print_line(&format!("session {session} {what} {}", arguments.out.display()))
}

pub fn resume(arguments: &ResumeArguments, environment: &Environment) -> Result<()> {
    let to = named(arguments.worker.as_deref(), environment)?;
    let file = File::open(&arguments.file).with_context(|| format!("{}", arguments.file.display()))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let session = SessionId(worker_client::resume_for(&to, arguments.tenant.as_deref(), &mut file)?);
    if let Some(from) = &arguments.from {
        let from = place(from, environment)?;
        let named = arguments.seen_at.as_deref().or(arguments.worker.as_deref());
        worker_client::redirect(&from, session.0, &client_address(named, &to)?)?;
    }
    print_line(&format!("session {session} continues at {}", to.endpoint))
}

pub fn migrate(arguments: &MigrateArguments, environment: &Environment) -> Result<()> {
    let from = place(&arguments.from, environment)?;
    let to = place(&arguments.to, environment)?;
    let session = find(&arguments.session, &from)?;
    let seen_at = client_address(arguments.seen_at.as_deref().or(Some(&arguments.to)), &to)?;
    let tenant = match &arguments.tenant {
        Some(tenant) => Some(tenant.clone()),
        None => tenant_of(session.0, &from)?,
    };
    let patience = patience(arguments.patience)?;
    worker_client::migrate(&from, &to, session.0, tenant.as_deref(), patience, Some(&seen_at))?;
    print_line(&format!("session {session} was moved to {}", seen_at.endpoint))
}

fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}

/// The address to which the program is redirected: as named, with the certificate pin of a URL.
fn client_address(named: Option<&str>, to: &WorkerAddress) -> Result<Address> {
    let (endpoint, pin) = match named.map(first) {
        Some(url) if Address::is_url(url) => {
            let address = url.parse::<Address>()?;
            (address.endpoint, address.pin)
        }
        Some(text) => (text.parse::<Endpoint>()?, None),
        None => (to.endpoint.clone(), None),
    };
    Ok(Address { endpoint, token: None, pin })
}

/// A worker to administer, with the administration token of the environment. Workers have different tokens, so a worker that does
/// not accept that one is sent the token of its URL.
fn named(worker: Option<&str>, environment: &Environment) -> Result<WorkerAddress> {
    let environment = &environment.for_worker(worker);
    let endpoint = environment.worker(None)?.context("no worker given: use --worker or REMORA_WORKER")?;
    let place = inspect::place(endpoint, environment)?;
    let own =
        worker.map(first).filter(|text| Address::is_url(text)).map(str::parse::<Address>).transpose()?;
    match own.and_then(|address| address.token) {
        Some(token) if environment.admin_token()?.is_some() && denies(&place) => {
            Ok(WorkerAddress { token: Some(token.into_bytes()), ..place })
        }
        _ => Ok(place),
    }
}

/// The first worker of a list.
fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default().trim()
}

/// Whether a worker refuses the token.
fn denies(place: &WorkerAddress) -> bool {
    matches!(
        place.inspect(),
        Err(InspectError::Refused {
            source: TransportError::Wire(WireError::Rejected { code: RejectCode::Access, .. }),
            ..
        })
    )
}

/// The worker that an option names.
pub fn place(text: &str, environment: &Environment) -> Result<WorkerAddress> {
    named(Some(text), environment)
}

/// The worker that a URL names. A token in the URL is used without a question to that worker, which may start later.
pub fn peer(url: &str, environment: &Environment) -> Result<WorkerAddress> {
    let environment = &environment.for_worker(Some(url));
    let endpoint = environment.worker(None)?.context("the URL names no worker")?;
    let place = inspect::place(endpoint, environment)?;
    let token = url.parse::<Address>()?.token.map(String::into_bytes);
    Ok(WorkerAddress { token: token.or_else(|| place.token.clone()), ..place })
}

/// The tenant a session belongs to, if its worker has several.
fn tenant_of(session: u64, from: &WorkerAddress) -> Result<Option<String>> {
    let status = from.inspect()?;
    let found = status.sessions.into_iter().find(|it| it.id == session).map(|it| it.tenant);
    Ok(found.filter(|tenant| !tenant.is_empty() && tenant != worker_status::DEFAULT_TENANT))
}

/// Resolves a session ID or `pid:N`.
fn find(text: &str, place: &WorkerAddress) -> Result<SessionId> {
    let Some(pid) = text.strip_prefix("pid:") else { return Ok(text.parse()?) };
    let pid: u32 = pid.parse().with_context(|| format!("\"{pid}\" is not a process ID"))?;
    let status = place.inspect()?;
    let of_process = status.sessions.iter().filter(|it| it.pid == pid);
    let found: Vec<SessionId> = of_process.map(|it| SessionId(it.id)).collect();
    match found[..] {
        [session] => Ok(session),
        [] => bail!("process {pid} has no session at {}", place.endpoint),
        _ => {
            bail!("process {pid} has {} sessions at {}; give one of {found:?}", found.len(), place.endpoint)
        }
    }
}

fn patience(seconds: f64) -> Result<Duration> {
    ensure!((0.0..=86_400.0).contains(&seconds), "--patience {seconds} is out of range (0 to 86400 seconds)");
    Ok(Duration::from_secs_f64(seconds))
}
