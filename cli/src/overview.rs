//! `remora` without arguments: what people use it for, and the command for each.

use crate::output::out;

const TEXT: &str = "\
Remora runs HIP programs on an AMD GPU of another machine, or on a software GPU of this one.

Run a HIP program without a GPU:
  remora run -- ./program

Use a GPU of another machine (there: `remora worker`, see `remora help worker`):
  remora run --worker HOST:PORT -- ./program

Submit a kernel to a board, which checks and measures it (start one: `remora serve`):
  remora submit kernel.hip --problem vector-addition

`remora try` runs a sample now, without a GPU or a compiler. `remora new kernel.hip` writes a program to start from.
`remora doctor` reports what is missing. `remora help` lists all commands; `remora help run` describes one.
";

pub fn print() {
    out!("{TEXT}");
}
