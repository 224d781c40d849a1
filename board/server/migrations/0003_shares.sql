-- Share links. The token is stored as it is, because its owner may see the link again; whoever can read it here can read the source too.
CREATE TABLE shares (
    token TEXT PRIMARY KEY,
    submission_id TEXT NOT NULL UNIQUE REFERENCES submissions (id),
    created_at BIGINT NOT NULL
);
