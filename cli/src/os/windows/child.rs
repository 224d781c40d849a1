//! The program of `remora run` as a child process.

use std::ffi::c_void;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use windows_sys::Win32::Foundation::{STATUS_DLL_NOT_FOUND, STATUS_ENTRYPOINT_NOT_FOUND};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::LibraryLoader::SetDllDirectoryW;

use crate::output::errln;

/// The file of a program that is named like this: `.exe` can be left out.
pub fn program_file(path: PathBuf) -> PathBuf {
    if path.extension().is_some() || path.is_file() {
        return path;
    }
    path.with_extension("exe")
}

/// Runs the program as a child and returns its exit code. It ends when this process ends. `libraries` is where its DLLs are.
pub fn run(mut command: Command, libraries: &Path) -> io::Result<ExitCode> {
    set_dll_folder(libraries)?;
    // SAFETY: the handler only returns, and stays valid.
    unsafe { SetConsoleCtrlHandler(Some(leave_to_program), 1) };
    let mut child = command.spawn()?;
    // Without a job the program runs all the same, but outlives this process if that is killed.
    let _job = end_with_this_process(&child);
    let status = child.wait()?;
    let code = status.code().unwrap_or(1);
    match code {
        STATUS_DLL_NOT_FOUND => errln!("remora: a DLL that the program imports was not found"),
        STATUS_ENTRYPOINT_NOT_FOUND => {
            errln!(
                "remora: a DLL lacks a function that the program imports; docs/windows.md lists HIP's that Remora's lack"
            )
        }
        _ => {}
    }
    match u8::try_from(code) {
        Ok(code) => Ok(ExitCode::from(code)),
        // Codes of crashes have 32 bits.
        Err(_) => std::process::exit(code),
    }
}

/// Has programs that this process starts look for DLLs in a folder after their own and before the system's, where AMD's driver
/// installs its HIP. A child process inherits the setting.
fn set_dll_folder(folder: &Path) -> io::Result<()> {
    let mut text: Vec<u16> = folder.as_os_str().encode_wide().collect();
    text.push(0);
    // SAFETY: the text ends with a zero.
    match unsafe { SetDllDirectoryW(text.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The console sends Ctrl-C to the program as well; this process waits for it to react.
unsafe extern "system" fn leave_to_program(event: u32) -> i32 {
    i32::from(event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT)
}

/// Puts a child into a job whose last handle this process holds, so that the system ends both together.
fn end_with_this_process(child: &Child) -> io::Result<OwnedHandle> {
    // SAFETY: no attributes and no name; the handle is checked and owned from here on.
    let job = unsafe {
        let job = CreateJobObjectW(std::ptr::null(), std::ptr::null());
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        OwnedHandle::from_raw_handle(job)
    };
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let (handle, size) = (job.as_raw_handle(), size_of_val(&limits) as u32);
    // SAFETY: both handles are open, and the structure is of the class that is named.
    let is_set = unsafe {
        let limits: *const c_void = (&raw const limits).cast();
        SetInformationJobObject(handle, JobObjectExtendedLimitInformation, limits, size) != 0
            && AssignProcessToJobObject(handle, child.as_raw_handle()) != 0
    };
    if is_set { Ok(job) } else { Err(io::Error::last_os_error()) }
}
