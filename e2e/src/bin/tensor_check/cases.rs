//! Test cases for all operations except elementwise programs and contractions.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::step::{Distribution, Work};

use crate::judge::Case;
use crate::operand::{Content, of, real, whole};

fn rows() -> Vec<Case> {
    let f = DType::F32;
    let mut cases = Vec::new();
    for log in [false, true] {
        for (dtype, tolerance) in [(f, 1e-5), (DType::F16, 5e-3), (DType::F64, 1e-12)] {
            for (axis, shape) in [(1, [6, 10, 3]), (2, [2, 3, 100]), (0, [300, 2, 2])] {
                let work = Work::Softmax { axis, log };
                let name = format!("softmax of {dtype} along {axis}, log {log}");
                cases.push(Case::near(&name, tolerance, work, vec![real(dtype, &shape)], &[(dtype, &shape)]));
            }
        }
    }
    for (axes, shape) in [(1, [6, 5, 50]), (2, [6, 5, 3]), (2, [3, 20, 20])] {
        let inner: usize = shape[3 - axes..].iter().product();
        let strides: Vec<isize> = if axes == 1 { vec![0, 0, 1] } else { vec![0, shape[2] as isize, 1] };
        let weight = real(f, &[inner]).with_view(&shape, &strides, 0);
        let bias = real(f, &[inner, 1]).with_view(&shape, &strides, 0);
        let mut kept = shape.to_vec();
        kept[3 - axes..].fill(1);
        let work = Work::Normalise { axes, epsilon: 1e-5 };
        let outputs: [(DType, &[usize]); 3] = [(f, &shape), (f, &kept), (f, &kept)];
        cases.push(Case::near(
            &format!("normalise {shape:?}"),
            1e-4,
            work.clone(),
            vec![real(f, &shape), weight, bias],
            &outputs,
        ));
        cases.push(Case::near(
            &format!("normalise {shape:?} alone"),
            1e-4,
            work,
            vec![real(f, &shape)],
            &outputs[..1],
        ));
    }
    for largest in [true, false] {
        for (axis, shape, kept) in
            [(1, [7, 9, 2], [7, 1, 2]), (2, [2, 3, 200], [2, 3, 1]), (0, [700, 1, 2], [1, 1, 2])]
        {
            let work = Work::ArgReduce { largest, axis };
            // Few distinct values, so that there are ties.
            let name = format!("place of the largest ({largest}) of {shape:?}");
            cases.push(Case::exact(&name, work.clone(), vec![whole(f, &shape, 3)], &[(DType::I64, &kept)]));
            cases.push(Case::exact(
                &format!("{name}, integers"),
                work,
                vec![whole(DType::I32, &shape, 3)],
                &[(DType::I64, &kept)],
            ));
        }
        let strange = of(
            f,
            &[2, 4],
            [1.0, f64::NAN, 9.0, f64::NAN, -0.0, 0.0, f64::NEG_INFINITY, f64::INFINITY].into_iter(),
        );
        let work = Work::ArgReduce { largest, axis: 1 };
        cases.push(Case::exact("place of NaN", work, vec![strange], &[(DType::I64, &[2, 1])]));
    }
    for product in [false, true] {
        for (axis, shape) in [(0, [11, 4]), (1, [3, 90])] {
            let work = Work::Cumulative { axis, product };
            let name = format!("running, product {product}, along {axis}");
            cases.push(Case::near(&name, 1e-5, work.clone(), vec![real(f, &shape)], &[(f, &shape)]));
            cases.push(Case::exact(
                &format!("{name}, integers"),
                work,
                vec![whole(DType::I64, &shape, 2)],
                &[(DType::I64, &shape)],
            ));
        }
    }
    cases
}

