//! Kernel source texts and their launch arguments. A text contains no number that may differ from step to step, so few distinct
//! texts exist.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use tensor_core::dtype::{DType, Scalar};

use crate::axes::{Axes, NARROW, Pattern, magic};

/// The files that every text builds on.
const FILES: [&str; 8] = [
    include_str!("../kernels/prelude.hip"),
    include_str!("../kernels/functions.hip"),
    include_str!("../kernels/reduce.hip"),
    include_str!("../kernels/contract.hip"),
    include_str!("../kernels/matrix.hip"),
    include_str!("../kernels/attention.hip"),
    include_str!("../kernels/lines.hip"),
    include_str!("../kernels/random.hip"),
];

/// The placeholder of a kernel's name in its text.
const NAME: &str = " KERNEL(";

/// A kernel, identified by its text. Its name is computed only when it is looked up or compiled, which is once.
#[derive(Debug)]
pub(crate) struct Kernel {
    family: &'static str,
    /// The source; the name of a kernel that runs any step.
    pub text: String,
    /// Whether it is one that runs any step, which is never compiled at run time.
    pub ready: bool,
    /// The device's handle, once it is loaded.
    pub function: OnceLock<usize>,
}

/// A word that is filled in at launch: see [`crate::template`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address(pub u64);

impl Kernel {
    /// A kernel that was built ahead to run any step of its kind.
    pub(crate) fn ready(name: &'static str) -> Kernel {
        Kernel { family: "", text: name.to_owned(), ready: true, function: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> String {
        if self.ready {
            return self.text.clone();
        }
        format!("pf_{}_{}", self.family, &hash(self.text.as_bytes())[..16])
    }

    /// The text with its name filled in.
    pub(crate) fn named(&self) -> String {
        self.text.replacen(NAME, &format!(" {}(", self.name()), 1)
    }
}

/// A kernel with everything for one launch.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub kernel: Arc<Kernel>,
    pub groups: u32,
    pub threads: u32,
    pub words: Vec<u64>,
    /// Positions of the words that are addresses.
    pub addresses: Arc<[usize]>,
}

/// Concatenates the files and all kernels to one text.
pub(crate) fn whole<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> String {
    let mut text = FILES.concat();
    for kernel in kernels {
        text += &kernel.named();
    }
    text
}

/// The hash that identifies texts.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A kernel under construction.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub words: Vec<u64>,
    addresses: Vec<usize>,
    body: String,
    wide: bool,
}

impl Writer {
    pub(crate) fn new(wide: bool) -> Writer {
        Writer { wide, ..Writer::default() }
    }

    /// Whether these numbers need 64-bit indices.
    pub(crate) fn needs_wide(sizes: impl IntoIterator<Item = usize>) -> bool {
        sizes.into_iter().any(|size| size >= NARROW)
    }

    /// Adds an argument word; returns its C++ expression.
    pub(crate) fn word(&mut self, word: u64) -> String {
        self.words.push(word);
        format!("a.w[{}]", self.words.len() - 1)
    }

    /// Adds a word that is only known at launch.
    pub(crate) fn address(&mut self, address: Address) -> String {
        self.addresses.push(self.words.len());
        self.word(address.0)
    }

    /// Adds a number as an index.
    pub(crate) fn index(&mut self, number: isize) -> String {
        let word = self.word(number as u64);
        format!("(I){word}")
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.body += line;
        self.body.push('\n');
    }

    /// Writes the offsets of operands at an index over all axes; returns variable names or simple expressions.
    pub(crate) fn offsets(
        &mut self,
        axes: &Axes,
        operands: &[usize],
        index: &str,
        prefix: &str,
    ) -> Vec<String> {
        let strided = operands.iter().any(|&operand| axes.pattern(operand) == Pattern::Strided);
        if strided {
            self.line(&format!("I {prefix}r = {index};"));
            for axis in (0..axes.rank()).rev() {
                if axis == 0 {
                    self.line(&format!("const I {prefix}c0 = {prefix}r;"));
                } else {
                    let length = axes.0[axis].length;
                    let (length, magic) = (self.word(length as u64), magic(length));
                    let magic = self.word(magic);
                    self.line(&format!("const I {prefix}c{axis} = pf::split({prefix}r, {length}, {magic});"));
                }
            }
        }
        let mut names = Vec::with_capacity(operands.len());
        for &operand in operands {
            names.push(match axes.pattern(operand) {
                Pattern::Still => "(I)0".to_owned(),
                Pattern::Linear => format!("({index})"),
                Pattern::Strided => {
                    let mut sum = String::new();
                    for axis in 0..axes.rank() {
                        let stride = self.index(axes.0[axis].strides[operand]);
                        let _ =
                            write!(sum, "{}{prefix}c{axis} * {stride}", if axis == 0 { "" } else { " + " });
                    }
                    let name = format!("{prefix}o{operand}");
                    self.line(&format!("const I {name} = {sum};"));
                    name
                }
            });
        }
        names
    }

