-- One text for SQLite and PostgreSQL: times are milliseconds since 1970, truth is 0 or 1, identifiers are ours.
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    banned BIGINT NOT NULL DEFAULT 0,
    daily_budget_usd DOUBLE PRECISION,
    max_price_usd DOUBLE PRECISION,
    per_minute BIGINT,
    per_day BIGINT,
    concurrency BIGINT
);

CREATE TABLE keys (
    prefix TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE TABLE submissions (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    problem TEXT NOT NULL,
    dtype TEXT NOT NULL,
    gpu TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    source TEXT NOT NULL,
    seed TEXT NOT NULL,
    -- queued, running or done: where it is in its life
    state TEXT NOT NULL,
    -- of its latest event
    status TEXT NOT NULL,
    emulated BIGINT NOT NULL,
    public BIGINT NOT NULL DEFAULT 0,
    cancel BIGINT NOT NULL DEFAULT 0,
    attempt BIGINT NOT NULL DEFAULT 0,
    last_event BIGINT NOT NULL DEFAULT 0,
    price_per_hour DOUBLE PRECISION NOT NULL,
    reserved_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    passed_tests BIGINT,
    total_tests BIGINT,
    avg_runtime_ms DOUBLE PRECISION,
    avg_gflops DOUBLE PRECISION,
    instructions DOUBLE PRECISION,
    execution_time DOUBLE PRECISION,
    cost_usd DOUBLE PRECISION,
    flags TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX submissions_by_state ON submissions (state, queued_at);
CREATE INDEX submissions_by_user ON submissions (user_id, created_at);
CREATE INDEX submissions_by_board ON submissions (problem, gpu, status, avg_runtime_ms);
CREATE INDEX submissions_by_time ON submissions (created_at, id);

CREATE TABLE events (
    submission_id TEXT NOT NULL REFERENCES submissions (id),
    number BIGINT NOT NULL,
    status TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (submission_id, number)
);

-- What is too large or too detailed for the stream: the disassembly.
CREATE TABLE artefacts (
    submission_id TEXT NOT NULL REFERENCES submissions (id),
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (submission_id, kind)
);

-- Money that was spent; judging a submission again spends again.
CREATE TABLE charges (
    submission_id TEXT NOT NULL REFERENCES submissions (id),
    attempt BIGINT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    usd DOUBLE PRECISION NOT NULL
);
CREATE INDEX charges_by_user ON charges (user_id, created_at);

CREATE TABLE drained (
    gpu TEXT PRIMARY KEY,
    since BIGINT NOT NULL
);
