//! Refused requests: status and message, and that they cost nothing.

use crate::rig::{Rig, body};
use serde_json::{Value, json};

/// A request that is refused.
struct Case {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    key: Key,
    kind: Option<&'static str>,
    body: Vec<u8>,
    status: u16,
    /// Part of the error message.
    words: &'static str,
}

#[derive(Clone, Copy)]
enum Key {
    None,
    Good,
    Unknown,
    Revoked,
    Banned,
    Poor,
    Thrifty,
}

const JSON: Option<&str> = Some("application/json");
const SUBMIT: &str = "/api/submissions";

fn submission(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = body("//", "checker");
    change(&mut body);
    body.to_string().into_bytes()
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let case = |name, key, body, status, words| Case { name, method: "POST", path: SUBMIT, key, kind: JSON, body, status, words };
    let plain = || submission(|_| {});
    let without = |field: &str| submission(|body| { body.as_object_mut().unwrap().remove(field); });
    let set = |field: &str, value: Value| submission(|body| body[field] = value);
    let at = |path, method, status, words| Case { name: "an address", method, path, key: Key::Good, kind: JSON, body: b"{}".to_vec(), status, words };
    vec![
        case("no key", Key::None, plain(), 401, "needs an API key"),
        case("a key nobody was given", Key::Unknown, plain(), 401, "unknown"),
        case("a key that was revoked", Key::Revoked, plain(), 401, "unknown"),
        case("a banned user", Key::Banned, plain(), 403, "banned"),
        case("nothing", Key::Good, Vec::new(), 400, "not a submission"),
        case("half of something", Key::Good, b"{\"solution_code\": \"".to_vec(), 400, "not a submission"),
        case("no JSON", Key::Good, b"hello".to_vec(), 400, "not a submission"),
        case("bytes", Key::Good, vec![0xff; 100], 400, "not a submission"),
        case("a list", Key::Good, b"[1]".to_vec(), 422, "not a submission"),
        case("numbers for words", Key::Good, set("problem", json!(3)), 422, "not a submission"),
        case("deep nesting", Key::Good, [b"[".repeat(100_000), b"]".repeat(100_000)].concat(), 422, "not a submission"),
        case("no source", Key::Good, without("solution_code"), 400, "Missing required fields: solution_code"),
        case("an empty source", Key::Good, set("solution_code", json!("  ")), 400, "solution_code"),
        case("no problem", Key::Good, without("problem"), 400, "Missing required fields: problem"),
        case("no GPU", Key::Good, without("gpu_type"), 400, "Missing required fields: gpu_type"),
        case("another problem", Key::Good, set("problem", json!("nothing-like-it")), 404, "no problem"),
        case("a path for a problem", Key::Good, set("problem", json!("../../etc/passwd")), 404, "no problem"),
        case("another GPU", Key::Good, set("gpu_type", json!("H100")), 400, "no GPU \"H100\""),
        case("another type", Key::Good, set("dtype", json!("float12")), 400, "does not support the type"),
        case("another language", Key::Good, set("language", json!("cuda")), 400, "language \"cuda\""),
        case("another endpoint", Key::Good, set("endpoint", json!("rm")), 400, "no endpoint"),
        case("a zero byte", Key::Good, set("solution_code", json!("a\0b")), 400, "zero byte"),
        case("a source that is too large", Key::Good, set("solution_code", json!("x".repeat((256 << 10) + 1))), 413, "too large"),
        case("a body that is too large", Key::Good, set("solution_code", json!("x".repeat(2 << 20))), 413, "too large"),
        case("a device above the price cap", Key::Thrifty, set("gpu_type", json!("MI210")), 402, "your limit"),
        case("more than the budget", Key::Poor, set("gpu_type", json!("MI210")), 402, "budget"),
        Case { kind: None, ..case("no kind of body", Key::Good, plain(), 415, "must be JSON") },
        Case { kind: Some("application/x-www-form-urlencoded"), ..case("a form", Key::Good, plain(), 415, "must be JSON") },
        Case { path: "/api/amd/submit", ..case("the stream without a key", Key::None, plain(), 401, "needs an API key") },
        Case { path: "/api/amd/submit", ..case("the stream with an invalid body", Key::Good, b"{}".to_vec(), 400, "Missing required fields") },
        at("/api/submissions/nothing", "GET", 404, "no submission"),
        at("/api/submissions/nothing/events", "GET", 404, "no submission"),
        at("/api/submissions/nothing/cancel", "POST", 404, "no submission"),
        at("/api/submissions/nothing/public", "POST", 404, "no submission"),
        at("/api/submissions/nothing/isa", "GET", 404, "no submission"),
        at("/api/submissions/nothing/export.json", "GET", 404, "no submission"),
        at("/api/submissions/nothing/export.csv", "GET", 404, "no submission"),
        at("/api/submissions?limit=0", "GET", 400, "limit"),
        at("/api/submissions?limit=many", "GET", 400, "is invalid"),
        at("/api/submissions?before=yesterday", "GET", 400, "before"),
        at("/api/compare?ids=", "GET", 400, "ids"),
        at("/api/compare?ids=a,b,c,d,e,f,g,h,i,j,k", "GET", 400, "ids"),
        at("/api/compare", "GET", 400, "is invalid"),
        at("/api/problems/nothing", "GET", 404, "no problem"),
        at("/api/leaderboards/nothing", "GET", 404, "no problem"),
        at("/api/leaderboards/leaky-relu?gpu=H100", "GET", 400, "no GPU"),
        at("/api/estimate", "POST", 422, "not a valid estimate"),
        at("/api/nothing", "GET", 404, "nothing at this address"),
        at("/api/amd/submit", "GET", 405, "method"),
        at("/api/problems", "DELETE", 405, "method"),
        at("/missing.js", "GET", 404, "no such file"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_says_why_and_costs_nothing() {
    let rig = Rig::with(|config| config.require_key = true).await;
    let good = rig.user("good", |_| {}).await;
    let revoked = rig.user("revoked", |_| {}).await;
    rig.store.revoke_key(revoked.split('_').nth(1).unwrap()).await.unwrap();
    let banned = rig.user("banned", |_| {}).await;
    rig.store.set_banned("banned", true).await.unwrap();
    let poor = rig.user("poor", |user| user.daily_budget_usd = Some(0.001)).await;
    let thrifty = rig.user("thrifty", |user| user.max_price_usd = Some(35.0)).await;
    let unknown = format!("rmr_000000000000_{}", "0".repeat(64));
    for case in cases() {
        let key = match case.key {
            Key::None => None,
            Key::Good => Some(&good),
            Key::Unknown => Some(&unknown),
            Key::Revoked => Some(&revoked),
            Key::Banned => Some(&banned),
            Key::Poor => Some(&poor),
            Key::Thrifty => Some(&thrifty),
        };
        let mut request = rig.http.request(case.method.parse().unwrap(), rig.url(case.path)).body(case.body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        if let Some(kind) = case.kind {
            request = request.header("content-type", kind);
        }
        let response = request.send().await.unwrap();
        let title = format!("{} ({} {})", case.name, case.method, case.path);
        assert_eq!(response.status().as_u16(), case.status, "{title}");
        assert_eq!(response.headers()["content-type"], "application/json", "{title}");
        let answer: Value = response.json().await.unwrap();
        let words = answer["error"].as_str().unwrap();
        assert!(words.contains(case.words), "{title}: {words}");
    }
    let (_, all) = rig.get_as(&good, "/api/submissions").await;
    assert_eq!(all["submissions"], json!([]));
    assert_eq!(rig.store.total_spent().await.unwrap(), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_users_share_is_refused_with_the_time_to_wait() {
    let rig = Rig::start().await;
    let key = rig.user("busy", |user| user.per_minute = Some(3)).await;
    for _ in 0..3 {
        rig.submit(&key, "//", "checker").await;
    }
    let request = rig.http.post(rig.url(SUBMIT)).bearer_auth(&key).json(&body("//", "checker"));
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 429);
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Other users are not affected.
    let other = rig.user("other", |_| {}).await;
    rig.submit(&other, "//", "checker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_takes_no_more() {
    let rig = Rig::with(|config| config.limits.queue = 2).await;
    let gate = rig.folder.path().join("gate");
    let source = format!("//hold={}//", gate.display());
    for _ in 0..2 {
        let id = rig.submit("", &source, "checker").await;
        rig.wait_for(&id, "COMPILING").await;
    }
    let waiting = [rig.submit("", "//", "checker").await, rig.submit("", "//", "checker").await];
    let (status, answer) = rig.post_as("", SUBMIT, &body("//", "checker")).await;
    assert_eq!((status, &answer["error"]), (503, &json!("the queue is full")));
    std::fs::write(&gate, "").unwrap();
    for id in waiting {
        rig.wait_for(&id, "CHECKED").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn money_is_held_back_while_a_submission_runs_and_charged_when_it_ends() {
    let rig = Rig::start().await;
    // The device costs a cent a second; the budget pays for one submission's limit of 600 s, not for two.
    let key = rig.user("payer", |user| user.daily_budget_usd = Some(6.5)).await;
    let gate = rig.folder.path().join("gate");
    let mut paid = body(&format!("//hold={}//", gate.display()), "checker");
    paid["gpu_type"] = json!("MI210");
    let (status, first) = rig.post_as(&key, SUBMIT, &paid).await;
    assert_eq!(status, 202, "{first}");
    let (_, second) = rig.post_as(&key, SUBMIT, &paid).await;
    assert!(second["id"].is_string(), "half a dollar is left, and pays for a shorter one: {second}");
    let (status, third) = rig.post_as(&key, SUBMIT, &paid).await;
    assert_eq!(status, 402, "{third}");
    let (_, me) = rig.get_as(&key, "/api/me").await;
    assert_eq!(me["budget"]["reserved_usd"], json!(6.5));
    std::fs::write(&gate, "").unwrap();
    let events = rig.events(&key, first["id"].as_str().unwrap()).await;
    let last = &events.last().unwrap().data;
    let (seconds, cost) = (last["execution_time"].as_f64().unwrap(), last["cost_usd"].as_f64().unwrap());
    assert!((cost - seconds * 0.01).abs() < 1e-4, "{seconds} s cost ${cost}");
    rig.wait_for(second["id"].as_str().unwrap(), "CHECKED").await;
    let (_, me) = rig.get_as(&key, "/api/me").await;
    assert_eq!(me["budget"]["reserved_usd"], json!(0.0));
    let spent = me["budget"]["spent_usd"].as_f64().unwrap();
    assert!(spent >= cost && spent < 6.5, "{spent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sees_a_source_or_cancels_a_submission() {
    let rig = Rig::start().await;
    let (mine, other) = (rig.user("mine", |_| {}).await, rig.user("other", |_| {}).await);
    let id = rig.submit(&mine, "// secret", "checker").await;
    rig.events(&mine, &id).await;
    let path = format!("/api/submissions/{id}");
    let (_, own) = rig.get_as(&mine, &path).await;
    assert_eq!((&own["code"], &own["mine"]), (&json!("// secret"), &json!(true)));
    let (status, seen) = rig.get_as(&other, &path).await;
    assert_eq!((status, &seen["code"], &seen["events"]), (200, &Value::Null, &json!([])));
    for (method, rest) in
        [("GET", "/events"), ("GET", "/isa"), ("GET", "/export.json"), ("GET", "/export.csv")]
    {
        let request = rig.http.request(method.parse().unwrap(), rig.url(&format!("{path}{rest}")));
        assert_eq!(request.bearer_auth(&other).send().await.unwrap().status().as_u16(), 403, "{rest}");
    }
    for rest in ["/cancel", "/public"] {
        let (status, _) = rig.post_as(&other, &format!("{path}{rest}"), &json!({ "public": true })).await;
        assert_eq!(status, 403, "{rest}");
    }
    let (status, _) = rig.post_as(&mine, &format!("{path}/public"), &json!({ "public": true })).await;
    assert_eq!(status, 200);
    let (_, seen) = rig.get_as(&other, &path).await;
    assert_eq!(seen["code"], "// secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_keys_answers_to_this_machine_alone() {
    let rig = Rig::start().await;
    let request = rig.http.get(rig.url("/api/me")).header("host", "board.example:3000");
    assert_eq!(request.send().await.unwrap().status().as_u16(), 403);
    let (status, me) = rig.get("/api/me").await;
    assert_eq!((status, &me["user"]), (200, &json!("local")));
    // Once a key exists, every request needs one.
    let key = rig.user("ada", |_| {}).await;
    assert_eq!(rig.get("/api/me").await.0, 401);
    assert_eq!(rig.get_as(&key, "/api/me").await.1["user"], "ada");
    // Public data needs no key.
    assert_eq!(rig.get("/api/problems").await.0, 200);
}
