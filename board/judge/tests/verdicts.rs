//! Verdicts on submissions, on a software MI300X.

mod rig;

use board_contract::{Endpoint, Event, SampleNumber, SampleValue, Verdict};
use board_judge::{Compiler, Gpu, Grant};
use e2e::{Worker, eventually};
use rig::{rig, status};

const RIGHT: &str = r#"#include <hip/hip_runtime.h>
extern "C" __global__ void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) {
        float x = input[i];
        output[i] = x > 0 ? x : alpha * x;
    }
}
"#;

const HOST: &str = r#"#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void part(const float* input, float alpha, float* output, size_t from, size_t to) {
    size_t i = from + blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < to) output[i] = input[i] > 0 ? input[i] : alpha * input[i];
}
extern "C" void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    size_t half = n * m / 2, all = n * m;
    if (half > 0) part<<<(half + 63) / 64, 64>>>(input, alpha, output, 0, half);
    part<<<(all - half + 255) / 256, 256>>>(input, alpha, output, half, all);
    printf("%zu elements\n", all);
}
"#;

fn statuses(events: &[Event]) -> Vec<String> {
    let mut names: Vec<String> = events.iter().map(status).collect();
    names.dedup();
    names
}

#[test]
fn a_right_kernel_goes_from_compiling_to_checked() {
    let events = rig().events(&rig().job("leaky-relu", RIGHT, Endpoint::Checker));
    assert_eq!(statuses(&events), ["COMPILING", "COMPILED", "ISA", "CHECKING", "TEST_RESULT", "CHECKED"]);
    let Some(Event::Checked { passed_tests, total_tests, test_results, flags, .. }) = events.last() else {
        panic!()
    };
    assert!(*total_tests >= 4 && passed_tests == total_tests && test_results.len() == *total_tests);
    assert!(test_results.iter().all(|result| result.status == Verdict::Passed) && flags.is_empty());
    let Event::Compiled { kernels, .. } = &events[1] else { panic!("{:?}", events[1]) };
    assert_eq!((kernels[0].name.as_str(), kernels[0].workgroup), ("solution", 256));
    assert!(kernels[0].vgprs > 0 && kernels[0].sgprs > 0 && kernels[0].waves_per_simd == 8.0);
}

#[test]
fn the_occupancy_is_that_of_whole_workgroups_of_the_launch() {
    let source = format!("//!lds 40960\n//!block 512\n{RIGHT}");
    let last = rig().last(&rig().job("leaky-relu", &source, Endpoint::Compile));
    let Event::Compiled { kernels, .. } = last else { panic!("{last:?}") };
    let solution = kernels.iter().find(|kernel| kernel.name == "solution").expect("the kernel");
    assert_eq!((solution.workgroup, solution.dynamic_lds_bytes), (512, 40960));
    // A second workgroup does not fit into the local memory of a compute unit.
    assert_eq!((solution.workgroups_per_cu, solution.waves_per_simd), (1, 2.0));
}

#[test]
fn compile_gives_instructions_with_the_lines_they_came_from() {
    let last = rig().last(&rig().job("leaky-relu", RIGHT, Endpoint::Compile));
    let Event::Compiled { isa: Some(isa), .. } = last else { panic!("{last:?}") };
    let lines = &isa.iter().find(|listing| listing.kernel == "solution").expect("the kernel").lines;
    let store = lines.iter().find(|line| line.text.starts_with("global_store_dword")).expect("a store");
    assert_eq!(store.source_line, Some(6));
    assert!(lines.iter().any(|line| line.text == "s_endpgm"));
}

#[test]
fn a_measurement_has_exact_counts_that_repeat() {
    let counts = || {
        let job = rig().job("leaky-relu", RIGHT, Endpoint::Benchmark);
        let last = rig().last(&job);
        let Event::Benchmarked {
            test_results, emulated, device, deterministic, flags, avg_runtime_ms, ..
        } = last
        else {
            panic!("{last:?}")
        };
        assert!(device.unwrap().contains("MI300X"));
        assert!(emulated && deterministic && flags.is_empty() && avg_runtime_ms > 0.0, "{flags:?}");
        for result in &test_results {
            assert!(result.min_ms <= result.runtime_ms && result.ci_low_ms <= result.ci_high_ms);
            assert!(result.estimated && result.cold_cache && result.floor_ms > 0.0);
            // The estimate repeats, so it has no interval.
            assert_eq!((result.ci_low_ms, result.ci_high_ms), (result.runtime_ms, result.runtime_ms));
            assert!(result.limited_by.is_some() && result.runtime_ms > result.floor_ms, "{result:?}");
        }
        test_results.iter().map(|result| result.counts.expect("counts")).collect::<Vec<_>>()
    };
    let first = counts();
    assert!(
        first
            .iter()
            .all(|counts| counts.launches == 1 && counts.instructions > counts.valu && counts.valu > 0)
    );
    // Each element is written once, as four bytes.
    assert_eq!(first[0].bytes_written % 4, 0);
    assert_eq!(first, counts());
}

