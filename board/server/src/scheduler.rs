//! Scheduler: starts queued submissions on devices, and stores their events in the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::event::Event;
use crate::judge::{Judge, JudgeError};
use crate::places::dstack::Want;
use crate::places::{Device, DeviceState, Lease, PlaceError};
use crate::queue;
use crate::store::{StoreError, Submission, Waiting, now};

/// Polling interval of the database, for changes by other processes (`remora board`).
const LOOK: Duration = Duration::from_secs(1);

/// A running submission.
#[derive(Debug)]
pub struct Running {
    pub user_id: String,
    pub gpu: String,
    pub cancel: watch::Sender<bool>,
}

/// Outcome of one attempt.
enum Outcome {
    Ended(Event),
    Cancelled,
    /// The device was lost, which is not the submission's fault.
    Lost(String),
}

/// Requeues the submissions that were running when the previous server ended, unless they had too many attempts.
pub async fn recover(app: &App) -> Result<usize, StoreError> {
    let left = app.store.interrupted().await?;
    let count = left.len();
    for submission in left {
        again(app, &submission, "The server was restarted").await?;
    }
    Ok(count)
}

/// Requeues a submission, or ends it after too many attempts.
async fn again(app: &App, submission: &Submission, why: &str) -> Result<(), StoreError> {
    let (id, attempt) = (&submission.id, submission.attempt);
    if attempt >= app.config.limits.attempts {
        let mut event = Event::error(
            "interrupted",
            &format!("{why}; this was attempt {attempt}, the last one allowed"),
            "Submit it again. If that does not help, contact the operator of this server.",
        );
        event.bill(0.0, 0.0);
        let finish = event.finish(0.0, 0.0);
        if let Some(number) = app.store.finish(id, attempt, &finish, &event).await? {
            app.hub.tell(id, number);
        }
        return Ok(());
    }
    let event = Event::in_queue(&format!("{why}; the submission will run again"), 1, 0.0);
    if let Some(number) = app.store.requeue(id, attempt, &event).await? {
        app.hub.tell(id, number);
    }
    app.wake.notify_one();
    Ok(())
}

/// Runs until the server stops, and aborts all attempts then. An attempt that continued could end a submission that the next server has
/// requeued.
pub async fn run(app: Arc<App>) {
    let mut stopping = app.stopping.subscribe();
    let mut attempts = JoinSet::new();
    loop {
        if let Err(error) = turn(&app, &mut attempts).await {
            tracing::error!("scheduling failed: {error}: {:?}", std::error::Error::source(&error));
        }
        while attempts.try_join_next().is_some() {}
        tokio::select! {
            () = app.wake.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            () = told(&mut stopping) => break,
        }
    }
    attempts.shutdown().await;
}

/// Handles cancellations and starts all submissions that can start now.
async fn turn(app: &Arc<App>, attempts: &mut JoinSet<()>) -> Result<(), StoreError> {
    for submission in app.store.to_cancel().await? {
        cancel(app, &submission).await?;
    }
    let drained = app.store.drained().await?;
    for device in &app.devices {
        device.set_draining(drained.contains(&device.config.gpu_type));
    }
    let mut waiting = app.store.waiting().await?;
    app.turns.lock().forget_all_but(waiting.iter().map(|one| one.user_id.as_str()));
    for device in &app.devices {
        if matches!(device.state(), DeviceState::Draining) {
            continue;
        }
        loop {
            let gpu = &device.config.gpu_type;
            let (on_device, by_user) = running(app, gpu);
            if on_device >= device.config.slots {
                break;
            }
            let chosen = {
                let turns = app.turns.lock();
                let order = queue::order(waiting.iter().filter(|one| &one.gpu == gpu), &turns);
                queue::next(&order, &by_user, app.config.limits.concurrency).cloned()
            };
            let Some(chosen) = chosen else { break };
            waiting.retain(|one| one.id != chosen.id);
            start(app, device, &chosen.id, attempts).await?;
        }
    }
    note_positions(app, &waiting);
    Ok(())
}

