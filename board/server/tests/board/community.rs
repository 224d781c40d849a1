//! What users show each other: rankings, profiles, share links, frames, comments and editorials.

use std::time::Duration;

use crate::rig::{Rig, body};
use serde_json::{Value, json};

/// Starts a server that computes rankings anew for every request.
async fn rig() -> Rig {
    Rig::with(|config| config.limits.ranking_age = Duration::ZERO).await
}

/// Submits a measured solution and waits for its end.
async fn solve(rig: &Rig, key: &str, problem: &str, dtype: &str, gpu: &str, source: &str) -> String {
    let mut body = body(source, "full");
    (body["problem"], body["dtype"], body["gpu_type"]) = (json!(problem), json!(dtype), json!(gpu));
    let (status, answer) = rig.post_as(key, "/api/submissions", &body).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["id"].as_str().unwrap().to_owned();
    rig.events(key, &id).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ranking_adds_points_over_problems_and_equal_points_share_a_rank() {
    let rig = rig().await;
    let keys = [rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await, rig.user("cem", |_| {}).await];
    solve(&rig, &keys[0], "leaky-relu", "float32", "MI300X", "//ms=1.0//").await;
    solve(&rig, &keys[1], "relu", "float32", "MI300X", "//ms=1.0//").await;
    solve(&rig, &keys[2], "relu", "float32", "MI300X", "//ms=2.0//").await;
    solve(&rig, &keys[2], "relu", "float32", "MI210", "//ms=2.0//").await;
    // Neither a flagged nor a wrong submission gives points.
    solve(&rig, &keys[2], "leaky-relu", "float32", "MI300X", "//ms=0.1//flag").await;
    solve(&rig, &keys[2], "softmax", "float32", "MI300X", "//wrong").await;
    let (status, ranking) = rig.get("/api/ranking").await;
    assert_eq!(status, 200, "{ranking}");
    let rows: Vec<(&Value, &Value, &Value, &Value)> = ranking["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["rank"], &row["user"], &row["points"], &row["first_ranks"]))
        .collect();
    let expected = [(1, "ada", 200, 1), (1, "ben", 200, 1), (3, "cem", 150, 0)]
        .map(|(rank, user, points, first)| (json!(rank), json!(user), json!(points), json!(first)));
    assert_eq!(rows, expected.iter().map(|row| (&row.0, &row.1, &row.2, &row.3)).collect::<Vec<_>>());
    let leaders: Vec<&Value> =
        ranking["leaders"].as_array().unwrap().iter().map(|leader| &leader["users"][0]).collect();
    assert_eq!(leaders, ["ada", "ben"]);
    assert_eq!((&ranking["emulated"], &ranking["gpu"]), (&json!(true), &json!("MI300X")));
    let (_, real) = rig.get("/api/ranking?gpu=mi210").await;
    assert_eq!((&real["entries"][0]["user"], &real["users"]), (&json!("cem"), &json!(1)));
    // A banned user leaves the ranking, and the others move up.
    rig.store.set_banned("ada", true).await.unwrap();
    let (_, ranking) = rig.get("/api/ranking").await;
    assert_eq!((&ranking["users"], &ranking["entries"][0]["user"]), (&json!(2), &json!("ben")));
    assert_eq!(rig.get("/api/ranking?gpu=H100").await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ranking_is_computed_once_in_its_time() {
    let rig = Rig::with(|config| config.limits.ranking_age = Duration::from_secs(3600)).await;
    assert_eq!(rig.get("/api/ranking").await.1["users"], 0);
    solve(&rig, "", "relu", "float32", "MI300X", "//").await;
    assert_eq!(rig.get("/api/ranking").await.1["users"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_shows_solved_problems_and_exists_only_for_users_who_submitted() {
    let rig = rig().await;
    let (ada, ben) = (rig.user("Ada", |_| {}).await, rig.user("ben", |_| {}).await);
    solve(&rig, &ada, "relu", "float32", "MI300X", "//ms=1.0//").await;
    solve(&rig, &ada, "relu", "float32", "MI300X", "//wrong").await;
    let (status, profile) = rig.get("/api/users/Ada").await;
    assert_eq!(status, 200, "{profile}");
    assert_eq!(
        (&profile["submissions"], &profile["accepted"], &profile["mine"]),
        (&json!(2), &json!(1), &json!(false))
    );
    assert_eq!(
        (&profile["solved"][0]["problem"], &profile["solved"][0]["points"]),
        (&json!("relu"), &json!(200))
    );
    assert_eq!(
        (&profile["standings"][0]["entry"]["rank"], &profile["standings"][0]["users"]),
        (&json!(1), &json!(1))
    );
    let (_, list) = rig.get("/api/submissions?user=Ada").await;
    assert_eq!(list["submissions"].as_array().unwrap().len(), 2);
    // A name that exists without submissions looks like one that does not exist, except to its owner.
    let (status, missing) = rig.get("/api/users/ben").await;
    let (_, nobody) = rig.get("/api/users/nobody").await;
    assert_eq!(status, 404);
    let plain = |answer: &Value, name: &str| answer["error"].as_str().unwrap().replace(name, "X");
    assert_eq!(plain(&missing, "ben"), plain(&nobody, "nobody"));
    assert_eq!(rig.get("/api/users/ada").await.0, 404, "names are case-sensitive");
    let (status, own) = rig.get_as(&ben, "/api/users/ben").await;
    assert_eq!((status, &own["mine"]), (200, &json!(true)));
    rig.store.set_banned("Ada", true).await.unwrap();
    assert_eq!(rig.get("/api/users/Ada").await.0, 404);
    assert_eq!(rig.get("/api/submissions?user=Ada").await.1["submissions"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_link_shows_a_submission_until_it_is_revoked() {
    let rig = Rig::start().await;
    let (ada, ben) = (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await);
    let id = solve(&rig, &ada, "relu", "float32", "MI300X", "// secret").await;
    let path = format!("/api/submissions/{id}/share");
    assert_eq!(rig.post_as(&ben, &path, &json!({ "shared": true })).await.0, 403);
    assert_eq!(rig.post_as("", &path, &json!({ "shared": true })).await.0, 401);
    assert_eq!(rig.post_as(&ada, &path, &json!({ "share": true })).await.0, 422);
    let (status, share) = rig.post_as(&ada, &path, &json!({ "shared": true })).await;
    assert_eq!(status, 200, "{share}");
    let token = share["token"].as_str().unwrap().to_owned();
    assert!(token.len() >= 32, "{token}");
    // A second request returns the same link. Only the author sees the link in a reply.
    assert_eq!(rig.post_as(&ada, &path, &json!({ "shared": true })).await.1["token"], token);
    assert_eq!(rig.get_as(&ada, &format!("/api/submissions/{id}")).await.1["share"], token);
    assert_eq!(rig.get_as(&ben, &format!("/api/submissions/{id}")).await.1.get("share"), None);
    // Everyone who has it sees the source and the result, but the submission itself stays private.
    let shared = rig.http.get(rig.url(&format!("/api/shared/{token}"))).send().await.unwrap();
    assert_eq!(shared.headers()["cache-control"], "no-store");
    assert_eq!(shared.headers()["referrer-policy"], "no-referrer");
    assert_eq!(shared.headers()["x-robots-tag"], "noindex");
    let shared: Value = shared.json().await.unwrap();
    assert_eq!(
        (&shared["code"], &shared["status"], &shared["mine"]),
        (&json!("// secret"), &json!("BENCHMARKED"), &json!(false))
    );
    assert_eq!(rig.get(&format!("/api/shared/{token}/isa")).await.0, 200);
    assert_eq!(rig.get(&format!("/api/submissions/{id}")).await.1["code"], Value::Null);
    // The id of the submission is not a link.
    for wrong in [id.as_str(), "", "x", &token[1..], &"0".repeat(token.len()), "%2e%2e"] {
        assert_eq!(rig.get(&format!("/api/shared/{wrong}")).await.0, 404, "{wrong}");
    }
    // A revoked link never works again, and the next one is different.
    assert_eq!(rig.post_as(&ada, &path, &json!({ "shared": false })).await.1["token"], Value::Null);
    assert_eq!(rig.get(&format!("/api/shared/{token}")).await.0, 404);
    assert_eq!(rig.get(&format!("/api/shared/{token}/isa")).await.0, 404);
    assert_eq!(rig.get(&format!("/embed/result/{token}")).await.0, 404);
    let (_, next) = rig.post_as(&ada, &path, &json!({ "shared": true })).await;
    let next = next["token"].as_str().unwrap();
    assert_ne!(next, token);
    rig.store.set_banned("ada", true).await.unwrap();
    assert_eq!(rig.get(&format!("/api/shared/{next}")).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_embedded_pages_may_be_framed_and_they_run_no_scripts() {
    let rig = Rig::start().await;
    let ada = rig.user("ada", |_| {}).await;
    let id = solve(&rig, &ada, "relu", "float32", "MI300X", "//ms=2.5//ci=2.4-2.6// secret").await;
    let (_, share) =
        rig.post_as(&ada, &format!("/api/submissions/{id}/share"), &json!({ "shared": true })).await;
    let result = format!("/embed/result/{}", share["token"].as_str().unwrap());
    for path in ["/embed/leaderboard/relu?gpu=MI300X&theme=dark", result.as_str()] {
        let page = rig.http.get(rig.url(path)).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 200, "{path}");
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors *") && policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("script-src"), "{policy}");
        assert!(!page.headers().contains_key("x-frame-options"));
        let text = page.text().await.unwrap();
        assert!(text.contains("ada") && text.contains("2.50 ms") && text.contains("emulated"), "{text}");
        assert!(!text.contains("secret") && !text.contains("<script") && !text.contains("style="), "{text}");
    }
    // A theme that does not exist does not reach the page.
    let page =
        rig.http.get(rig.url("/embed/leaderboard/relu?theme=%22%3E%3Cscript%3E")).send().await.unwrap();
    assert!(!page.text().await.unwrap().contains("script"));
    let style = rig.http.get(rig.url("/embed/style.css")).send().await.unwrap();
    assert_eq!(style.headers()["content-type"], "text/css; charset=utf-8");
    // Everything else refuses frames: pages, errors, the interface, and an embedded page that does not exist.
    for path in
        ["/", "/s/0", "/leaderboard/relu", "/api/problems", "/embed/leaderboard/nothing", "/embed/nothing"]
    {
        let page = rig.http.get(rig.url(path)).send().await.unwrap();
        assert_eq!(page.headers()["x-frame-options"], "DENY", "{path}");
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_of_other_sites_change_nothing() {
    let rig = Rig::start().await;
    let id = rig.submit("", "//", "checker").await;
    rig.events("", &id).await;
    let path = format!("/api/submissions/{id}/public");
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example"), ("origin", "null")]
    {
        let request = rig.http.post(rig.url(&path)).header(name, value).json(&json!({ "public": true }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 403, "{name}: {value}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"], "this request comes from another site");
    }
    assert_eq!(rig.get(&format!("/api/submissions/{id}")).await.1["public"], false);
    let own = rig
        .http
        .post(rig.url(&path))
        .header("sec-fetch-site", "same-origin")
        .json(&json!({ "public": true }));
    assert_eq!(own.send().await.unwrap().status().as_u16(), 200);
}

const DISCUSSION: &str = "/api/problems/relu/discussion";

fn markdown(text: &str) -> Value {
    json!({ "markdown": text })
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_are_listed_in_pages_and_removed_by_their_author_or_a_moderator() {
    let rig = Rig::with(|config| config.limits.comments_per_minute = 100).await;
    let (ada, ben, mod_key) =
        (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await, rig.user("mia", |_| {}).await);
    rig.store.set_moderator("mia", true).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..25 {
        let (status, comment) = rig.post_as(&ada, DISCUSSION, &markdown(&format!("number *{number}*"))).await;
        assert_eq!((status, &comment["user"]), (201, &json!("ada")), "{comment}");
        ids.push(comment["id"].as_str().unwrap().to_owned());
    }
    let (_, first) = rig.get(DISCUSSION).await;
    assert_eq!((&first["total"], first["comments"].as_array().unwrap().len()), (&json!(25), 20));
    let (_, second) = rig.get(&format!("{DISCUSSION}?before={}", first["next"].as_str().unwrap())).await;
    assert_eq!(second["next"], Value::Null);
    let all = [&first, &second].map(|page| page["comments"].as_array().unwrap().clone()).concat();
    let listed: Vec<&str> = all.iter().rev().map(|comment| comment["id"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    assert_eq!(all[0]["html"], "<p>number <em>24</em></p>\n");
    // Others may not remove it, and are not offered to.
    let remove = |id: &str| format!("/api/comments/{id}/remove");
    assert_eq!(rig.post_as(&ben, &remove(&ids[0]), &json!({})).await.0, 403);
    assert_eq!(rig.post_as("", &remove(&ids[0]), &json!({})).await.0, 401);
    let offered = |page: &Value| page["comments"][0]["removable"].clone();
    assert_eq!(offered(&rig.get_as(&ben, DISCUSSION).await.1), false);
    assert_eq!(offered(&rig.get_as(&ada, DISCUSSION).await.1), true);
    assert_eq!(offered(&rig.get_as(&mod_key, DISCUSSION).await.1), true);
    for (key, id) in [(&ada, &ids[0]), (&mod_key, &ids[1])] {
        assert_eq!(rig.post_as(key, &remove(id), &json!({})).await.0, 200);
        assert_eq!(rig.post_as(key, &remove(id), &json!({})).await.0, 404);
    }
    assert_eq!(rig.get(DISCUSSION).await.1["total"], 23);
    // The comments of a banned user disappear.
    rig.store.set_banned("ada", true).await.unwrap();
    assert_eq!(rig.get(DISCUSSION).await.1["comments"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_are_limited_in_size_and_rate() {
    let rig = Rig::start().await;
    let (ada, ben) = (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await);
    for (body, status, words) in [
        (markdown(" \n "), 400, "empty"),
        (markdown("a\0b"), 400, "zero byte"),
        (markdown(&"x".repeat((8 << 10) + 1)), 413, "too long"),
        (json!({ "text": "x" }), 422, "not a valid comment"),
        (json!([]), 422, "not a valid comment"),
    ] {
        let (found, answer) = rig.post_as(&ada, DISCUSSION, &body).await;
        assert_eq!(found, status, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    assert_eq!(rig.post_as("", DISCUSSION, &markdown("x")).await.0, 401);
    assert_eq!(rig.post_as(&ada, "/api/problems/nothing/discussion", &markdown("x")).await.0, 404);
    assert_eq!(rig.get(&format!("{DISCUSSION}?before=yesterday")).await.0, 400);
    // Refused comments do not count; removed ones do.
    for _ in 0..5 {
        let (status, comment) = rig.post_as(&ada, DISCUSSION, &markdown("x")).await;
        assert_eq!(status, 201, "{comment}");
        let path = format!("/api/comments/{}/remove", comment["id"].as_str().unwrap());
        assert_eq!(rig.post_as(&ada, &path, &json!({})).await.0, 200);
    }
    let request = rig.http.post(rig.url(DISCUSSION)).bearer_auth(&ada).json(&markdown("x"));
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 429);
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(rig.post_as(&ben, DISCUSSION, &markdown("x")).await.0, 201);
}

/// Texts that would run something if they reached a page as they are.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "[x](javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=x onerror=alert(1)&gt;\">",
    "<form action=/api/me><input name=attributes>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<style>body{display:none}</style><div style=position:fixed>x</div>",
    "```x\"><img src=x onerror=alert(1)>\ncode\n```",
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_in_a_comment_or_an_editorial_can_run() {
    let rig = Rig::with(|config| config.limits.comments_per_minute = 100).await;
    let editorial = "/api/problems/relu/editorial";
    for text in HOSTILE {
        let (status, comment) = rig.post_as("", DISCUSSION, &markdown(text)).await;
        assert_eq!(status, 201, "{comment}");
        let (status, written) = rig.post_as("", editorial, &markdown(text)).await;
        assert_eq!(status, 200, "{written}");
        for html in [&comment["html"], &written["html"], &rig.get(editorial).await.1["html"]] {
            let html = html.as_str().unwrap();
            // What starts a tag is never a dangerous one, and no tag has a handler, a style or a script address.
            for tag in html.split('<').skip(1) {
                let tag = tag.split('>').next().unwrap_or_default().to_lowercase();
                for bad in [
                    "script", "img", "svg", "form", "input", "base", "meta", "style", "iframe", "object",
                    "animate",
                ] {
                    assert!(!tag.trim_start_matches('/').starts_with(bad), "{bad} in {html}");
                }
                for bad in [" on", "javascript:", "data:", "style="] {
                    assert!(!tag.contains(bad), "{bad} in {html}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn editorials_are_written_by_moderators_and_read_by_everyone() {
    let rig = Rig::start().await;
    let (ada, mia) = (rig.user("ada", |_| {}).await, rig.user("mia", |_| {}).await);
    rig.store.set_moderator("mia", true).await.unwrap();
    let path = "/api/problems/relu/editorial";
    let (_, none) = rig.get(path).await;
    assert_eq!((&none["html"], &none["user"], &none["editable"]), (&json!(""), &Value::Null, &json!(false)));
    assert_eq!(rig.post_as(&ada, path, &markdown("x")).await.0, 403);
    assert_eq!(rig.post_as("", path, &markdown("x")).await.0, 401);
    assert_eq!(rig.post_as(&mia, path, &markdown(&"x".repeat((64 << 10) + 1))).await.0, 413);
    assert_eq!(rig.post_as(&mia, path, &markdown("# Idea\n\nUse $\\max(x, 0)$.")).await.0, 200);
    let (_, seen) = rig.get_as(&ada, path).await;
    assert!(seen["html"].as_str().unwrap().contains("<math"), "{seen}");
    assert_eq!((&seen["user"], &seen["markdown"]), (&json!("mia"), &Value::Null));
    let (_, own) = rig.get_as(&mia, path).await;
    assert_eq!((&own["editable"], &own["markdown"]), (&json!(true), &json!("# Idea\n\nUse $\\max(x, 0)$.")));
    assert_eq!(rig.post_as(&mia, path, &markdown("")).await.1["html"], "");
    rig.store.set_moderator("mia", false).await.unwrap();
    assert_eq!(rig.post_as(&mia, path, &markdown("x")).await.0, 403);
}
