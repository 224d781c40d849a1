//! Guarantees of the database, tested with SQLite and with PostgreSQL.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use board_contract::{Endpoint, Event, Isa, IsaListing, State};
use board_server::accounts;
use board_server::store::{Ending, Filter, NewSubmission, Store, StoreError, StoredComment, User};
use serde_json::json;

/// Runs a test case by name.
async fn all(store: &Store, case: &str) {
    match case {
        "a submission is claimed once" => claimed_once(store).await,
        "a submission ends once" => ends_once(store).await,
        "an old attempt changes nothing" => old_attempts(store).await,
        "what was interrupted is found" => interrupted(store).await,
        "names are unique" => unique(store).await,
        "keys are recognised and revoked" => keys(store).await,
        "money adds up" => money(store).await,
        "nothing said stays nothing" => nothing(store).await,
        "text survives" => text(store).await,
        "a submission has one share link" => shares(store).await,
        "the best result of each leaderboard is found" => best(store).await,
        "comments and editorials are kept" => discussion(store).await,
        "logins end and links work once" => logins(store).await,
        _ => panic!("{case}"),
    }
}

const CASES: &[&str] = &[
    "a submission is claimed once",
    "a submission ends once",
    "an old attempt changes nothing",
    "what was interrupted is found",
    "names are unique",
    "keys are recognised and revoked",
    "money adds up",
    "nothing said stays nothing",
    "text survives",
    "a submission has one share link",
    "the best result of each leaderboard is found",
    "comments and editorials are kept",
    "logins end and links work once",
];

async fn user(store: &Store, name: &str) -> User {
    let user = accounts::new_user(name);
    store.add_user(&user).await.unwrap();
    user
}

async fn enqueue(store: &Store, user: &User, source: &str) -> String {
    let new = NewSubmission {
        id: accounts::random_hex(8),
        user_id: user.id.clone(),
        problem: "relu".to_owned(),
        dtype: "float32".to_owned(),
        gpu: "MI300X".to_owned(),
        endpoint: Endpoint::Full,
        custom: None,
        source: source.to_owned(),
        seed: u64::MAX,
        emulated: true,
        price_per_hour: 1.99,
        reserved_usd: 0.25,
    };
    store.enqueue(&new, vec![queued()]).await.unwrap();
    new.id
}

fn queued() -> Event {
    Event::InQueue { message: "Place 1".to_owned(), position: 1, expected_wait_s: 0.5 }
}

fn compiling() -> Event {
    Event::Compiling { message: "Compiling".to_owned() }
}

fn ended(seconds: f64, usd: f64) -> Ending {
    let event = Event::Benchmarked {
        test_results: Vec::new(),
        avg_runtime_ms: 1.5,
        ci_low_ms: Some(1.25),
        ci_high_ms: Some(1.75),
        avg_gflops: None,
        total_tests: 3,
        emulated: true,
        device: None,
        deterministic: true,
        output: String::new(),
        flags: Vec::new(),
    };
    Ending::new(event, seconds, usd)
}

async fn claimed_once(store: &Store) {
    let user = user(store, "claims").await;
    let id = enqueue(store, &user, "//").await;
    let tries = (0..8).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { store.claim(&id).await.unwrap().is_some() })
    });
    let mut claimed = 0;
    for one in tries.collect::<Vec<_>>() {
        claimed += usize::from(one.await.unwrap());
    }
    assert_eq!(claimed, 1);
    assert!(store.waiting().await.unwrap().is_empty());
}

