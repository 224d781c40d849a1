//! A board that rents GPUs: its requests to dstack, and that it leaves no runs behind.
//!
//! A server in this process simulates dstack, and a command that does nothing replaces `ssh`. `cargo xtask conformance dstack` tests the
//! same with a real dstack, a real sshd and a real worker.

mod api;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::rig::{PATIENCE, Rig, Sent, names};
use api::{Api, Fate, TOKEN, offer};
use board_server::config::{Config, DeviceConfig, DstackConfig};
use serde_json::{Value, json};

/// Writes a shell script that ignores its arguments.
fn script(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Configures a board to rent from this server.
fn rented(tools: &Path, url: &str, change: impl FnOnce(&mut DstackConfig)) -> Box<dyn FnOnce(&mut Config)> {
    let mut dstack = DstackConfig::new(url, "main", TOKEN, "/bin/true".into());
    dstack.ssh = script(tools, "ssh", "exec sleep 1000").into();
    dstack.probe = vec!["/bin/true".into()];
    dstack.program = Some("remora".to_owned());
    change(&mut dstack);
    let dstack = Arc::new(dstack);
    Box::new(move |config| config.devices = vec![DeviceConfig::dstack("MI300X", 5.0, &dstack)])
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reached).await.is_ok(), "timeout waiting for: {what}");
}

async fn device(rig: &Rig) -> Value {
    rig.get("/api/devices").await.1["devices"][0].clone()
}

