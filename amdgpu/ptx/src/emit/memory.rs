//! Loads and stores.
//!
//! A wide access of unknown alignment is tested at run time: the usual case is one wide instruction, the others are in a slow
//! path behind the kernel. AMD's hardware permits any alignment, NVIDIA's faults.

use lift::form::*;

use crate::Mode;
use crate::generator::{Generator, Guard, Reason, Section};
use crate::launch;
use crate::liveness::Liveness;

/// Where one lane's access goes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// State space with its dot, or nothing for a generic address.
    pub(crate) space: &'static str,
    /// Register with the address, or the name of a parameter.
    pub(crate) address: String,
    /// Bytes that are added to it.
    pub(crate) offset: i64,
    /// The address has 64 bits.
    pub(crate) wide: bool,
    /// When the lane accesses memory.
    pub(crate) guard: Guard,
    /// The guard is the mask: nothing else keeps a lane of the mask from the access.
    pub(crate) whole: bool,
}

impl Place {
    /// The address of a word, in brackets.
    fn at(&self, bytes: i64) -> String {
        format!("[{}+{}]", self.address, self.offset + bytes)
    }
}

/// A parameter and the offset in it that a value is the address of.
fn parameter(function: &Function, value: Value) -> Option<(&'static str, i64)> {
    let instruction = function.definition(value);
    match instruction.operation {
        Operation::Input(Input::KernargPointer) => Some(("kernarg", 0)),
        Operation::Input(Input::DispatchPointer) => Some(("launch", 0)),
        Operation::Binary(Binary::Add) if function.kind(value) == Kind::Double => {
            let [a, b] = instruction.operands[..] else { return None };
            let (of, by) = if function.constant(b).is_some() { (a, b) } else { (b, a) };
            let by = function.constant(by)? as i64;
            let (name, offset) = parameter(function, of)?;
            Some((name, offset.checked_add(by)?))
        }
        _ => None,
    }
}

/// Whether an address of a parameter is used for more than loads at constant offsets.
pub(crate) fn parameters_escape(function: &Function, live: &Liveness) -> bool {
    let all = function.blocks.iter().flat_map(|block| &block.instructions);
    for index in all.filter(|index| live.is_live(**index)) {
        let instruction = &function.instructions[*index as usize];
        for (at, operand) in instruction.operands.iter().enumerate() {
            if function.kind(*operand) != Kind::Double || parameter(function, *operand).is_none() {
                continue;
            }
            let harmless = match &instruction.operation {
                Operation::Load(access) => at == 1 && in_parameter(function, *operand, access).is_some(),
                Operation::Binary(Binary::Add) => parameter(function, instruction.results[0]).is_some(),
                _ => false,
            };
            if !harmless {
                return true;
            }
        }
    }
    false
}

/// The parameter and offset that an access reads, if it is inside.
fn in_parameter(function: &Function, address: Value, access: &Access) -> Option<(&'static str, i64)> {
    let (name, offset) = parameter(function, address)?;
    let offset = offset + i64::from(access.offset);
    let size = if name == "kernarg" { function.kernarg_bytes } else { launch::LAUNCH_BYTES };
    let inside = offset >= 0 && offset + i64::from(access.bytes) <= i64::from(size.next_multiple_of(16));
    (inside && (offset % 4 == 0 || access.bytes < 4)).then_some((name, offset))
}

