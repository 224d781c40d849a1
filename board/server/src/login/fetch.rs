//! Requests to login providers: with a time limit, a size limit and without redirects.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Size of a response. Descriptions, key sets and tokens have a few kilobytes.
const LARGEST: usize = 1 << 20;

/// Error of a request to a login provider.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The request failed.
    #[error("the provider cannot be reached")]
    Request(#[from] reqwest::Error),
    /// The response is too large.
    #[error("the response has more than {LARGEST} bytes")]
    TooLarge,
    /// The response has an invalid header.
    #[error("the response is not valid")]
    Response(#[from] axum::http::Error),
}

/// HTTP client for login providers.
#[derive(Clone, Debug)]
pub struct Fetcher {
    http: reqwest::Client,
}

impl Fetcher {
    pub fn new() -> Result<Fetcher, reqwest::Error> {
        // A redirect could send the client's secret, or this server's request, to another machine.
        let http = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
        Ok(Fetcher { http: http.build()? })
    }

    async fn fetch(&self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let mut response = self.http.execute(request.try_into()?).await?;
        let mut built = axum::http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            built = built.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > LARGEST {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(built.body(body)?)
    }
}

impl<'c> AsyncHttpClient<'c> for Fetcher {
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, FetchError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.fetch(request))
    }
}
