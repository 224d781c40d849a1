//! Small pages for frames on other sites: a leaderboard, or the result of a share link.
//!
//! They are the only pages that other sites may frame. They contain no script, no form and nothing that belongs to the visitor, so a
//! hostile frame around them gains nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use board_contract::{ErrorBody, Status, route};
use serde::Deserialize;

use super::boards::{self, BoardQuery};
use super::{Framed, Query, shares};
use crate::app::App;
use crate::error::Refusal;

/// Address of the style sheet. It is not inline, because the policy refuses inline styles.
pub const STYLE: &str = "/embed/style.css";

/// The general policy, without scripts, and with frames on any site.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *";

/// Rows of a leaderboard in a frame.
const ROWS: usize = 10;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct ThemeQuery {
    /// `light` or `dark`; the visitor's setting by default.
    theme: Option<String>,
}

/// The first ranks of a leaderboard, as a small page for a frame.
#[utoipa::path(get, path = route::EMBED_LEADERBOARD, params(("slug" = String, Path), BoardQuery, ThemeQuery), tag = "embed",
    responses((status = 200, content_type = "text/html", body = String), (status = 400, body = ErrorBody),
    (status = 404, body = ErrorBody)))]
pub async fn leaderboard(
    State(app): State<Arc<App>>,
    Path(slug): Path<String>,
    Query(query): Query<BoardQuery>,
    Query(theme): Query<ThemeQuery>,
) -> Result<Response, Refusal> {
    let (problem, board) = boards::find(&app, &slug, &query).await?;
    let mut body = format!(
        "<header><h1><a href=\"/leaderboard/{}?gpu={}&amp;dtype={}\" target=\"_blank\" rel=\"noopener\">{}</a></h1><p>{}{} {}</p></header>",
        escape(&problem.slug),
        escape(&board.gpu),
        escape(&board.dtype),
        escape(&problem.title),
        escape(&board.gpu),
        emulated(board.emulated),
        escape(&board.dtype),
    );
    if board.entries.is_empty() {
        body.push_str("<p class=\"none\">There are no solutions yet.</p>");
    } else {
        body.push_str("<table><thead><tr><th class=\"right\">#</th><th>by</th><th class=\"right\">run time</th></tr></thead><tbody>");
        for entry in board.entries.iter().take(ROWS) {
            let _ = write!(
                body,
                "<tr><td class=\"right\">{}</td><td>{}</td><td class=\"right number\">{}</td></tr>",
                entry.rank,
                escape(&entry.user),
                time(entry.avg_runtime_ms)
            );
        }
        body.push_str("</tbody></table>");
        if board.entries.len() > ROWS {
            let _ = write!(body, "<p>{} more</p>", board.entries.len() - ROWS);
        }
    }
    Ok(page(&format!("{}, leaderboard", problem.title), &theme, &body))
}

/// The result of a submission with a share link, without its source, as a small page for a frame.
#[utoipa::path(get, path = route::EMBED_RESULT, params(("token" = String, Path), ThemeQuery), tag = "embed",
    responses((status = 200, content_type = "text/html", body = String), (status = 404, body = ErrorBody)))]
pub async fn result(
    State(app): State<Arc<App>>,
    Path(token): Path<String>,
    Query(theme): Query<ThemeQuery>,
) -> Result<Response, Refusal> {
    let summary = shares::find(&app, &token).await?.summary;
    let title = if summary.title.is_empty() { "Program" } else { summary.title.as_str() };
    let tone = if summary.status.is_success() { "good" } else { "other" };
    let mut body = format!(
        "<header><h1><a href=\"/s/{}\" target=\"_blank\" rel=\"noopener\">{}</a></h1><p>by {}</p></header>\
         <p><strong class=\"{tone}\">{}</strong> <span>{}{} {}</span></p>",
        escape(&token),
        escape(title),
        escape(&summary.user),
        status(summary.status),
        escape(&summary.gpu),
        emulated(summary.emulated),
        escape(&summary.dtype),
    );
    if let Some(ms) = summary.avg_runtime_ms {
        let _ = write!(body, "<p class=\"number big\">{}</p>", time(ms));
        // An estimate repeats exactly and has no interval.
        if let (Some(low), Some(high)) = (summary.ci_low_ms, summary.ci_high_ms)
            && low < high
        {
            let _ = write!(body, "<p class=\"number\">95 % interval: {} – {}</p>", time(low), time(high));
        }
    } else if let (Some(passed), Some(total)) = (summary.passed_tests, summary.total_tests) {
        let _ = write!(body, "<p>{passed} of {total} cases pass</p>");
    }
    Ok(shares::secret(page(&format!("{title}, result"), &theme, &body)))
}

/// The style sheet of these pages.
pub async fn style() -> Response {
    let kind = HeaderValue::from_static("text/css; charset=utf-8");
    let cache = HeaderValue::from_static("public, max-age=3600");
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, cache)], include_str!("embed.css"))
        .into_response()
}

fn page(title: &str, theme: &ThemeQuery, body: &str) -> Response {
    let theme = match theme.theme.as_deref() {
        Some("dark") => " data-theme=\"dark\"",
        Some("light") => " data-theme=\"light\"",
        _ => "",
    };
    let text = format!(
        "<!doctype html><html lang=\"en\"{theme}><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
         <link rel=\"stylesheet\" href=\"{STYLE}\"></head><body><main>{body}</main></body></html>",
        escape(title)
    );
    let mut response = Html(text).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response.extensions_mut().insert(Framed);
    response
}

fn emulated(emulated: bool) -> &'static str {
    if emulated { " <span class=\"emulated\">emulated</span>" } else { "" }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Benchmarked => "Accepted",
        Status::Checked => "Correct",
        Status::WrongAnswer => "Wrong answer",
        Status::CompileError => "Does not compile",
        Status::RuntimeError => "Run-time error",
        Status::TimeLimitExceeded => "Out of time",
        Status::MemoryLimitExceeded => "Out of memory",
        Status::Rejected => "Rejected",
        Status::Cancelled => "Cancelled",
        Status::Error => "Judge error",
        Status::Compiled => "Compiled",
        Status::Passed => "Sample passed",
        Status::Failed => "Sample failed",
        Status::SandboxSuccess => "Ran",
        Status::SandboxError | Status::SandboxTimeout => "Failed",
        _ => "Not finished",
    }
}

/// Formats a time with three significant digits, in the unit that keeps it between 1 and 1000.
fn time(ms: f64) -> String {
    let (value, unit) = match ms {
        ms if ms < 0.0009995 => (ms * 1e6, "ns"),
        ms if ms < 0.9995 => (ms * 1e3, "µs"),
        ms if ms < 999.5 => (ms, "ms"),
        ms => (ms / 1e3, "s"),
    };
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Escapes text for HTML, in elements and in quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        for (ms, text) in [
            (0.00025, "250 ns"),
            (0.0125, "12.5 µs"),
            (0.9997, "1.00 ms"),
            (1.5, "1.50 ms"),
            (12345.0, "12.3 s"),
        ] {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn escaped_text_can_neither_open_a_tag_nor_leave_an_attribute() {
        assert_eq!(escape("<b a=\"x\" c='y'>&"), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;");
    }
}
