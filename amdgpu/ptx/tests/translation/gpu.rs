//! A GPU, where there is one, computes what the evaluator computes.
//!
//! `PTX_CASES=text` in the environment runs only the cases whose name has the text.

use std::env;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::ptr;

use libloading::Library;
use lift::form::Register;
use ptx::{Mode, Target, launch, translate};

use super::cases::{Case, Expected};
use super::ptxas::options;

type Status = c_int;
type Handle = *mut c_void;

/// The few functions of the driver that a case needs.
struct Driver {
    library: Library,
}

macro_rules! call {
    ($driver:expr, $name:literal ($($arg:expr => $type:ty),*)) => {{
        // SAFETY: the signature is that of the driver API; the pointers are valid for the call.
        let status = unsafe {
            let function = $driver
                .library
                .get::<unsafe extern "C" fn($($type),*) -> Status>(concat!($name, "\0").as_bytes())
                .expect("a function of the driver");
            function($($arg),*)
        };
        if status == 0 { Ok(()) } else { Err(format!("{} gave {status}", $name)) }
    }};
}

impl Driver {
    /// Opens the driver and makes a context current.
    fn open() -> Option<Driver> {
        // SAFETY: the CUDA driver's initialisers have no preconditions.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let driver = Driver { library };
        call!(driver, "cuInit" (0 => c_uint)).ok()?;
        let (mut device, mut context) = (0, ptr::null_mut());
        call!(driver, "cuDeviceGet" (&mut device => *mut c_int, 0 => c_int)).ok()?;
        call!(driver, "cuDevicePrimaryCtxRetain" (&mut context => *mut Handle, device => c_int)).ok()?;
        call!(driver, "cuCtxSetCurrent" (context => Handle)).ok()?;
        Some(driver)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let mut address = 0u64;
        call!(self, "cuMemAlloc_v2" (&mut address => *mut u64, bytes.max(16) => usize))?;
        Ok(address)
    }

    fn write(&self, to: u64, from: &[u8]) -> Result<(), String> {
        call!(self, "cuMemcpyHtoD_v2" (to => u64, from.as_ptr().cast() => *const c_void, from.len() => usize))
    }

    fn read(&self, from: u64, to: &mut [u8]) -> Result<(), String> {
        call!(self, "cuMemcpyDtoH_v2" (to.as_mut_ptr().cast() => *mut c_void, from => u64, to.len() => usize))
    }
}