/// Stores the queue positions, so that event streams do not have to compute the whole queue each.
fn note_positions(app: &App, waiting: &[Waiting]) {
    let turns = app.turns.lock();
    let mut positions = HashMap::new();
    for device in &app.devices {
        let gpu = &device.config.gpu_type;
        let order = queue::order(waiting.iter().filter(|one| &one.gpu == gpu), &turns);
        positions.extend(order.iter().zip(1..).map(|(one, place)| (one.id.clone(), place)));
    }
    *app.positions.lock() = positions;
}

/// Counts the running submissions on a device, and by user on all devices.
fn running(app: &App, gpu: &str) -> (usize, HashMap<String, usize>) {
    let mut on_device = 0;
    let mut by_user = HashMap::new();
    for one in app.running.lock().values() {
        on_device += usize::from(one.gpu == gpu);
        *by_user.entry(one.user_id.clone()).or_insert(0) += 1;
    }
    (on_device, by_user)
}

async fn start(
    app: &Arc<App>,
    device: &Arc<Device>,
    id: &str,
    attempts: &mut JoinSet<()>,
) -> Result<(), StoreError> {
    let Some(submission) = app.store.claim(id).await? else { return Ok(()) };
    app.turns.lock().served(&submission.user_id);
    let (cancel, cancelled) = watch::channel(false);
    let entry = Running { user_id: submission.user_id.clone(), gpu: device.config.gpu_type.clone(), cancel };
    app.running.lock().insert(submission.id.clone(), entry);
    let (app, device) = (Arc::clone(app), Arc::clone(device));
    attempts.spawn(async move {
        if let Err(error) = work(&app, &device, &submission, cancelled).await {
            tracing::error!("submission {}: {error}: {:?}", submission.id, std::error::Error::source(&error));
        }
        app.running.lock().remove(&submission.id);
        app.wake.notify_one();
    });
    Ok(())
}

/// Runs one attempt of a submission.
async fn work(
    app: &App,
    device: &Device,
    submission: &Submission,
    cancelled: watch::Receiver<bool>,
) -> Result<(), StoreError> {
    let gpu = &device.config.gpu_type;
    let message = format!("Provisioning {gpu} GPU...");
    append(app, submission, &Event::new("PROVISIONING", json!({ "message": message }))).await?;
    let mut stopped = cancelled.clone();
    let lease = tokio::select! {
        lease = lease(app, device, submission) => lease?,
        () = told(&mut stopped) => return end(app, submission, Outcome::Cancelled, 0.0).await,
    };
    let lease = match lease {
        Ok(lease) => lease,
        Err(error) if error.is_final() => {
            let event = Event::error("no_device", &format!("No {gpu} is available"), &error.to_string());
            return end(app, submission, Outcome::Ended(event), 0.0).await;
        }
        Err(error) => return end(app, submission, Outcome::Lost(error.to_string()), 0.0).await,
    };
    let started = Instant::now();
    let outcome = tokio::select! {
        outcome = judge(app, device, submission, &lease) => outcome?,
        () = told(&mut stopped) => Outcome::Cancelled,
    };
    let outcome = match outcome {
        Outcome::Ended(event) if event.status == "ERROR" && device.was_lost(&lease).await => {
            Outcome::Lost(format!("The worker of {gpu} ended"))
        }
        outcome => outcome,
    };
    end(app, submission, outcome, started.elapsed().as_secs_f64()).await
}

/// Waits for the device, and sends progress events if that takes long.
async fn lease(
    app: &App,
    device: &Device,
    submission: &Submission,
) -> Result<Result<Lease, PlaceError>, StoreError> {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |message: String| {
        // There is no receiver only after the submission was aborted.
        let _ = tell.send(message);
    };
    let want = Want { price: submission.price_per_hour, tell: &tell };
    let ready = device.ready(&want);
    tokio::pin!(ready);
    loop {
        tokio::select! {
            biased;
            Some(message) = told.recv() => {
                append(app, submission, &Event::new("PROVISIONING", json!({ "message": message }))).await?;
            }
            lease = &mut ready => return Ok(lease),
        }
    }
}

async fn append(app: &App, submission: &Submission, event: &Event) -> Result<(), StoreError> {
    if let Some(number) = app.store.append(&submission.id, submission.attempt, event).await? {
        app.hub.tell(&submission.id, number);
    }
    Ok(())
}

