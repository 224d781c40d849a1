//! The order of the queue: users take turns, and each user's submissions keep their order.
//!
//! Only arithmetic: what waits, who was served when, and from that who is next.

use std::collections::{HashMap, VecDeque};

use crate::store::Waiting;

/// When users were last served; larger is later. Who never was comes first.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    last: HashMap<String, u64>,
    clock: u64,
}

impl Turns {
    /// Notes that a user's submission starts now.
    pub fn served(&mut self, user: &str) {
        self.clock += 1;
        self.last.insert(user.to_owned(), self.clock);
    }

    fn of(&self, user: &str) -> u64 {
        self.last.get(user).copied().unwrap_or(0)
    }

    /// Forgets users whose turn no longer matters: nobody who waits was served before them.
    pub fn forget_all_but<'a>(&mut self, users: impl Iterator<Item = &'a str>) {
        let kept: Vec<&str> = users.collect();
        self.last.retain(|user, _| kept.contains(&user.as_str()));
    }
}

/// The order in which submissions for one device would start if nothing else came. `waiting` is oldest first.
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
    // Users in the order of their turns; those with equal turns, which is none yet, in the order they came.
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

/// The next submission to start on a device: the first in order whose user does not run as many as allowed already.
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

    fn waiting(id: &str, user: &str) -> Waiting {
        Waiting {
            id: id.to_owned(),
            user_id: user.to_owned(),
            user: user.to_owned(),
            concurrency: None,
            problem: "relu".to_owned(),
            gpu: "MI300X".to_owned(),
            endpoint: "checker".to_owned(),
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

    #[test]
    fn whoever_was_served_last_comes_last() {
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
