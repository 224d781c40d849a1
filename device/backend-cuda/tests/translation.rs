//! The translator makes PTX of the suite's kernels. Needs no GPU.

use backend_cuda::{Lifter, Request, Translator};
use code_object::CodeObject;
use isa::Arch;
use lift::{Assumptions, Code};

#[test]
fn the_suites_kernels_are_translated() {
    let object = CodeObject::parse(backend_suite::KERNELS.into()).unwrap();
    for block in [[64, 1, 1], [1, 1, 1]] {
        for kernel in object.kernels() {
            let mut segments = object.segments().iter();
            let segment =
                segments.find(|it| it.is_executable() && it.contains(kernel.entry_address, 4)).unwrap();
            let request = Request {
                arch: Arch::Gfx942,
                code: Code { address: segment.vaddr, bytes: &segment.bytes, pointers: &[] },
                kernel,
                assumptions: Assumptions {
                    base: 0x2000_0000_0000,
                    block: Some(block),
                    full_waves: block[0] == 64,
                    alignments: vec![(0, 4)],
                    stack_bytes: 0,
                },
                target: ptx::Target { sm: 90, ptx: (8, 0) },
            };
            let program = Lifter.translate(&request).unwrap_or_else(|why| panic!("{}: {why}", kernel.name));
            assert!(program.text.contains(&program.facts.entry), "{}", kernel.name);
            assert!(program.facts.kernarg_bytes >= kernel.kernarg_size, "{}", kernel.name);
            assert!((1..=64).contains(&program.facts.threads), "{}", kernel.name);
        }
    }
}
