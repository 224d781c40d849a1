//! The instruction trace shows what the selected wave executed, one instruction per line.

mod rig;

use std::io::Write;
use std::sync::Arc;

use emulator::observe::{ObserveOptions, Observer, TraceOptions};
use isa::Arch;
use parking_lot::Mutex;
use rig::{ARCHS, Args, Rig, hip};

/// Trace output that can be read while it is written.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Text {
    fn read(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn observer(options: ObserveOptions) -> (Arc<Observer>, Text) {
    let text = Text::default();
    (Arc::new(Observer::new(options, Some(Box::new(text.clone())))), text)
}

fn traced(rig: &Rig, options: ObserveOptions, kernel: &str, blocks: u32, threads: u32, args: Args) -> String {
    let (observer, text) = observer(options);
    let mut dispatch = rig.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args);
    dispatch.observer = Some(observer);
    rig.gpu.launch(&dispatch).unwrap();
    text.read()
}

fn trace(options: TraceOptions) -> ObserveOptions {
    ObserveOptions { trace: Some(options), ..ObserveOptions::default() }
}

/// Replaces addresses that change between runs.
fn stable(text: &str, names: &[(u64, &str)]) -> String {
    let mut text = text.to_owned();
    for (address, name) in names {
        text = text.replace(&format!("{address:016x}"), name).replace(&format!("{address:x}"), name);
    }
    let words = |line: &str| {
        let address = |text: &str| text.len() > 8 && text.chars().all(|digit| digit.is_ascii_hexdigit());
        let word = |word: &str| match word.split_once('@') {
            Some((before, after)) if address(after) => format!("{before}@ARGUMENTS"),
            _ => word.to_owned(),
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(|line| words(line) + "\n").collect()
}

#[test]
fn a_tiny_kernel_is_traced_as_it_runs() {
    let arch = Arch::Gfx942;
    let rig = Rig::new(arch, hip("observed.hip", arch, &["-gline-tables-only"]));
    let out = rig.alloc(vec![0f32; 64]);
    let args = Args::new().ptr(&out).f32(1.5);
    let text = traced(&rig, trace(TraceOptions { lane: Some(2), ..Default::default() }), "tiny", 1, 64, args);
    assert_eq!(out.read()[..4], [0.0, 1.5, 3.0, 0.0]);
    let kernel = rig.module.kernel("tiny").unwrap();
    let third = out.address() + 8;
    insta::assert_snapshot!(stable(
        &text,
        &[(out.address(), "OUT"), (third, "OUT+8"), (kernel.entry(), "CODE")]
    ));
}

#[test]
fn every_executed_instruction_is_a_line_and_only_of_the_chosen_wave() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let (input, out) = (rig.alloc((0..512).collect::<Vec<i32>>()), rig.alloc(vec![0i32; 2]));
        let args = Args::new().ptr(&input).ptr(&out);
        let options = trace(TraceOptions { workgroup: [1, 0, 0], wave: 3, ..Default::default() });
        let text = traced(&rig, options, "fixed_sum", 2, 256, args.clone());
        assert!(text.contains("workgroup 1,0,0, wave 3 of 4"), "{text}");
        assert_eq!(text.matches("s_barrier").count(), 9, "{text}");
        assert_eq!(text.matches("s_endpgm").count(), 1, "{text}");
        let lines = text.lines().filter(|line| line.starts_with('+')).count();
        assert!(text.contains(&format!("ended after {lines} instructions")), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        let addresses = text.matches("ds_write_b32").count();
        assert_eq!(addresses, 1, "wave 3 only writes its own part: {text}");
        let none =
            traced(&rig, trace(TraceOptions { wave: 4, ..Default::default() }), "fixed_sum", 2, 256, args);
        assert_eq!(none, "", "there is no wave 4");
    }
}

#[test]
fn private_memory_is_shown_by_the_offset_a_work_item_sees() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let (out, order) = (rig.alloc(vec![0i32; 64]), rig.alloc((0..16).rev().collect::<Vec<i32>>()));
        let args = Args::new().ptr(&out).ptr(&order);
        let options = trace(TraceOptions { lane: Some(7), ..Default::default() });
        let text = traced(&rig, options, "private_array", 1, 64, args);
        assert_eq!(out.read(), [(0..16).map(|k| k * (15 - k)).sum(); 64]);
        let offset =
            |word: &str| u32::from_str_radix(word.split(['=', ' ', '\n']).next().unwrap(), 16).unwrap();
        let offsets: Vec<u32> = text.split("private@").skip(1).map(offset).collect();
        assert!(offsets.len() >= 20, "{text}");
        // The array's 64 bytes, after the few bytes that the compiler may place before it.
        let (first, last) = (offsets.iter().min().unwrap(), offsets.iter().max().unwrap());
        assert!(last - first < 64 && *last < 256, "{first}..{last}\n{text}");
        // The loop stores k at order[k], from the last element to the first.
        let stores: Vec<u32> =
            text.split("private@").skip(1).filter(|word| word.get(4..5) == Some("=")).map(offset).collect();
        assert!(stores.len() >= 16 && stores[0] == stores[1] + 4, "{text}");
    }
}

