//! Does every kind of step on a ROCm device and on the CPU and compares what they give: `tensor_check LIBRARY [CACHE]`, with the environment of
//! any other HIP program. Prints a line for each case, and ends with 1 if one is wrong.

mod cases;
mod contractions;
mod judge;
mod operand;
mod programs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tensor_core::device::Device;
use tensor_cpu::CpuDevice;
use tensor_rocm::{RocmDevice, RocmOptions};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let options = RocmOptions { library: arguments.next(), kernel_cache: arguments.next() };
    let rocm = match RocmDevice::open_with(0, &options) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("no device: {error}");
            return ExitCode::FAILURE;
        }
    };
    let cpu: Arc<dyn Device> = CpuDevice::new();
    let cases: Vec<_> = cases::all().into_iter().chain(programs::all()).chain(contractions::all()).collect();
    let wrong = judge::judge(&rocm, &*cpu, &cases);
    println!("{:?}", rocm.kernel_statistics());
    println!("{:?}", rocm.memory().statistics());
    println!("{} of {} cases are right", cases.len() - wrong, cases.len());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
