//! Options of run-time compilation: an allowlist, because hiprtc's options are those of several compilers.
//!
//! The list does not protect this machine's files; the sandbox does. It keeps programs from relying on options that have no
//! effect here, and lets a bad option be reported as such.

use std::path::{Component, Path};

use crate::compile::task::CompileError;

/// A program compiled with this macro defined gets none of HIP's headers, which take ten times as long to parse as a small
/// kernel. Other hiprtc implementations ignore the macro.
const NO_HEADERS: &str = "__REMORA_NO_HEADERS__";

/// The options of a request, sorted by what the compiler does with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub target: String,
    pub standard: Option<String>,
    pub passed: Vec<String>,
    /// `-fgpu-rdc`: the result is bitcode for a linker, not a code object.
    pub relocatable: bool,
    /// The program includes everything it uses itself, so HIP's headers are not included.
    pub alone: bool,
}

impl Options {
    pub fn parse(options: &[String], isa: &str) -> Result<Options, CompileError> {
        let mut it = Options { target: isa.to_owned(), ..Options::default() };
        let mut rest = options.iter().map(|option| option.trim()).filter(|option| !option.is_empty());
        while let Some(option) = rest.next() {
            let refused = || CompileError::Option(option.to_owned());
            let mut value_of = |names: &[&str]| -> Option<Result<String, CompileError>> {
                names.iter().find_map(|name| {
                    let after = option.strip_prefix(name)?;
                    if let Some(value) = after.strip_prefix('=') {
                        return Some(Ok(value.to_owned()));
                    }
                    if !after.is_empty() {
                        return None;
                    }
                    Some(rest.next().map(str::to_owned).ok_or_else(refused))
                })
            };
            if let Some(value) = value_of(&["--offload-arch", "--gpu-architecture", "-arch", "--gpu-arch"]) {
                it.target = value?;
            } else if let Some(value) = value_of(&["--std", "-std"]) {
                it.standard = Some(value?);
            } else if let Some(value) = value_of(&["-D", "--define-macro"]) {
                it.passed.push(format!("-D{}", value?));
            } else if let Some(value) = value_of(&["-U", "--undefine-macro"]) {
                it.passed.push(format!("-U{}", value?));
            } else if let Some(value) = value_of(&["-I", "--include-path"]) {
                it.include(&value?);
            } else if let Some(path) = option.strip_prefix("-I") {
                it.include(path);
            } else if let Some(value) = value_of(&["-include", "--pre-include"]) {
                let value = value?;
                if relative(&value).is_none() {
                    return Err(refused());
                }
                it.passed.extend(["-include".to_owned(), value]);
            } else if let Some(value) = value_of(&["-mllvm"]) {
                let value = value?;
                if !value.starts_with("-amdgpu") || value.contains("file") {
                    return Err(refused());
                }
                it.passed.extend(["-mllvm".to_owned(), value]);
            } else {
                match option {
                    "-fgpu-rdc" => it.relocatable = true,
                    "--use_fast_math" | "-use_fast_math" => it.passed.push("-ffast-math".to_owned()),
                    // The name before clang 11, still in use.
                    "-fcuda-flush-denormals-to-zero" => {
                        it.passed.push("-fgpu-flush-denormals-to-zero".to_owned());
                    }
                    "-fno-cuda-flush-denormals-to-zero" => {
                        it.passed.push("-fno-gpu-flush-denormals-to-zero".to_owned());
                    }
                    "--fmad=true" => it.passed.push("-ffp-contract=fast".to_owned()),
                    "--fmad=false" => it.passed.push("-ffp-contract=off".to_owned()),
                    // Meant for other compilers, or the default here.
                    "-default-device"
                    | "--device-c"
                    | "-dc"
                    | "-w"
                    | "-x"
                    | "hip"
                    | "-nogpuinc"
                    | "-nogpulib"
                    | "-fno-gpu-rdc"
                    | "--cuda-device-only"
                    | "--offload-device-only"
                    | "-c" => {}
                    other if is_harmless(other) => it.passed.push(other.to_owned()),
                    _ => return Err(refused()),
                }
            }
        }
        it.alone = it.passed.iter().any(|option| option.strip_prefix("-D") == Some(NO_HEADERS));
        if it.target.is_empty() || !it.target.chars().all(|c| c.is_ascii_alphanumeric() || ":+-.".contains(c))
        {
            return Err(CompileError::Option(format!("--offload-arch={}", it.target)));
        }
        Ok(it)
    }

