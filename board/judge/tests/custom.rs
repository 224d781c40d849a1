//! Custom inputs: the user's numbers reach the kernel and the reference, and impossible ones are refused.

mod rig;

use std::collections::BTreeMap;

use board_contract::{
    CustomFill, CustomInput, Endpoint, Event, SampleArray, SampleNumber, SampleResult, SampleValue,
};
use board_judge::Job;
use rig::{rig, status};

const SUM: &str = r#"#include <hip/hip_runtime.h>
extern "C" __global__ void solution(const float* input1, const float* input2, float* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) output[i] = input1[i] + input2[i];
}
"#;

fn job(problem: &str, source: &str, custom: CustomInput) -> Job {
    Job { custom: Some(custom), ..rig().job(problem, source, Endpoint::Custom) }
}

fn sizes(sizes: &[(&str, i64)]) -> BTreeMap<String, i64> {
    sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
}

fn values(numbers: &[f64]) -> CustomFill {
    CustomFill::Values { values: numbers.iter().map(|number| SampleNumber::Real(*number)).collect() }
}

fn shown<'a>(values: &'a BTreeMap<String, SampleValue>, name: &str) -> &'a SampleArray {
    match &values[name] {
        SampleValue::Array(array) => array,
        SampleValue::Scalar(_) => panic!("{name} is a scalar"),
    }
}

fn passed(job: &Job) -> SampleResult {
    let last = rig().last(job);
    let Event::Passed(result) = last else { panic!("{last:#?}") };
    *result
}

#[test]
fn chosen_numbers_reach_the_kernel_and_the_reference() {
    let inputs = BTreeMap::from([
        ("input1".to_owned(), values(&[1.5, -2.0, 3.0])),
        ("input2".to_owned(), CustomFill::Ramp),
    ]);
    let result = passed(&job(
        "vector-addition",
        SUM,
        CustomInput { sizes: sizes(&[("n", 3)]), inputs, ..Default::default() },
    ));
    let wanted = [1.5, -1.0, 5.0].map(SampleNumber::Real).to_vec();
    assert_eq!(shown(&result.output, "output").values, wanted);
    assert_eq!(shown(&result.expected_output, "output").values, wanted);
    assert_eq!(shown(&result.input, "input2").values, [0.0, 1.0, 2.0].map(SampleNumber::Real).to_vec());
    assert_eq!(result.input["n"], SampleValue::Scalar(SampleNumber::Integer(3)));
}

#[test]
fn a_wrong_kernel_fails_on_the_chosen_numbers_only() {
    let wrong = SUM.replace("input1[i] + input2[i]", "input1[i] == 7.0f ? 0.0f : input1[i] + input2[i]");
    let with = |number| {
        let inputs = BTreeMap::from([("input1".to_owned(), CustomFill::Constant { value: number })]);
        rig().last(&job("vector-addition", &wrong, CustomInput { inputs, ..Default::default() }))
    };
    assert_eq!(status(&with(1.0)), "PASSED");
    let Event::Failed(result) = with(7.0) else { panic!() };
    assert!(result.debug_info.is_some());
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let with = |seed| {
        let custom = CustomInput { seed, sizes: sizes(&[("n", 40)]), ..Default::default() };
        passed(&job("vector-addition", SUM, custom)).input
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn impossible_inputs_are_refused_with_the_reason() {
    let refused = |problem: &str, custom: CustomInput| {
        let last = rig().last(&job(problem, SUM, custom));
        let Event::Rejected { details, rule, .. } = last else { panic!("{last:#?}") };
        assert_eq!(rule, "custom-input");
        details
    };
    let of = |custom| refused("vector-addition", custom);
    let too_many = of(CustomInput { sizes: sizes(&[("n", 60_000)]), ..Default::default() });
    assert!(too_many.contains("180000 elements together; at most 65536"), "{too_many}");
    let inputs = BTreeMap::from([("input1".to_owned(), values(&[1.0, 2.0]))]);
    let few = of(CustomInput { sizes: sizes(&[("n", 3)]), inputs, ..Default::default() });
    assert!(few.contains("`input1` has 2 values; its shape 3 needs 3"), "{few}");
    let text = CustomFill::Values { values: vec![SampleNumber::Text("x".to_owned())] };
    let inputs = BTreeMap::from([("input1".to_owned(), text)]);
    let word = of(CustomInput { sizes: sizes(&[("n", 1)]), inputs, ..Default::default() });
    assert!(word.contains("must be an integer"), "{word}");
    // More elements than there are cannot be selected: the reference has no result.
    let beyond = refused("top-k", CustomInput { sizes: sizes(&[("n", 3), ("k", 9)]), ..Default::default() });
    assert!(beyond.contains("outside of what the statement allows"), "{beyond}");
}
