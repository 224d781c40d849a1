//! Login of people: providers, login links, and what a logged-in user manages.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// How a request was authenticated.
    pub enum Authentication {
        /// Not at all: the server has no accounts and belongs to the user of its machine.
        Local = "local",
        /// By an API key.
        Key = "key",
        /// By the cookie of a browser that is logged in.
        Login = "login",
    }
}

/// Ways to log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoginOptions {
    /// Login providers; empty if the server has none.
    pub providers: Vec<LoginProvider>,
}

/// A login provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoginProvider {
    /// Its key in addresses.
    pub key: String,
    /// Its name for people.
    pub name: String,
}

/// A request to log in through a provider, or to link an account there to the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct LoginStartBody {
    /// Key of the provider.
    pub provider: String,
    /// Path on this server to continue at; `/` by default.
    pub return_to: Option<String>,
    /// Whether to link the account at the provider to the caller's, instead of logging in.
    #[serde(default)]
    pub link: bool,
}

/// Where the browser continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoginStart {
    /// Address of the provider's login page.
    pub url: String,
}

/// What the provider added to the callback address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct LoginFinishBody {
    /// Key of the provider, from the path of the callback address.
    pub provider: String,
    /// The state that the login was started with.
    pub state: String,
    /// The authorization code.
    pub code: Option<String>,
    /// The issuer, if the provider names it.
    pub iss: Option<String>,
    /// The provider's error code, instead of a code.
    pub error: Option<String>,
    /// The provider's words about the error.
    pub error_description: Option<String>,
}

/// A finished login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoginDone {
    /// Name of the user.
    pub user: String,
    /// Whether the account was created by this login.
    pub created: bool,
    /// Whether an account at the provider was linked.
    pub linked: bool,
    /// Path to continue at.
    pub return_to: String,
}

/// A login link.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct LoginLinkBody {
    /// Secret of the link.
    pub token: String,
    /// Whether to use the link up and log in. Otherwise only its user is returned.
    #[serde(default)]
    pub confirm: bool,
}

/// The user of a login link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoginLink {
    /// Name of the user.
    pub user: String,
    /// Whether the browser is logged in now.
    pub confirmed: bool,
}

/// A request to log out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct LogoutBody {
    /// Whether to log out all browsers of the user.
    #[serde(default)]
    pub everywhere: bool,
}

/// What a user manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Account {
    /// Name of the user.
    pub user: String,
    /// Whether the caller may create and revoke keys: in a browser that is logged in.
    pub manages_keys: bool,
    /// API keys in use, oldest first.
    pub keys: Vec<AccountKey>,
    /// All login providers.
    pub providers: Vec<LinkedProvider>,
    /// Number of browsers that are logged in.
    pub browsers: i64,
}

/// An API key in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AccountKey {
    /// Public part of the key.
    pub prefix: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
}

/// A login provider and whether the user has linked an account there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LinkedProvider {
    /// Its key in addresses.
    pub key: String,
    /// Its name for people.
    pub name: String,
    /// Whether an account there is linked.
    pub linked: bool,
}

/// A new API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NewKey {
    /// The key. It is not stored and cannot be shown again.
    pub key: String,
}

/// A request to revoke an API key of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct RevokeKeyBody {
    /// Public part of the key.
    pub prefix: String,
}

/// A request to unlink the caller's account at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct UnlinkBody {
    /// Key of the provider.
    pub provider: String,
}
