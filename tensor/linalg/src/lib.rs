//! Factorisations of dense matrices and Fourier transforms in host memory, by faer and rustfft.
//!
//! Both libraries are generic and take seconds to compile for each number type. So this crate compiles them once: faer for f64 and
//! Complex64 only, to which others are converted, and rustfft for f32 and f64. Every function runs on one thread: results do not depend on the number of threads.

#![warn(missing_docs)]

mod factor;
mod fourier;
mod matrix;

pub use factor::{Eigen, Entry, Lu, Qr, Svd};
pub use fourier::{Fourier, Part, RealFourier};
pub use matrix::Matrix;
