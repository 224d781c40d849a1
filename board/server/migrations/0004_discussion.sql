-- Whether the user moderates: writes editorials and removes comments.
ALTER TABLE users ADD COLUMN moderator BIGINT NOT NULL DEFAULT 0;

CREATE TABLE comments (
    id TEXT PRIMARY KEY,
    problem TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    -- empty once it was removed; the row stays for the rate limit and for the record of who removed it
    markdown TEXT NOT NULL,
    removed_by TEXT REFERENCES users (id),
    removed_at BIGINT
);
CREATE INDEX comments_by_problem ON comments (problem, created_at, id);
CREATE INDEX comments_by_user ON comments (user_id, created_at);

CREATE TABLE editorials (
    problem TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    updated_at BIGINT NOT NULL,
    markdown TEXT NOT NULL
);
