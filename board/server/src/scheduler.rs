//! Scheduler: starts queued submissions on devices, and stores their events in the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use board_contract::{DeviceState, Event, Isa, PassedCheck};
use board_judge::Job;
use board_problems::Dtype;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::{App, Running};
use crate::devices::dstack::DeviceRequest;
use crate::devices::{Device, DeviceGuard};
use crate::judge::{Judge, JudgeError, Said};
use crate::queue;
use crate::store::{Ending, StoreError, Submission, Waiting, now};

/// Polling interval of the database, for changes by other processes (`remora board`).
const LOOK: Duration = Duration::from_secs(1);

/// Outcome of one attempt.
enum Outcome {
    Ended {
        event: Event,
        check: Option<PassedCheck>,
    },
    Cancelled,
    /// The device was lost, which is not the submission's fault.
    Lost(String),
}

impl Outcome {
    fn ended(event: Event) -> Outcome {
        Outcome::Ended { event, check: None }
    }
}

/// Requeues the submissions that were running when the previous server ended, unless they had too many attempts.
pub async fn recover(app: &App) -> Result<usize, StoreError> {
    let left = app.store.interrupted().await?;
    let count = left.len();
    again(app, left, "The server was restarted").await?;
    Ok(count)
}

/// Requeues submissions, or ends those with too many attempts.
async fn again(app: &App, submissions: Vec<Submission>, why: &str) -> Result<(), StoreError> {
    let most = app.config.limits.attempts;
    let (ended, left): (Vec<Submission>, Vec<Submission>) =
        submissions.into_iter().partition(|submission| submission.attempt >= most);
    for Submission { summary, attempt, .. } in ended {
        let event = Event::error(
            "interrupted",
            format!("{why}; this was attempt {attempt}, the last one allowed"),
            "Submit it again. If that does not help, contact the operator of this server.",
        );
        let number = app.store.finish(&summary.id, attempt, Ending::new(event, 0.0, 0.0)).await?;
        tell(app, &summary.id, number);
    }
    let positions = app.requeue_positions(&left).await?;
    for (Submission { summary, attempt, .. }, (position, expected_wait_s)) in left.iter().zip(positions) {
        let message = format!("{why}; the submission will run again, from position {position} in the queue");
        let event = Event::InQueue { message, position, expected_wait_s };
        let number = app.store.requeue(&summary.id, *attempt, event).await?;
        tell(app, &summary.id, number);
    }
    app.wake.notify_one();
    Ok(())
}