/// The instructions before which the lanes of a wave must be brought in step: those that may read in LDS what another lane of the
/// wave has written, or the other way round, with no barrier between. On AMD's hardware lanes always are in step.
pub(crate) fn rendezvous(function: &Function, live: &Liveness, apertures: bool) -> Vec<bool> {
    #[derive(Clone, Copy, Default, PartialEq)]
    struct Since {
        reads: bool,
        writes: bool,
        atomics: bool,
    }
    let mut ends = vec![Since::default(); function.blocks.len()];
    let mut before = vec![false; function.instructions.len()];
    let is_lds = |space: Space| space == Space::Lds || apertures && space == Space::Flat;
    loop {
        let mut changed = false;
        for (number, block) in function.blocks.iter().enumerate() {
            let mut since = Since::default();
            for from in &block.predecessors {
                let end = ends[from.0 as usize];
                since.reads |= end.reads;
                since.writes |= end.writes;
                since.atomics |= end.atomics;
            }
            for index in block.instructions.iter().filter(|index| live.is_live(**index)) {
                let operation = &function.instructions[*index as usize].operation;
                let here = match operation {
                    Operation::Barrier | Operation::Fence(_) => {
                        since = Since::default();
                        continue;
                    }
                    Operation::Load(access) if is_lds(access.space) => {
                        Since { reads: true, ..Since::default() }
                    }
                    Operation::Store(access) if is_lds(access.space) => {
                        Since { writes: true, ..Since::default() }
                    }
                    Operation::Atomic(_, access, _) if is_lds(access.space) => {
                        Since { atomics: true, ..Since::default() }
                    }
                    Operation::AppendConsume { .. } => Since { atomics: true, ..Since::default() },
                    _ => continue,
                };
                let conflict = here.reads && (since.writes || since.atomics)
                    || here.writes && (since.reads || since.atomics)
                    || here.atomics && (since.reads || since.writes);
                if conflict {
                    changed |= !std::mem::replace(&mut before[*index as usize], true);
                    since = here;
                } else {
                    since.reads |= here.reads;
                    since.writes |= here.writes;
                    since.atomics |= here.atomics;
                }
            }
            let end = &mut ends[number];
            let all = Since {
                reads: end.reads | since.reads,
                writes: end.writes | since.writes,
                atomics: end.atomics | since.atomics,
            };
            changed |= std::mem::replace(end, all) != all;
        }
        if !changed {
            return before;
        }
    }
}

/// Alignment of an access as a power of two: that of the address and of the offset.
fn alignment(access: &Access, offset: i64) -> u32 {
    u32::from(access.align).min(offset.trailing_zeros())
}

/// Start of LDS in shared memory.
fn lds_base(g: &mut Generator<'_>) -> String {
    g.once("lds base", |g| {
        let base = g.word();
        g.line(format!("mov.u32 {base}, lds"));
        base
    })
}

/// A register with the number of addresses at which an access that ends `end` bytes behind its address is in LDS.
pub(crate) fn lds_limit(g: &mut Generator<'_>, end: i64) -> String {
    let end = end.max(1);
    g.once(&format!("lds limit {end}"), |g| {
        let bytes = super::prologue::lds_bytes(g);
        let (inside, limit) = (g.predicate(), g.word());
        g.line(format!("setp.ge.u32 {inside}, {bytes}, {end}"));
        g.line(format!("sub.u32 {limit}, {bytes}, {}", end - 1));
        g.line(format!("selp.b32 {limit}, {limit}, 0, {inside}"));
        limit
    })
}

/// Both guards.
fn both(g: &mut Generator<'_>, guard: Guard, predicate: String) -> Guard {
    match guard {
        Guard::Always => Guard::When(predicate),
        Guard::Never => Guard::Never,
        Guard::When(mask) => {
            let all = g.predicate();
            g.line(format!("and.pred {all}, {mask}, {predicate}"));
            Guard::When(all)
        }
    }
}

