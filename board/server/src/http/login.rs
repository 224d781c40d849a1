//! Routes of the login: through a provider, by a login link, and log-out.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_contract::{
    ErrorBody, LoginDone, LoginFinishBody, LoginLink, LoginLinkBody, LoginOptions, LoginProvider, LoginStart,
    LoginStartBody, LogoutBody, route,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{JsonBody, authenticate, from_here, parse};
use crate::accounts;
use crate::app::App;
use crate::error::Refusal;
use crate::login::{
    Cookie, PENDING_LIFETIME, PendingError, Person, Provider, ProviderError, Started, TOKEN_DIGITS,
    is_local_path, link_hash, login_hash, name_candidates,
};
use crate::store::{StoreError, User, now};

/// Longest text of a provider that is shown.
const PROVIDER_TEXT: usize = 300;

/// Returns the ways to log in.
#[utoipa::path(get, path = route::LOGIN, tag = "login", responses((status = 200, body = LoginOptions)))]
pub async fn options(State(app): State<Arc<App>>) -> Json<LoginOptions> {
    let providers = app.logins.providers.iter().map(|provider| LoginProvider {
        key: provider.config.key.clone(),
        name: provider.config.name.clone(),
    });
    Json(LoginOptions { providers: providers.collect() })
}

/// Starts a login through a provider: sets a cookie, and returns the address of the provider's login page.
#[utoipa::path(post, path = route::LOGIN_START, request_body = LoginStartBody, tag = "login",
    responses((status = 200, body = LoginStart), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 404, body = ErrorBody), (status = 429, body = ErrorBody), (status = 502, body = ErrorBody)))]
pub async fn start(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    method: Method,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let body: LoginStartBody = admitted(&app, peer, &body, "login")?;
    let provider = provider(&app, &body.provider)?;
    let return_to = body.return_to.unwrap_or_else(|| "/".to_owned());
    if !is_local_path(&return_to) {
        return Err(Refusal::bad_request("`return_to` is not a path on this server")
            .details("It begins with one slash, such as /problems."));
    }
    let link = match body.link {
        true => {
            let user = authenticate(&method, &headers, &app).await?.user;
            if user.name == accounts::LOCAL {
                return Err(Refusal::bad_request("the user local cannot be linked to a login provider"));
            }
            Some(user.id)
        }
        false => None,
    };
    if app.logins.public.is_none() && !from_here(&headers) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "logins need the public URL of this server")
            .details("Its operator sets it: remora serve --public-url https://NAME."));
    }
    let redirect = format!("{}/login/callback/{}", app.logins.origin(&headers), provider.config.key);
    let begun = provider.authorize(&redirect).await.map_err(|error| failed(provider, &error))?;
    let browser = Cookie::token();
    let started = Started {
        provider: provider.config.key.clone(),
        redirect,
        nonce: begun.nonce,
        verifier: begun.verifier,
        return_to,
        link,
    };
    if !app.logins.pending.add(&begun.state, &browser, started) {
        return Err(
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many logins are under way").retry_after(60)
        );
    }
    let cookie = Cookie::Pending.set(&browser, PENDING_LIFETIME.as_secs(), app.logins.is_secure());
    Ok(with_cookies(Json(LoginStart { url: begun.url }).into_response(), [cookie]))
}

/// Finishes a login that came back from its provider: exchanges the code, and logs the browser in. A login can be finished once.
#[utoipa::path(post, path = route::LOGIN_FINISH, request_body = LoginFinishBody, tag = "login",
    responses((status = 200, body = LoginDone), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody),
    (status = 409, body = ErrorBody), (status = 429, body = ErrorBody), (status = 502, body = ErrorBody)))]
