//! LLVM's assembler and disassembler as a child process, which gets thousands of lines at a time.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use isa::Arch;

/// Result of assembling one line with llvm-mc.
pub type Assembled = Result<Vec<u8>, String>;

/// Disassembles each group of bytes; no lines if the first one is not an instruction.
pub fn disassemble(arch: Arch, groups: &[Vec<u8>]) -> Vec<Vec<String>> {
    // A marker instruction between the groups separates their texts.
    const SEPARATOR: (&str, &str) = ("[0xcd,0xab,0x80,0xbf]\n", "s_nop 0xabcd");
    let mut input = String::new();
    for bytes in groups {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
        input.push_str(&format!("[{}]\n{}", bytes.join(","), SEPARATOR.0));
    }
    let (stdout, _) = run(arch, &["--disassemble"], input);
    let mut texts = Vec::with_capacity(groups.len());
    let mut group = Vec::new();
    for line in stdout.lines().map(str::trim) {
        if line == SEPARATOR.1 {
            texts.push(std::mem::take(&mut group));
        } else if !line.is_empty() && !line.starts_with('.') {
            group.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    assert_eq!(texts.len(), groups.len(), "llvm-mc lost lines");
    texts
}

/// Assembles each line of text.
pub fn assemble(arch: Arch, lines: &[String]) -> Vec<Assembled> {
    let (stdout, stderr) = run(arch, &["--show-encoding"], lines.join("\n") + "\n");
    let mut assembled: Vec<Option<Assembled>> = vec![None; lines.len()];
    for line in stderr.lines() {
        // <stdin>:LINE:COLUMN: error: MESSAGE
        let mut parts = line.splitn(4, ':');
        let (Some("<stdin>"), Some(number), Some(_), Some(rest)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (Ok(number), Some(message)) = (number.parse::<usize>(), rest.trim().strip_prefix("error:"))
        else {
            continue;
        };
        assembled[number - 1] = Some(Err(message.trim().to_string()));
    }
    let mut encodings = stdout.lines().filter_map(|line| {
        let bytes = line.split_once("encoding: [")?.1.trim_end().trim_end_matches(']');
        bytes.split(',').map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).ok()).collect()
    });
    let assembled: Vec<Assembled> = assembled
        .into_iter()
        .zip(lines)
        .map(|(known, line)| {
            known.unwrap_or_else(|| Ok(encodings.next().unwrap_or_else(|| panic!("no bytes for {line}"))))
        })
        .collect();
    assert_eq!(encodings.next(), None, "llvm-mc made more instructions than it was given lines");
    assembled
}

fn run(arch: Arch, arguments: &[&str], input: String) -> (String, String) {
    let cpu = match arch {
        Arch::Gfx90a => "--mcpu=gfx90a",
        Arch::Gfx942 => "--mcpu=gfx942",
    };
    let mut child = Command::new(llvm_mc())
        .args(["--triple=amdgcn-amd-amdhsa", cpu])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("failed to start llvm-mc");
    let mut stdin = child.stdin.take().expect("llvm-mc has no stdin pipe");
    // Write from a separate thread: a batch does not fit into the pipe buffers.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("failed to wait for llvm-mc");
    let _ = writer.join();
    assert!(output.status.code().is_some(), "llvm-mc crashed: {}", output.status);
    let text = |bytes| String::from_utf8(bytes).expect("llvm-mc writes UTF-8");
    (text(output.stdout), text(output.stderr))
}

fn llvm_mc() -> PathBuf {
    let in_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|folder| folder.join("llvm-mc-19")).collect::<Vec<_>>()
    });
    let packaged = std::iter::once(PathBuf::from("/usr/lib/llvm-19/bin/llvm-mc"));
    in_path
        .chain(packaged)
        .find(|program| program.is_file())
        .expect("llvm-mc of LLVM 19 is missing: run `cargo xtask setup`")
}
