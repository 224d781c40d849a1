//! Compiles sources to device code and host programs. Compilers and linkers run in the sandbox; results are cached.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::{Command, Limits, SandboxError, Stop};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::generator;
use crate::object_rules::{self, ObjectBreach};
use crate::recipe::{self, Recipe, RecipeError, SOURCE, Side, hex};
use crate::tools::Tools;

/// Most bytes of compiler output that users are shown.
const MOST_SAID: usize = 16 << 10;
/// Most bytes of compiler output before the compiler is stopped.
const MOST_OUTPUT: u64 = 1 << 20;
const MOST_RESULT: u64 = 64 << 20;
/// Size limit of the cache in bytes; the oldest results are removed first.
const MOST_KEPT: u64 = 1 << 30;

/// Error of a compilation.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// An error in the source.
    #[error("{message}")]
    Source {
        /// What is wrong.
        message: String,
        /// Messages of the compiler.
        details: String,
    },
    /// The compiled host code breaks a rule.
    #[error(transparent)]
    Rule(ObjectBreach),
    /// The commands of the compiler are not known.
    #[error("the compiler could not be set up")]
    Recipe(#[from] RecipeError),
    /// The compiler could not be run.
    #[error("the compiler could not be run")]
    Sandbox(#[from] SandboxError),
    /// A file could not be read or written.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// Result of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// Code object for the device.
    pub code: Vec<u8>,
    /// Host program, if it was requested.
    pub program: Option<Vec<u8>>,
    /// Warnings of the compiler.
    pub warnings: String,
    /// Whether the result came from the cache.
    pub cached: bool,
    /// Duration of the compilation.
    pub took: Duration,
    /// Duration of each step, by name.
    pub parts: Vec<(&'static str, Duration)>,
}

/// Cached metadata of a result, stored alongside the code and the program.
#[derive(Serialize, Deserialize)]
struct Kept {
    warnings: String,
}

/// The harness of a solution of the host shape.
#[derive(Clone, Copy, Debug)]
pub struct Harness<'a> {
    /// C++ with `main`.
    pub text: &'a str,
    /// Number of devices of the problem.
    pub devices: u32,
}

/// Compiles for one target.
#[derive(Debug)]
pub struct Compiler<'a> {
    tools: &'a Tools,
    target: &'a str,
    limit: Duration,
}

impl<'a> Compiler<'a> {
    /// Creates a compiler for a target, with a time limit per command.
    pub fn new(tools: &'a Tools, target: &'a str, limit: Duration) -> Compiler<'a> {
        Compiler { tools, target, limit }
    }

    /// Precompiles the headers, so that the first compilation is as fast as the others.
    pub fn warm_up(&self) -> Result<(), CompileError> {
        let recipe = Recipe::find(self.tools, self.target)?;
        recipe.precompiled(self.tools, Side::Device)?;
        recipe.precompiled(self.tools, Side::Host)?;
        self.kernel(generator::SOURCE).map(drop)
    }

    /// Compiles device code only.
    pub fn kernel(&self, source: &str) -> Result<Compiled, CompileError> {
        self.compile(source, None)
    }

    /// Compiles device code and a host program. A harness is compiled separately and linked to the source.
    pub fn program(&self, source: &str, harness: Option<Harness<'_>>) -> Result<Compiled, CompileError> {
        self.compile(source, Some(harness))
    }

    fn compile(&self, source: &str, program: Option<Option<Harness<'_>>>) -> Result<Compiled, CompileError> {
        let begun = Instant::now();
        let recipe = Recipe::find(self.tools, self.target)?;
        let folder = self.tools.cache.join("code");
        let key = key(RULES, &recipe.key, source, program);
        if let Some(kept) = kept(&folder, &key, program.is_some()) {
            return Ok(Compiled { cached: true, took: begun.elapsed(), ..kept });
        }
        let mut work = Work { compiler: self, recipe: &recipe, source, said: Vec::new(), parts: Vec::new() };
        let code = work.device()?;
        let program = match program {
            None => None,
            Some(harness) => Some(work.host(&code, harness)?),
        };
        let compiled = Compiled {
            code,
            program,
            warnings: self.tools.shown_at_most(&work.said, MOST_SAID),
            cached: false,
            took: begun.elapsed(),
            parts: work.parts,
        };
        // A failure to cache the result does not fail the compilation.
        let _ = keep(&folder, &key, &compiled);
        Ok(compiled)
    }
}

/// A compilation in progress.
struct Work<'a> {
    compiler: &'a Compiler<'a>,
    recipe: &'a Recipe,
    source: &'a str,
    said: Vec<u8>,
    parts: Vec<(&'static str, Duration)>,
}

