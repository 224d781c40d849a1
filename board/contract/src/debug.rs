//! What is wrong with the outputs of a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// What a solution wrote instead of the expected number.
    pub enum ElementKind {
        /// Another number.
        Number = "number",
        /// NaN. Outputs are filled with it before a call, so it may not have been written at all.
        NotANumber = "not-a-number",
        /// An infinity.
        Infinite = "infinite",
        /// The output is too short.
        Missing = "missing",
    }
}

/// One wrong element. Numbers are texts, because some have more bits than JSON numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Difference {
    /// Coordinates of the element.
    pub index: Vec<usize>,
    /// Value of the reference.
    pub expected: String,
    /// Value of the solution: a number, `not a number`, `infinite`, `-infinite` or `missing`.
    pub actual: String,
    /// Their difference; a word if there is none.
    pub diff: String,
    /// What the solution wrote.
    pub kind: ElementKind,
}

/// Differences between an output and its expected contents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct OutputDifferences {
    /// Name of the output.
    pub output: String,
    /// Extents of the output.
    pub shape: Vec<usize>,
    /// Largest difference between numbers.
    pub max_difference: f64,
    /// Mean difference between numbers.
    pub mean_difference: f64,
    /// Number of wrong elements.
    pub mismatches: u64,
    /// Number of elements.
    pub total_elements: u64,
    /// Number of elements that are NaN.
    pub not_a_number: u64,
    /// Number of elements that are infinite.
    pub infinite: u64,
    /// Some wrong elements: the worst and the first ones, in the order of their coordinates.
    pub samples: Vec<Difference>,
}

/// Debug information on the first failing case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(from = "StoredDebugInfo")]
pub struct DebugInfo {
    /// Name of the case.
    pub case: String,
    /// Description of the failure.
    pub message: String,
    /// All outputs, in the order of the signature; correct ones have no mismatches.
    pub outputs: Vec<OutputDifferences>,
}

/// Debug information as it is read. Records from before there was a list describe the first wrong output only, in the other fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredDebugInfo {
    case: String,
    message: String,
    outputs: Vec<OutputDifferences>,
    output: String,
    shape: Vec<usize>,
    max_difference: f64,
    mean_difference: f64,
    mismatches: u64,
    total_elements: u64,
    sample_differences: BTreeMap<String, StoredDifference>,
}

#[derive(Deserialize)]
struct StoredDifference {
    expected: String,
    actual: String,
    diff: String,
}

impl From<StoredDebugInfo> for DebugInfo {
    fn from(stored: StoredDebugInfo) -> DebugInfo {
        let mut outputs = stored.outputs;
        if outputs.is_empty() && (stored.mismatches > 0 || stored.max_difference > 0.0) {
            let mut samples: Vec<Difference> =
                stored.sample_differences.into_iter().map(|(index, one)| one.at(&index)).collect();
            // The keys were sorted as texts: (10) before (2).
            samples.sort_by(|one, other| one.index.cmp(&other.index));
            outputs.push(OutputDifferences {
                output: stored.output,
                shape: stored.shape,
                max_difference: stored.max_difference,
                mean_difference: stored.mean_difference,
                mismatches: stored.mismatches,
                total_elements: stored.total_elements,
                samples,
                ..OutputDifferences::default()
            });
        }
        DebugInfo { case: stored.case, message: stored.message, outputs }
    }
}

impl StoredDifference {
    /// Returns the element at an index like `(3, 17)`.
    fn at(self, index: &str) -> Difference {
        let kind = match self.actual.trim_start_matches('-') {
            "nan" => ElementKind::NotANumber,
            "inf" => ElementKind::Infinite,
            "missing" => ElementKind::Missing,
            _ => ElementKind::Number,
        };
        let digits = index.split(|sign: char| !sign.is_ascii_digit());
        Difference {
            index: digits.filter_map(|digits| digits.parse().ok()).collect(),
            expected: self.expected,
            actual: self.actual,
            diff: self.diff,
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_output_are_read_in_the_order_of_their_coordinates() {
        let element = |actual: &str| format!(r#"{{"expected":"1","actual":"{actual}","diff":"1"}}"#);
        let text = format!(
            r#"{{"case":"n=16","output":"c","shape":[4,16],"max_difference":1.0,"mean_difference":0.5,"mismatches":4,
                "total_elements":64,"sample_differences":{{"(0, 10)":{},"(0, 2)":{},"(1, 0)":{},"(10, 1)":{}}},"message":"no"}}"#,
            element("2"),
            element("nan"),
            element("-inf"),
            element("missing"),
        );
        let info: DebugInfo = serde_json::from_str(&text).unwrap();
        assert_eq!((info.case.as_str(), info.message.as_str(), info.outputs.len()), ("n=16", "no", 1));
        let output = &info.outputs[0];
        assert_eq!((output.output.as_str(), output.mismatches, output.total_elements), ("c", 4, 64));
        let found: Vec<(&[usize], ElementKind)> =
            output.samples.iter().map(|sample| (sample.index.as_slice(), sample.kind)).collect();
        assert_eq!(
            found,
            [
                (&[0, 2][..], ElementKind::NotANumber),
                (&[0, 10], ElementKind::Number),
                (&[1, 0], ElementKind::Infinite),
                (&[10, 1], ElementKind::Missing),
            ]
        );
        let written = serde_json::to_string(&info).unwrap();
        assert_eq!(serde_json::from_str::<DebugInfo>(&written).unwrap(), info);
    }
}
