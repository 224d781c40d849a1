//! Convolutions and pooling, in one to three dimensions.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use tensor_core::Tensor;
use tensor_core::dtype::Scalar;
use tensor_core::ops::conv::{self, ConvOptions};
use tensor_core::ops::pool::{self, PoolOptions};
use tensor_core::ops::window;

use crate::autocast::lowered;
use crate::error::raise;
use crate::operand::{Each, Operand, OutputSize, apply_some};
use crate::tensor::PyTensor;

/// Padding for "same": before and after each axis.
type Frames = Vec<(isize, isize)>;

/// Padding argument: numbers, or 'same' and 'valid'.
enum Padding {
    Each(Each),
    Same,
}

fn padding(given: Option<&Bound<'_, PyAny>>) -> PyResult<Padding> {
    let Some(given) = given else { return Ok(Padding::Each(Each::Same(0))) };
    let Ok(name) = given.cast::<PyString>() else { return Ok(Padding::Each(given.extract()?)) };
    match name.to_string().as_str() {
        "valid" => Ok(Padding::Each(Each::Same(0))),
        "same" => Ok(Padding::Same),
        other => Err(PyValueError::new_err(format!(
            "padding must be a number, numbers, 'same' or 'valid', not {other:?}"
        ))),
    }
}

/// Returns the padding that makes the output as long as the input, for a stride of one.
fn same(weight: &Tensor, options: &ConvOptions, name: &str) -> PyResult<Frames> {
    if options.stride.iter().any(|&stride| stride != 1) {
        return Err(PyValueError::new_err(format!("{name}: padding='same' needs a stride of 1")));
    }
    let kernel = weight.shape().iter().skip(2);
    Ok(kernel
        .zip(&options.dilation)
        .map(|(&length, &dilation)| {
            let total = (dilation * length.saturating_sub(1)) as isize;
            (total / 2, total - total / 2)
        })
        .collect())
}

fn framed(x: &Tensor, frames: &Frames) -> tensor_core::Result<Tensor> {
    let mut all = vec![(0, 0); x.rank().saturating_sub(frames.len())];
    all.extend(frames);
    window::pad(x, &all, Scalar::Int(0))
}

fn checked(name: &str, dims: usize, x: &Operand, weight: &Operand, bias: Option<&Operand>) -> PyResult<()> {
    let (Operand::Tensor(x, _), Operand::Tensor(weight, _)) = (x, weight) else {
        return Err(PyTypeError::new_err(format!("{name}: the weight must be a tensor")));
    };
    let types = [Some(weight.dtype()), bias.and_then(Operand::dtype)];
    if let Some(other) = types.into_iter().flatten().find(|&other| other != x.dtype()) {
        return Err(PyTypeError::new_err(format!(
            "{name}: input, weight and bias must have one type, not {} and {other}",
            x.dtype()
        )));
    }
    if weight.rank() != dims + 2 || (x.rank() != dims + 2 && x.rank() != dims + 1) {
        return Err(PyValueError::new_err(format!(
            "{name}: the input must have {} or {} dimensions and the weight {}; got {:?} and {:?}",
            dims + 1,
            dims + 2,
            dims + 2,
            x.shape(),
            weight.shape()
        )));
    }
    Ok(())
}

