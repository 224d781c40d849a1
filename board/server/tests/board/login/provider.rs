//! A login provider for tests: a description, keys and a token endpoint that checks codes and PKCE. It issues the identity token that a
//! test dictates, valid or not; `board/ui/e2e` logs in through a real provider.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use openidconnect::core::{
    CoreEdDsaPrivateSigningKey, CoreIdToken, CoreIdTokenClaims, CoreJsonWebKeySet, CoreJwsSigningAlgorithm,
};
use openidconnect::url::{Url, form_urlencoded};
use openidconnect::{AccessToken, JsonWebKeyId, PkceCodeChallenge, PkceCodeVerifier, PrivateSigningKey};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub const CLIENT: &str = "board";
pub const SECRET: &str = "the client's secret";

/// A running provider.
pub struct TestProvider {
    pub issuer: String,
    state: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    issuer: String,
    key: Mutex<CoreEdDsaPrivateSigningKey>,
    /// Key that is not published.
    other: CoreEdDsaPrivateSigningKey,
    grants: Mutex<HashMap<String, Grant>>,
    user_info: Mutex<Value>,
}

/// What the token endpoint gives for a code.
struct Grant {
    challenge: String,
    redirect: String,
    claims: Value,
    forgery: Forgery,
}

/// How an identity token is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    None,
    /// Signed with a key that the provider does not publish, under the name of one that it does.
    Key,
    /// Not signed.
    Unsigned,
    /// The access token of another response.
    AccessToken,
    /// No identity token at all.
    Missing,
}

fn new_key(name: &str) -> CoreEdDsaPrivateSigningKey {
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
    CoreEdDsaPrivateSigningKey::from_ed25519_pem(&pem, Some(JsonWebKeyId::new(name.to_owned()))).unwrap()
}

impl TestProvider {
    pub async fn start() -> TestProvider {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Shared {
            issuer: issuer.clone(),
            key: Mutex::new(new_key("one")),
            other: new_key("one"),
            grants: Mutex::default(),
            user_info: Mutex::new(Value::Null),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(description))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/me", get(user_info))
            .with_state(Arc::clone(&state));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        TestProvider { issuer, state, task }
    }

    /// Issues a code for the login page's address, as the provider does once the person has logged in. `claims` replace those of a valid
    /// identity token.
    pub fn log_in(&self, address: &str, subject: &str, claims: Value, forgery: Forgery) -> (String, String) {
        let url = Url::parse(address).unwrap();
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        assert_eq!((asked["response_type"].as_str(), asked["client_id"].as_str()), ("code", CLIENT));
        assert_eq!(asked["code_challenge_method"], "S256");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"), "{asked:?}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut all = json!({
            "iss": self.issuer, "aud": [CLIENT], "sub": subject, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
        });
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        let code = board_server::accounts::random_hex(16);
        let grant = Grant {
            challenge: asked["code_challenge"].clone(),
            redirect: asked["redirect_uri"].clone(),
            claims: all,
            forgery,
        };
        self.state.grants.lock().insert(code.clone(), grant);
        (code, asked["state"].clone())
    }

    /// Sets what the user information says in addition to the subject.
    pub fn set_user_info(&self, claims: Value) {
        *self.state.user_info.lock() = claims;
    }

    /// Replaces the key, as providers do regularly.
    pub fn rotate_key(&self) {
        *self.state.key.lock() = new_key("two");
    }

    /// Stops listening.
    pub async fn stop(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for TestProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn description(State(state): State<Arc<Shared>>) -> Json<Value> {
    let issuer = &state.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
        "userinfo_endpoint": format!("{issuer}/me"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        // It claims more than the board accepts.
        "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
    }))
}

async fn keys(State(state): State<Arc<Shared>>) -> Json<Value> {
    let keys = CoreJsonWebKeySet::new(vec![state.key.lock().as_verification_key()]);
    Json(serde_json::to_value(keys).unwrap())
}

async fn token(State(state): State<Arc<Shared>>, headers: axum::http::HeaderMap, body: String) -> Response {
    let sent: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let refuse = |error: &str| {
        (StatusCode::BAD_REQUEST, Json(json!({ "error": error, "error_description": "for a test" })))
            .into_response()
    };
    if !headers["authorization"].to_str().unwrap().starts_with("Basic ") {
        return refuse("invalid_client");
    }
    // A code works once.
    let Some(grant) = state.grants.lock().remove(&sent["code"]) else { return refuse("invalid_grant") };
    let verifier = PkceCodeVerifier::new(sent["code_verifier"].clone());
    let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
    if challenge.as_str() != grant.challenge || sent["redirect_uri"] != grant.redirect {
        return refuse("invalid_grant");
    }
    let claims: CoreIdTokenClaims = serde_json::from_value(grant.claims.clone()).unwrap();
    let access = AccessToken::new(grant.claims["sub"].as_str().unwrap().to_owned());
    let other = AccessToken::new("another".to_owned());
    let bound = if grant.forgery == Forgery::AccessToken { &other } else { &access };
    let alg = CoreJwsSigningAlgorithm::EdDsa;
    let signed = match grant.forgery {
        Forgery::Key => CoreIdToken::new(claims, &state.other, alg, Some(bound), None),
        _ => CoreIdToken::new(claims, &*state.key.lock(), alg, Some(bound), None),
    };
    let mut token = signed.unwrap().to_string();
    if grant.forgery == Forgery::Unsigned {
        // {"alg":"none"}
        let claims = token.split('.').nth(1).unwrap();
        token = format!("eyJhbGciOiJub25lIn0.{claims}.");
    }
    let mut answer = json!({ "access_token": access.secret(), "token_type": "Bearer", "expires_in": 60 });
    if grant.forgery != Forgery::Missing {
        answer["id_token"] = json!(token);
    }
    Json(answer).into_response()
}

/// The access token is the subject.
async fn user_info(State(state): State<Arc<Shared>>, headers: axum::http::HeaderMap) -> Json<Value> {
    let token = headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap();
    let mut claims = json!({ "sub": token });
    for (name, value) in state.user_info.lock().as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    Json(claims)
}
