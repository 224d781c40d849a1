//! Hostile sources, headers and options for the run-time compiler: they cannot read files of the machine or exceed limits, and
//! nothing is left when the client disconnects.
//!
//! The secret is a file that every user can read, so only the sandbox protects it. As a control, the same attacks succeed without
//! the sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Program, Running, Worker, WorkerOptions, eventually, toolchain_folder};
use sandbox::{IsolationRange, Level, Limits};
use worker::{CompileRequest, CompileResponse, Compiler, CompilerConfig};

/// Compiles small sources without HIP's headers, which take ten times as long to parse.
const NO_HEADERS: &str = "-D__REMORA_NO_HEADERS__";
/// Printed by sources that detect whether a file exists.
const FOUND: &str = "the_oracle_found_it";
const SMALL: &str = "extern \"C\" __attribute__((global)) void k(int* p) { *p = 1; }";

fn toolchain() -> PathBuf {
    std::env::var_os("ATTACKED_TOOLCHAIN").map_or_else(toolchain_folder, PathBuf::from)
}

fn compiler(level: Level) -> Compiler {
    let config = CompilerConfig { toolchain: Some(toolchain()), cache: None, unconfined: false };
    Compiler::new(&config).with_isolation(IsolationRange { least: level, most: level })
}

fn request(source: &str) -> CompileRequest {
    CompileRequest {
        isa: "gfx942".to_owned(),
        name: "attack.hip".to_owned(),
        source: source.to_owned(),
        options: vec![NO_HEADERS.to_owned()],
        ..CompileRequest::default()
    }
}

/// A world-readable file with random text.
struct Secret {
    _folder: tempfile::TempDir,
    path: String,
    text: String,
}

impl Secret {
    fn new() -> Secret {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("token.h");
        let mut random = [0; 8];
        fs::File::open("/dev/urandom")
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random))
            .unwrap();
        let text = format!("marker_{}", random.map(|byte| format!("{byte:02x}")).concat());
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        Secret { path: path.display().to_string(), _folder: folder, text }
    }

    /// Whether a response reveals the content or the existence of the file.
    fn is_in(&self, response: &CompileResponse) -> bool {
        let holds = |bytes: &[u8]| {
            let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
            has(&self.text) || has(FOUND)
        };
        holds(response.log.as_bytes()) || holds(&response.code) || holds(&response.bitcode)
    }
}

/// Sources that try to read a file, and whether they succeed in a compiler without a sandbox.
fn sources(path: &str) -> Vec<(&'static str, String, bool)> {
    let up = format!("{}{path}", "../".repeat(20).trim_end_matches('/'));
    let kernel = |assembler: &str| {
        format!(
            "extern \"C\" __attribute__((global)) void k() {{ asm volatile(\".pushsection .rodata\\n{assembler}\\n.popsection\"); }}"
        )
    };
    let oracle = |condition: &str| format!("#if {condition}\n#error {FOUND}\n#endif\n{SMALL}");
    let embed = |name: &str| {
        format!("__attribute__((device, used)) const unsigned char data[] = {{\n#embed {name}\n}};\n{SMALL}")
    };
    vec![
        ("absolute include", format!("#include \"{path}\"\n"), true),
        ("angled include", format!("#include <{path}>\n"), true),
        ("relative include", format!("#include \"{up}\"\n"), true),
        ("include through a macro", format!("#define FILE \"{path}\"\n#include FILE\n"), true),
        ("include_next", format!("#include_next \"{path}\"\n"), true),
        ("import", format!("#import \"{path}\"\n"), true),
        ("include through /proc", format!("#include \"/proc/self/root{path}\"\n"), true),
        (
            "include of a descriptor",
            "#include \"/proc/self/fd/3\"\n#include \"/dev/fd/3\"\n".to_owned(),
            false,
        ),
        ("has_include", oracle(&format!("__has_include(\"{path}\")")), true),
        ("relative has_include", oracle(&format!("__has_include(\"{up}\")")), true),
        ("has_embed", oracle(&format!("__has_embed(\"{path}\")")), true),
        ("embed", embed(&format!("\"{path}\"")), true),
        ("relative embed", embed(&format!("\"{up}\"")), true),
        ("incbin", kernel(&format!(".incbin \\\"{path}\\\"")), true),
        ("relative incbin", kernel(&format!(".incbin \\\"{up}\\\"")), true),
        ("assembler include", kernel(&format!(".include \\\"{path}\\\"")), true),
        ("line", format!("#line 1 \"{path}\"\n#error here\n"), false),
        ("dependency", format!("#pragma GCC dependency \"{path}\"\n{SMALL}"), false),
        ("system header", format!("#pragma GCC system_header\n#include \"{path}\"\nerror here;\n"), true),
    ]
}

