//! Checks of memory accesses and profiles of real kernels, on software GPUs of their own.

mod rig;

use board_contract::{AccessReport, Endpoint, Event, Finding, FindingKind, ProfileReport};
use rig::{rig, status};

/// A kernel for leaky-relu with local memory. Its first line is the third of the source.
fn kernel(body: &str) -> String {
    format!(
        "#include <hip/hip_runtime.h>\n\
         extern \"C\" __global__ void solution(const float* input, float alpha, float* output, size_t n, size_t m) {{\n{body}\n}}\n"
    )
}

const CLEAN: &str = "    __shared__ float tile[256];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n * m ? input[i] : 0.0f;
    __syncthreads();
    float x = tile[255 - threadIdx.x];
    __syncthreads();
    tile[255 - threadIdx.x] = x;
    __syncthreads();
    x = tile[threadIdx.x];
    if (i < n * m) output[i] = x > 0 ? x : alpha * x;";

const RACY: &str = "    __shared__ float tile[256];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n * m ? input[i] : 0.0f;
    float x = tile[255 - threadIdx.x];
    if (i < n * m) output[i] = x;";

fn checked(source: &str) -> (String, AccessReport) {
    let last = rig().last(&rig().job("leaky-relu", source, Endpoint::Check));
    let name = status(&last);
    match last {
        Event::Clean { report } | Event::Findings { report } => (name, *report),
        other => panic!("{other:#?}"),
    }
}

fn found(source: &str, kind: FindingKind) -> Finding {
    let (name, report) = checked(source);
    assert_eq!(name, "FINDINGS", "{report:#?}");
    let finding = report.findings.iter().find(|finding| finding.kind == kind);
    finding.unwrap_or_else(|| panic!("{report:#?}")).clone()
}

#[test]
fn a_race_is_reported_at_its_lines() {
    let race = found(&kernel(RACY), FindingKind::LocalRace);
    assert_eq!((race.line, race.other_line), (Some(5), Some(6)), "{race:?}");
    assert!(race.count > 1 && race.message.contains("barrier"), "{race:?}");
    assert!(race.details.len() == 2 && race.details[0].contains("ds_"), "{race:?}");
}

#[test]
fn an_access_one_element_out_of_bounds_is_reported_at_its_line() {
    let body = "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    float x = i < n * m ? input[i] : 0.0f;
    if (i <= n * m)
        output[i] = x > 0 ? x : alpha * x;";
    let outside = found(&kernel(body), FindingKind::OutOfBounds);
    assert_eq!(outside.line, Some(6), "{outside:?}");
    assert!(
        outside.message.contains("write of address") && outside.message.contains("right behind"),
        "{outside:?}"
    );
    let body = "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m)
        output[i] = input[i + 1];";
    let outside = found(&kernel(body), FindingKind::OutOfBounds);
    assert_eq!(outside.line, Some(5), "{outside:?}");
    assert!(outside.message.contains("read of address"), "{outside:?}");
}

#[test]
fn a_read_of_uninitialised_local_memory_is_reported_at_its_line() {
    let body = "    __shared__ float tile[256];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (threadIdx.x < 128) tile[threadIdx.x] = i < n * m ? input[i] : 0.0f;
    __syncthreads();
    float x = tile[threadIdx.x];
    if (i < n * m) output[i] = x;";
    let unset = found(&kernel(body), FindingKind::UninitialisedRead);
    assert_eq!((unset.line, unset.other_line), (Some(7), None), "{unset:?}");
}

#[test]
fn a_race_between_workgroups_is_reported() {
    let body = "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) output[i] = input[i];
    if (threadIdx.x == 0)
        output[0] = (float)blockIdx.x;";
    let race = found(&kernel(body), FindingKind::GlobalRace);
    assert!(race.line == Some(6) || race.other_line == Some(6), "{race:?}");
}

#[test]
fn a_clean_kernel_has_no_findings_in_any_case() {
    let (name, report) = checked(&kernel(CLEAN));
    assert_eq!((name.as_str(), report.findings.len()), ("CLEAN", 0), "{report:#?}");
    assert!(report.cases.len() >= 4 && report.stopped.is_empty(), "{report:#?}");
    assert_eq!(report.launches, report.cases.len() as u64);
}