#[test]
fn full_is_a_check_and_then_a_measurement() {
    let events = rig().events(&rig().job("leaky-relu", RIGHT, Endpoint::Full));
    let expected = [
        "COMPILING",
        "COMPILED",
        "ISA",
        "CHECKING",
        "TEST_RESULT",
        "CHECKED",
        "BENCHMARKING",
        "BENCHMARK_RESULT",
        "BENCHMARKED",
    ];
    assert_eq!(statuses(&events), expected);
}

#[test]
fn a_wrong_answer_shows_what_differs_and_all_cases_are_tried() {
    let wrong = RIGHT.replace("alpha * x", "alpha * x + (i == 3 ? 1.0f : 0.0f)");
    let last = rig().last(&rig().job("leaky-relu", &wrong, Endpoint::Checker));
    let Event::WrongAnswer { debug_info, passed_tests, total_tests, test_results } = last else {
        panic!("{last:?}")
    };
    assert_eq!(test_results.len(), total_tests);
    assert!(passed_tests < total_tests, "{test_results:?}");
    let output = &debug_info.outputs[0];
    assert!(output.mismatches == 1 && (output.max_difference - 1.0).abs() < 1e-3, "{debug_info:?}");
    let difference = output.samples.first().expect("a sample");
    assert!(!difference.index.is_empty() && difference.expected != difference.actual, "{debug_info:?}");
}