/// Runs a case and returns the register files and memory.
fn run(driver: &Driver, case: &Case, mode: Mode) -> Result<(Vec<u8>, Vec<u8>), String> {
    let translation = translate(&case.function, &Target::default(), &options(case, mode))
        .map_err(|refusal| refusal.to_string())?;
    let text = CString::new(translation.text).map_err(|_| "a zero in the text")?;
    let mut module: Handle = ptr::null_mut();
    call!(driver, "cuModuleLoadData" (&mut module => *mut Handle, text.as_ptr().cast() => *const c_void))?;
    let entry = CString::new(translation.entry).map_err(|_| "a zero in the name")?;
    let mut function: Handle = ptr::null_mut();
    call!(driver, "cuModuleGetFunction" (&mut function => *mut Handle, module => Handle, entry.as_ptr() => *const c_char))?;

    let size = launch::REGISTER_BYTES as usize;
    let mut file = vec![0u8; size * case.waves.len()];
    let memory = driver.allocate(case.memory.len())?;
    driver.write(memory, &case.memory)?;
    for (wave, registers) in case.waves.iter().enumerate() {
        let mut put = |register: Register, words: &[u32]| {
            for (lane, word) in words.iter().enumerate() {
                let at = wave * size + place(register, lane);
                file[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        };
        registers.iter().for_each(|(register, words)| put(*register, words));
        put(Register::Scalar(0), &[memory as u32]);
        put(Register::Scalar(1), &[(memory >> 32) as u32]);
    }
    let registers = driver.allocate(file.len())?;
    driver.write(registers, &file)?;

    let mut kernarg = vec![0u8; translation.kernarg_bytes as usize];
    let mut block = [0u8; launch::LAUNCH_BYTES as usize];
    let mut put = |at: u32, bytes: &[u8]| block[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(4, &64u16.to_le_bytes());
    put(6, &1u16.to_le_bytes());
    put(8, &1u16.to_le_bytes());
    put(launch::GROUPS_AT, &(case.waves.len() as u32).to_le_bytes());
    put(launch::GROUPS_AT + 4, &1u32.to_le_bytes());
    put(launch::REGISTERS_AT, &registers.to_le_bytes());
    let mut parameters: [*mut c_void; 2] = [kernarg.as_mut_ptr().cast(), block.as_mut_ptr().cast()];
    let threads = launch::threads(mode, 64);
    call!(driver, "cuLaunchKernel" (
        function => Handle,
        case.waves.len() as c_uint => c_uint, 1 => c_uint, 1 => c_uint,
        threads => c_uint, 1 => c_uint, 1 => c_uint,
        case.lds_bytes => c_uint,
        ptr::null_mut() => Handle,
        parameters.as_mut_ptr() => *mut *mut c_void,
        ptr::null_mut() => *mut *mut c_void
    ))?;
    call!(driver, "cuCtxSynchronize"())?;
    driver.read(registers, &mut file)?;
    let mut bytes = vec![0; case.memory.len()];
    driver.read(memory, &mut bytes)?;
    call!(driver, "cuMemFree_v2" (memory => u64))?;
    call!(driver, "cuMemFree_v2" (registers => u64))?;
    call!(driver, "cuModuleUnload" (module => Handle))?;
    Ok((file, bytes))
}

/// Offset of a register's word in a wave's file.
fn place(register: Register, lane: usize) -> usize {
    match register {
        Register::Scalar(number) => launch::scalar_at(number) as usize,
        Register::Vector(number) => launch::vector_at(number) as usize + 4 * lane,
        Register::Scc => launch::SCC_AT as usize,
    }
}

/// The first difference.
fn compare(case: &Case, expected: &Expected, file: &[u8], memory: &[u8]) -> Result<(), String> {
    let word = |wave: usize, register: Register, lane: usize| {
        let at = wave * launch::REGISTER_BYTES as usize + place(register, lane);
        u32::from_le_bytes(file[at..at + 4].try_into().unwrap_or_default())
    };
    for (wave, observed) in expected.registers.iter().enumerate() {
        let mut at = 0;
        while at < observed.len() {
            let (register, words) = &observed[at];
            let wide = case.tolerance.is_wide() && at + 1 < observed.len();
            let lanes = if matches!(register, Register::Vector(_)) { 64 } else { 1 };
            for lane in 0..lanes {
                // A uniform value in a vector register is observed once, and is in every lane.
                let want = |of: &[u32]| of[lane.min(of.len() - 1)];
                let (mut got, mut wanted) = (u64::from(word(wave, *register, lane)), u64::from(want(words)));
                if wide {
                    let (next, high) = &observed[at + 1];
                    got |= u64::from(word(wave, *next, lane)) << 32;
                    wanted |= u64::from(want(high)) << 32;
                }
                if !case.tolerance.accepts(got, wanted) {
                    let inputs: Vec<String> = case.waves[wave]
                        .iter()
                        .map(|(register, words)| {
                            format!("{register:?} {:#x}", words[lane.min(words.len() - 1)])
                        })
                        .collect();
                    return Err(format!(
                        "wave {wave} {register:?} lane {lane}: got {got:#x}, want {wanted:#x}; {}",
                        inputs.join(", ")
                    ));
                }
            }
            at += if wide { 2 } else { 1 };
        }
    }
    match memory.iter().zip(&expected.memory).position(|(got, want)| got != want) {
        Some(at) => Err(format!("memory at {at}: got {:#x}, want {:#x}", memory[at], expected.memory[at])),
        None => Ok(()),
    }
}

#[test]
fn a_gpu_computes_what_the_evaluator_computes() {
    let Some(driver) = Driver::open() else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: a GPU computes what the evaluator computes: no CUDA driver"
        );
        return;
    };
    let only = env::var("PTX_CASES").unwrap_or_default();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in super::all().iter().filter(|case| case.name.contains(&only)) {
        let expected = case.expected();
        for mode in &case.modes {
            count += 1;
            let result =
                run(&driver, case, *mode).and_then(|(file, memory)| compare(case, &expected, &file, &memory));
            if let Err(difference) = result {
                let _ = writeln!(std::io::stderr(), "{} {mode:?}: {difference}", case.name);
                failures.push(case.name.clone());
            }
        }
    }
    let _ = writeln!(std::io::stderr(), "{count} runs, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {count} differ", failures.len());
}

#[test]
fn the_evaluator_runs_every_case() {
    for case in super::all() {
        let expected = case.expected();
        assert_eq!(expected.registers.len(), case.waves.len(), "{}", case.name);
        let observes = expected.registers.iter().all(|observed| !observed.is_empty());
        assert!(observes || !case.memory.is_empty(), "{} observes nothing", case.name);
    }
}
