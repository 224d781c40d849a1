//! Runs every kind of tensor operation on a ROCm device and on the CPU and compares the results: `tensor_check LIBRARY CACHE PART...`,
//! with the environment of any HIP program. Prints one line per case, and exits with 1 if one fails.

mod cases;
mod contractions;
mod judge;
mod memory;
mod operand;
mod padded;
mod programs;
mod training;
mod tuning;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tensor_core::device::Device;
use tensor_cpu::CpuDevice;
use tensor_rocm::{RocmDevice, RocmOptions};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let [library, kernel_cache] = [arguments.next(), arguments.next()].map(|path| path.map(PathBuf::from));
    let options = RocmOptions { library, kernel_cache, ..RocmOptions::default() };
    let rocm = match RocmDevice::open_with(0, &options) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("cannot open the device: {error}");
            return ExitCode::FAILURE;
        }
    };
    let cpu: Arc<dyn Device> = CpuDevice::new();
    tensor_core::set_host_device(cpu.clone());
    let (mut wrong, mut all) = (0, 0);
    for part in arguments {
        let cases = match part.to_str() {
            Some("steps") => cases::all(),
            Some("programs") => programs::all(),
            Some("contractions") => contractions::all(),
            Some("padded") => padded::all(),
            Some("interpreted") => {
                let options = RocmOptions { interpret: true, ..options.clone() };
                let interpreting = match RocmDevice::open_with(0, &options) {
                    Ok(device) => device,
                    Err(error) => {
                        eprintln!("cannot open a device that interprets: {error}");
                        return ExitCode::FAILURE;
                    }
                };
                // Those with panels that matrix cores add in another order have other bits.
                let padded = padded::all().into_iter().filter(|case| case.tolerance.is_none()).collect();
                let cases = [cases::all(), programs::all(), contractions::all(), padded].concat();
                let exact: Vec<judge::Case> =
                    cases.into_iter().map(|case| judge::Case { tolerance: None, ..case }).collect();
                all += exact.len();
                wrong += judge::judge(&interpreting, &*rocm, &exact);
                println!("{:?}", interpreting.kernel_statistics());
                continue;
            }
            Some("memory") => {
                all += 1;
                wrong += judge::report("memory", memory::check(&rocm));
                continue;
            }
            Some("training") => {
                all += 1;
                wrong += judge::report("training", training::check(&rocm, &cpu));
                continue;
            }
            Some("tuning") => {
                all += 1;
                wrong += judge::report("tuning", tuning::check(&rocm));
                continue;
            }
            _ => {
                eprintln!("unknown part: {}", part.display());
                return ExitCode::FAILURE;
            }
        };
        all += cases.len();
        wrong += judge::judge(&rocm, &*cpu, &cases);
    }
    println!("{:?}", rocm.kernel_statistics());
    println!("{} of {all} cases passed", all - wrong);
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
