//! Debian's libraries that are written in HIP alone, and the test programs of their `-tests` packages, unmodified, on an
//! emulated MI210.

use super::Selection;
use super::gtest::Limits;
use super::library::{LeftOut, Library};
use super::tally::{Known, Tally};
use super::userland::Package;
use crate::build::Built;
use crate::repo::Repo;
use anyhow::Result;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these
    #[arg(value_name = "LIBRARY", value_parser = NAMES)]
    libraries: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Seconds after which a test is ended and counts as not finished
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    test_limit: u64,
    /// Seconds after which a program is ended, and its other tests count as not run
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    program_limit: u64,
}

const NAMES: [&str; 5] = ["hiprand", "rocprim", "hipcub", "rocthrust", "rocsparse"];

const LIBRARIES: &[Library] = &[
    Library {
        name: "hiprand",
        packages: &[
            Package::whole("librocrand1"),
            Package::whole("libhiprand1"),
            Package::whole("libhiprand1-tests"),
        ],
        folder: "usr/libexec/rocm/libhiprand1-tests",
        programs: &["test_"],
        data: None,
        quick: &[
            ("test_hiprand_api", "*-*/3:*host*"),
            ("test_hiprand_kernel", "sobol_tests*:*xorwow*"),
            ("test_hiprand_linkage", "*"),
        ],
        left_out: &[
            LeftOut::Suites("mt19937"),
            // The same engine, as a parameter.
            LeftOut::Tests("test_hiprand_api", &["hiprand_32/hiprand_api_32.*/3", "hiprand/hiprand_api.*/3"]),
        ],
        known: &[],
    },
    Library {
        name: "rocprim",
        packages: &[Package::whole("librocprim-tests")],
        folder: "usr/libexec/rocm/librocprim-tests",
        programs: &["test_"],
        data: None,
        quick: &[],
        left_out: &[],
        known: &[],
    },
    Library {
        name: "hipcub",
        packages: &[Package::whole("libhipcub-tests")],
        folder: "usr/libexec/rocm/libhipcub-tests",
        programs: &["test_"],
        data: None,
        quick: &[],
        left_out: &[],
        known: &[],
    },
    Library {
        name: "rocthrust",
        packages: &[Package::whole("librocthrust-tests")],
        folder: "usr/libexec/rocm/librocthrust-tests",
        programs: &["test_"],
        data: None,
        quick: &[],
        left_out: &[],
        known: &[],
    },
    Library {
        name: "rocsparse",
        packages: &[
            Package::whole("librocsparse1"),
            Package::whole("librocsparse1-tests"),
            Package::whole("librocsparse1-tests-data"),
        ],
        folder: "usr/libexec/rocm/librocsparse1-tests",
        programs: &["rocsparse-test"],
        data: Some("usr/share/librocsparse1-tests/data/rocsparse_test.data"),
        quick: &[],
        left_out: &[],
        known: &[],
    },
];

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    let limits = Limits {
        test: Duration::from_secs(arguments.test_limit),
        program: Duration::from_secs(arguments.program_limit),
    };
    let mut tally = Tally::default();
    for library in LIBRARIES {
        if arguments.libraries.is_empty() || arguments.libraries.iter().any(|name| name == library.name) {
            library.run(repo, built, &arguments.selection, limits, &mut tally)?;
        }
    }
    let known: Vec<Known> = LIBRARIES.iter().flat_map(|library| library.known).copied().collect();
    tally.finish(&known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_can_be_named() {
        assert!(LIBRARIES.iter().map(|library| library.name).eq(NAMES));
    }
}
