//! Kernels compiled from HIP by the real compiler produce the same results as the CPU.

use super::rig::{self, ARCHS, Args, Rig};

#[test]
fn vector_add_is_exact_in_every_element() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let n = 100_003;
        let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let b: Vec<f32> = (0..n).map(|i| 1e6 - i as f32).collect();
        let (da, db) = (rig.alloc(a.clone()), rig.alloc(b.clone()));
        let c = rig.alloc(vec![f32::NAN; n]);
        let args = Args::new().ptr(&da).ptr(&db).ptr(&c).u32(n as u32);
        let stats = rig.run("vadd", n.div_ceil(256) as u32, 256, args).unwrap();
        assert_eq!(stats.workgroups, n.div_ceil(256) as u64);
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(c.read(), expected);
    }
}

#[test]
fn work_item_ids_cover_a_three_dimensional_grid() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let out = rig.alloc(vec![0u32; 6 * 8 * 5 * 12 * 4 * 3]);
        let dispatch = rig.dispatch("coordinates", [6, 5, 4], [8, 12, 3], Args::new().ptr(&out));
        rig.gpu.launch(&dispatch).unwrap();
        for (at, value) in out.read().into_iter().enumerate() {
            let at = at as u32;
            let (x, y, z) = (at % 48, at / 48 % 60, at / 48 / 60);
            assert_eq!(value, x | y << 10 | z << 20, "{arch:?} {x} {y} {z}");
        }
    }
}

#[test]
fn local_memory_reduction_crosses_waves_through_barriers() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let input: Vec<i32> = (0..256 * 37).map(|i| (i * 7919) % 1000 - 500).collect();
        let (data, out) = (rig.alloc(input.clone()), rig.alloc(vec![0i32; 37]));
        rig.run("reduce", 37, 256, Args::new().ptr(&data).ptr(&out)).unwrap();
        let expected: Vec<i32> = input.chunks(256).map(|chunk| chunk.iter().sum()).collect();
        assert_eq!(out.read(), expected, "{arch:?}");
    }
}

#[test]
fn dynamic_local_memory_has_the_size_of_the_launch() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let input: Vec<i32> = (0..1024 * 3).collect();
        let (data, out) = (rig.alloc(input.clone()), rig.alloc(vec![0i32; 1024 * 3]));
        let args = Args::new().ptr(&data).ptr(&out);
        let mut dispatch = rig.dispatch("dynamic_reverse", [3, 1, 1], [1024, 1, 1], args);
        dispatch.dynamic_lds = 4096;
        rig.gpu.launch(&dispatch).unwrap();
        let expected: Vec<i32> = input.chunks(1024).flat_map(|chunk| chunk.iter().rev().copied()).collect();
        assert_eq!(out.read(), expected, "{arch:?}");
    }
}

#[test]
fn histogram_by_atomics_counts_every_byte() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let input: Vec<u8> = (0..50_001u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        let (data, bins) = (rig.alloc(input.clone()), rig.alloc(vec![0u32; 256]));
        rig.run("histogram", 9, 192, Args::new().ptr(&data).u32(50_001).ptr(&bins)).unwrap();
        let mut expected = vec![0u32; 256];
        input.iter().for_each(|byte| expected[usize::from(*byte)] += 1);
        assert_eq!(bins.read(), expected, "{arch:?}");
    }
}

#[test]
fn every_atomic_of_the_language_ends_with_the_sequential_result() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let (n, blocks) = (2000u32, 10);
        let mut u = vec![0u32; 12];
        (u[3], u[4]) = (u32::MAX, u32::MAX);
        let u = rig.alloc(u);
        let s = rig.alloc(vec![i32::MIN, 0]);
        let w = rig.alloc(vec![0u64; 2]);
        let (f, d) = (rig.alloc(vec![0f32]), rig.alloc(vec![0f64]));
        rig.run("atomics", blocks, n / blocks, Args::new().ptr(&u).ptr(&s).ptr(&w).ptr(&f).ptr(&d)).unwrap();
        let got = u.read();
        let xor = (0..n).fold(0, |x, i| x ^ i);
        assert_eq!(got[..7], [n * (n - 1) / 2, 0u32.wrapping_sub(n), n - 1, 5, 0, u32::MAX, xor], "{arch:?}");
        assert_eq!(got[7], n % 100);
        assert_eq!(got[8], 0, "2000 decrements of a counter that wraps from 0 to 99");
        assert_eq!(got[9], n - 1);
        assert!(got[10] > 0 && got[11] < n);
        assert_eq!(s.read(), [n as i32 - 101, -(n as i32 - 1)]);
        assert_eq!(w.read(), [u64::from(n * (n - 1) / 2) << 20, u64::from(n - 1) << 33]);
        assert_eq!((f.read()[0], d.read()[0]), (2000.0, 1000.0));
    }
}

