//! Passes over a function: simplification, dead code, demand, uniformity, alignment, the separation of lanes, and the check of a
//! function's shape.

mod alignment;
mod aperture;
mod atomic_loop;
mod dead;
mod decided;
mod demand;
mod deviation;
mod dominators;
mod kernarg;
mod phis;
mod rebuild;
mod separate;
mod skip;
mod uniform;
mod verify;

pub use deviation::Obstacle;
pub use dominators::Dominators;
pub use separate::separate;
pub use verify::verify;

use crate::vector::{division, quotient};
use crate::{Assumptions, Function};

/// Rounds after which the passes stop although something may still change.
const ROUNDS: usize = 6;

/// Runs all passes. What the function computes in observed lanes stays the same.
pub fn optimize(function: &mut Function, assumptions: &Assumptions) {
    dead::remove(function);
    rebuild::simplify(function);
    dead::remove(function);
    // Before demand: what a value is in other lanes is known only now.
    while skip::remove(function) {
        skip::straighten(function);
        rebuild::simplify(function);
        dead::remove(function);
    }
    for _ in 0..ROUNDS {
        let before = size(function);
        decided::substitute(function);
        rebuild::simplify(function);
        aperture::resolve(function);
        uniform::infer(function);
        dead::remove(function);
        let changed = demand::narrow(function);
        dead::remove(function);
        if !changed && size(function) == before {
            break;
        }
    }
    atomic_loop::recognise(function);
    quotient::recognise(function);
    dead::remove(function);
    division::expand(function);
    kernarg::recognise(function);
    skip::straighten(function);
    rebuild::simplify(function);
    dead::remove(function);
    alignment::infer(function, assumptions);
}

fn size(function: &Function) -> usize {
    function.blocks.iter().map(|block| block.instructions.len()).sum()
}