#[test]
fn other_seeds_are_other_inputs() {
    let mut job = rig().job("leaky-relu", RIGHT, Endpoint::Sample);
    let mut shown = |seed| {
        job.seed = seed;
        match rig().last(&job) {
            Event::Passed(sample) => sample.input,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(shown(1), shown(1));
    assert_ne!(shown(1), shown(2));
}

#[test]
fn a_sample_shows_input_output_and_what_is_expected() {
    let wrong = RIGHT.replace("alpha * x", "7.0f");
    let last = rig().last(&rig().job("leaky-relu", &wrong, Endpoint::Sample));
    let Event::Failed(sample) = last else { panic!("{last:?}") };
    assert!(matches!(sample.input["alpha"], SampleValue::Scalar(SampleNumber::Real(_))), "{sample:?}");
    assert!(matches!(sample.input["input"], SampleValue::Array(_)), "{sample:?}");
    assert_ne!(sample.output["output"], sample.expected_output["output"]);
    assert!(sample.debug_info.is_some());
}

#[test]
fn a_compile_error_shows_the_line_and_no_path_of_this_machine() {
    let broken = RIGHT.replace("float x = input[i];", "float x = inptu[i];");
    let last = rig().last(&rig().job("leaky-relu", &broken, Endpoint::Checker));
    let Event::CompileError { details, .. } = last else { panic!("{last:?}") };
    assert!(details.contains("solution.hip:5:") && details.contains("inptu"), "{details}");
    let deep = RIGHT.replace("float x = input[i];", "float x = __hip_atomic_load(3);");
    let last = rig().last(&rig().job("leaky-relu", &deep, Endpoint::Checker));
    let Event::CompileError { details, .. } = last else { panic!("{last:?}") };
    for private in [e2e::toolchain_folder(), rig().tools().cache.clone()] {
        assert!(!details.contains(&private.display().to_string()), "{details}");
    }
}

#[test]
fn directives_of_the_source_change_the_launch() {
    // Every work-item processes two elements, so half the blocks suffice.
    let source = format!(
        "//!grid (n*m+511)/512\n{}",
        RIGHT.replace("if (i < n * m) {", "for (i = i * 2; i < n * m; i += (size_t)gridDim.x * 512) for (size_t end = i + 2; i < end && i < n * m; ++i) {")
    );
    let events = rig().events(&rig().job("leaky-relu", &source, Endpoint::Checker));
    assert_eq!(status(events.last().unwrap()), "CHECKED", "{events:?}");
    let invalid = format!("//!grid nobody/2\n{RIGHT}");
    let last = rig().last(&rig().job("leaky-relu", &invalid, Endpoint::Checker));
    assert_eq!(status(&last), "COMPILE_ERROR");
}

#[test]
fn a_host_function_launches_what_it_likes_and_what_it_prints_is_no_result() {
    let last = rig().last(&rig().job("leaky-relu", HOST, Endpoint::Full));
    let Event::Benchmarked { test_results, output, .. } = &last else { panic!("{last:?}") };
    assert_eq!(test_results[0].counts.expect("counts").launches, 2);
    assert!(output.contains("32768 elements\n"), "{output}");
    let last = rig().last(&rig().job("leaky-relu", HOST, Endpoint::Sample));
    let Event::Passed(sample) = last else { panic!("{last:?}") };
    assert!(sample.stdout.contains("elements"), "{sample:?}");
}

#[test]
fn a_whole_program_runs_in_the_sandbox_with_the_device() {
    let program = r#"#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
int main() {
    int* x;
    int y[64];
    if (hipMalloc(&x, sizeof y) != hipSuccess) return 3;
    fill<<<1, 64>>>(x);
    if (hipMemcpy(y, x, sizeof y, hipMemcpyDeviceToHost) != hipSuccess) return 4;
    printf("last %d\n", y[63]);
    fprintf(stderr, "done\n");
}
"#;
    let events = rig().events(&rig().job("", program, Endpoint::Sandbox));
    let Some(Event::SandboxSuccess { stdout, stderr, return_code }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!((stdout.as_str(), stderr.as_str(), *return_code), ("last 63\n", "done\n", 0));
    let lines = events.iter().filter(|event| matches!(event, Event::SandboxOutput { .. })).count();
    assert_eq!(lines, 2);
    let last = rig().last(&rig().job("", "int main() { return 7; }", Endpoint::Sandbox));
    assert!(matches!(last, Event::SandboxError { return_code: 7, .. }), "{last:?}");
}

#[test]
fn what_is_unknown_is_an_error_that_names_it() {
    for (problem, gpu, worker) in [
        ("no-such", "MI300X", None),
        ("leaky-relu", "GTX", None),
        ("leaky-relu", "MI300X", Some("unix:/nowhere")),
    ] {
        let mut job = rig().job(problem, RIGHT, Endpoint::Checker);
        job.gpu = gpu.to_owned();
        if let (Some(worker), Some(device)) = (worker, &mut job.device) {
            worker.clone_into(&mut device.worker);
        }
        let last = rig().last(&job);
        assert!(matches!(last, Event::Error { .. }), "{last:?}");
    }
    // A GPU that the worker does not have.
    let mut job = rig().job("leaky-relu", RIGHT, Endpoint::Checker);
    for gpu in ["MI300A", "H200-GFX942"] {
        job.gpu = gpu.to_owned();
        let last = rig().last(&job);
        assert!(matches!(&last, Event::Error { details, .. } if details.contains(gpu)), "{last:?}");
    }
}

#[test]
fn a_panic_of_the_judge_is_an_error_and_still_the_last_event() {
    let mut job = rig().job("leaky-relu", RIGHT, Endpoint::Checker);
    job.device = None;
    let mut events = Vec::new();
    let mut request = || -> Option<Grant> { panic!("there is no grant") };
    board_judge::run(&job, rig().tools(), &mut request, &mut |event| events.push(event));
    let Some(Event::Error { message, details, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!((message.as_str(), details.as_str()), ("the judge failed", "there is no grant"));
}

#[test]
fn an_equal_source_is_not_compiled_again() {
    let gpu = Gpu::find("MI300X").unwrap();
    let compiler = Compiler::new(rig().tools(), gpu.target, std::time::Duration::from_secs(120));
    let source = RIGHT.replace("alpha * x", "x * alpha");
    let first = compiler.kernel(&source).unwrap();
    let again = compiler.kernel(&source).unwrap();
    assert!(again.cached && again.code == first.code);
    let other = compiler.kernel(&format!("{source}// {}", std::process::id())).unwrap();
    assert!(!other.cached);
}

#[test]
fn sessions_of_host_code_end_with_it_even_if_it_is_killed() {
    let worker = Worker::start();
    let killed = HOST.replace("printf(", "__builtin_trap(); printf(");
    for (source, expected) in [(HOST, "CHECKED"), (killed.as_str(), "RUNTIME_ERROR")] {
        let mut job = rig().job("leaky-relu", source, Endpoint::Checker);
        job.device = Some(Grant { worker: worker.endpoint().to_string(), token: None });
        let last = rig().last(&job);
        assert_eq!(status(&last), expected, "{last:?}");
        eventually("no session is left", || worker.status().sessions().is_empty());
    }
    assert!(!worker.log().contains("did not reconnect in time"), "{}", worker.log());
}

#[test]
fn the_estimate_of_a_strided_kernel_is_longer() {
    let strided = RIGHT.replace("float x = input[i];", "i = i % n * m + i / n; float x = input[i];");
    let time = |source: &str| {
        let last = rig().last(&rig().job("leaky-relu", source, Endpoint::Benchmark));
        let Event::Benchmarked { avg_runtime_ms, .. } = last else { panic!("{last:?}") };
        avg_runtime_ms
    };
    let (right, strided) = (time(RIGHT), time(&strided));
    // Small, because the start of the kernel takes most of the time at this size. Estimates repeat exactly.
    assert!(strided > right, "{strided} {right}");
}
