//! Random structured control flow: what the passes make of a function must store what the plain function stores.
//!
//! Branches and loops are those that compilers make of divergent code. Only stores are observed, in the lanes that are active, so
//! that demand has something to remove.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use code_object::CodeObject;
use isa::{Arch, Mode};
use isa_reference::random::Random;
use lift::evaluate::{Bytes, Fragment, run_fragment};
use lift::form::Register;
use lift::{Assumptions, Code, Function, Operation};

const PROGRAMS: usize = 120;
const STARTS: usize = 4;
const LDS_BYTES: usize = 64 * 4 * 16;

/// Writes one program.
struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    labels: usize,
    program: usize,
}

impl Writer<'_> {
    fn pick(&mut self, count: u64) -> u64 {
        self.random.below(count)
    }

    fn line(&mut self, text: &str) {
        writeln!(self.text, "  {text}").expect("a string grows");
    }

    fn vector(&mut self) -> String {
        format!("v{}", self.pick(8))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}_{}", self.program, self.labels)
    }

    fn compare(&mut self) {
        let condition = ["lt_u32", "eq_u32", "gt_i32", "ne_u32"][self.pick(4) as usize];
        let (a, b) = (self.vector(), self.vector());
        self.line(&format!("v_cmp_{condition}_e32 vcc, {a}, {b}"));
    }

    fn statement(&mut self) {
        let (d, a, b) = (self.vector(), self.vector(), self.vector());
        match self.pick(14) {
            0 | 1 => self.line(&format!("v_add_u32_e32 {d}, {a}, {b}")),
            2 => self.line(&format!("v_xor_b32_e32 {d}, {a}, {b}")),
            3 => self.line(&format!("v_mul_lo_u32 {d}, {a}, {b}")),
            4 => self.line(&format!("v_mov_b32_e32 {d}, {a}")),
            5 => {
                self.compare();
                self.line(&format!("v_cndmask_b32_e32 {d}, {a}, {b}, vcc"));
            }
            6 => {
                let (e, c) = (self.vector(), self.vector());
                self.line(&format!("v_add_co_u32_e32 {d}, vcc, {a}, {b}"));
                self.line(&format!("v_addc_co_u32_e32 {e}, vcc, {c}, {b}, vcc"));
            }
            7 => self.line(&format!("v_mov_b32_dpp {d}, {a} quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf")),
            8 => {
                self.line(&format!("v_readfirstlane_b32 s8, {a}"));
                self.line(&format!("v_add_u32_e32 {d}, s8, {b}"));
            }
            9 => {
                let offset = 256 * (8 + self.pick(8));
                self.line(&format!("ds_write_b32 v8, {a} offset:{offset}"));
            }
            10 => {
                let offset = 256 * self.pick(16);
                self.line(&format!("ds_read_b32 {d}, v8 offset:{offset}"));
            }
            11 => {
                self.line("s_add_u32 s9, s9, 3");
                self.line(&format!("v_add_u32_e32 {d}, s9, {a}"));
            }
            12 => {
                let lane = self.pick(64);
                self.line(&format!("v_writelane_b32 {d}, s9, {lane}"));
            }
            _ => {
                self.line(&format!("v_cmp_lt_u32_e64 s[10:11], {a}, {b}"));
                self.line("s_bcnt1_i32_b64 s8, s[10:11]");
                self.line(&format!("v_xor_b32_e32 {d}, s8, {a}"));
            }
        }
    }

    fn body(&mut self, depth: usize) {
        for _ in 0..1 + self.pick(4) {
            match self.pick(8) {
                0 | 1 if depth < 3 => self.choice(depth),
                2 if depth < 2 => self.repetition(depth),
                _ => self.statement(),
            }
        }
    }

    /// One or two sides of a divergent condition.
    fn choice(&mut self, depth: usize) {
        let saved = format!("s[{}:{}]", 20 + 8 * depth, 21 + 8 * depth);
        let (skips, end) = (self.pick(2) == 0, self.label());
        self.compare();
        self.line(&format!("s_and_saveexec_b64 {saved}, vcc"));
        if self.pick(2) == 0 {
            let other = format!("s[{}:{}]", 22 + 8 * depth, 23 + 8 * depth);
            self.line(&format!("s_xor_b64 {saved}, exec, {saved}"));
            self.body(depth + 1);
            self.line(&format!("s_or_saveexec_b64 {other}, {saved}"));
            self.line(&format!("s_xor_b64 exec, exec, {other}"));
            if skips {
                self.line(&format!("s_cbranch_execz {end}"));
            }
            self.body(depth + 1);
            writeln!(self.text, "{end}:").expect("a string grows");
            self.line(&format!("s_or_b64 exec, exec, {other}"));
        } else {
            if skips {
                self.line(&format!("s_cbranch_execz {end}"));
            }
            self.body(depth + 1);
            writeln!(self.text, "{end}:").expect("a string grows");
            self.line(&format!("s_or_b64 exec, exec, {saved}"));
        }
    }

    /// A loop that lanes leave one after the other, at most four times.
    fn repetition(&mut self, depth: usize) {
        let left = format!("s[{}:{}]", 24 + 8 * depth, 25 + 8 * depth);
        let count = format!("s{}", 26 + 8 * depth);
        let (top, out) = (self.label(), self.label());
        self.line(&format!("s_mov_b64 {left}, 0"));
        let times = 1 + self.pick(4);
        self.line(&format!("s_movk_i32 {count}, {times}"));
        writeln!(self.text, "{top}:").expect("a string grows");
        self.body(depth + 1);
        self.compare();
        self.line(&format!("s_or_b64 {left}, vcc, {left}"));
        self.line(&format!("s_andn2_b64 exec, exec, {left}"));
        self.line(&format!("s_cbranch_execz {out}"));
        self.line(&format!("s_sub_u32 {count}, {count}, 1"));
        self.line(&format!("s_cmp_lg_u32 {count}, 0"));
        self.line(&format!("s_cbranch_scc1 {top}"));
        writeln!(self.text, "{out}:").expect("a string grows");
        self.line(&format!("s_or_b64 exec, exec, {left}"));
    }
}

