//! Lifts the kernels of a code object and prints them: `lift FILE [KERNEL] [--raw] [--count]`.

use code_object::CodeObject;
use isa::Arch;
use lift::{Assumptions, Code};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut plain = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let file = plain.next().ok_or("usage: lift FILE [KERNEL] [--raw] [--count] [--full]")?;
    let wanted = plain.next();
    let object = CodeObject::parse(std::fs::read(file)?.into())?;
    let arch = if object.target().processor == "gfx942" { Arch::Gfx942 } else { Arch::Gfx90a };
    let text = object.segments().iter().find(|segment| segment.is_executable()).ok_or("no code")?;
    let bytes: &[u8] = &text.bytes;
    let pointers = lift::function_pointers(&object);
    let code = Code { address: text.vaddr, bytes, pointers: &pointers };
    let assumptions =
        Assumptions { base: 0x20_0000_0000, full_waves: flag("--full"), ..Assumptions::default() };
    for kernel in object.kernels() {
        if wanted.is_some_and(|wanted| !kernel.name.contains(wanted.as_str())) {
            continue;
        }
        let start = std::time::Instant::now();
        match lift::lift(arch, &code, kernel, &assumptions) {
            Ok(mut function) => {
                let lifted = start.elapsed();
                lift::verify(&function)?;
                if !flag("--raw") {
                    lift::optimize(&mut function, &assumptions);
                }
                let time = start.elapsed();
                if let Err(reason) = lift::verify(&function) {
                    println!("{function}");
                    return Err(reason.into());
                }
                let count: usize = function.blocks.iter().map(|block| block.instructions.len()).sum();
                if !flag("--count") {
                    println!("{function}");
                }
                println!("{}: {count} operations, {lifted:?}, {time:?} in all", kernel.name);
            }
            Err(refusal) => println!("{refusal}"),
        }
    }
    Ok(())
}
