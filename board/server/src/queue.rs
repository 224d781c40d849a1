//! Queue order: round-robin over users, first-in first-out for each user. Pure functions.

use std::collections::{HashMap, VecDeque};

use crate::store::{Submission, Waiting};

/// Logical time at which each user was last served. Users who were never served come first.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    last: HashMap<String, u64>,
    clock: u64,
}

impl Turns {
    /// Records that a user's submission starts now.
    pub fn served(&mut self, user: &str) {
        self.clock += 1;
        self.last.insert(user.to_owned(), self.clock);
    }

    fn of(&self, user: &str) -> u64 {
        self.last.get(user).copied().unwrap_or(0)
    }

    /// Drops the records of all other users.
    pub fn forget_all_but<'a>(&mut self, users: impl Iterator<Item = &'a str>) {
        let kept: Vec<&str> = users.collect();
        self.last.retain(|user, _| kept.contains(&user.as_str()));
    }
}

/// Returns the order in which the submissions for one device start, if no more arrive. `waiting` is oldest first.
pub fn order<'a>(waiting: impl Iterator<Item = &'a Waiting>, turns: &Turns) -> Vec<&'a Waiting> {
    let mut lines: Vec<(&str, VecDeque<&Waiting>)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for one in waiting {
        let at = *index.entry(&one.user_id).or_insert_with(|| {
            lines.push((&one.user_id, VecDeque::new()));
            lines.len() - 1
        });
        lines[at].1.push_back(one);
    }
    // Users by the time they were last served. The sort is stable: users who were never served keep their order of arrival.
    lines.sort_by_key(|(user, _)| turns.of(user));
    let mut round: VecDeque<VecDeque<&Waiting>> = lines.into_iter().map(|(_, line)| line).collect();
    let mut order = Vec::new();
    while let Some(mut line) = round.pop_front() {
        if let Some(next) = line.pop_front() {
            order.push(next);
            round.push_back(line);
        }
    }
    order
}

/// Returns the positions, counted from 1, of submissions that join the waiting ones of their devices at the times they were queued.
/// All join together: the position of each depends on the others, as users take turns.
pub fn requeue_positions(waiting: &[Waiting], joining: &[Submission], turns: &Turns) -> Vec<usize> {
    let joins = |id: &str| joining.iter().any(|submission| submission.summary.id == id);
    let mut all: Vec<Waiting> = waiting.iter().filter(|one| !joins(&one.id)).cloned().collect();
    all.extend(joining.iter().map(waiting_again));
    all.sort_by(|one, other| (one.queued_at, &one.id).cmp(&(other.queued_at, &other.id)));
    let position = |submission: &Submission| {
        let summary = &submission.summary;
        let line = order(all.iter().filter(|one| one.gpu == summary.gpu), turns);
        line.iter().position(|one| one.id == summary.id).map_or(1, |index| index + 1)
    };
    joining.iter().map(position).collect()
}

/// Returns a submission as it waits again.
fn waiting_again(submission: &Submission) -> Waiting {
    let summary = &submission.summary;
    Waiting {
        id: summary.id.clone(),
        user_id: submission.user_id.clone(),
        user: summary.user.clone(),
        // Decides when a submission starts, not its position.
        concurrency: None,
        problem: summary.problem.clone(),
        gpu: summary.gpu.clone(),
        endpoint: summary.endpoint,
        queued_at: submission.queued_at,
    }
}

