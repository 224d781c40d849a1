//! A login provider: OpenID Connect with the authorization-code flow, PKCE, state and nonce.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreErrorResponseType, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreUserInfoClaims,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret,
    ConfigurationError, CsrfToken, DiscoveryError, EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl,
    Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    SignatureVerificationError, SigningError, StandardErrorResponse, TokenResponse, UserInfoError,
};
use tokio::sync::Mutex;

use super::fetch::{FetchError, Fetcher};
use crate::accounts;
use crate::config::ProviderConfig;

/// How long the provider's description and keys are used before they are read again.
const FRESH: Duration = Duration::from_secs(600);
/// Length of a subject, by the specification.
const SUBJECT_BYTES: usize = 255;

/// Signatures by a key pair. The others are made with the client's secret, which is not the provider's alone.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Error of a login provider.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The description or the keys cannot be read.
    #[error("its description cannot be read")]
    Discovery(#[from] DiscoveryError<FetchError>),
    /// A URL is not valid.
    #[error("the callback address is not valid")]
    Url(#[from] openidconnect::url::ParseError),
    /// The description lacks an endpoint.
    #[error("its description is not complete")]
    Incomplete(#[from] ConfigurationError),
    /// The code was not accepted.
    #[error("it did not accept the code of this login")]
    Code(#[source] Box<RequestTokenError<FetchError, StandardErrorResponse<CoreErrorResponseType>>>),
    /// The response lacks an identity token.
    #[error("it sent no identity token; is `openid` allowed for this client?")]
    NoIdentity,
    /// The identity token is not valid for this login.
    #[error("its identity token is not valid for this login")]
    Identity(#[from] ClaimsVerificationError),
    /// The signature of the identity token cannot be checked.
    #[error("the signature of its identity token cannot be checked")]
    Signature(#[from] SignatureVerificationError),
    /// The hash of the access token cannot be computed.
    #[error("the hash of its access token cannot be checked")]
    Hash(#[from] SigningError),
    /// The identity token belongs to another access token.
    #[error("its access token does not belong to its identity token")]
    AccessToken,
    /// The subject has no valid length.
    #[error("its name of the account has {0} bytes; 1 to {SUBJECT_BYTES} are valid")]
    Subject(usize),
    /// The user information cannot be read.
    #[error("its user information cannot be read")]
    UserInfo(#[from] UserInfoError<FetchError>),
}

type Metadata = Arc<CoreProviderMetadata>;

type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Where a login begins, and what its end must match.
#[derive(Debug)]
pub struct Authorization {
    /// Address of the provider's login page.
    pub url: String,
    pub state: String,
    pub nonce: Nonce,
    pub verifier: PkceCodeVerifier,
}

/// A person, as a provider names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Identifier that the provider never gives to another person.
    pub subject: String,
    /// Name that the person prefers.
    pub username: Option<String>,
    /// E-mail address, if the provider verified it.
    pub email: Option<String>,
}

/// A login provider.
#[derive(Debug)]
pub struct Provider {
    pub config: ProviderConfig,
    http: Fetcher,
    /// Locked while it is read, so that concurrent logins read it once.
    metadata: Mutex<Option<(Instant, Metadata)>>,
}

impl Provider {
    pub fn new(config: ProviderConfig) -> Result<Provider, reqwest::Error> {
        Ok(Provider { config, http: Fetcher::new()?, metadata: Mutex::default() })
    }

    /// Begins a login.
    pub async fn authorize(&self, redirect: &str) -> Result<Authorization, ProviderError> {
        let client = self.client(redirect, false).await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let request = client.authorize_url(
            CoreAuthenticationFlow::AuthorizationCode,
            || CsrfToken::new(accounts::random_hex(32)),
            || Nonce::new(accounts::random_hex(32)),
        );
        let scopes = self.config.scopes.iter().map(|scope| Scope::new(scope.clone()));
        let (url, state, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        Ok(Authorization { url: url.into(), state: state.into_secret(), nonce, verifier })
    }

    /// Exchanges a code, and returns who logged in.
    pub async fn redeem(
        &self,
        code: &str,
        redirect: &str,
        verifier: PkceCodeVerifier,
        nonce: &Nonce,
    ) -> Result<Person, ProviderError> {
        let client = self.client(redirect, false).await?;
        let request =
            client.exchange_code(AuthorizationCode::new(code.to_owned()))?.set_pkce_verifier(verifier);
        let tokens =
            request.request_async(&self.http).await.map_err(|error| ProviderError::Code(Box::new(error)))?;
        let identity = tokens.id_token().ok_or(ProviderError::NoIdentity)?;
        let verify = |client: &Client| {
            let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
            let claims = identity.claims(&verifier, nonce)?.clone();
            if let Some(expected) = claims.access_token_hash() {
                let key = identity.signing_key(&verifier)?;
                let actual =
                    AccessTokenHash::from_token(tokens.access_token(), identity.signing_alg()?, key)?;
                if actual != *expected {
                    return Err(ProviderError::AccessToken);
                }
            }
            Ok(claims)
        };
        let claims = match verify(&client) {
            // The provider may have new keys.
            Err(ProviderError::Identity(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            ))) => verify(&self.client(redirect, true).await?)?,
            other => other?,
        };
        let subject = claims.subject().as_str().to_owned();
        if !(1..=SUBJECT_BYTES).contains(&subject.len()) {
            return Err(ProviderError::Subject(subject.len()));
        }
        let mut person = Person {
            subject,
            username: claims.preferred_username().map(|name| name.as_str().to_owned()),
            email: claims
                .email()
                .filter(|_| claims.email_verified() == Some(true))
                .map(|email| email.to_string()),
        };
        // Providers may leave these out of the identity token.
        if (person.username.is_none() || claims.email().is_none()) && client.user_info_url().is_some() {
            let request = client.user_info(tokens.access_token().clone(), Some(claims.subject().clone()))?;
            let more: CoreUserInfoClaims = request.request_async(&self.http).await?;
            let email = more.email().filter(|_| more.email_verified() == Some(true));
            person.username =
                person.username.or(more.preferred_username().map(|name| name.as_str().to_owned()));
            person.email = person.email.or(email.map(|email| email.to_string()));
        }
        Ok(person)
    }

    /// Returns whether a person may log in, by the domain of the e-mail address.
    pub fn admits(&self, person: &Person) -> bool {
        let domains = &self.config.email_domains;
        let domain = person.email.as_ref().and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        domains.is_empty()
            || domain.is_some_and(|domain| domains.iter().any(|allowed| allowed.eq_ignore_ascii_case(domain)))
    }

    async fn client(&self, redirect: &str, again: bool) -> Result<Client, ProviderError> {
        let metadata = self.metadata(again).await?;
        let methods = metadata.token_endpoint_auth_methods_supported();
        let only_body = methods.is_some_and(|methods| {
            methods.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
        });
        let client = CoreClient::from_provider_metadata(
            CoreProviderMetadata::clone(&metadata),
            ClientId::new(self.config.client_id.clone()),
            self.config.client_secret.clone().map(ClientSecret::new),
        );
        Ok(client.set_redirect_uri(RedirectUrl::new(redirect.to_owned())?).set_auth_type(if only_body {
            AuthType::RequestBody
        } else {
            AuthType::BasicAuth
        }))
    }

    /// Returns the provider's description and keys; reads them if `again` is set or they are old.
    async fn metadata(&self, again: bool) -> Result<Metadata, ProviderError> {
        let mut kept = self.metadata.lock().await;
        match &*kept {
            Some((read, metadata)) if !again && read.elapsed() < FRESH => Ok(Arc::clone(metadata)),
            _ => {
                let issuer = IssuerUrl::new(self.config.issuer.clone())?;
                let metadata = Arc::new(CoreProviderMetadata::discover_async(issuer, &self.http).await?);
                *kept = Some((Instant::now(), Arc::clone(&metadata)));
                Ok(metadata)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verified_addresses_of_allowed_domains_are_admitted() {
        let with = |domains: &[&str]| {
            let mut config = ProviderConfig::new("company", "https://login.example", "board");
            config.email_domains = domains.iter().map(|&domain| domain.to_owned()).collect();
            Provider::new(config).unwrap()
        };
        let person = |email: Option<&str>| Person {
            subject: "1".to_owned(),
            username: None,
            email: email.map(str::to_owned),
        };
        assert!(with(&[]).admits(&person(None)));
        let provider = with(&["example.org", "example.com"]);
        for email in ["ada@example.org", "Ada@Example.COM"] {
            assert!(provider.admits(&person(Some(email))), "{email}");
        }
        for email in [
            "ada@evil.example",
            "ada@example.org.evil",
            "ada@sub.example.org",
            "example.org",
            "@evil.example@x",
        ] {
            assert!(!provider.admits(&person(Some(email))), "{email}");
        }
        assert!(!provider.admits(&person(None)));
    }
}
