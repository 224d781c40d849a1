//! The OpenAPI description of the HTTP interface, derived from the handlers.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::{allocations, devices, lookup, moves, operation, processes, workers};

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Remora agent",
        description = "Allocates shares of this machine's GPUs and manages the workers that serve them."
    ),
    paths(
        devices::list,
        devices::detail,
        devices::discover,
        workers::list,
        workers::detail,
        workers::snapshot,
        workers::resume,
        processes::snapshot,
        processes::resume,
        allocations::create,
        allocations::list,
        allocations::detail,
        allocations::release,
        allocations::renew,
        moves::migrate,
        moves::import,
        moves::drain,
        moves::drain_state,
        moves::cancel_drain,
        lookup::pod,
        lookup::process,
        operation::health,
        operation::ready,
        operation::metrics,
        document,
    )
)]
struct Document;

/// Returns this OpenAPI document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "operation", responses((status = 200, content_type = "application/json", body = serde_json::Value)))]
pub(crate) async fn document() -> Json<utoipa::openapi::OpenApi> {
    let mut document = Document::openapi();
    let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("token", token);
    document.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    Json(document)
}
