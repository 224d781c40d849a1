//! Read access: problems, leaderboards, devices, lists, files, pages, metrics.

use std::collections::BTreeSet;

use crate::rig::Rig;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_found_by_words_difficulty_and_tag() {
    let rig = Rig::start().await;
    let (_, all) = rig.get("/api/problems").await;
    let count = all["problems"].as_array().unwrap().len();
    assert_eq!(count, board_problems::all().len());
    let (_, found) = rig.get("/api/problems?search=LEAKY").await;
    assert!(found["problems"].as_array().unwrap().iter().any(|one| one["slug"] == "leaky-relu"));
    assert!(found["problems"].as_array().unwrap().len() < count);
    let (_, hard) = rig.get("/api/problems?difficulty=hard").await;
    assert!(hard["problems"].as_array().unwrap().iter().all(|one| one["difficulty"] == "hard"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_problem_can_be_read_whole() {
    let rig = Rig::start().await;
    for problem in board_problems::all() {
        let (status, detail) = rig.get(&format!("/api/problems/{}", problem.slug)).await;
        assert_eq!(status, 200, "{}", problem.slug);
        let statement = detail["statement_html"].as_str().unwrap();
        assert!(!statement.contains('$') && !statement.contains("merror"), "{}: {statement}", problem.slug);
        for dtype in &problem.dtypes {
            let starter = &detail["starters"][dtype.name()];
            // A kernel runs on one GPU.
            let has_kernel = starter["kernel"].as_str().unwrap().contains("__global__");
            assert_eq!(has_kernel, problem.devices == 1, "{}", problem.slug);
            assert!(starter["host"].is_string() && detail["tolerance"][dtype.name()]["rtol"].is_number());
        }
        assert!(!detail["cases"].as_array().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaderboard_has_the_best_of_each_user_and_real_and_emulated_never_meet() {
    let rig = Rig::start().await;
    let (ada, ben) = (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await);
    for (key, gpu, ms) in [
        (&ada, "MI300X", "5.5"),
        (&ada, "MI300X", "2.5"),
        (&ada, "MI300X", "3.5"),
        (&ben, "MI300X", "1.5"),
        (&ben, "MI210", "0.5"),
    ] {
        let mut body = crate::rig::body(&format!("//ms={ms}//"), "full");
        body["gpu_type"] = json!(gpu);
        let (_, answer) = rig.post_as(key, "/api/submissions", &body).await;
        rig.events(key, answer["id"].as_str().unwrap()).await;
    }
    let (_, board) = rig.get("/api/leaderboards/leaky-relu?gpu=MI300X&dtype=float32").await;
    let rows: Vec<(Value, Value, Value)> = board["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["rank"].clone(), row["user"].clone(), row["avg_runtime_ms"].clone()))
        .collect();
    assert_eq!(rows, [(json!(1), json!("ben"), json!(1.5)), (json!(2), json!("ada"), json!(2.5))]);
    assert_eq!((&board["emulated"], &board["entries"][0]["instructions"]), (&json!(true), &json!(640.0)));
    let (_, real) = rig.get("/api/leaderboards/leaky-relu?gpu=MI210").await;
    assert_eq!((&real["emulated"], real["entries"].as_array().unwrap().len()), (&json!(false), 1));
    let csv = rig.http.get(rig.url("/api/leaderboards/leaky-relu.csv?gpu=MI300X")).send().await.unwrap();
    let csv = csv.text().await.unwrap();
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.lines().nth(1).unwrap().starts_with("1,ben,"), "{csv}");
    // A banned user disappears from the leaderboard.
    rig.store.set_banned("ben", true).await.unwrap();
    let (_, board) = rig.get("/api/leaderboards/leaky-relu?gpu=MI300X").await;
    assert_eq!(board["entries"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaderboard_has_one_type_ties_and_badges_but_no_flagged_submissions() {
    let rig = Rig::start().await;
    for (user, source, dtype) in [
        ("ada", "//ms=1.0//ci=0.9-1.1//", "float32"),
        // Atomic sums give other bits each time. That is honest.
        ("ben", "//ms=1.05//ci=1.0-1.1//random", "float32"),
        ("cem", "//ms=2.0//ci=1.9-2.1//", "float32"),
        ("dan", "//ms=0.1//ci=0.1-0.1//flag", "float32"),
        ("eve", "//ms=0.5//ci=0.4-0.6//", "float16"),
    ] {
        let key = rig.user(user, |_| {}).await;
        let mut body = crate::rig::body(source, "full");
        body["dtype"] = json!(dtype);
        let (_, answer) = rig.post_as(&key, "/api/submissions", &body).await;
        let id = answer["id"].as_str().unwrap();
        rig.events(&key, id).await;
        let (_, detail) = rig.get_as(&key, &format!("/api/submissions/{id}")).await;
        assert_eq!(detail["deterministic"], json!(user != "ben"), "{detail}");
    }
    let rows = async |query: &str| {
        let (_, board) = rig.get(&format!("/api/leaderboards/leaky-relu?gpu=MI300X{query}")).await;
        let entries = board["entries"].as_array().unwrap().iter();
        let rows: Vec<(u64, String, bool)> = entries
            .map(|row| {
                let (rank, user) = (row["rank"].as_u64().unwrap(), row["user"].as_str().unwrap());
                (rank, user.to_owned(), row["deterministic"].as_bool().unwrap())
            })
            .collect();
        (board["dtype"].as_str().unwrap().to_owned(), rows, board["entries"][0]["ci_high_ms"].clone())
    };
    let expected = [(1, "ada", true), (1, "ben", false), (3, "cem", true)];
    let expected = expected.map(|(rank, user, truth)| (rank, user.to_owned(), truth)).to_vec();
    // Without a type, that of the problem's first type.
    assert_eq!(rows("").await, ("float32".to_owned(), expected, json!(1.1)));
    let half = rows("&dtype=float16").await;
    assert_eq!(half, ("float16".to_owned(), vec![(1, "eve".to_owned(), true)], json!(0.6)));
    let (status, refused) = rig.get("/api/leaderboards/leaky-relu?gpu=MI300X&dtype=int8").await;
    assert_eq!(status, 400, "{refused}");
    let path = "/api/leaderboards/leaky-relu.csv?gpu=MI300X&dtype=float16";
    let csv = rig.http.get(rig.url(path)).send().await.unwrap().text().await.unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0].len(), lines[1].len(), "{csv}");
    assert_eq!((lines[1][3], lines[1][5], lines[1][6]), ("float16", "0.4", "0.6"), "{csv}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nvidia_gpu_is_never_ranked_with_the_amd_gpu_that_it_imitates() {
    let rig = Rig::with(|config| {
        let nvidia = ["H200-GFX942", "H200-GFX90A"].map(|gpu| crate::rig::device(gpu, 1, 0.0, false));
        config.devices = vec![crate::rig::device("MI300X", 1, 0.0, false)];
        config.devices.extend(nvidia);
        config.devices.push(crate::rig::device("MI300X-software", 1, 0.0, true));
    })
    .await;
    let key = rig.user("ada", |_| {}).await;
    let times = [("MI300X", 4.0), ("H200-GFX942", 3.0), ("H200-GFX90A", 2.0), ("MI300X-software", 1.0)];
    for (gpu, ms) in times {
        let mut body = crate::rig::body(&format!("//ms={ms:?}//"), "full");
        body["gpu_type"] = json!(gpu);
        let (_, answer) = rig.post_as(&key, "/api/submissions", &body).await;
        rig.events(&key, answer["id"].as_str().unwrap()).await;
    }
    for (gpu, ms) in times {
        let (_, board) = rig.get(&format!("/api/leaderboards/leaky-relu?gpu={gpu}")).await;
        let rows: Vec<&Value> =
            board["entries"].as_array().unwrap().iter().map(|row| &row["avg_runtime_ms"]).collect();
        assert_eq!((rows, &board["gpu"]), (vec![&json!(ms)], &json!(gpu)));
        assert_eq!(board["emulated"], json!(gpu.ends_with("software")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_are_listed_in_pages_and_filtered() {
    let rig = Rig::start().await;
    let mut ids = Vec::new();
    for source in ["//", "//wrong", "//error", "//", "//"] {
        let id = rig.submit("", source, "checker").await;
        rig.events("", &id).await;
        ids.push(id);
    }
    let mut seen = Vec::new();
    let mut path = "/api/submissions?limit=2".to_owned();
    loop {
        let (_, page) = rig.get(&path).await;
        seen.extend(
            page["submissions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => path = format!("/api/submissions?limit=2&before={next}"),
            None => break,
        }
    }
    ids.reverse();
    assert_eq!(seen, ids);
    for (filter, count) in
        [("status=WRONG_ANSWER", 1), ("status=CHECKED", 3), ("problem=softmax", 0), ("gpu=MI300X&mine=1", 5)]
    {
        let (_, page) = rig.get(&format!("/api/submissions?{filter}")).await;
        assert_eq!(page["submissions"].as_array().unwrap().len(), count, "{filter}");
    }
    let (_, problems) = rig.get("/api/problems?search=leaky-relu").await;
    let row =
        problems["problems"].as_array().unwrap().iter().find(|row| row["slug"] == "leaky-relu").unwrap();
    assert_eq!((&row["submissions"], &row["accepted"], &row["solved"]), (&json!(5), &json!(3), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_can_be_taken_away_and_compared() {
    let rig = Rig::start().await;
    let (one, two) = (rig.submit("", "//ms=2//", "full").await, rig.submit("", "//ms=3//", "full").await);
    rig.events("", &one).await;
    rig.events("", &two).await;
    let (_, detail) = rig.get(&format!("/api/submissions/{one}/export.json")).await;
    assert_eq!(detail["results"].as_array().unwrap().len(), 3);
    assert_eq!(detail["events"].as_array().unwrap().last().unwrap()["status"], "BENCHMARKED");
    let csv = rig.http.get(rig.url(&format!("/api/submissions/{one}/export.csv"))).send().await.unwrap();
    assert_eq!(csv.headers()["content-type"], "text/csv; charset=utf-8");
    let csv = csv.text().await.unwrap();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(csv.lines().nth(3).unwrap().starts_with("bench,1,n=4096,,2,"), "{csv}");
    let columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    for counter in board_contract::Counters::TABLE {
        assert!(columns.contains(&counter.name), "{}: {csv}", counter.name);
    }
    assert!(csv.lines().all(|line| line.split(',').count() == columns.len()), "{csv}");
    let (_, isa) = rig.get(&format!("/api/submissions/{one}/isa")).await;
    assert_eq!(isa["kernels"][0]["lines"][0]["text"], "s_endpgm");
    let (_, both) = rig.get(&format!("/api/compare?ids={one},{two}")).await;
    let times: Vec<&Value> =
        both["submissions"].as_array().unwrap().iter().map(|one| &one["avg_runtime_ms"]).collect();
    assert_eq!(times, [&json!(2.0), &json!(3.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_say_what_they_cost_and_estimates_follow_from_it() {
    let rig = Rig::start().await;
    let (_, devices) = rig.get("/api/devices").await;
    let devices = devices["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!((&devices[1]["gpu_type"], &devices[1]["price_per_hour"]), (&json!("MI210"), &json!(36.0)));
    assert_eq!((&devices[0]["state"], &devices[0]["emulated"]), (&json!("ready"), &json!(true)));
    let body = json!({ "problem": "leaky-relu", "gpu_type": "MI210", "endpoint": "full" });
    let (_, estimate) = rig.post_as("", "/api/estimate", &body).await;
    let seconds = estimate["seconds"].as_f64().unwrap();
    assert!((estimate["cost_usd"].as_f64().unwrap() - seconds * 0.01).abs() < 1e-9, "{estimate}");
    assert_eq!(estimate["warm"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_names_every_route() {
    let rig = Rig::start().await;
    let (_, document) = rig.get("/api/openapi.json").await;
    let named: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let routes: BTreeSet<&str> = board_contract::route::ALL.iter().map(|(_, path)| *path).collect();
    assert_eq!(named, routes);
    assert_eq!(document["components"]["securitySchemes"]["key"]["scheme"], "bearer");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_served_under_a_strict_policy() {
    let rig = Rig::start().await;
    for path in ["/", "/problems/leaky-relu", "/submissions", "/queue"] {
        let page = rig.http.get(rig.url(path)).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 200, "{path}");
        assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self';") && policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    }
    let (status, health) = rig.get("/healthz").await;
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
    let id = rig.submit("", "//", "checker").await;
    rig.events("", &id).await;
    let figures = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    for line in ["remora_board_submissions{status=\"CHECKED\"} 1", "remora_board_verdict_seconds_count 1"] {
        assert!(figures.contains(line), "{line} in {figures}");
    }
}