/// Tells the streams of a submission that it has an event with this number.
fn tell(app: &App, id: &str, number: Option<i64>) {
    if let Some(number) = number {
        app.hub.tell(id, number);
    }
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
            () = stop_signal(&mut stopping) => break,
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
        device.set_draining(drained.iter().any(|gpu| gpu.eq_ignore_ascii_case(&device.config.gpu_type)));
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
            // Some are compiled while others use the device.
            if on_device >= device.config.slots + app.config.limits.compile_ahead {
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
    app.running.lock().insert(submission.summary.id.clone(), entry);
    let (app, device) = (Arc::clone(app), Arc::clone(device));
    attempts.spawn(async move {
        if let Err(error) = work(&app, &device, &submission, cancelled).await {
            tracing::error!(
                "submission {}: {error}: {:?}",
                submission.summary.id,
                std::error::Error::source(&error)
            );
        }
        app.running.lock().remove(&submission.summary.id);
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
    let mut stopped = cancelled.clone();
    let mut taken = None;
    let outcome = tokio::select! {
        outcome = judge(app, device, submission, &mut taken) => outcome?,
        () = stop_signal(&mut stopped) => Outcome::Cancelled,
    };
    let Some(Taken { guard, since }) = taken else { return end(app, submission, outcome, 0.0).await };
    // Billed is the time on the device, not that of the compiler.
    let seconds = since.elapsed().as_secs_f64();
    let outcome = match outcome {
        Outcome::Ended { event: Event::Error { .. }, .. } if device.was_lost(&guard).await => {
            Outcome::Lost(format!("The worker of {} ended", device.config.gpu_type))
        }
        outcome => outcome,
    };
    end(app, submission, outcome, seconds).await
}

/// A device that a submission uses, and since when.
struct Taken {
    guard: DeviceGuard,
    since: Instant,
}

/// Waits for the device, and sends progress events if that takes long.
async fn acquire(
    app: &App,
    device: &Device,
    submission: &Submission,
) -> Result<Result<DeviceGuard, Outcome>, StoreError> {
    let gpu = &device.config.gpu_type;
    let message = format!("Provisioning {gpu} GPU...");
    append(app, submission, Event::Provisioning { message }).await?;
    let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
    let report = move |message: String| {
        // There is no receiver only after the submission was aborted.
        let _ = sender.send(message);
    };
    let request = DeviceRequest { price: submission.price_per_hour, progress: &report };
    let ready = device.ready(&request);
    tokio::pin!(ready);
    loop {
        tokio::select! {
            biased;
            Some(message) = messages.recv() => {
                append(app, submission, Event::Provisioning { message }).await?;
            }
            guard = &mut ready => {
                return Ok(guard.map_err(|error| match error.is_final() {
                    true => {
                        let message = format!("No {gpu} is available");
                        Outcome::ended(Event::error("no_device", message, error.to_string()))
                    }
                    false => Outcome::Lost(error.to_string()),
                }));
            }
        }
    }
}

async fn append(app: &App, submission: &Submission, event: Event) -> Result<(), StoreError> {
    let id = &submission.summary.id;
    tell(app, id, app.store.append(id, submission.attempt, event).await?);
    Ok(())
}

/// Runs a judge and stores its events, up to the terminal one. The device is taken when the judge requests it.
async fn judge(
    app: &App,
    device: &Device,
    submission: &Submission,
    taken: &mut Option<Taken>,
) -> Result<Outcome, StoreError> {
    let mut limits = app.config.limits.job.clone();
    if submission.reserved_usd > 0.0 && submission.price_per_hour > 0.0 {
        // Limits the time to what the reserved budget pays for.
        limits.whole_s = limits.whole_s.min(submission.reserved_usd / submission.price_per_hour * 3600.0);
    }
    let summary = &submission.summary;
    let Some(dtype) = Dtype::from_name(&summary.dtype) else {
        let event = Event::error(
            "judge",
            "The submission could not be judged",
            format!("there is no type {}", summary.dtype),
        );
        return Ok(Outcome::ended(event));
    };
    let job = Job {
        id: summary.id.clone(),
        problem: summary.problem.clone(),
        dtype,
        source: submission.source.clone(),
        endpoint: summary.endpoint,
        gpu: device.config.model().to_owned(),
        device: None,
        emulated: summary.emulated,
        seed: submission.seed,
        custom: app.store.custom(&summary.id).await?,
        limits: limits.clone(),
    };
    let margin = app.config.limits.margin;
    let until_request = Duration::from_secs_f64(limits.compile_s) + margin;
    let on_device = Duration::from_secs_f64(limits.whole_s) + margin;
    let mut judge = match Judge::start(&app.config.judge, &job, until_request).await {
        Ok(judge) => judge,
        Err(error) => return Ok(Outcome::ended(failure(&error))),
    };
    let mut check: Option<PassedCheck> = None;
    let outcome = loop {
        let event = match judge.next().await {
            Ok(Said::Event(event)) => event,
            Ok(Said::DeviceRequest) if taken.is_none() => {
                let guard = match acquire(app, device, submission).await? {
                    Ok(guard) => guard,
                    Err(outcome) => break outcome,
                };
                let Taken { guard, .. } = taken.insert(Taken { guard, since: Instant::now() });
                judge.grant(&guard.address, on_device).await;
                continue;
            }
            Ok(Said::DeviceRequest) => continue,
            Err(error) => break Outcome::ended(failure(&error)),
        };
        match &event {
            Event::Isa { kernels } | Event::Compiled { isa: Some(kernels), .. } => {
                app.store.keep_isa(&summary.id, &Isa { kernels: kernels.clone() }).await?;
            }
            Event::Checked { passed_tests, total_tests, .. } => {
                check = Some(PassedCheck { passed_tests: *passed_tests, checked_tests: *total_tests });
            }
            _ => {}
        }
        if event.status().is_terminal(summary.endpoint) {
            // An event with figures of its own needs none of an earlier check.
            let check = check.filter(|_| event.outcome().passed_tests.is_none());
            break Outcome::Ended { event, check };
        }
        if !matches!(event, Event::Isa { .. }) {
            append(app, submission, event).await?;
        }
    };
    judge.end().await;
    Ok(outcome)
}

fn failure(error: &JudgeError) -> Event {
    tracing::error!("judging failed: {error}");
    match error {
        JudgeError::TooLong(_) => Event::TimeLimitExceeded {
            message: "The submission exceeded its total time limit".to_owned(),
            details: error.to_string(),
        },
        _ => Event::error("judge", "The submission could not be judged", error.to_string()),
    }
}

async fn end(app: &App, submission: &Submission, outcome: Outcome, seconds: f64) -> Result<(), StoreError> {
    let (event, check) = match outcome {
        Outcome::Ended { event, check } => (event, check),
        Outcome::Cancelled => (Event::Cancelled { message: "The submission was cancelled".to_owned() }, None),
        Outcome::Lost(why) => return again(app, vec![submission.clone()], &why).await,
    };
    let id = &submission.summary.id;
    let ending =
        Ending { check, ..Ending::new(event, seconds, submission.price_per_hour * seconds / 3600.0) };
    if let Some(number) = app.store.finish(id, submission.attempt, ending).await? {
        app.hub.tell(id, number);
        app.counters.finished.fetch_add(1, Ordering::Relaxed);
        let waited = (now() - submission.summary.created_at) as f64 / 1000.0;
        app.counters.latency.lock().add(waited);
    }
    Ok(())
}

async fn stop_signal(to_stop: &mut watch::Receiver<bool>) {
    // If the sender is gone, the server has stopped.
    let _ = to_stop.wait_for(|stop| *stop).await;
}

/// Cancels a submission: immediately if it waits, by killing its judge if it runs.
pub async fn cancel(app: &App, submission: &Submission) -> Result<(), StoreError> {
    let signalled = app.running.lock().get(&submission.summary.id).map(|one| one.cancel.send(true));
    if signalled.is_some() {
        return Ok(());
    }
    // `claim` refuses a submission marked for cancellation, so it cannot start in between.
    end(app, submission, Outcome::Cancelled, 0.0).await
}
