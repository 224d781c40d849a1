//! Benchmarks steps on one thread: the minimum CPU time of many runs, so that other load does not matter. Command-line arguments
//! select the cases by name prefix.

use std::sync::Arc;
use std::time::Duration;

use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::layout::{Layout, Shape};
use tensor_core::program::{Binary, Code, Instruction, Program, Unary};
use tensor_core::step::{Accumulation, Distribution, Operand, Reduction, Step, Work};
use tensor_cpu::{CpuDevice, CpuOptions};

fn main() {
    let device = CpuDevice::with(&CpuOptions { threads: Some(1), ..CpuOptions::default() });
    let bench = Speed { device, wanted: std::env::args().skip(1).collect() };
    for size in [64, 128, 256, 512, 1024, 2048] {
        bench.matmul(&format!("matmul {size}"), [1, size, size, size], true);
    }
    for size in [256, 1024] {
        bench.matmul(&format!("linear {size}"), [1, size, size, size], false);
    }
    bench.matmul("linear 32x784x256", [1, 32, 256, 784], false);
    bench.matmul("linear 1x1024x1024", [1, 1, 1024, 1024], false);
    bench.matmul("matmul 1x1024x1024", [1, 1, 1024, 1024], true);
    bench.matmul("bmm 64x128x64x128", [64, 128, 128, 64], true);
    bench.conv("conv 8x64x56x56 3x3 64");
    for elements in [10_000, 1_000_000, 16_000_000] {
        bench.map(&format!("chain {elements}"), elements, chain());
        bench.map(&format!("gelu {elements}"), elements, gelu());
        bench.map(
            &format!("add {elements}"),
            elements,
            Program { instructions: vec![input(0), input(1), binary(Binary::Add, 0, 1)], results: vec![2] },
        );
        bench.map(&format!("exp {elements}"), elements, unary(Unary::Exp));
        bench.map(&format!("log {elements}"), elements, unary(Unary::Log));
        bench.map(&format!("tanh {elements}"), elements, unary(Unary::Tanh));
        bench.map(&format!("sin {elements}"), elements, unary(Unary::Sin));
    }
    for (rows, columns) in [(4096, 64), (1024, 1000), (128, 32_000)] {
        let shape = [rows, columns];
        let at = format!("{rows}x{columns}");
        bench.step(&format!("softmax {at}"), Work::Softmax { axis: 1, log: false }, &[&shape], &[&shape]);
        let work = Work::Normalise { axes: 1, epsilon: 1e-5 };
        bench.step(&format!("norm {at}"), work, &[&shape], &[&shape]);
        bench.step(&format!("sum1 {at}"), sum(vec![1]), &[&shape], &[&[rows, 1]]);
        bench.step(&format!("sum0 {at}"), sum(vec![0]), &[&shape], &[&[1, columns]]);
        bench.step(&format!("max1 {at}"), reduce(Reduction::Max, vec![1]), &[&shape], &[&[rows, 1]]);
    }
    bench.step("sum 16000000", sum(vec![0]), &[&[16_000_000]], &[&[1]]);
    bench.step("sum 1000000", sum(vec![0]), &[&[1_000_000]], &[&[1]]);
    let identity = Work::Map(Program::identity(DType::F32));
    bench.timed("transpose 2048", identity, &[transposed(2048)], &[&[2048, 2048]]);
}

fn sum(axes: Vec<usize>) -> Work {
    reduce(Reduction::Sum, axes)
}

fn reduce(reduction: Reduction, axes: Vec<usize>) -> Work {
    let identity = Program::identity(DType::F32);
    Work::Reduce { program: identity.clone(), reduction, axes, mapped: 1, epilogue: identity }
}

fn transposed(size: usize) -> Layout {
    let mut layout = Layout::contiguous(&[size, size]);
    layout.strides.reverse();
    layout
}

fn input(number: u16) -> Instruction {
    Instruction { code: Code::Input(number), dtype: DType::F32 }
}

fn binary(what: Binary, left: u16, right: u16) -> Instruction {
    Instruction { code: Code::Binary(what, left, right), dtype: DType::F32 }
}

fn constant(value: f64) -> Instruction {
    Instruction { code: Code::Constant(Scalar::Float(value)), dtype: DType::F32 }
}

fn unary(what: Unary) -> Program {
    let function = Instruction { code: Code::Unary(what, 0), dtype: DType::F32 };
    Program { instructions: vec![input(0), function], results: vec![1] }
}

/// `max((a * b + a) * 0.5 - b, 0) * a`
fn chain() -> Program {
    let instructions = vec![
        input(0),
        input(1),
        binary(Binary::Mul, 0, 1),
        binary(Binary::Add, 2, 0),
        constant(0.5),
        binary(Binary::Mul, 3, 4),
        binary(Binary::Sub, 5, 1),
        constant(0.0),
        binary(Binary::Max, 6, 7),
        binary(Binary::Mul, 8, 0),
    ];
    Program { instructions, results: vec![9] }
}