/// Clang options that take a file: directly attached, after `=`, or as the next argument.
const OPTIONS: &[&str] = &[
    "-include",
    "-imacros",
    "-include-pch",
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-cxx-isystem",
    "-F",
    "-isysroot",
    "--sysroot",
    "-B",
    "-ivfsoverlay",
    "-fmodule-map-file",
    "-fmodule-file",
    "-fmodules-cache-path",
    "-fprebuilt-module-path",
    "-fplugin",
    "-fpass-plugin",
    "-load",
    "-fprofile-use",
    "-fprofile-instr-use",
    "-fprofile-sample-use",
    "-fprofile-list",
    "-fprofile-remapping-file",
    "-fauto-profile",
    "-fsanitize-ignorelist",
    "-fsanitize-system-ignorelist",
    "-fxray-attr-list",
    "-fxray-always-instrument",
    "-fthinlto-index",
    "-fbasic-block-sections",
    "-frandomize-layout-seed-file",
    "-fapinotes-modules",
    "-fembed-bitcode",
    "--embed-dir",
    "-ftime-trace",
    "-fproc-stat-report",
    "-foptimization-record-file",
    "-fcrash-diagnostics-dir",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
    "-fdiagnostics-show-category",
    "-MF",
    "-MJ",
    "-MD",
    "-MT",
    "-o",
    "-save-temps",
    "-dumpdir",
    "--config",
    "--config-user-dir",
    "-Xclang",
    "-Xassembler",
    "-Xlinker",
    "-Xpreprocessor",
    "-Wa,-I",
    "-Wp,-include",
    "-Wl,-T",
    "-mllvm",
    "-mlink-builtin-bitcode",
    "--hip-device-lib",
    "--hip-path",
    "--rocm-path",
    "--rocm-device-lib-path",
    "--gcc-toolchain",
    "--gcc-install-dir",
    "-resource-dir",
    "-working-directory",
    "-specs",
    "-T",
    "-L",
    "-l",
    "-x",
    "-fopenmp-host-ir-file-path",
    "--pre-include",
    "--include-path",
    "@",
    "",
];

/// Runs every attack at one sandbox level. Returns the names of those that succeeded.
fn attack(level: Level, secret: &Secret) -> Vec<String> {
    let compiler = compiler(level);
    let attempt = |name: String, request: &CompileRequest| {
        let response = compiler.compile(request);
        secret.is_in(&response).then_some(name)
    };
    let mut got = Vec::new();
    // Two at a time, because most of the time is spent in the compiler.
    std::thread::scope(|scope| {
        let sources = sources(&secret.path);
        let halves = sources.chunks(sources.len().div_ceil(2)).map(|half| {
            let half = half.to_vec();
            scope.spawn(move || {
                half.iter()
                    .filter_map(|(name, source, _)| attempt((*name).to_owned(), &request(source)))
                    .collect::<Vec<_>>()
            })
        });
        for half in halves.collect::<Vec<_>>() {
            got.extend(half.join().unwrap());
        }
    });
    // Most options are rejected before a compiler starts; each of the others needs one compiler run.
    for option in OPTIONS {
        for options in [
            vec![format!("{option}{}", secret.path)],
            vec![format!("{option}={}", secret.path)],
            vec![(*option).to_owned(), secret.path.clone()],
        ] {
            let mut request = request("error here;");
            request.options.extend(options);
            got.extend(attempt(format!("option {option}"), &request));
        }
    }
    for name in ["../token.h", "/tmp/token.h", "a/../../token.h", "..", "a/.."] {
        let mut request = request("#include \"token.h\"\n");
        request.headers = vec![(name.to_owned(), format!("#error {FOUND}"))];
        got.extend(attempt(format!("header {name}"), &request));
    }
    got
}

