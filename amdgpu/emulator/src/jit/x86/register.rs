//! Register allocator: maps values to the host's vector registers and tracks which must be written back.
//!
//! Values are immutable: an operation writes its result to a new host register and then names it. Wave registers that hold the
//! same value share one host register. When none is free, the value whose next read is farthest away is spilled to memory. A
//! value that is overwritten before it is read again is never stored.

use std::collections::{HashMap, HashSet};

use super::liveness::Next;
use super::value::Name;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of names of the value.
    names: u32,
    /// In use by the current operation, so it must not be evicted.
    pinned: bool,
    last_use: u64,
}

#[derive(Debug)]
pub struct Registers {
    slots: Vec<Slot>,
    /// Host register of each named value, and whether it is dirty (its memory copy is out of date).
    places: HashMap<Name, (u8, bool)>,
    /// Vector registers whose dead value was dropped without storing it: it is neither in a host register nor in memory.
    lost: HashSet<u16>,
    clock: u64,
}

impl Registers {
    /// Creates an allocator for the first `count` host registers, at most 32.
    pub fn new(count: usize) -> Registers {
        Registers {
            slots: vec![Slot::default(); count],
            places: HashMap::new(),
            lost: HashSet::new(),
            clock: 0,
        }
    }

    /// The register that holds the value of `name`, pinned until [`Registers::release`].
    pub fn find(&mut self, name: Name) -> Option<u8> {
        let (register, _) = *self.places.get(&name)?;
        self.pin(register);
        Some(register)
    }

    fn pin(&mut self, register: u8) {
        self.clock += 1;
        let slot = &mut self.slots[usize::from(register)];
        slot.pinned = true;
        slot.last_use = self.clock;
    }

    /// Allocates a register for a new value, pinned until [`Registers::release`]. The caller must first store the register's old
    /// value to the vector registers in the second result. Returns `None` if all registers are pinned. `next` returns the next
    /// event of a value, starting at the current operation.
    pub fn take(&mut self, next: impl Fn(Name) -> Next) -> Option<(u8, Vec<u16>)> {
        // For each register, when its value is next read, and whether evicting it requires a store.
        let mut needed = vec![(usize::MAX, false); self.slots.len()];
        for (name, (register, dirty)) in &self.places {
            let (at, stored) = &mut needed[usize::from(*register)];
            let next = next(*name);
            if let Next::Read(item) = next {
                *at = item.min(*at);
            }
            *stored |= *dirty && next != Next::Replaced;
        }
        let unpinned = self.slots.iter().enumerate().filter(|(_, slot)| !slot.pinned);
        let (register, _) = unpinned.min_by_key(|(register, slot)| {
            let (at, stored) = needed[*register];
            let free = slot.names == 0;
            (!free, std::cmp::Reverse(at), stored, if free { 0 } else { slot.last_use })
        })?;
        let register = register as u8;
        let mut evicted: Vec<u16> = Vec::new();
        let lost = &mut self.lost;
        self.places.retain(|name, (place, dirty)| {
            if *place != register {
                return true;
            }
            match *name {
                Name::Vector(vector) if *dirty && next(*name) == Next::Replaced => drop(lost.insert(vector)),
                Name::Vector(vector) if *dirty => evicted.push(vector),
                _ => {}
            }
            false
        });
        evicted.sort_unstable();
        self.slots[usize::from(register)].names = 0;
        self.pin(register);
        Some((register, evicted))
    }

    /// Makes `name` refer to the value in `register`.
    pub fn name(&mut self, name: Name, register: u8, dirty: bool) {
        if let Name::Vector(vector) = name {
            self.lost.remove(&vector);
        }
        if let Some((old, _)) = self.places.insert(name, (register, dirty)) {
            self.slots[usize::from(old)].names -= 1;
        }
        self.slots[usize::from(register)].names += 1;
    }

    /// Returns true if `name` is the only name of its value, so that an operation that assigns `name` may overwrite the register.
    pub fn is_alone(&self, name: Name) -> bool {
        self.places.get(&name).is_some_and(|(register, _)| self.slots[usize::from(*register)].names == 1)
    }

    /// Ends the current operation: unpins its registers and drops values that are not used again. `next` returns the next event
    /// of a value after the operation.
    pub fn release(&mut self, next: impl Fn(Name) -> Next) {
        self.slots.iter_mut().for_each(|slot| slot.pinned = false);
        let (slots, lost) = (&mut self.slots, &mut self.lost);
        self.places.retain(|name, (register, dirty)| {
            let over = match next(*name) {
                Next::Read(_) => false,
                Next::Replaced => true,
                Next::Nothing => !*dirty,
            };
            if over {
                slots[usize::from(*register)].names -= 1;
            }
            if let (true, true, Name::Vector(vector)) = (over, *dirty, *name) {
                lost.insert(vector);
            }
            !over
        });
    }

