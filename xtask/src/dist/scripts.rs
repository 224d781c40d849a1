//! The maintainer scripts of the Debian packages.

/// A script: name, text after the first lines.
pub type Script = (&'static str, String);

/// Scripts of a package with services: systemd learns of them, they end before they are removed, and a purge removes their data.
pub fn services(units: &[&str], data: &[&str]) -> Vec<Script> {
    let units = units.iter().map(|unit| format!("'{unit}'")).collect::<Vec<_>>().join(" ");
    let reload = "if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload || true\nfi\n";
    // Templates cannot be disabled by a pattern; their links are removed with the data.
    let disable = if units.contains('@') {
        "    rm -f /etc/systemd/system/*.wants/remora-worker@*.service\n".to_owned()
    } else {
        format!(
            "    if command -v systemctl >/dev/null; then\n        systemctl --quiet --no-reload disable {units} || true\n    fi\n"
        )
    };
    let stop = format!(
        "if [ \"$1\" = remove ]; then\n    if [ -d /run/systemd/system ]; then\n        systemctl stop {units} || true\n    fi\n{disable}fi\n"
    );
    // Folders that several packages use go when they are empty; state goes with its contents.
    let removals: String = data
        .iter()
        .map(|path| match path.starts_with("/etc") {
            true => format!("    rmdir --ignore-fail-on-non-empty {path} 2>/dev/null || true\n"),
            false => format!("    rm -rf {path}\n"),
        })
        .collect();
    let purge = format!("if [ \"$1\" = purge ]; then\n{removals}fi\n{reload}");
    vec![("postinst", reload.to_owned()), ("prerm", stop), ("postrm", purge)]
}

/// Those of the board, which also creates its user.
pub fn board() -> Vec<Script> {
    let mut scripts = services(&["remora-board.service"], &["/var/lib/remora-board"]);
    if let Some((_, text)) = scripts.iter_mut().find(|(name, _)| *name == "postinst") {
        text.insert_str(0, "\nif [ \"$1\" = configure ]; then\n    systemd-sysusers remora-board.conf\nfi\n");
    }
    scripts
}

/// Those of the client libraries, for update-alternatives.
pub fn alternatives() -> Vec<Script> {
    vec![("postinst", ALTERNATIVES_ON.replace("LINK", ALTERNATIVE)), ("prerm", ALTERNATIVES_OFF.to_owned())]
}

const ALTERNATIVE: &str = "/etc/ld.so.conf.d/00-libamdhip64.conf libamdhip64.conf /usr/share/remora";
const ALTERNATIVES_ON: &str = r#"
if [ "$1" = configure ]; then
    update-alternatives --quiet --install LINK/ld-system.conf 100
    update-alternatives --quiet --install LINK/ld-remora.conf 10
fi
"#;
const ALTERNATIVES_OFF: &str = r#"
if [ "$1" = remove ]; then
    chosen=$(readlink /etc/alternatives/libamdhip64.conf || true)
    update-alternatives --quiet --remove libamdhip64.conf /usr/share/remora/ld-remora.conf
    update-alternatives --quiet --remove libamdhip64.conf /usr/share/remora/ld-system.conf
    # Only then does the loader's cache name these libraries.
    if [ "$chosen" = /usr/share/remora/ld-remora.conf ]; then
        ldconfig
    fi
fi
"#;

/// Those of a Python module, as Debian's packages of modules have them.
pub fn python() -> Vec<Script> {
    vec![("postinst", COMPILE.to_owned()), ("prerm", CLEAN.to_owned())]
}

const COMPILE: &str = r#"
if [ "$1" = configure ] && command -v py3compile >/dev/null; then
    py3compile -p pyflame
fi
"#;
const CLEAN: &str = r#"
if command -v py3clean >/dev/null; then
    py3clean -p pyflame
fi
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_removes_state_and_only_empty_folders_of_settings() {
        let scripts = services(&["remora-agent.service"], &["/var/lib/remora", "/etc/remora"]);
        let (_, purge) = scripts.iter().find(|(name, _)| *name == "postrm").unwrap();
        assert!(purge.contains("rm -rf /var/lib/remora\n"), "{purge}");
        assert!(purge.contains("rmdir --ignore-fail-on-non-empty /etc/remora"), "{purge}");
        assert!(!purge.contains("rm -rf /etc"), "{purge}");
    }
}
