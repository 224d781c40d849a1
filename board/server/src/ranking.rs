//! The overall ranking: points over all problems, one ranking per device.
//!
//! Every solved problem gives base points by its difficulty, in whichever element type it was solved. The leaderboard of the problem's
//! first element type gives as many again, divided by the rank. The other types give no points for speed: on their leaderboards, which
//! few users enter, a first rank would be cheap.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use board_contract::{Leader, LeaderboardEntry, RankingEntry, SolvedProblem, Standing};
use board_problems::{Difficulty, Problem};

use crate::app::App;
use crate::store::{BestResult, StoreError};

/// The overall ranking of one device.
#[derive(Clone, Debug, Default)]
pub struct Board {
    pub gpu: String,
    pub emulated: bool,
    /// Users, best first.
    pub entries: Vec<RankingEntry>,
    /// First ranks by title of the problem.
    pub leaders: Vec<Leader>,
    /// Solved problems by user, by title.
    pub solved: HashMap<String, Vec<SolvedProblem>>,
}

/// The rankings of all devices, and when they were computed.
pub type Cached = Option<(Instant, Arc<Vec<Board>>)>;

/// Returns the rankings of all devices. They are computed at most once in the configured time, because they read every measured
/// submission and anyone may ask.
pub async fn boards(app: &App) -> Result<Arc<Vec<Board>>, StoreError> {
    let mut cached = app.ranking.lock().await;
    if let Some((since, boards)) = &*cached
        && since.elapsed() < app.config.limits.ranking_age
    {
        return Ok(Arc::clone(boards));
    }
    let boards = Arc::new(rank(app.store.best_results().await?));
    *cached = Some((Instant::now(), Arc::clone(&boards)));
    Ok(boards)
}

/// Returns the user's places in the rankings.
pub fn standings(boards: &[Board], user: &str) -> Vec<Standing> {
    let standing = |board: &Board| {
        let entry = board.entries.iter().find(|entry| entry.user == user)?;
        Some(Standing {
            gpu: board.gpu.clone(),
            emulated: board.emulated,
            entry: entry.clone(),
            users: board.entries.len(),
        })
    };
    boards.iter().filter_map(standing).collect()
}

/// Returns the points for a problem: base points, and as many again divided by the rank, if the rank counts.
fn points(difficulty: Difficulty, rank: Option<usize>) -> u64 {
    let base = match difficulty {
        Difficulty::Easy => 100,
        Difficulty::Medium => 200,
        Difficulty::Hard => 400,
    };
    base + rank.map_or(0, |rank| u64::div_ceil(base, rank as u64))
}

/// Computes the rankings from the best result of each user on each leaderboard, fastest first.
fn rank(results: Vec<BestResult>) -> Vec<Board> {
    let mut leaderboards: BTreeMap<_, Vec<LeaderboardEntry>> = BTreeMap::new();
    for result in results {
        let board = (result.gpu, result.emulated, result.problem, result.dtype);
        leaderboards.entry(board).or_default().push(result.entry);
    }
    let mut boards: BTreeMap<(String, bool), Board> = BTreeMap::new();
    for ((gpu, emulated, slug, dtype), mut entries) in leaderboards {
        // Problems that were removed from the board give no points.
        let Some(problem) = board_problems::find(&slug) else { continue };
        LeaderboardEntry::rank(&mut entries);
        let main = problem.dtypes.first().is_some_and(|first| first.name() == dtype);
        let board = boards.entry((gpu.clone(), emulated)).or_insert_with(|| Board {
            gpu,
            emulated,
            ..Board::default()
        });
        if main {
            board.leaders.extend(leader(problem, &entries));
        }
        for entry in entries {
            let gained = points(problem.difficulty, main.then_some(entry.rank));
            let solved = SolvedProblem {
                problem: problem.slug.clone(),
                title: problem.title.clone(),
                difficulty: problem.difficulty.name().to_owned(),
                gpu: board.gpu.clone(),
                emulated,
                dtype: dtype.clone(),
                submission_id: entry.submission_id,
                avg_runtime_ms: entry.avg_runtime_ms,
                rank: entry.rank,
                points: gained,
                created_at: entry.created_at,
            };
            let list = board.solved.entry(entry.user).or_default();
            match list.iter_mut().find(|other| other.problem == problem.slug) {
                Some(other) if other.points < gained => *other = solved,
                Some(_) => {}
                None => list.push(solved),
            }
        }
    }
    let mut boards: Vec<Board> = boards.into_values().collect();
    for board in &mut boards {
        board.entries = entries(&mut board.solved);
        board.leaders.sort_by(|one, two| one.title.cmp(&two.title));
    }
    // Real GPUs first.
    boards.sort_by_key(|board| board.emulated);
    boards
}

