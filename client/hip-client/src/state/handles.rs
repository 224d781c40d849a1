//! Client-allocated handles: streams, events, modules, functions, pools, programs.
//!
//! A handle looks like a pointer to the program but is not one. It consists of tag, generation and index, so a stale or
//! foreign handle fails a table lookup instead of crashing. The worker uses the same numbers for its objects.

use std::sync::Arc;

use parking_lot::RwLock;

/// The kind of object. The tag is part of the handle, so a stream passed as an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Stream = 0x51,
    Event = 0x52,
    Module = 0x53,
    Function = 0x54,
    MemoryPool = 0x55,
    Program = 0x56,
    Context = 0x57,
    Graph = 0x58,
    Executable = 0x59,
    GraphNode = 0x5a,
    UserObject = 0x5b,
    PhysicalMemory = 0x60,
    Library = 0x61,
    Linker = 0x62,
}

/// All live objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    slots: RwLock<Slots<T>>,
}

#[derive(Debug)]
struct Slots<T> {
    entries: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    value: Option<Arc<T>>,
}

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 16;

impl<T> Table<T> {
    pub const fn new(kind: Kind) -> Table<T> {
        Table { kind, slots: RwLock::new(Slots { entries: Vec::new(), free: Vec::new() }) }
    }

    /// Allocates a handle and stores the object that `make` builds from it; `None` when 2^24 objects are alive.
    pub fn insert_with(&self, make: impl FnOnce(u64) -> T) -> Option<(u64, Arc<T>)> {
        let mut slots = self.slots.write();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(slots.entries.len()).ok().filter(|i| *i < 1 << INDEX_BITS)?;
                slots.entries.push(Slot { generation: 0, value: None });
                index
            }
        };
        let slot = &mut slots.entries[index as usize];
        let handle = encode(self.kind, slot.generation, index);
        let value = Arc::new(make(handle));
        slot.value = Some(Arc::clone(&value));
        Some((handle, value))
    }

    pub fn get(&self, handle: u64) -> Option<Arc<T>> {
        let (generation, index) = decode(self.kind, handle)?;
        let slots = self.slots.read();
        let slot = slots.entries.get(index as usize)?;
        if slot.generation == generation { slot.value.clone() } else { None }
    }

    /// The handle of an object that satisfies `wanted`.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<u64> {
        let slots = self.slots.read();
        let index = slots.entries.iter().position(|slot| slot.value.as_ref().is_some_and(|it| wanted(it)))?;
        Some(encode(self.kind, slots.entries[index].generation, index as u32))
    }

    /// Removes the object; its handle stays invalid (until 2^16 reuses of the slot).
    pub fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let (generation, index) = decode(self.kind, handle)?;
        let mut slots = self.slots.write();
        let slot = slots.entries.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slots.free.push(index);
        Some(value)
    }

    /// Removes and returns the objects that satisfy `gone`.
    pub fn remove_where(&self, gone: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut slots = self.slots.write();
        let mut taken = Vec::new();
        let mut freed = Vec::new();
        for (index, slot) in slots.entries.iter_mut().enumerate() {
            if slot.value.as_ref().is_some_and(|v| gone(v)) {
                taken.extend(slot.value.take());
                slot.generation = slot.generation.wrapping_add(1);
                freed.push(index as u32);
            }
        }
        slots.free.extend(freed);
        taken
    }
}

fn encode(kind: Kind, generation: u16, index: u32) -> u64 {
    u64::from(kind as u8) << (INDEX_BITS + GENERATION_BITS)
        | u64::from(generation) << INDEX_BITS
        | u64::from(index)
}

fn decode(kind: Kind, handle: u64) -> Option<(u16, u32)> {
    if handle >> (INDEX_BITS + GENERATION_BITS) != u64::from(kind as u8) {
        return None;
    }
    let generation = (handle >> INDEX_BITS) as u16;
    let index = (handle & ((1 << INDEX_BITS) - 1)) as u32;
    Some((generation, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_is_stale_even_when_its_slot_is_reused() {
        let table = Table::new(Kind::Event);
        let (first, _) = table.insert_with(|h| h).unwrap();
        assert_eq!(*table.get(first).unwrap(), first);
        table.remove(first).unwrap();
        let (second, _) = table.insert_with(|h| h).unwrap();
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        assert!(table.remove(first).is_none());
        assert!(table.get(second).is_some());
    }

    #[test]
    fn a_handle_of_another_kind_is_refused() {
        let streams = Table::new(Kind::Stream);
        let events = Table::new(Kind::Event);
        let (stream, _) = streams.insert_with(|_| ()).unwrap();
        events.insert_with(|_| ()).unwrap();
        assert!(events.get(stream).is_none());
        for garbage in [0, 1, 2, u64::MAX, 0x7fff_0000_1000] {
            assert!(streams.get(garbage).is_none());
        }
    }

    #[test]
    fn remove_where_takes_only_what_matches() {
        let table = Table::new(Kind::Module);
        let handles: Vec<u64> = (0..10u32).map(|i| table.insert_with(|_| i).unwrap().0).collect();
        let gone = table.remove_where(|v| v % 2 == 0);
        assert_eq!(gone.len(), 5);
        assert!(table.get(handles[0]).is_none());
        assert!(table.get(handles[1]).is_some());
    }
}