fn moves() -> Vec<Case> {
    let f = DType::F32;
    let mut cases = Vec::new();
    for dtype in [f, DType::F16, DType::U8, DType::F64, DType::C64] {
        let work = Work::Pad { before: [1, 0, 2].as_slice().into(), value: Scalar::Float(3.0) };
        cases.push(Case::exact(
            &format!("a frame of {dtype}"),
            work,
            vec![real(dtype, &[3, 4, 5])],
            &[(dtype, &[5, 4, 8])],
        ));
    }
    let parts = vec![
        real(f, &[2, 3, 4]),
        real(f, &[2, 1, 4]),
        real(f, &[4, 5, 2]).with_view(&[2, 5, 4], &[1, 2, 10], 0),
    ];
    cases.push(Case::exact("three in a row", Work::Concat { axis: 1 }, parts, &[(f, &[2, 9, 4])]));
    let fold = |kernel: &[usize], stride: &[usize], dilation: &[usize]| Work::Fold {
        kernel: kernel.into(),
        stride: stride.into(),
        dilation: dilation.into(),
    };
    let windows = real(f, &[2, 3, 4, 4, 3, 3]);
    cases.push(Case::near(
        "windows laid over each other",
        1e-6,
        fold(&[3, 3], &[2, 1], &[1, 2]),
        vec![windows],
        &[(f, &[2, 3, 9, 8])],
    ));
    let line = real(DType::F16, &[2, 5, 3]);
    cases.push(Case::near(
        "windows of a line",
        2e-3,
        fold(&[3], &[2], &[1]),
        vec![line],
        &[(DType::F16, &[2, 11])],
    ));
    let indices = |shape: &[usize], low: f64, high: f64| -> Content {
        let count: usize = shape.iter().product();
        of(DType::I64, shape, (0..count).map(move |n| (low + (n * 7 % 11) as f64 % (high - low)).floor()))
    };
    for dtype in [f, DType::I64, DType::BF16] {
        let gathered = vec![real(dtype, &[4, 6, 3]), indices(&[4, 8, 3], 0.0, 6.0)];
        cases.push(Case::exact(
            &format!("{dtype} picked"),
            Work::Gather { axis: 1 },
            gathered,
            &[(dtype, &[4, 8, 3])],
        ));
    }
    let beyond = vec![real(f, &[5]), indices(&[20], -2.0, 8.0)];
    cases.push(Case::exact("picked from beyond the ends", Work::Gather { axis: 0 }, beyond, &[(f, &[20])]));
    for add in [true, false] {
        let table = vec![
            real(f, &[6, 5]),
            indices(&[30, 1], 0.0, 6.0).with_view(&[30, 5], &[1, 0], 0),
            real(f, &[30, 5]),
        ];
        cases.push(Case::exact(
            &format!("put, add {add}"),
            Work::Scatter { axis: 0, add },
            table,
            &[(f, &[6, 5])],
        ));
    }
    cases
}

fn random_and_sorted() -> Vec<Case> {
    let mut cases = Vec::new();
    let integers = Distribution::Integers { low: -50, high: 1_000_000_007 };
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for distribution in [Distribution::Uniform, Distribution::Normal] {
            let work = Work::Random { seed: 0x1234_5678_9ABC, offset: 5, distribution };
            cases.push(Case::exact(
                &format!("{distribution:?} of {dtype}"),
                work,
                Vec::new(),
                &[(dtype, &[7, 143])],
            ));
        }
    }
    let work = Work::Random { seed: 3, offset: u64::from(u32::MAX), distribution: integers };
    cases.push(Case::exact("random integers", work, Vec::new(), &[(DType::I64, &[1001])]));
    for descending in [false, true] {
        for (axis, shape) in [(1, [5, 20]), (0, [300, 3]), (1, [2, 1500])] {
            let work = Work::Sort { axis, descending };
            for dtype in [DType::F32, DType::I32] {
                let name = format!("{shape:?} of {dtype} sorted along {axis}, descending {descending}");
                let outputs: [(DType, &[usize]); 2] = [(dtype, &shape), (DType::I64, &shape)];
                cases.push(Case::exact(&name, work.clone(), vec![whole(dtype, &shape, 40)], &outputs));
            }
        }
        let strange = of(
            DType::F32,
            &[8],
            [1.0, f64::NAN, 9.0, -1.0, 0.5, 0.0, f64::NEG_INFINITY, f64::INFINITY].into_iter(),
        );
        let outputs: [(DType, &[usize]); 2] = [(DType::F32, &[8]), (DType::I64, &[8])];
        cases.push(Case::exact(
            "sorted with NaN",
            Work::Sort { axis: 0, descending },
            vec![strange],
            &outputs,
        ));
    }
    cases
}

pub fn all() -> Vec<Case> {
    rows().into_iter().chain(moves()).chain(random_and_sorted()).collect()
}
