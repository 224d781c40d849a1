//! Matrix products by a library: rocBLAS or hipBLASLt, opened at run time when a device first needs it.
//!
//! A library adds in its own order, so it only computes products that may be added in any order. Its sums go to the output, or to
//! a workspace from which a launch computes the epilogue.

mod gemm;
mod hipblaslt;
mod rocblas;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

pub(crate) use gemm::Gemm;
use hipblaslt::HipBlasLt;
use rocblas::RocBlas;
use tensor_core::error::DeviceError;

use crate::stream::Stream;

/// What computes matrix products that may be added in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlasChoice {
    /// rocBLAS for large products if it is there; else pyflame's kernels. The tuner chooses among all.
    #[default]
    Auto,
    /// pyflame's kernels.
    Own,
    /// rocBLAS, for every product that it can express.
    RocBlas,
    /// hipBLASLt, for every product that it can express.
    HipBlasLt,
}

impl BlasChoice {
    /// All choices.
    pub const ALL: [BlasChoice; 4] =
        [BlasChoice::Auto, BlasChoice::Own, BlasChoice::RocBlas, BlasChoice::HipBlasLt];

    /// Its name: "auto", "own", "rocblas" or "hipblaslt".
    pub fn name(self) -> &'static str {
        match self {
            BlasChoice::Auto => "auto",
            BlasChoice::Own => "own",
            BlasChoice::RocBlas => "rocblas",
            BlasChoice::HipBlasLt => "hipblaslt",
        }
    }
}

impl FromStr for BlasChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<BlasChoice, String> {
        let names = || BlasChoice::ALL.map(BlasChoice::name).join(", ");
        let found = BlasChoice::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| format!("the BLAS library must be one of {}, not {name:?}", names()))
    }
}

/// A library of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    RocBlas,
    HipBlasLt,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::RocBlas => "rocBLAS",
            Library::HipBlasLt => "hipBLASLt",
        })
    }
}

/// The least number of multiplications that `auto` gives to a library: below, a call costs more than it saves.
const LARGE: usize = 1 << 21;

/// The libraries of one device.
#[derive(Debug)]
pub(crate) struct Blas {
    choice: BlasChoice,
    stream: Arc<Stream>,
    /// The name of the processor: a library ends the process if it has no kernels for it, so that is checked before.
    architecture: String,
    rocblas: OnceLock<Result<RocBlas, String>>,
    hipblaslt: OnceLock<Result<HipBlasLt, String>>,
}

impl Blas {
    pub(crate) fn new(choice: BlasChoice, stream: Arc<Stream>, architecture: &str) -> Blas {
        Blas {
            choice,
            stream,
            architecture: architecture.to_owned(),
            rocblas: OnceLock::new(),
            hipblaslt: OnceLock::new(),
        }
    }

    /// Fails if the library that was chosen by name cannot be used.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        let Some(library) = self.chosen() else { return Ok(()) };
        self.open(library).map_err(|why| {
            DeviceError::Unavailable(format!(
                "PYFLAME_BLAS asks for {library}, which cannot be used: {why}; install it, or set PYFLAME_BLAS=auto"
            ))
        })
    }

    fn chosen(&self) -> Option<Library> {
        match self.choice {
            BlasChoice::Auto | BlasChoice::Own => None,
            BlasChoice::RocBlas => Some(Library::RocBlas),
            BlasChoice::HipBlasLt => Some(Library::HipBlasLt),
        }
    }

    fn open(&self, library: Library) -> Result<(), String> {
        match library {
            Library::RocBlas => self.rocblas().map(drop),
            Library::HipBlasLt => self.hipblaslt().map(drop),
        }
    }

    fn rocblas(&self) -> Result<&RocBlas, String> {
        self.rocblas
            .get_or_init(|| RocBlas::open(&self.stream, &self.architecture))
            .as_ref()
            .map_err(Clone::clone)
    }

    fn hipblaslt(&self) -> Result<&HipBlasLt, String> {
        let opened = self.hipblaslt.get_or_init(|| HipBlasLt::open(&self.stream, &self.architecture));
        opened.as_ref().map_err(Clone::clone)
    }

    /// The library that computes a product unless it was tuned.
    pub(crate) fn usual(&self, gemm: &Gemm<'_>) -> Option<Library> {
        match self.choice {
            BlasChoice::Own => None,
            BlasChoice::Auto => {
                let large = gemm.multiplications() >= LARGE;
                (large && self.rocblas().is_ok()).then_some(Library::RocBlas)
            }
            BlasChoice::RocBlas | BlasChoice::HipBlasLt => self.chosen(),
        }
    }

    /// The libraries that the tuner tries besides pyflame's kernels.
    pub(crate) fn alternatives(&self) -> Vec<Library> {
        let all = [Library::RocBlas, Library::HipBlasLt].into_iter();
        match self.choice {
            BlasChoice::Auto => all.filter(|&library| self.open(library).is_ok()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the tuner chooses: only without an explicit choice of a library.
    pub(crate) fn is_tuned(&self) -> bool {
        self.chosen().is_none()
    }

    /// Submits a product; `output` is the address of the sums.
    pub(crate) fn multiply(&self, library: Library, gemm: &Gemm<'_>, output: u64) -> Result<(), DeviceError> {
        let lost = |why| DeviceError::Unavailable(format!("{library}: {why}"));
        match library {
            Library::RocBlas => self.rocblas().map_err(lost)?.multiply(gemm, output),
            Library::HipBlasLt => self.hipblaslt().map_err(lost)?.multiply(gemm, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_known_by_its_name_and_others_are_refused_with_the_names() {
        for choice in BlasChoice::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        let problem = "mkl".parse::<BlasChoice>().unwrap_err();
        assert!(problem.contains("auto, own, rocblas, hipblaslt") && problem.contains("mkl"), "{problem}");
    }
}
