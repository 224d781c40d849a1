//! Runs test cases on two devices and compares the results.

use tensor_core::device::Device;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::step::{Operand, Step, Work};
use tensor_rocm::RocmDevice;

use crate::operand::{Content, numbers};

/// One operation to run, and the tolerance between the two devices' results.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub work: Work,
    pub inputs: Vec<Content>,
    pub outputs: Vec<(DType, Vec<usize>)>,
    /// Tolerance, relative and near zero absolute; `None` requires identical bits.
    pub tolerance: Option<f64>,
}

impl Case {
    pub fn exact(name: &str, work: Work, inputs: Vec<Content>, outputs: &[(DType, &[usize])]) -> Case {
        let outputs = outputs.iter().map(|(dtype, shape)| (*dtype, shape.to_vec())).collect();
        Case { name: name.to_owned(), work, inputs, outputs, tolerance: None }
    }

    pub fn near(
        name: &str,
        tolerance: f64,
        work: Work,
        inputs: Vec<Content>,
        outputs: &[(DType, &[usize])],
    ) -> Case {
        Case { tolerance: Some(tolerance), ..Case::exact(name, work, inputs, outputs) }
    }
}

/// Returns the number of failed cases. All cases run in one batch, as one list of steps.
pub fn judge(rocm: &RocmDevice, cpu: &dyn Device, cases: &[Case]) -> usize {
    let found = run(rocm, cases);
    let expected = run(cpu, cases);
    let (found, expected) = match (found, expected) {
        (Ok(found), Ok(expected)) => (found, expected),
        (found, expected) => {
            for error in [found.err(), expected.err()].into_iter().flatten() {
                println!("wrong: {error}");
            }
            return cases.len();
        }
    };
    let mut wrong = 0;
    for ((case, found), expected) in cases.iter().zip(&found).zip(&expected) {
        match difference(case, found, expected) {
            None => println!("right: {}", case.name),
            Some(difference) => {
                println!("wrong: {}: {difference}", case.name);
                wrong += 1;
            }
        }
    }
    wrong
}

/// Prints the outcome of a case; returns 1 if it failed, else 0.
pub fn report(name: &str, outcome: Result<(), String>) -> usize {
    match &outcome {
        Ok(()) => println!("right: {name}"),
        Err(why) => println!("wrong: {name}: {why}"),
    }
    usize::from(outcome.is_err())
}

/// Runs all cases and returns the bytes of their outputs.
pub fn run(device: &dyn Device, cases: &[Case]) -> Result<Vec<Vec<Vec<u8>>>, DeviceError> {
    let mut steps = Vec::new();
    for case in cases {
        let mut inputs = Vec::new();
        for content in &case.inputs {
            let buffer = device.allocate(content.bytes.len())?;
            device.upload(&buffer, 0, &content.bytes)?;
            inputs.push(Operand { buffer, layout: content.layout.clone(), dtype: content.dtype });
        }
        let mut outputs = Vec::new();
        for (dtype, shape) in &case.outputs {
            let layout = Layout::contiguous(shape);
            let buffer = device.allocate(layout.elements() * dtype.bytes())?;
            outputs.push(Operand { buffer, layout, dtype: *dtype });
        }
        let dtypes: Vec<DType> = inputs.iter().chain(&outputs).map(|operand| operand.dtype).collect();
        if !device.supports(&case.work, &dtypes) {
            return Err(DeviceError::Unsupported(case.name.clone()));
        }
        steps.push(Step { work: case.work.clone(), inputs, outputs });
    }
    device.run(&steps)?;
    let read = |operand: &Operand| {
        let mut bytes = vec![0; operand.layout.elements() * operand.dtype.bytes()];
        device.download(&operand.buffer, 0, &mut bytes)?;
        Ok(bytes)
    };
    steps.iter().map(|step| step.outputs.iter().map(read).collect()).collect()
}

fn difference(case: &Case, found: &[Vec<u8>], expected: &[Vec<u8>]) -> Option<String> {
    for (number, (dtype, _)) in case.outputs.iter().enumerate() {
        let (found, expected) = (numbers(*dtype, &found[number]), numbers(*dtype, &expected[number]));
        let mut differing = 0;
        let mut first = None;
        for (at, (&x, &y)) in found.iter().zip(&expected).enumerate() {
            let near = match case.tolerance {
                None => x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
                Some(tolerance) => {
                    (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance * y.abs().max(1.0)
                }
            };
            if !near {
                differing += 1;
                first = first.or(Some((at, x, y)));
            }
        }
        if let Some((at, x, y)) = first {
            let all = found.len();
            return Some(format!(
                "output {number}: {differing} of {all} differ, first at {at}: {x} instead of {y}"
            ));
        }
    }
    None
}
