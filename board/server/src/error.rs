//! Error responses of the HTTP interface.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_contract::ErrorBody;

use crate::store::StoreError;

/// An error response.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub error: String,
    pub details: Option<String>,
    /// Seconds after which the client may retry.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(status: StatusCode, error: impl Into<String>) -> Refusal {
        Refusal { status, error: error.into(), details: None, retry_after: None }
    }

    pub fn details(self, details: impl Into<String>) -> Refusal {
        Refusal { details: Some(details.into()), ..self }
    }

    pub fn retry_after(self, seconds: u64) -> Refusal {
        Refusal { retry_after: Some(seconds.max(1)), ..self }
    }

    pub fn bad_request(error: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, error)
    }

    pub fn not_found(error: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: self.error, details: self.details };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match error {
            StoreError::Missing(what, name) => Refusal::not_found(format!("there is no {what} \"{name}\"")),
            StoreError::Exists(what, name) => {
                Refusal::new(StatusCode::CONFLICT, format!("there is already a {what} named \"{name}\""))
            }
            error => {
                tracing::error!("{error}: {:?}", std::error::Error::source(&error));
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer").retry_after(5)
            }
        }
    }
}
