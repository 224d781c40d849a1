//! Landlock rulesets of commands, built beforehand, so that the command's process only has to apply them.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::command::Visible;

/// Newest Landlock ABI this was written for; the kernel applies what it supports of it.
const NEWEST: ABI = ABI::V6;

/// Ruleset for a command with a separate file system: no TCP, and no signals or abstract unix sockets across the boundary.
pub(crate) fn border() -> Result<Option<OwnedFd>, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    Ok(ruleset.into())
}

/// Ruleset for a command on the machine's file system: visible files can be read and executed, its folder written.
pub(crate) fn files(visible: &[Visible], folder: &Path) -> Result<Option<OwnedFd>, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for item in visible {
        ruleset = allow(ruleset, &item.path, read)?;
    }
    for device in crate::plan::DEVICES {
        ruleset = allow(ruleset, Path::new(device), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    ruleset = allow(ruleset, folder, all)?;
    Ok(ruleset.into())
}

fn allow(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    // A missing path can neither be granted nor used.
    let Ok(opened) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(opened, access))
}