    /// Adds a constant of a type as an argument.
    pub(crate) fn constant(&mut self, dtype: DType, scalar: Scalar) -> String {
        let word = self.word(word_of(dtype, scalar));
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => format!("pf::bits<float>((pf::u32){word})"),
            DType::F64 => format!("pf::bits<double>({word})"),
            DType::C64 => format!("pf::bits<pf::c64>({word})"),
            DType::Bool => format!("({word} != 0)"),
            _ => format!("({}){word}", value_type(dtype)),
        }
    }

    /// Finishes the kernel and its launch.
    pub(crate) fn launch(self, family: &'static str, groups: usize, threads: u32) -> Launch {
        let index = if self.wide { "pf::i64" } else { "pf::i32" };
        let text = format!(
            "PF_KERNEL({threads}) void{NAME}const pf::Words<{}> a) {{\ntypedef {index} I;\n{}}}\n",
            self.words.len().max(1),
            self.body
        );
        let groups = groups.clamp(1, 1 << 22) as u32;
        let kernel = Arc::new(Kernel { family, text, ready: false, function: OnceLock::new() });
        Launch { kernel, groups, threads, words: self.words, addresses: self.addresses.into() }
    }
}

/// The element type's name in kernels.
pub(crate) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "pf::Bool",
        DType::U8 => "pf::U8",
        DType::U16 => "pf::U16",
        DType::U32 => "pf::U32",
        DType::U64 => "pf::U64",
        DType::I8 => "pf::I8",
        DType::I16 => "pf::I16",
        DType::I32 => "pf::I32",
        DType::I64 => "pf::I64",
        DType::F16 => "pf::F16",
        DType::BF16 => "pf::BF16",
        DType::F32 => "pf::F32",
        DType::F64 => "pf::F64",
        DType::C64 => "pf::C64",
        DType::C128 => unreachable!("such steps run on the host"),
    }
}

/// The type that values are computed in.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "pf::u8",
        DType::U16 => "pf::u16",
        DType::U32 => "pf::u32",
        DType::U64 => "pf::u64",
        DType::I8 => "pf::i8",
        DType::I16 => "pf::i16",
        DType::I32 => "pf::i32",
        DType::I64 => "pf::i64",
        DType::F16 | DType::BF16 | DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "pf::c64",
        DType::C128 => unreachable!("such steps run on the host"),
    }
}

/// Encodes a number as a word, in the type of computation.
pub(crate) fn word_of(dtype: DType, scalar: Scalar) -> u64 {
    let real = match scalar {
        Scalar::Bool(it) => f64::from(u8::from(it)),
        Scalar::Int(it) => it as f64,
        Scalar::UInt(it) => it as f64,
        Scalar::Float(it) => it,
        Scalar::Complex(it, _) => it,
    };
    let whole = match scalar {
        Scalar::Bool(it) => u64::from(it),
        Scalar::Int(it) => it as u64,
        Scalar::UInt(it) => it,
        Scalar::Float(_) | Scalar::Complex(..) if real < 0.0 => real as i64 as u64,
        Scalar::Float(_) | Scalar::Complex(..) => real as u64,
    };
    match dtype {
        DType::Bool => u64::from(real != 0.0 || real.is_nan()),
        DType::F16 => u64::from(half::f16::from_f64(real).to_f32().to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f64(real).to_f32().to_bits()),
        DType::F32 => u64::from((real as f32).to_bits()),
        DType::F64 => real.to_bits(),
        DType::C64 => {
            let imaginary = if let Scalar::Complex(_, it) = scalar { it } else { 0.0 };
            u64::from((imaginary as f32).to_bits()) << 32 | u64::from((real as f32).to_bits())
        }
        _ => whole,
    }
}
