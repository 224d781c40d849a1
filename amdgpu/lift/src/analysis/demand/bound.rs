//! Bounds of a set of lanes: what follows from them, and whether they leave any lane.

use super::Analysis;
use crate::form::{Binary, Compare, FloatCompare, Function, Operation, Shape, Unary, Value};

/// The lanes of a mask, or the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// The mask.
    pub mask: Value,
    /// Its own lanes.
    pub inside: bool,
}

/// What contains a set of lanes, sorted. `None` is the empty set of lanes, which everything contains.
pub type Bounds = Option<Vec<Bound>>;

/// Larger sets are cut; fewer bounds are always right.
const MOST_BOUNDS: usize = 64;
/// How often conclusions are drawn from conclusions.
const MOST_ROUNDS: usize = 4;
/// How far definitions of complements are followed.
const DEPTH: u32 = 8;

impl Bound {
    /// The lanes of a mask.
    pub fn inside(mask: Value) -> Bound {
        Bound { mask, inside: true }
    }

    /// The lanes outside of a mask.
    pub fn outside(mask: Value) -> Bound {
        Bound { mask, inside: false }
    }
}

/// What both have.
pub fn meet(a: &[Bound], b: &[Bound]) -> Vec<Bound> {
    a.iter().copied().filter(|bound| b.binary_search(bound).is_ok()).collect()
}

/// What either has.
pub fn join(a: &[Bound], b: &[Bound]) -> Vec<Bound> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all.truncate(MOST_BOUNDS);
    all
}

/// The comparison that holds where another does not, and whether its operands are exchanged.
pub fn opposite(operation: &Operation) -> Option<(Operation, bool)> {
    Some(match operation {
        Operation::Compare(compare) => {
            let (opposite, exchanged) = match compare {
                Compare::Equal => (Compare::NotEqual, false),
                Compare::NotEqual => (Compare::Equal, false),
                Compare::LessUnsigned => (Compare::LessEqualUnsigned, true),
                Compare::LessEqualUnsigned => (Compare::LessUnsigned, true),
                Compare::LessSigned => (Compare::LessEqualSigned, true),
                Compare::LessEqualSigned => (Compare::LessSigned, true),
            };
            (Operation::Compare(opposite), exchanged)
        }
        Operation::FloatCompare(compare, of) => {
            let opposite = match compare {
                FloatCompare::Equal => FloatCompare::NotEqual,
                FloatCompare::NotEqual => FloatCompare::Equal,
                FloatCompare::Ordered => FloatCompare::Unordered,
                FloatCompare::Unordered => FloatCompare::Ordered,
                FloatCompare::Less | FloatCompare::LessEqual => return None,
            };
            (Operation::FloatCompare(opposite, *of), false)
        }
        _ => return None,
    })
}

/// The operands of a mask of two masks.
fn pair(function: &Function, mask: Value, operation: Binary) -> Option<[Value; 2]> {
    let definition = function.definition(mask);
    match definition.operands[..] {
        [a, b] if definition.operation == Operation::Binary(operation) => Some([a, b]),
        _ => None,
    }
}

impl Analysis {
    /// What contains the lanes of a bound, itself included.
    pub(super) fn implied(&self, function: &Function, bound: Bound) -> Bounds {
        self.follow(function, bound, DEPTH)
    }

    fn follow(&self, function: &Function, bound: Bound, depth: u32) -> Bounds {
        if let Some(bit) = function.constant(bound.mask) {
            return ((bit & 1 == 1) == bound.inside).then(Vec::new);
        }
        // A uniform bit is not a mask that anything is compared with.
        if function.shape(bound.mask) == Shape::Uniform {
            return Some(Vec::new());
        }
        if bound.inside {
            return self.supersets.get(&bound.mask).cloned().unwrap_or(Some(Vec::new()));
        }
        let mut all = vec![bound];
        if depth == 0 {
            return Some(all);
        }
        let definition = function.definition(bound.mask);
        let more: Vec<Bound> = match definition.operation {
            Operation::Unary(Unary::Not) => vec![Bound::inside(definition.operands[0])],
            Operation::Binary(Binary::Or) => {
                definition.operands.iter().copied().map(Bound::outside).collect()
            }
            _ => self.opposites.get(&bound.mask).copied().map(Bound::inside).into_iter().collect(),
        };
        for bound in more {
            all = join(&all, &self.follow(function, bound, depth - 1)?);
        }
        Some(all)
    }

    /// The lanes of a set that are also within a bound.
    pub(super) fn within(&self, function: &Function, lanes: &[Bound], bound: Bound) -> Bounds {
        self.close(function, join(lanes, &self.implied(function, bound)?))
    }

    /// Adds what follows from bounds together.
    pub(super) fn close(&self, function: &Function, mut all: Vec<Bound>) -> Bounds {
        for _ in 0..MOST_ROUNDS {
            if all.windows(2).any(|two| two[0].mask == two[1].mask) {
                return None;
            }
            let has = |bound: Bound| all.binary_search(&bound).is_ok();
            // Whether all lanes are in a mask (`inside`), or none is.
            let known = |mask: Value, inside: bool| {
                let definition = function.definition(mask);
                has(Bound { mask, inside })
                    || definition.operation == Operation::Unary(Unary::Not)
                        && has(Bound { mask: definition.operands[0], inside: !inside })
            };
            let mut more = Vec::new();
            for bound in &all {
                // Outside of `a & b` but in `a`: outside of `b`. In `a | b` but outside of `a`: in `b`.
                let operation = if bound.inside { Binary::Or } else { Binary::And };
                let Some([a, b]) = pair(function, bound.mask, operation) else { continue };
                for (one, other) in [(a, b), (b, a)] {
                    let other = Bound { mask: other, inside: bound.inside };
                    if known(one, !bound.inside) && !has(other) {
                        more.push(other);
                    }
                }
            }
            let mut grown = all.clone();
            for bound in more {
                grown = join(&grown, &self.implied(function, bound)?);
            }
            if grown == all {
                break;
            }
            all = grown;
        }
        if all.windows(2).any(|two| two[0].mask == two[1].mask) {
            return None;
        }
        Some(all)
    }
}
