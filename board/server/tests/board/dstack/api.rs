//! Fake dstack server with the responses of dstack 0.22.5. The test controls the outcome of its runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub const TOKEN: &str = "the-token-of-a-user";

/// Outcome of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Running,
    /// Pulls its image forever.
    Pulling,
    /// No fleet or no capacity.
    NoCapacity,
}

#[derive(Debug)]
pub struct Api {
    pub fate: Mutex<Fate>,
    /// Number of `apply` requests whose response is lost after processing, and of requests lost before it.
    pub lose_after: AtomicUsize,
    pub lose_before: AtomicUsize,
    pub runs: Mutex<BTreeMap<String, Value>>,
    pub calls: Mutex<Vec<String>>,
    pub offers: Mutex<Value>,
}

impl Api {
    /// Serves on a separate port until the test ends.
    pub async fn start() -> (Arc<Api>, String) {
        let api = Arc::new(Api {
            fate: Mutex::new(Fate::Running),
            lose_after: AtomicUsize::new(0),
            lose_before: AtomicUsize::new(0),
            runs: Mutex::default(),
            calls: Mutex::default(),
            offers: Mutex::new(json!([offer(1.99, "available")])),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(post(answer)).with_state(Arc::clone(&api));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (api, url)
    }

    /// Returns the names of active runs.
    pub fn active(&self) -> Vec<String> {
        let is_active =
            |run: &Value| !["terminated", "failed", "done"].contains(&run["status"].as_str().unwrap());
        self.runs.lock().iter().filter(|(_, run)| is_active(run)).map(|(name, _)| name.clone()).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.runs.lock().keys().cloned().collect()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls.lock().iter().filter(|one| one.ends_with(call)).count()
    }

    /// Sets the status of a run.
    pub fn set(&self, name: &str, status: &str, reason: &str) {
        let mut runs = self.runs.lock();
        let run = runs.get_mut(name).unwrap();
        run["status"] = json!(status);
        run["latest_job_submission"]["status"] = json!(status);
        run["latest_job_submission"]["termination_reason"] = json!(reason);
    }

    fn apply(&self, spec: &Value) -> Result<Value, Value> {
        let name = spec["run_name"].as_str().unwrap().to_owned();
        if self.active().contains(&name) {
            return Err(refused("Cannot override active run. Stop the run first.", "error"));
        }
        let run = run(&name, spec, *self.fate.lock());
        self.runs.lock().insert(name, run.clone());
        Ok(run)
    }
}

async fn answer(
    State(api): State<Arc<Api>>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let path = uri.path().to_owned();
    api.calls.lock().push(path.clone());
    if headers.get("authorization").is_none_or(|value| value != &format!("Bearer {TOKEN}")) {
        let body = json!({ "detail": { "msg": "Invalid token", "code": null } });
        return (StatusCode::FORBIDDEN, body.to_string());
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    let found = match path.as_str() {
        "/api/project/main/runs/get_plan" => Ok(json!({
            "project_name": "main", "user": "admin", "run_spec": body["run_spec"], "action": "create",
            "current_resource": null,
            "job_plans": [{ "job_spec": {}, "offers": *api.offers.lock(), "total_offers": 1, "max_price": null }],
        })),
        "/api/project/main/runs/apply" => {
            if take(&api.lose_before) {
                return (StatusCode::BAD_GATEWAY, "<html>bad gateway</html>".to_owned());
            }
            let done = api.apply(&body["plan"]["run_spec"]);
            if take(&api.lose_after) {
                return (StatusCode::BAD_GATEWAY, "<html>bad gateway</html>".to_owned());
            }
            done
        }
        "/api/project/main/runs/get" => {
            let name = body["run_name"].as_str().unwrap();
            let run = api.runs.lock().get(name).cloned();
            run.ok_or_else(|| refused("Run not found", "resource_not_exists"))
        }
        "/api/project/main/runs/stop" => {
            for name in body["runs_names"].as_array().unwrap() {
                api.set(name.as_str().unwrap(), "terminated", "terminated_by_user");
            }
            Ok(Value::Null)
        }
        "/api/runs/list" => {
            assert_eq!(body["only_active"], json!(true));
            let runs = api.runs.lock();
            Ok(api_list(&runs))
        }
        _ => return (StatusCode::NOT_FOUND, json!({ "detail": "Not Found" }).to_string()),
    };
    match found {
        Ok(value) => (StatusCode::OK, value.to_string()),
        Err(value) => (StatusCode::BAD_REQUEST, value.to_string()),
    }
}

fn api_list(runs: &BTreeMap<String, Value>) -> Value {
    let ended = |run: &&Value| ["terminated", "failed", "done"].contains(&run["status"].as_str().unwrap());
    runs.values().filter(|run| !ended(run)).cloned().collect()
}

fn take(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn refused(text: &str, code: &str) -> Value {
    json!({ "detail": [{ "msg": text, "code": code }] })
}

pub fn offer(price: f64, availability: &str) -> Value {
    json!({
        "backend": "amddevcloud", "region": "atl1", "price": price, "availability": availability,
        "instance": {
            "name": "gpu-mi300x1-192gb-devcloud",
            "resources": { "cpus": 20, "memory_mib": 245_760, "gpus": [{ "name": "MI300X", "memory_mib": 196_608, "vendor": "amd" }], "spot": false },
        },
    })
}

/// Builds a run as `runs/get` returns it.
fn run(name: &str, spec: &Value, fate: Fate) -> Value {
    let (status, job_status, reason, message) = match fate {
        Fate::Running => ("running", "running", Value::Null, Value::Null),
        Fate::Pulling => ("provisioning", "pulling", Value::Null, Value::Null),
        Fate::NoCapacity => (
            "failed",
            "failed",
            json!("failed_to_start_due_to_no_capacity"),
            json!("No matching fleet found"),
        ),
    };
    let machine = json!({
        "backend": "amddevcloud", "base_backend": null, "hostname": "203.0.113.9", "internal_ip": "10.0.0.2",
        "instance_id": "i-1", "instance_type": offer(1.99, "available")["instance"], "region": "atl1", "price": 1.99,
        "username": "ubuntu", "ssh_port": 22, "dockerized": true, "ssh_proxy": null, "backend_data": null,
    });
    json!({
        "id": "5f1c2d1e-4c3b-4a2a-9f0e-000000000001", "project_name": "main", "user": "admin", "fleet": null,
        "submitted_at": "2026-11-15T16:00:00.000000Z", "last_processed_at": "2026-11-15T16:00:01Z", "status": status,
        "status_message": status, "termination_reason": null, "run_spec": spec, "jobs": [], "cost": 0.01,
        "service": null, "deployment_num": 0, "error": null, "deleted": null, "run_name": name,
        "latest_job_submission": {
            "id": "5f1c2d1e-4c3b-4a2a-9f0e-000000000002", "submission_num": 0, "status": job_status,
            "status_message": job_status, "termination_reason": reason, "termination_reason_message": message,
            "exit_status": null, "error": null,
            "job_provisioning_data": if fate == Fate::NoCapacity { Value::Null } else { machine },
            "job_runtime_data": { "network_mode": "host", "ports": null, "username": "root" },
            "image_pull_progress": {
                "downloaded_bytes": 2_500_000_000_u64, "extracted_bytes": 900_000_000, "total_bytes": 5_000_000_000_u64,
                "is_total_bytes_final": true,
            },
        },
    })
}
