-- The 95 % confidence interval of avg_runtime_ms; unknown for submissions that were measured before.
ALTER TABLE submissions ADD COLUMN ci_low_ms DOUBLE PRECISION;
ALTER TABLE submissions ADD COLUMN ci_high_ms DOUBLE PRECISION;

-- Whether equal inputs gave bit-identical outputs; unknown until it was checked. It used to be a flag, and a flag excludes a submission
-- from leaderboards. Where it is the only kind of flag, the submission was honest.
ALTER TABLE submissions ADD COLUMN deterministic BIGINT;
UPDATE submissions SET deterministic = CASE WHEN flags LIKE '%"not-deterministic:%' THEN 0 ELSE 1 END
    WHERE status IN ('CHECKED', 'BENCHMARKED');
UPDATE submissions SET flags = '[]'
    WHERE flags LIKE '["not-deterministic:%' AND flags NOT LIKE '%"faster-than-hardware:%'
    AND flags NOT LIKE '%"work-outside-events:%';
