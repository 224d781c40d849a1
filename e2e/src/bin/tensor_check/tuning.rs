//! Autotuning of a contraction: all variants give the same bits, and the second time the choice comes from the cache.

use tensor_core::dtype::DType;
use tensor_core::program::Program;
use tensor_core::step::{Accumulation, Work};
use tensor_rocm::{RocmDevice, tuning_cache};

use crate::judge::{Case, run};
use crate::operand::real;

pub fn check(rocm: &RocmDevice) -> Result<(), String> {
    let f = DType::F32;
    let accumulation = Accumulation::Ordered;
    let work = Work::Contract {
        batch: 0,
        rows: 1,
        columns: 1,
        depth: 1,
        accumulation,
        padding: None,
        convolution: None,
        epilogue: Program::identity(f),
    };
    let case =
        [Case::exact("tuned", work, vec![real(f, &[150, 30]), real(f, &[40, 30])], &[(f, &[150, 40])])];
    let once = || run(rocm, &case).map_err(|error| error.to_string());
    let before = once()?;
    tuning_cache().enable_exhaustive_search(true);
    let tuned = once()?;
    let found = tuning_cache().statistics();
    let again = once()?;
    let then = tuning_cache().statistics();
    tuning_cache().enable_exhaustive_search(false);
    if (found.entries, found.misses, then.hits) != (1, 1, found.hits + 1) {
        return Err(format!("{found:?}, then {then:?}"));
    }
    if before == tuned && tuned == again { Ok(()) } else { Err("the results differ".to_owned()) }
}
