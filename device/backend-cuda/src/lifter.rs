//! The translator of `lift` and `ptx`.

use crate::translate::{Facts, Program, Request, Translator};

/// The translator of `lift` and `ptx`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifter;

impl Translator for Lifter {
    fn translate(&self, request: &Request<'_>) -> Result<Program, String> {
        let Request { arch, code, kernel, assumptions, target } = request;
        let function = lift::lift(*arch, code, kernel, assumptions).map_err(|refusal| refusal.to_string())?;
        let options = ptx::Options { block: assumptions.block, ..ptx::Options::default() };
        let it = ptx::translate(&function, target, &options).map_err(|refusal| refusal.to_string())?;
        let items = assumptions.block.map_or(1024, |block| block.iter().product());
        let facts = Facts {
            threads: ptx::launch::threads(it.mode, items),
            lds_bytes: it.lds_bytes,
            kernarg_bytes: it.kernarg_bytes,
            cooperative: it.cooperative,
            entry: it.entry,
        };
        Ok(Program { text: it.text, facts })
    }

    fn version(&self) -> &str {
        VERSION
    }
}

/// Version of the translation. The build writes the hash of this program's sources into it where it can.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
