//! Launch templates: the launches of a step without addresses. Two steps that differ only in memory share the launches with other
//! words, so the source is generated once for both.
//!
//! While a kernel is generated, operands, workspaces and random seeds have symbolic addresses; binding a template replaces them
//! by the actual values.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::error::DeviceError;
use tensor_core::step::{Operand, Step, Work};

use crate::memory::{Block, Imaginary, address_of};
use crate::source::Launch;
use crate::symbolic::{FAULTS, LAST, WITHIN, WORKSPACES};
use crate::work::{Plan, Target};

/// The most templates. When full, all are dropped: a program with so many kinds of steps does not repeat them.
const MOST: usize = 1 << 13;

#[derive(Debug)]
pub(crate) struct Template {
    launches: Vec<Launch>,
    workspaces: Vec<usize>,
    looks: bool,
}

impl Template {
    /// Whether it checks indices, and so may find one out of bounds.
    pub(crate) fn looks(&self) -> bool {
        self.looks
    }

    fn new(target: Target, step: &Step) -> Result<Template, DeviceError> {
        if step.inputs.len() + step.outputs.len() >= WORKSPACES as usize {
            return Err(DeviceError::Unsupported("the step has too many operands".to_owned()));
        }
        let mut place = 0;
        let mut placed = |operand: &Operand| {
            place += 1;
            Operand { buffer: Arc::new(Imaginary(place << WITHIN)), ..operand.clone() }
        };
        let step = Step {
            work: step.work.clone(),
            inputs: step.inputs.iter().map(&mut placed).collect(),
            outputs: step.outputs.iter().map(&mut placed).collect(),
        };
        let mut plan = Plan::new(target);
        plan.add(&step)?;
        let looks = |launch: &Launch| launch.addresses.iter().any(|&word| launch.words[word] == FAULTS.0);
        let looks = plan.launches.iter().any(looks);
        Ok(Template { launches: plan.launches, workspaces: plan.workspaces, looks })
    }

    /// Appends the launches of a step, and the workspaces that they need until they have run.
    pub(crate) fn bind(
        &self,
        step: &Step,
        faults: u64,
        allocate: impl Fn(usize) -> Result<Block, DeviceError>,
        launches: &mut Vec<Launch>,
        held: &mut Vec<Block>,
    ) -> Result<(), DeviceError> {
        let first = held.len();
        for &bytes in &self.workspaces {
            held.push(allocate(bytes)?);
        }
        let workspaces = &held[first..];
        let operands = step.inputs.iter().chain(&step.outputs);
        let places: Option<Vec<u64>> = operands.map(|operand| address_of(&*operand.buffer)).collect();
        let Some(places) = places else {
            return Err(DeviceError::Unsupported(
                "an operand is on another device; move it with `.to(device)` first".to_owned(),
            ));
        };
        let seeds = match step.work {
            Work::Random { seed, offset, .. } => [seed, offset],
            _ => [0; 2],
        };
        for template in &self.launches {
            let mut launch = template.clone();
            for &word in &*template.addresses {
                let (place, within) =
                    (launch.words[word] >> WITHIN, launch.words[word] & ((1 << WITHIN) - 1));
                let start = match place {
                    LAST => seeds[0],
                    place if place == LAST - 1 => seeds[1],
                    place if place == LAST - 2 => faults,
                    WORKSPACES.. => workspaces[(place - WORKSPACES) as usize].address,
                    place => places[place as usize - 1],
                };
                launch.words[word] = start + within;
            }
            launches.push(launch);
        }
        Ok(())
    }
}

/// Templates by step signature.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    known: Mutex<HashMap<Vec<u64>, Arc<Template>>>,
}

impl Templates {
    /// Returns the unbound launches of steps with these signatures; `None` if one of them is unknown.
    pub(crate) fn launches(&self, target: Target, signatures: &[Vec<u64>]) -> Option<Vec<Launch>> {
        let known = self.known.lock();
        let mut launches = Vec::new();
        for signature in signatures {
            launches.extend(known.get(&key(target, signature.clone()))?.launches.iter().cloned());
        }
        Some(launches)
    }

