//! Test cases for elementwise programs and for reductions.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::program::{Binary, Code, Instruction, Program, Unary};
use tensor_core::step::{Reduction, Work};

use crate::judge::Case;
use crate::operand::{Content, real, whole};

pub fn instruction(code: Code, dtype: DType) -> Instruction {
    Instruction { code, dtype }
}

const FLOAT: &[Unary] = &[
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Sqrt,
    Unary::Rsqrt,
    Unary::Recip,
    Unary::Exp,
    Unary::Exp2,
    Unary::Expm1,
    Unary::Log,
    Unary::Log2,
    Unary::Log10,
    Unary::Log1p,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Asin,
    Unary::Acos,
    Unary::Atan,
    Unary::Sinh,
    Unary::Cosh,
    Unary::Tanh,
    Unary::Asinh,
    Unary::Acosh,
    Unary::Atanh,
    Unary::Erf,
    Unary::Sigmoid,
    Unary::Floor,
    Unary::Ceil,
    Unary::Trunc,
    Unary::Round,
];
const FLOAT_PAIRS: &[Binary] = &[
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::FloorDiv,
    Binary::Rem,
    Binary::Pow,
    Binary::Max,
    Binary::Min,
    Binary::Atan2,
    Binary::Hypot,
    Binary::Copysign,
    Binary::Nextafter,
    Binary::Logaddexp,
];
const INTEGER_PAIRS: &[Binary] = &[
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::FloorDiv,
    Binary::Rem,
    Binary::Max,
    Binary::Min,
    Binary::And,
    Binary::Or,
    Binary::Xor,
];
const COMPARISONS: &[Binary] = &[Binary::Eq, Binary::Ne, Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge];
const TYPES: &[DType] = &[
    DType::Bool,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// A case whose program has one result per instruction.
fn each(name: &str, tolerance: Option<f64>, inputs: Vec<Content>, codes: Vec<Instruction>) -> Case {
    let shape = inputs[0].layout.shape.to_vec();
    let first: Vec<Instruction> = inputs
        .iter()
        .enumerate()
        .map(|(number, it)| instruction(Code::Input(number as u16), it.dtype))
        .collect();
    let results = (0..codes.len()).map(|number| (first.len() + number) as u16).collect();
    let outputs: Vec<(DType, Vec<usize>)> = codes.iter().map(|code| (code.dtype, shape.clone())).collect();
    let program = Program { instructions: first.into_iter().chain(codes).collect(), results };
    Case { name: name.to_owned(), work: Work::Map(program), inputs, outputs, tolerance }
}

fn maps() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, tolerance) in
        [(DType::F32, 2e-6), (DType::F64, 1e-13), (DType::F16, 4e-3), (DType::BF16, 3e-2)]
    {
        let x = real(dtype, &[67]);
        let codes = FLOAT.iter().map(|&it| instruction(Code::Unary(it, 0), dtype)).collect();
        cases.push(each(&format!("functions of {dtype}"), Some(tolerance), vec![x], codes));
        let pair = vec![real(dtype, &[65]), real(dtype, &[65, 1]).with_view(&[65], &[-1], 64)];
        let codes = FLOAT_PAIRS.iter().map(|&it| instruction(Code::Binary(it, 0, 1), dtype));
        let codes =
            codes.chain(COMPARISONS.iter().map(|&it| instruction(Code::Binary(it, 0, 1), DType::Bool)));
        cases.push(each(&format!("pairs of {dtype}"), Some(tolerance), pair, codes.collect()));
    }
    for dtype in [DType::U8, DType::I8, DType::I16, DType::U32, DType::I32, DType::I64, DType::U64] {
        let pair = vec![whole(dtype, &[70], 100), whole(dtype, &[70], 3)];
        let codes = INTEGER_PAIRS.iter().map(|&it| instruction(Code::Binary(it, 0, 1), dtype));
        let codes =
            codes.chain(COMPARISONS.iter().map(|&it| instruction(Code::Binary(it, 0, 1), DType::Bool)));
        cases.push(each(&format!("pairs of {dtype}"), None, pair, codes.collect()));
        let codes = [Unary::Neg, Unary::Abs, Unary::Sign, Unary::BitNot]
            .map(|it| instruction(Code::Unary(it, 0), dtype));
        let signed = !matches!(dtype, DType::U8 | DType::U32 | DType::U64);
        let codes = if signed { codes.to_vec() } else { codes[3..].to_vec() };
        cases.push(each(&format!("functions of {dtype}"), None, vec![whole(dtype, &[70], 100)], codes));
    }
    for &dtype in TYPES {
        let casts =
            TYPES.iter().filter(|&&to| to != dtype).map(|&to| instruction(Code::Cast(0), to)).collect();
        let x = if dtype.is_float() { real(dtype, &[40]) } else { whole(dtype, &[40], 100) };
        cases.push(each(&format!("casts of {dtype}"), None, vec![x], casts));
    }
    let complex = real(DType::C64, &[33]);
    let codes = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div]
        .map(|it| instruction(Code::Binary(it, 0, 1), DType::C64));
    let other = real(DType::C64, &[33, 1]).with_view(&[33], &[1], 0);
    cases.push(each("complex arithmetic", Some(2e-5), vec![complex, other], codes.to_vec()));
    cases
}

