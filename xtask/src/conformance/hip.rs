//! Debian's libraries that are written only in HIP, and the unmodified test programs of their `-tests` packages, on an emulated
//! MI210.

use super::Selection;
use super::gtest::Limits;
use super::library::{Framework, LeftOut, Library};
use super::tally::{Known, Tally};
use super::userland::Package;
use crate::build::Built;
use crate::repo::Repo;
use anyhow::Result;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these libraries
    #[arg(value_name = "LIBRARY", value_parser = NAMES)]
    libraries: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Seconds after which a test is killed and counts as not finished
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    test_limit: u64,
    /// Seconds after which a program is killed and its other tests count as not run
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    program_limit: u64,
}

const NAMES: [&str; 5] = ["hiprand", "rocprim", "hipcub", "rocthrust", "rocsparse"];

/// Tests of hundreds of millions of elements and more, or of all available memory.
const LARGE: LeftOut = LeftOut::Everywhere(&[
    "*LargeIndices*",
    "*Over4G*",
    "*LargeSizes*",
    "*LargeInput*",
    "*LargeSegmentCount*",
]);

/// For a sum of two products, which the program expects to be bit-identical; or for complex numbers of length 1, of which it
/// keeps those that are longer than 1.
const FUSED: &str =
    "its kernel multiplies and adds with one rounding, and the reference on the host with two";

pub static LIBRARIES: &[Library] = &[
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
        framework: Framework::GoogleTest,
        quick: &[
            ("test_hiprand_api", "*"),
            ("test_hiprand_kernel", "sobol_tests*:*xorwow*"),
            ("test_hiprand_linkage", "*"),
        ],
        left_out: &[
            // See rocRAND.
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
        framework: Framework::GoogleTest,
        quick: &[
            ("test_basic", "*"),
            ("test_block_run_length_decode", "*"),
            ("test_config_dispatch", "*"),
            ("test_device_partition", "RocprimDevicePartitionTests/0.*"),
            ("test_device_reduce", "RocprimDeviceReduceTests/0.*"),
            ("test_device_run_length_encode", "RocprimDeviceRunLengthEncode/0.*"),
            ("test_device_segmented_scan", "RocprimDeviceSegmentedScan/0.*"),
            ("test_device_select", "RocprimDeviceSelectTests/0.*"),
            ("test_hipgraph_algs", "*"),
            ("test_hipgraph_basic", "*"),
            ("test_intrinsics", "*"),
            ("test_ordered_block_id", "*"),
            ("test_texture_cache_iterator", "*"),
            ("test_thread_algos", "*"),
            ("test_warp_exchange", "*"),
            ("test_warp_sort", "*"),
        ],
        // A million lanes take a thousand turns each at one word.
        left_out: &[LARGE, LeftOut::Tests("test_intrinsics_atomic", &["*"])],
        known: &[],
    },
    Library {
        name: "hipcub",
        packages: &[Package::whole("libhipcub-tests")],
        folder: "usr/libexec/rocm/libhipcub-tests",
        programs: &["test_"],
        data: None,
        framework: Framework::GoogleTest,
        quick: &[
            ("test_hipcub_block_exchange", "*"),
            ("test_hipcub_block_histogram", "*"),
            ("test_hipcub_block_reduce", "*"),
            ("test_hipcub_device_scan", "HipcubDeviceScanTests/0.*"),
            ("test_hipcub_device_spmv", "*"),
            ("test_hipcub_iterators", "*"),
            ("test_hipcub_thread", "*"),
            ("test_hipcub_warp_reduce", "*"),
        ],
        left_out: &[LARGE],
        known: &[],
    },
    Library {
        name: "rocthrust",
        packages: &[Package::whole("librocthrust-tests")],
        folder: "usr/libexec/rocm/librocthrust-tests",
        programs: &["test_"],
        data: None,
        framework: Framework::Thrust,
        quick: &[
            ("test_thrust_complex", "*"),
            ("test_thrust_device_ptr", "*"),
            ("test_thrust_event", "*"),
            ("test_thrust_future", "*"),
            ("test_thrust_mr_pool", "*"),
            ("test_thrust_universal_memory", "*"),
            ("test_thrust_zip_function", "*"),
        ],
        // Like `LARGE`.
        left_out: &[LeftOut::Named("BigIndexes"), LeftOut::Named("UniqueCopyByKeyLarge")],
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
        framework: Framework::GoogleTest,
        // It reads its data for minutes before the first test.
        quick: &[],
        left_out: &[
            LeftOut::Tests("rocsparse-test", &["pre_checkin/*", "nightly/*", "stress/*", "known_bug/*"]),
            // For an empty product, their own host code clears memory before and after a vector without elements: `memset` of its
            // size less one element. The resulting heap corruption later aborts the program, which takes a minute to restart.
            LeftOut::Tests(
                "rocsparse-test",
                &[
                    "quick/*gemm*.extra/*_50_13_50_*_n99_0_NT_NT_*_zero",
                    "quick/csrgemm*.extra/*_582_243_1_n99_*_zero",
                ],
            ),
        ],
        known: &[
            Known { test: "quick/roti.level1/f64_r_12000_500_0b_0", cause: FUSED },
            Known { test: "quick/roti.level1/f64_r_12000_500_1b_0", cause: FUSED },
            Known { test: "quick/csr2csr_compress.conversion/f32_c_*_1_rand", cause: FUSED },
            Known { test: "quick/csr2csr_compress.conversion/f64_c_*_1_rand", cause: FUSED },
        ],
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