#[test]
fn kernels_of_host_code_are_checked_too_and_its_rules_hold() {
    let source = r#"#include <hip/hip_runtime.h>
__global__ void part(const float* input, float alpha, float* output, size_t all) {
    __shared__ float tile[256];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < all ? input[i] : 0.0f;
    float x = tile[255 - threadIdx.x];
    if (i < all) output[i] = x;
}
extern "C" void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    part<<<(n * m + 255) / 256, 256>>>(input, alpha, output, n * m);
}
"#;
    let race = found(source, FindingKind::LocalRace);
    assert_eq!((race.line, race.other_line), (Some(5), Some(6)), "{race:?}");
    assert!(race.kernel.starts_with("part("), "{race:?}");
    let reader = source
        .replace("part<<<", "fopen(\"/tmp\", \"r\"); part<<<")
        .replace("#include", "#include <cstdio>\n#include");
    let last = rig().last(&rig().job("leaky-relu", &reader, Endpoint::Check));
    assert_eq!(status(&last), "REJECTED", "{last:?}");
}

#[test]
fn runs_at_the_same_time_do_not_see_each_other() {
    let racy = std::thread::spawn(|| found(&kernel(RACY), FindingKind::LocalRace));
    let (name, report) = checked(&kernel(CLEAN));
    assert_eq!((name.as_str(), report.findings.len()), ("CLEAN", 0), "{report:#?}");
    racy.join().expect("a race");
}

#[test]
fn a_source_cannot_invent_lines() {
    let forged =
        RACY.replace("    tile[threadIdx.x] =", "#line 100000 \"solution.hip\"\n    tile[threadIdx.x] =");
    let race = found(&kernel(&forged), FindingKind::LocalRace);
    assert_eq!((race.line, race.other_line), (None, None), "{race:?}");
}

#[test]
fn an_endless_kernel_ends_with_the_time_limit() {
    let body = "    volatile float* place = output;
    while (place[0] != 12345.0f) place[0] = 0.0f;";
    for endpoint in [Endpoint::Check, Endpoint::Profile] {
        let mut job = rig().job("leaky-relu", &kernel(body), endpoint);
        job.limits.run_s = 4.0;
        let last = rig().last(&job);
        assert_eq!(status(&last), "TIME_LIMIT_EXCEEDED", "{last:?}");
    }
}

#[test]
fn only_a_software_gpu_is_observed() {
    let mut job = rig().job("leaky-relu", &kernel(CLEAN), Endpoint::Check);
    job.emulated = false;
    let Event::Error { details, .. } = rig().last(&job) else { panic!() };
    assert!(details.contains("software GPU"), "{details}");
}

fn profiled(source: &str) -> ProfileReport {
    let last = rig().last(&rig().job("leaky-relu", source, Endpoint::Profile));
    let Event::Profiled { profile } = last else { panic!("{last:#?}") };
    *profile
}

#[test]
fn a_profile_attributes_most_instructions_to_the_loop() {
    let body = "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n * m) return;
    float x = input[i];
#pragma unroll 1
    for (int k = 0; k < 300; k++) x = x * 1.0001f + alpha;
    output[i] = x;";
    let profile = profiled(&kernel(body));
    let kernel = &profile.kernels[0];
    assert!(
        !profile.correct && profile.gpu.contains("MI300X") && kernel.kernel.starts_with("solution"),
        "{profile:#?}"
    );
    let hot = &kernel.lines[0];
    assert_eq!(hot.line, Some(7), "{kernel:#?}");
    assert!(hot.share > 0.9 && hot.lanes > 60.0, "{hot:?}");
    let sum: f64 = kernel.lines.iter().map(|line| line.share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(kernel.estimated_ms > 0.0 && !kernel.limited_by.is_empty() && !kernel.resources.is_empty());
    let line = |number| kernel.lines.iter().find(|line| line.line == Some(number)).expect("a line");
    // Every element is loaded and stored once, as four bytes, in whole lines.
    assert!(line(5).global_bytes > 0 && line(5).global_bytes == line(8).global_bytes, "{kernel:#?}");
    assert!(line(8).line_use > 0.99 && line(5).l1.accesses > 0, "{kernel:#?}");
    assert_eq!((line(7).global_bytes, line(7).bank_conflicts), (0, 0));
}

#[test]
fn bank_conflicts_belong_to_their_line() {
    let body = "    __shared__ float tile[32 * 256];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    tile[threadIdx.x * 32] = i < n * m ? input[i] : 0.0f;
    __syncthreads();
    float x = tile[threadIdx.x * 32];
    if (i < n * m) output[i] = x > 0 ? x : alpha * x;";
    let profile = profiled(&kernel(body));
    let kernel = &profile.kernels[0];
    assert!(profile.correct, "{profile:#?}");
    let conflicts = |number| {
        kernel.lines.iter().find(|line| line.line == Some(number)).map_or(0, |line| line.bank_conflicts)
    };
    assert!(conflicts(5) > 0 && conflicts(7) > 0, "{kernel:#?}");
    assert_eq!(conflicts(8), 0);
    assert_eq!(kernel.bank_conflicts, conflicts(5) + conflicts(7));
}