fn provisioning(events: &[Sent]) -> Vec<&str> {
    let progress = events.iter().filter(|event| event.name == "PROVISIONING");
    progress.map(|event| event.data["message"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_serves_many_submissions_and_ends_with_the_server() {
    let (api, url) = Api::start().await;
    let tools = tempfile::tempdir().unwrap();
    let mut rig = Rig::with(rented(tools.path(), &url, |dstack| {
        dstack.fleets = vec!["amd".to_owned()];
        dstack.max_price = Some(3.0);
    }))
    .await;
    until("an offer", async || device(&rig).await["price_per_hour"] == json!(1.99)).await;
    let before = device(&rig).await;
    assert_eq!(
        (&before["place"], &before["warm"], &before["state"]),
        (&json!("dstack"), &json!(false), &json!("ready"))
    );
    let id = rig.submit("", "//", "checker").await;
    let events = rig.events("", &id).await;
    assert_eq!(names(&events).last(), Some(&"CHECKED"));
    assert_eq!(provisioning(&events)[0], "Provisioning MI300X GPU...");
    let last = &events.last().unwrap().data;
    let cost = last["execution_time"].as_f64().unwrap() * 1.99 / 3600.0;
    assert!((last["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-5, "{last}");
    assert_eq!(device(&rig).await["warm"], json!(true));

    let id = rig.submit("", "//", "checker").await;
    let events = rig.events("", &id).await;
    assert_eq!(provisioning(&events), ["Provisioning MI300X GPU..."]);
    assert_eq!(api.count("runs/apply"), 1);
    let [name] = &api.active()[..] else { panic!("{:?}", api.active()) };
    let configuration = api.runs.lock()[name]["run_spec"]["configuration"].clone();
    assert_eq!(configuration["resources"]["gpu"], json!({ "vendor": "amd", "name": ["MI300X"], "count": 1 }));
    assert_eq!((&configuration["fleets"], &configuration["max_price"]), (&json!(["amd"]), &json!(1.99)));
    rig.server.take().unwrap().stop().await;
    assert_eq!(api.active(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_nobody_uses_is_given_back() {
    let (api, url) = Api::start().await;
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |dstack| dstack.idle = Duration::from_millis(50))).await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    until("no run", async || api.active().is_empty()).await;
    until("a cold device", async || device(&rig).await["warm"] == json!(false)).await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    assert_eq!(api.names().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_while_a_run_starts_leaves_none() {
    let (api, url) = Api::start().await;
    *api.fate.lock() = Fate::Pulling;
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |_| {})).await;
    let id = rig.submit("", "//", "checker").await;
    until("a run", async || !api.active().is_empty()).await;
    until("a state", async || device(&rig).await["state"] == json!("provisioning")).await;
    let expected = "Pulling the image (amddevcloud, atl1): 50% of 5.0 GB downloaded, 10% unpacked";
    until("progress", async || {
        let detail = rig.get(&format!("/api/submissions/{id}")).await.1;
        detail["events"].as_array().unwrap().iter().any(|event| event["message"] == json!(expected))
    })
    .await;
    rig.post_as("", &format!("/api/submissions/{id}/cancel"), &json!({})).await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CANCELLED"));
    until("no run", async || api.active().is_empty()).await;
    assert_eq!(api.names().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_is_told_once_and_costs_nothing() {
    let (api, url) = Api::start().await;
    *api.fate.lock() = Fate::NoCapacity;
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |dstack| dstack.max_price = Some(2.5))).await;
    until("an offer", async || device(&rig).await["price_per_hour"] == json!(1.99)).await;
    let id = rig.submit("", "//", "checker").await;
    let events = rig.events("", &id).await;
    let last = &events.last().unwrap().data;
    assert_eq!(
        (&last["status"], &last["error"], &last["cost_usd"]),
        (&json!("ERROR"), &json!("no_device"), &json!(0.0))
    );
    assert_eq!(
        last["details"],
        json!(
            "no fleet of the dstack project has a MI300X for at most $1.99 an hour; dstack says: No matching fleet found"
        )
    );
    assert_eq!((api.names().len(), api.active().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_starts_no_second_run() {
    let (api, url) = Api::start().await;
    api.lose_after.store(1, Ordering::SeqCst);
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |_| {})).await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    assert_eq!((api.names().len(), api.count("runs/apply")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_question_is_asked_again_under_the_same_name() {
    let (api, url) = Api::start().await;
    api.lose_before.store(1, Ordering::SeqCst);
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |_| {})).await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    assert_eq!((api.names().len(), api.count("runs/apply")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_nobody_remembers_are_stopped_and_those_of_others_are_not() {
    let (api, url) = Api::start().await;
    let tools = tempfile::tempdir().unwrap();
    let mut rig = Rig::with(rented(tools.path(), &url, |_| {})).await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    let [mine] = &api.active()[..] else { panic!("{:?}", api.active()) };
    // Simulates a run of an earlier server that was killed and whose record was lost, and a run of another board.
    let mut run = api.runs.lock()[mine].clone();
    let forgotten = format!("{}ffffff", &mine[..mine.len() - 6]);
    let others = "remora-00000000-mi300x-aaaaaa".to_owned();
    for name in [&forgotten, &others] {
        run["run_spec"]["run_name"] = json!(name);
        api.runs.lock().insert(name.clone(), run.clone());
    }
    rig.restart().await;
    until("the forgotten run stopped", async || !api.active().contains(&forgotten)).await;
    assert_eq!(api.active(), [others]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_by_itself_is_replaced() {
    let (api, url) = Api::start().await;
    let tools = tempfile::tempdir().unwrap();
    // A connection that ends with the run.
    let gate = tools.path().join("up");
    std::fs::write(&gate, "").unwrap();
    let text = format!("while [ -e {} ]; do sleep 0.02; done", gate.display());
    let rig = Rig::with(rented(tools.path(), &url, |dstack| {
        dstack.ssh = script(tools.path(), "ssh-gate", &text).into();
    }))
    .await;
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    let first = api.active()[0].clone();
    api.set(&first, "failed", "instance_unreachable");
    std::fs::remove_file(&gate).unwrap();
    until("a cold device", async || device(&rig).await["warm"] == json!(false)).await;
    std::fs::write(&gate, "").unwrap();
    let id = rig.submit("", "//", "checker").await;
    assert_eq!(names(&rig.events("", &id).await).last(), Some(&"CHECKED"));
    assert!(!api.active().contains(&first) && api.active().len() == 1, "{:?}", api.active());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_told_as_such() {
    let (api, url) = Api::start().await;
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |dstack| dstack.token = "another".to_owned())).await;
    let id = rig.submit("", "//", "checker").await;
    let events = rig.events("", &id).await;
    let last = &events.last().unwrap().data;
    assert!(last["details"].as_str().unwrap().starts_with("dstack does not accept the token"), "{last}");
    assert_eq!(api.names().len(), 0);
    until("an offline device", async || device(&rig).await["state"] == json!("offline")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_dearer_than_what_was_promised_is_not_used() {
    let (api, url) = Api::start().await;
    *api.offers.lock() = json!([offer(1.0, "available")]);
    let tools = tempfile::tempdir().unwrap();
    let rig = Rig::with(rented(tools.path(), &url, |_| {})).await;
    until("an offer", async || device(&rig).await["price_per_hour"] == json!(1.0)).await;
    // The actual run costs 1.99.
    let id = rig.submit("", "//", "checker").await;
    let events = rig.events("", &id).await;
    let last = &events.last().unwrap().data;
    assert_eq!(last["error"], json!("no_device"), "{last}");
    assert!(
        last["details"].as_str().unwrap().contains("costs $1.99 per hour, more than the $1.00"),
        "{last}"
    );
}