fn programs(random: &mut Random) -> String {
    let mut text = String::from(".amdgcn_target \"amdgcn-amd-amdhsa--gfx90a\"\n.text\n");
    for program in 0..PROGRAMS {
        let name = format!("program{program}");
        writeln!(text, ".globl {name}\n.p2align 8\n.type {name},@function\n{name}:").expect("a string grows");
        let mut writer = Writer { random, text: String::new(), labels: 0, program };
        writer.body(0);
        writer.body(0);
        for register in 0..8 {
            writer.line(&format!("ds_write_b32 v8, v{register} offset:{}", 256 * register));
        }
        writer.line("s_endpgm");
        text += &writer.text;
        writeln!(text, ".Lend{program}:\n.size {name}, .Lend{program}-{name}").expect("a string grows");
    }
    text
}

fn assemble(text: &str) -> CodeObject {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, out) = (folder.join("control.s"), folder.join("control.co"));
    std::fs::write(&source, text).expect("the folder can be written");
    let output = Command::new("clang-19")
        .args(["-x", "assembler", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-o"])
        .args([&out, &source])
        .output()
        .expect("clang-19 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    CodeObject::parse(std::fs::read(out).expect("the assembler wrote it").into()).expect("a code object")
}

/// Removes the observation of registers, so that only stores matter.
fn forget_registers(function: &mut Function) {
    let Function { blocks, instructions, .. } = function;
    for block in blocks {
        block
            .instructions
            .retain(|index| !matches!(instructions[*index as usize].operation, Operation::Observe(_)));
    }
}

/// LDS after a run.
fn stored(function: &Function, seed: u64, exec: u64) -> Result<Vec<u8>, lift::evaluate::Fault> {
    let mut local: Vec<u8> = (0..LDS_BYTES).map(|at| (at as u64 * 37 + seed) as u8).collect();
    let mut private = vec![Vec::new(); 64];
    let register = |register: Register, lane: usize| match register {
        Register::Scalar(126) => exec & 0xffff_ffff,
        Register::Scalar(127) => exec >> 32,
        Register::Scalar(number) => u64::from(number).wrapping_mul(seed) & 0xffff_ffff,
        Register::Vector(8) => 4 * lane as u64,
        // Few different values, so that comparisons go both ways.
        Register::Vector(number) => (u64::from(number) + lane as u64 * (seed | 1)) % 7,
        Register::Scc => seed & 1,
    };
    let mut memory = Bytes::default();
    let fragment =
        Fragment { register: &register, local: &mut local, private: &mut private, memory: &mut memory };
    run_fragment(function, fragment, 1 << 20)?;
    Ok(local)
}

#[test]
fn passes_keep_what_divergent_code_stores() {
    let mut random = Random::new(0x5eed);
    let text = programs(&mut random);
    let object = assemble(&text);
    let segment = object.segments().iter().find(|segment| segment.is_executable()).expect("code");
    let bytes: &[u8] = &segment.bytes;
    let mut smaller = 0;
    for program in 0..PROGRAMS {
        let name = format!("program{program}");
        let symbol = object.symbols().iter().find(|symbol| symbol.name == name).expect("the symbol");
        let start = (symbol.value - segment.vaddr) as usize;
        let code =
            Code { address: symbol.value, bytes: &bytes[start..start + symbol.size as usize], pointers: &[] };
        let mut plain = lift::lift_fragment(Arch::Gfx90a, &code, Mode::default(), 0)
            .unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        forget_registers(&mut plain);
        lift::verify(&plain).unwrap_or_else(|what| panic!("{name}: {what}\n{plain}"));
        let mut optimised = plain.clone();
        lift::optimize(&mut optimised, &Assumptions::default());
        lift::verify(&optimised).unwrap_or_else(|what| panic!("{name}, optimised: {what}\n{optimised}"));
        let selects = |function: &Function| {
            let all = function.blocks.iter().flat_map(|block| &block.instructions);
            all.filter(|index| function.instructions[**index as usize].operation == Operation::Select).count()
        };
        smaller += usize::from(selects(&optimised) < selects(&plain));
        for n in 0..STARTS {
            let exec = [u64::MAX, random.bits(), 0, random.bits() & random.bits()][n];
            let seed = random.bits() >> 40;
            let (want, got) = (stored(&plain, seed, exec), stored(&optimised, seed, exec));
            assert_eq!(want, got, "{name} seed {seed:#x} exec {exec:#x}\n{plain}\n{optimised}");
        }
    }
    // Demand must have something to do, or the test proves nothing.
    assert!(smaller > PROGRAMS / 2, "only {smaller} programs lost a select");
}