impl Work<'_> {
    fn precompiled(&self, side: Side) -> Result<Option<PathBuf>, CompileError> {
        if !recipe::may_use_precompiled(self.source) {
            return Ok(None);
        }
        Ok(Some(self.recipe.precompiled(self.compiler.tools, side)?))
    }

    fn device(&mut self) -> Result<Vec<u8>, CompileError> {
        let headers = self.precompiled(Side::Device)?;
        let command = self.recipe.compile(Side::Device, headers.as_deref(), &[], "device.o");
        let files = vec![(SOURCE, self.source.as_bytes().to_vec())];
        let object = self.run("device code", &command, files, headers.as_deref(), "device.o")?;
        let mut link = self.recipe.device_link.clone();
        link.extend(["-o", "device.co", "device.o"].map(str::to_owned));
        self.run("device link", &link, vec![("device.o", object)], None, "device.co")
    }

    fn host(&mut self, code: &[u8], harness: Option<Harness<'_>>) -> Result<Vec<u8>, CompileError> {
        let headers = self.precompiled(Side::Host)?;
        let bundle = bundle(self.compiler.target, code);
        let extra = ["-fcuda-include-gpubinary", "device.bundle"];
        let command = self.recipe.compile(Side::Host, headers.as_deref(), &extra, "input.o");
        let files = vec![(SOURCE, self.source.as_bytes().to_vec()), ("device.bundle", bundle)];
        let object = self.run("host code", &command, files, headers.as_deref(), "input.o")?;
        // A whole program gets no verdict, so it may do what the sandbox permits.
        if let Some(harness) = harness
            && let Some(breach) = object_rules::breach(&object, harness.devices)
        {
            return Err(CompileError::Rule(breach));
        }
        let mut link = self.recipe.host_link.clone();
        let mut files = vec![("input.o", object)];
        if let Some(harness) = harness {
            files.push(("main.o", self.main(harness.text)?));
            link.push("main.o".to_owned());
        }
        self.run("host link", &link, files, Some(&self.compiler.tools.libraries.clone()), "output")
    }

    /// Compiles the harness of a program. It is the same for every source, so it is cached.
    fn main(&mut self, text: &str) -> Result<Vec<u8>, CompileError> {
        let folder = self.compiler.tools.cache.join("code");
        let key = key(RULES, &self.recipe.key, text, None) + "-main";
        if let Ok(object) = fs::read(folder.join(&key)) {
            return Ok(object);
        }
        let headers = self.recipe.precompiled(self.compiler.tools, Side::Host)?;
        // Names a symbol that both parts of a program share.
        let command = self.recipe.compile(Side::Host, Some(&headers), &["-cuid=harness"], "main.o");
        let files = vec![(SOURCE, text.as_bytes().to_vec())];
        let object = self.run("harness", &command, files, Some(&headers), "main.o")?;
        let _ =
            fs::create_dir_all(&folder).and_then(|()| recipe::write_atomically(&folder.join(&key), &object));
        Ok(object)
    }

    fn run(
        &mut self,
        part: &'static str,
        command: &[String],
        files: Vec<(&str, Vec<u8>)>,
        also: Option<&Path>,
        result: &str,
    ) -> Result<Vec<u8>, CompileError> {
        let limits = Limits {
            wall: self.compiler.limit,
            cpu: self.compiler.limit,
            memory: 3 << 30,
            output: MOST_OUTPUT,
            file: MOST_RESULT,
            folder: 2 * MOST_RESULT,
            processes: 8,
        };
        let jailed = Command::new(&command[0])
            .arguments(&command[1..])
            .limits(limits)
            .isolation(self.compiler.tools.isolation)
            .collect(result);
        let mut jailed = recipe::with_toolchain(self.compiler.tools, jailed);
        // The compiler checks precompiled headers against their sources, which must be visible.
        if let Some(also) = also {
            jailed = jailed.visible(if also.is_file() { also.parent().unwrap_or(also) } else { also });
        }
        for (name, content) in files {
            jailed = jailed.file(name, content);
        }
        let mut ended = jailed.run()?;
        self.parts.push((part, ended.wall));
        let collected = ended.collected.pop().flatten();
        let failed = |message: &str, said: &[u8]| CompileError::Source {
            message: message.to_owned(),
            details: self.compiler.tools.shown_at_most(said, MOST_SAID),
        };
        match (ended.stop, collected) {
            (Stop::Exited(0), Some(content)) => {
                self.said.extend_from_slice(&ended.error);
                Ok(content)
            }
            (Stop::Exited(0), None) => Err(failed("the result is too large", &ended.error)),
            (Stop::Exited(_), _) => Err(failed("compilation failed", &ended.error)),
            (Stop::Time, _) => {
                let seconds = self.compiler.limit.as_secs_f64();
                Err(failed(&format!("compilation took longer than {seconds} s"), &ended.error))
            }
            (Stop::Memory, _) => Err(failed("compilation needs too much memory", &ended.error)),
            (Stop::Output, _) => Err(failed("the compiler prints too many messages", &ended.error)),
            (Stop::Folder, _) => Err(failed("the result is too large", &ended.error)),
            (Stop::Signalled(signal), _) => {
                Err(failed(&format!("the compiler was killed by signal {signal}"), &ended.error))
            }
            (Stop::Cancelled, _) => Err(failed("compilation was cancelled", &[])),
        }
    }
}

