//! Routes for devices, the queue and cost estimates.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use board_contract::{
    DeviceInfo, Devices, Endpoint, ErrorBody, Estimate, EstimateBody, Queue, QueueEntry, route,
};

use super::{JsonBody, Visitor};
use crate::app::App;
use crate::error::Refusal;
use crate::submit;

/// Lists the devices.
#[utoipa::path(get, path = route::DEVICES, tag = "devices", responses((status = 200, body = Devices)))]
pub async fn list(State(app): State<Arc<App>>) -> Result<Json<Devices>, Refusal> {
    let mut devices = Vec::new();
    for device in &app.devices {
        let gpu = &device.config.gpu_type;
        let queue_length = app.line(gpu).await?.len();
        let running = app.running.lock().values().filter(|one| &one.gpu == gpu).count();
        devices.push(DeviceInfo {
            gpu_type: gpu.clone(),
            name: device.config.name.clone(),
            place: device.place_name().to_owned(),
            emulated: device.config.emulated,
            price_per_hour: device.price_per_hour(),
            queue_length,
            running,
            slots: device.config.slots,
            gpus: device.config.gpus,
            expected_wait_s: app.wait_at(gpu, queue_length + 1).await? + device.start_seconds(),
            state: device.state(),
            warm: device.is_warm(),
        });
    }
    Ok(Json(Devices { devices }))
}

/// Estimates the cost of a submission without running it.
#[utoipa::path(post, path = route::ESTIMATE, request_body = EstimateBody, tag = "devices",
    responses((status = 200, body = Estimate), (status = 400, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub async fn estimate(
    State(app): State<Arc<App>>,
    Visitor(user): Visitor,
    JsonBody(body): JsonBody,
) -> Result<Json<Estimate>, Refusal> {
    let body: EstimateBody = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "the body is not a valid estimate request")
            .details(error.to_string())
    })?;
    let device = app.device(&body.gpu_type)?;
    let name = body.endpoint.as_deref().unwrap_or(Endpoint::Full.name());
    let endpoint = Endpoint::from_name(name)
        .ok_or_else(|| Refusal::bad_request(format!("there is no endpoint \"{name}\"")))?;
    let user = user.map(|user| user.id).unwrap_or_default();
    let (_, queue_s) = app.next_position(&user, &device.config.gpu_type).await?;
    Ok(Json(submit::estimate(&app, device, endpoint, &body.problem.unwrap_or_default(), queue_s).await?))
}

/// Lists the running submissions, and the waiting ones in the order they will start.
#[utoipa::path(get, path = route::QUEUE, tag = "devices", responses((status = 200, body = Queue)))]
pub async fn queue(State(app): State<Arc<App>>) -> Result<Json<Queue>, Refusal> {
    let mut entries = Vec::new();
    let ids: Vec<String> = app.running.lock().keys().cloned().collect();
    for id in &ids {
        let one = app.store.submission_brief(id).await?.summary;
        entries.push(QueueEntry {
            id: one.id,
            user: one.user,
            problem: one.problem,
            gpu: one.gpu,
            endpoint: one.endpoint,
            position: 0,
            expected_wait_s: 0.0,
            queued_at: one.created_at,
            running: true,
        });
    }
    entries.sort_by_key(|entry| entry.queued_at);
    let running = entries.len();
    for device in &app.devices {
        let gpu = &device.config.gpu_type;
        for (one, position) in app.line(gpu).await?.into_iter().zip(1..) {
            entries.push(QueueEntry {
                expected_wait_s: app.wait_at(gpu, position).await?,
                id: one.id,
                user: one.user,
                problem: one.problem,
                gpu: one.gpu,
                endpoint: one.endpoint,
                position,
                queued_at: one.queued_at,
                running: false,
            });
        }
    }
    Ok(Json(Queue { waiting: entries.len() - running, running, entries }))
}
