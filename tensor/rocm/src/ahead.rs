//! Kernels that were compiled ahead of time when this crate was built, if a compiler was available: those of common steps, whose
//! source in `kernels/ahead.hip` is what steps would generate, and those that run any step (see [`crate::interpret`]).

include!(concat!(env!("OUT_DIR"), "/ahead.rs"));

/// Aligned, because code objects are read in place.
#[repr(C, align(4096))]
pub(crate) struct Aligned<T: ?Sized>(pub T);

/// Returns the code object that contains a kernel, for a target such as "gfx942".
pub(crate) fn find(target: &str, name: &str) -> Option<&'static [u8]> {
    NAMES.binary_search(&name).ok()?;
    AHEAD.iter().find(|(known, _)| *known == target).map(|(_, code)| &code.0)
}

/// Returns the code object of the kernels that run any step, with the target's name.
pub(crate) fn interpreter(target: &str) -> Option<(&'static str, &'static [u8])> {
    INTERPRET.iter().find(|(known, _)| *known == target).map(|(known, code)| (*known, &code.0))
}

/// The targets for which kernels run any step, for messages.
pub(crate) fn interpreted_targets() -> String {
    let names: Vec<&str> = INTERPRET.iter().map(|(known, _)| *known).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor_core::dtype::{DType, Scalar};
    use tensor_core::layout::Layout;
    use tensor_core::program::{Binary, Code, Instruction, Program};
    use tensor_core::step::{Accumulation, Distribution, Operand, Reduction, Step, Work};

    use super::*;
    use crate::memory::Imaginary;
    use crate::work::{Plan, Target};

    const F: DType = DType::F32;

    fn operand(shape: &[usize], strides: Option<&[isize]>) -> Operand {
        let mut layout = Layout::contiguous(shape);
        if let Some(strides) = strides {
            layout.strides = strides.into();
        }
        Operand { buffer: Arc::new(Imaginary(4096)), layout, dtype: F }
    }

    fn step(work: Work, inputs: Vec<Operand>, output: &[usize]) -> Step {
        Step { work, inputs, outputs: vec![operand(output, None)] }
    }

    fn program(codes: &[Code]) -> Program {
        let instructions = codes.iter().map(|&code| Instruction { code, dtype: F }).collect();
        Program { instructions, results: vec![codes.len() as u16 - 1] }
    }

    /// Steps that nearly every program uses.
    fn usual() -> Vec<(usize, Step)> {
        let zero = Code::Constant(Scalar::Float(0.0));
        let relu = program(&[Code::Input(0), zero, Code::Binary(Binary::Max, 0, 1)]);
        let sum = [Code::Input(0), Code::Input(1), Code::Binary(Binary::Add, 0, 1)];
        let mut steps = Vec::new();
        let matrix = |turned: bool| operand(&[99, 99], turned.then_some(&[1, 99]));
        for tile in [16, 64] {
            let biased_relu = [&sum[..], &[zero, Code::Binary(Binary::Max, 2, 3)]].concat();
            let bias = operand(&[99, 99], Some(&[0, 1]));
            for (turned, epilogue, others) in [
                ([false, false], Program::identity(F), vec![]),
                ([false, true], Program::identity(F), vec![]),
                ([true, true], Program::identity(F), vec![]),
                ([false, false], program(&sum), vec![bias.clone()]),
                ([false, false], program(&biased_relu), vec![bias]),
            ] {
                let accumulation = Accumulation::Ordered;
                let work = Work::Contract {
                    batch: 0,
                    rows: 1,
                    columns: 1,
                    depth: 1,
                    accumulation,
                    padding: None,
                    convolution: None,
                    epilogue,
                };
                let inputs = turned.map(matrix).into_iter().chain(others).collect();
                steps.push((tile, step(work, inputs, &[99, 99])));
            }
        }
        let row = || operand(&[9999], None);
        let mut add =
            |work: Work, inputs: Vec<Operand>, output: &[usize]| steps.push((16, step(work, inputs, output)));
        add(Work::Map(relu), vec![row()], &[9999]);
        add(Work::Map(Program::identity(F)), vec![row()], &[9999]);
        for binary in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
            let pair = program(&[Code::Input(0), Code::Input(1), Code::Binary(binary, 0, 1)]);
            add(Work::Map(pair), vec![row(), row()], &[9999]);
        }
        for length in [99, 999] {
            for log in [false, true] {
                let work = Work::Softmax { axis: 1, log };
                add(work, vec![operand(&[99, length], None)], &[99, length]);
            }
            let identity = Program::identity(F);
            let work = Work::Reduce {
                program: identity.clone(),
                reduction: Reduction::Sum,
                axes: vec![1],
                mapped: 1,
                epilogue: identity,
            };
            add(work, vec![operand(&[99, length], None)], &[99, 1]);
        }
        for distribution in [Distribution::Uniform, Distribution::Normal] {
            add(Work::Random { seed: 0, offset: 0, distribution }, vec![], &[9999]);
        }
        steps
    }

    #[test]
    fn the_file_of_kernels_built_ahead_has_what_steps_ask_for() {
        let mut texts: Vec<String> = Vec::new();
        for (tile, step) in usual() {
            let target = Target { compute_units: 1, matrix_cores: false, tile: Some(tile), interpret: None };
            let mut plan = Plan::new(target);
            plan.add(&step).unwrap();
            for launch in plan.launches {
                let text = launch.kernel.named();
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        let text = format!(
            "// Kernels that nearly every program uses, as src/work generates them. A test in src/ahead.rs writes this file.\n{}",
            texts.concat()
        );
        if text != include_str!("../kernels/ahead.hip") {
            let (mut file, path) = tempfile::NamedTempFile::new().unwrap().keep().unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            panic!(
                "the generated kernels have changed: copy {} to tensor/rocm/kernels/ahead.hip",
                path.display()
            );
        }
    }

    #[test]
    fn every_kernel_built_ahead_is_found_for_every_target_that_was_built() {
        assert!(NAMES.len() > 20);
        for (target, code) in AHEAD {
            assert_eq!(&code.0[..4], b"\x7fELF");
            assert!(NAMES.iter().all(|name| find(target, name).is_some()));
        }
        assert!(find("gfx942", "pf_map_0000000000000000").is_none());
    }
}
