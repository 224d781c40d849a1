//! Leaderboards, one per problem, device and element type.

use serde::Serialize;

/// The best submission of a user.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct LeaderboardEntry {
    /// Rank, counted from 1. Entries that the measurements cannot tell apart share one.
    pub rank: usize,
    /// Name of the author.
    pub user: String,
    /// Id of the submission.
    pub submission_id: String,
    /// Geometric mean of the run times.
    pub avg_runtime_ms: f64,
    /// Lower end of the 95 % confidence interval of the mean; null for submissions from before it was stored.
    #[schema(required)]
    pub ci_low_ms: Option<f64>,
    /// Upper end of the interval.
    #[schema(required)]
    pub ci_high_ms: Option<f64>,
    /// Geometric mean of the operations per second.
    #[schema(required)]
    pub avg_gflops: Option<f64>,
    /// Instructions of all measured cases together; software GPUs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Whether equal inputs gave bit-identical outputs.
    pub deterministic: bool,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Whether everyone may see its source.
    pub public: bool,
}

impl LeaderboardEntry {
    /// Returns the confidence interval of the mean, or the mean alone if there is none.
    pub fn interval(&self) -> (f64, f64) {
        (self.ci_low_ms.unwrap_or(self.avg_runtime_ms), self.ci_high_ms.unwrap_or(self.avg_runtime_ms))
    }

    /// Returns whether the measurements cannot tell two entries apart: their intervals overlap.
    pub fn ties_with(&self, other: &LeaderboardEntry) -> bool {
        let ((low, high), (other_low, other_high)) = (self.interval(), other.interval());
        low <= other_high && other_low <= high
    }

    /// Ranks entries, which are sorted by their means: 1, 1, 3. An entry that ties with the fastest one of a rank shares the rank. A
    /// chain of ties does not: otherwise a slow entry could share the rank of one that is measurably faster.
    pub fn rank(entries: &mut [LeaderboardEntry]) {
        let mut fastest = 0;
        for at in 0..entries.len() {
            if !entries[at].ties_with(&entries[fastest]) {
                fastest = at;
            }
            entries[at].rank = fastest + 1;
        }
    }
}

/// The best submissions of a problem on a device in an element type, fastest first.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Leaderboard {
    /// Slug of the problem.
    pub problem: String,
    /// Device.
    pub gpu: String,
    /// Element type. Types are never ranked together.
    pub dtype: String,
    /// Whether these are results of a software GPU. They are never ranked together with those of real GPUs.
    pub emulated: bool,
    /// One submission per user.
    pub entries: Vec<LeaderboardEntry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(avg_runtime_ms: f64, interval: Option<(f64, f64)>) -> LeaderboardEntry {
        LeaderboardEntry {
            rank: 0,
            user: String::new(),
            submission_id: String::new(),
            avg_runtime_ms,
            ci_low_ms: interval.map(|(low, _)| low),
            ci_high_ms: interval.map(|(_, high)| high),
            avg_gflops: None,
            instructions: None,
            deterministic: true,
            created_at: 0,
            public: false,
        }
    }

    fn ranks(mut entries: Vec<LeaderboardEntry>) -> Vec<usize> {
        LeaderboardEntry::rank(&mut entries);
        entries.iter().map(|entry| entry.rank).collect()
    }

    #[test]
    fn entries_with_overlapping_intervals_share_a_rank() {
        assert_eq!(
            ranks(vec![
                entry(1.0, Some((0.9, 1.1))),
                entry(1.05, Some((1.0, 1.1))),
                entry(2.0, Some((1.9, 2.1))),
                entry(3.0, Some((2.2, 3.1))),
            ]),
            [1, 1, 3, 4]
        );
    }

    #[test]
    fn a_chain_of_ties_does_not_reach_what_is_measurably_slower() {
        let chain = [(1.0, 0.9, 1.2), (1.2, 1.1, 1.4), (1.4, 1.3, 1.6), (1.5, 1.35, 1.7)];
        let entries = chain.map(|(mean, low, high)| entry(mean, Some((low, high))));
        assert_eq!(ranks(entries.to_vec()), [1, 1, 3, 3]);
    }

    #[test]
    fn an_entry_without_an_interval_ties_only_where_its_mean_lies() {
        assert_eq!(ranks(vec![entry(1.0, Some((0.9, 1.1))), entry(1.05, None), entry(1.2, None)]), [1, 1, 3]);
        assert_eq!(ranks(vec![entry(1.0, None), entry(1.0, None), entry(1.1, None)]), [1, 1, 3]);
        assert!(ranks(Vec::new()).is_empty());
    }
}
