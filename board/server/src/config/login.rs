//! Settings for logins of people.

use std::time::Duration;

/// How people log in.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// Address at which browsers reach the server, such as `https://board.example.org`. Without one, and on a loopback address, it is
    /// the address that the browser uses.
    pub public_url: Option<String>,
    /// Login providers.
    pub providers: Vec<ProviderConfig>,
    /// How long a browser stays logged in.
    pub lifetime: Duration,
    /// Requests of one network address to the routes of the login, per minute.
    pub per_minute: u32,
    /// Requests of all addresses together.
    pub total_per_minute: u32,
}

impl Default for LoginConfig {
    fn default() -> LoginConfig {
        LoginConfig {
            public_url: None,
            providers: Vec::new(),
            lifetime: Duration::from_secs(30 * 86_400),
            per_minute: 30,
            total_per_minute: 600,
        }
    }
}

/// A login provider: a server that speaks OpenID Connect.
#[derive(Clone, PartialEq)]
pub struct ProviderConfig {
    /// Key in addresses: lower-case letters, digits and dashes.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// URL of the issuer; its description is at `/.well-known/openid-configuration` below.
    pub issuer: String,
    /// Client that is registered there for this board.
    pub client_id: String,
    /// Secret of the client; public clients have none.
    pub client_secret: Option<String>,
    /// Scopes to request, in addition to `openid`.
    pub scopes: Vec<String>,
    /// Domains of e-mail addresses that may log in; empty for any, and for accounts without an address.
    pub email_domains: Vec<String>,
    /// Whether a login of an unknown person creates an account.
    pub register: bool,
    /// Daily budget of accounts that a login creates; `None` for no limit.
    pub daily_budget_usd: Option<f64>,
    /// Highest device price for such accounts, in dollars per hour; `None` for no limit.
    pub max_price_usd: Option<f64>,
}

impl ProviderConfig {
    /// Creates settings with defaults. Accounts that a login creates use free devices only.
    pub fn new(key: &str, issuer: &str, client_id: &str) -> ProviderConfig {
        ProviderConfig {
            key: key.to_owned(),
            name: key.to_owned(),
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: None,
            scopes: vec!["profile".to_owned(), "email".to_owned()],
            email_domains: Vec::new(),
            register: true,
            daily_budget_usd: Some(0.0),
            max_price_usd: None,
        }
    }
}

impl std::fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keeps the secret out of logs.
        formatter
            .debug_struct("ProviderConfig")
            .field("key", &self.key)
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("register", &self.register)
            .finish_non_exhaustive()
    }
}
