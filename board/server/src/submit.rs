//! Acceptance of submissions: parsing, validation, and the checks of rate limits and budget.

use axum::http::StatusCode;
use board_contract::{BatchBody, CustomInput, DeviceState, Endpoint, Estimate, Event, SubmitBody};
use board_problems::{Dtype, Problem};
use serde::de::DeserializeOwned;

use crate::accounts;
use crate::app::App;
use crate::devices::Device;
use crate::error::Refusal;
use crate::store::{NewSubmission, User, now, today};

const MINUTE: i64 = 60_000;
/// Most devices of one request.
const MOST_DEVICES: usize = 10;
const DAY: i64 = 86_400_000;

/// A validated submission.
#[derive(Debug)]
pub struct Checked<'a> {
    pub problem: Option<&'static Problem>,
    pub dtype: String,
    pub device: &'a Device,
    pub endpoint: Endpoint,
    pub source: String,
    /// Inputs of the endpoint `custom`.
    pub custom: Option<CustomInput>,
}

/// A submission in the queue.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub id: String,
    pub gpu: String,
    pub position: usize,
    pub estimate: Estimate,
}

/// Parses the body of a request.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let status = match error.classify() {
            serde_json::error::Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal::new(status, "the body is not a submission").details(error.to_string())
    })
}

/// Validates the submission against this server's devices and problems.
fn check<'a>(body: &SubmitBody, gpu: Option<&str>, app: &'a App) -> Result<Checked<'a>, Refusal> {
    let given = |value: Option<&str>| value.map(str::trim).is_some_and(|text| !text.is_empty());
    let name = body.endpoint.as_deref().unwrap_or(Endpoint::Full.name()).to_ascii_lowercase();
    let endpoint = Endpoint::from_name(&name);
    let sandbox = endpoint == Some(Endpoint::Sandbox);
    let missing: Vec<&str> = [
        ("solution_code", given(body.solution_code.as_deref())),
        ("problem", given(body.problem.as_deref()) || sandbox),
        ("gpu_type", given(gpu)),
    ]
    .iter()
    .filter(|(_, given)| !given)
    .map(|(name, _)| *name)
    .collect();
    if !missing.is_empty() {
        return Err(Refusal::bad_request(format!("Missing required fields: {}", missing.join(", "))));
    }
    let endpoint = endpoint.ok_or_else(|| {
        let known: Vec<&str> = Endpoint::ALL.iter().map(|endpoint| endpoint.name()).collect();
        Refusal::bad_request(format!("there is no endpoint \"{name}\""))
            .details(format!("Available: {}.", known.join(", ")))
    })?;
    let language = body.language.as_deref().unwrap_or("hip");
    if !language.eq_ignore_ascii_case("hip") {
        return Err(
            Refusal::bad_request(format!("the language \"{language}\" is not supported")).details("Use hip.")
        );
    }
    let source = body.solution_code.clone().unwrap_or_default();
    let limit = app.config.limits.source_bytes;
    if source.len() > limit {
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the source is too large")
            .details(format!("It has {} bytes; the limit is {limit}.", source.len())));
    }
    if source.contains('\0') {
        return Err(Refusal::bad_request("the source contains a zero byte"));
    }
    let device = app.device(gpu.unwrap_or_default())?;
    let (problem, dtype) = if sandbox {
        (None, body.dtype.clone().unwrap_or_else(|| "float32".to_owned()))
    } else {
        let (problem, dtype) = problem_and_dtype(body)?;
        if problem.devices > device.config.gpus {
            let (gpu, has) = (&device.config.gpu_type, device.config.gpus);
            let text = format!("{} needs {} GPUs; {gpu} has {has}", problem.slug, problem.devices);
            return Err(Refusal::bad_request(text)
                .details("GET /api/devices lists the number of GPUs of each device."));
        }
        (Some(problem), dtype)
    };
    if sandbox && Dtype::from_name(&dtype).is_none() {
        return Err(Refusal::bad_request(format!("there is no type \"{dtype}\"")));
    }
    require_observer(endpoint, device, app)?;
    let custom = custom(body, endpoint, problem, &dtype)?;
    Ok(Checked { problem, dtype, device, endpoint, source, custom })
}