macro_rules! convolutions {
    ($($name:ident $transposed:ident $max:ident $avg:ident $adaptive:ident $dims:literal;)*) => {
        $(
            #[pymethods]
            impl PyTensor {
                /// The convolution (cross-correlation) over the last axes, as many as the name says; `padding` may be 'same' or 'valid'.
                #[pyo3(signature = (weight, bias=None, stride=Each::Same(1), padding=None, dilation=Each::Same(1), groups=1), text_signature = "($self, weight, bias=None, stride=1, padding=None, dilation=1, groups=1)")]
                fn $name(
                    &self,
                    weight: Operand,
                    bias: Option<Operand>,
                    stride: Each,
                    padding: Option<&Bound<'_, PyAny>>,
                    dilation: Each,
                    groups: usize,
                ) -> PyResult<PyTensor> {
                    let name = stringify!($name);
                    let (x, weight) = (lowered(Operand::from(self))?, lowered(weight)?);
                    let bias = bias.map(lowered).transpose()?;
                    checked(name, $dims, &x, &weight, bias.as_ref())?;
                    let mut options = ConvOptions {
                        stride: stride.of($dims, name, "stride")?,
                        padding: vec![0; $dims],
                        dilation: dilation.of($dims, name, "dilation")?,
                        groups,
                    };
                    let frames = match (self::padding(padding)?, &weight) {
                        (Padding::Same, Operand::Tensor(weight, _)) => Some(same(weight, &options, name)?),
                        (Padding::Each(each), _) => {
                            options.padding = each.of($dims, name, "padding")?;
                            None
                        }
                        (Padding::Same, Operand::Number(_)) => None,
                    };
                    apply_some(&[Some(x), Some(weight), bias], |x| match x {
                        [Some(x), Some(weight), bias] => match &frames {
                            Some(frames) => conv::conv(&framed(x, frames)?, weight, *bias, &options),
                            None => conv::conv(x, weight, *bias, &options),
                        },
                        _ => unreachable!("both operands were passed"),
                    })
                }

                #[expect(clippy::too_many_arguments, reason = "the parameters are PyTorch's")]
                /// The transposed convolution over the last axes, as many as the name says.
                #[pyo3(signature = (weight, bias=None, stride=Each::Same(1), padding=Each::Same(0), output_padding=Each::Same(0), groups=1, dilation=Each::Same(1)), text_signature = "($self, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)")]
                fn $transposed(
                    &self,
                    weight: Operand,
                    bias: Option<Operand>,
                    stride: Each,
                    padding: Each,
                    output_padding: Each,
                    groups: usize,
                    dilation: Each,
                ) -> PyResult<PyTensor> {
                    let name = stringify!($transposed);
                    let (x, weight) = (lowered(Operand::from(self))?, lowered(weight)?);
                    let bias = bias.map(lowered).transpose()?;
                    checked(name, $dims, &x, &weight, bias.as_ref())?;
                    let options = ConvOptions {
                        stride: stride.of($dims, name, "stride")?,
                        padding: padding.of($dims, name, "padding")?,
                        dilation: dilation.of($dims, name, "dilation")?,
                        groups,
                    };
                    let more = output_padding.of($dims, name, "output_padding")?;
                    apply_some(&[Some(x), Some(weight), bias], |x| match x {
                        [Some(x), Some(weight), bias] => conv::conv_transpose(x, weight, *bias, &options, &more),
                        _ => unreachable!("both operands were passed"),
                    })
                }

                /// The maximum of each window; with `return_indices` also its position in the input.
                #[expect(clippy::too_many_arguments, reason = "the parameters are PyTorch's")]
                #[pyo3(signature = (kernel_size, stride=None, padding=Each::Same(0), dilation=Each::Same(1), ceil_mode=false, return_indices=false), text_signature = "($self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)")]
                fn $max(
                    &self,
                    py: Python<'_>,
                    kernel_size: Each,
                    stride: Option<Each>,
                    padding: Each,
                    dilation: Each,
                    ceil_mode: bool,
                    return_indices: bool,
                ) -> PyResult<Py<PyAny>> {
                    let name = stringify!($max);
                    let mut options = pooling($dims, name, self, &kernel_size, stride, &padding)?;
                    options.dilation = dilation.of($dims, name, "dilation")?;
                    options.ceil_mode = ceil_mode;
                    if !return_indices {
                        return self.map(|x| pool::max_pool(x, $dims, &options))?.into_py_any(py);
                    }
                    let (values, indices) =
                        pool::max_pool_with_indices(&self.here()?, $dims, &options).map_err(raise)?;
                    let placed = self.is_placed();
                    (PyTensor::new(values, placed), PyTensor::new(indices, placed)).into_py_any(py)
                }

                /// The means of windows over the last axes, as many as the name says.
                #[pyo3(signature = (kernel_size, stride=None, padding=Each::Same(0), ceil_mode=false, count_include_pad=true, divisor_override=None), text_signature = "($self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)")]
                fn $avg(
                    &self,
                    kernel_size: Each,
                    stride: Option<Each>,
                    padding: Each,
                    ceil_mode: bool,
                    count_include_pad: bool,
                    divisor_override: Option<i64>,
                ) -> PyResult<PyTensor> {
                    let name = stringify!($avg);
                    let mut options = pooling($dims, name, self, &kernel_size, stride, &padding)?;
                    options.ceil_mode = ceil_mode;
                    options.count_include_pad = count_include_pad;
                    options.divisor = divisor_override;
                    self.map(|x| pool::avg_pool(x, $dims, &options))
                }

                /// The means of windows over the last axes, as many windows as `output_size` says.
                fn $adaptive(&self, output_size: OutputSize) -> PyResult<PyTensor> {
                    let name = stringify!($adaptive);
                    ranked(name, $dims, self)?;
                    let shape = self.tensor();
                    let output = output_size.of(&shape.shape()[shape.rank() - $dims..], name)?;
                    self.map(|x| pool::adaptive_avg_pool(x, &output))
                }
            }
        )*
    };
}

fn ranked(name: &str, dims: usize, x: &PyTensor) -> PyResult<()> {
    let x = x.tensor();
    if x.rank() != dims + 1 && x.rank() != dims + 2 {
        return Err(PyValueError::new_err(format!(
            "{name}: the input must have {} or {} dimensions, not the shape {:?}",
            dims + 1,
            dims + 2,
            x.shape()
        )));
    }
    if x.shape()[x.rank() - dims - 1..].contains(&0) {
        return Err(PyValueError::new_err(format!(
            "{name}: only the batch dimension may be empty, but the shape is {:?}",
            x.shape()
        )));
    }
    Ok(())
}

fn pooling(
    dims: usize,
    name: &str,
    x: &PyTensor,
    kernel: &Each,
    stride: Option<Each>,
    padding: &Each,
) -> PyResult<PoolOptions> {
    ranked(name, dims, x)?;
    let mut options = PoolOptions::new(&kernel.of(dims, name, "kernel_size")?);
    // An empty list of strides counts as none.
    if let Some(stride) = stride.filter(|stride| !matches!(stride, Each::List(list) if list.is_empty())) {
        options.stride = stride.of(dims, name, "stride")?;
    }
    options.padding = padding.of(dims, name, "padding")?;
    Ok(options)
}

convolutions! {
    conv1d conv_transpose1d max_pool1d avg_pool1d adaptive_avg_pool1d 1;
    conv2d conv_transpose2d max_pool2d avg_pool2d adaptive_avg_pool2d 2;
    conv3d conv_transpose3d max_pool3d avg_pool3d adaptive_avg_pool3d 3;
}
