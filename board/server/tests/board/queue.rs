//! Many submissions: fairness, completeness, and recovery after a restart.

use std::collections::BTreeSet;

use crate::rig::{Rig, device, names};
use board_contract::{Event, Status};
use board_server::config::{DeviceConfig, PlaceConfig};
use board_server::store::Filter;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_submissions_of_twenty_users_take_turns_and_all_finish() {
    let rig = Rig::with(|config| config.devices = vec![device("MI300X", 1, 0.0, true)]).await;
    let mut keys = Vec::new();
    for user in 0..20 {
        keys.push(rig.user(&format!("user{user:02}"), |_| {}).await);
    }
    // Nothing starts until all submissions are queued.
    let gate = rig.folder.path().join("gate");
    let first = rig.submit(&keys[0], &format!("//hold={}//", gate.display()), "checker").await;
    rig.wait_for(&first, "COMPILING").await;
    // All submissions of one user after another, the least fair order.
    let mut ids = Vec::new();
    for key in &keys {
        for _ in 0..10 {
            ids.push(rig.submit(key, "//", "checker").await);
        }
    }
    let (_, queue) = rig.get("/api/queue").await;
    assert_eq!((&queue["running"], &queue["waiting"]), (&json!(1), &json!(200)));
    std::fs::write(&gate, "").unwrap();
    for id in &ids {
        rig.wait_for(id, "CHECKED").await;
    }
    let mut all = rig.store.list(&Filter { limit: 1000, ..Filter::default() }).await.unwrap();
    all.retain(|one| one.summary.id != first);
    assert_eq!(all.len(), 200);
    all.sort_by_key(|one| (one.started_at, one.summary.finished_at));
    for (round, started) in all.chunks(20).enumerate() {
        let users: BTreeSet<&str> = started.iter().map(|one| one.summary.user.as_str()).collect();
        assert_eq!(users.len(), 20, "round {round} served somebody twice");
    }
    // Each user's submissions keep their order.
    for key in 0..20 {
        let name = format!("user{key:02}");
        let started: Vec<&String> =
            all.iter().filter(|one| one.summary.user == name).map(|one| &one.summary.id).collect();
        assert_eq!(started, ids[key * 10..][..10].iter().collect::<Vec<_>>());
    }
    for one in &all {
        assert_eq!(one.attempt, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_and_repeats_no_verdict() {
    let mut rig = Rig::start().await;
    let gate = rig.folder.path().join("gate");
    let held = format!("//hold={}//", gate.display());
    let done = rig.submit("", "//", "checker").await;
    rig.wait_for(&done, "CHECKED").await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(rig.submit("", &held, "checker").await);
    }
    rig.wait_for(&ids[0], "COMPILING").await;
    rig.wait_for(&ids[1], "COMPILING").await;
    rig.restart().await;
    std::fs::write(&gate, "").unwrap();
    for id in &ids {
        rig.wait_for(id, "CHECKED").await;
    }
    for (id, attempts) in ids.iter().zip([2, 2, 1, 1, 1, 1]).chain([(&done, 1)]) {
        assert_eq!(rig.store.submission(id).await.unwrap().attempt, attempts);
        let events = rig.events("", id).await;
        let ends = names(&events).iter().filter(|name| **name == "CHECKED").count();
        assert_eq!(ends, 1, "{id}");
        let numbers: Vec<i64> = events.iter().filter_map(|event| event.id).collect();
        assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_submission_reports_its_position_and_wait() {
    let mut rig = Rig::start().await;
    let (ada, ben) = (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await);
    let gate = rig.folder.path().join("gate");
    let held = format!("//hold={}//", gate.display());
    // Both slots of the device are taken, and somebody else waits.
    let running = [rig.submit(&ada, &held, "checker").await, rig.submit(&ada, &held, "checker").await];
    for id in &running {
        rig.wait_for(id, "COMPILING").await;
    }
    rig.submit(&ben, &held, "checker").await;
    rig.restart().await;
    std::fs::write(&gate, "").unwrap();
    let mut reported = Vec::new();
    for id in &running {
        let events = rig.events(&ada, id).await;
        let mut queued = events.iter().filter(|event| event.id.is_some() && event.name == "IN_QUEUE");
        let last = &queued.next_back().unwrap().data;
        reported.push((last["position"].as_u64().unwrap(), last["expected_wait_s"].as_f64().unwrap() > 0.0));
    }
    // The other user's turn comes between the two.
    assert_eq!(reported, [(1, false), (3, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_that_are_requeued_together_report_the_order_in_which_they_start() {
    let mut rig = Rig::with(|config| config.devices = vec![device("MI300X", 3, 0.0, true)]).await;
    let (ada, ben) = (rig.user("ada", |_| {}).await, rig.user("ben", |_| {}).await);
    let gate = rig.folder.path().join("gate");
    let held = format!("//hold={}//", gate.display());
    let mut running = Vec::new();
    for key in [&ada, &ada, &ben] {
        let id = rig.submit(key, &held, "checker").await;
        rig.wait_for(&id, "COMPILING").await;
        running.push((key, id));
    }
    rig.restart().await;
    std::fs::write(&gate, "").unwrap();
    let mut reported = Vec::new();
    for (key, id) in &running {
        let events = rig.events(key, id).await;
        let mut queued = events.iter().filter(|event| event.id.is_some() && event.name == "IN_QUEUE");
        reported.push(queued.next_back().unwrap().data["position"].as_u64().unwrap());
    }
    // Users take turns: the second submission of ada starts after the first of ben.
    assert_eq!(reported, [1, 3, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_corrects_a_position_that_was_only_estimated() {
    let rig = Rig::with(|config| config.devices = vec![device("MI300X", 1, 0.0, true)]).await;
    let gate = rig.folder.path().join("gate");
    let again = rig.submit("", "//", "checker").await;
    rig.wait_for(&again, "CHECKED").await;
    let held = rig.submit("", &format!("//hold={}//", gate.display()), "checker").await;
    rig.wait_for(&held, "COMPILING").await;
    // `remora board rejudge` does not know what the server runs, and may be wrong about the position.
    let event =
        Event::InQueue { message: "It is judged again".to_owned(), position: 7, expected_wait_s: 0.0 };
    rig.store.rejudge(&again, event).await.unwrap();
    let place = async || {
        let mut response =
            rig.http.get(rig.url(&format!("/api/submissions/{again}/events"))).send().await.unwrap();
        let mut text = String::new();
        loop {
            text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
            let sent = crate::rig::parse(&text[..text.rfind("\n\n").map_or(0, |end| end + 2)]);
            if let Some(live) = sent.iter().find(|event| event.name == "IN_QUEUE" && event.id.is_none()) {
                return (sent[0].data["position"].clone(), live.data["position"].clone());
            }
        }
    };
    let (stored, live) = tokio::time::timeout(crate::rig::PATIENCE, place()).await.unwrap();
    assert_eq!((stored, live), (json!(7), json!(1)));
    std::fs::write(&gate, "").unwrap();
    rig.wait_for(&again, "CHECKED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_interrupted_too_often_ends_with_an_error() {
    let mut rig = Rig::start().await;
    let id = rig.submit("", "//hang", "checker").await;
    for attempt in 1..=3 {
        loop {
            let submission = rig.store.submission(&id).await.unwrap();
            if submission.attempt == attempt && submission.summary.status == Status::Compiling {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        rig.restart().await;
    }
    let events = rig.events("", &id).await;
    assert_eq!(names(&events).last(), Some(&"ERROR"));
    assert_eq!(names(&events).iter().filter(|name| **name == "COMPILING").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_device_starts_nothing_until_it_is_used_again() {
    let rig = Rig::start().await;
    let gate = rig.folder.path().join("gate");
    let id = rig.submit("", &format!("//hold={}//", gate.display()), "checker").await;
    rig.wait_for(&id, "COMPILING").await;
    rig.store.set_drained("MI300X", true).await.unwrap();
    let drained = async |drained: bool| {
        let state = if drained { "draining" } else { "ready" };
        while rig.get("/api/devices").await.1["devices"][0]["state"] != state {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    drained(true).await;
    let (status, _) = rig.post_as("", "/api/submissions", &crate::rig::body("//", "checker")).await;
    assert_eq!(status, 503);
    std::fs::write(&gate, "").unwrap();
    rig.wait_for(&id, "CHECKED").await;
    rig.store.set_drained("MI300X", false).await.unwrap();
    drained(false).await;
    let id = rig.submit("", "//", "checker").await;
    rig.wait_for(&id, "CHECKED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn judging_again_replaces_the_verdict() {
    let rig = Rig::start().await;
    let id = rig.submit("", "//", "checker").await;
    let before = rig.events("", &id).await;
    let event =
        Event::InQueue { message: "It is judged again".to_owned(), position: 1, expected_wait_s: 0.0 };
    rig.store.rejudge(&id, event).await.unwrap();
    rig.wait_for(&id, "CHECKED").await;
    let after = rig.events("", &id).await;
    assert_eq!(names(&before), names(&after));
    assert_eq!(after[0].id, Some(before.len() as i64 + 1), "numbers go on");
}

/// A fake worker that prints its address and runs until a file exists.
const WORKER: &str =
    r#"echo "listening on $1 $2 $3 $4"; while [ ! -e "$GATE" ]; do sleep 0.02; done; rm "$GATE""#;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ends_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("worker-gate");
    let script = WORKER.replace("$GATE", &gate.display().to_string());
    let rig = Rig::with(|config| {
        config.worker = vec!["/bin/sh".into(), "-c".into(), script.into()];
        config.devices = vec![DeviceConfig {
            place: PlaceConfig::Embedded { model: "mi300x".to_owned() },
            ..device("MI300X", 1, 0.0, true)
        }];
    })
    .await;
    let id = rig.submit("", "//", "checker").await;
    rig.wait_for(&id, "CHECKED").await;
    std::fs::write(&gate, "").unwrap();
    let restarts = async || {
        let text = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let line = text.lines().find(|line| line.starts_with("remora_board_worker_restarts_total{")).unwrap();
        line.split_whitespace().last().unwrap().parse::<f64>().unwrap()
    };
    while restarts().await < 1.0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let id = rig.submit("", "//", "checker").await;
    rig.wait_for(&id, "CHECKED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_submission_is_compiled_while_another_uses_the_device() {
    let rig = Rig::with(|config| {
        config.devices = vec![device("MI300X", 1, 0.0, true)];
        config.limits.compile_ahead = 1;
    })
    .await;
    let gate = rig.folder.path().join("gate");
    let first = rig.submit("", &format!("//ondevice={}//", gate.display()), "checker").await;
    rig.wait_for(&first, "PROVISIONING").await;
    let second = rig.submit("", "//", "checker").await;
    // It waits for the device with its code compiled.
    rig.wait_for(&second, "PROVISIONING").await;
    let ahead = rig.store.submission(&second).await.unwrap();
    assert_eq!(ahead.summary.finished_at, None);
    let third = rig.submit(&rig.user("other", |_| {}).await, "//", "checker").await;
    let (_, waiting) = rig.get(&format!("/api/submissions/{third}")).await;
    assert_eq!(waiting["position"], 1, "{waiting}");
    std::fs::write(&gate, "").unwrap();
    for id in [&first, &second, &third] {
        rig.wait_for(id, "CHECKED").await;
    }
    let first = rig.store.submission(&first).await.unwrap().summary.finished_at;
    assert!(first <= rig.store.submission(&second).await.unwrap().summary.finished_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_money_count_from_the_moment_at_which_the_device_is_taken() {
    let rig = Rig::start().await;
    let gate = rig.folder.path().join("gate");
    let key = rig.user("payer", |user| user.daily_budget_usd = Some(100.0)).await;
    let on_mi210 = |source: &str| json!({ "problem": "leaky-relu", "solution_code": source, "gpu_type": "MI210", "endpoint": "checker" });
    let begin = std::time::Instant::now();
    let (_, slow) =
        rig.post_as(&key, "/api/submissions", &on_mi210(&format!("//hold={}//", gate.display()))).await;
    rig.wait_for(slow["id"].as_str().unwrap(), "COMPILING").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    std::fs::write(&gate, "").unwrap();
    rig.wait_for(slow["id"].as_str().unwrap(), "CHECKED").await;
    let slow = rig.store.submission(slow["id"].as_str().unwrap()).await.unwrap().summary;
    let (whole, billed) = (begin.elapsed().as_secs_f64(), slow.execution_time.unwrap());
    assert!(billed > 0.0 && billed < whole - 1.0, "{billed} of {whole} s");
    let cost = slow.cost_usd.unwrap();
    assert!((cost - billed * 36.0 / 3600.0).abs() < 1e-5, "{cost}");
    let (_, wrong) = rig.post_as(&key, "/api/submissions", &on_mi210("//error")).await;
    rig.wait_for(wrong["id"].as_str().unwrap(), "COMPILE_ERROR").await;
    let wrong = rig.store.submission(wrong["id"].as_str().unwrap()).await.unwrap().summary;
    assert_eq!((wrong.cost_usd, wrong.execution_time), (Some(0.0), Some(0.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_runs_on_all_of_its_devices() {
    let rig = Rig::start().await;
    let mut body = crate::rig::body("//", "checker");
    body.as_object_mut().unwrap().remove("gpu_type");
    body["gpu_types"] = json!(["MI300X", "MI210"]);
    let (status, batch) = rig.post_as("", "/api/batches", &body).await;
    assert_eq!(status, 202, "{batch}");
    let ids: Vec<&str> =
        batch["submissions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(batch["page"], json!(format!("/batch?ids={}", ids.join(","))));
    for (id, gpu) in ids.iter().zip(["MI300X", "MI210"]) {
        rig.wait_for(id, "CHECKED").await;
        let (_, detail) = rig.get(&format!("/api/submissions/{id}")).await;
        assert_eq!(detail["gpu"], json!(gpu));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_one_device_refuses_runs_on_none() {
    let rig = Rig::start().await;
    // The price of MI210 is above the limit of this user.
    let key = rig.user("thrifty", |user| user.max_price_usd = Some(1.0)).await;
    let batch = |gpus: serde_json::Value| {
        let mut body = crate::rig::body("//", "checker");
        body.as_object_mut().unwrap().remove("gpu_type");
        body["gpu_types"] = gpus;
        body
    };
    let both = json!(["MI300X", "MI210"]);
    let many = json!(vec!["MI300X"; 11]);
    for (gpus, status, words) in [
        (both, 402, "costs"),
        (json!(["MI300X", "mi300x"]), 400, "twice"),
        (json!([]), 400, "1 to 10"),
        (many, 400, "1 to 10"),
        (json!(["MI300X", "GTX"]), 400, "GTX"),
        (json!("MI300X"), 422, "not a submission"),
    ] {
        let (found, answer) = rig.post_as(&key, "/api/batches", &batch(gpus)).await;
        assert_eq!(found, status, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    // Rate limits count all of a batch.
    let busy = rig.user("busy", |user| user.per_minute = Some(1)).await;
    let (status, answer) = rig.post_as(&busy, "/api/batches", &batch(json!(["MI300X", "MI210"]))).await;
    assert_eq!(status, 429, "{answer}");
    let (_, list) = rig.get("/api/submissions").await;
    assert_eq!(list["submissions"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_with_one_gpu_refuses_a_problem_for_two() {
    let rig = Rig::start().await;
    let mut body = crate::rig::body("//", "checker");
    body["problem"] = json!("all-reduce");
    let (status, answer) = rig.post_as("", "/api/submissions", &body).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["error"], json!("all-reduce needs 2 GPUs; MI300X has 1"));
}