pub async fn finish(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let body: LoginFinishBody = admitted(&app, peer, &body, "login")?;
    let provider = provider(&app, &body.provider)?;
    let browser = Cookie::Pending.read(&headers, app.logins.is_secure()).unwrap_or_default();
    let started = app.logins.pending.take(&body.state, browser).map_err(|error| {
        let text = match error {
            PendingError::Unknown => "this login has expired or was finished before",
            PendingError::OtherBrowser => "this login was started in another browser",
        };
        Refusal::bad_request(text).details("Start it again on the login page.")
    })?;
    let is_mixed_up = started.provider != provider.config.key
        || body.iss.as_ref().is_some_and(|issuer| *issuer != provider.config.issuer);
    if is_mixed_up {
        return Err(Refusal::bad_request("this login was started with another provider")
            .details("Start it again on the login page."));
    }
    let name = &provider.config.name;
    if let Some(error) = &body.error {
        let details = body.error_description.as_deref().map(shown).unwrap_or_default();
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!("{name} refused the login: {}", shown(error)),
        )
        .details(details));
    }
    let code =
        body.code.ok_or_else(|| Refusal::bad_request(format!("{name} sent neither a code nor an error")))?;
    let person = provider.redeem(&code, &started.redirect, started.verifier, &started.nonce).await;
    let person = person.map_err(|error| failed(provider, &error))?;
    if !provider.admits(&person) {
        let domains = provider.config.email_domains.join(", ");
        return Err(Refusal::new(StatusCode::FORBIDDEN, "this account may not log in here")
            .details(format!("{name} has no verified e-mail address of it in {domains}.")));
    }
    let (user, created) = match &started.link {
        Some(id) => (link(&app, provider, &person, id).await?, false),
        None => find_or_register(&app, provider, &person).await?,
    };
    let done = LoginDone {
        user: user.name.clone(),
        created,
        linked: started.link.is_some(),
        return_to: started.return_to,
    };
    logged_in(&app, &headers, &user, Json(done).into_response()).await
}

/// Shows the user of a login link, or uses the link up and logs the browser in.
#[utoipa::path(post, path = route::LOGIN_LINK, request_body = LoginLinkBody, tag = "login",
    responses((status = 200, body = LoginLink), (status = 404, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub async fn use_link(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let body: LoginLinkBody = admitted(&app, peer, &body, "login link")?;
    let none = || {
        Refusal::not_found("this login link is not valid")
            .details("It was used before, has expired or is not complete. The operator of this server creates another one.")
    };
    if body.token.len() != TOKEN_DIGITS {
        return Err(none());
    }
    let hash = link_hash(&body.token);
    let user = app.store.user_of_login_link(&hash).await?.ok_or_else(none)?;
    if !body.confirm {
        let shown = Json(LoginLink { user: user.name, confirmed: false });
        return Ok(with_cookies(shown.into_response(), []));
    }
    if !app.store.use_login_link(&hash).await? {
        return Err(none());
    }
    let done = Json(LoginLink { user: user.name.clone(), confirmed: true });
    logged_in(&app, &headers, &user, done.into_response()).await
}

/// Logs this browser out, or all browsers of its user.
#[utoipa::path(post, path = route::LOGOUT, request_body = LogoutBody, tag = "login",
    responses((status = 200, description = "The browser is logged out")))]
pub async fn logout(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let body: LogoutBody = parse(&body, "log-out")?;
    let secure = app.logins.is_secure();
    if let Some(token) = Cookie::Session.read(&headers, secure) {
        let hash = login_hash(token);
        if body.everywhere
            && let Some(user) = app.store.user_of_login(&hash).await?
        {
            app.store.remove_logins(&user.id).await?;
        }
        app.store.remove_login(&hash).await?;
    }
    Ok(with_cookies(Json(json!({ "logged_out": true })).into_response(), [Cookie::Session.clear(secure)]))
}

/// Finds a provider.
pub fn provider<'a>(app: &'a App, key: &str) -> Result<&'a Provider, Refusal> {
    let found = app.logins.provider(key);
    found.ok_or_else(|| Refusal::not_found(format!("this server has no login provider \"{}\"", shown(key))))
}