/// `0.5 * x * (1 + erf(x / sqrt 2))`
fn gelu() -> Program {
    let instructions = vec![
        input(0),
        constant(std::f64::consts::FRAC_1_SQRT_2),
        binary(Binary::Mul, 0, 1),
        Instruction { code: Code::Unary(Unary::Erf, 2), dtype: DType::F32 },
        constant(1.0),
        binary(Binary::Add, 3, 4),
        constant(0.5),
        binary(Binary::Mul, 0, 6),
        binary(Binary::Mul, 7, 5),
    ];
    Program { instructions, results: vec![8] }
}

struct Speed {
    device: Arc<CpuDevice>,
    wanted: Vec<String>,
}

impl Speed {
    fn matmul(&self, name: &str, [batch, m, n, k]: [usize; 4], columns_follow: bool) {
        let right = match columns_follow {
            true => {
                let mut layout = Layout::contiguous(&[batch, k, n]);
                layout.shape.swap(1, 2);
                layout.strides.swap(1, 2);
                layout
            }
            false => Layout::contiguous(&[batch, n, k]),
        };
        let work = Work::Contract {
            batch: 1,
            rows: 1,
            columns: 1,
            depth: 1,
            accumulation: Accumulation::Ordered,
            padding: None,
            convolution: None,
            epilogue: Program::identity(DType::F32),
        };
        self.timed(name, work, &[Layout::contiguous(&[batch, m, k]), right], &[&[batch, m, n]]);
    }

    fn conv(&self, name: &str) {
        let (n, c, size) = (8, 64, 58);
        let whole = Layout::contiguous(&[n, c, size, size]);
        let [sn, sc, sh, sw] = whole.strides[..] else { unreachable!("four axes") };
        let windows = Layout {
            shape: Shape::from_slice(&[n, 56, 56, c, 3, 3]),
            strides: [sn, sh, sw, sc, sh, sw].into_iter().collect(),
            offset: 0,
        };
        let mut weight = Layout::contiguous(&[1, c, c, 3, 3]);
        weight.shape[0] = n;
        weight.strides[0] = 0;
        let work = Work::Contract {
            batch: 1,
            rows: 1,
            columns: 2,
            depth: 3,
            accumulation: Accumulation::Ordered,
            padding: None,
            convolution: None,
            epilogue: Program::identity(DType::F32),
        };
        self.timed(name, work, &[weight, windows], &[&[n, c, 56, 56]]);
    }

    fn map(&self, name: &str, elements: usize, program: Program) {
        let inputs: &[&[usize]] = &[&[elements], &[elements]];
        let used = program.instructions.iter().filter(|one| matches!(one.code, Code::Input(_))).count();
        self.step(name, Work::Map(program), &inputs[..used], &[&[elements]]);
    }

    fn step(&self, name: &str, work: Work, inputs: &[&[usize]], outputs: &[&[usize]]) {
        let layouts: Vec<Layout> = inputs.iter().map(|shape| Layout::contiguous(shape)).collect();
        self.timed(name, work, &layouts, outputs);
    }

    fn timed(&self, name: &str, work: Work, inputs: &[Layout], outputs: &[&[usize]]) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| name.starts_with(wanted)) {
            return;
        }
        let reach = |layout: &Layout| -> usize {
            let steps = layout.shape.iter().zip(&layout.strides);
            1 + steps.map(|(&length, &stride)| (length - 1) * stride as usize).sum::<usize>()
        };
        let inputs: Vec<Operand> = inputs
            .iter()
            .map(|layout| {
                let row = self.operand(Layout::contiguous(&[reach(layout)]));
                let work = Work::Random { seed: 1, offset: 0, distribution: Distribution::Uniform };
                self.device
                    .run(&[Step { work, inputs: vec![], outputs: vec![row.clone()] }])
                    .expect("random numbers");
                Operand { layout: layout.clone(), ..row }
            })
            .collect();
        let outputs = outputs.iter().map(|shape| self.operand(Layout::contiguous(shape))).collect();
        let step = [Step { work, inputs, outputs }];
        let mut least = Duration::MAX;
        let mut spent = Duration::ZERO;
        while spent < Duration::from_millis(300) {
            let before = processor_time();
            self.device.run(&step).expect("a benchmark step failed");
            let taken = processor_time() - before;
            least = least.min(taken);
            spent += taken;
        }
        println!("{name}\t{:.3}", least.as_secs_f64() * 1e6);
    }

    fn operand(&self, layout: Layout) -> Operand {
        let buffer = self.device.allocate(layout.elements() * 4).expect("memory");
        Operand { buffer, layout, dtype: DType::F32 }
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid local variable, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
