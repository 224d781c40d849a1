//! Cases of a user's choice: validation, and the computation of their inputs and expected outputs.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use board_contract::{CustomFill, CustomInput, Event, SampleNumber};
use board_problems::{Custom, CustomCase, CustomError, Dtype, Expected, Number, Prepared, Problem};

use crate::ending::{self, Ending};

/// A custom case with its arguments and expected outputs.
pub(crate) struct ComputedCase {
    pub custom: CustomCase,
    pub prepared: Prepared,
    pub expected: Vec<Expected>,
}

/// Validates the inputs that a user chose for a problem.
pub fn custom_case(problem: &Problem, dtype: Dtype, input: &CustomInput) -> Result<CustomCase, CustomError> {
    let mut inputs = std::collections::BTreeMap::new();
    for (name, fill) in &input.inputs {
        inputs.insert(name.clone(), fill_of(name, fill)?);
    }
    problem.custom(dtype, &Custom { sizes: input.sizes.clone(), values: input.values.clone(), inputs })
}

fn fill_of(name: &str, fill: &CustomFill) -> Result<board_problems::CustomFill, CustomError> {
    use board_problems::CustomFill as Fill;
    Ok(match fill {
        CustomFill::Problem => Fill::Problem,
        CustomFill::Constant { value } => Fill::Constant(*value),
        CustomFill::Ramp => Fill::Ramp,
        CustomFill::Uniform { low, high } => Fill::Uniform { low: *low, high: *high },
        CustomFill::Values { values } => {
            Fill::Values(values.iter().map(|value| number(name, value)).collect::<Result<_, _>>()?)
        }
    })
}

fn number(name: &str, value: &SampleNumber) -> Result<Number, CustomError> {
    match value {
        SampleNumber::Integer(value) => Ok(Number::Integer((*value).into())),
        SampleNumber::Real(value) => Ok(Number::Real(*value)),
        SampleNumber::Text(text) => text.parse().map(Number::Integer).map_err(|_| CustomError::Value {
            name: name.chars().take(40).collect(),
            value: text.chars().take(40).collect(),
            allowed: "a text must be an integer".to_owned(),
        }),
    }
}

/// Computes the inputs and expected outputs of a custom case, in a thread: sizes that a statement excludes may make a reference panic.
pub(crate) fn compute(
    problem: &'static Problem,
    dtype: Dtype,
    input: &CustomInput,
    limit: Duration,
) -> Result<ComputedCase, Ending> {
    let rejected = |message: &str, details: String| {
        let (message, rule) = (message.to_owned(), "custom-input".to_owned());
        Box::new(Event::Rejected { message, details, rule })
    };
    let custom = custom_case(problem, dtype, input)
        .map_err(|error| rejected("the custom input is invalid", error.to_string()))?;
    let (sender, receiver) = mpsc::channel();
    let (chosen, seed) = (custom.clone(), u64::from(input.seed));
    let compute = move || {
        let prepared = problem.prepare_custom(&chosen, seed);
        let expected = problem.expected(&chosen.case, dtype, &prepared);
        // There is no receiver after the time limit.
        let _ = sender.send((prepared, expected));
    };
    std::thread::Builder::new()
        .name("reference".to_owned())
        .spawn(compute)
        .map_err(|error| ending::error("the reference could not be started", &error.to_string()))?;
    match receiver.recv_timeout(limit) {
        Ok((prepared, expected)) => Ok(ComputedCase { custom, prepared, expected }),
        Err(RecvTimeoutError::Disconnected) => Err(rejected(
            "the reference cannot compute this input",
            "The sizes or values are outside of what the statement allows.".to_owned(),
        )),
        Err(RecvTimeoutError::Timeout) => Err(Box::new(Event::TimeLimitExceeded {
            message: format!("the reference took longer than {} s for this input", limit.as_secs_f64()),
            details: "Choose smaller sizes.".to_owned(),
        })),
    }
}
