//! Serves the web pages embedded in the program.
//!
//! Browsers cache files with a hash in their name permanently and revalidate the others by ETag. Compressed files come from the build
//! (`.br`, `.gz`) if it made them; otherwise they are compressed once and cached.

use std::collections::HashMap;
use std::io::Write as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use parking_lot::Mutex;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::error::Refusal;

#[derive(RustEmbed)]
#[folder = "../ui/dist"]
#[allow_missing = true]
struct Files;

/// Page of a program that was built without web pages.
const BARE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Remora</title>\
<body><h1>Remora</h1><p>This program was built without its web pages. Build them with <code>cargo xtask build</code>; \
until then use the <a href=/api/openapi.json>HTTP interface</a> or <code>remora submit</code>.</body></html>";

/// Fallback for addresses without a route: serves a file, or the single-page application.
pub async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Result<Response<Body>, Refusal> {
    let path = uri.path().trim_start_matches('/');
    if path.starts_with("api/") {
        return Err(Refusal::not_found("there is nothing at this address")
            .details("The available addresses are listed in /api/openapi.json"));
    }
    if method != Method::GET && method != Method::HEAD {
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this method is not allowed for this address",
        ));
    }
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let name = match Files::get(path) {
        Some(_) if !path.is_empty() => path,
        // A missing file is an error; any other address is a view of the application.
        _ if is_file => return Err(Refusal::not_found("there is no such file")),
        _ => "index.html",
    };
    match Files::get(name) {
        Some(file) => Ok(answer(name, &file, &headers)),
        None => Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], BARE)
            .into_response()),
    }
}

fn answer(name: &str, file: &EmbeddedFile, headers: &HeaderMap) -> Response<Body> {
    let hash: String = file.metadata.sha256_hash()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (encoding, body) = encoded(name, file, accepted);
    let tag = format!("\"{hash}{}\"", encoding.map(|name| format!("-{name}")).unwrap_or_default());
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = Response::builder()
        .header(header::ETAG, &tag)
        .header(header::CACHE_CONTROL, cache)
        .header(header::VARY, "Accept-Encoding");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let unchanged = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    if let Some(encoding) = encoding {
        response = response.header(header::CONTENT_ENCODING, encoding);
    }
    let (status, body) = if unchanged {
        (StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        response = response.header(header::CONTENT_TYPE, kind(name));
        (StatusCode::OK, Body::from(body))
    };
    response.status(status).body(body).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Returns the smallest encoding of a file that the browser accepts.
fn encoded(name: &str, file: &EmbeddedFile, accepted: &str) -> (Option<&'static str>, Vec<u8>) {
    let takes = |encoding: &str| {
        accepted.split(',').any(|one| {
            let mut parts = one.split(';');
            let refused =
                |weight: &str| weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
            parts.next().is_some_and(|named| named.trim() == encoding) && !parts.any(refused)
        })
    };
    for (encoding, suffix) in [("br", "br"), ("gzip", "gz")] {
        if takes(encoding)
            && let Some(made) = Files::get(&format!("{name}.{suffix}"))
        {
            return (Some(encoding), made.data.into_owned());
        }
    }
    if takes("gzip") && kind(name).starts_with_any(&["text/", "application/json", "image/svg"]) {
        return (Some("gzip"), gzip(name, &file.data));
    }
    (None, file.data.clone().into_owned())
}

fn gzip(name: &str, data: &[u8]) -> Vec<u8> {
    static MADE: Mutex<Option<HashMap<String, Vec<u8>>>> = Mutex::new(None);
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    if let Some(done) = made.get(name) {
        return done.clone();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing to memory cannot fail.
    let done = encoder.write_all(data).and_then(|()| encoder.finish()).unwrap_or_default();
    made.insert(name.to_owned(), done.clone());
    done
}

trait StartsWithAny {
    fn starts_with_any(&self, starts: &[&str]) -> bool;
}

impl StartsWithAny for str {
    fn starts_with_any(&self, starts: &[&str]) -> bool {
        starts.iter().any(|start| self.starts_with(start))
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
