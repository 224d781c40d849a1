//! The version and the time of a release.

use crate::env;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::process::Command;

/// What identifies a release.
#[derive(Debug, Clone)]
pub struct Release {
    /// The version of the workspace.
    pub version: &'static str,
    /// The time of every file, in seconds since 1970: that of the commit, or `SOURCE_DATE_EPOCH`.
    pub time: u64,
}

impl Release {
    pub fn find(repo: &Repo) -> Result<Release> {
        let text = match env::source_date_epoch() {
            Some(text) => text,
            None => {
                let mut git = Command::new("git");
                git.current_dir(&repo.root).args(["log", "-1", "--format=%ct"]);
                step::output(&mut git).context(
                    "cannot find the time of the commit; outside a git repository, set SOURCE_DATE_EPOCH",
                )?
            }
        };
        let time = text.trim().parse();
        let time =
            time.with_context(|| format!("the time of the release is \"{}\", not a number", text.trim()))?;
        Ok(Release { version: env!("CARGO_PKG_VERSION"), time })
    }

    /// The time as RFC 3339, for bills of materials.
    pub fn timestamp(&self) -> Result<String> {
        self.date("+%Y-%m-%dT%H:%M:%SZ")
    }

    /// The time as RFC 5322, for changelogs.
    pub fn mail_date(&self) -> Result<String> {
        self.date("--rfc-email")
    }

    /// The year, for copyright notices.
    pub fn year(&self) -> Result<String> {
        self.date("+%Y")
    }

    /// The time for zip archives, whose times start in 1980.
    pub fn zip_time(&self) -> u64 {
        self.time.max(315_532_800)
    }

    fn date(&self, format: &str) -> Result<String> {
        let mut date = Command::new("date");
        date.arg("--utc").arg(format!("--date=@{}", self.time)).arg(format).env("LC_ALL", "C");
        Ok(step::output(&mut date)?.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let release = Release { version: "1.0.0", time: 86_400 };
        assert_eq!(release.timestamp().unwrap(), "1970-01-02T00:00:00Z");
        assert_eq!(release.mail_date().unwrap(), "Fri, 02 Jan 1970 00:00:00 +0000");
    }
}