/// Finds where one half of an access goes; writes the code for its address.
pub(crate) fn place(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    access: &Access,
    half: usize,
) -> Result<Place, Reason> {
    let [mask, address] = [instruction.operands[0], instruction.operands[1]];
    let guard = g.guard(mask, half);
    let offset = i64::from(access.offset);
    let is_load = matches!(instruction.operation, Operation::Load(_));
    match access.space {
        Space::Kernarg => {
            let base = g.function.constant(address).ok_or("a kernel argument at a variable offset")?;
            let offset = offset + base as i64;
            Ok(Place { space: ".param", address: "kernarg".into(), offset, wide: true, guard, whole: true })
        }
        Space::Constant | Space::Global | Space::Flat if is_load => {
            if let Some((name, offset)) = in_parameter(g.function, address, access) {
                let address = name.to_owned();
                return Ok(Place { space: ".param", address, offset, wide: true, guard, whole: true });
            }
            device(g, address, access, half, guard)
        }
        Space::Constant | Space::Global | Space::Flat => device(g, address, access, half, guard),
        Space::Lds => lds(g, address, access, half, guard),
        Space::Private => {
            if g.function.private_bytes == 0 {
                return Err("scratch of unknown size".into());
            }
            let base = g.once("scratch base", |g| {
                let base = g.word();
                g.line(format!("mov.u32 {base}, scratch"));
                base
            });
            let at = g.in_register(address, half);
            overflow(g, &at, access, &guard, None);
            let sum = g.word();
            g.line(format!("add.u32 {sum}, {base}, {at}"));
            let offset = offset + half as i64 * i64::from(g.lane_scratch());
            Ok(Place { space: ".local", address: sum, offset, wide: false, guard, whole: true })
        }
    }
}

/// Stops the grid if an access is beyond a lane's scratch, where the size of the stack is not known: other lanes' scratch follows.
/// `only` is a further condition.
fn overflow(g: &mut Generator<'_>, at: &str, access: &Access, guard: &Guard, only: Option<&str>) {
    if !g.function.dynamic_stack || *guard == Guard::Never {
        return;
    }
    let limit = g.lane_scratch().saturating_sub(access.bytes.into());
    let (start, beyond) = (g.word(), g.predicate());
    g.line(format!("add.u32 {start}, {at}, {}", access.offset));
    g.line(format!("setp.gt.u32 {beyond}, {start}, {limit}"));
    if let Guard::When(mask) = guard {
        g.line(format!("and.pred {beyond}, {beyond}, {mask}"));
    }
    if let Some(only) = only {
        g.line(format!("and.pred {beyond}, {beyond}, {only}"));
    }
    g.line(format!("@{beyond} trap"));
}

fn lds(
    g: &mut Generator<'_>,
    address: Value,
    access: &Access,
    half: usize,
    guard: Guard,
) -> Result<Place, Reason> {
    let offset = i64::from(access.offset);
    if offset < 0 {
        return Err("a negative LDS offset".into());
    }
    let end = offset + i64::from(access.bytes);
    let most = i64::from(g.ranges.most(g.function, address));
    let proved = most + end <= i64::from(g.function.lds_bytes);
    let at = g.operand(address, half);
    let (guard, whole) = if proved || g.options.trusted_lds {
        (guard, true)
    } else {
        let (limit, inside) = (lds_limit(g, end), g.predicate());
        match guard {
            Guard::When(mask) => g.line(format!("setp.lt.and.u32 {inside}, {at}, {limit}, {mask}")),
            _ => g.line(format!("setp.lt.u32 {inside}, {at}, {limit}")),
        }
        (Guard::When(inside), false)
    };
    let (base, sum) = (lds_base(g), g.word());
    g.line(format!("add.u32 {sum}, {base}, {at}"));
    Ok(Place { space: ".shared", address: sum, offset, wide: false, guard, whole })
}

