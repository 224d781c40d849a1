//! The contract of the board: the statuses, events, counters, results, records and routes that judge, server, command line and web pages
//! exchange.
//!
//! The crate consists of types and their names. It does not handle HTTP, databases, processes or devices. [`typescript`] generates the
//! types of the web pages, `board/ui/src/contract.ts`, from the same definitions.

#![warn(missing_docs)]

mod account;
mod counters;
mod custom;
mod debug;
mod device;
mod discussion;
mod endpoint;
mod event;
mod leaderboard;
mod login;
mod named;
mod observe;
mod problem;
mod ranking;
mod result;
pub mod route;
mod share;
mod status;
mod submission;
mod typescript;

pub use account::{AccountLimits, Budget, Health, Me};
pub use counters::{Counter, Counters, LIMITS};
pub use custom::{CustomField, CustomFill, CustomForm, CustomInput};
pub use debug::{DebugInfo, Difference, ElementKind, OutputDifferences};
pub use device::{DeviceInfo, DeviceState, Devices, Estimate, EstimateBody, Queue, QueueEntry};
pub use discussion::{Comment, Discussion, Editorial, MarkdownBody};
pub use endpoint::Endpoint;
pub use event::{Bill, Event, EventRecord, Outcome, PassedCheck};
pub use leaderboard::{Leaderboard, LeaderboardEntry};
pub use login::{
    Account, AccountKey, Authentication, LinkedProvider, LoginDone, LoginFinishBody, LoginLink,
    LoginLinkBody, LoginOptions, LoginProvider, LoginStart, LoginStartBody, LogoutBody, NewKey,
    RevokeKeyBody, UnlinkBody,
};
pub use observe::{
    AccessReport, CacheHits, Finding, FindingKind, KernelReport, ProfileLine, ProfileReport, ResourceShare,
};
pub use problem::{
    CasePlace, CaseSet, ParameterDirection, ProblemCase, ProblemDetail, ProblemExample, ProblemParameter,
    ProblemSummary, ProblemTolerance, Problems, Starter,
};
pub use ranking::{Leader, Profile, Ranking, RankingEntry, SolvedProblem, Standing};
pub use result::{
    BenchmarkResult, Isa, IsaLine, IsaListing, KernelFacts, Roofline, SampleArray, SampleNumber,
    SampleResult, SampleValue, SampleValues, TestResult, Verdict,
};
pub use share::{Share, ShareBody};
pub use status::Status;
pub use submission::{
    Batch, BatchBody, CaseResult, Comparison, ErrorBody, State, SubmissionDetail, SubmissionSummary,
    Submissions, SubmitBody, Submitted, VisibilityBody,
};
pub use typescript::typescript;
