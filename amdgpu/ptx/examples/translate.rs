//! Lifts and translates the kernels of a code object and writes the text of each kernel to a folder.
//!
//! `translate CODE_OBJECT FOLDER [pair|lane|any] [KERNEL|-] [X,Y,Z]`

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use code_object::CodeObject;
use isa::Arch;
use lift::{Assumptions, Code};
use ptx::{Mode, Options, Target};

/// Stack of a lane where the compiler could not determine its size.
const STACK_BYTES: u32 = 4096;
const LONGEST_NAME: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [object, folder, rest @ ..] = &arguments[..] else {
        return Err("translate CODE_OBJECT FOLDER [pair|lane|any] [KERNEL|-] [X,Y,Z]".into());
    };
    let mode = match rest.first().map(String::as_str) {
        Some("pair") => Some(Mode::Pair),
        Some("lane") => Some(Mode::Lane),
        _ => None,
    };
    let block = match rest.get(2) {
        Some(sizes) => {
            let sizes: Vec<u32> = sizes.split(',').map(str::parse).collect::<Result<_, _>>()?;
            Some(<[u32; 3]>::try_from(sizes).map_err(|_| "a workgroup has three sizes")?)
        }
        None => None,
    };
    let module = CodeObject::parse(fs::read(object)?.into())?;
    let arch = if module.isa_name().contains("gfx942") { Arch::Gfx942 } else { Arch::Gfx90a };
    let text = module.segments().iter().find(|segment| segment.is_executable()).ok_or("no code")?;
    let pointers = lift::function_pointers(&module);
    let code = Code { address: text.vaddr, bytes: &text.bytes, pointers: &pointers };
    fs::create_dir_all(folder)?;
    for kernel in module.kernels() {
        if rest.get(1).is_some_and(|wanted| wanted != "-" && *wanted != kernel.name) {
            continue;
        }
        let assumptions = Assumptions {
            block,
            full_waves: block.is_some_and(|block| block.iter().product::<u32>().is_multiple_of(64)),
            stack_bytes: STACK_BYTES,
            alignments: (0..kernel.kernarg_size / 8).map(|at| (8 * at, 8)).collect(),
            ..Assumptions::default()
        };
        let lifted = lift::lift(arch, &code, kernel, &assumptions).map(|mut function| {
            lift::optimize(&mut function, &assumptions);
            function
        });
        let result = lifted.and_then(|function| {
            let form = function.to_string();
            let options = Options { mode, block, ..Options::default() };
            ptx::translate(&function, &Target::default(), &options).map(|translation| (form, translation))
        });
        match result {
            Ok((form, translation)) => {
                // Names of C++ templates can be longer than a file's name may be.
                let name: String = translation.entry.chars().take(LONGEST_NAME).collect();
                let path = Path::new(folder).join(format!("{name}.ptx"));
                fs::write(path.with_extension("form"), form)?;
                fs::write(&path, &translation.text)?;
                println!("{}: {} lines", kernel.name, translation.text.lines().count());
            }
            Err(refusal) => println!("refused: {refusal}"),
        }
    }
    Ok(())
}