/// Returns the user of a person; creates one at the first login if the provider's settings allow that.
async fn find_or_register(app: &App, provider: &Provider, person: &Person) -> Result<(User, bool), Refusal> {
    let issuer = &provider.config.issuer;
    // Serialized, so that two first logins of one person create one user.
    let _gate = app.gate.lock().await;
    if let Some(user) = app.store.user_of_identity(issuer, &person.subject).await? {
        return Ok((user, false));
    }
    if !provider.config.register {
        let name = &provider.config.name;
        return Err(Refusal::new(StatusCode::FORBIDDEN, "there is no user for this account").details(format!(
            "Logins do not create users here. If you have an API key, enter it and link {name} on your account page."
        )));
    }
    for name in name_candidates(person.username.as_deref()) {
        let user = User {
            daily_budget_usd: provider.config.daily_budget_usd,
            max_price_usd: provider.config.max_price_usd,
            ..accounts::new_user(&name)
        };
        match app.store.register(&user, issuer, &person.subject).await {
            Ok(()) => {
                tracing::info!("{name} logged in through {} for the first time", provider.config.key);
                return Ok((user, true));
            }
            Err(StoreError::Exists("user", _)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Refusal::new(StatusCode::CONFLICT, "no user name is free for this account"))
}

/// Links a person's account at a provider to a user.
async fn link(app: &App, provider: &Provider, person: &Person, user: &str) -> Result<User, Refusal> {
    let user = app.store.user(user).await?;
    let issuer = &provider.config.issuer;
    let _gate = app.gate.lock().await;
    match app.store.user_of_identity(issuer, &person.subject).await? {
        Some(other) if other.id != user.id => {
            Err(Refusal::new(StatusCode::CONFLICT, "this account is linked to another user")
                .details(format!("Log out at {} to choose another account there.", provider.config.name)))
        }
        Some(_) => Ok(user),
        None => {
            app.store.add_identity(&user.id, issuer, &person.subject).await?;
            tracing::info!("{} linked an account at {}", user.name, provider.config.key);
            Ok(user)
        }
    }
}

/// Logs the browser in, with a new token, and ends its previous login.
async fn logged_in(
    app: &App,
    headers: &HeaderMap,
    user: &User,
    response: Response,
) -> Result<Response, Refusal> {
    if user.banned {
        return Err(super::banned(user));
    }
    let secure = app.logins.is_secure();
    if let Some(previous) = Cookie::Session.read(headers, secure) {
        app.store.remove_login(&login_hash(previous)).await?;
    }
    let token = Cookie::token();
    let lifetime = app.config.login.lifetime;
    app.store.add_login(&login_hash(&token), &user.id, now() + lifetime.as_millis() as i64).await?;
    let cookies = [Cookie::Session.set(&token, lifetime.as_secs(), secure), Cookie::Pending.clear(secure)];
    Ok(with_cookies(response, cookies))
}

fn with_cookies<const N: usize>(mut response: Response, cookies: [HeaderValue; N]) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

/// Parses a request of the login, unless there were too many from its sender.
fn admitted<T: DeserializeOwned>(app: &App, peer: SocketAddr, body: &[u8], what: &str) -> Result<T, Refusal> {
    app.logins.rate.take(peer.ip()).map_err(|wait| {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate limit reached: too many logins").retry_after(wait)
    })?;
    parse(body, what)
}

/// The error of a provider, with its causes.
fn failed(provider: &Provider, error: &ProviderError) -> Refusal {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    let causes = causes.join(": ");
    tracing::warn!("login provider {}: {error}: {causes}", provider.config.key);
    Refusal::new(
        StatusCode::BAD_GATEWAY,
        format!("the login through {} failed: {error}", provider.config.name),
    )
    .details(shown(&causes))
}

/// A text of others, short and without control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(PROVIDER_TEXT).collect()
}