/// Refuses to observe kernels on a device that cannot.
fn require_observer(endpoint: Endpoint, device: &Device, app: &App) -> Result<(), Refusal> {
    if !endpoint.is_observed() || device.config.emulated {
        return Ok(());
    }
    let software = app.devices.iter().filter(|device| device.config.emulated);
    let names: Vec<&str> = software.map(|device| device.config.gpu_type.as_str()).collect();
    let details = match names[..] {
        [] => "This server has none.".to_owned(),
        _ => format!("Available: {}.", names.join(", ")),
    };
    Err(Refusal::bad_request(format!("the endpoint {endpoint} needs a software GPU")).details(details))
}

/// Validates the inputs of the endpoint `custom`. The judge computes them.
fn custom(
    body: &SubmitBody,
    endpoint: Endpoint,
    problem: Option<&Problem>,
    dtype: &str,
) -> Result<Option<CustomInput>, Refusal> {
    let (Endpoint::Custom, Some(problem), Some(dtype)) = (endpoint, problem, Dtype::from_name(dtype)) else {
        return match body.custom {
            None => Ok(None),
            Some(_) => Err(Refusal::bad_request("`custom` is for the endpoint custom only")),
        };
    };
    let input = body.custom.clone().unwrap_or_default();
    board_judge::custom_case(problem, dtype, &input)
        .map_err(|error| Refusal::bad_request("the custom input is invalid").details(error.to_string()))?;
    Ok(Some(input))
}

fn problem_and_dtype(body: &SubmitBody) -> Result<(&'static Problem, String), Refusal> {
    let slug = body.problem.as_deref().unwrap_or_default().trim();
    let problem = board_problems::find(slug)
        .ok_or_else(|| Refusal::not_found(format!("there is no problem \"{slug}\"")))?;
    Ok((problem, dtype_of(problem, body.dtype.as_deref())?.to_owned()))
}

/// Returns the type with this name that a problem supports; its first type without a name.
pub fn dtype_of(problem: &Problem, name: Option<&str>) -> Result<&'static str, Refusal> {
    let names: Vec<&'static str> = problem.dtypes.iter().map(|dtype| dtype.name()).collect();
    match name {
        None => Ok(names.first().copied().unwrap_or_default()),
        Some(name) => names.iter().find(|known| **known == name).copied().ok_or_else(|| {
            Refusal::bad_request(format!("the problem {} does not support the type \"{name}\"", problem.slug))
                .details(format!("It supports {}.", names.join(", ")))
        }),
    }
}

/// Estimates a submission of this kind on this device.
pub async fn estimate(
    app: &App,
    device: &Device,
    endpoint: Endpoint,
    problem: &str,
    queue_s: f64,
) -> Result<Estimate, Refusal> {
    let seconds = app.usual_seconds(&device.config.gpu_type, endpoint, problem).await?;
    Ok(Estimate {
        cost_usd: device.price_per_hour() * seconds / 3600.0,
        seconds,
        warm: device.is_warm(),
        queue_s: queue_s + device.start_seconds(),
    })
}

/// Checks a submission against its user's limits and queues it.
pub async fn submit(app: &App, user: &User, body: &SubmitBody) -> Result<Accepted, Refusal> {
    let checked = check(body, body.gpu_type.as_deref(), app)?;
    let accepted = queue(app, user, vec![checked]).await?;
    accepted.into_iter().next().ok_or_else(|| Refusal::bad_request("no device is given"))
}

/// Like [`submit`], for several devices: all submissions are queued, or none.
pub async fn submit_batch(app: &App, user: &User, body: &BatchBody) -> Result<Vec<Accepted>, Refusal> {
    let BatchBody { submission, gpu_types } = body;
    if submission.gpu_type.is_some() || !(1..=MOST_DEVICES).contains(&gpu_types.len()) {
        let text = format!("name 1 to {MOST_DEVICES} devices in `gpu_types`, and none in `gpu_type`");
        return Err(Refusal::bad_request(text));
    }
    let mut checked: Vec<Checked> = Vec::new();
    for gpu in gpu_types {
        let next = check(submission, Some(gpu), app)?;
        if checked.iter().any(|one| std::ptr::eq(one.device, next.device)) {
            return Err(Refusal::bad_request(format!("`gpu_types` names {gpu} twice")));
        }
        checked.push(next);
    }
    queue(app, user, checked).await
}

