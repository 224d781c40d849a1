//! Addresses of the HTTP interface. `{id}` and `{slug}` stand for a submission or comment and a problem,
//! `{name}` for a user and `{token}` for the secret of a share link.

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
    /// Submits a source for several devices.
    BATCHES = "/api/batches";
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
    /// Overall ranking of a device.
    RANKING = "/api/ranking";
    /// Profile of a user.
    USER = "/api/users/{name}";
    /// Creates or revokes the share link of a submission.
    SUBMISSION_SHARE = "/api/submissions/{id}/share";
    /// The submission of a share link.
    SHARED = "/api/shared/{token}";
    /// Disassembly of the submission of a share link.
    SHARED_ISA = "/api/shared/{token}/isa";
    /// Leaderboard of a problem, for a frame on another site.
    EMBED_LEADERBOARD = "/embed/leaderboard/{slug}";
    /// Result of the submission of a share link, for a frame on another site.
    EMBED_RESULT = "/embed/result/{token}";
    /// Editorial of a problem.
    EDITORIAL = "/api/problems/{slug}/editorial";
    /// Discussion of a problem.
    DISCUSSION = "/api/problems/{slug}/discussion";
    /// Removes a comment.
    COMMENT_REMOVE = "/api/comments/{id}/remove";
    /// All devices.
    DEVICES = "/api/devices";
    /// Estimate of cost and time.
    ESTIMATE = "/api/estimate";
    /// Running and waiting submissions.
    QUEUE = "/api/queue";
    /// Account of the caller.
    ME = "/api/me";
    /// Ways to log in.
    LOGIN = "/api/login";
    /// Starts a login through a provider.
    LOGIN_START = "/api/login/start";
    /// Finishes a login that came back from its provider.
    LOGIN_FINISH = "/api/login/finish";
    /// Shows or uses a login link.
    LOGIN_LINK = "/api/login/link";
    /// Logs out.
    LOGOUT = "/api/logout";
    /// Keys and linked providers of the caller.
    ACCOUNT = "/api/account";
    /// Creates an API key of the caller.
    ACCOUNT_KEYS = "/api/account/keys";
    /// Revokes an API key of the caller.
    ACCOUNT_KEY_REVOKE = "/api/account/keys/revoke";
    /// Unlinks the caller's account at a login provider.
    ACCOUNT_UNLINK = "/api/account/unlink";
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
