//! Logins of people: through a provider, by a login link, and what a login may do.

mod browser;
mod provider;

use std::time::Duration;

use board_server::admin::Admin;
use board_server::config::{LoginConfig, ProviderConfig};
use serde_json::{Value, json};

use crate::rig::{Rig, body};
use browser::Browser;
use provider::{CLIENT, Forgery, SECRET, TestProvider};

const SESSION: &str = "remora_session";
const LINK: &str = "/api/login/link";

/// Starts a board with a provider.
async fn board(change: impl FnOnce(&mut LoginConfig)) -> (Rig, TestProvider) {
    let provider = TestProvider::start().await;
    let config = ProviderConfig {
        name: "Company".to_owned(),
        client_secret: Some(SECRET.to_owned()),
        ..ProviderConfig::new("company", &provider.issuer, CLIENT)
    };
    let rig = Rig::with(|all| {
        all.login.providers = vec![config];
        change(&mut all.login);
    })
    .await;
    (rig, provider)
}

/// Starts a login; returns the address of the provider's login page.
async fn start(browser: &mut Browser<'_>, more: Value) -> String {
    let mut body = json!({ "provider": "company" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let (status, answer) = browser.post("/api/login/start", body).await;
    assert_eq!(status, 200, "{answer}");
    answer["url"].as_str().unwrap().to_owned()
}

async fn finish(browser: &mut Browser<'_>, code: &str, state: &str) -> (u16, Value) {
    browser.post("/api/login/finish", json!({ "provider": "company", "code": code, "state": state })).await
}

/// A whole login.
async fn log_in(
    browser: &mut Browser<'_>,
    provider: &TestProvider,
    subject: &str,
    claims: Value,
) -> (u16, Value) {
    let address = start(browser, json!({})).await;
    let (code, state) = provider.log_in(&address, subject, claims, Forgery::None);
    finish(browser, &code, &state).await
}

/// Creates a login link with the administrator's command; returns its secret.
async fn link(rig: &Rig, name: &str, lifetime: Duration) -> String {
    let (url, name) = (Admin::file_url(&rig.folder.path().join("data")), name.to_owned());
    let made =
        tokio::task::spawn_blocking(move || Admin::open(&url).unwrap().create_login_link(&name, lifetime));
    made.await.unwrap().unwrap().strip_prefix("/login/link#").unwrap().to_owned()
}

fn ada() -> Value {
    json!({ "preferred_username": "ada", "email": "ada@example.org", "email_verified": true })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_login_creates_an_account_and_the_next_one_finds_it() {
    let (mut rig, provider) = board(|_| {}).await;
    let mut browser = Browser::new(&rig);
    assert_eq!(browser.user().await, None);
    let (_, options) = browser.get("/api/login").await;
    assert_eq!(options["providers"], json!([{ "key": "company", "name": "Company" }]));
    let address = start(&mut browser, json!({ "return_to": "/problems/relu?tab=discussion" })).await;
    assert!(address.starts_with(&format!("{}/auth?", provider.issuer)), "{address}");
    assert!(browser.set[0].contains("HttpOnly; SameSite=Strict"), "{:?}", browser.set);
    let (code, state) = provider.log_in(&address, "1", ada(), Forgery::None);
    let (status, done) = finish(&mut browser, &code, &state).await;
    let expected = json!({ "user": "ada", "created": true, "linked": false, "return_to": "/problems/relu?tab=discussion" });
    assert_eq!((status, &done), (200, &expected));
    assert!(browser.set[0].contains("Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"), "{:?}", browser.set);
    // The cookie of the login that has ended is removed.
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), [SESSION]);
    let (_, me) = browser.get("/api/me").await;
    assert_eq!((&me["user"], &me["authentication"]), (&json!("ada"), &json!("login")));
    // Strangers do not spend the operator's money.
    assert_eq!(me["budget"]["daily_usd"], json!(0.0));
    let token = browser.cookies[SESSION].clone();
    assert_eq!(token.len(), 64);
    // The database has a hash of the token.
    let data = std::fs::read(rig.folder.path().join("data/board.sqlite")).unwrap();
    let log = std::fs::read(rig.folder.path().join("data/board.sqlite-wal")).unwrap_or_default();
    for part in [data, log] {
        assert!(!part.windows(token.len()).any(|window| window == token.as_bytes()));
    }
    let mut other = Browser::new(&rig);
    let (_, done) = log_in(&mut other, &provider, "1", json!({ "preferred_username": "renamed" })).await;
    assert_eq!((&done["user"], &done["created"]), (&json!("ada"), &json!(false)));
    let (status, submitted) = other.post("/api/submissions", body("//", "checker")).await;
    assert_eq!(status, 202, "{submitted}");
    // A restart logs nobody out.
    let cookies = browser.cookies.clone();
    rig.restart().await;
    let mut browser = Browser::new(&rig);
    browser.cookies = cookies;
    assert_eq!(browser.user().await.as_deref(), Some("ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_with_a_replayed_or_forged_state_is_refused() {
    let (rig, provider) = board(|_| {}).await;
    let mut browser = Browser::new(&rig);
    let address = start(&mut browser, json!({})).await;
    let (code, state) = provider.log_in(&address, "1", ada(), Forgery::None);
    // Another browser, one without any login, and one with a login of its own.
    let mut thief = Browser::new(&rig);
    assert_eq!(
        finish(&mut thief, &code, &state).await.1["error"],
        "this login was started in another browser"
    );
    start(&mut thief, json!({})).await;
    assert_eq!(
        finish(&mut thief, &code, &state).await.1["error"],
        "this login was started in another browser"
    );
    let (status, answer) = finish(&mut browser, &code, "forged").await;
    assert_eq!((status, &answer["error"]), (400, &json!("this login has expired or was finished before")));
    let before = browser.clone();
    assert_eq!(finish(&mut browser, &code, &state).await.0, 200);
    // The same browser with the cookie that it had then.
    let mut replay = before;
    let (status, answer) = finish(&mut replay, &code, &state).await;
    assert_eq!((status, &answer["error"]), (400, &json!("this login has expired or was finished before")));
    assert_eq!(replay.user().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_token_that_is_not_for_this_login_is_refused() {
    let (rig, provider) = board(|_| {}).await;
    let past = json!({ "exp": 1_000_000 });
    for (name, claims, forgery, words) in [
        ("another nonce", json!({ "nonce": "another" }), Forgery::None, "nonce"),
        ("no nonce", json!({ "nonce": null }), Forgery::None, "nonce"),
        ("another audience", json!({ "aud": ["another"] }), Forgery::None, "audience"),
        ("one more audience", json!({ "aud": [CLIENT, "another"] }), Forgery::None, "audience"),
        ("another issuer", json!({ "iss": "http://127.0.0.1:1" }), Forgery::None, "issuer"),
        ("an old token", past, Forgery::None, "xpired"),
        ("another key", json!({}), Forgery::Key, "ignature"),
        ("no signature", json!({}), Forgery::Unsigned, "ignature"),
        ("another access token", json!({}), Forgery::AccessToken, "access token"),
        ("no token", json!({}), Forgery::Missing, "no identity token"),
        ("a long subject", json!({ "sub": "x".repeat(256) }), Forgery::None, "256 bytes"),
    ] {
        let mut browser = Browser::new(&rig);
        let address = start(&mut browser, json!({})).await;
        let (code, state) = provider.log_in(&address, "1", claims, forgery);
        let (status, answer) = finish(&mut browser, &code, &state).await;
        let text = answer.to_string();
        assert!(status == 502 && text.contains(words), "{name}: {status} {text}");
        assert!(text.contains("the login through Company failed"), "{name}: {text}");
        assert_eq!(browser.user().await, None, "{name}");
    }
    assert!(rig.store.users().await.unwrap().iter().all(|user| user.name == "local"));
    // New keys of the provider are found.
    let mut browser = Browser::new(&rig);
    assert_eq!(log_in(&mut browser, &provider, "1", ada()).await.0, 200);
    provider.rotate_key();
    assert_eq!(log_in(&mut Browser::new(&rig), &provider, "1", ada()).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_provider_are_shown_and_end_the_login() {
    let (rig, provider) = board(|_| {}).await;
    let mut browser = Browser::new(&rig);
    let state_of = |address: &str| provider.log_in(address, "1", json!({}), Forgery::None).1;
    let state = state_of(&start(&mut browser, json!({})).await);
    let body = json!({ "provider": "company", "state": state, "error": "access_denied",
        "error_description": format!("no\u{7} {}", "x".repeat(5000)) });
    let (status, answer) = browser.post("/api/login/finish", body.clone()).await;
    assert_eq!((status, &answer["error"]), (403, &json!("Company refused the login: access_denied")));
    let details = answer["details"].as_str().unwrap();
    assert!(details.starts_with("no xx") && details.len() == 300, "{details}");
    // Its words are shown once, and to the browser that started the login alone.
    assert_eq!(browser.post("/api/login/finish", body).await.0, 400);
    let state = state_of(&start(&mut browser, json!({})).await);
    let (status, answer) = finish(&mut browser, "unknown", &state).await;
    assert!(status == 502 && answer["details"].as_str().unwrap().contains("invalid_grant"), "{answer}");
    let state = state_of(&start(&mut browser, json!({})).await);
    let body = json!({ "provider": "company", "state": state, "code": "x", "iss": "https://evil.example" });
    let (status, answer) = browser.post("/api/login/finish", body).await;
    assert_eq!((status, &answer["error"]), (400, &json!("this login was started with another provider")));
    let state = state_of(&start(&mut browser, json!({})).await);
    let (status, answer) =
        browser.post("/api/login/finish", json!({ "provider": "company", "state": state })).await;
    assert_eq!((status, &answer["error"]), (400, &json!("Company sent neither a code nor an error")));
    let (status, answer) = browser.post("/api/login/start", json!({ "provider": "other" })).await;
    assert_eq!((status, &answer["error"]), (404, &json!("this server has no login provider \"other\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_starts_without_its_provider_and_says_that_it_is_unreachable() {
    let (rig, mut provider) = board(|_| {}).await;
    provider.stop().await;
    let mut browser = Browser::new(&rig);
    let (status, answer) = browser.post("/api/login/start", json!({ "provider": "company" })).await;
    assert_eq!(status, 502, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("its description cannot be read"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_returns_to_pages_of_this_board_alone() {
    let (rig, _provider) = board(|_| {}).await;
    let mut browser = Browser::new(&rig);
    for path in ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""] {
        let body = json!({ "provider": "company", "return_to": path });
        let (status, answer) = browser.post("/api/login/start", body).await;
        assert_eq!(
            (status, &answer["error"]),
            (400, &json!("`return_to` is not a path on this server")),
            "{path}"
        );
    }
    // Nor does the provider send the browser to another machine: the callback address is never made of a foreign name.
    let named = rig.http.post(rig.url("/api/login/start")).header("host", "evil.example");
    let answer = named.json(&json!({ "provider": "company" })).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_valid_and_nobody_gets_the_name_of_another() {
    let (rig, provider) = board(|_| {}).await;
    let mut names = Vec::new();
    for (subject, preferred) in [
        ("1", json!("ada")),
        ("2", json!("Ada")),
        ("3", json!("Ada L. @home")),
        ("4", json!("local")),
        ("5", json!(null)),
    ] {
        let (status, done) =
            log_in(&mut Browser::new(&rig), &provider, subject, json!({ "preferred_username": preferred }))
                .await;
        assert_eq!(status, 200, "{done}");
        names.push(done["user"].as_str().unwrap().to_owned());
    }
    assert_eq!(names, ["ada", "Ada-2", "Ada-L", "local-2", "user"]);
    // The same address is not the same person.
    let (_, done) = log_in(&mut Browser::new(&rig), &provider, "6", ada()).await;
    assert_eq!((&done["user"], &done["created"]), (&json!("ada-3"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_verified_addresses_of_the_allowed_domains_log_in() {
    let (rig, provider) =
        board(|login| login.providers[0].email_domains = vec!["example.org".to_owned()]).await;
    for (claims, expected) in [
        (json!({ "email": "a@evil.example", "email_verified": true }), 403),
        (json!({ "email": "a@example.org", "email_verified": false }), 403),
        (json!({ "email": "a@example.org" }), 403),
        (json!({}), 403),
        (ada(), 200),
    ] {
        let (status, answer) = log_in(&mut Browser::new(&rig), &provider, "1", claims.clone()).await;
        assert_eq!(status, expected, "{claims}: {answer}");
    }
    // A provider may say it in the user information alone.
    provider.set_user_info(
        json!({ "email": "b@example.org", "email_verified": true, "preferred_username": "ben" }),
    );
    let (status, done) = log_in(&mut Browser::new(&rig), &provider, "2", json!({})).await;
    assert_eq!((status, &done["user"]), (200, &json!("ben")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_a_key_is_linked_and_then_logs_in() {
    let (rig, provider) = board(|login| login.providers[0].register = false).await;
    let (status, answer) = log_in(&mut Browser::new(&rig), &provider, "1", ada()).await;
    assert_eq!((status, &answer["error"]), (403, &json!("there is no user for this account")));
    let (key, other) = (rig.user("grace", |_| {}).await, rig.user("other", |_| {}).await);
    let link = async |key: &str, subject: &str| {
        let mut browser = Browser::new(&rig);
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str()), ("sec-fetch-site", "same-origin")];
        let body = json!({ "provider": "company", "link": true, "return_to": "/account" });
        let (status, answer) = browser.post_from(&headers, "/api/login/start", body).await;
        assert_eq!(status, 200, "{answer}");
        let (code, state) = provider.log_in(answer["url"].as_str().unwrap(), subject, ada(), Forgery::None);
        finish(&mut browser, &code, &state).await
    };
    let (status, done) = link(&key, "1").await;
    assert_eq!((status, &done["user"], &done["linked"]), (200, &json!("grace"), &json!(true)));
    let mut browser = Browser::new(&rig);
    let (status, done) = log_in(&mut browser, &provider, "1", ada()).await;
    assert_eq!((status, &done["user"], &done["created"]), (200, &json!("grace"), &json!(false)));
    let (status, answer) = link(&other, "1").await;
    assert_eq!((status, &answer["error"]), (409, &json!("this account is linked to another user")));
    let linked = json!([{ "key": "company", "name": "Company", "linked": true }]);
    assert_eq!(browser.get("/api/account").await.1["providers"], linked);
    assert_eq!(browser.post("/api/account/unlink", json!({ "provider": "company" })).await.0, 200);
    assert_eq!(log_in(&mut Browser::new(&rig), &provider, "1", ada()).await.0, 403);
    // Without a user there is nothing to link.
    let body = json!({ "provider": "company", "link": true });
    assert_eq!(Browser::new(&rig).post("/api/login/start", body).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_cannot_use_a_login() {
    let (rig, provider) = board(|_| {}).await;
    let mut browser = Browser::new(&rig);
    log_in(&mut browser, &provider, "1", ada()).await;
    let own = rig.url("");
    for (headers, expected) in [
        (vec![("origin", "http://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("sec-fetch-site", "cross-site"), ("origin", own.as_str())], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
        // Browsers that keep cookies send one of the headers. A cookie without them is not a browser's.
        (vec![], 403),
        (vec![("origin", own.as_str())], 202),
        (vec![("sec-fetch-site", "same-origin")], 202),
    ] {
        for path in ["/api/submissions", "/api/account/keys", "/api/login/start", "/api/logout"] {
            let without_login = path == "/api/login/start" || path == "/api/logout";
            if expected == 202 && path != "/api/submissions" || headers.is_empty() && without_login {
                continue;
            }
            let (status, answer) = browser.post_from(&headers, path, body("//", "checker")).await;
            assert_eq!(status, expected, "{path} {headers:?}: {answer}");
        }
    }
    assert_eq!(browser.user().await.as_deref(), Some("ada"));
    assert_eq!(browser.get("/api/account").await.1["keys"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_ends_by_log_out_in_time_and_by_a_ban() {
    let (rig, provider) = board(|_| {}).await;
    let (mut one, mut two, mut three) = (Browser::new(&rig), Browser::new(&rig), Browser::new(&rig));
    for browser in [&mut one, &mut two, &mut three] {
        log_in(browser, &provider, "1", ada()).await;
    }
    let mut kept = one.clone();
    assert_eq!(one.post("/api/logout", json!({})).await.0, 200);
    assert!(one.cookies.is_empty());
    // The token itself no longer works.
    assert_eq!(kept.user().await, None);
    assert_eq!(two.get("/api/account").await.1["browsers"], 2);
    // A new login of a browser replaces the previous one.
    let mut before = two.clone();
    log_in(&mut two, &provider, "1", ada()).await;
    assert_eq!(before.user().await, None);
    rig.store.set_banned("ada", true).await.unwrap();
    assert_eq!(two.get("/api/me").await.0, 403);
    assert_eq!(log_in(&mut Browser::new(&rig), &provider, "1", ada()).await.0, 403);
    rig.store.set_banned("ada", false).await.unwrap();
    assert_eq!(two.post("/api/logout", json!({ "everywhere": true })).await.0, 200);
    assert_eq!(three.user().await, None);
    let (rig, provider) = board(|login| login.lifetime = Duration::ZERO).await;
    let mut browser = Browser::new(&rig);
    let address = start(&mut browser, json!({})).await;
    let (code, state) = provider.log_in(&address, "1", ada(), Forgery::None);
    assert_eq!(finish(&mut browser, &code, &state).await.0, 200);
    let token = browser.set[0].split(['=', ';']).nth(1).unwrap().to_owned();
    browser.cookies.insert(SESSION.to_owned(), token);
    assert_eq!(browser.user().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logged_in_user_creates_and_revokes_keys_and_a_key_cannot() {
    let (rig, provider) = board(|_| {}).await;
    let other = rig.user("other", |_| {}).await;
    let mut browser = Browser::new(&rig);
    log_in(&mut browser, &provider, "1", ada()).await;
    let (status, made) = browser.post("/api/account/keys", json!({})).await;
    assert_eq!(status, 201, "{made}");
    let key = made["key"].as_str().unwrap().to_owned();
    let (_, me) = rig.get_as(&key, "/api/me").await;
    assert_eq!((&me["user"], &me["authentication"]), (&json!("ada"), &json!("key")));
    assert_eq!(rig.post_as(&key, "/api/account/keys", &json!({})).await.0, 403);
    let prefix = key.split('_').nth(1).unwrap();
    let (_, account) = rig.get_as(&key, "/api/account").await;
    assert_eq!((&account["keys"][0]["prefix"], &account["manages_keys"]), (&json!(prefix), &json!(false)));
    assert_eq!(rig.post_as(&key, "/api/account/keys/revoke", &json!({ "prefix": prefix })).await.0, 403);
    // Keys of others are out of reach.
    let foreign = json!({ "prefix": other.split('_').nth(1).unwrap() });
    assert_eq!(browser.post("/api/account/keys/revoke", foreign).await.0, 404);
    assert_eq!(rig.get_as(&other, "/api/me").await.0, 200);
    assert_eq!(browser.post("/api/account/keys/revoke", json!({ "prefix": prefix })).await.0, 200);
    assert_eq!(rig.get_as(&key, "/api/me").await.0, 401);
    for _ in 0..20 {
        assert_eq!(browser.post("/api/account/keys", json!({})).await.0, 201);
    }
    let (status, answer) = browser.post("/api/account/keys", json!({})).await;
    assert_eq!((status, &answer["error"]), (409, &json!("you have 20 keys in use")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_works_once_in_its_time_and_after_confirmation() {
    let rig = Rig::with(|config| config.require_key = true).await;
    rig.user("ada", |_| {}).await;
    let token = link(&rig, "ada", Duration::from_secs(60)).await;
    let mut browser = Browser::new(&rig);
    // Neither the page nor a look at the link uses it.
    assert_eq!(browser.get("/login/link").await.0, 200);
    for _ in 0..2 {
        let (status, shown) = browser.post(LINK, json!({ "token": token })).await;
        assert_eq!((status, &shown), (200, &json!({ "user": "ada", "confirmed": false })));
        assert_eq!(browser.user().await, None);
    }
    let foreign = [("origin", "http://evil.example")];
    let confirm = json!({ "token": token, "confirm": true });
    assert_eq!(browser.post_from(&foreign, LINK, confirm.clone()).await.0, 403);
    let (status, done) = browser.post(LINK, confirm.clone()).await;
    assert_eq!((status, &done["confirmed"]), (200, &json!(true)));
    assert_eq!(browser.user().await.as_deref(), Some("ada"));
    let expired = link(&rig, "ada", Duration::ZERO).await;
    let unused = link(&rig, "ada", Duration::from_secs(60)).await;
    let mut other = Browser::new(&rig);
    for wrong in [&token, &expired, "", &"0".repeat(64), &browser.cookies[SESSION]] {
        for confirm in [false, true] {
            let (status, answer) = other.post(LINK, json!({ "token": wrong, "confirm": confirm })).await;
            assert_eq!((status, &answer["error"]), (404, &json!("this login link is not valid")), "{wrong}");
        }
    }
    // Of two browsers that confirm at the same time one is logged in.
    let (mut left, mut right) = (Browser::new(&rig), Browser::new(&rig));
    let confirm = json!({ "token": unused, "confirm": true });
    let (one, two) = tokio::join!(left.post(LINK, confirm.clone()), right.post(LINK, confirm));
    assert_eq!([one.0, two.0].iter().filter(|status| **status == 200).count(), 1, "{one:?} {two:?}");
    assert_eq!([one.0, two.0].iter().filter(|status| **status == 404).count(), 1, "{one:?} {two:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_with_an_account_belongs_no_longer_to_everyone_on_its_machine() {
    let rig = Rig::start().await;
    assert_eq!(rig.get("/api/me").await.1["authentication"], "local");
    let key = rig.user("ada", |_| {}).await;
    assert_eq!(rig.get("/api/me").await.0, 401);
    // Revoking the last key does not open it again.
    rig.store.revoke_key(key.split('_').nth(1).unwrap()).await.unwrap();
    assert_eq!(rig.get("/api/me").await.0, 401);
    let token = link(&rig, "ada", Duration::from_secs(60)).await;
    let mut browser = Browser::new(&rig);
    browser.post(LINK, json!({ "token": token, "confirm": true })).await;
    assert_eq!(browser.user().await.as_deref(), Some("ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_limited_in_their_rate() {
    let (rig, _provider) = board(|login| login.total_per_minute = 3).await;
    let mut browser = Browser::new(&rig);
    start(&mut browser, json!({})).await;
    assert_eq!(finish(&mut browser, "x", "y").await.0, 400);
    assert_eq!(browser.post(LINK, json!({ "token": "x" })).await.0, 404);
    for path in ["/api/login/start", "/api/login/finish", LINK] {
        let request =
            rig.http.post(rig.url(path)).json(&json!({ "provider": "company", "state": "", "token": "" }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 429, "{path}");
        assert!(response.headers().contains_key("retry-after"));
    }
    // The rest of the board is not.
    assert_eq!(rig.get("/api/problems").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_https_cookies_are_kept_to_it() {
    let (rig, provider) = board(|login| login.public_url = Some("https://board.example".to_owned())).await;
    let mut browser = Browser::new(&rig);
    let origin = [("origin", "https://board.example")];
    let (status, answer) =
        browser.post_from(&origin, "/api/login/start", json!({ "provider": "company" })).await;
    assert_eq!(status, 200, "{answer}");
    let address = answer["url"].as_str().unwrap();
    assert!(
        address.contains("redirect_uri=https%3A%2F%2Fboard.example%2Flogin%2Fcallback%2Fcompany"),
        "{address}"
    );
    let (code, state) = provider.log_in(address, "1", ada(), Forgery::None);
    let body = json!({ "provider": "company", "code": code, "state": state });
    assert_eq!(browser.post_from(&origin, "/api/login/finish", body).await.0, 200);
    assert!(browser.set[0].starts_with("__Host-remora_session=") && browser.set[0].ends_with("; Secure"));
    assert_eq!(browser.user().await.as_deref(), Some("ada"));
}