/// A toolchain whose HIP headers contain a symbolic link to a file outside.
fn toolchain_with_a_link(secret: &Secret) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let headers = root.path().join("hip/usr/include/hip");
    fs::create_dir_all(&headers).unwrap();
    fs::write(headers.join("hip_runtime.h"), "").unwrap();
    std::os::unix::fs::symlink(&secret.path, headers.join("link.h")).unwrap();
    std::os::unix::fs::symlink(toolchain().join("device-libs"), root.path().join("device-libs")).unwrap();
    root
}

#[test]
fn no_source_header_or_option_gets_a_file_of_the_machine() {
    let secret = Secret::new();
    for level in [Level::Namespaces, Level::Restricted] {
        let plain = compiler(level).compile(&request(SMALL));
        assert!(!plain.code.is_empty(), "{level:?}: {}", plain.log);
        let mut got = attack(level, &secret);
        if level == Level::Restricted {
            // Here clang reads only the file's metadata, which Landlock does not hide (docs/run-time-compilation.md).
            got.retain(|name| name != "has_embed");
        }
        assert_eq!(got, Vec::<String>::new(), "{level:?}");
        // If the file were visible, there would be no error.
        let dependency = format!("#pragma GCC dependency \"{}\"\n{SMALL}", secret.path);
        let response = compiler(level).compile(&request(&dependency));
        let denied = level == Level::Restricted && response.log.contains("Permission denied");
        assert!(denied || response.log.contains("not found"), "{level:?}: {}", response.log);
    }
}

#[test]
fn the_same_attacks_work_on_a_compiler_that_is_not_confined() {
    let secret = Secret::new();
    let got = attack(Level::Limited, &secret);
    for (name, _, works) in sources(&secret.path) {
        assert_eq!(got.iter().any(|got| got == name), works, "{name}");
    }
}

#[test]
fn sources_compiled_apart_are_linked_in_the_sandbox() {
    for level in [Level::Namespaces, Level::Restricted] {
        let compiler = compiler(level);
        let inputs = ["extern \"C\" __attribute__((device)) int f() { return 1; }", SMALL].map(|source| {
            let mut request = request(source);
            request.options.push("-fgpu-rdc".to_owned());
            let response = compiler.compile(&request);
            assert!(!response.bitcode.is_empty(), "{level:?}: {}", response.log);
            ("input".to_owned(), wire::Bytes(response.bitcode))
        });
        let linked = compiler.link("gfx942", &inputs);
        assert!(!linked.code.is_empty(), "{level:?}: {}", linked.log);
    }
}

