//! Events of a submission, from the first to the last.

use std::time::Duration;

use crate::rig::{Rig, names, read};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_designs_request_gets_the_first_designs_events() {
    let rig = Rig::start().await;
    let body = json!({
        "solution_code": "// HIP kernel code", "problem": "matmul", "problem_def": "Matrix multiplication problem",
        "gpu_type": "MI300X", "dtype": "float32", "language": "hip", "endpoint": "checker"
    });
    let request = rig.http.post(rig.url("/api/amd/submit")).bearer_auth("YOUR_TOKEN").json(&body);
    let events = read(request.send().await.unwrap()).await;
    assert_eq!(
        names(&events),
        [
            "IN_QUEUE",
            "COMPILING",
            "COMPILED",
            "PROVISIONING",
            "CHECKING",
            "TEST_RESULT",
            "TEST_RESULT",
            "CHECKED"
        ]
    );
    let ids: Vec<i64> = events.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=8).collect::<Vec<i64>>());
    for event in &events {
        assert_eq!(event.data["status"], json!(event.name));
        assert!(event.data["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
        assert_eq!(event.data["submission_id"], events[0].data["submission_id"]);
    }
    assert_eq!(events[0].data["position"], 1);
    assert_eq!(events[1].data["message"], "Compiling HIP kernel with clang...");
    assert_eq!(events[3].data["message"], "Provisioning MI300X GPU...");
    let last = &events[7].data;
    assert_eq!((&last["passed_tests"], &last["total_tests"]), (&json!(2), &json!(2)));
    assert!(last["execution_time"].as_f64().unwrap() > 0.0);
    assert_eq!(last["cost_usd"], json!(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tensaras_names_are_understood_and_full_is_the_default() {
    let rig = Rig::start().await;
    let body = json!({ "problemSlug": "leaky-relu", "code": "//", "gpuType": "mi300x", "language": "HIP" });
    let (status, answer) = rig.post_as("", "/api/submissions", &body).await;
    assert_eq!(status, 202, "{answer}");
    let events = rig.events("", answer["id"].as_str().unwrap()).await;
    assert_eq!(names(&events).last(), Some(&"BENCHMARKED"));
    assert!(names(&events).contains(&"CHECKED"));
    assert_eq!(events.last().unwrap().data["passed_tests"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_the_last_event_that_was_seen() {
    let rig = Rig::start().await;
    let id = rig.submit("", "//", "checker").await;
    let all = rig.events("", &id).await;
    let url = rig.url(&format!("/api/submissions/{id}/events"));
    for seen in 0..all.len() {
        let rest = rig.http.get(&url).header("Last-Event-ID", seen.to_string()).send().await.unwrap();
        assert_eq!(names(&read(rest).await), names(&all)[seen..]);
        let rest = rig.http.get(format!("{url}?last_event_id={seen}")).send().await.unwrap();
        assert_eq!(names(&read(rest).await), names(&all)[seen..]);
    }
    // There is nothing after the last event, and the stream ends.
    let rest = rig.http.get(&url).header("Last-Event-ID", all.len().to_string()).send().await.unwrap();
    assert!(read(rest).await.is_empty());
    let wrong = rig.http.get(&url).header("Last-Event-ID", "x").send().await.unwrap();
    assert_eq!(wrong.status().as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_show_signs_of_life_and_closing_one_cancels_nothing() {
    let rig = Rig::with(|config| config.heartbeat = Duration::from_millis(30)).await;
    let gate = rig.folder.path().join("gate");
    let source = format!("//hold={}//", gate.display());
    let mut response = rig
        .http
        .post(rig.url("/api/amd/submit"))
        .json(&crate::rig::body(&source, "checker"))
        .send()
        .await
        .unwrap();
    let location = response.headers()["content-location"].to_str().unwrap().to_owned();
    let mut text = String::new();
    while text.matches("event: heartbeat").count() < 3 {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    drop(response);
    std::fs::write(&gate, "").unwrap();
    let events = read(rig.http.get(rig.url(&location)).send().await.unwrap()).await;
    assert_eq!(names(&events).last(), Some(&"CHECKED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_fails_is_an_error_and_what_is_no_event_is_skipped() {
    let rig = Rig::start().await;
    let id = rig.submit("", "//die", "checker").await;
    let events = rig.events("", &id).await;
    let last = &events.last().unwrap().data;
    assert_eq!(last["status"], "ERROR");
    assert!(last["details"].as_str().unwrap().contains("no toolchain"), "{last}");
    for field in ["error", "message", "execution_time", "cost_usd"] {
        assert!(!last[field].is_null(), "{field}");
    }
    let id = rig.submit("", "//junk", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_complains_at_length_is_not_kept_waiting() {
    let rig = Rig::start().await;
    let id = rig.submit("", "//chatter", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_does_not_end_is_ended() {
    let rig = Rig::with(|config| {
        // The server adds a margin of half a minute to the judge's limit. The test sets it to zero.
        config.limits.job.compile_s = 1.0;
        config.limits.job.whole_s = 2.0;
        config.limits.margin = Duration::ZERO;
    })
    .await;
    for (source, limit) in [("//hang", "1s"), ("//ondevice=/nowhere//", "2s")] {
        let id = rig.submit("", source, "checker").await;
        let events = rig.events("", &id).await;
        let last = events.last().unwrap();
        assert_eq!(last.name, "TIME_LIMIT_EXCEEDED");
        assert!(last.data["details"].as_str().unwrap().ends_with(limit), "{}", last.data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_and_what_runs_can_be_cancelled() {
    let rig = Rig::start().await;
    let running = [rig.submit("", "//hang", "checker").await, rig.submit("", "//hang", "checker").await];
    for id in &running {
        rig.wait_for(id, "COMPILING").await;
    }
    let waiting = rig.submit("", "//", "checker").await;
    // Cancels the waiting one first, because it would start once another has ended.
    for id in [&waiting].into_iter().chain(&running) {
        let (status, _) = rig.post_as("", &format!("/api/submissions/{id}/cancel"), &json!({})).await;
        assert_eq!(status, 202);
        let events = rig.events("", id).await;
        assert_eq!(names(&events).last(), Some(&"CANCELLED"), "{id}");
        let (status, _) = rig.post_as("", &format!("/api/submissions/{id}/cancel"), &json!({})).await;
        assert_eq!(status, 409);
    }
    assert_eq!(names(&rig.events("", &waiting).await), ["IN_QUEUE", "CANCELLED"]);
}
