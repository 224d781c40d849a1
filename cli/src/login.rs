//! Options of `remora serve` for logins of people, and the file of login providers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use board_server::config::{LoginConfig, ProviderConfig};
use serde::Deserialize;
use transport::token;

use crate::env;

/// Maximum size of the file in bytes.
const MAX_BYTES: usize = 1 << 20;

// The group would have the name of the command's own arguments, which clap refuses if debug assertions are on.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Logins of people")]
pub struct Arguments {
    /// Address at which browsers reach the board, such as https://board.example.org
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// File with login providers (OpenID Connect), see docs/board.md
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
}

/// The file of login providers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    session_days: Option<f64>,
    /// By key, in the order of the pages.
    #[serde(default)]
    provider: toml::Table,
}

/// One login provider of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: Option<String>,
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    client_secret_env: Option<String>,
    scopes: Option<Vec<String>>,
    #[serde(default)]
    email_domains: Vec<String>,
    register: Option<Register>,
    daily_budget: Option<f64>,
    max_price: Option<f64>,
}

/// Whose first login creates an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Register {
    Everyone,
    Nobody,
}

/// The settings of logins.
pub fn config(arguments: &Arguments) -> Result<LoginConfig> {
    let config = LoginConfig { public_url: arguments.public_url.clone(), ..LoginConfig::default() };
    let Some(path) = &arguments.login else { return Ok(config) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read(&text, path, config).with_context(|| format!("login file {}", path.display()))
}

fn read(text: &str, path: &Path, config: LoginConfig) -> Result<LoginConfig> {
    ensure!(text.len() <= MAX_BYTES, "{} bytes are too many; the limit is {MAX_BYTES}", text.len());
    let file: File = toml::from_str(text).map_err(trimmed)?;
    let lifetime = match file.session_days {
        None => config.lifetime,
        Some(days) => {
            ensure!((0.01..=400.0).contains(&days), "session-days {days} must be from 0.01 to 400");
            Duration::from_secs_f64(days * 86_400.0)
        }
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let provider = |(key, value): (String, toml::Value)| {
        let entry = value.try_into::<Entry>().map_err(trimmed);
        let provider = entry.and_then(|entry| provider(&key, entry, folder));
        provider.with_context(|| format!("[provider.{key}]"))
    };
    let providers: Vec<ProviderConfig> = file.provider.into_iter().map(provider).collect::<Result<_>>()?;
    ensure!(!providers.is_empty(), "no login provider: add a section [provider.NAME]");
    Ok(LoginConfig { providers, lifetime, ..config })
}

fn provider(key: &str, entry: Entry, folder: &Path) -> Result<ProviderConfig> {
    let client_secret = match (&entry.client_secret_file, &entry.client_secret_env) {
        (Some(_), Some(_)) => bail!("client-secret-file and client-secret-env exclude each other"),
        (Some(file), None) => Some(String::from_utf8(token::read_file(&folder.join(file))?)),
        (None, Some(name)) => {
            let value = env::variable(name);
            Some(Ok(value
                .and_then(|value| value.into_string().ok())
                .with_context(|| format!("client-secret-env: the environment variable {name} is not set"))?))
        }
        (None, None) => None,
    };
    for (name, amount) in [("daily-budget", entry.daily_budget), ("max-price", entry.max_price)] {
        ensure!(
            amount.is_none_or(|usd| usd.is_finite() && usd >= 0.0),
            "{name} must be an amount of at least 0"
        );
    }
    for domain in &entry.email_domains {
        ensure!(
            !domain.is_empty() && !domain.contains(['@', '*', ' ']),
            "email-domains: \"{domain}\" is not a domain, such as example.org"
        );
    }
    let default = ProviderConfig::new(key, &entry.issuer, &entry.client_id);
    Ok(ProviderConfig {
        name: entry.name.unwrap_or(default.name),
        client_secret: client_secret.transpose().context("client-secret-file: the secret is not text")?,
        scopes: entry.scopes.unwrap_or(default.scopes),
        email_domains: entry.email_domains,
        register: entry.register.unwrap_or(Register::Everyone) == Register::Everyone,
        daily_budget_usd: entry.daily_budget.or(default.daily_budget_usd),
        max_price_usd: entry.max_price,
        ..default
    })
}

fn trimmed(error: toml::de::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", error.to_string().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LoginConfig> {
        let folder = tempfile::tempdir().unwrap();
        token::write_new(&folder.path().join("secret"), "s3cret").unwrap();
        read(text, &folder.path().join("login.toml"), LoginConfig::default())
    }

    #[test]
    fn every_setting_of_a_provider_is_read() {
        let text = "session-days = 7\n[provider.company]\nname = 'Company'\nissuer = 'https://login.example'\n\
            client-id = 'board'\nclient-secret-file = 'secret'\nscopes = ['email']\nemail-domains = ['example.org']\n\
            register = 'nobody'\ndaily-budget = 2.5\nmax-price = 3\n\
            [provider.other]\nissuer = 'https://other.example'\nclient-id = 'x'\n";
        let config = parse(text).unwrap();
        assert_eq!(config.lifetime, Duration::from_secs(7 * 86_400));
        let expected = ProviderConfig {
            name: "Company".to_owned(),
            client_secret: Some("s3cret".to_owned()),
            scopes: vec!["email".to_owned()],
            email_domains: vec!["example.org".to_owned()],
            register: false,
            daily_budget_usd: Some(2.5),
            max_price_usd: Some(3.0),
            ..ProviderConfig::new("company", "https://login.example", "board")
        };
        assert_eq!(config.providers, [expected, ProviderConfig::new("other", "https://other.example", "x")]);
        // Strangers who register use free devices only, unless the operator says otherwise.
        assert_eq!(config.providers[1].daily_budget_usd, Some(0.0));
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        let one = "[provider.a]\nissuer = 'https://a'\nclient-id = 'b'\n";
        for (text, expected) in [
            (String::new(), "no login provider"),
            (format!("{one}secret = 'x'\n"), "unknown field `secret`"),
            (format!("{one}client-secret-file = 'absent'\n"), "absent"),
            (
                format!("{one}client-secret-env = 'REMORA_NO_SUCH_SECRET'\n"),
                "REMORA_NO_SUCH_SECRET is not set",
            ),
            (format!("{one}client-secret-env = 'A'\nclient-secret-file = 'b'\n"), "exclude each other"),
            (format!("{one}register = 'some'\n"), "unknown variant `some`"),
            (format!("{one}email-domains = ['@example.org']\n"), "is not a domain"),
            (format!("{one}daily-budget = -1\n"), "daily-budget must be"),
            ("[provider.a]\nclient-id = 'b'\n".to_owned(), "missing field `issuer`"),
            (format!("session-days = 0\n{one}"), "session-days 0 must be"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