#[test]
fn divergent_loops_and_switches_keep_lanes_apart() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let input: Vec<u32> = (1..1000).collect();
        let (data, out) = (rig.alloc(input.clone()), rig.alloc(vec![0u32; 999]));
        rig.run("collatz", 8, 128, Args::new().ptr(&data).ptr(&out).u32(999)).unwrap();
        let expected: Vec<u32> = input
            .iter()
            .map(|x| {
                let (mut x, mut steps) = (*x, 0u32);
                while x != 1 {
                    x = if x & 1 == 1 { 3 * x + 1 } else { x / 2 };
                    steps += 1;
                }
                match steps & 3 {
                    0 => steps,
                    1 => steps * 10,
                    2 => steps + 1000,
                    _ => !steps,
                }
            })
            .collect();
        assert_eq!(out.read(), expected, "{arch:?}");
    }
}

#[test]
fn recursion_function_pointers_and_virtual_calls_work() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let out = rig.alloc(vec![0i32; 128]);
        let run = |kernel: &str| {
            rig.run(kernel, 1, 128, Args::new().ptr(&out)).unwrap_or_else(|fault| panic!("{arch:?} {fault}"));
            out.read()
        };
        let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
        assert_eq!(run("recursion"), (0..128).map(|i| fibonacci[i % 12]).collect::<Vec<i32>>(), "{arch:?}");
        let pointers: Vec<i32> = (0..128).map(|i| if i & 1 == 0 { i + 7 } else { i * 7 }).collect();
        assert_eq!(run("pointers"), pointers, "{arch:?}");
        let virtuals: Vec<i32> = (0..128).map(|i| if i & 1 == 0 { i } else { i * i }).collect();
        assert_eq!(run("virtuals"), virtuals, "{arch:?}");
    }
}

#[test]
fn private_arrays_are_each_work_items_own() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let order: Vec<i32> = (0..32).map(|i| (i * 13 + 5) % 32).collect();
        let (data, out) = (rig.alloc(order.clone()), rig.alloc(vec![0i32; 192]));
        rig.run("scratch", 1, 192, Args::new().ptr(&data).ptr(&out)).unwrap();
        let expected: Vec<i32> = (0..192)
            .map(|t: i32| {
                let mut values: Vec<i32> = (0..32).map(|i| i * t).collect();
                let mut sum = 0i32;
                for i in 0..32 {
                    values[order[i] as usize] += i as i32;
                    sum = sum.wrapping_mul(3).wrapping_add(values[order[(i * 7) & 31] as usize]);
                }
                let mut bytes = [0i8; 16];
                for i in 0..16 {
                    bytes[(order[i] & 15) as usize] = (sum >> i) as i8;
                }
                bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(i32::from(*byte)))
            })
            .collect();
        assert_eq!(out.read(), expected, "{arch:?}");
    }
}

#[test]
fn device_globals_keep_their_values_between_launches() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let out = rig.alloc(vec![0i32; 64]);
        for round in 0..3 {
            rig.run("globals", 1, 64, Args::new().ptr(&out)).unwrap();
            let expected: Vec<i32> = (0..64).map(|i| 10 * (i % 4 + 1) + 5 + round).collect();
            assert_eq!(out.read(), expected, "{arch:?}");
        }
        let (counter, size) = rig.module.symbol_address("counter").unwrap();
        assert_eq!(size, 4);
        // SAFETY: the symbol is inside the loaded module.
        assert_eq!(unsafe { *(counter as *const i32) }, 8);
    }
}

#[test]
fn generic_pointers_reach_all_three_kinds_of_memory() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        for pick in 0..4 {
            let mut data = vec![0i32; 65];
            data[64] = 77;
            let out = rig.alloc(data);
            rig.run("generic", 1, 64, Args::new().ptr(&out).u32(pick))
                .unwrap_or_else(|fault| panic!("{arch:?} {pick} {fault}"));
            let expected: Vec<i32> = (0..64)
                .map(|t| match pick {
                    0 => 1000,
                    1 => t,
                    2 => 77,
                    _ if t & 1 == 1 => t,
                    _ => 1000,
                })
                .collect();
            assert_eq!(out.read()[..64], expected, "{arch:?} {pick}");
        }
    }
}

#[test]
fn launch_dimensions_reach_the_kernel() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let out = rig.alloc(vec![0u32; 7]);
        let dispatch = rig.dispatch("sizes", [3, 4, 5], [16, 2, 4], Args::new().ptr(&out));
        rig.gpu.launch(&dispatch).unwrap();
        assert_eq!(out.read(), [3, 4, 5, 16, 2, 4, 64], "{arch:?}");
    }
}

#[test]
fn code_objects_of_version_four_find_their_sizes_in_the_dispatch_packet() {
    for arch in ARCHS {
        let rig = Rig::new(arch, rig::hip("basic.hip", arch, &["-mcode-object-version=4"]));
        let out = rig.alloc(vec![0u32; 128]);
        let dispatch = rig.dispatch("sizes", [3, 4, 5], [16, 2, 4], Args::new().ptr(&out));
        rig.gpu.launch(&dispatch).unwrap();
        assert_eq!(out.read()[..7], [3, 4, 5, 16, 2, 4, 64], "{arch:?}");
        rig.run("recursion", 1, 128, Args::new().ptr(&out)).unwrap();
        assert_eq!(out.read()[..12], [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89], "{arch:?}");
    }
}