    /// Returns true if the value of a vector register was dropped: it is neither in a host register nor in memory.
    pub fn is_lost(&self, vector: u16) -> bool {
        self.lost.contains(&vector)
    }

    /// Returns true if any vector register's value was dropped.
    pub fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Bit mask of the pinned registers.
    pub fn pinned(&self) -> u32 {
        (0..).zip(&self.slots).fold(0, |bits, (n, slot)| bits | u32::from(slot.pinned) << n)
    }

    /// Unpins unnamed registers that are not in `before` (a mask from [`Registers::pinned`]) nor in `results`.
    pub fn release_since(&mut self, before: u32, results: &[u8]) {
        for (n, slot) in (0..).zip(&mut self.slots) {
            if slot.names == 0 && before >> n & 1 == 0 && !results.contains(&n) {
                slot.pinned = false;
            }
        }
    }

    /// Removes `name` from the host registers.
    pub fn forget(&mut self, name: Name) {
        if let Some((register, _)) = self.places.remove(&name) {
            self.slots[usize::from(register)].names -= 1;
        }
    }

    /// Dirty vector registers in ascending order, each with its host register and whether this is that register's last entry.
    pub fn dirty(&self) -> Vec<(u16, u8, bool)> {
        let mut all: Vec<(u16, u8)> = self
            .places
            .iter()
            .filter_map(|(name, (register, dirty))| match name {
                Name::Vector(vector) if *dirty => Some((*vector, *register)),
                _ => None,
            })
            .collect();
        all.sort_unstable();
        let is_last = |at: usize, register: u8| all[at + 1..].iter().all(|(_, other)| *other != register);
        all.iter()
            .enumerate()
            .map(|(at, (vector, register))| (*vector, *register, is_last(at, *register)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(_: Name) -> Next {
        Next::Nothing
    }

    #[test]
    fn the_value_used_longest_ago_goes_home_under_all_its_names() {
        let mut registers = Registers::new(32);
        for vector in 0..32 {
            let (register, evicted) = registers.take(unread).unwrap();
            assert!(evicted.is_empty());
            registers.name(Name::Vector(vector), register, true);
            registers.release(unread);
        }
        let (shared, _) = registers.places[&Name::Vector(1)];
        registers.name(Name::Vector(40), shared, true);
        assert!(!registers.is_alone(Name::Vector(1)));
        assert!(registers.find(Name::Vector(0)).is_some());
        registers.release(unread);
        let (register, evicted) = registers.take(unread).unwrap();
        assert_eq!((register, evicted), (shared, vec![1, 40]));
        assert_eq!(registers.find(Name::Vector(40)), None);
        assert_eq!(registers.dirty().len(), 31);
    }

    #[test]
    fn the_value_needed_last_goes_first_and_a_replaced_one_goes_nowhere() {
        let mut registers = Registers::new(3);
        for vector in 0..3 {
            let (register, _) = registers.take(unread).unwrap();
            registers.name(Name::Vector(vector), register, true);
        }
        let next = |name| match name {
            Name::Vector(0) => Next::Read(7),
            Name::Vector(1) => Next::Read(9),
            _ => Next::Replaced,
        };
        registers.release(next);
        assert!(registers.is_lost(2));
        let (first, evicted) = registers.take(next).unwrap();
        assert!(evicted.is_empty());
        assert_eq!(registers.take(next).unwrap().1, [1]);
        registers.name(Name::Vector(2), first, true);
        assert!(!registers.any_lost());
    }

    #[test]
    fn what_an_operation_keeps_is_never_taken() {
        let mut registers = Registers::new(3);
        let kept = registers.take(unread).unwrap().0;
        let before = registers.pinned();
        let (result, other) = (registers.take(unread).unwrap().0, registers.take(unread).unwrap().0);
        assert_eq!(registers.take(unread), None);
        registers.release_since(before, &[result]);
        assert_eq!(registers.take(unread).unwrap().0, other);
        assert_ne!(other, kept);
    }

    #[test]
    fn a_renamed_register_frees_its_old_value() {
        let mut registers = Registers::new(32);
        let (first, _) = registers.take(unread).unwrap();
        registers.name(Name::Vector(3), first, false);
        let (second, _) = registers.take(unread).unwrap();
        registers.name(Name::Vector(3), second, true);
        registers.release(unread);
        assert_eq!(registers.dirty(), [(3, second, true)]);
        assert_eq!(registers.take(unread).unwrap().0, first);
    }
}