/// Returns the next submission to start on a device: the first in order whose user is below the concurrency limit.
pub fn next<'a>(
    order: &[&'a Waiting],
    running: &HashMap<String, usize>,
    concurrency: usize,
) -> Option<&'a Waiting> {
    order.iter().copied().find(|one| {
        let allowed = one.concurrency.map_or(concurrency, |limit| limit.max(1) as usize);
        running.get(&one.user_id).copied().unwrap_or(0) < allowed
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_contract::{Endpoint, State, Status, SubmissionSummary};

    fn waiting(id: &str, user: &str) -> Waiting {
        Waiting {
            id: id.to_owned(),
            user_id: user.to_owned(),
            user: user.to_owned(),
            concurrency: None,
            problem: "relu".to_owned(),
            gpu: "MI300X".to_owned(),
            endpoint: Endpoint::Checker,
            queued_at: 0,
        }
    }

    fn ids(order: &[&Waiting]) -> Vec<String> {
        order.iter().map(|one| one.id.clone()).collect()
    }

    #[test]
    fn users_take_turns_and_keep_their_own_order() {
        let queue = [
            waiting("a1", "a"),
            waiting("a2", "a"),
            waiting("a3", "a"),
            waiting("b1", "b"),
            waiting("b2", "b"),
            waiting("c1", "c"),
        ];
        assert_eq!(ids(&order(queue.iter(), &Turns::default())), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    fn submission(id: &str, user: &str, queued_at: i64) -> Submission {
        Submission {
            summary: SubmissionSummary {
                id: id.to_owned(),
                problem: "relu".to_owned(),
                title: String::new(),
                user: user.to_owned(),
                gpu: "MI300X".to_owned(),
                dtype: "float32".to_owned(),
                endpoint: Endpoint::Checker,
                status: Status::Compiling,
                state: State::Running,
                emulated: true,
                public: false,
                created_at: queued_at,
                finished_at: None,
                passed_tests: None,
                total_tests: None,
                avg_runtime_ms: None,
                ci_low_ms: None,
                ci_high_ms: None,
                avg_gflops: None,
                instructions: None,
                cost_usd: None,
                execution_time: None,
                deterministic: None,
                flags: Vec::new(),
            },
            user_id: user.to_owned(),
            source: String::new(),
            seed: 0,
            cancel: false,
            attempt: 1,
            last_event: 1,
            price_per_hour: 0.0,
            reserved_usd: 0.0,
            queued_at,
            started_at: None,
        }
    }

    #[test]
    fn submissions_that_return_together_get_the_positions_at_which_they_start() {
        let joining = [submission("a1", "a", 1), submission("a2", "a", 2), submission("b1", "b", 3)];
        let later = [Waiting { queued_at: 4, ..waiting("c1", "c") }];
        // The second of a starts after the first of each other user, although it was queued before them.
        assert_eq!(requeue_positions(&later, &joining, &Turns::default()), [1, 4, 2]);
        let mut turns = Turns::default();
        turns.served("a");
        assert_eq!(requeue_positions(&later, &joining, &turns), [3, 4, 1]);
    }

    #[test]
    fn a_submission_that_returns_keeps_its_time_and_other_devices_do_not_count() {
        let other = Waiting { gpu: "MI210".to_owned(), ..waiting("x1", "x") };
        let (before, after) = (waiting("b1", "b"), Waiting { queued_at: 9, ..waiting("c1", "c") });
        let found =
            requeue_positions(&[other, before, after], &[submission("a1", "a", 5)], &Turns::default());
        assert_eq!(found, [2]);
    }

    #[test]
    fn the_user_served_last_comes_last() {
        let queue = [waiting("a1", "a"), waiting("b1", "b"), waiting("c1", "c")];
        let mut turns = Turns::default();
        turns.served("a");
        turns.served("c");
        turns.served("a");
        assert_eq!(ids(&order(queue.iter(), &turns)), ["b1", "c1", "a1"]);
    }

    #[test]
    fn a_user_at_the_limit_lets_others_pass() {
        let queue = [waiting("a1", "a"), waiting("b1", "b")];
        let line = order(queue.iter(), &Turns::default());
        let running = HashMap::from([("a".to_owned(), 2)]);
        assert_eq!(next(&line, &running, 2).map(|one| one.id.as_str()), Some("b1"));
        assert_eq!(next(&line, &running, 3).map(|one| one.id.as_str()), Some("a1"));
        let all = HashMap::from([("a".to_owned(), 2), ("b".to_owned(), 2)]);
        assert_eq!(next(&line, &all, 2), None);
    }

    #[test]
    fn turns_of_users_who_do_not_wait_are_forgotten() {
        let mut turns = Turns::default();
        turns.served("a");
        turns.served("b");
        turns.forget_all_but(["b"].into_iter());
        assert_eq!((turns.of("a"), turns.of("b")), (0, 2));
    }
}
