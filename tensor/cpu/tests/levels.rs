//! All instruction levels produce the same bits. Only the payload bits of NaN may differ.

mod support;

use std::sync::Arc;

use support::{Bench, Dice, Sample, Writer, decode};
use tensor_core::dtype::DType;
use tensor_core::program::{Binary, Program, Unary};
use tensor_core::step::{Accumulation, Reduction, Work};
use tensor_cpu::{CpuDevice, CpuOptions, Level};

/// A device for each level, with one thread and with three; results of the lowest level are compared with all others.
struct Levels {
    benches: Vec<(Level, Bench)>,
}

impl Levels {
    fn new() -> Levels {
        let bench = |level, threads| {
            let options = CpuOptions { level: Some(level), threads: Some(threads) };
            (level, Bench { device: CpuDevice::with(&options) })
        };
        Levels { benches: Level::all().flat_map(|level| [bench(level, 1), bench(level, 3)]).collect() }
    }

    /// `inputs` must produce the same samples on every device.
    fn agree(
        &self,
        what: &str,
        work: &Work,
        inputs: impl Fn(&Bench) -> Vec<Sample>,
        (dtype, shape): (DType, &[usize]),
    ) {
        let mut first: Option<Vec<u8>> = None;
        for (level, bench) in &self.benches {
            let inputs = inputs(bench);
            let borrowed: Vec<&Sample> = inputs.iter().collect();
            let own = bench.bytes(work.clone(), &borrowed, &[(dtype, shape)]).remove(0);
            let plain = first.get_or_insert_with(|| own.clone());
            for (n, (own, plain)) in own.chunks(dtype.bytes()).zip(plain.chunks(dtype.bytes())).enumerate() {
                let both = (decode(dtype, own), decode(dtype, plain));
                let nan = both.0.0.is_nan() && both.1.0.is_nan();
                assert!(
                    own == plain || nan,
                    "{what} at {level:?}: element {n} is {:?}, not {:?}",
                    both.0,
                    both.1
                );
            }
        }
    }
}

#[test]
fn every_level_contracts_to_the_same_bits() {
    let levels = Levels::new();
    // Few rows, many rows, more rows than one thread's share, depths next to the panel size.
    let sizes = [
        (1, 1, 70, 300),
        (2, 3, 65, 20),
        (1, 5, 129, 513),
        (3, 13, 33, 64),
        (1, 300, 40, 70),
        (1, 260, 70, 258),
    ];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
        for (number, &(batch, m, n, k)) in sizes.iter().enumerate() {
            let epilogue = match dtype {
                DType::F16 => {
                    let mut writer = Writer::default();
                    let sum = writer.input(0, DType::F32);
                    let half = writer.push(tensor_core::program::Code::Cast(sum), DType::F16);
                    writer.done(&[half])
                }
                other => Program::identity(other),
            };
            let accumulation = Accumulation::Ordered;
            let work = Work::Contract {
                batch: 1,
                rows: 1,
                columns: 1,
                depth: 1,
                accumulation,
                padding: None,
                convolution: None,
                epilogue,
            };
            let inputs = |bench: &Bench| {
                let mut dice = Dice::new(number as u64);
                let left = bench.random(&mut dice, dtype, &[batch, m, k]);
                vec![left, bench.random(&mut dice, dtype, &[batch, n, k])]
            };
            levels.agree(&format!("{dtype} {m} {n} {k}"), &work, inputs, (dtype, &[batch, m, n]));
        }
    }
}

#[test]
fn every_level_maps_and_reduces_to_the_same_bits() {
    let levels = Levels::new();
    let shape = [37, 211];
    let samples = |bench: &Bench, dtype: DType, scale: f64| {
        let mut dice = Dice::new(9);
        [0, 1].map(|_| {
            let values: Vec<f64> = (0..37 * 211).map(|_| dice.real() * scale).collect();
            bench.contiguous(dtype, &shape, &values)
        })
    };
    use Unary::*;
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for scale in [1.0, 40.0, 1e6] {
            for function in
                [Neg, Abs, Sign, Sqrt, Rsqrt, Recip, Exp, Log, Sin, Cos, Tanh, Sigmoid, Erf, Floor, Round]
            {
                let mut writer = Writer::default();
                let x = writer.input(0, dtype);
                let y = writer.unary(function, x, dtype);
                let work = Work::Map(writer.done(&[y]));
                let inputs = |bench: &Bench| samples(bench, dtype, scale)[..1].to_vec();
                levels.agree(&format!("{function:?} of {dtype}"), &work, inputs, (dtype, &shape));
            }
        }
        for function in [Binary::Add, Binary::Mul, Binary::Div, Binary::Max, Binary::Logaddexp] {
            let mut writer = Writer::default();
            let (x, y) = (writer.input(0, dtype), writer.input(1, dtype));
            let z = writer.binary(function, x, y, dtype);
            let work = Work::Map(writer.done(&[z]));
            let inputs = |bench: &Bench| samples(bench, dtype, 3.0).to_vec();
            levels.agree(&format!("{function:?} of {dtype}"), &work, inputs, (dtype, &shape));
        }
    }
    for reduction in [Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min] {
        for (axes, out) in [(vec![0], [1, 211]), (vec![1], [37, 1]), (vec![0, 1], [1, 1])] {
            let identity = Program::identity(DType::F32);
            let work =
                Work::Reduce { program: identity.clone(), reduction, axes, mapped: 1, epilogue: identity };
            let inputs = |bench: &Bench| samples(bench, DType::F32, 1.0)[..1].to_vec();
            levels.agree(&format!("{reduction:?}"), &work, inputs, (DType::F32, &out));
        }
    }
}

#[test]
fn every_level_normalises_rows_to_the_same_bits() {
    let levels = Levels::new();
    let shape = [19, 133];
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let works = [
            Work::Softmax { axis: 1, log: false },
            Work::Softmax { axis: 0, log: true },
            Work::Normalise { axes: 1, epsilon: 1e-5 },
        ];
        for work in works {
            let inputs = |bench: &Bench| vec![bench.random(&mut Dice::new(3), dtype, &shape)];
            levels.agree(&format!("{work:?} of {dtype}"), &work, inputs, (dtype, &shape));
        }
    }
}

#[test]
fn a_device_does_with_the_threads_it_is_given() {
    let device: Arc<CpuDevice> = CpuDevice::with(&CpuOptions { threads: Some(3), level: None });
    assert_eq!(tensor_core::device::Device::info(&*device).unwrap().compute_units, 3);
}
