//! Convolutions by a library: MIOpen, opened at run time when a device first needs it.
//!
//! It adds in its own order, so it only computes convolutions that may be added in any order. Its sums go to the output, or to a
//! workspace from which a launch computes the epilogue.

mod call;
mod miopen;

use std::str::FromStr;
use std::sync::{Arc, OnceLock};

pub(crate) use call::{Call, takes};
use miopen::MiOpen;
use tensor_core::error::DeviceError;

use crate::memory::{Block, MemoryPool};
use crate::stream::Stream;

/// What computes convolutions that may be added in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConvChoice {
    /// pyflame's kernels, or MIOpen where the tuner has found it to be faster.
    #[default]
    Auto,
    /// pyflame's kernels.
    Own,
    /// MIOpen, for every convolution that it can express.
    MiOpen,
}

impl ConvChoice {
    /// All choices.
    pub const ALL: [ConvChoice; 3] = [ConvChoice::Auto, ConvChoice::Own, ConvChoice::MiOpen];

    /// Its name: "auto", "own" or "miopen".
    pub fn name(self) -> &'static str {
        match self {
            ConvChoice::Auto => "auto",
            ConvChoice::Own => "own",
            ConvChoice::MiOpen => "miopen",
        }
    }
}

impl FromStr for ConvChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<ConvChoice, String> {
        let names = || ConvChoice::ALL.map(ConvChoice::name).join(", ");
        let found = ConvChoice::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| format!("the library of convolutions must be one of {}, not {name:?}", names()))
    }
}

/// The library of one device.
#[derive(Debug)]
pub(crate) struct Conv {
    choice: ConvChoice,
    stream: Arc<Stream>,
    miopen: OnceLock<Result<MiOpen, String>>,
}

impl Conv {
    pub(crate) fn new(choice: ConvChoice, stream: Arc<Stream>) -> Conv {
        Conv { choice, stream, miopen: OnceLock::new() }
    }

    /// Fails if the library was chosen by name and cannot be used.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        if !self.is_chosen() {
            return Ok(());
        }
        self.miopen().map(drop).map_err(|why| {
            DeviceError::Unavailable(format!(
                "PYFLAME_CONV asks for MIOpen, which cannot be used: {why}; install it, or set PYFLAME_CONV=auto"
            ))
        })
    }

    /// Whether the library was chosen by name.
    pub(crate) fn is_chosen(&self) -> bool {
        self.choice == ConvChoice::MiOpen
    }

    /// Whether the tuner tries the library besides pyflame's kernels.
    pub(crate) fn is_alternative(&self) -> bool {
        self.choice == ConvChoice::Auto && self.miopen().is_ok()
    }

    /// Whether the tuner may try it, without opening it.
    pub(crate) fn is_tuned(&self) -> bool {
        self.choice == ConvChoice::Auto
    }

    fn miopen(&self) -> Result<&MiOpen, String> {
        self.miopen.get_or_init(|| MiOpen::open(&self.stream)).as_ref().map_err(Clone::clone)
    }

    /// Submits a convolution; `output` is the address of the sums. Returns the workspace that its kernels use.
    pub(crate) fn convolve(
        &self,
        call: &Call<'_>,
        pool: &Arc<MemoryPool>,
        output: u64,
    ) -> Result<Option<Block>, DeviceError> {
        let miopen = self.miopen().map_err(|why| DeviceError::Unavailable(format!("MIOpen: {why}")))?;
        miopen.convolve(call, pool, output).map_err(|error| match error {
            DeviceError::Call { call: name, error } if self.is_chosen() => DeviceError::Call {
                call: name,
                error: format!(
                    "{error}; this was the convolution {}, which PYFLAME_CONV=own or auto computes without MIOpen",
                    call.key()
                ),
            },
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_known_by_its_name_and_others_are_refused_with_the_names() {
        for choice in ConvChoice::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        let problem = "cudnn".parse::<ConvChoice>().unwrap_err();
        assert!(problem.contains("auto, own, miopen") && problem.contains("cudnn"), "{problem}");
    }
}
