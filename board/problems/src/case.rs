//! Test cases of a problem: sizes and scalar values, and where each is used.

use crate::expression::Sizes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Purpose of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Small enough for its data to be shown completely.
    Sample,
    /// Checks correctness.
    Check,
    /// Measures the run time.
    Bench,
}

/// Kind of device that a case runs on. Software GPUs get smaller cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A GPU.
    Real,
    /// A software GPU.
    Emulated,
}

/// One choice of sizes. Only the problem set creates cases, and it evaluates every formula of a problem with each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name, unique in the problem.
    pub name: String,
    /// Purpose.
    pub set: Set,
    /// Kind of device the case is for; `None` for all.
    pub place: Option<Place>,
    /// Integer sizes, including derived ones.
    pub sizes: Sizes,
    /// Scalars that are not integers.
    pub values: BTreeMap<String, f64>,
}

impl Case {
    /// Returns whether the case has this purpose and runs on this kind of device.
    pub fn is_for(&self, set: Set, place: Place) -> bool {
        self.set == set && self.place.is_none_or(|own| own == place)
    }

    /// Returns a size by name. Panics if the case lacks it, which a valid problem definition excludes.
    pub(crate) fn size(&self, name: &str) -> i64 {
        *self.sizes.get(name).unwrap_or_else(|| panic!("case {} has no size {name}", self.name))
    }
}
