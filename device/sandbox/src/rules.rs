//! What Landlock grants a command: a ruleset made beforehand, so that the command's process only has to apply it.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::command::Visible;

/// The newest set of rights this was written for; the kernel gives what it has of them.
const NEWEST: ABI = ABI::V6;

/// For a command with a file system of its own: no TCP, no signals and no abstract sockets across its border.
pub(crate) fn border() -> Result<Option<OwnedFd>, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    Ok(ruleset.into())
}

/// For a command on the machine's file system: what is visible can be read and executed, its folder written.
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
    // What is not there cannot be granted, nor used.
    let Ok(opened) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(opened, access))
}
