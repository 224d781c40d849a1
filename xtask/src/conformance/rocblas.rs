//! Debian's librocblas, unmodified, on an emulated MI210: `rocblas-bench` with its own verification over a set of sizes, and
//! `rocblas-test` for the same functions.

use super::gtest::{self, Tests};
use super::tally::{Known, Row, Tally};
use super::userland::{Package, Userland};
use super::verdict::Problem;
use super::{MODEL, Selection, TIME_LIMITS};
use crate::build::Built;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const PACKAGES: &[Package] = &[
    Package::whole("libc6"),
    Package::whole("libgcc-s1"),
    Package::whole("libstdc++6"),
    Package::whole("libgfortran5"),
    Package::whole("libquadmath0"),
    Package::whole("libopenblas0-pthread"),
    Package::whole("libroctx64-4"),
    // Four gigabytes of kernels, of which only one architecture is needed.
    Package {
        name: "librocblas4",
        leave_out: &[
            "*gfx8*", "*gfx900*", "*gfx906*", "*gfx908*", "*gfx94*", "*gfx95*", "*gfx1*", "*xnack+*",
        ],
    },
    Package::whole("librocblas4-bench"),
    Package::whole("librocblas4-tests"),
    Package::whole("librocblas4-tests-data"),
];

const BENCH: &str = "usr/libexec/rocm/librocblas4-bench/rocblas-bench";
const TEST: &str = "usr/libexec/rocm/librocblas4-tests/rocblas-test";
const TEST_DATA: &str = "usr/share/librocblas4-tests/data/rocblas_gtest.data";
/// The reference BLAS of the programs.
const REFERENCE: &str = "usr/lib/x86_64-linux-gnu/openblas-pthread";

/// A function and type for the bench program, and the largest relative error that rounding explains.
struct Function {
    name: &'static str,
    arguments: &'static [&'static str],
    sizes: &'static [&'static str],
    error: f64,
}

/// Square and not, of one tile and of several, with every transposition. Leading dimensions are above 600 for small sizes,
/// because below that rocblas-bench compares with its own single-precision reference.
const GEMM_SIZES: &[&str] = &[
    "-m 64 -n 64 -k 64 --lda 640 --ldb 640 --ldc 640 --ldd 640",
    "-m 33 -n 65 -k 127 --transposeA T --lda 640 --ldb 640 --ldc 640 --ldd 640 --alpha 2 --beta 3",
    "-m 256 -n 192 -k 320 --transposeB T --lda 640 --ldb 640 --ldc 640 --ldd 640",
    "-m 640 -n 640 -k 64 --transposeA T --transposeB T --beta 1",
];
const GEMV_SIZES: &[&str] =
    &["-m 128 -n 128", "-m 1000 -n 333 --transposeA T --lda 1000", "-m 77 -n 2049 --incx 2 --beta 2"];
const VECTOR_SIZES: &[&str] = &["-n 1", "-n 1000 --incx 2 --incy 3", "-n 100000"];
const TRSM_SIZES: &[&str] = &[
    "-m 64 -n 64 --side L --uplo L --lda 64 --ldb 64",
    "-m 200 -n 130 --side R --uplo U --transposeA T --lda 130 --ldb 200",
    "-m 512 -n 64 --side L --uplo U --diag U --lda 512 --ldb 512",
];

const FUNCTIONS: &[Function] = &[
    Function { name: "sgemm", arguments: &["-f", "gemm", "-r", "s"], sizes: GEMM_SIZES, error: 1e-5 },
    Function { name: "dgemm", arguments: &["-f", "gemm", "-r", "d"], sizes: GEMM_SIZES, error: 1e-13 },
    Function { name: "hgemm", arguments: &["-f", "gemm", "-r", "h"], sizes: GEMM_SIZES, error: 2e-2 },
    Function { name: "bf16 gemm", arguments: &BF16, sizes: GEMM_SIZES, error: 1e-2 },
    Function { name: "i8 gemm", arguments: &I8, sizes: GEMM_SIZES, error: 0.0 },
    Function { name: "sgemv", arguments: &["-f", "gemv", "-r", "s"], sizes: GEMV_SIZES, error: 1e-5 },
    Function { name: "dgemv", arguments: &["-f", "gemv", "-r", "d"], sizes: GEMV_SIZES, error: 1e-13 },
    Function { name: "sdot", arguments: &["-f", "dot", "-r", "s"], sizes: VECTOR_SIZES, error: 1e-4 },
    Function { name: "ddot", arguments: &["-f", "dot", "-r", "d"], sizes: VECTOR_SIZES, error: 1e-12 },
    Function { name: "saxpy", arguments: &["-f", "axpy", "-r", "s"], sizes: VECTOR_SIZES, error: 1e-6 },
    Function { name: "daxpy", arguments: &["-f", "axpy", "-r", "d"], sizes: VECTOR_SIZES, error: 1e-14 },
    Function { name: "strsm", arguments: &["-f", "trsm", "-r", "s"], sizes: TRSM_SIZES, error: 1e-4 },
    Function { name: "dtrsm", arguments: &["-f", "trsm", "-r", "d"], sizes: TRSM_SIZES, error: 1e-12 },
];

const BF16: [&str; 12] = [
    "-f",
    "gemm_ex",
    "--a_type",
    "bf16_r",
    "--b_type",
    "bf16_r",
    "--c_type",
    "bf16_r",
    "--d_type",
    "bf16_r",
    "--compute_type",
    "f32_r",
];
const I8: [&str; 12] = [
    "-f",
    "gemm_ex",
    "--a_type",
    "i8_r",
    "--b_type",
    "i8_r",
    "--c_type",
    "i32_r",
    "--d_type",
    "i32_r",
    "--compute_type",
    "i32_r",
];

