//! Functions that are shared by their calls: the lifted kernels, the software GPU and the host agree.

mod rig;

use std::ops::Deref;

use rig::{ARCHS, Args, Rig};

const ITEMS: usize = 192;

fn ping(n: i32) -> i32 {
    if n <= 0 { 1 } else { pong(n - 2).wrapping_mul(3) + n }
}

fn pong(n: i32) -> i32 {
    if n <= 0 { 2 } else { ping(n - 1).wrapping_mul(5) - n }
}

fn rises(n: i32, sum: i32) -> i32 {
    if n == 0 { sum } else { falls(n - 1, sum + n) }
}

fn falls(n: i32, sum: i32) -> i32 {
    if n == 0 { -sum } else { rises(n - 1, sum * 3) }
}

fn fibonacci(n: i32) -> i32 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

fn around(n: i32) -> i32 {
    fibonacci(n) * 3 + n
}

fn operation(which: i32, a: i32, b: i32) -> i32 {
    match which {
        0 => a - b,
        1 => a * 3 + b,
        _ => fibonacci(b & 7) + a,
    }
}

fn fold(which: i32, n: i32) -> i32 {
    if n == 0 { 1 } else { operation(which, fold(which, n - 1), n) }
}

fn ackermann(m: u32, n: u32) -> u32 {
    match (m, n) {
        (0, _) => n + 1,
        (_, 0) => ackermann(m - 1, 1),
        _ => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

fn levels(depth: u32, seed: u32) -> u32 {
    let below = if depth == 0 { 0 } else { levels(depth - 1, seed + depth) };
    below + seed * 7 + depth % 4
}

/// Runs a kernel with one argument on the software GPU and in the evaluator, and compares both with the host.
fn compare(rig: &Rig, kernel: &str, host: impl Fn(i32) -> i32) {
    let out = rig.alloc(vec![-1i32; ITEMS]);
    let expected: Vec<i32> = (0..ITEMS as i32).map(host).collect();
    let args = || Args::new().ptr(&out);
    rig.deref()
        .run(kernel, 1, ITEMS as u32, args())
        .unwrap_or_else(|fault| panic!("{kernel} on the software GPU: {fault}"));
    assert_eq!(out.read(), expected, "{kernel} on the software GPU");
    let out = rig.alloc(vec![-1i32; ITEMS]);
    rig.run(kernel, 1, ITEMS as u32, Args::new().ptr(&out)).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(out.read(), expected, "{kernel}");
}

#[test]
fn recursive_functions_return_to_each_of_their_calls() {
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        compare(&rig, "mutual", |item| ping(item % 13).wrapping_add(pong(item % 9).wrapping_mul(7)));
        compare(&rig, "tails", |item| rises(item % 11, 1) + falls(item % 5, 2));
        compare(&rig, "nested", |item| {
            let n = item % 5;
            around(item % 8) + 100 * (around(n) * 2 - around(n + 1))
        });
    }
}

#[test]
fn functions_that_are_called_and_jumped_to_return_to_the_right_call() {
    let leaf = |n: i32| fibonacci(n) * 5 + n;
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        compare(&rig, "merged", |item| leaf(item % 4 * 2 + 1) + 100 * leaf(item % 5));
    }
}

#[test]
fn functions_are_called_through_pointers() {
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        compare(&rig, "folds", |item| fold(item % 3, item % 6));
        compare(&rig, "forwards", |item| {
            let b = item % 7;
            if b == 5 { item } else { operation(item % 3, b, item) }
        });
    }
}

#[test]
fn recursive_functions_share_arrays_in_private_memory() {
    // The six-queens problem has four solutions; none begins in a corner.
    let solutions = [0, 1, 1, 1, 1, 0];
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        compare(&rig, "boards", |item| solutions[item as usize % 6]);
    }
}

#[test]
fn kernels_of_the_example_with_a_dynamic_stack_work() {
    for arch in ARCHS {
        let rig = Rig::hip("../../../../examples/hip/dynamic_stack.hip", arch);
        compare(&rig, "_Z7recursePj", |item| {
            let item = item as u32;
            (ackermann(2, item % 4) + 1000 * levels(item % 12, item)) as i32
        });
        compare(&rig, "_Z16through_pointersPi", |item| match item % 3 {
            0 => item + 5,
            1 => item - 5,
            _ => item * 5,
        });
        compare(&rig, "_Z8evaluatePi", |x| if x % 2 == 0 { (x + 2) * (x * x) } else { x * x + 2 });
        let (table, out) = (rig.alloc(vec![0u64; 1]), rig.alloc(vec![0i32; ITEMS]));
        rig.run("_Z6chosenPPFiiiE", 1, 1, Args::new().ptr(&table)).unwrap();
        rig.run("_Z14through_memoryPKPFiiiEPi", 1, ITEMS as u32, Args::new().ptr(&table).ptr(&out)).unwrap();
        assert_eq!(out.read(), (0..ITEMS as i32).map(|item| item * 3).collect::<Vec<_>>(), "{arch:?}");
    }
}

#[test]
fn a_call_through_a_wild_pointer_traps() {
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        let out = rig.alloc(vec![-1i32; 64]);
        let inside = rig.module.base() + rig.module.object().kernel("wild").unwrap().entry_address;
        for address in [0x1000, inside, inside + 8] {
            let fault = rig.run("wild", 1, 64, Args::new().ptr(&out).u64(address)).err();
            assert_eq!(fault.as_deref(), Some("wild: trap 255"), "{arch:?}");
        }
        assert_eq!(out.read(), [-1; 64], "{arch:?}");
    }
}

#[test]
fn endless_recursion_ends_with_the_stack() {
    for arch in ARCHS {
        let rig = Rig::hip("calls.hip", arch);
        let out = rig.alloc(vec![-1i32; 64]);
        let fault = rig.run("overflow", 1, 64, Args::new().ptr(&out)).err().unwrap_or_default();
        assert!(fault.contains("scratch"), "{arch:?}: {fault}");
        assert_eq!(out.read(), [-1; 64], "{arch:?}");
    }
}