/// Checks submissions against their user's limits, and queues all of them or none.
async fn queue(app: &App, user: &User, checked: Vec<Checked<'_>>) -> Result<Vec<Accepted>, Refusal> {
    // Serialized, so that two concurrent requests cannot both use the rest of a budget or limit.
    let _gate = app.gate.lock().await;
    rate(app, user, checked.len() as i64).await?;
    let waiting = app.store.queue_length().await?;
    if waiting + checked.len() as i64 > app.config.limits.queue {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the queue is full")
            .details(format!("{waiting} submissions are waiting."))
            .retry_after(30));
    }
    let mut all = Vec::new();
    let mut reserved = 0.0;
    for checked in checked {
        let device = checked.device;
        if matches!(device.state(), DeviceState::Draining) {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{} does not accept new submissions at the moment", device.config.gpu_type),
            )
            .retry_after(300));
        }
        let price = device.price_per_hour();
        let (position, queue_s) = app.next_position(&user.id, &device.config.gpu_type).await?;
        let problem = checked.problem.map_or_else(String::new, |problem| problem.slug.clone());
        let estimate = estimate(app, device, checked.endpoint, &problem, queue_s).await?;
        let reserved_usd = afford(app, user, price, estimate.seconds, reserved).await?;
        reserved += reserved_usd;
        let new = NewSubmission {
            id: accounts::random_hex(10),
            user_id: user.id.clone(),
            problem,
            dtype: checked.dtype,
            gpu: device.config.gpu_type.clone(),
            endpoint: checked.endpoint,
            source: checked.source,
            seed: accounts::random_seed(),
            emulated: device.config.emulated,
            price_per_hour: price,
            reserved_usd,
            custom: checked.custom,
        };
        all.push((new, position, estimate));
    }
    let mut accepted = Vec::new();
    for (new, position, estimate) in all {
        let message = format!("Position {position} in the queue for {}", new.gpu);
        let events = vec![Event::InQueue { message, position, expected_wait_s: estimate.queue_s }];
        app.store.enqueue(&new, events).await?;
        accepted.push(Accepted { id: new.id, gpu: new.gpu, position, estimate });
    }
    app.wake.notify_one();
    Ok(accepted)
}

/// Checks the rate limits: submissions per minute and per day.
async fn rate(app: &App, user: &User, more: i64) -> Result<(), Refusal> {
    if user.name == accounts::LOCAL {
        return Ok(());
    }
    let limits = &app.config.limits;
    let moment = now();
    for (span, limit, name) in [
        (MINUTE, user.per_minute.unwrap_or(limits.per_minute), "a minute"),
        (DAY, user.per_day.unwrap_or(limits.per_day), "a day"),
    ] {
        let (made, first) = app.store.submitted(&user.id, moment - span).await?;
        if made + more > limit {
            let wait = first.map_or(span, |first| first + span - moment);
            let error = format!("rate limit reached: {limit} submissions {name}");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
                .retry_after((wait.max(0) as u64).div_ceil(1000)));
        }
    }
    Ok(())
}

/// Returns the budget to reserve for a submission, in addition to `reserved`; an error if it exceeds the user's limits.
async fn afford(
    app: &App,
    user: &User,
    price: f64,
    usual_seconds: f64,
    reserved: f64,
) -> Result<f64, Refusal> {
    if let Some(most) = user.max_price_usd.filter(|most| price > *most) {
        return Err(Refusal::new(
            StatusCode::PAYMENT_REQUIRED,
            format!("the device costs ${price:.2} per hour; your limit is ${most:.2}"),
        ));
    }
    // The highest possible cost: the judge is killed when it is used up.
    let most = price * app.config.limits.job.whole_s / 3600.0;
    let (Some(budget), true) = (user.daily_budget_usd, price > 0.0) else { return Ok(most) };
    let moment = now();
    let gone = app.store.spent(&user.id, today(moment)).await? + app.store.reserved(&user.id).await?;
    let left = budget - gone - reserved;
    let usual = price * usual_seconds / 3600.0;
    if left <= 0.0 || left < usual {
        let tomorrow = today(moment) + DAY - moment;
        return Err(Refusal::new(
            StatusCode::PAYMENT_REQUIRED,
            format!("today's budget of ${budget:.2} is spent or reserved for unfinished submissions"),
        )
        .details(format!("${:.4} is left; such a submission costs about ${usual:.4}.", left.max(0.0)))
        .retry_after(tomorrow as u64 / 1000));
    }
    Ok(most.min(left))
}