/// An address in device memory, or any other by its aperture.
fn device(
    g: &mut Generator<'_>,
    address: Value,
    access: &Access,
    half: usize,
    guard: Guard,
) -> Result<Place, Reason> {
    if g.function.kind(address) != Kind::Double {
        return Err("an address of 32 bits".into());
    }
    let offset = i64::from(access.offset);
    let at = g.in_register(address, half);
    if access.space != Space::Flat || !g.apertures {
        let space = if g.parameters_escape { "" } else { ".global" };
        return Ok(Place { space, address: at, offset, wide: true, guard, whole: true });
    }
    let (low, high, wide) = (g.word(), g.word(), g.double());
    let is_lds = g.predicate();
    g.line(format!("mov.b64 {{{low}, {high}}}, {at}"));
    g.line(format!("cvt.u64.u32 {wide}, {low}"));
    g.line(format!("setp.eq.u32 {is_lds}, {high}, {:#x}", launch::SHARED_APERTURE));
    let window = g.once("lds window", |g| {
        let (base, window) = (g.double(), g.double());
        g.line(format!("mov.u64 {base}, lds"));
        g.line(format!("cvta.shared.u64 {window}, {base}"));
        window
    });
    let (in_lds, chosen) = (g.double(), g.double());
    g.line(format!("add.u64 {in_lds}, {window}, {wide}"));
    g.line(format!("selp.b64 {chosen}, {in_lds}, {at}, {is_lds}"));
    // Out of LDS: not (is_lds and low >= limit).
    let (limit, beyond, inside) =
        (lds_limit(g, offset.max(0) + i64::from(access.bytes)), g.predicate(), g.predicate());
    g.line(format!("setp.ge.and.u32 {beyond}, {low}, {limit}, {is_lds}"));
    g.line(format!("not.pred {inside}, {beyond}"));
    let guard = both(g, guard, inside);
    let chosen = if g.function.private_bytes > 0 {
        let is_private = g.predicate();
        let window = g.once("scratch window", |g| {
            let (base, window) = (g.double(), g.double());
            g.line(format!("mov.u64 {base}, scratch"));
            g.line(format!("cvta.local.u64 {window}, {base}"));
            window
        });
        let (in_scratch, all) = (g.double(), g.double());
        g.line(format!("setp.eq.u32 {is_private}, {high}, {:#x}", launch::PRIVATE_APERTURE));
        overflow(g, &low, access, &guard, Some(&is_private));
        g.line(format!("add.u64 {in_scratch}, {window}, {wide}"));
        if half == 1 {
            g.line(format!("add.u64 {in_scratch}, {in_scratch}, {}", g.lane_scratch()));
        }
        g.line(format!("selp.b64 {all}, {in_scratch}, {chosen}, {is_private}"));
        all
    } else {
        chosen
    };
    Ok(Place { space: "", address: chosen, offset, wide: true, guard, whole: false })
}

/// The suffix that makes an access visible in its scope. Plain accesses can be merged and moved between barriers.
fn semantics(g: &Generator<'_>, space: &str, scope: MemoryScope, polls: bool) -> &'static str {
    match (space, scope) {
        (".param" | ".local", _) => "",
        (".shared", _) => {
            if g.polling.lds {
                ".relaxed.cta"
            } else {
                ""
            }
        }
        (_, MemoryScope::Wave) => {
            if polls {
                ".relaxed.gpu"
            } else {
                ""
            }
        }
        (_, MemoryScope::Workgroup) => ".relaxed.cta",
        (_, MemoryScope::Device) => ".relaxed.gpu",
        (_, MemoryScope::System) => ".relaxed.sys",
    }
}

/// First word and number of words of each instruction of an access.
fn chunks(words: usize, align: u32) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < words {
        let align = if at == 0 { align } else { align.min((4 * at).trailing_zeros()) };
        let count = match words - at {
            4.. if align >= 4 => 4,
            2.. if align >= 3 => 2,
            _ => 1,
        };
        all.push((at, count));
        at += count;
    }
    all
}

/// Alignment that the fast path of an access needs.
fn wanted(access: &Access, uniform: bool) -> u32 {
    match access.bytes {
        1 => 0,
        2 => 1,
        8 if !uniform => 3,
        bytes if bytes % 16 == 0 && !uniform => 4,
        _ => 2,
    }
}

/// Whether the lanes outside of the mask may keep anything in the results of a load: nothing reads them there.
fn unread_outside(g: &Generator<'_>, instruction: &Instruction) -> bool {
    let mask = instruction.operands[0];
    instruction.results.iter().all(|result| only_inside(g, mask, *result, DEPTH))
}

