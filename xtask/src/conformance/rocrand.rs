//! Debian's librocrand and every test program of its `-tests` package, unmodified, on an emulated MI210.

use super::library::{Framework, LeftOut, Library};
use super::tally::Tally;
use super::userland::Package;
use super::{Selection, TIME_LIMITS};
use crate::build::Built;
use crate::repo::Repo;
use anyhow::Result;

pub static LIBRARY: Library = Library {
    name: "rocrand",
    packages: &[Package::whole("librocrand1"), Package::whole("librocrand1-tests")],
    folder: "usr/libexec/rocm/librocrand1-tests",
    programs: &["test_"],
    data: None,
    framework: Framework::GoogleTest,
    quick: QUICK,
    // To initialise this engine, a kernel separates thousands of generators by polynomials of 19937 bits: a test that does so
    // twice had not finished after eight minutes on one core.
    left_out: &[LeftOut::Suites("mt19937")],
    known: &[],
};

/// Every kind of generator, kernel and distribution once.
const QUICK: &[(&str, &str)] = &[
    ("test_cpp_utils", "*"),
    ("test_log_normal_distribution", "*"),
    ("test_normal_distribution", "*"),
    ("test_rocrand_basic", "*"),
    ("test_rocrand_generate", "*"),
    ("test_rocrand_generate_poisson", "*"),
    ("test_rocrand_generate_uniform", "*"),
    ("test_rocrand_generator_type", "*"),
    ("test_rocrand_kernel_philox4x32_10", "*"),
    ("test_rocrand_kernel_sobol64", "*"),
    ("test_rocrand_linkage", "*"),
    ("test_uniform_distribution", "*"),
];

pub fn run(repo: &Repo, built: &Built, selection: &Selection) -> Result<()> {
    let mut tally = Tally::default();
    LIBRARY.run(repo, built, selection, TIME_LIMITS, &mut tally)?;
    tally.finish(LIBRARY.known)
}