async fn ends_once(store: &Store) {
    let user = user(store, "ends").await;
    let id = enqueue(store, &user, "//").await;
    store.claim(&id).await.unwrap().unwrap();
    let tries = (0..8).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { store.finish(&id, 1, ended(36.0, 0.02)).await.unwrap().is_some() })
    });
    let mut finished = 0;
    for one in tries.collect::<Vec<_>>() {
        finished += usize::from(one.await.unwrap());
    }
    assert_eq!(finished, 1);
    let events = store.events_after(&id, 0).await.unwrap();
    let statuses: Vec<&str> = events.iter().map(|event| event.status.as_str()).collect();
    assert_eq!(statuses, ["IN_QUEUE", "BENCHMARKED"]);
    assert_eq!(store.spent(&user.id, 0).await.unwrap(), 0.02);
    let done = store.submission(&id).await.unwrap();
    assert_eq!(
        (done.summary.state, done.summary.avg_runtime_ms, done.summary.total_tests),
        (State::Done, Some(1.5), Some(3))
    );
    let one = done.summary;
    assert_eq!((one.ci_low_ms, one.ci_high_ms, one.deterministic), (Some(1.25), Some(1.75), Some(true)));
    assert!(store.append(&id, 1, compiling()).await.unwrap().is_none());
}

async fn old_attempts(store: &Store) {
    let user = user(store, "old").await;
    let id = enqueue(store, &user, "//").await;
    store.claim(&id).await.unwrap().unwrap();
    store.requeue(&id, 1, queued()).await.unwrap().unwrap();
    store.claim(&id).await.unwrap().unwrap();
    assert!(store.append(&id, 1, compiling()).await.unwrap().is_none());
    assert!(store.finish(&id, 1, ended(1.0, 0.0)).await.unwrap().is_none());
    assert!(store.requeue(&id, 1, queued()).await.unwrap().is_none());
    assert_eq!(store.append(&id, 2, compiling()).await.unwrap(), Some(3));
    assert!(store.finish(&id, 2, ended(1.0, 0.0)).await.unwrap().is_some());
}