/// How far uses are followed.
const DEPTH: u32 = 8;

/// Whether a value matters only in the lanes of a mask: it ends in accesses under the mask, or in selects by it.
fn only_inside(g: &Generator<'_>, mask: Value, value: Value, depth: u32) -> bool {
    depth > 0
        && !g.live.decides(value)
        && g.live.uses(value).iter().all(|index| {
            let user = &g.function.instructions[*index as usize];
            match &user.operation {
                Operation::Select if user.operands[0] == mask => {
                    user.operands[2] != value || only_inside(g, mask, user.results[0], depth - 1)
                }
                Operation::Store(_) | Operation::Atomic(..) | Operation::Load(_) => user.operands[0] == mask,
                Operation::Phi => false,
                operation if operation.is_pure() && !crosses(operation) => {
                    user.results.iter().all(|result| only_inside(g, mask, *result, depth - 1))
                }
                _ => false,
            }
        })
}

/// Whether other lanes see a lane's operand.
fn crosses(operation: &Operation) -> bool {
    operation.crosses_lanes() || matches!(operation, Operation::AnyLane | Operation::MaskOf)
}

/// Writes a load.
pub(crate) fn load(g: &mut Generator<'_>, instruction: &Instruction, access: &Access) -> Result<(), Reason> {
    let uniform = g.function.shape(instruction.results[0]) == Shape::Uniform;
    for half in 0..g.halves_of(instruction.results[0]) {
        let place = place(g, instruction, access, half)?;
        let results: Vec<String> = instruction.results.iter().map(|value| g.result(*value, half)).collect();
        if place.guard != Guard::Always && !(place.whole && unread_outside(g, instruction)) {
            for result in &results {
                g.line(format!("mov.b32 {result}, 0"));
            }
        }
        if place.guard == Guard::Never {
            continue;
        }
        if place.space == ".param" {
            load_parameter(g, access, &place, &results)?;
            continue;
        }
        let align = alignment(access, place.offset);
        let mut need = wanted(access, uniform);
        if g.options.aligned_words && need <= 2 {
            need = need.min(align);
        }
        let read_only = access.space == Space::Constant && place.space == ".global";
        let name = if read_only {
            "ld.global.nc".to_owned()
        } else {
            let polls = g.polling.polls(g.function, instruction);
            format!("ld{}{}", semantics(g, place.space, access.scope, polls), place.space)
        };
        if align >= need {
            load_words(g, &name, access, &place, &results, align.max(need));
            continue;
        }
        let (slow, back) = branch_if_unaligned(g, &place, need);
        load_words(g, &name, access, &place, &results, need);
        g.place(&back);
        let before = g.enter(Section::Slow);
        g.place(&slow);
        load_unaligned(g, &name, access, &place, &results);
        g.line(format!("bra {back}"));
        g.enter(before);
    }
    Ok(())
}

/// Reads a parameter. Words beyond its end are 0.
fn load_parameter(
    g: &mut Generator<'_>,
    access: &Access,
    place: &Place,
    results: &[String],
) -> Result<(), Reason> {
    let size = if place.address == "kernarg" { g.kernarg_bytes() } else { launch::LAUNCH_BYTES };
    if place.offset < 0 || access.bytes >= 4 && place.offset % 4 != 0 {
        return Err("a parameter at an odd offset".into());
    }
    let size = i64::from(size);
    let words = results.len();
    if access.bytes < 4 || place.offset + 4 * words as i64 <= size {
        if place.offset + i64::from(access.bytes) > size {
            return Err("a kernel argument beyond the block".into());
        }
        load_words(g, "ld.param", access, place, results, place.offset.trailing_zeros());
        return Ok(());
    }
    for (at, result) in results.iter().enumerate() {
        let at = 4 * at as i64;
        if place.offset + at < size {
            g.line(format!("{}ld.param.b32 {result}, {}", place.guard.prefix(), place.at(at)));
        } else {
            g.line(format!("mov.b32 {result}, 0"));
        }
    }
    Ok(())
}