/// Runs a judge and stores its events, up to the terminal one.
async fn judge(
    app: &App,
    device: &Device,
    submission: &Submission,
    lease: &Lease,
) -> Result<Outcome, StoreError> {
    let mut limits = app.config.limits.job.clone();
    if submission.reserved_usd > 0.0 && submission.price_per_hour > 0.0 {
        // Limits the time to what the reserved budget pays for.
        limits.whole_s = limits.whole_s.min(submission.reserved_usd / submission.price_per_hour * 3600.0);
    }
    let job = json!({
        "id": submission.id,
        "problem": submission.problem,
        "dtype": submission.dtype,
        "source": submission.source,
        "endpoint": submission.endpoint,
        "gpu": device.config.model(),
        "worker": lease.address.worker,
        "token": lease.address.token,
        "emulated": submission.emulated,
        "seed": submission.seed,
        "limits": limits,
    });
    let limit = Duration::from_secs_f64(limits.whole_s) + app.config.limits.margin;
    let mut judge = match Judge::start(&app.config.judge, &job, limit).await {
        Ok(judge) => judge,
        Err(error) => return Ok(Outcome::Ended(failure(&error))),
    };
    let mut checked: Option<(Value, Value)> = None;
    let outcome = loop {
        let mut event = match judge.next().await {
            Ok(event) => event,
            Err(error) => break failure(&error),
        };
        let isa = match event.status.as_str() {
            "ISA" => event.fields.get("isa").or_else(|| event.fields.get("kernels")),
            "COMPILED" => event.fields.get("isa"),
            _ => None,
        };
        if let Some(kernels) = isa {
            let kept = json!({ "kernels": kernels }).to_string();
            app.store.keep_artefact(&submission.id, "isa", &kept).await?;
        }
        if event.status == "ISA" {
            continue;
        }
        if event.is_terminal(&submission.endpoint) {
            if let (Some((passed, total)), false) = (&checked, event.fields.contains_key("passed_tests")) {
                event.fields.insert("passed_tests".to_owned(), passed.clone());
                event.fields.entry("checked_tests").or_insert_with(|| total.clone());
            }
            break event;
        }
        if event.status == "CHECKED" {
            let field = |name: &str| event.fields.get(name).cloned().unwrap_or(Value::Null);
            checked = Some((field("passed_tests"), field("total_tests")));
        }
        append(app, submission, &event).await?;
    };
    judge.end().await;
    Ok(Outcome::Ended(outcome))
}

fn failure(error: &JudgeError) -> Event {
    tracing::error!("judging failed: {error}");
    match error {
        JudgeError::TooLong(_) => Event::new(
            "TIME_LIMIT_EXCEEDED",
            json!({ "message": "The submission exceeded its total time limit", "details": error.to_string() }),
        ),
        _ => Event::error("judge", "The submission could not be judged", &error.to_string()),
    }
}

async fn end(app: &App, submission: &Submission, outcome: Outcome, seconds: f64) -> Result<(), StoreError> {
    let mut event = match outcome {
        Outcome::Ended(event) => event,
        Outcome::Cancelled => Event::new("CANCELLED", json!({ "message": "The submission was cancelled" })),
        Outcome::Lost(why) => return again(app, submission, &why).await,
    };
    let cost = submission.price_per_hour * seconds / 3600.0;
    event.bill(seconds, cost);
    let finish = event.finish(seconds, cost);
    if let Some(number) = app.store.finish(&submission.id, submission.attempt, &finish, &event).await? {
        app.hub.tell(&submission.id, number);
        app.counters.finished.fetch_add(1, Ordering::Relaxed);
        let waited = (now() - submission.created_at) as f64 / 1000.0;
        app.counters.latency.lock().add(waited);
    }
    Ok(())
}

async fn told(to_stop: &mut watch::Receiver<bool>) {
    // If the sender is gone, the server has stopped.
    let _ = to_stop.wait_for(|stop| *stop).await;
}

/// Cancels a submission: immediately if it waits, by killing its judge if it runs.
pub async fn cancel(app: &App, submission: &Submission) -> Result<(), StoreError> {
    let told = app.running.lock().get(&submission.id).map(|one| one.cancel.send(true));
    if told.is_some() {
        return Ok(());
    }
    // `claim` refuses a submission marked for cancellation, so it cannot start in between.
    end(app, submission, Outcome::Cancelled, 0.0).await
}
