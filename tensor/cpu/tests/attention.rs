//! Attention and its gradient on the CPU, as the steps that they consist of, compared with plain loops.

use std::sync::Arc;

use tensor_core::device::Device;
use tensor_core::dtype::DType;
use tensor_core::layout::Layout;
use tensor_core::step::{Operand, Step, Work};
use tensor_cpu::{CpuDevice, CpuOptions};

const HEADS: usize = 2;
const QUERIES: usize = 5;
const KEYS: usize = 7;
const WIDTH: usize = 3;
const SCALE: f64 = 0.5;

fn operand(device: &Arc<CpuDevice>, lengths: [usize; 2], values: Option<&[f64]>) -> Operand {
    let layout = Layout::contiguous(&[1, HEADS, lengths[0], lengths[1]]);
    let buffer = device.allocate(layout.elements() * 4).unwrap();
    if let Some(values) = values {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
        device.upload(&buffer, 0, &bytes).unwrap();
    }
    Operand { buffer, layout, dtype: DType::F32 }
}

fn near(device: &Arc<CpuDevice>, operand: &Operand, expected: &[f64]) {
    let mut bytes = vec![0; expected.len() * 4];
    device.download(&operand.buffer, 0, &mut bytes).unwrap();
    let most = expected.iter().fold(1.0, |most: f64, expected| most.max(expected.abs()));
    for (bytes, expected) in bytes.chunks(4).zip(expected) {
        let found = f64::from(f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!((found - expected).abs() < 1e-5 * most, "{found} instead of {expected}");
    }
}

fn numbers(count: usize, seed: f64) -> Vec<f64> {
    (0..count).map(|n| f64::from(((n as f64 * 1.7 + seed).sin()) as f32)).collect()
}

#[test]
fn attention_and_its_gradient_are_those_of_the_formula() {
    compare(numbers(HEADS * QUERIES * WIDTH, 1.0), numbers(HEADS * KEYS * WIDTH, 3.0));
}

/// Scores of some thousands that differ by a few, and are exact in f32. The logarithm of their sum of exponentials is not.
#[test]
fn attention_and_its_gradient_are_exact_for_high_scores() {
    let q = numbers(HEADS * QUERIES * WIDTH, 1.0).into_iter().map(|x| 512.0 + 64.0 * (4.0 * x).round());
    let k = numbers(HEADS * KEYS * WIDTH, 3.0).into_iter().map(|x| 8.0 + (2.0 * x).round() / 256.0);
    compare(q.collect(), k.collect());
}

/// Compares with the formula for these queries and keys.
fn compare(q: Vec<f64>, k: Vec<f64>) {
    let device = CpuDevice::with(&CpuOptions::default());
    let (g, v) = (numbers(HEADS * QUERIES * WIDTH, 2.0), numbers(HEADS * KEYS * WIDTH, 4.0));
    for causal in [false, true] {
        let mut out = vec![0.0; q.len()];
        let (mut highest, mut shares) = (vec![0.0; HEADS * QUERIES], vec![0.0; HEADS * QUERIES]);
        let (mut of_q, mut of_k, mut of_v) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for row in 0..HEADS * QUERIES {
            let (first, query) = (row / QUERIES * KEYS, row % QUERIES);
            let seen = if causal { (query + 1).min(KEYS) } else { KEYS };
            let dot = |a: &[f64], i: usize, b: &[f64], j: usize| -> f64 {
                (0..WIDTH).map(|n| a[i * WIDTH + n] * b[j * WIDTH + n]).sum()
            };
            let scores: Vec<f64> = (0..seen).map(|key| SCALE * dot(&q, row, &k, first + key)).collect();
            highest[row] = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|score| (score - highest[row]).exp()).collect();
            let sum: f64 = powers.iter().sum();
            shares[row] = 1.0 / sum;
            let weights: Vec<f64> = powers.iter().map(|power| power / sum).collect();
            let changes: Vec<f64> = (0..seen).map(|key| dot(&g, row, &v, first + key)).collect();
            let less: f64 = weights.iter().zip(&changes).map(|(weight, change)| weight * change).sum();
            for key in 0..seen {
                let change = SCALE * weights[key] * (changes[key] - less);
                for n in 0..WIDTH {
                    let (here, there) = (row * WIDTH + n, (first + key) * WIDTH + n);
                    out[here] += weights[key] * v[there];
                    of_q[here] += change * k[there];
                    of_k[there] += change * q[here];
                    of_v[there] += weights[key] * g[here];
                }
            }
        }
        let [q, g] = [&q, &g].map(|values| operand(&device, [QUERIES, WIDTH], Some(values)));
        let [k, v] = [&k, &v].map(|values| operand(&device, [KEYS, WIDTH], Some(values)));
        let results = [WIDTH, 1, 1].map(|width| operand(&device, [QUERIES, width], None));
        let work = Work::Attention { causal, scale: SCALE };
        let inputs = vec![q.clone(), k.clone(), v.clone()];
        device.run(&[Step { work, inputs, outputs: results.to_vec() }]).unwrap();
        near(&device, &results[0], &out);
        near(&device, &results[1], &highest);
        near(&device, &results[2], &shares);
        let lengths = [[QUERIES, WIDTH], [KEYS, WIDTH], [KEYS, WIDTH]];
        let gradients = lengths.map(|lengths| operand(&device, lengths, None));
        let work = Work::AttentionGradient { causal, scale: SCALE };
        let [out_, highest_, shares_] = results;
        let inputs = vec![q, k, v, out_, highest_, shares_, g];
        device.run(&[Step { work, inputs, outputs: gradients.to_vec() }]).unwrap();
        for (gradient, expected) in gradients.iter().zip([of_q, of_k, of_v]) {
            near(&device, gradient, &expected);
        }
    }
}
