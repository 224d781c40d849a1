//! Times what the host does to verify one sample of each measured case whole: inputs, reference, comparison. It needs no device.
//!
//! Arguments, all optional: `--threads 1,2` (one run for each number, in alternation), `--only TEXT` (cases whose names contain it, like
//! `softmax: m=8192`),
//! `--type float16` (instead of each problem's default), `--most-mib 2000` (leave out cases with larger arguments), `--place emulated`,
//! `--slowest 20` (lines of the summary).

use std::time::Instant;

use board_problems::{Case, Dtype, Place, Problem, Set, Values, all, with_threads};

/// Operations above which the judge's reference does not compute whole outputs.
const MOST_OPERATIONS: f64 = 2e10;
const SEED: u64 = 1;

struct Options {
    threads: Vec<usize>,
    only: String,
    dtype: Option<Dtype>,
    most_bytes: usize,
    place: Place,
    slowest: usize,
}

struct Measured {
    name: String,
    mib: usize,
    /// For each number of threads: seconds of the inputs, the reference and the comparison.
    seconds: Vec<[f64; 3]>,
    /// Of all expected values, to compare two versions of the references.
    hash: u64,
}

fn main() {
    let options = options();
    let mut results: Vec<Measured> = Vec::new();
    for problem in all() {
        let dtype = options.dtype.unwrap_or(problem.dtypes[0]);
        if !problem.dtypes.contains(&dtype) {
            continue;
        }
        for case in problem.cases(Set::Bench, options.place) {
            let name = format!("{}: {}", problem.slug, case.name);
            if !name.contains(&options.only) {
                continue;
            }
            let bytes = problem.bytes_of_arguments(case, dtype);
            if bytes > options.most_bytes || problem.flops(case).unwrap_or(0.0) > MOST_OPERATIONS {
                continue;
            }
            let (mut seconds, mut hash) = (Vec::new(), 0);
            for threads in &options.threads {
                let (parts, of_all) = with_threads(*threads, || parts(problem, case, dtype));
                assert!(seconds.is_empty() || hash == of_all, "{threads} threads compute something else");
                seconds.push(parts);
                hash = of_all;
            }
            let measured = Measured { name, mib: bytes >> 20, seconds, hash };
            println!("{}", line(&measured));
            results.push(measured);
        }
    }
    results.sort_by(|one, two| total(two).total_cmp(&total(one)));
    println!("\nslowest, for {:?} threads: seconds of inputs + reference + comparison", options.threads);
    for measured in results.iter().take(options.slowest) {
        println!("{}", line(measured));
    }
    for (index, threads) in options.threads.iter().enumerate() {
        let all: f64 = results.iter().map(|it| it.seconds[index].iter().sum::<f64>()).sum();
        println!("{} cases, {threads} threads: {all:.1} s", results.len());
    }
}

/// Seconds of the inputs, the reference and the comparison, and the hash of the expected values.
fn parts(problem: &Problem, case: &Case, dtype: Dtype) -> ([f64; 3], u64) {
    let mut prepared = problem.outline(case, dtype);
    let start = Instant::now();
    match problem.generators(case, dtype) {
        Some(generators) => {
            for (argument, generator) in prepared.arguments.iter_mut().zip(generators) {
                if let Some(generator) = generator {
                    argument.value.set_bytes(generator.elements(SEED));
                }
            }
        }
        None => prepared = problem.prepare(case, dtype, SEED),
    }
    let inputs = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let expected = problem.expected(case, dtype, &prepared);
    let reference = start.elapsed().as_secs_f64();
    drop(prepared);
    let outputs: Vec<Vec<u8>> = expected.iter().map(|it| it.values.encode(it.element)).collect();
    let start = Instant::now();
    for (expected, output) in expected.iter().zip(&outputs) {
        let comparison = problem.compare(case, dtype, expected, output);
        assert!(comparison.passed, "{}: {}: {:?}", problem.slug, case.name, comparison.samples);
    }
    let seconds = [inputs, reference, start.elapsed().as_secs_f64()];
    (seconds, expected.iter().fold(0, |sum, expected| hash(&expected.values, sum)))
}

fn hash(values: &Values, start: u64) -> u64 {
    let mix = |sum: u64, bits: u64| (sum.rotate_left(5) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match values {
        Values::Floats(values) => values.iter().fold(start, |sum, value| mix(sum, value.to_bits())),
        Values::Integers(values) => values.iter().fold(start, |sum, value| mix(sum, *value as u64)),
        Values::Naturals(values) => values.iter().fold(start, |sum, value| mix(sum, *value)),
    }
}

fn total(measured: &Measured) -> f64 {
    measured.seconds.last().map_or(0.0, |last| last.iter().sum())
}

fn line(measured: &Measured) -> String {
    let each = measured.seconds.iter().map(|[inputs, reference, comparison]| {
        let total = inputs + reference + comparison;
        format!("{total:7.2} = {inputs:.2} + {reference:.2} + {comparison:.2}")
    });
    let each: Vec<String> = each.collect();
    format!("{} | {} MiB | {:016x} | {}", each.join(" | "), measured.mib, measured.hash, measured.name)
}

fn options() -> Options {
    let mut options = Options {
        threads: vec![1, std::thread::available_parallelism().map_or(1, usize::from)],
        only: String::new(),
        dtype: None,
        most_bytes: usize::MAX,
        place: Place::Real,
        slowest: 20,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
        let number = || value.parse::<usize>().unwrap_or_else(|_| panic!("{name}: {value} is no number"));
        match name.as_str() {
            "--threads" => {
                let numbers = value.split(',').map(|it| it.parse().expect("a number of threads"));
                options.threads = numbers.collect();
            }
            "--only" => options.only = value,
            "--type" => options.dtype = Some(Dtype::from_name(&value).expect("an element type")),
            "--most-mib" => options.most_bytes = number() << 20,
            "--place" => options.place = if value == "emulated" { Place::Emulated } else { Place::Real },
            "--slowest" => options.slowest = number(),
            _ => panic!("unknown option {name}; see the first lines of examples/host_parts.rs"),
        }
    }
    options
}
