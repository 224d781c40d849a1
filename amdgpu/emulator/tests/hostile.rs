//! Corrupted kernels and corrupted output never crash the device: every run ends, in success or in a fault.

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use code_object::CodeObject;
use emulator::{GpuConfig, Level, Options, Program, print_records, render_message};
use fastrand::Rng;
use isa::Arch;
use rig::{ARCHS, Args, Rig};

#[test]
fn any_bytes_compile_to_a_program() {
    let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    for arch in ARCHS {
        for _ in 0..400 {
            let code: Vec<u8> = (0..random.usize(..300)).map(|_| random.u8(..)).collect();
            let options = Options {
                arch,
                level: Level::detect(),
                accum_offset: 4 + 4 * random.usize(..60) as u16,
                vgpr_count: 128,
            };
            let program = Program::compile(options, 0x1000, &code);
            assert!(!program.uops.is_empty());
            assert_eq!(program.index_of(0x1000).is_some(), code.len() >= 4);
        }
    }
}

/// Runs `kernel` many times, from an image with a few flipped bits in its code.
fn run_damaged(arch: Arch, image: &Arc<[u8]>, kernel: &str, rounds: usize, seed: u64) {
    let object = CodeObject::parse(image.clone()).unwrap();
    let entry = object.kernel(kernel).unwrap().entry_address;
    let size = object.symbol(kernel).map_or(64, |symbol| symbol.size.max(64)) as usize;
    let code = object.bytes_at(entry, size).unwrap();
    let at = code.as_ptr() as usize - object.image().as_ptr() as usize;
    let mut random = Rng::with_seed(seed);
    for round in 0..rounds {
        let mut damaged = image.to_vec();
        for _ in 0..1 + random.usize(..6) {
            let bit = random.usize(..8 * size);
            damaged[at + bit / 8] ^= 1 << (bit % 8);
        }
        let config = GpuConfig { threads: 1, ..GpuConfig::new(arch) };
        let rig = Rig::with_config(config, damaged.into());
        let buffers: Vec<_> = (0..6).map(|_| rig.alloc(vec![1u64; 1024])).collect();
        let args = buffers.iter().fold(Args::new(), |args, buffer| args.ptr(buffer));
        let mut dispatch = rig.dispatch(kernel, [2, 1, 1], [128, 1, 1], args);
        dispatch.kernarg.truncate(dispatch.kernel.kernel.kernarg_size as usize);
        dispatch.deadline = Some(Instant::now() + Duration::from_millis(20));
        // Success and any fault are acceptable; a crash of this process is not.
        if let Err(fault) = rig.gpu.launch(&dispatch) {
            assert!(
                !matches!(fault.kind, emulator::FaultKind::Internal { .. }),
                "{arch:?} {kernel} round {round}: {fault}"
            );
        }
    }
}

#[test]
fn kernels_with_damaged_code_end_in_a_result_or_a_fault() {
    for arch in ARCHS {
        let basic = rig::hip("basic.hip", arch, &[]);
        for (k, kernel) in
            ["vadd", "reduce", "histogram", "atomics", "scratch", "widths", "shuffles", "generic"]
                .iter()
                .enumerate()
        {
            run_damaged(arch, &basic, kernel, 60, 0x1234_5678_9abc + k as u64);
        }
        let output = rig::hip("output.hip", arch, &[]);
        run_damaged(arch, &output, "hello", 40, 77);
    }
}

#[test]
fn damaged_output_messages_are_rendered_or_dropped() {
    let mut random = Rng::with_seed(42);
    let pieces: [&[u8]; 8] = [b"%d", b"%s", b"%*.*f", b"%-+ #08.3lle", b"%n", b"%", b"text", b"%hhx%c%p"];
    for _ in 0..2000 {
        let mut format: Vec<u8> = Vec::new();
        for _ in 0..random.usize(..6) {
            format.extend_from_slice(pieces[random.usize(..pieces.len())]);
        }
        format.push(0);
        format.resize(format.len().next_multiple_of(8), 0);
        let mut words: Vec<u64> =
            format.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        words.extend((0..random.usize(..5)).map(|_| random.u64(..)));
        assert!(render_message(&words).len() <= 2 << 20);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[0] = (bytes.len() as u8) << 2 | random.usize(..4) as u8;
        print_records(&bytes, &["0:0:1,%d".to_owned()], &mut |_| {});
    }
}
