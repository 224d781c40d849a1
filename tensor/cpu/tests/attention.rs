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
const SCALE: f64 = 0.6;

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
    for (bytes, expected) in bytes.chunks(4).zip(expected) {
        let found = f64::from(f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
    }
}

#[test]
fn attention_and_its_gradient_are_those_of_the_formula() {
    let device = CpuDevice::with(&CpuOptions::default());
    let numbers = |count: usize, seed: f64| -> Vec<f64> {
        (0..count).map(|n| f64::from(((n as f64 * 1.7 + seed).sin()) as f32)).collect()
    };
    let [q, g] = [1.0, 2.0].map(|seed| numbers(HEADS * QUERIES * WIDTH, seed));
    let [k, v] = [3.0, 4.0].map(|seed| numbers(HEADS * KEYS * WIDTH, seed));
    for causal in [false, true] {
        let mut out = vec![0.0; q.len()];
        let mut kept = vec![0.0; HEADS * QUERIES];
        let (mut of_q, mut of_k, mut of_v) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for (row, kept) in kept.iter_mut().enumerate() {
            let (first, query) = (row / QUERIES * KEYS, row % QUERIES);
            let seen = if causal { (query + 1).min(KEYS) } else { KEYS };
            let dot = |a: &[f64], i: usize, b: &[f64], j: usize| -> f64 {
                (0..WIDTH).map(|n| a[i * WIDTH + n] * b[j * WIDTH + n]).sum()
            };
            let scores: Vec<f64> = (0..seen).map(|key| SCALE * dot(&q, row, &k, first + key)).collect();
            let sum: f64 = scores.iter().map(|score| score.exp()).sum();
            *kept = sum.ln();
            let weights: Vec<f64> = scores.iter().map(|score| score.exp() / sum).collect();
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
        let results = [operand(&device, [QUERIES, WIDTH], None), operand(&device, [QUERIES, 1], None)];
        let work = Work::Attention { causal, scale: SCALE };
        let inputs = vec![q.clone(), k.clone(), v.clone()];
        device.run(&[Step { work, inputs, outputs: results.to_vec() }]).unwrap();
        near(&device, &results[0], &out);
        near(&device, &results[1], &kept);
        let lengths = [[QUERIES, WIDTH], [KEYS, WIDTH], [KEYS, WIDTH]];
        let gradients = lengths.map(|lengths| operand(&device, lengths, None));
        let work = Work::AttentionGradient { causal, scale: SCALE };
        let [out_, kept_] = results;
        let inputs = vec![q, k, v, out_, kept_, g];
        device.run(&[Step { work, inputs, outputs: gradients.to_vec() }]).unwrap();
        for (gradient, expected) in gradients.iter().zip([of_q, of_k, of_v]) {
            near(&device, gradient, &expected);
        }
    }
}
