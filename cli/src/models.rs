//! The models of software GPUs, and which of them runs a program.

use backend_emulator::{MODELS, Model};
use code_object::TargetId;

use crate::architecture::can_run;

/// The software GPU that runs code for one of these targets; the default model is preferred, also if there are no targets.
pub fn model_for(targets: &[TargetId]) -> Option<&'static Model> {
    if targets.is_empty() {
        return MODELS.first();
    }
    MODELS.iter().find(|model| can_run(targets, &model.isa()))
}

/// The ISAs of all software GPU models.
pub fn emulated() -> Vec<String> {
    MODELS.iter().map(Model::isa).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(targets: &[&str]) -> Vec<TargetId> {
        targets.iter().map(|target| target.parse().unwrap()).collect()
    }

    #[test]
    fn the_model_is_one_that_runs_the_program() {
        let key = |targets: &[&str]| model_for(&parse(targets)).map(|model| model.processor);
        assert_eq!(key(&["gfx90a"]), Some("gfx90a"));
        assert_eq!(key(&["gfx90a", "gfx942"]), Some("gfx942"));
        assert_eq!(key(&["gfx9-4-generic"]), Some("gfx942"));
        assert_eq!(key(&[]), Some("gfx942"));
        assert_eq!(key(&["gfx1100"]), None);
        assert_eq!(key(&["gfx90a:xnack+"]), None);
    }
}
