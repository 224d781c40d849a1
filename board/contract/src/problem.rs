//! Problems, as lists and pages show them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::named::named;
use crate::{CustomForm, SampleValue};

named! {
    /// What a case is for.
    pub enum CaseSet {
        /// Its data is shown.
        Sample = "sample",
        /// It is checked.
        Check = "check",
        /// It is measured.
        Bench = "bench",
    }
}

named! {
    /// Devices that a case is for.
    pub enum CasePlace {
        /// GPUs.
        Real = "real",
        /// Software GPUs.
        Emulated = "emulated",
    }
}

named! {
    /// Direction of a parameter.
    pub enum ParameterDirection {
        /// An array that the solution reads.
        In = "in",
        /// An array that the solution writes.
        Out = "out",
        /// An array that the solution reads and writes.
        InOut = "inout",
        /// A number.
        Scalar = "scalar",
    }
}

/// Summary of a problem, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ProblemSummary {
    /// Name in addresses.
    pub slug: String,
    /// Title.
    pub title: String,
    /// easy, medium or hard.
    pub difficulty: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Supported element types.
    pub dtypes: Vec<String>,
    /// Number of GPUs.
    pub gpus: u32,
    /// Whether the caller has solved it.
    pub solved: bool,
    /// Number of submissions.
    pub submissions: i64,
    /// Number of correct submissions.
    pub accepted: i64,
}

/// All problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Problems {
    /// The problems.
    pub problems: Vec<ProblemSummary>,
}

/// A parameter of a solution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ProblemParameter {
    /// Name.
    pub name: String,
    /// Direction.
    pub direction: ParameterDirection,
    /// C type, for the problem's first dtype.
    pub c_type: String,
    /// Extents as formulas over the sizes of a case.
    pub shape: Vec<String>,
    /// Ordinal of the GPU whose memory holds it.
    pub gpu: u32,
}

/// Starter code of both shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Starter {
    /// A kernel, which the judge launches; empty for a problem for several GPUs.
    pub kernel: String,
    /// A host function, which launches kernels itself.
    pub host: String,
}

/// A case of a problem.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ProblemCase {
    /// Name.
    pub name: String,
    /// Sizes by name.
    pub sizes: BTreeMap<String, i64>,
    /// Values of scalar parameters by name.
    pub values: BTreeMap<String, f64>,
    /// What it is for.
    pub set: CaseSet,
    /// Devices that it is for; null for all.
    #[schema(required)]
    pub place: Option<CasePlace>,
}

/// Tolerance of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ProblemTolerance {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
}

/// The sample case of a problem in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ProblemExample {
    /// Element type.
    pub dtype: String,
    /// Name of the case.
    pub case: String,
    /// Inputs by name.
    pub input: BTreeMap<String, SampleValue>,
    /// Expected outputs by name.
    pub output: BTreeMap<String, SampleValue>,
}

/// Details of a problem.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ProblemDetail {
    /// Its summary.
    #[serde(flatten)]
    pub summary: ProblemSummary,
    /// Sanitised HTML; formulas are MathML.
    pub statement_html: String,
    /// Parameters of a solution, in order.
    pub parameters: Vec<ProblemParameter>,
    /// Signature of the usual shape, for the first dtype.
    pub signature: String,
    /// Starter code by dtype.
    pub starters: BTreeMap<String, Starter>,
    /// Cases, smallest first.
    pub cases: Vec<ProblemCase>,
    /// Whether every element must be exactly equal.
    pub exact: bool,
    /// Tolerance by dtype.
    pub tolerance: BTreeMap<String, ProblemTolerance>,
    /// Operations as a formula over the sizes of a case.
    #[schema(required)]
    pub flops_formula: Option<String>,
    /// Bytes read and written as a formula over the sizes of a case.
    #[schema(required)]
    pub bytes_formula: Option<String>,
    /// An example; null for a problem without a sample.
    #[schema(required)]
    pub example: Option<ProblemExample>,
    /// What a user can choose for the endpoint `custom`.
    pub custom: CustomForm,
}
