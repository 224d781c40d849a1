//! Inputs of the user's choice, for the endpoint `custom`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SampleNumber;

/// Contents of one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum CustomFill {
    /// The problem's own random numbers.
    #[default]
    Problem,
    /// One number in every element.
    Constant {
        /// The number.
        value: f64,
    },
    /// 0, 1, 2 and so on, within the bounds of the input.
    Ramp,
    /// Random numbers.
    Uniform {
        /// Least number.
        low: f64,
        /// Largest number.
        high: f64,
    },
    /// These numbers, in row-major order.
    Values {
        /// One for each element. Integers above 2^53 are texts.
        values: Vec<SampleNumber>,
    },
}

/// A case of the user's choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CustomInput {
    /// Sizes by name; those of the sample where one is left out.
    pub sizes: BTreeMap<String, i64>,
    /// Values of scalar parameters by name; those of the sample where one is left out.
    pub values: BTreeMap<String, f64>,
    /// Inputs by name; the problem's own numbers where one is left out.
    pub inputs: BTreeMap<String, CustomFill>,
    /// Seed of random numbers.
    pub seed: u32,
}

/// What a user can choose for a problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct CustomForm {
    /// Sizes by name, with those of the sample.
    pub sizes: BTreeMap<String, i64>,
    /// Values of scalar parameters by name, with those of the sample.
    pub values: BTreeMap<String, f64>,
    /// Inputs, in the order of the signature.
    pub inputs: Vec<CustomField>,
    /// Most elements of all arguments together.
    pub most_elements: usize,
}

/// An input that a user can fill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CustomField {
    /// Name of the parameter.
    pub name: String,
    /// Extents as formulas over the sizes.
    pub shape: Vec<String>,
    /// Whether only the problem can fill it, because its numbers depend on each other.
    pub fixed: bool,
}
