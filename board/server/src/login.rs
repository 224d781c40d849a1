//! Logins of people: through a login provider (OpenID Connect), or by a link that an administrator creates.
//!
//! A login through a provider takes two requests of the pages. The first one gives the browser a cookie and the address of the
//! provider. The provider sends the browser back with a code, and the second request exchanges it. Both requests have to come from
//! the same browser, and each login can be finished once.

mod fetch;
mod name;
mod pending;
mod provider;
mod rate;
mod session;

use std::net::SocketAddr;

use axum::http::{HeaderMap, header};
use openidconnect::url::{Host, Url};

use crate::config::LoginConfig;

pub use name::candidates as name_candidates;
pub use pending::{LIFETIME as PENDING_LIFETIME, PendingError, PendingLogins, Started};
pub use provider::{Person, Provider, ProviderError};
pub use rate::Rate;
pub use session::{Cookie, TOKEN_DIGITS, link_hash, login_hash};

/// Error in the settings of logins.
#[derive(Debug, thiserror::Error)]
pub enum LoginConfigError {
    /// The public address is no address of a server.
    #[error(
        "public URL \"{0}\" is not the address of a server: use https://NAME or https://NAME:PORT, without a path"
    )]
    PublicUrl(String),
    /// Providers must know where to send browsers back to.
    #[error(
        "login providers need the public URL of a board that listens on {0}: set --public-url https://NAME"
    )]
    NoPublicUrl(SocketAddr),
    /// The key of a provider has characters that it must not have.
    #[error(
        "\"{0}\" is not a valid name of a login provider: use 1 to 40 lower-case letters, digits and dashes"
    )]
    Key(String),
    /// Two providers have the same key or issuer.
    #[error("login provider {0}: there is another one with the same name or issuer")]
    Duplicate(String),
    /// The issuer is not a URL.
    #[error("login provider {key}: the issuer \"{issuer}\" is not a URL")]
    Issuer {
        /// Key of the provider.
        key: String,
        /// Its issuer.
        issuer: String,
        /// The cause.
        source: openidconnect::url::ParseError,
    },
    /// Without TLS, an attacker on the network could replace the provider's response and log in as any user.
    #[error("login provider {key}: the issuer {issuer} is reached without encryption: use https")]
    Unencrypted {
        /// Key of the provider.
        key: String,
        /// Its issuer.
        issuer: String,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client for login providers")]
    Client(#[from] reqwest::Error),
}

/// State of logins of a running server.
#[derive(Debug)]
pub struct Logins {
    /// The providers, in the order of the pages.
    pub providers: Vec<Provider>,
    /// Logins that have not come back from their provider.
    pub pending: PendingLogins,
    /// Limit of requests to the routes of the login.
    pub rate: Rate,
    /// Origin of the pages, if it is set.
    pub public: Option<String>,
    /// Origin of a server on a loopback address.
    listening: String,
}

impl Logins {
    /// Checks the settings. Providers are contacted at the first login, so that a server starts without them.
    pub fn new(config: &LoginConfig, address: SocketAddr) -> Result<Logins, LoginConfigError> {
        let public = config.public_url.as_deref().map(origin).transpose()?;
        if public.is_none() && !config.providers.is_empty() && !address.ip().is_loopback() {
            return Err(LoginConfigError::NoPublicUrl(address));
        }
        let mut providers: Vec<Provider> = Vec::new();
        for one in &config.providers {
            let is_valid = (1..=40).contains(&one.key.len())
                && one.key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            if !is_valid {
                return Err(LoginConfigError::Key(one.key.clone()));
            }
            if providers.iter().any(|other| other.config.key == one.key || other.config.issuer == one.issuer)
            {
                return Err(LoginConfigError::Duplicate(one.key.clone()));
            }
            let issuer = Url::parse(&one.issuer).map_err(|source| LoginConfigError::Issuer {
                key: one.key.clone(),
                issuer: one.issuer.clone(),
                source,
            })?;
            if issuer.scheme() != "https" && !(issuer.scheme() == "http" && is_loopback(&issuer)) {
                return Err(LoginConfigError::Unencrypted {
                    key: one.key.clone(),
                    issuer: one.issuer.clone(),
                });
            }
            providers.push(Provider::new(one.clone())?);
        }
        Ok(Logins {
            providers,
            pending: PendingLogins::default(),
            rate: Rate::new(config.per_minute, config.total_per_minute),
            public,
            listening: format!("http://{address}"),
        })
    }

    /// Finds a provider by its key.
    pub fn provider(&self, key: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.config.key == key)
    }

    /// Returns whether browsers reach the server through HTTPS.
    pub fn is_secure(&self) -> bool {
        self.public.as_ref().is_some_and(|public| public.starts_with("https:"))
    }

    /// Returns the origin of the pages for a browser. Without a public URL it has the name that the browser used, because cookies of
    /// `localhost` are not sent to `127.0.0.1`; the caller has checked that the name is one of this machine.
    pub fn origin(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match (&self.public, host()) {
            (Some(public), _) => public.clone(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => self.listening.clone(),
        }
    }
}

/// Returns the origin of a public URL.
fn origin(text: &str) -> Result<String, LoginConfigError> {
    let wrong = || LoginConfigError::PublicUrl(text.to_owned());
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty();
    match is_bare && is_http {
        true => Ok(url.origin().ascii_serialization()),
        false => Err(wrong()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns whether a path leads to a page of this server and nowhere else, however a browser reads it.
pub fn is_local_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.len() <= 2048
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProviderConfig;

    const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 3000);

    fn with(change: impl FnOnce(&mut LoginConfig), address: SocketAddr) -> Result<Logins, String> {
        let issuer = "https://login.example/realm";
        let providers = vec![ProviderConfig::new("company", issuer, "board")];
        let mut config = LoginConfig { providers, ..LoginConfig::default() };
        change(&mut config);
        Logins::new(&config, address).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_that_are_not_safe_are_refused() {
        let here = HERE.into();
        assert!(with(|_| {}, here).is_ok());
        for issuer in ["http://127.0.0.1:1/x", "http://localhost:1", "http://[::1]:1"] {
            assert!(with(|config| config.providers[0].issuer = issuer.to_owned(), here).is_ok(), "{issuer}");
        }
        for issuer in ["http://login.example", "ftp://login.example", "http://127.0.0.1.example"] {
            let error = with(|config| config.providers[0].issuer = issuer.to_owned(), here).unwrap_err();
            assert!(error.contains("without encryption"), "{error}");
        }
        let error = with(|config| config.providers[0].issuer = "company".to_owned(), here).unwrap_err();
        assert!(error.contains("is not a URL"), "{error}");
        for key in ["", "a.b", "A", "a/b"] {
            let error = with(|config| config.providers[0].key = key.to_owned(), here).unwrap_err();
            assert!(error.contains("not a valid name"), "{error}");
        }
        let twice = |config: &mut LoginConfig| config.providers.push(config.providers[0].clone());
        assert!(with(twice, here).unwrap_err().contains("another one"));
        let error = with(|_| {}, ([0, 0, 0, 0], 3000).into()).unwrap_err();
        assert!(error.contains("--public-url"), "{error}");
    }

    #[test]
    fn a_public_url_is_an_origin() {
        let public = |url: &str| with(|config| config.public_url = Some(url.to_owned()), HERE.into());
        let logins = public("https://Board.example/").unwrap();
        assert_eq!((logins.public.as_deref(), logins.is_secure()), (Some("https://board.example"), true));
        assert!(!public("http://board.example:3000").unwrap().is_secure());
        for wrong in [
            "board.example",
            "https://board.example/x",
            "https://u@board.example",
            "file:///",
            "https://b/?q",
        ] {
            assert!(public(wrong).unwrap_err().contains("is not the address of a server"), "{wrong}");
        }
    }

    #[test]
    fn only_paths_of_this_server_are_local() {
        for path in ["/", "/problems/relu?tab=discussion", "/a//b", "/login"] {
            assert!(is_local_path(path), "{path}");
        }
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "/a\nb",
            "/\t/evil.example",
        ] {
            assert!(!is_local_path(path), "{path:?}");
        }
    }
}
