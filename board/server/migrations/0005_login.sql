-- Accounts at login providers. Issuer and subject together name a person; an e-mail address does not, because addresses are reassigned
-- and not every provider verifies them.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_by_user ON identities (user_id);

-- Browsers that are logged in. The cookie has the token; here is its hash.
CREATE TABLE logins (
    hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX logins_by_user ON logins (user_id, created_at);
CREATE INDEX logins_by_expiry ON logins (expires_at);

-- Links that log a browser in once. A used link is deleted.
CREATE TABLE login_links (
    hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