/// Program: max(x * 2 + row, 0) where the column is even, elsewhere the index along the first axis.
fn chain() -> Program {
    let f = DType::F32;
    Program {
        instructions: vec![
            instruction(Code::Input(0), f),
            instruction(Code::Input(1), f),
            instruction(Code::Constant(Scalar::Float(2.0)), f),
            instruction(Code::Binary(Binary::Mul, 0, 2), f),
            instruction(Code::Binary(Binary::Add, 3, 1), f),
            instruction(Code::Constant(Scalar::Int(0)), f),
            instruction(Code::Binary(Binary::Max, 4, 5), f),
            instruction(Code::Index(1), DType::I64),
            instruction(Code::Constant(Scalar::Int(2)), DType::I64),
            instruction(Code::Binary(Binary::Rem, 7, 8), DType::I64),
            instruction(Code::Unary(Unary::Not, 9), DType::Bool),
            instruction(Code::Index(0), f),
            instruction(Code::Select(10, 6, 11), f),
        ],
        results: vec![12],
    }
}

fn identity_reduce(reduction: Reduction, dtype: DType, axes: &[usize]) -> Work {
    Work::Reduce {
        program: Program::identity(dtype),
        reduction,
        axes: axes.to_vec(),
        mapped: 1,
        epilogue: Program::identity(dtype),
    }
}

fn reductions() -> Vec<Case> {
    let f = DType::F32;
    let mut cases = Vec::new();
    for reduction in [Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min] {
        for (axes, out) in
            [(&[1][..], [5, 1, 3]), (&[0, 2], [1, 40, 1]), (&[2], [5, 40, 1]), (&[0, 1, 2], [1, 1, 1])]
        {
            let name = format!("{reduction:?} over {axes:?}");
            let work = identity_reduce(reduction, f, axes);
            cases.push(Case::near(&name, 1e-5, work, vec![real(f, &[5, 40, 3])], &[(f, &out)]));
        }
    }
    for reduction in [Reduction::Any, Reduction::All] {
        let x = whole(DType::Bool, &[6, 70], 1);
        let work = identity_reduce(reduction, DType::Bool, &[1]);
        cases.push(Case::exact(&format!("{reduction:?}"), work, vec![x], &[(DType::Bool, &[6, 1])]));
    }
    let turned = whole(DType::I64, &[300, 4], 1000).with_view(&[4, 300], &[1, 4], 0);
    let work = identity_reduce(Reduction::Sum, DType::I64, &[1]);
    cases.push(Case::exact("sum of turned integers", work, vec![turned], &[(DType::I64, &[4, 1])]));
    let work = identity_reduce(Reduction::Sum, DType::I32, &[0]);
    let long = whole(DType::I32, &[70_001], 1000);
    cases.push(Case::exact("sum of many", work, vec![long], &[(DType::I32, &[1])]));
    let work = identity_reduce(Reduction::Max, f, &[0]);
    let wide = real(f, &[20, 20_000]);
    cases.push(Case::exact("largest of many columns", work, vec![wide], &[(f, &[1, 20_000])]));
    let program = Program {
        instructions: vec![
            instruction(Code::Input(0), DType::F16),
            instruction(Code::Cast(0), f),
            instruction(Code::Binary(Binary::Mul, 1, 1), f),
            instruction(Code::Index(1), f),
            instruction(Code::Binary(Binary::Add, 2, 3), f),
        ],
        results: vec![4],
    };
    let epilogue = Program {
        instructions: vec![
            instruction(Code::Input(0), f),
            instruction(Code::Input(1), f),
            instruction(Code::Binary(Binary::Div, 0, 1), f),
            instruction(Code::Index(0), f),
            instruction(Code::Binary(Binary::Add, 2, 3), f),
            instruction(Code::Cast(4), DType::F16),
        ],
        results: vec![5],
    };
    let work = Work::Reduce { program, reduction: Reduction::Sum, axes: vec![1], mapped: 1, epilogue };
    let divisor = whole(f, &[1], 3).with_view(&[4, 1], &[0, 0], 0);
    cases.push(Case::near(
        "mean of squares with index",
        2e-3,
        work,
        vec![real(DType::F16, &[4, 50]), divisor],
        &[(DType::F16, &[4, 1])],
    ));
    let empty = identity_reduce(Reduction::Sum, f, &[1]);
    cases.push(Case::exact("sum of nothing", empty, vec![real(f, &[3, 0])], &[(f, &[3, 1])]));
    cases
}

pub fn all() -> Vec<Case> {
    let f = DType::F32;
    let row = real(f, &[31]).with_view(&[17, 31], &[0, 1], 0);
    let mut cases = maps();
    cases.push(Case::exact(
        "a chain over a row",
        Work::Map(chain()),
        vec![real(f, &[17, 31]), row],
        &[(f, &[17, 31])],
    ));
    let turned = real(f, &[9, 8, 7]).with_view(&[7, 4, 9], &[1, -14, 56], 49);
    cases.push(Case::exact(
        "a turned copy",
        Work::Map(Program::identity(f)),
        vec![turned],
        &[(f, &[7, 4, 9])],
    ));
    cases.push(Case::exact("a number", Work::Map(Program::identity(f)), vec![real(f, &[])], &[(f, &[])]));
    cases.extend(reductions());
    cases
}