fn leader(problem: &Problem, entries: &[LeaderboardEntry]) -> Option<Leader> {
    let first = entries.first()?;
    Some(Leader {
        problem: problem.slug.clone(),
        title: problem.title.clone(),
        users: entries.iter().filter(|entry| entry.rank == 1).map(|entry| entry.user.clone()).collect(),
        avg_runtime_ms: first.avg_runtime_ms,
        entries: entries.len(),
    })
}

/// Adds up the points of each user. Equal points share a rank; the order within a rank is alphabetical and means nothing.
fn entries(solved: &mut HashMap<String, Vec<SolvedProblem>>) -> Vec<RankingEntry> {
    let mut entries: Vec<RankingEntry> = Vec::new();
    for (user, list) in solved {
        list.sort_by(|one, two| one.title.cmp(&two.title));
        let first = |one: &&SolvedProblem| {
            let problem = board_problems::find(&one.problem);
            let main = problem.and_then(|problem| problem.dtypes.first()).map(|dtype| dtype.name());
            one.rank == 1 && main == Some(one.dtype.as_str())
        };
        entries.push(RankingEntry {
            rank: 0,
            user: user.clone(),
            points: list.iter().map(|one| one.points).sum(),
            solved: list.len(),
            first_ranks: list.iter().filter(first).count(),
        });
    }
    entries.sort_by(|one, two| two.points.cmp(&one.points).then_with(|| one.user.cmp(&two.user)));
    let mut top = 0;
    for at in 0..entries.len() {
        if entries[at].points != entries[top].points {
            top = at;
        }
        entries[at].rank = top + 1;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(user: &str, problem: &str, dtype: &str, ms: f64) -> BestResult {
        BestResult {
            problem: problem.to_owned(),
            gpu: "MI300X".to_owned(),
            emulated: false,
            dtype: dtype.to_owned(),
            entry: LeaderboardEntry {
                rank: 0,
                user: user.to_owned(),
                submission_id: format!("{user}-{problem}"),
                avg_runtime_ms: ms,
                ci_low_ms: None,
                ci_high_ms: None,
                avg_gflops: None,
                instructions: None,
                deterministic: true,
                created_at: 0,
                public: false,
            },
        }
    }

    fn table(board: &Board) -> Vec<(usize, &str, u64)> {
        board.entries.iter().map(|entry| (entry.rank, entry.user.as_str(), entry.points)).collect()
    }

    #[test]
    fn points_are_those_of_the_documentation() {
        assert_eq!(points(Difficulty::Easy, Some(1)), 200);
        assert_eq!(points(Difficulty::Medium, Some(3)), 267);
        assert_eq!(points(Difficulty::Hard, Some(1000)), 401);
        assert_eq!(points(Difficulty::Hard, None), 400);
    }

    #[test]
    fn equal_points_share_a_rank_and_the_next_rank_counts_them() {
        let boards = rank(vec![
            result("cem", "leaky-relu", "float32", 1.0),
            result("ada", "leaky-relu", "float32", 1.0),
            result("ben", "leaky-relu", "float32", 2.0),
        ]);
        assert_eq!(table(&boards[0]), [(1, "ada", 200), (1, "cem", 200), (3, "ben", 134)]);
        assert_eq!(boards[0].leaders[0].users, ["cem", "ada"]);
        assert_eq!(boards[0].leaders[0].entries, 3);
    }

    #[test]
    fn another_element_type_counts_as_solved_but_not_for_speed_and_not_twice() {
        let boards = rank(vec![
            result("ada", "leaky-relu", "float16", 0.1),
            result("ben", "leaky-relu", "float16", 0.2),
            result("ben", "leaky-relu", "float32", 1.0),
        ]);
        assert_eq!(table(&boards[0]), [(1, "ben", 200), (2, "ada", 100)]);
        assert_eq!(boards[0].entries.iter().map(|entry| entry.solved).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(boards[0].entries.iter().map(|entry| entry.first_ranks).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn real_and_emulated_results_are_never_added() {
        let emulated = BestResult { emulated: true, ..result("ada", "leaky-relu", "float32", 1.0) };
        let boards = rank(vec![emulated, result("ada", "relu", "float32", 1.0)]);
        assert_eq!(boards.iter().map(|board| board.emulated).collect::<Vec<_>>(), [false, true]);
        assert!(boards.iter().all(|board| board.entries[0].points == 200), "{boards:?}");
    }

    #[test]
    fn problems_that_no_longer_exist_give_no_points() {
        assert!(rank(vec![result("ada", "nothing-like-it", "float32", 1.0)]).is_empty());
    }
}