async fn interrupted(store: &Store) {
    let user = user(store, "cut").await;
    let (waiting, running) = (enqueue(store, &user, "//").await, enqueue(store, &user, "//").await);
    store.claim(&running).await.unwrap().unwrap();
    let found: Vec<String> =
        store.interrupted().await.unwrap().into_iter().map(|one| one.summary.id).collect();
    assert_eq!(found, std::slice::from_ref(&running));
    assert!(store.ask_to_cancel(&waiting).await.unwrap());
    assert!(store.claim(&waiting).await.unwrap().is_none(), "what is to be cancelled does not start");
    assert_eq!(store.to_cancel().await.unwrap().len(), 1);
    for kernel in ["one", "two"] {
        let listing = IsaListing { kernel: kernel.to_owned(), lines: Vec::new() };
        store.keep_isa(&running, &Isa { kernels: vec![listing] }).await.unwrap();
    }
    let kept = store.isa(&running).await.unwrap();
    assert_eq!(kept.as_deref(), Some(r#"{"kernels":[{"kernel":"two","lines":[]}]}"#));
}

async fn unique(store: &Store) {
    user(store, "once").await;
    let again = store.add_user(&accounts::new_user("once")).await;
    assert!(matches!(again, Err(StoreError::Exists("user", _))), "{again:?}");
    assert!(matches!(store.user_named("never").await, Err(StoreError::Missing("user", _))));
    assert!(matches!(store.submission("never").await, Err(StoreError::Missing("submission", _))));
}

async fn keys(store: &Store) {
    let user = user(store, "keys").await;
    let key = accounts::create_key(store, &user).await.unwrap();
    assert_eq!(accounts::owner(store, &key).await.unwrap().unwrap().name, "keys");
    let mut wrong = key.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    for text in [wrong.as_str(), "", "rmr_", "rmr__", "rmr_a_b", "Bearer", &key[4..]] {
        assert!(accounts::owner(store, text).await.unwrap().is_none(), "{text}");
    }
    let kept = store.keys_of(&user.id).await.unwrap();
    assert!(!key.contains(&kept[0].hash), "the secret is not kept");
    store.revoke_key(&kept[0].prefix).await.unwrap();
    assert!(accounts::owner(store, &key).await.unwrap().is_none());
    assert!(store.revoke_key(&kept[0].prefix).await.is_err());
}

async fn money(store: &Store) {
    let user = user(store, "money").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(enqueue(store, &user, "//").await);
    }
    assert_eq!(store.reserved(&user.id).await.unwrap(), 0.75);
    store.claim(&ids[0]).await.unwrap().unwrap();
    store.finish(&ids[0], 1, ended(100.0, 0.125)).await.unwrap().unwrap();
    assert_eq!(store.reserved(&user.id).await.unwrap(), 0.5);
    assert_eq!(store.spent(&user.id, 0).await.unwrap(), 0.125);
    assert_eq!(store.spent(&user.id, i64::MAX).await.unwrap(), 0.0);
    assert_eq!(store.submitted(&user.id, 0).await.unwrap().0, 3);
    assert_eq!(store.submitted(&user.id, i64::MAX).await.unwrap(), (0, None));
    assert_eq!(store.usual_seconds("MI300X", Endpoint::Full, None).await.unwrap(), Some(100.0));
    assert_eq!(store.usual_seconds("MI300X", Endpoint::Sample, None).await.unwrap(), None);
    // Judging again is charged again.
    store.rejudge(&ids[0], queued()).await.unwrap();
    store.claim(&ids[0]).await.unwrap().unwrap();
    store.finish(&ids[0], 1, ended(100.0, 0.125)).await.unwrap().unwrap();
    assert_eq!(store.total_spent().await.unwrap(), 0.25);
}

async fn nothing(store: &Store) {
    let mut limited = accounts::new_user("limited");
    limited.daily_budget_usd = Some(2.5);
    limited.per_day = Some(7);
    store.add_user(&limited).await.unwrap();
    assert_eq!(store.user(&limited.id).await.unwrap(), limited);
    let free = user(store, "free").await;
    assert_eq!(store.user_named("free").await.unwrap(), free);
    let id = enqueue(store, &free, "//").await;
    let one = store.submission(&id).await.unwrap();
    assert_eq!(one.seed, u64::MAX);
    let one = one.summary;
    assert_eq!((one.avg_runtime_ms, one.finished_at, one.cost_usd), (None, None, None));
    let listed = store.list(&Filter { limit: 10, ..Filter::default() }).await.unwrap();
    assert_eq!(listed.len(), 1);
    let counts = store.problem_counts(&free.id).await.unwrap();
    assert_eq!((counts[0].submissions, counts[0].accepted, counts[0].solved), (1, 0, false));
    store.set_drained("MI210", true).await.unwrap();
    store.set_drained("MI210", true).await.unwrap();
    assert_eq!(store.drained().await.unwrap(), ["MI210"]);
    store.set_drained("MI210", false).await.unwrap();
    assert!(store.drained().await.unwrap().is_empty());
}

async fn shares(store: &Store) {
    let owner = user(store, "sharer").await;
    let id = enqueue(store, &owner, "shared").await;
    assert_eq!(store.share(&id, "one").await.unwrap(), "one");
    assert_eq!(store.share(&id, "two").await.unwrap(), "one");
    assert_eq!(store.shared("one").await.unwrap().unwrap().source, "shared");
    assert!(store.shared("two").await.unwrap().is_none());
    store.unshare(&id).await.unwrap();
    assert!(store.shared("one").await.unwrap().is_none() && store.share_of(&id).await.unwrap().is_none());
}

async fn best(store: &Store) {
    let owner = user(store, "fast").await;
    for ms in [3.0, 2.0, 4.0] {
        let id = enqueue(store, &owner, "").await;
        let claimed = store.claim(&id).await.unwrap().unwrap();
        let event = json!({ "status": "BENCHMARKED", "test_results": [], "avg_runtime_ms": ms, "total_tests": 1, "emulated": true });
        let ending = Ending::new(serde_json::from_value(event).unwrap(), 1.0, 0.0);
        store.finish(&id, claimed.attempt, ending).await.unwrap().unwrap();
    }
    let results = store.best_results().await.unwrap();
    let own: Vec<_> = results.iter().filter(|result| result.entry.user == "fast").collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!((own[0].entry.avg_runtime_ms, own[0].emulated, own[0].problem.as_str()), (2.0, true, "relu"));
    let activity = store.activity("fast").await.unwrap().unwrap();
    assert_eq!((activity.submissions, activity.accepted), (3, 3));
    assert_eq!(store.activity("nobody").await.unwrap(), None);
}

async fn discussion(store: &Store) {
    let (author, other) = (user(store, "author").await, user(store, "other").await);
    for id in ["a", "b", "c"] {
        let comment = StoredComment {
            id: id.to_owned(),
            problem: "relu".to_owned(),
            user_id: author.id.clone(),
            user: author.name.clone(),
            created_at: store.moment(),
            markdown: "ä'\"; DROP TABLE comments; --".to_owned(),
        };
        store.add_comment(&comment).await.unwrap();
        assert_eq!(store.comment(id).await.unwrap(), comment);
    }
    let ids = async |before: Option<&(i64, String)>, limit| {
        let found = store.comments("relu", before, limit).await.unwrap();
        found.into_iter().map(|comment| (comment.created_at, comment.id)).collect::<Vec<_>>()
    };
    let newest = ids(None, 2).await;
    assert_eq!(newest.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    assert_eq!(ids(newest.last(), 2).await[0].1, "a");
    store.remove_comment("b", &other.id).await.unwrap();
    assert_eq!(store.comment_count("relu").await.unwrap(), 2);
    assert_eq!(
        store.commented(&author.id, 0).await.unwrap().0,
        3,
        "removed comments count for the rate limit"
    );
    assert!(store.editorial("relu").await.unwrap().is_none());
    for (writer, text) in [(&author, "one"), (&other, "two")] {
        store.set_editorial("relu", &writer.id, text).await.unwrap();
    }
    let found = store.editorial("relu").await.unwrap().unwrap();
    assert_eq!((found.user.as_str(), found.markdown.as_str()), ("other", "two"));
    store.set_editorial("relu", &author.id, "").await.unwrap();
    assert!(store.editorial("relu").await.unwrap().is_none());
    store.set_moderator("other", true).await.unwrap();
    assert!(store.user_named("other").await.unwrap().moderator);
}

async fn text(store: &Store) {
    let user = user(store, "text").await;
    let source = format!("// '\"; DROP TABLE users; -- ${{1}} $1 ? \u{1f980} \\ {}\n", "x".repeat(200_000));
    let id = enqueue(store, &user, &source).await;
    assert_eq!(store.submission(&id).await.unwrap().source, source);
    let hostile = Filter { problem: Some("' OR 1=1 --".to_owned()), limit: 10, ..Filter::default() };
    assert!(store.list(&hostile).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_every_promise() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::file_url(&folder.path().join("board.sqlite"))).await.unwrap();
        eprintln!("{case}");
        all(&store, case).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_keeps_every_promise() {
    let programs = postgresql().expect("PostgreSQL is missing: run cargo xtask setup");
    let postgres = Postgres::start(&programs);
    for (case, number) in CASES.iter().zip(0..) {
        let name = format!("case{number}");
        postgres.run(&programs, "createdb", &[&name]);
        let url = postgres.url(&name);
        let store = Store::open(&url).await.unwrap();
        eprintln!("{case}");
        all(&store, case).await;
        if number == 0 {
            // Two servers on one database would run everything twice, so the second is refused.
            let lock = store.serve_alone().await.unwrap();
            let other = Store::open(&url).await.unwrap();
            assert!(matches!(other.serve_alone().await, Err(StoreError::InUse)));
            drop(lock);
        }
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    for url in ["", "mysql://x", "/path/only", "postgres//x"] {
        assert!(matches!(Store::open(url).await, Err(StoreError::Url(_))), "{url}");
    }
}

/// Returns the folder of PostgreSQL's programs on Debian.
fn postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("initdb").is_file()).max()
}

/// A private PostgreSQL server in a temporary folder.
struct Postgres {
    child: Child,
    folder: tempfile::TempDir,
}

impl Postgres {
    fn start(programs: &Path) -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let made = command(programs, "initdb")
            .args(["--no-sync", "--auth=trust", "--username=board", "--encoding=UTF8", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let child = command(programs, "postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .spawn()
            .unwrap();
        let postgres = Postgres { child, folder };
        for _ in 0..600 {
            let socket = postgres.folder.path().display().to_string();
            let ready = command(programs, "pg_isready").args(["-h", &socket]).status().unwrap();
            if ready.success() {
                return postgres;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not come up");
    }

    fn run(&self, programs: &Path, name: &str, arguments: &[&str]) {
        let socket = self.folder.path().display().to_string();
        let mut command = command(programs, name);
        let done = command.args(["-h", &socket, "-U", "board"]).args(arguments).status().unwrap();
        assert!(done.success(), "{name}");
    }

    fn url(&self, name: &str) -> String {
        format!("postgres://board@localhost/{name}?host={}", self.folder.path().display())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SAFETY: the process is a child that has not been waited for. SIGQUIT ends all its children immediately.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGQUIT) };
        let _ = self.child.wait();
    }
}

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Builds a command for one of PostgreSQL's programs, as another user if this one is root, which they refuse.
fn command(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join(name));
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::piped());
    if name != "initdb" {
        command.stderr(Stdio::null());
    }
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

async fn logins(store: &Store) {
    let future = board_server::store::now() + 60_000;
    let mut new = accounts::new_user("Linus");
    new.daily_budget_usd = Some(0.0);
    store.register(&new, "https://issuer", "1").await.unwrap();
    let found = store.user_of_identity("https://issuer", "1").await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.daily_budget_usd), ("Linus", Some(0.0)));
    // Names that differ in their case, and accounts at a provider, belong to one user; a refusal leaves nothing behind.
    for (name, subject) in [("linus", "2"), ("Linus", "2"), ("other-person", "1")] {
        let refused = store.register(&accounts::new_user(name), "https://issuer", subject).await;
        assert!(matches!(refused, Err(StoreError::Exists(..))), "{name}");
    }
    assert!(store.user_of_identity("https://issuer", "2").await.unwrap().is_none());
    assert!(store.user_named("other-person").await.is_err());
    let other = user(store, "linked").await;
    assert!(store.add_identity(&other.id, "https://issuer", "1").await.is_err());
    store.add_identity(&other.id, "https://another", "1").await.unwrap();
    assert_eq!(store.issuers_of(&other.id).await.unwrap(), ["https://another"]);
    store.remove_identity(&other.id, "https://another").await.unwrap();
    assert!(store.user_of_identity("https://another", "1").await.unwrap().is_none());
    // The oldest browser is logged out when there are too many, never the newest.
    for number in 0..25 {
        store.add_login(&format!("login {number}"), &new.id, future).await.unwrap();
        assert!(store.user_of_login(&format!("login {number}")).await.unwrap().is_some());
    }
    assert_eq!(store.logins_of(&new.id).await.unwrap(), 20);
    store.add_login("old", &other.id, 1).await.unwrap();
    assert!(store.user_of_login("old").await.unwrap().is_none());
    store.remove_login("login 24").await.unwrap();
    assert!(store.user_of_login("login 24").await.unwrap().is_none());
    store.add_login_link("link", &new.id, future).await.unwrap();
    assert_eq!(store.user_of_login_link("link").await.unwrap().unwrap().id, new.id);
    assert!(store.use_login_link("link").await.unwrap());
    assert!(!store.use_login_link("link").await.unwrap());
    store.add_login_link("late", &new.id, 1).await.unwrap();
    assert!(store.user_of_login_link("late").await.unwrap().is_none());
    assert!(!store.use_login_link("late").await.unwrap());
    store.add_login_link("again", &new.id, future).await.unwrap();
    store.remove_logins(&new.id).await.unwrap();
    assert_eq!(store.logins_of(&new.id).await.unwrap(), 0);
    assert!(store.user_of_login_link("again").await.unwrap().is_none());
}
