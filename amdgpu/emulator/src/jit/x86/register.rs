//! Which value is in which vector register of the host, and what has to be written back.
//!
//! Every value is written once: an operation puts its result into a register of its own and then names it. Registers of the wave
//! that hold the same value share one. When none is free, the value used longest ago goes back to its home.

use std::collections::HashMap;

/// What a value is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// A vector register of the wave.
    Vector(u16),
    /// A scalar register, the same for all lanes.
    Scalar(u16),
    /// A constant, the same for all lanes.
    Constant(u32),
    /// A lane mask in scalar registers, as lanes of all ones or none.
    Mask(u16),
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Names of the value.
    names: u32,
    /// In use by the operation that is being lowered.
    pinned: bool,
    last_use: u64,
}

#[derive(Debug)]
pub struct Registers {
    slots: Vec<Slot>,
    /// Where a name's value is, and whether its home in memory is out of date.
    places: HashMap<Name, (u8, bool)>,
    clock: u64,
}

impl Registers {
    /// The first `count` registers of the host, at most 32.
    pub fn new(count: usize) -> Registers {
        Registers { slots: vec![Slot::default(); count], places: HashMap::new(), clock: 0 }
    }

    /// The register that holds `name`'s value, kept until [`Registers::release`].
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

    /// A register for a new value, kept until [`Registers::release`]. Vector registers in the second part must be written to
    /// their homes from it before it is used. `None` if one operation keeps them all.
    pub fn take(&mut self) -> Option<(u8, Vec<u16>)> {
        let unpinned = self.slots.iter().enumerate().filter(|(_, slot)| !slot.pinned);
        let (register, _) =
            unpinned.min_by_key(|(_, slot)| if slot.names == 0 { 0 } else { slot.last_use })?;
        let register = register as u8;
        let mut evicted: Vec<u16> = Vec::new();
        self.places.retain(|name, (place, dirty)| {
            if *place != register {
                return true;
            }
            if let (Name::Vector(vector), true) = (*name, *dirty) {
                evicted.push(vector);
            }
            false
        });
        evicted.sort_unstable();
        self.slots[usize::from(register)].names = 0;
        self.pin(register);
        Some((register, evicted))
    }

    /// From now on `name` is the value in `register`.
    pub fn name(&mut self, name: Name, register: u8, dirty: bool) {
        if let Some((old, _)) = self.places.insert(name, (register, dirty)) {
            self.slots[usize::from(old)].names -= 1;
        }
        self.slots[usize::from(register)].names += 1;
    }

    /// Whether `name` is the only name of its value, so that who is about to give `name` a new value may overwrite it.
    pub fn is_alone(&self, name: Name) -> bool {
        self.places.get(&name).is_some_and(|(register, _)| self.slots[usize::from(*register)].names == 1)
    }

    /// The operation is lowered: what it pinned may go.
    pub fn release(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.pinned = false);
    }

    /// Which registers are kept, as bits.
    pub fn pinned(&self) -> u32 {
        (0..).zip(&self.slots).fold(0, |bits, (n, slot)| bits | u32::from(slot.pinned) << n)
    }

    /// Lets go of registers without a name that were not kept `before`, other than `results`.
    pub fn release_since(&mut self, before: u32, results: &[u8]) {
        for (n, slot) in (0..).zip(&mut self.slots) {
            if slot.names == 0 && before >> n & 1 == 0 && !results.contains(&n) {
                slot.pinned = false;
            }
        }
    }

    /// `name` has no value here any more.
    pub fn forget(&mut self, name: Name) {
        if let Some((register, _)) = self.places.remove(&name) {
            self.slots[usize::from(register)].names -= 1;
        }
    }

    /// Vector registers whose homes are out of date, in order, with the registers they are in, and whether that comes up no more.
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

    #[test]
    fn the_value_used_longest_ago_goes_home_under_all_its_names() {
        let mut registers = Registers::new(32);
        for vector in 0..32 {
            let (register, evicted) = registers.take().unwrap();
            assert!(evicted.is_empty());
            registers.name(Name::Vector(vector), register, true);
            registers.release();
        }
        let (shared, _) = registers.places[&Name::Vector(1)];
        registers.name(Name::Vector(40), shared, true);
        assert!(!registers.is_alone(Name::Vector(1)));
        assert!(registers.find(Name::Vector(0)).is_some());
        registers.release();
        let (register, evicted) = registers.take().unwrap();
        assert_eq!((register, evicted), (shared, vec![1, 40]));
        assert_eq!(registers.find(Name::Vector(40)), None);
        assert_eq!(registers.dirty().len(), 31);
    }

    #[test]
    fn what_an_operation_keeps_is_never_taken() {
        let mut registers = Registers::new(3);
        let kept = registers.take().unwrap().0;
        let before = registers.pinned();
        let (result, other) = (registers.take().unwrap().0, registers.take().unwrap().0);
        assert_eq!(registers.take(), None);
        registers.release_since(before, &[result]);
        assert_eq!(registers.take().unwrap().0, other);
        assert_ne!(other, kept);
    }

    #[test]
    fn a_renamed_register_frees_its_old_value() {
        let mut registers = Registers::new(32);
        let (first, _) = registers.take().unwrap();
        registers.name(Name::Vector(3), first, false);
        let (second, _) = registers.take().unwrap();
        registers.name(Name::Vector(3), second, true);
        registers.release();
        assert_eq!(registers.dirty(), [(3, second, true)]);
        assert_eq!(registers.take().unwrap().0, first);
    }
}