#[test]
fn kernels_that_want_arguments_preloaded_find_them() {
    for arch in ARCHS {
        let flags = ["-mllvm", "-amdgpu-kernarg-preload-count=8"];
        let rig = Rig::new(arch, rig::hip("basic.hip", arch, &flags));
        let descriptor = &rig.module.kernel("vadd").unwrap().kernel.descriptor;
        assert!(descriptor.kernarg_preload_length > 0, "the compiler ignored the kernarg preload option");
        let (a, b) = (rig.alloc(vec![2f32; 300]), rig.alloc(vec![0.5f32; 300]));
        let c = rig.alloc(vec![0f32; 300]);
        rig.run("vadd", 5, 64, Args::new().ptr(&a).ptr(&b).ptr(&c).u32(300)).unwrap();
        assert_eq!(c.read(), vec![2.5; 300], "{arch:?}");
    }
}

#[test]
fn a_partial_workgroup_has_only_its_own_work_items() {
    for arch in ARCHS {
        // Without this flag the compiler assumes that all workgroups are full.
        let rig = Rig::new(arch, rig::hip("basic.hip", arch, &["-fno-offload-uniform-block"]));
        let out = rig.alloc(vec![0u32; 192]);
        let mut dispatch = rig.dispatch("last_block_size", [3, 1, 1], [64, 1, 1], Args::new().ptr(&out));
        dispatch.grid = [150, 1, 1];
        rig.gpu.launch(&dispatch).unwrap();
        let expected: Vec<u32> = (0..192)
            .map(|i| match i {
                0..128 => 64_000 + i % 64,
                128..150 => 22_000 + i % 64,
                _ => 0,
            })
            .collect();
        assert_eq!(out.read(), expected, "{arch:?}");
    }
}

#[test]
fn shuffles_and_ballots_cross_lanes() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let input: Vec<i32> = (0..64).map(|i| i * i % 97).collect();
        let (data, out) = (rig.alloc(input.clone()), rig.alloc(vec![0i32; 192]));
        rig.run("shuffles", 1, 64, Args::new().ptr(&data).ptr(&out)).unwrap();
        let out = out.read();
        let odd = input.iter().filter(|v| **v & 1 == 1).count() as i32;
        for t in 0..64usize {
            let up = if t >= 2 { input[t - 2] } else { input[t] };
            assert_eq!(out[t], input[t ^ 3] + 1000 * up + 1_000_000 * input[5], "{arch:?} lane {t}");
            assert_eq!(out[64 + t], odd);
            let down = if t % 16 + 9 < 16 { input[t + 9] } else { input[t] };
            assert_eq!(out[128 + t], down, "{arch:?} lane {t}");
        }
    }
}

#[test]
fn loads_and_stores_of_every_width_move_the_right_bytes() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let b: Vec<u8> = (0..64).map(|i| i * 3).collect();
        let h: Vec<i16> = (0..64).map(|i| i * 301 - 9000).collect();
        let d: Vec<f64> = (0..64).map(|i| f64::from(i) * 1.25).collect();
        let q: Vec<[f32; 4]> =
            (0..64).map(|i| [i as f32, i as f32 + 0.25, i as f32 + 0.5, -(i as f32)]).collect();
        let inputs = (rig.alloc(b.clone()), rig.alloc(h.clone()), rig.alloc(d.clone()), rig.alloc(q.clone()));
        let outputs = (
            rig.alloc(vec![0u8; 64]),
            rig.alloc(vec![0i16; 64]),
            rig.alloc(vec![0f64; 64]),
            rig.alloc(vec![[0f32; 4]; 64]),
        );
        let triples = rig.alloc(vec![[0f32; 3]; 64]);
        let args = Args::new().ptr(&inputs.0).ptr(&inputs.1).ptr(&inputs.2).ptr(&inputs.3);
        let args = args.ptr(&outputs.0).ptr(&outputs.1).ptr(&outputs.2).ptr(&outputs.3).ptr(&triples);
        rig.run("widths", 1, 64, args).unwrap();
        for i in 0..64 {
            assert_eq!(outputs.0.read()[63 - i], b[i].wrapping_add(1));
            assert_eq!(outputs.1.read()[63 - i], h[i].wrapping_mul(2));
            assert_eq!(outputs.2.read()[63 - i], d[i] * 0.5);
            let [x, y, z, w] = q[i];
            assert_eq!(outputs.3.read()[63 - i], [w, z, y, x]);
            assert_eq!(triples.read()[i], [x + 1.0, y + 1.0, z + 1.0]);
        }
    }
}

#[test]
fn clocks_advance() {
    for arch in ARCHS {
        let rig = Rig::hip("basic.hip", arch);
        let out = rig.alloc(vec![0u64; 2]);
        rig.run("clocks", 1, 1, Args::new().ptr(&out)).unwrap();
        assert!(out.read().iter().all(|ticks| *ticks > 0), "{:?}", out.read());
    }
}
