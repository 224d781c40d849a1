//! Observed runs and runs with custom inputs: accepted on devices that can, limited, billed and restarted like others, and never ranked.

use crate::rig::{Rig, body, names};
use serde_json::{Value, json};

fn with_custom(source: &str, custom: Value) -> Value {
    let mut body = body(source, "custom");
    body["custom"] = custom;
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_runs_end_with_their_reports_and_are_never_ranked() {
    let rig = Rig::start().await;
    for (endpoint, last) in [("check", "FINDINGS"), ("profile", "PROFILED"), ("custom", "PASSED")] {
        let id = rig.submit("", "//", endpoint).await;
        rig.wait_for(&id, last).await;
        let events = rig.events("", &id).await;
        assert_eq!(names(&events), ["IN_QUEUE", "COMPILING", "COMPILED", "PROVISIONING", last], "{endpoint}");
        assert!(events.last().unwrap().data["execution_time"].is_number(), "{endpoint}");
        let (_, detail) = rig.get(&format!("/api/submissions/{id}")).await;
        assert_eq!((&detail["state"], &detail["endpoint"]), (&json!("done"), &json!(endpoint)));
    }
    let (_, board) = rig.get("/api/leaderboards/leaky-relu?gpu=MI300X").await;
    assert_eq!(board["entries"], json!([]), "{board}");
    let (_, problem) = rig.get("/api/problems/leaky-relu").await;
    assert_eq!((&problem["submissions"], &problem["solved"]), (&json!(0), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_software_gpus_observe() {
    let rig = Rig::start().await;
    for endpoint in ["check", "profile"] {
        let mut body = body("//", endpoint);
        body["gpu_type"] = json!("MI210");
        let (status, answer) = rig.post_as("", "/api/submissions", &body).await;
        assert_eq!(status, 400);
        assert!(answer["error"].as_str().unwrap().contains("needs a software GPU"), "{answer}");
        assert_eq!(answer["details"], "Available: MI300X.");
    }
    let none = Rig::with(|config| config.devices.retain(|device| !device.emulated)).await;
    let mut body = body("//", "check");
    body["gpu_type"] = json!("MI210");
    let (_, answer) = none.post_as("", "/api/submissions", &body).await;
    assert_eq!(answer["details"], "This server has none.");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_custom_inputs_are_refused_before_anything_runs() {
    let rig = Rig::start().await;
    for (custom, part) in [
        (json!({ "sizes": { "n": 0 } }), "the size n is 0"),
        (json!({ "sizes": { "q": 1 } }), "there is no size `q`; leaky-relu has m, n"),
        (json!({ "sizes": { "n": 4096, "m": 4096 } }), "at most 65536 are allowed"),
        (json!({ "values": { "beta": 1.0 } }), "there is no value `beta`"),
        (
            json!({ "inputs": { "input": { "kind": "values", "values": [1, 2, 3] } } }),
            "has 3 values; its shape",
        ),
        (json!({ "inputs": { "input": { "kind": "constant", "value": 1e300 } } }), "finite float32"),
        (json!({ "inputs": { "output": { "kind": "ramp" } } }), "there is no input `output`"),
    ] {
        let (status, answer) = rig.post_as("", "/api/submissions", &with_custom("//", custom)).await;
        assert_eq!((status, &answer["error"]), (400, &json!("the custom input is invalid")));
        assert!(answer["details"].as_str().unwrap().contains(part), "{answer}");
    }
    for (custom, status) in
        [(json!({ "size": {} }), 422), (json!({ "inputs": { "input": { "kind": "magic" } } }), 422)]
    {
        assert_eq!(rig.post_as("", "/api/submissions", &with_custom("//", custom)).await.0, status);
    }
    let mut other = with_custom("//", json!({}));
    other["endpoint"] = json!("full");
    let (status, answer) = rig.post_as("", "/api/submissions", &other).await;
    assert_eq!((status, &answer["error"]), (400, &json!("`custom` is for the endpoint custom only")));
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_inputs_survive_a_restart_and_are_private_like_the_source() {
    let mut rig = Rig::start().await;
    let (ann, ben) = (rig.user("ann", |_| {}).await, rig.user("ben", |_| {}).await);
    let gate = rig.folder.path().join("gate");
    let custom = json!({ "seed": 4711, "sizes": { "n": 3 } });
    let held = with_custom(&format!("//hold={}//", gate.display()), custom);
    let (status, answer) = rig.post_as(&ann, "/api/submissions", &held).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["id"].as_str().unwrap();
    rig.wait_for(id, "COMPILING").await;
    rig.restart().await;
    std::fs::write(&gate, "").unwrap();
    rig.wait_for(id, "PASSED").await;
    let events = rig.events(&ann, id).await;
    assert_eq!(events.last().unwrap().data["input"]["seed"], 4711);
    let (_, mine) = rig.get_as(&ann, &format!("/api/submissions/{id}")).await;
    assert_eq!((&mine["custom"]["seed"], &mine["custom"]["sizes"]["n"]), (&json!(4711), &json!(3)));
    let (_, theirs) = rig.get_as(&ben, &format!("/api/submissions/{id}")).await;
    assert_eq!((&theirs["custom"], &theirs["code"]), (&Value::Null, &Value::Null));
    // Judged again, it has the same inputs.
    rig.store.rejudge(id, board_contract::Event::Warning { message: String::new() }).await.unwrap();
    assert_eq!(rig.store.custom(id).await.unwrap().unwrap().seed, 4711);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_run_is_cancelled_and_counted_like_others() {
    let rig = Rig::start().await;
    let ann = rig.user("ann", |user| user.per_minute = Some(2)).await;
    let gate = rig.folder.path().join("never");
    let id = rig.submit(&ann, &format!("//ondevice={}//", gate.display()), "check").await;
    rig.wait_for(&id, "PROVISIONING").await;
    let (status, _) = rig.post_as(&ann, &format!("/api/submissions/{id}/cancel"), &json!({})).await;
    assert_eq!(status, 202);
    rig.wait_for(&id, "CANCELLED").await;
    rig.submit(&ann, "//", "profile").await;
    let (status, _) = rig.post_as(&ann, "/api/submissions", &body("//", "custom")).await;
    assert_eq!(status, 429);
}
