//! The shortest way for what is asked for most often: one tensor, made element by element of tensors that are there. That is one launch, which
//! is written down without looking at the graph as a whole. Whatever is different goes the long way, which gives the same.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::Device;
use crate::layout::Layout;
use crate::node::{Node, Op, Place};
use crate::program::{Code, Instruction, Program, Value};
use crate::step::{Operand, Step, Work};
use crate::tensor::{Result, device_error};

/// Instructions at most: longer programs are worth a plan.
const LONGEST: usize = 32;

/// Computes a node, if it is one of those.
pub(crate) fn run(device: &Arc<dyn Device>, root: &Arc<Node>) -> Option<Result<()>> {
    let elements = root.elements();
    let computed = !matches!(root.op, Op::Constant(_) | Op::Index(_)) && root.op.is_elementwise();
    if !device.is_immediate() || !computed || elements == 0 {
        return None;
    }
    let mut quick = Quick {
        root,
        instructions: Vec::with_capacity(LONGEST),
        inputs: Vec::with_capacity(4),
        known: SmallVec::new(),
    };
    let result = quick.compute(root)?;
    if quick.known.iter().any(Known::is_awaited) {
        return None;
    }
    let Quick { instructions, inputs, known, .. } = quick;
    let work = Work::Map(Program { instructions, results: vec![result] });
    let launched = device.allocate(elements * root.dtype.bytes()).and_then(|buffer| {
        let output =
            Operand { buffer: buffer.clone(), layout: Layout::contiguous(&root.shape), dtype: root.dtype };
        device.run(&[Step { work, inputs, outputs: vec![output] }])?;
        Ok(buffer)
    });
    drop(known);
    Some(match launched {
        Ok(buffer) => {
            root.store(vec![buffer]);
            Ok(())
        }
        Err(source) => Err(device_error("eval", device, source)),
    })
}

struct Quick<'a> {
    root: &'a Arc<Node>,
    instructions: Vec<Instruction>,
    inputs: Vec<Operand>,
    known: SmallVec<[Known; 8]>,
}

/// A node that was met.
struct Known {
    node: Arc<Node>,
    value: Value,
    /// How often it is an input of what is computed.
    uses: usize,
    computed: bool,
}

impl Known {
    /// Whether others will want what is computed on the way. One reference is our own.
    fn is_awaited(&self) -> bool {
        self.computed && Arc::strong_count(&self.node) > self.uses + 1
    }
}

impl Quick<'_> {
    /// The value of an input.
    fn value(&mut self, node: Arc<Node>) -> Option<Value> {
        if let Some(known) = self.known.iter_mut().find(|known| Arc::ptr_eq(&known.node, &node)) {
            known.uses += 1;
            return Some(known.value);
        }
        let place = Place::of(&node);
        let (value, computed) = match place.buffer() {
            Some(buffer) => {
                let operand = Operand { buffer: buffer.clone(), layout: place.layout, dtype: node.dtype };
                (self.operand(operand), false)
            }
            None => match node.op {
                Op::Constant(value) => (self.push(Code::Constant(value), &node)?, false),
                // What somebody holds is stored too.
                _ if node.op.is_elementwise() && !node.is_held() && node.shape == self.root.shape => {
                    (self.compute(&node)?, true)
                }
                _ => return None,
            },
        };
        self.known.push(Known { node, value, uses: 1, computed });
        Some(value)
    }

    fn operand(&mut self, operand: Operand) -> Value {
        let same = |known: &Operand| {
            Arc::ptr_eq(&known.buffer, &operand.buffer)
                && known.layout == operand.layout
                && known.dtype == operand.dtype
        };
        let dtype = operand.dtype;
        let number = self.inputs.iter().position(same).unwrap_or_else(|| {
            self.inputs.push(operand);
            self.inputs.len() - 1
        });
        let code = Code::Input(number as u16);
        let value = self.instructions.iter().position(|known| known.code == code).unwrap_or_else(|| {
            self.instructions.push(Instruction { code, dtype });
            self.instructions.len() - 1
        });
        value as Value
    }

    fn compute(&mut self, node: &Arc<Node>) -> Option<Value> {
        let mut of = [0; 3];
        for (value, input) in of.iter_mut().zip(node.inputs()) {
            *value = self.value(input)?;
        }
        let code = match node.op {
            Op::Index(axis) => Code::Index(axis),
            Op::Cast => Code::Cast(of[0]),
            Op::Unary(unary) => Code::Unary(unary, of[0]),
            Op::Binary(binary) => Code::Binary(binary, of[0], of[1]),
            Op::Select => Code::Select(of[0], of[1], of[2]),
            Op::Copy => return Some(of[0]),
            _ => return None,
        };
        self.push(code, node)
    }

    fn push(&mut self, code: Code, node: &Node) -> Option<Value> {
        if self.instructions.len() >= LONGEST || !Arc::ptr_eq(&node.device, &self.root.device) {
            return None;
        }
        self.instructions.push(Instruction { code, dtype: node.dtype });
        Some((self.instructions.len() - 1) as Value)
    }
}
