//! The OpenAPI description of the HTTP interface, derived from the handlers.

use axum::Json;
use board_contract::route;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::{account, boards, devices, discussion, embed, login, problems, ranking, shares, submissions};

#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "Remora board", description = "Checks and measures submitted HIP kernels."),
    paths(
        submissions::stream_submit,
        submissions::submit,
        submissions::submit_batch,
        submissions::list,
        submissions::detail,
        submissions::events,
        submissions::cancel,
        submissions::set_public,
        submissions::isa,
        submissions::export_json,
        submissions::export_csv,
        submissions::compare,
        problems::list,
        problems::detail,
        boards::leaderboard,
        ranking::overall,
        ranking::profile,
        shares::share,
        shares::shared,
        shares::shared_isa,
        embed::leaderboard,
        embed::result,
        discussion::editorial,
        discussion::set_editorial,
        discussion::list,
        discussion::add,
        discussion::remove,
        devices::list,
        devices::estimate,
        devices::queue,
        account::me,
        account::account,
        account::create_key,
        account::revoke_key,
        account::unlink,
        login::options,
        login::start,
        login::finish,
        login::use_link,
        login::logout,
        account::health,
        account::metrics,
        document,
    )
)]
struct Document;

/// Returns this OpenAPI document.
#[utoipa::path(get, path = route::OPENAPI, tag = "operation", responses((status = 200, content_type = "application/json", body = serde_json::Value)))]
pub async fn document() -> Json<utoipa::openapi::OpenApi> {
    let mut document = Document::openapi();
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("key", key);
    document.security =
        Some(vec![utoipa::openapi::security::SecurityRequirement::new("key", Vec::<String>::new())]);
    Json(document)
}
