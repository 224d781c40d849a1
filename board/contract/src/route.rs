//! Addresses of the HTTP interface. `{id}` and `{slug}` stand for a submission and a problem.

macro_rules! routes {
    ($($(#[$doc:meta])* $name:ident = $path:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $path;)*

        /// All routes, by name.
        pub const ALL: &[(&str, &str)] = &[$((stringify!($name), $name),)*];
    };
}

routes! {
    /// Submits a source; the response is the event stream.
    STREAM_SUBMIT = "/api/amd/submit";
    /// Lists submissions, or submits a source.
    SUBMISSIONS = "/api/submissions";
    /// One submission.
    SUBMISSION = "/api/submissions/{id}";
    /// Event stream of a submission.
    SUBMISSION_EVENTS = "/api/submissions/{id}/events";
    /// Cancels a submission.
    SUBMISSION_CANCEL = "/api/submissions/{id}/cancel";
    /// Makes a submission public or private.
    SUBMISSION_PUBLIC = "/api/submissions/{id}/public";
    /// Disassembly of a submission.
    SUBMISSION_ISA = "/api/submissions/{id}/isa";
    /// A submission as a JSON file.
    SUBMISSION_JSON = "/api/submissions/{id}/export.json";
    /// The results of a submission as a CSV file.
    SUBMISSION_CSV = "/api/submissions/{id}/export.csv";
    /// Several submissions.
    COMPARE = "/api/compare";
    /// All problems.
    PROBLEMS = "/api/problems";
    /// One problem.
    PROBLEM = "/api/problems/{slug}";
    /// Leaderboard of a problem; with `.csv` after the slug as a CSV file.
    LEADERBOARD = "/api/leaderboards/{slug}";
    /// All devices.
    DEVICES = "/api/devices";
    /// Estimate of cost and time.
    ESTIMATE = "/api/estimate";
    /// Running and waiting submissions.
    QUEUE = "/api/queue";
    /// Account of the caller.
    ME = "/api/me";
    /// OpenAPI description of these routes.
    OPENAPI = "/api/openapi.json";
    /// Health of the server.
    HEALTH = "/healthz";
    /// Metrics of the server.
    METRICS = "/metrics";
}

/// Returns the address of a route for a submission.
pub fn of_submission(route: &str, id: &str) -> String {
    route.replace("{id}", id)
}