    pub(crate) fn of(&self, target: Target, step: &Step) -> Result<Arc<Template>, DeviceError> {
        let key = key(target, step.signature());
        if let Some(known) = self.known.lock().get(&key) {
            return Ok(known.clone());
        }
        let template = Arc::new(Template::new(target, step)?);
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, template.clone());
        Ok(template)
    }
}

/// The tile size and interpretation are part of the key, because they change the launches.
fn key(target: Target, mut signature: Vec<u64>) -> Vec<u64> {
    signature.push(target.tile.unwrap_or(0) as u64 | u64::from(target.interpret.is_some()) << 32);
    signature
}

#[cfg(test)]
mod tests {
    use tensor_core::dtype::DType;
    use tensor_core::layout::Layout;
    use tensor_core::program::Program;
    use tensor_core::step::{Distribution, Reduction};

    use super::*;

    const TARGET: Target = Target { compute_units: 4, matrix_cores: false, tile: None, interpret: None };

    fn operand(address: u64, length: usize, offset: usize) -> Operand {
        let layout = Layout { offset, ..Layout::contiguous(&[length]) };
        Operand { buffer: Arc::new(Imaginary(address)), layout, dtype: DType::F32 }
    }

    fn bound(templates: &Templates, step: &Step) -> Vec<Launch> {
        let (mut launches, mut held) = (Vec::new(), Vec::new());
        let none = |_| Err(DeviceError::Unavailable("no memory here".to_owned()));
        templates.of(TARGET, step).unwrap().bind(step, 0, none, &mut launches, &mut held).unwrap();
        launches
    }

    #[test]
    fn a_step_with_other_memory_is_the_same_kernel_with_other_addresses() {
        let templates = Templates::default();
        let step = |from: u64, to: u64| Step {
            work: Work::Map(Program::identity(DType::F32)),
            inputs: vec![operand(from, 99, 5)],
            outputs: vec![operand(to, 99, 0)],
        };
        let (first, second) =
            (bound(&templates, &step(0x7000, 0x9000)), bound(&templates, &step(0xa000, 0x7000)));
        assert!(Arc::ptr_eq(&first[0].kernel, &second[0].kernel));
        let at =
            |launch: &Launch| launch.addresses.iter().map(|&word| launch.words[word]).collect::<Vec<_>>();
        assert_eq!(at(&first[0]), [0x7000 + 20, 0x9000]);
        assert_eq!(at(&second[0]), [0xa000 + 20, 0x7000]);
        let longer = Step { outputs: vec![operand(1, 98, 0)], inputs: vec![operand(2, 98, 5)], ..step(0, 0) };
        assert!(!Arc::ptr_eq(&bound(&templates, &longer)[0].kernel, &first[0].kernel));
    }

    #[test]
    fn numbers_at_random_get_their_own_seed_every_time() {
        let templates = Templates::default();
        let step = |seed: u64, offset: u64| Step {
            work: Work::Random { seed, offset, distribution: Distribution::Uniform },
            inputs: Vec::new(),
            outputs: vec![operand(0x7000, 99, 0)],
        };
        // A seed may use all 64 bits.
        let (first, second) = (bound(&templates, &step(u64::MAX, 3)), bound(&templates, &step(8, 4)));
        assert!(Arc::ptr_eq(&first[0].kernel, &second[0].kernel));
        for (launch, expected) in [(&first[0], [u64::MAX, 3, 0x7000]), (&second[0], [8, 4, 0x7000])] {
            let words: Vec<u64> = launch.addresses.iter().map(|&word| launch.words[word]).collect();
            assert_eq!(words, expected);
        }
    }

    #[test]
    fn workspaces_are_asked_for_every_time() {
        let step = Step {
            work: Work::Reduce {
                program: Program::identity(DType::F32),
                reduction: Reduction::Sum,
                axes: vec![0],
                mapped: 1,
                epilogue: Program::identity(DType::F32),
            },
            inputs: vec![operand(0x7000, 1 << 20, 0)],
            outputs: vec![operand(0x9000, 1, 0)],
        };
        let templates = Templates::default();
        let template = templates.of(TARGET, &step).unwrap();
        assert_eq!((template.launches.len(), template.workspaces.len()), (2, 1));
        let none = |_| Err(DeviceError::Unavailable("no memory here".to_owned()));
        assert!(template.bind(&step, 0, none, &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
