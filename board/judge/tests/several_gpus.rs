//! Problems for several GPUs, on two software MI300X.

mod rig;

use board_contract::{BenchmarkResult, Endpoint, Event};
use board_judge::Grant;
use e2e::Worker;
use rig::{rig, status};

/// Each GPU reads the vector of the other one through the link, in both directions at the same time.
const BOTH: &str = include_str!("../../problems/solutions/all-reduce.hip");

/// GPU 0 computes the sum and writes it to both.
const ONE: &str = r#"#include <hip/hip_runtime.h>
__global__ void add(const float* a, const float* b, float* sum, float* copy, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) sum[i] = copy[i] = a[i] + b[i];
}
extern "C" void solution(const float* input0, const float* input1, float* output0, float* output1, size_t n) {
    add<<<(n + 255) / 256, 256>>>(input0, input1, output0, output1, n);
}
"#;

/// GPU 0 fetches the other vector, computes the sum and sends it back: the link is used in one direction at a time.
const COPIES: &str = r#"#include <hip/hip_runtime.h>
__global__ void add(const float* a, float* sum, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) sum[i] += a[i];
}
extern "C" void solution(const float* input0, const float* input1, float* output0, float* output1, size_t n) {
    hipMemcpyPeerAsync(output0, 0, input1, 1, n * sizeof(float), nullptr);
    add<<<(n + 255) / 256, 256>>>(input0, output0, n);
    hipMemcpyPeerAsync(output1, 1, output0, 0, n * sizeof(float), nullptr);
}
"#;

fn measured(source: &str) -> Vec<BenchmarkResult> {
    let last = rig().last(&rig().job("all-reduce", source, Endpoint::Full));
    let Event::Benchmarked { test_results, flags, .. } = last else { panic!("{last:?}") };
    assert!(flags.is_empty(), "{flags:?}");
    test_results
}

#[test]
fn the_link_between_gpus_limits_an_all_reduce() {
    let last = |source| measured(source).pop().expect("a measured case");
    let (both, one, copies) = (last(BOTH), last(ONE), last(COPIES));
    for result in [&both, &one, &copies] {
        assert_eq!(result.limited_by.as_deref(), Some("link bandwidth between GPUs"), "{result:?}");
        assert!(result.estimated && result.runtime_ms > result.floor_ms);
    }
    // Each GPU reads a vector of 4 MiB through a link of 51.2 GB/s.
    let link_ms = 4.0 * 1_048_576.0 / 51.2e9 * 1e3;
    assert!((both.runtime_ms / link_ms - 1.0).abs() < 0.1, "{} {link_ms}", both.runtime_ms);
    // Reads and writes of one GPU use different directions of the link, and overlap too.
    assert!((one.runtime_ms / both.runtime_ms - 1.0).abs() < 0.1, "{} {}", one.runtime_ms, both.runtime_ms);
    assert!(copies.runtime_ms > 1.8 * both.runtime_ms, "{} {}", copies.runtime_ms, both.runtime_ms);
}

#[test]
fn a_kernel_cannot_solve_a_problem_for_two_gpus() {
    let kernel = "extern \"C\" __global__ void solution(const float* a, const float* b, float* c, float* d, size_t n) {}";
    let last = rig().last(&rig().job("all-reduce", kernel, Endpoint::Checker));
    let Event::CompileError { message, details } = last else { panic!("{last:?}") };
    assert!(
        message.contains("2 GPUs") && details.contains("extern \"C\" void solution("),
        "{message} {details}"
    );
}

#[test]
fn a_worker_with_one_gpu_is_not_enough() {
    let worker = Worker::start();
    let mut job = rig().job("all-reduce", BOTH, Endpoint::Checker);
    job.device = Some(Grant { worker: worker.endpoint().to_string(), token: None });
    let last = rig().last(&job);
    assert!(matches!(&last, Event::Error { details, .. } if details.contains("needs 2 GPUs")), "{last:?}");
}

#[test]
fn the_solutions_of_all_problems_for_two_gpus_are_judged() {
    for problem in board_problems::all().iter().filter(|problem| problem.devices > 1) {
        for (folder, expected) in [("solutions", "CHECKED"), ("wrong", "WRONG_ANSWER")] {
            let path = rig::board().join(format!("problems/{folder}/{}.hip", problem.slug));
            let source = std::fs::read_to_string(path).unwrap();
            let last = rig().last(&rig().job(&problem.slug, &source, Endpoint::Checker));
            assert_eq!(status(&last), expected, "{}: {last:?}", problem.slug);
        }
    }
}

#[test]
fn accesses_of_two_gpus_are_checked() {
    let last = rig().last(&rig().job("all-reduce", BOTH, Endpoint::Check));
    assert_eq!(status(&last), "CLEAN", "{last:?}");
}