#[test]
fn the_limit_ends_a_trace_and_not_the_kernel() {
    let rig = Rig::hip("observed.hip", Arch::Gfx942);
    let out = rig.alloc(vec![0f32; 64]);
    let options = trace(TraceOptions { limit: Some(4), ..Default::default() });
    let text = traced(&rig, options, "tiny", 1, 64, Args::new().ptr(&out).f32(2.0));
    assert_eq!(text.lines().filter(|line| line.starts_with('+')).count(), 4, "{text}");
    assert!(text.ends_with("== the first 4 instructions; a higher limit shows more\n"), "{text}");
    assert_eq!(out.read()[..3], [0.0, 2.0, 4.0]);
}

#[test]
fn launches_are_chosen_by_kernel_and_number() {
    let rig = Rig::hip("observed.hip", Arch::Gfx942);
    let out = rig.alloc(vec![8f32; 64]);
    let (observer, text) = observer(ObserveOptions {
        kernel: Some("half_of<float>".to_owned()),
        launch: Some(1),
        ..trace(TraceOptions::default())
    });
    for kernel in
        ["tiny", "_Z7half_ofIfEvPKT_PS0_", "tiny", "_Z7half_ofIfEvPKT_PS0_", "_Z7half_ofIfEvPKT_PS0_"]
    {
        let args = match kernel {
            "tiny" => Args::new().ptr(&out).f32(16.0),
            _ => Args::new().ptr(&out).ptr(&out),
        };
        let mut dispatch = rig.dispatch(kernel, [1, 1, 1], [64, 1, 1], args);
        dispatch.observer = Some(Arc::clone(&observer));
        rig.gpu.launch(&dispatch).unwrap();
    }
    let text = text.read();
    assert_eq!((observer.launches(), observer.traced()), (5, 1));
    assert_eq!(text.matches("== launch 1,").count(), 1, "{text}");
    assert!(text.starts_with("== void half_of<float>(float const*, float*)\n"), "{text}");
}

#[test]
fn observing_changes_neither_results_nor_counts() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let (input, out) = (rig.alloc((0..2560).collect::<Vec<i32>>()), rig.alloc(vec![0i32; 10]));
        let args = Args::new().ptr(&input).ptr(&out);
        let plain = rig.run("fixed_sum", 10, 256, args.clone()).unwrap();
        let expected = out.read();
        let (observer, _) = observer(trace(TraceOptions { limit: Some(1), ..Default::default() }));
        let mut dispatch = rig.dispatch("fixed_sum", [10, 1, 1], [256, 1, 1], args);
        dispatch.observer = Some(observer);
        let observed = rig.gpu.launch(&dispatch).unwrap();
        assert_eq!(out.read(), expected);
        assert_eq!(
            (observed.workgroups, observed.waves, observed.instructions),
            (plain.workgroups, plain.waves, plain.instructions)
        );
    }
}
