//! Submissions: the request, and the records that lists and details consist of.

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::{BenchmarkResult, Counters, CustomInput, Endpoint, Estimate, EventRecord, Status, TestResult};

named! {
    /// State of a submission.
    pub enum State {
        /// It waits for a device.
        Queued = "queued",
        /// A judge runs it.
        Running = "running",
        /// It has ended.
        Done = "done",
    }
}

/// Body of every error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// What is wrong.
    pub error: String,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub details: Option<String>,
}

/// A request to judge a source. The names in camelCase are those of Tensara's routes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, utoipa::ToSchema)]
pub struct SubmitBody {
    /// The source of the kernel, at most 256 KiB.
    #[serde(alias = "code", alias = "solutionCode")]
    pub solution_code: Option<String>,
    /// The slug of a problem; not needed by the endpoint `sandbox`.
    #[serde(alias = "problemSlug", alias = "problem_slug")]
    pub problem: Option<String>,
    /// Ignored, because the server has its own definition of the problem. A different text causes a WARNING event.
    #[serde(alias = "problemDef", skip_serializing_if = "Option::is_none")]
    pub problem_def: Option<String>,
    /// A device of `/api/devices`.
    #[serde(alias = "gpuType")]
    pub gpu_type: Option<String>,
    /// Element type; the problem's first by default.
    pub dtype: Option<String>,
    /// Language; only `hip` is supported.
    pub language: Option<String>,
    /// checker, benchmark, full (the default), sample, sandbox, compile, custom, check or profile.
    pub endpoint: Option<String>,
    /// Inputs for the endpoint `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomInput>,
}

/// A request to judge a source on several devices.
#[derive(Clone, Debug, Default, Deserialize, Serialize, utoipa::ToSchema)]
pub struct BatchBody {
    /// The submission, without `gpu_type`.
    #[serde(flatten)]
    pub submission: SubmitBody,
    /// Devices of `/api/devices`, each once.
    #[serde(alias = "gpuTypes")]
    pub gpu_types: Vec<String>,
}

/// Accepted submissions of one source on several devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Batch {
    /// The submissions, in the order of the devices.
    pub submissions: Vec<Submitted>,
    /// Address of the page that shows them side by side.
    pub page: String,
}

/// An accepted submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Submitted {
    /// Id of the submission.
    pub id: String,
    /// Device.
    pub gpu: String,
    /// Address of its event stream.
    pub events: String,
    /// Queue position, counted from 1.
    pub position: usize,
    /// Estimated cost and time.
    pub estimate: Estimate,
}

/// Record of a submission, without its source and events.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SubmissionSummary {
    /// Id of the submission.
    pub id: String,
    /// Slug of the problem; empty for the endpoint `sandbox`.
    pub problem: String,
    /// Title of the problem.
    pub title: String,
    /// Name of the author.
    pub user: String,
    /// Device.
    pub gpu: String,
    /// Element type.
    pub dtype: String,
    /// What was requested.
    pub endpoint: Endpoint,
    /// Status of its latest event.
    pub status: Status,
    /// State in the queue.
    pub state: State,
    /// Whether it ran on a software GPU. Such results are never ranked with real ones.
    pub emulated: bool,
    /// Whether everyone may see its source.
    pub public: bool,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Milliseconds since the Unix epoch; null until it ends.
    #[schema(required)]
    pub finished_at: Option<i64>,
    /// Number of correct cases.
    #[schema(required)]
    pub passed_tests: Option<i64>,
    /// Number of cases.
    #[schema(required)]
    pub total_tests: Option<i64>,
    /// Geometric mean of the run times.
    #[schema(required)]
    pub avg_runtime_ms: Option<f64>,
    /// Lower end of the 95 % confidence interval of the mean.
    #[schema(required)]
    pub ci_low_ms: Option<f64>,
    /// Upper end of the interval.
    #[schema(required)]
    pub ci_high_ms: Option<f64>,
    /// Geometric mean of the operations per second.
    #[schema(required)]
    pub avg_gflops: Option<f64>,
    /// Instructions of all measured cases together; software GPUs only.
    #[schema(required)]
    pub instructions: Option<f64>,
    /// Cost.
    #[schema(required)]
    pub cost_usd: Option<f64>,
    /// Seconds on the device.
    #[schema(required)]
    pub execution_time: Option<f64>,
    /// Whether equal inputs gave bit-identical outputs; null until it was checked.
    #[schema(required)]
    pub deterministic: Option<bool>,
    /// Suspicious observations for human review. They exclude a submission from leaderboards.
    pub flags: Vec<String>,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "a submission has a dozen of these at most")]
