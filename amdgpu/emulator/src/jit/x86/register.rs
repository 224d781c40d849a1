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
}

/// Vector registers of the host.
const COUNT: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Names of the value.
    names: u32,
    /// In use by the operation that is being lowered.
    pinned: bool,
    last_use: u64,
}

#[derive(Debug, Default)]
pub struct Registers {
    slots: [Slot; COUNT],
    /// Where a name's value is, and whether its home in memory is out of date.
    places: HashMap<Name, (u8, bool)>,
    clock: u64,
}

impl Registers {
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
    /// their homes from it before it is used.
    pub fn take(&mut self) -> (u8, Vec<u16>) {
        let free = self.slots.iter().position(|slot| slot.names == 0 && !slot.pinned);
        let register = free.unwrap_or_else(|| {
            let unpinned = self.slots.iter().enumerate().filter(|(_, slot)| !slot.pinned);
            // An operation pins a dozen at most.
            unpinned.min_by_key(|(_, slot)| slot.last_use).map_or(0, |(register, _)| register)
        }) as u8;
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
        (register, evicted)
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

    /// Vector registers whose homes are out of date, in order.
    pub fn dirty(&self) -> Vec<(u16, u8)> {
        let mut all: Vec<(u16, u8)> = self
            .places
            .iter()
            .filter_map(|(name, (register, dirty))| match name {
                Name::Vector(vector) if *dirty => Some((*vector, *register)),
                _ => None,
            })
            .collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_used_longest_ago_goes_home_under_all_its_names() {
        let mut registers = Registers::default();
        for vector in 0..32 {
            let (register, evicted) = registers.take();
            assert!(evicted.is_empty());
            registers.name(Name::Vector(vector), register, true);
            registers.release();
        }
        let (shared, _) = registers.places[&Name::Vector(1)];
        registers.name(Name::Vector(40), shared, true);
        assert!(!registers.is_alone(Name::Vector(1)));
        assert!(registers.find(Name::Vector(0)).is_some());
        registers.release();
        let (register, evicted) = registers.take();
        assert_eq!((register, evicted), (shared, vec![1, 40]));
        assert_eq!(registers.find(Name::Vector(40)), None);
        assert_eq!(registers.dirty().len(), 31);
    }

    #[test]
    fn a_renamed_register_frees_its_old_value() {
        let mut registers = Registers::default();
        let (first, _) = registers.take();
        registers.name(Name::Vector(3), first, false);
        let (second, _) = registers.take();
        registers.name(Name::Vector(3), second, true);
        registers.release();
        assert_eq!(registers.dirty(), [(3, second)]);
        assert_eq!(registers.take().0, first);
    }
}
