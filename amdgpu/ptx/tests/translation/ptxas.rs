//! `ptxas` accepts the text of every case.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use ptx::{Mode, Options, Target, translate};

use super::cases::Case;

/// The program: `PTXAS`, or what `cargo xtask setup` fetched, or the one in the path.
fn program() -> Option<PathBuf> {
    if let Some(path) = env::var_os("PTXAS") {
        return Some(path.into());
    }
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/ptxas/bin/ptxas");
    if fetched.exists() {
        return Some(fetched);
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join("ptxas")).find(|path| path.exists())
}

pub fn options(case: &Case, mode: Mode) -> Options {
    Options {
        mode: Some(mode),
        block: Some([64, 1, 1]),
        exact_matrix: case.exact_matrix,
        ..Options::default()
    }
}

fn check(sm: u32, cases: &[Case]) -> Vec<String> {
    let Some(ptxas) = program() else {
        let _ = writeln!(std::io::stderr(), "skipped: ptxas accepts every case: no ptxas");
        return Vec::new();
    };
    let mut failures = Vec::new();
    let folder = env::temp_dir().join(format!("ptx-cases-{}-{sm}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the text");
    let mut texts: Vec<(String, String)> = Vec::new();
    for case in cases {
        for mode in &case.modes {
            let target = Target { sm, ..Target::default() };
            match translate(&case.function, &target, &options(case, *mode)) {
                Ok(translation) => texts.push((format!("{} {mode:?}", case.name), translation.text)),
                Err(refusal) => failures.push(format!("{} {mode:?}: {refusal}", case.name)),
            }
        }
    }
    // Many entries in a file: starting the program costs more than a small kernel.
    for (number, part) in texts.chunks(64).enumerate() {
        let path = folder.join(format!("{number}.ptx"));
        let mut file = String::new();
        for (at, (name, text)) in part.iter().enumerate() {
            let body = text.find(".visible").unwrap_or(0);
            if at == 0 {
                file.push_str(&text[..body]);
            }
            file.push_str(&format!("// {}\n", name.replace('\n', " ")));
            file.push_str(&text[body..].replacen(".entry k(", &format!(".entry k{at}("), 1));
        }
        fs::write(&path, file).expect("the text is written");
        let output = Command::new(&ptxas)
            .args(["-O0", &format!("-arch=sm_{sm}"), "-o", "/dev/null"])
            .arg(&path)
            .output()
            .expect("ptxas runs");
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            failures.push(format!(
                "{}: {}",
                path.display(),
                message.lines().take(8).collect::<Vec<_>>().join("\n")
            ));
        }
    }
    if failures.is_empty() {
        let _ = fs::remove_dir_all(&folder);
    }
    failures
}

#[test]
fn ptxas_accepts_every_operation_for_two_generations() {
    let cases = super::all();
    assert!(cases.len() > 500, "{} cases", cases.len());
    let mut failures = check(90, &cases);
    failures.extend(check(80, &cases));
    let shown: Vec<&String> = failures.iter().take(20).collect();
    assert!(failures.is_empty(), "{} failures, such as {shown:#?}", failures.len());
}
