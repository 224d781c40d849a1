//! Writes through views: what they share, and which launches and copies they take.

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reference::{Reference, decode};
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::grad_mode::Guard;
use tensor_core::ops::elementwise::{binary_scalar, mul};
use tensor_core::ops::{create, diagonal, reduce, shape};
use tensor_core::program::Binary;
use tensor_core::{Tensor, eval};

struct Rig {
    device: Arc<dyn Device>,
    reference: Arc<Reference>,
}

fn rig() -> Rig {
    let reference = Arc::new(Reference::default());
    Rig { device: reference.clone(), reference }
}

impl Rig {
    /// Zero, one, two and so on, in memory.
    fn counted(&self, shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        let bytes: Vec<u8> = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
        Tensor::from_bytes(&self.device, DType::F32, shape, &bytes).unwrap()
    }

    fn launches(&self, run: impl FnOnce()) -> usize {
        let before = self.reference.launches.load(Ordering::Relaxed);
        run();
        self.reference.launches.load(Ordering::Relaxed) - before
    }
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(tensor.dtype().bytes()).map(|number| decode(number, tensor.dtype())).collect()
}

fn plus(x: &Tensor, number: f64) -> Tensor {
    binary_scalar(Binary::Add, x, Scalar::Float(number), false).unwrap()
}

#[test]
fn a_write_to_a_view_is_seen_by_all_that_share_its_elements() {
    let rig = rig();
    let x = rig.counted(&[3, 3]);
    let (turned, row) = (shape::transpose(&x, 0, 1).unwrap(), shape::select(&x, 0, 1).unwrap());
    let before = plus(&x, 0.0);
    row.assign(&rig.counted(&[3])).unwrap();
    diagonal::diagonal(&turned, 0, 0, 1).unwrap().assign(&plus(&rig.counted(&[3]), 10.0)).unwrap();
    assert_eq!(values(&x), [10.0, 1.0, 2.0, 0.0, 11.0, 2.0, 6.0, 7.0, 12.0]);
    assert_eq!(values(&turned), [10.0, 0.0, 6.0, 1.0, 11.0, 7.0, 2.0, 2.0, 12.0]);
    assert_eq!(values(&row), [0.0, 11.0, 2.0]);
    assert_eq!(values(&before)[3..5], [3.0, 4.0]);
    assert_eq!((x.version(), x.detach().version()), (2, 2));
}

#[test]
fn a_write_to_memory_that_nothing_else_needs_is_one_launch() {
    let rig = rig();
    let (x, row) = (rig.counted(&[4, 4]), rig.counted(&[4]));
    for at in 0..4 {
        shape::select(&x, 0, at).unwrap().assign(&row).unwrap();
    }
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&x)).unwrap()), 4);
    assert_eq!(values(&x), [0.0, 1.0, 2.0, 3.0].repeat(4));
}

#[test]
fn a_write_copies_once_what_others_still_need() {
    let rig = rig();
    let (x, row) = (rig.counted(&[4, 4]), rig.counted(&[4]));
    let (saved, sum) = (x.snapshot(), reduce::sum(&x, None, false).unwrap());
    for at in 0..2 {
        shape::select(&x, 0, at).unwrap().assign(&row).unwrap();
    }
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&x)).unwrap()), 3);
    assert_eq!(values(&saved)[4..8], [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(values(&sum), [120.0]);
    // The copy belongs to `x` alone.
    shape::select(&x, 0, 2).unwrap().assign(&row).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&x)).unwrap()), 1);
}

#[test]
fn elements_that_are_read_and_overwritten_are_read_first() {
    let rig = rig();
    let x = rig.counted(&[6]);
    let part = |start| shape::slice(&x, 0, start, start + 3, 1).unwrap();
    part(1).assign(&part(0)).unwrap();
    assert_eq!(values(&x), [0.0, 0.0, 1.0, 2.0, 4.0, 5.0]);
    part(0).assign(&part(2)).unwrap();
    part(3).assign(&plus(&part(3), 1.0)).unwrap();
    assert_eq!(values(&x), [1.0, 2.0, 4.0, 3.0, 5.0, 6.0]);
}

#[test]
fn a_value_between_two_writes_is_that_of_its_time() {
    let rig = rig();
    let x = create::zeros(&rig.device, DType::F32, &[4]).unwrap();
    let one = create::ones(&rig.device, DType::F32, &[]).unwrap();
    let mut sums = Vec::new();
    for at in 0..4 {
        shape::select(&x, 0, at).unwrap().assign(&one).unwrap();
        sums.push(reduce::sum(&x, None, false).unwrap());
    }
    eval(&[x.clone(), sums[2].clone(), sums[0].clone()]).unwrap();
    let sums: Vec<f64> = sums.iter().map(|sum| values(sum)[0]).collect();
    assert_eq!((sums, values(&x)), (vec![1.0, 2.0, 3.0, 4.0], vec![1.0; 4]));
}

#[test]
fn gradients_of_a_write_go_to_what_was_written_and_to_the_rest() {
    let rig = rig();
    let (x, y) = (rig.counted(&[2, 2]), rig.counted(&[2]));
    x.set_requires_grad(true).unwrap();
    y.set_requires_grad(true).unwrap();
    let z = plus(&x, 1.0);
    let column = shape::select(&z, 1, 0).unwrap();
    column.assign(&mul(&y, &y).unwrap()).unwrap();
    let loss = reduce::sum(&mul(&z, &z).unwrap(), None, false).unwrap();
    loss.backward(None, true).unwrap();
    // z = [[y0^2, x1 + 1], [y1^2, x3 + 1]].
    assert_eq!(values(&x.grad().unwrap()), [0.0, 4.0, 0.0, 8.0]);
    assert_eq!(values(&y.grad().unwrap()), [0.0, 4.0]);
    // The view's own history follows that of its tensor.
    y.set_grad(None);
    reduce::sum(&column, None, false).unwrap().backward(None, false).unwrap();
    assert_eq!(values(&y.grad().unwrap()), [0.0, 2.0]);
}

#[test]
fn a_backward_pass_refuses_what_was_changed_since() {
    let rig = rig();
    let (x, y) = (rig.counted(&[2]), rig.counted(&[2]));
    x.set_requires_grad(true).unwrap();
    let loss = reduce::sum(&mul(&x, &y).unwrap(), None, false).unwrap();
    shape::select(&y, 0, 0).unwrap().assign(&shape::select(&y, 0, 1).unwrap()).unwrap();
    let refused = loss.backward(None, false).unwrap_err().to_string();
    assert!(refused.contains("mul") && refused.contains("inplace"), "{refused}");
    let leaf = x.assign(&y).unwrap_err().to_string();
    assert!(leaf.contains("leaf"), "{leaf}");
    let _mode = Guard::new(false);
    x.assign(&y).unwrap();
    assert_eq!(values(&x), [1.0, 1.0]);
}

#[test]
fn pending_operations_are_computed_before_they_are_too_many() {
    let rig = rig();
    let mut x = rig.counted(&[1]);
    let launches = rig.launches(|| {
        for _ in 0..10_000 {
            x = plus(&x, 1.0);
        }
    });
    assert!(launches > 0);
    assert_eq!(values(&x), [10_000.0]);
}
