//! Fast path for the most common evaluation: one tensor, elementwise from tensors in memory. It is one launch, which is built
//! without planning the whole graph. Everything else takes the regular path, which produces the same result.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::{Buffer, Device, Row};
use crate::dtype::DType;
use crate::error::DeviceError;
use crate::layout::Layout;
use crate::node::{Buffers, Node, Op, Place};
use crate::program::{Code, Instruction, Program, Value};
use crate::step::{Operand, Step, Work};
use crate::tensor::{Result, device_error};

/// The most instructions; longer programs are worth a plan.
const LONGEST: usize = 32;

/// Computes a node if it qualifies, else returns `None`.
pub(crate) fn run(device: &Arc<dyn Device>, root: &Arc<Node>) -> Option<Result<()>> {
    let elements = root.elements();
    let computed = !matches!(root.op, Op::Constant(_) | Op::Index(_)) && root.op.is_elementwise();
    if !device.is_immediate() || !computed || elements == 0 {
        return None;
    }
    let Spare { program: Program { instructions, mut results }, rows } = SPARE.replace(Spare::new());
    let mut builder =
        Builder { root, instructions, rows, windows: Vec::new(), visited: SmallVec::new(), depth: 0 };
    results.push(builder.compute(root)?);
    if builder.visited.iter().any(Visited::is_awaited) {
        return None;
    }
    let Builder { instructions, rows, windows, visited, .. } = builder;
    let program = Program { instructions, results };
    let indexed = program.instructions.iter().any(|it| matches!(it.code, Code::Index(_)));
    let direct =
        if windows.is_empty() && !indexed { device.run_rows(&program, &rows, elements) } else { None };
    let launched = direct.unwrap_or_else(|| as_step(device, root, &program, &rows, &windows));
    Spare::keep(program, rows);
    drop(visited);
    Some(match launched {
        Ok(buffer) => {
            root.store(Buffers::from_iter([buffer]));
            Ok(())
        }
        Err(source) => Err(device_error("eval", device, source)),
    })
}

/// Runs the program as a regular step.
fn as_step(
    device: &Arc<dyn Device>,
    root: &Node,
    program: &Program,
    rows: &[Row],
    windows: &[(usize, Layout)],
) -> std::result::Result<Buffer, DeviceError> {
    let operand = |buffer: &Buffer, layout, dtype| Operand { buffer: buffer.clone(), layout, dtype };
    let inputs = rows.iter().enumerate().map(|(number, row)| {
        let window = windows.iter().find(|(of, _)| *of == number).map(|(_, layout)| layout.clone());
        operand(&row.buffer, window.unwrap_or_else(|| Layout::contiguous(&root.shape)), row.dtype)
    });
    let buffer = device.allocate(root.elements() * root.dtype.bytes())?;
    let output = operand(&buffer, Layout::contiguous(&root.shape), root.dtype);
    let step = Step { work: Work::Map(program.clone()), inputs: inputs.collect(), outputs: vec![output] };
    device.run(std::slice::from_ref(&step)).map(|()| buffer)
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare::new()) };
}

/// The emptied vectors of the previous launch, reused by the next: allocating them each time takes as long as the launch.
struct Spare {
    program: Program,
    rows: Vec<Row>,
}

impl Spare {
    const fn new() -> Spare {
        Spare { program: Program { instructions: Vec::new(), results: Vec::new() }, rows: Vec::new() }
    }

    fn keep(mut program: Program, mut rows: Vec<Row>) {
        program.instructions.clear();
        program.results.clear();
        rows.clear();
        SPARE.set(Spare { program, rows });
    }
}

struct Builder<'a> {
    root: &'a Arc<Node>,
    instructions: Vec<Instruction>,
    rows: Vec<Row>,
    /// Layouts of inputs that are not whole rows, by input number.
    windows: Vec<(usize, Layout)>,
    visited: SmallVec<[Visited; 8]>,
    /// The number of nodes that are being computed, each an input of the one before.
    depth: usize,
}

/// A visited node.
struct Visited {
    node: Arc<Node>,
    value: Value,
    /// The number of uses within this launch.
    uses: usize,
    computed: bool,
}

impl Visited {
    /// Whether a node outside of this launch uses this intermediate result. One reference is our own.
    fn is_awaited(&self) -> bool {
        self.computed && Arc::strong_count(&self.node) > self.uses + 1
    }
}

impl Builder<'_> {
    /// Returns the value of an input.
    fn value(&mut self, node: Arc<Node>) -> Option<Value> {
        if let Some(known) = self.visited.iter_mut().find(|known| Arc::ptr_eq(&known.node, &node)) {
            known.uses += 1;
            return Some(known.value);
        }
        let (value, computed) = match (node.stored(), &node.op) {
            (Some([buffer, ..]), _) => (self.input(buffer, None, node.dtype), false),
            (None, Op::View(_) | Op::Part(_)) => {
                let place = Place::of(&node);
                (self.input(place.buffer()?, Some(place.layout.clone()), node.dtype), false)
            }
            (None, &Op::Constant(value)) => (self.push(Code::Constant(value), &node)?, false),
            // Only nodes without a tensor are fused; a referenced one must be stored as well.
            (None, op) if op.is_elementwise() && !node.is_held() && node.shape == self.root.shape => {
                (self.compute(&node)?, true)
            }
            _ => return None,
        };
        self.visited.push(Visited { node, value, uses: 1, computed });
        Some(value)
    }

    /// Adds a buffer, or a view of it, as an input.
    fn input(&mut self, buffer: &Buffer, window: Option<Layout>, dtype: DType) -> Value {
        let windows = &self.windows;
        let window_of =
            |number: usize| windows.iter().find(|(of, _)| *of == number).map(|(_, layout)| layout);
        let same = |(number, row): (usize, &Row)| {
            Arc::ptr_eq(&row.buffer, buffer) && row.dtype == dtype && window_of(number) == window.as_ref()
        };
        let number = self.rows.iter().enumerate().position(same).unwrap_or_else(|| {
            self.rows.push(Row { buffer: buffer.clone(), dtype });
            self.windows.extend(window.map(|window| (self.rows.len() - 1, window)));
            self.rows.len() - 1
        });
        let code = Code::Input(number as u16);
        let value = self.instructions.iter().position(|known| known.code == code).unwrap_or_else(|| {
            self.instructions.push(Instruction { code, dtype });
            self.instructions.len() - 1
        });
        value as Value
    }

    fn compute(&mut self, node: &Arc<Node>) -> Option<Value> {
        // Each of them becomes an instruction, so a longer path cannot fit; and the recursion stays shallow.
        if self.depth >= LONGEST {
            return None;
        }
        self.depth += 1;
        let mut of = [0; 3];
        for (value, input) in of.iter_mut().zip(node.inputs()) {
            *value = self.value(input)?;
        }
        self.depth -= 1;
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