fn load_words(
    g: &mut Generator<'_>,
    name: &str,
    access: &Access,
    place: &Place,
    results: &[String],
    align: u32,
) {
    let prefix = place.guard.prefix();
    let sign = if access.signed { 's' } else { 'u' };
    if access.bytes < 4 {
        g.line(format!("{prefix}{name}.{sign}{} {}, {}", 8 * access.bytes, results[0], place.at(0)));
        return;
    }
    for (first, count) in chunks(results.len(), align) {
        let at = place.at(4 * first as i64);
        match count {
            1 => g.line(format!("{prefix}{name}.b32 {}, {at}", results[first])),
            _ => {
                let list = results[first..first + count].join(", ");
                g.line(format!("{prefix}{name}.v{count}.b32 {{{list}}}, {at}"));
            }
        }
    }
}

/// Branches to a slow path if an address is not aligned. Returns the labels of the slow path and of the way back.
fn branch_if_unaligned(g: &mut Generator<'_>, place: &Place, need: u32) -> (String, String) {
    let bits = (1u32 << need) - 1;
    let low = low_bits(g, place);
    let (rest, odd) = (g.word(), g.predicate());
    g.line(format!("and.b32 {rest}, {low}, {bits}"));
    match &place.guard {
        Guard::When(mask) => g.line(format!("setp.ne.and.u32 {odd}, {rest}, 0, {mask}")),
        _ => g.line(format!("setp.ne.u32 {odd}, {rest}, 0")),
    }
    let (slow, back) = (g.label("SLOW"), g.label("BACK"));
    g.line(format!("@{odd} bra {slow}"));
    (slow, back)
}

/// The low bits of an address with its offset.
fn low_bits(g: &mut Generator<'_>, place: &Place) -> String {
    let low = g.word();
    if place.wide {
        g.line(format!("cvt.u32.u64 {low}, {}", place.address));
    } else {
        g.line(format!("mov.b32 {low}, {}", place.address));
    }
    if place.offset != 0 {
        g.line(format!("add.u32 {low}, {low}, {}", place.offset as i32));
    }
    low
}

/// Reads any alignment: the aligned words around the bytes, shifted. No word is read that has none of the bytes.
fn load_unaligned(g: &mut Generator<'_>, name: &str, access: &Access, place: &Place, results: &[String]) {
    if access.bytes == 2 {
        let (low, high) = (g.word(), g.word());
        let sign = if access.signed { 's' } else { 'u' };
        g.line(format!("{name}.u8 {low}, {}", place.at(0)));
        g.line(format!("{name}.{sign}8 {high}, {}", place.at(1)));
        g.line(format!("shl.b32 {high}, {high}, 8"));
        g.line(format!("or.b32 {}, {low}, {high}", results[0]));
        return;
    }
    let size = if place.wide { "64" } else { "32" };
    let fresh = |g: &mut Generator<'_>| if place.wide { g.double() } else { g.word() };
    let (start, last) = (fresh(g), fresh(g));
    let shift = low_bits(g, place);
    g.line(format!("and.b32 {shift}, {shift}, 3"));
    g.line(format!("shl.b32 {shift}, {shift}, 3"));
    g.line(format!("add.u{size} {start}, {}, {}", place.address, place.offset));
    g.line(format!("add.u{size} {last}, {start}, {}", access.bytes - 1));
    g.line(format!("and.b{size} {start}, {start}, -4"));
    g.line(format!("and.b{size} {last}, {last}, -4"));
    let mut words: Vec<String> = Vec::new();
    for at in 0..results.len() {
        let word = g.word();
        g.line(format!("{name}.b32 {word}, [{start}+{}]", 4 * at));
        words.push(word);
    }
    let end = g.word();
    g.line(format!("{name}.b32 {end}, [{last}]"));
    words.push(end);
    for (at, result) in results.iter().enumerate() {
        g.line(format!("shf.r.wrap.b32 {result}, {}, {}, {shift}", words[at], words[at + 1]));
    }
}