/// A toolchain in a folder of its own, as ROCm's is. Its compiler needs a shared library that only its `RUNPATH` leads to, and writes
/// that library's text as the result.
fn toolchain_with_a_library() -> tempfile::TempDir {
    let root = toolchain_with_a_link(&Secret::new());
    let folder = |name: &str| {
        let folder = root.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    let (bin, lib) = (folder("llvm/bin"), folder("llvm/lib"));
    let build = |source: &str, name: &Path, arguments: &[&str]| {
        let input = root.path().join("input.c");
        fs::write(&input, source).unwrap();
        let done = Command::new("cc").args(["-o".as_ref(), name, &input]).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let text = "const char* text(void) { return \"of the library\"; }";
    build(text, &lib.join("libtext.so"), &["-shared", "-fPIC"]);
    let program = "#include <stdio.h>
        const char* text(void);
        int main(void) { FILE* file = fopen(\"../program.out\", \"w\"); return fputs(text(), file) < 0; }";
    let search = format!("-L{}", lib.display());
    build(
        program,
        &bin.join("clang++"),
        &[&search, "-ltext", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib"],
    );
    root
}

#[test]
fn a_compiler_with_libraries_of_its_own_finds_them_in_the_sandbox() {
    let root = toolchain_with_a_library();
    let config = CompilerConfig { toolchain: Some(root.path().to_owned()), cache: None, unconfined: false };
    for level in [Level::Limited, Level::Restricted, Level::Namespaces] {
        let compiler = Compiler::new(&config).with_isolation(IsolationRange { least: level, most: level });
        let mut request = request(SMALL);
        request.options.push("-fgpu-rdc".to_owned());
        let response = compiler.compile(&request);
        assert_eq!(response.bitcode, b"of the library", "{level:?}: {}", response.log);
    }
}

#[test]
fn a_link_in_a_visible_folder_leads_nowhere() {
    let secret = Secret::new();
    let root = toolchain_with_a_link(&secret);
    let config = CompilerConfig { toolchain: Some(root.path().to_owned()), cache: None, unconfined: false };
    for level in [Level::Limited, Level::Restricted, Level::Namespaces] {
        let compiler = Compiler::new(&config).with_isolation(IsolationRange { least: level, most: level });
        let response = compiler.compile(&request("#include <hip/link.h>\n"));
        assert_eq!(secret.is_in(&response), level == Level::Limited, "{level:?}: {}", response.log);
    }
}

#[test]
fn the_same_holds_where_the_worker_is_an_ordinary_user() {
    const USER: u32 = 54_321;
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return e2e::skip("the tests already run as an ordinary user");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = folder.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let as_user = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).uid(USER).gid(USER).env_remove("TMPDIR").current_dir("/");
        command.env("ATTACKED_TOOLCHAIN", toolchain()).output().unwrap()
    };
    if !as_user(Path::new("/usr/bin/unshare"), &["--user", "true"]).status.success() {
        return e2e::skip("this machine denies namespaces to ordinary users");
    }
    let readable = toolchain().join("hip/usr/include/hip/hip_runtime.h");
    if !as_user(Path::new("/usr/bin/head"), &["-c1", &readable.display().to_string()]).status.success() {
        return e2e::skip(&format!("an ordinary user cannot read {}", readable.display()));
    }
    let output = as_user(&own, &["--exact", "no_source_header_or_option_gets_a_file_of_the_machine"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn bombs_end_at_their_limits_and_others_compile_meanwhile() {
    let templates =
        "template<int A, int B> struct S { static constexpr unsigned v = S<A - 1, B>::v + S<A, B - 1>::v; };
        template<int A> struct S<A, 0> { static constexpr unsigned v = 1; };
        template<int B> struct S<0, B> { static constexpr unsigned v = 1; };
        template<> struct S<0, 0> { static constexpr unsigned v = 1; };
        __attribute__((device)) unsigned v = S<500, 500>::v;";
    let mut macros = "#define M0 x x x x x x x x x x\n".to_owned();
    for depth in 1..12 {
        let before = format!(" M{}", depth - 1).repeat(10);
        macros += &format!("#define M{depth}{before}\n");
    }
    macros += "__attribute__((device)) int a[] = { M11 };\n";
    let array = "__attribute__((device, used)) char a[1ull << 31] = { 1 };";
    let itself = "#include __FILE__\n#include __FILE__\n";
    let limits = Limits {
        wall: Duration::from_secs(2),
        memory: 400 << 20,
        folder: 64 << 20,
        file: 32 << 20,
        ..Limits::default()
    };
    for level in [Level::Namespaces, Level::Restricted] {
        std::thread::scope(|scope| {
            let bombs = [templates, &macros, array, itself].map(|bomb| {
                let compiler = compiler(level).with_limits(limits.clone());
                let request = CompileRequest { name: "program.hip".to_owned(), ..request(bomb) };
                scope.spawn(move || {
                    let begun = Instant::now();
                    let response = compiler.compile(&request);
                    (response, begun.elapsed())
                })
            });
            let other = compiler(level).compile(&request(SMALL));
            assert!(!other.code.is_empty(), "{level:?}: {}", other.log);
            for bomb in bombs {
                let (response, took) = bomb.join().unwrap();
                assert!(response.code.is_empty() && !response.log.is_empty(), "{level:?}");
                // Far below the time without a limit, and above the overhead of a busy machine.
                assert!(took < Duration::from_secs(30), "{level:?}: {took:?} {}", response.log);
            }
        });
    }
}

/// Runs a test of this file again in a process in which some system calls are denied, as in containers.
fn again_without(test: &str, calls: &[libc::c_long]) {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env("DENIED", "1");
    // SAFETY: between fork and exec only the filter is applied, which was built before.
    unsafe { again.pre_exec(move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other)) };
    let output = again.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn without_namespaces_the_compiler_is_confined_and_without_confinement_refused() {
    let name = "without_namespaces_the_compiler_is_confined_and_without_confinement_refused";
    if std::env::var_os("DENIED").is_none() {
        return again_without(name, &[libc::SYS_unshare, libc::SYS_landlock_create_ruleset]);
    }
    let config = CompilerConfig { toolchain: Some(toolchain()), cache: None, unconfined: false };
    let refused = Compiler::new(&config).compile(&request(SMALL));
    assert!(refused.code.is_empty(), "{}", refused.log);
    for word in ["cannot confine", "Landlock", "--unconfined-compiler"] {
        assert!(refused.log.contains(word), "{word} is not in: {}", refused.log);
    }
    let allowed = Compiler::new(&CompilerConfig { unconfined: true, ..config }).compile(&request(SMALL));
    assert!(!allowed.code.is_empty(), "{}", allowed.log);
}

/// A source that takes minutes to compile.
fn endless() -> tempfile::NamedTempFile {
    let mut source = "#define M0 x x x x x x x x x x\n".to_owned();
    for depth in 1..14 {
        source += &format!("#define M{depth}{}\n", format!(" M{}", depth - 1).repeat(10));
    }
    source += "#if M13\n#endif\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), source).unwrap();
    file
}

/// Number of processes on the machine with this argument.
fn processes_with(argument: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(argument.len()).any(|part| part == argument.as_bytes())).count()
}

#[test]
fn a_client_that_goes_away_takes_its_compiler_its_files_and_its_session_with_it() {
    let temporary = tempfile::tempdir().unwrap();
    let mut options = WorkerOptions::with(&["--grace-closed", "0", "--toolchain"]);
    options.arguments.push(toolchain().display().to_string());
    let worker = Worker::start_in(&options, &[("TMPDIR", temporary.path().as_os_str())]);
    let source = endless();
    let mark = format!("-DMARK_{}", std::process::id());
    let mut command = Program::test("rtc_source").on(&worker);
    let client = Running::start(command.arg(source.path()).args([&mark, NO_HEADERS]));
    client.wait_for_line("compiling");
    // The client process has the mark among its arguments too.
    eventually("the compiler runs", || processes_with(&mark) > 1);
    client.signal(libc::SIGKILL);
    client.finish();
    eventually("the compiler has ended", || processes_with(&mark) == 0);
    eventually("the session has ended", || worker.status().sessions().is_empty());
    eventually("nothing is left in the folder for temporary files", || {
        fs::read_dir(temporary.path()).unwrap().next().is_none()
    });
    eventually("only the supervisor is left", || worker.processes().len() == 1);
}

#[test]
fn compilers_are_charged_to_the_compute_limit() {
    let toolchain = toolchain().display().to_string();
    let worker =
        Worker::start_with(&WorkerOptions::with(&["--compute-limit", "90", "--toolchain", &toolchain]));
    let source = tempfile::NamedTempFile::new().unwrap();
    fs::write(source.path(), format!("{SMALL}\n// {}\n", std::process::id())).unwrap();
    let ended = Program::test("rtc_source").run(&worker, &[&source.path().display().to_string(), NO_HEADERS]);
    ended.expect_success();
    let spent = worker.status().devices()[0]["limits"]["spent_ns"].as_u64().unwrap();
    assert!(spent > 1_000_000, "{spent} ns; no kernel ran, so all of it is the compiler's");
}

#[test]
fn a_program_that_compiles_nothing_starts_no_compiler_service() {
    let worker = Worker::start();
    let holder = Running::start(Program::test("hold_memory").on(&worker).arg("1"));
    holder.wait_for_line("holding");
    let processes = worker.processes();
    assert!(
        processes.len() == 2 && !processes.iter().any(|(_, name)| name.ends_with("compiler")),
        "{processes:?}"
    );
    holder.finish();
}
