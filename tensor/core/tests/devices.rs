//! Several devices in one process: evaluations of one do not wait for those of another, and copies may be direct.

mod reference;

use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use reference::{Reference, decode};
use tensor_core::device::{Buffer, Device, DeviceInfo};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::ops::elementwise::add;
use tensor_core::step::{Step, Work};
use tensor_core::{Tensor, eval};

/// A reference device with a name, which reports when it begins to run steps and waits until it may.
#[derive(Debug)]
struct Gated {
    name: &'static str,
    inner: Reference,
    gate: Option<(Sender<()>, Mutex<Receiver<()>>)>,
    /// Whether it copies from others directly.
    direct: bool,
}

impl Device for Gated {
    fn name(&self) -> &str {
        self.name
    }
    fn info(&self) -> Result<DeviceInfo, DeviceError> {
        self.inner.info()
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        self.inner.allocate(bytes)
    }
    fn upload(&self, to: &Buffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.upload(to, offset, bytes)
    }
    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.download(from, offset, into)
    }
    fn run(&self, steps: &[Step]) -> Result<(), DeviceError> {
        if let Some((begun, may)) = &self.gate {
            begun.send(()).unwrap();
            may.lock().unwrap().recv().unwrap();
        }
        self.inner.run(steps)
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn supports(&self, work: &Work, dtypes: &[DType]) -> bool {
        self.inner.supports(work, dtypes)
    }
    fn copy_from(
        &self,
        to: &Buffer,
        other: &dyn Device,
        from: &Buffer,
        offset: usize,
        bytes: usize,
    ) -> Option<Result<(), DeviceError>> {
        let mut moved = vec![0; bytes];
        self.direct.then(|| {
            other.download(from, offset, &mut moved)?;
            self.upload(to, 0, &moved)
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn tensor(device: &Arc<dyn Device>, values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::F32, &[values.len()], &bytes).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_bytes().unwrap().chunks(4).map(|bytes| decode(bytes, DType::F32)).collect()
}

#[test]
fn an_evaluation_does_not_wait_for_that_of_another_device() {
    let ((begun, has_begun), (may, is_allowed)) = (channel(), channel());
    let gate = Some((begun, Mutex::new(is_allowed)));
    let slow: Arc<dyn Device> =
        Arc::new(Gated { name: "test:0", inner: Reference::default(), gate, direct: false });
    let quick: Arc<dyn Device> =
        Arc::new(Gated { name: "test:1", inner: Reference::default(), gate: None, direct: false });
    let x = tensor(&slow, &[1.0, 2.0]);
    let sum = add(&x, &x).unwrap();
    let waiting = std::thread::spawn(move || {
        eval(std::slice::from_ref(&sum)).unwrap();
        numbers(&sum)
    });
    has_begun.recv().unwrap();
    // The slow device is in the middle of its evaluation until this one is done.
    let y = tensor(&quick, &[3.0]);
    assert_eq!(numbers(&add(&y, &y).unwrap()), [6.0]);
    may.send(()).unwrap();
    assert_eq!(waiting.join().unwrap(), [2.0, 4.0]);
}

#[test]
fn devices_that_copy_directly_get_the_elements_of_views_and_pass_gradients_back() {
    let device = |name, direct| -> Arc<dyn Device> {
        Arc::new(Gated { name, inner: Reference::default(), gate: None, direct })
    };
    for direct in [false, true] {
        let (here, there) = (device("test:0", direct), device("test:1", direct));
        let x = tensor(&here, &[1.0, 2.0, 3.0, 4.0]);
        x.set_requires_grad(true).unwrap();
        let part = tensor_core::ops::shape::slice(&x, 0, 1, 3, 1).unwrap();
        let moved = part.to_device(&there).unwrap();
        assert!(Arc::ptr_eq(moved.device(), &there));
        assert_eq!(numbers(&moved), [2.0, 3.0]);
        let double = add(&moved, &moved).unwrap();
        double.backward(Some(&tensor(&there, &[1.0, 10.0])), false).unwrap();
        assert_eq!(numbers(&x.grad().unwrap()), [0.0, 2.0, 20.0, 0.0]);
    }
}
