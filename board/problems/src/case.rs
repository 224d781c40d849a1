//! Cases: the sizes and values that a problem is tried and measured with, and where each is used.

use crate::expression::Sizes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Small enough to be shown whole.
    Sample,
    /// Is the answer right?
    Check,
    /// How long does it take?
    Bench,
}

/// Where a case is run: a software GPU gets lighter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Real,
    Emulated,
}

/// One choice of sizes. Only the set makes cases, so that every formula of a problem is known to hold for each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: String,
    pub set: Set,
    /// Where it is used; everywhere if nothing is said.
    pub place: Option<Place>,
    /// Whole numbers, the derived ones among them.
    pub sizes: Sizes,
    /// Scalars that are no whole numbers.
    pub values: BTreeMap<String, f64>,
}

impl Case {
    pub fn is_for(&self, set: Set, place: Place) -> bool {
        self.set == set && self.place.is_none_or(|own| own == place)
    }

    /// A size by its name; problems ask only for sizes they have.
    pub(crate) fn size(&self, name: &str) -> i64 {
        *self.sizes.get(name).unwrap_or_else(|| panic!("case {} has no size {name}", self.name))
    }
}