    /// Include paths name folders of the client's machine. Only relative ones are passed on: they can match headers of the
    /// request.
    fn include(&mut self, path: &str) {
        if let Some(path) = relative(path) {
            self.passed.push(format!("-I{}", path.display()));
        }
    }
}

/// Whether an option only changes code generation or diagnostics and names no file.
fn is_harmless(option: &str) -> bool {
    const PREFIXES: &[&str] = &["-D", "-U", "-O", "-W", "-f", "-m", "-g", "-pedantic", "-ansi", "-Rpass"];
    const REFUSED: &[&str] = &[
        "-Wl,",
        "-Wa,",
        "-Wp,",
        "-fplugin",
        "-fpass-plugin",
        "-fmodule",
        "-fprofile",
        "-ftime-trace",
        "-fsanitize",
        "-fuse-ld",
        "-fcrash",
        "-fdebug",
        "-ffile",
        "-fcoverage",
        "-fcs-profile",
        "-fthinlto",
        "-fembed",
        "-fproc",
        "-foptimization-record",
        "-fsave",
        "-fdiagnostics-log",
        "-fbasic-block",
        "-fxray",
        "-fcuda",
        "-fopenmp",
        "-fms-secure",
        "-fvtable",
        "-fbuild",
        "-mllvm",
        "-mlink",
        "-fintegrated",
        "-fno-integrated",
        "-gen-",
        "-fparse-all-comments=",
        "-fcomment",
        "-fauto-profile",
        "-frandomize",
        "-fdepfile",
        "-fapinotes",
    ];
    PREFIXES.iter().any(|prefix| option.starts_with(prefix))
        && !REFUSED.iter().any(|prefix| option.starts_with(prefix))
        && !option.contains('/')
        || option.starts_with("-D")
}

/// Returns a path that stays below its starting folder, or `None`.
pub(crate) fn relative(path: &str) -> Option<&Path> {
    let path = Path::new(path);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (inside && !path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<Options, CompileError> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Options::parse(&options, "gfx942")
    }

    #[test]
    fn options_of_both_vendors_are_understood() {
        let it = parse(&["--gpu-architecture=gfx90a", "-DN=4", "-D", "M", "--std=c++20", "-O1"]).unwrap();
        assert_eq!(it.target, "gfx90a");
        assert_eq!(it.standard.as_deref(), Some("c++20"));
        assert_eq!(it.passed, ["-DN=4", "-DM", "-O1"]);
        let it =
            parse(&["--offload-arch", "gfx942:xnack-", "--use_fast_math", "-I/opt/rocm/include"]).unwrap();
        assert_eq!(it.target, "gfx942:xnack-");
        assert_eq!(it.passed, ["-ffast-math"]);
        let it = parse(&["-fcuda-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero"]).unwrap();
        assert_eq!(it.passed, ["-fgpu-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero"]);
        assert!(!it.alone && parse(&["-D__REMORA_NO_HEADERS__"]).unwrap().alone);
    }

    #[test]
    fn options_that_reach_beyond_the_program_are_refused() {
        for option in [
            "-fplugin=evil.so",
            "@file",
            "-Xclang",
            "-o",
            "--config=x",
            "-Wl,-o,x",
            "-fprofile-generate=/tmp/x",
            "-mllvm",
            "-include",
            "--offload-arch=gfx942;rm",
            "-B/tmp",
        ] {
            assert!(parse(&[option]).is_err(), "{option}");
        }
        assert!(parse(&["-include", "../../etc/passwd"]).is_err());
        assert!(parse(&["-mllvm", "-stats-file=x"]).is_err());
    }

    #[test]
    fn header_names_stay_inside_the_folder() {
        for name in ["/etc/x", "../x", "a/../../x", ""] {
            assert!(relative(name).is_none(), "{name}");
        }
        assert!(relative("a/b.h").is_some());
    }
}