/// Writes a store.
pub(crate) fn store(g: &mut Generator<'_>, instruction: &Instruction, access: &Access) -> Result<(), Reason> {
    if matches!(access.space, Space::Constant | Space::Kernarg) {
        return Err("a store to read-only memory".into());
    }
    let most = instruction.operands.iter().map(|value| g.halves_of(*value)).max().unwrap_or(1);
    // A flat address may be in scratch, which is a lane's own.
    let own = match access.space {
        Space::Private => true,
        Space::Flat => g.apertures && g.function.private_bytes > 0,
        _ => false,
    };
    for half in 0..if own { g.halves(Shape::Lane) } else { most } {
        let place = place(g, instruction, access, half)?;
        if place.guard == Guard::Never {
            continue;
        }
        let words: Vec<String> =
            instruction.operands[2..].iter().map(|value| g.in_register(*value, half)).collect();
        let align = alignment(access, place.offset);
        let mut need = wanted(access, false);
        if g.options.aligned_words && need <= 2 {
            need = need.min(align);
        }
        let name = format!("st{}{}", semantics(g, place.space, access.scope, false), place.space);
        if align >= need {
            store_words(g, &name, access, &place, &words, align.max(need));
            continue;
        }
        let (slow, back) = branch_if_unaligned(g, &place, need);
        store_words(g, &name, access, &place, &words, need);
        g.place(&back);
        let before = g.enter(Section::Slow);
        g.place(&slow);
        store_unaligned(g, &name, access, &place, &words, &back);
        g.line(format!("bra {back}"));
        g.enter(before);
    }
    Ok(())
}

fn store_words(
    g: &mut Generator<'_>,
    name: &str,
    access: &Access,
    place: &Place,
    words: &[String],
    align: u32,
) {
    let prefix = place.guard.prefix();
    if access.bytes < 4 {
        g.line(format!("{prefix}{name}.u{} {}, {}", 8 * access.bytes, place.at(0), words[0]));
        return;
    }
    for (first, count) in chunks(words.len(), align) {
        let at = place.at(4 * first as i64);
        match count {
            1 => g.line(format!("{prefix}{name}.b32 {at}, {}", words[first])),
            _ => {
                let list = words[first..first + count].join(", ");
                g.line(format!("{prefix}{name}.v{count}.b32 {at}, {{{list}}}"));
            }
        }
    }
}

/// Writes any alignment: words if they are aligned, else bytes.
fn store_unaligned(
    g: &mut Generator<'_>,
    name: &str,
    access: &Access,
    place: &Place,
    words: &[String],
    back: &str,
) {
    if words.len() > 1 {
        let bytes = g.label("BYTES");
        let low = low_bits(g, place);
        let odd = g.predicate();
        g.line(format!("and.b32 {low}, {low}, 3"));
        g.line(format!("setp.ne.u32 {odd}, {low}, 0"));
        g.line(format!("@{odd} bra {bytes}"));
        for (at, word) in words.iter().enumerate() {
            g.line(format!("{name}.b32 {}, {word}", place.at(4 * at as i64)));
        }
        g.line(format!("bra {back}"));
        g.place(&bytes);
    }
    for (at, word) in words.iter().enumerate() {
        for byte in 0..i64::from(access.bytes.min(4)) {
            let part = g.word();
            g.line(format!("shr.u32 {part}, {word}, {}", 8 * byte));
            g.line(format!("{name}.u8 {}, {part}", place.at(4 * at as i64 + byte)));
        }
    }
}

/// Brings the lanes of a wave in step.
pub(crate) fn meet(g: &mut Generator<'_>) {
    if g.mode == Mode::Pair {
        g.line("bar.warp.sync -1");
    }
}