/// The rules for host code. A result that was kept under other rules is compiled and judged again.
const RULES: &str = include_str!("object_rules.rs");

fn key(rules: &str, recipe: &str, source: &str, program: Option<Option<Harness<'_>>>) -> String {
    let mut hasher = Sha256::new();
    let main = match program {
        None => "device".to_owned(),
        Some(None) => "program".to_owned(),
        // Other rules apply to a program for another number of devices.
        Some(Some(harness)) => format!("program for {} {}", harness.devices, harness.text),
    };
    for text in [rules, recipe, &main, source] {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hex(&hasher.finalize())
}

fn kept(folder: &Path, key: &str, program: bool) -> Option<Compiled> {
    let read = |part: &str| fs::read(folder.join(format!("{key}.{part}"))).ok();
    let Kept { warnings } = serde_json::from_slice(&read("json")?).ok()?;
    let program = if program { Some(read("program")?) } else { None };
    Some(Compiled { code: read("code")?, program, warnings, ..Compiled::default() })
}

fn keep(folder: &Path, key: &str, compiled: &Compiled) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let write =
        |part: &str, bytes: &[u8]| recipe::write_atomically(&folder.join(format!("{key}.{part}")), bytes);
    write("code", &compiled.code)?;
    if let Some(program) = &compiled.program {
        write("program", program)?;
    }
    // Written last: an entry with this file is complete.
    write("json", &serde_json::to_vec(&Kept { warnings: compiled.warnings.clone() }).unwrap_or_default())?;
    prune(folder)
}

/// Removes the oldest results until the cache is below its size limit.
fn prune(folder: &Path) -> std::io::Result<()> {
    let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        if let Ok(data) = entry.metadata()
            && let Ok(modified) = data.modified()
        {
            files.push((modified, data.len(), entry.path()));
        }
    }
    let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
    files.sort();
    for (_, length, path) in files {
        if total <= MOST_KEPT {
            break;
        }
        // Other processes may prune at the same time.
        let _ = fs::remove_file(path);
        total -= length;
    }
    Ok(())
}

/// Builds the offload bundle that a host program embeds: one entry with the device code and an empty one for the host.
fn bundle(target: &str, code: &[u8]) -> Vec<u8> {
    const ALIGNMENT: usize = 4096;
    let entries = [
        ("host-x86_64-unknown-linux-gnu-".to_owned(), 0),
        (format!("hipv4-amdgcn-amd-amdhsa--{target}"), code.len()),
    ];
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((entries.len() as u64).to_le_bytes());
    for (name, size) in &entries {
        for number in [ALIGNMENT as u64, *size as u64, name.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(name.as_bytes());
    }
    bytes.resize(ALIGNMENT, 0);
    bytes.extend(code);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_holds_the_code_where_it_says() {
        let bytes = bundle("gfx942", b"code");
        let entries = code_object::parse_bundle(&bytes).unwrap();
        let device = entries.iter().find(|entry| format!("{entry:?}").contains("gfx942")).unwrap();
        assert!(format!("{device:?}").contains('4'));
        assert_eq!(&bytes[4096..], b"code");
    }

    #[test]
    fn what_differs_in_anything_is_kept_apart() {
        let keys = [
            key("r", "a", "b", None),
            key("r", "a", "b", Some(None)),
            key("r", "a", "b", Some(Some(Harness { text: "c", devices: 1 }))),
            key("r", "a", "b", Some(Some(Harness { text: "c", devices: 2 }))),
            key("r", "ab", "", None),
            key("r", "a", "c", None),
            key("other rules", "a", "b", None),
        ];
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }
}