pub enum CaseResult {
    /// A checked case.
    Check(TestResult),
    /// A measured case.
    Bench(BenchmarkResult),
}

/// Columns of a table of results before the counters.
const FIGURES: [&str; 14] = [
    "kind",
    "test_id",
    "name",
    "status",
    "runtime_ms",
    "ci_low_ms",
    "ci_high_ms",
    "mean_ms",
    "min_ms",
    "p95_ms",
    "gflops",
    "gbytes_per_s",
    "floor_ms",
    "max_difference",
];

impl CaseResult {
    /// Returns the columns of a table of results: figures, then all counters of a software GPU.
    pub fn columns() -> impl Iterator<Item = &'static str> {
        FIGURES.into_iter().chain(Counters::TABLE.iter().map(|counter| counter.name))
    }

    /// Returns the cells of [`CaseResult::columns`]; empty where the kind of result has no such figure.
    pub fn cells(&self) -> Vec<String> {
        let mut cells: Vec<String> = self.figures().into();
        let counts = match self {
            CaseResult::Check(_) => None,
            CaseResult::Bench(result) => result.counts,
        };
        match counts {
            Some(counters) => cells.extend(counters.values().map(|value| value.to_string())),
            None => cells.extend(Counters::TABLE.iter().map(|_| String::new())),
        }
        cells
    }

    fn figures(&self) -> [String; FIGURES.len()] {
        let none = String::new;
        match self {
            CaseResult::Check(result) => [
                "check".to_owned(),
                result.test_id.to_string(),
                result.name.clone(),
                result.status.to_string(),
                result.runtime_ms.to_string(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                result.max_difference.to_string(),
            ],
            CaseResult::Bench(result) => [
                "bench".to_owned(),
                result.test_id.to_string(),
                result.name.clone(),
                none(),
                result.runtime_ms.to_string(),
                result.ci_low_ms.to_string(),
                result.ci_high_ms.to_string(),
                result.mean_ms.to_string(),
                result.min_ms.to_string(),
                result.p95_ms.to_string(),
                result.gflops.map_or_else(none, |rate| rate.to_string()),
                result.gbytes_per_s.to_string(),
                result.floor_ms.to_string(),
                none(),
            ],
        }
    }
}

/// Details of a submission.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SubmissionDetail {
    /// Its record.
    #[serde(flatten)]
    pub summary: SubmissionSummary,
    /// Whether the caller is its author.
    pub mine: bool,
    /// The source; visible to its author, and to everyone once it is public.
    #[schema(required)]
    pub code: Option<String>,
    /// Inputs of the endpoint `custom`; visible with the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomInput>,
    /// Results of the checked and measured cases.
    pub results: Vec<CaseResult>,
    /// Events; visible to its author, and to everyone once it is public.
    pub events: Vec<EventRecord>,
    /// Queue position while it waits.
    #[schema(required)]
    pub position: Option<usize>,
    /// Expected time until it starts, while it waits.
    #[schema(required)]
    pub expected_wait_s: Option<f64>,
    /// Secret of its share link, if there is one; visible to its author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
}

/// A page of submissions.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Submissions {
    /// The records, newest first.
    pub submissions: Vec<SubmissionSummary>,
    /// Value of `before` for the next page.
    #[schema(required)]
    pub next: Option<String>,
}

/// Submissions to compare.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Comparison {
    /// Their details, in the requested order.
    pub submissions: Vec<SubmissionDetail>,
}

/// A request to make a submission public or private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct VisibilityBody {
    /// Whether everyone may see its source.
    pub public: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_results_has_a_column_for_every_counter() {
        let columns: Vec<&str> = CaseResult::columns().collect();
        let counters = Counters::from_array(std::array::from_fn(|index| 100 + index as u64));
        let bench =
            CaseResult::Bench(BenchmarkResult { counts: Some(counters), ..BenchmarkResult::default() });
        let cells = bench.cells();
        assert_eq!(cells.len(), columns.len());
        for (counter, index) in Counters::TABLE.iter().zip(100..) {
            let column = columns.iter().position(|name| *name == counter.name).unwrap();
            assert_eq!(cells[column], index.to_string(), "{counter:?}");
        }
        // A GPU has no counters.
        let real = CaseResult::Bench(BenchmarkResult::default()).cells();
        assert_eq!(real.len(), columns.len());
        assert!(real.iter().skip(FIGURES.len()).all(String::is_empty));
    }
}
