//! Liveness analysis: the next use of each value in a run. The code is straight-line, so all uses are known in advance.
//!
//! Reads may be overestimated, which costs at most an unnecessary store. A recorded write replaces the whole value: EXEC is
//! constant in a run, so a later result replaces an earlier one in all lanes that are stored.

use std::collections::HashMap;

use isa::{Inst, Op};

use super::local_read::Read;
use super::run::{Item, Run};
use super::value::Name;
use crate::exec::lane::op::{Kind, Shape};
use crate::{Lanes, SrcKind, Uop};

/// Next event of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read by this item of the run.
    Read(usize),
    /// Overwritten before it is read again.
    Replaced,
    /// Neither read nor overwritten until the end of the run.
    Nothing,
}

#[derive(Debug, Default)]
pub struct Liveness {
    /// Accesses to each name as (item, is a write), in order; an item that does both reads first.
    events: HashMap<Name, Vec<(usize, bool)>>,
}

impl Liveness {
    pub fn of(run: &Run, uops: &[Uop], insts: &[Inst], constants: &[Lanes]) -> Liveness {
        let mut liveness = Liveness::default();
        for (item, what) in run.items.iter().enumerate() {
            match what {
                Item::Lanes(at) => {
                    let uop = &uops[*at - run.start];
                    liveness.add_lanes(item, uop, &insts[uop.inst as usize], constants);
                }
                Item::Reads(group) => {
                    let uops = group.iter().map(|at| &uops[*at - run.start]);
                    let reads: Vec<Read> =
                        uops.filter_map(|uop| Read::of(&insts[uop.inst as usize], uop)).collect();
                    for read in &reads {
                        liveness.add(item, Name::Vector(read.address()), false);
                    }
                    for vector in reads.iter().flat_map(Read::vectors) {
                        liveness.add(item, Name::Vector(vector), true);
                    }
                }
            }
        }
        liveness
    }

    fn add(&mut self, item: usize, name: Name, write: bool) {
        self.events.entry(name).or_default().push((item, write));
    }

    fn add_lanes(&mut self, item: usize, uop: &Uop, inst: &Inst, constants: &[Lanes]) {
        let shape = Shape::unpack(uop.flags);
        for (src, kind) in uop.src.iter().zip(shape.src) {
            let parts = match kind {
                Kind::None => 0,
                Kind::Mask => {
                    self.add(item, Name::Mask(src.index), false);
                    0
                }
                kind if kind.wide() || inst.op == Op::v_pk_mov_b32 => 2,
                _ => 1,
            };
            for index in src.index..src.index + parts {
                let name = match src.kind {
                    SrcKind::Scalar => Name::Scalar(index),
                    SrcKind::Vector => Name::Vector(index),
                    SrcKind::Constant => match constants.get(usize::from(index)) {
                        Some(lanes) => Name::Constant(lanes.0[0]),
                        None => continue,
                    },
                    _ => continue,
                };
                self.add(item, name, false);
            }
        }
        if shape.dst != Kind::None {
            let parts = if shape.dst.wide() { 2 } else { 1 };
            for index in uop.dst..uop.dst + parts {
                self.add(item, Name::Vector(index), true);
            }
        }
        if shape.mask_out {
            self.add(item, Name::Mask(uop.sdst), true);
        }
    }

    /// Number of times a name is read.
    pub fn reads(&self, name: Name) -> usize {
        self.events.get(&name).map_or(0, |events| events.iter().filter(|(_, write)| !write).count())
    }

    /// Next event of a value, starting at `item`.
    pub fn next(&self, name: Name, item: usize) -> Next {
        let Some(events) = self.events.get(&name) else { return Next::Nothing };
        match events.get(events.partition_point(|(at, _)| *at < item)) {
            Some((at, false)) => Next::Read(*at),
            Some((_, true)) => Next::Replaced,
            None => Next::Nothing,
        }
    }
}
