//! Wine: runs Windows programs on Linux, with a private prefix.

use crate::examples::checked;
use crate::repo::Repo;
use crate::step;
use crate::system;
use crate::windows;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGES: &[&str] = &["wine64"];
const PROGRAM: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver64";
/// Random bytes for Rust's standard library: Debian 12's Wine lacks this DLL, which every Windows since 7 has.
const RANDOM: &str = "bcryptprimitives.dll";
const RANDOM_SOURCE: &str = r#"
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG bytes);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T bytes) { return SystemFunction036(buffer, (ULONG)bytes); }
"#;

/// A Wine prefix, with a server that runs until this is dropped.
#[derive(Debug)]
pub struct Wine {
    prefix: PathBuf,
    /// Folders with DLLs of programs, as Windows paths.
    path: String,
    /// The same without the client's: for `remora.exe`, which finds them itself.
    bare_path: String,
}

impl Wine {
    /// Installs Wine and creates the prefix of this repository.
    pub fn prepare(repo: &Repo, dlls: &Path) -> Result<Wine> {
        system::ensure(repo, PACKAGES)?;
        let base = repo.target.join("wine");
        let support = base.join("support");
        fs::create_dir_all(&support).with_context(|| format!("cannot create {}", support.display()))?;
        compile_random(&support)?;
        let wine = Wine {
            prefix: base.join("prefix"),
            path: format!("{};{}", windows_path(dlls), windows_path(&support)),
            bare_path: windows_path(&support),
        };
        if !wine.prefix.join("system.reg").exists() {
            let log = repo.logs().join("wine-prefix.log");
            step::run_logged("the Wine prefix", &mut wine.command(Path::new("wineboot"), &["--init"]), &log)?;
        }
        // A server that ends with the last program refuses the next one if that starts at the same moment. This fails if a server
        // is running, which is as good.
        let _ = wine.server("-p").status();
        // The first program starts Wine's services. They keep its output open as long as the server runs, so a reader of the output
        // would wait for ever.
        let mut first = wine.command(Path::new("wineboot"), &[]);
        first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        first.status().context("cannot start Wine's services")?;
        Ok(wine)
    }

    fn server(&self, option: &str) -> Command {
        let mut command = Command::new(SERVER);
        command.arg(option).env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all");
        command
    }

    /// A command that runs a Windows program.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.bare_command(program, arguments);
        command.env("WINEPATH", &self.path);
        command
    }

    /// A command that runs a Windows program without the client's DLLs in its search path.
    pub fn bare_command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg(program).args(arguments);
        command.env("WINEPREFIX", &self.prefix).env("WINEPATH", &self.bare_path);
        // No browser engine and no .NET, which Wine would offer to install; no messages of Wine itself.
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=;bcryptprimitives=n").env("WINEDEBUG", "-all");
        command.env_remove("DISPLAY");
        command
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        let _ = self.server("-k").status();
    }
}

fn compile_random(folder: &Path) -> Result<()> {
    let dll = folder.join(RANDOM);
    if dll.exists() {
        return Ok(());
    }
    let source = folder.join("bcryptprimitives.c");
    fs::write(&source, RANDOM_SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
    let mut compiler = Command::new(windows::COMPILER);
    compiler.args(["-x", "c", "-shared", "-O1", "-static-libgcc", "-o"]).arg(&dll).arg(&source);
    checked(compiler.arg("-ladvapi32"))
}

/// A path of this system as a Wine program sees it.
pub fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}