/// The tests of rocblas-test, by its own names: results compared exactly or within the bound of the type.
const TESTS: &str = "_/gemm.*quick_gemm_small_*:_/gemm_ex.*quick_gemm_small_bf16*:_/gemm_ex.*quick_gemm_small_int8*:\
                     _/gemv.*quick*:_/dot.*quick*:_/axpy.*quick*:_/trsm.*quick*";
const QUICK_TESTS: &str = "_/gemm.*quick_gemm_small_f*_NT_*:_/dot.*quick*_f32*:_/axpy.*quick*_f64*";

/// Downloads and unpacks all packages, unless already done.
pub fn unpack(repo: &Repo) -> Result<Userland> {
    Userland::unpack(repo, "rocblas", PACKAGES)
}

pub fn run(repo: &Repo, built: &Built, selection: &Selection) -> Result<()> {
    let mut userland = unpack(repo)?;
    userland.prefer(management_library(repo)?);
    userland.prefer(REFERENCE);
    let mut tally = Tally::default();
    step::heading("rocBLAS: rocblas-bench, verified");
    for function in FUNCTIONS {
        let name = format!("rocblas-bench {}", function.name);
        if selection.takes(&name) {
            tally.add(bench(repo, built, &userland, function, &name, selection.quick)?);
        }
    }
    step::heading("rocBLAS: rocblas-test (it reads its data for minutes before the first test)");
    if selection.takes("rocblas-test") {
        let command = || {
            let mut command = userland.command(built, MODEL, TEST);
            command.arg("--data").arg(userland.path(TEST_DATA));
            command.env("GTEST_LISTENER", "PASS_LINE_IN_LOG");
            command
        };
        let filter = if selection.quick { QUICK_TESTS } else { TESTS };
        let log = repo.logs().join("rocblas/rocblas-test.log");
        let started = Instant::now();
        let verdict = gtest::run("rocblas-test", command, Tests::Filter(filter), &log, TIME_LIMITS)?;
        tally.add(Row::of("rocblas-test".to_owned(), verdict, started.elapsed()));
    }
    tally.finish(KNOWN)
}

/// Runs all sizes of one function.
fn bench(
    repo: &Repo,
    built: &Built,
    userland: &Userland,
    function: &Function,
    program: &str,
    quick: bool,
) -> Result<Row> {
    let started = Instant::now();
    let mut row = Row { program: program.to_owned(), ..Row::default() };
    let count = if quick { 1 } else { function.sizes.len() };
    for (index, size) in function.sizes[..count].iter().enumerate() {
        let mut command = userland.command(built, MODEL, BENCH);
        command.args(["--verify", "1", "--iters", "1", "--cold_iters", "0"]).args(function.arguments);
        command.args(size.split(' '));
        let log = repo.logs().join(format!("rocblas/{}-{index}.log", function.name.replace(' ', "-")));
        match verified(&mut command, &log, function.error)? {
            None => row.passed += 1,
            Some(reason) => row.failed.push(Problem { test: format!("{} {size}", function.name), reason }),
        }
    }
    row.time = started.elapsed();
    Ok(row)
}

/// Runs the bench program once; `Some` describes a failure.
fn verified(command: &mut Command, log: &Path, bound: f64) -> Result<Option<String>> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().with_context(|| format!("cannot start {}", step::command_line(command)))?;
    let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    if !status.success() {
        return Ok(Some(format!("{status}; log: {}", log.display())));
    }
    Ok(match errors_in(&text) {
        None => Some(format!("it printed no verification; log: {}", log.display())),
        // Written so that NaN counts as a failure.
        Some(errors) if errors.iter().all(|error| *error <= bound) => None,
        Some(errors) => Some(format!("relative errors {errors:?}, above {bound:e}; log: {}", log.display())),
    })
}

/// The columns of the result that contain the error relative to the reference.
fn errors_in(text: &str) -> Option<Vec<f64>> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.contains(",norm_error_"))?;
    let values: Vec<&str> = lines.get(head + 1)?.split(',').collect();
    let names = lines[head].split(',').enumerate().filter(|(_, name)| name.starts_with("norm_error_"));
    names.map(|(column, _)| values.get(column)?.trim().parse().ok()).collect()
}

/// Builds the stand-in for AMD's system management library, which needs the kernel driver of a real GPU.
fn management_library(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("conformance/rocblas");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,librocm_smi64.so.1", "-o"]);
    cc.arg(folder.join("librocm_smi64.so.1")).arg(repo.root.join("conformance/rocblas/rocm_smi.c"));
    let output = cc.output().context("cannot start the C compiler `cc`")?;
    if !output.status.success() {
        bail!("{} failed\n{}", step::command_line(&cc), String::from_utf8_lossy(&output.stderr));
    }
    Ok(folder)
}

const KNOWN: &[Known] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_a_result_are_found_by_the_names_of_their_columns() {
        let text = "info\ntransA,us,CPU-us,norm_error_1,norm_error_2\nN,5,9,2.5e-07,nan\n";
        let errors = errors_in(text).unwrap();
        assert_eq!(errors[0], 2.5e-7);
        assert!(errors[1].is_nan());
        assert_eq!(errors_in("transA,us\nN,5\n"), None);
    }
}
