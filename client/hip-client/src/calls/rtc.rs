//! Run-time compilation (hiprtc): the worker compiles, the client keeps the program and its results.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;

pub use super::link::{
    hiprtcLinkAddData, hiprtcLinkAddFile, hiprtcLinkComplete, hiprtcLinkCreate, hiprtcLinkDestroy,
};
use crate::calls::include;
use crate::state::handles::{Kind, Table};
use crate::state::runtime::runtime;
use crate::telemetry::progress::Waiting;
use crate::telemetry::report;

/// Programs can exist before any session, so their table belongs to the process.
static PROGRAMS: Table<Program> = Table::new(Kind::Program);

type Answer = Result<(), hiprtcResult>;

/// A source and its compilation result.
#[derive(Debug)]
struct Program {
    name: String,
    source: String,
    headers: Vec<(String, String)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    expressions: Vec<String>,
    compiled: bool,
    log: Vec<u8>,
    code: Vec<u8>,
    bitcode: Vec<u8>,
    /// Lowered names, kept as C strings because the program receives pointers to them.
    lowered: HashMap<String, CString>,
}

fn find(program: hiprtcProgram) -> Result<Arc<Program>, hiprtcResult> {
    PROGRAMS.get(program as u64).ok_or(HIPRTC_ERROR_INVALID_PROGRAM)
}

/// # Safety
/// `pointer` is null or a NUL-terminated string.
unsafe fn text(pointer: *const c_char) -> Result<String, hiprtcResult> {
    if pointer.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// # Safety
/// `pointer` is null or valid for a write of `T`.
unsafe fn set<T>(pointer: *mut T, value: T) -> Answer {
    if pointer.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: not null, and the caller guarantees the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

pub unsafe fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> Answer {
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(major, 9)?;
        set(minor, 0)
    }
}

pub unsafe fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    result.error_string().map_or(c"HIPRTC_ERROR_UNKNOWN".as_ptr(), CStr::as_ptr)
}

pub unsafe fn hiprtcCreateProgram(
    program: *mut hiprtcProgram,
    source: *const c_char,
    name: *const c_char,
    header_count: c_int,
    headers: *const *const c_char,
    include_names: *const *const c_char,
) -> Answer {
    if program.is_null()
        || header_count < 0
        || (header_count > 0 && (headers.is_null() || include_names.is_null()))
    {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's strings, and arrays of `header_count` strings.
    let made = unsafe {
        let mut texts = Vec::new();
        for i in 0..header_count as usize {
            texts.push((text(*include_names.add(i))?, text(*headers.add(i))?));
        }
        let name = if name.is_null() { "CompileSourceName".to_owned() } else { text(name)? };
        Program { name, source: text(source)?, headers: texts, state: Mutex::default() }
    };
    let (handle, _) = PROGRAMS.insert_with(|_| made).ok_or(HIPRTC_ERROR_OUT_OF_MEMORY)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(program, handle as hiprtcProgram) }
}

pub unsafe fn hiprtcDestroyProgram(program: *mut hiprtcProgram) -> Answer {
    if program.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's handle variable, not null.
    unsafe {
        PROGRAMS.remove(*program as u64).ok_or(HIPRTC_ERROR_INVALID_PROGRAM)?;
        set(program, std::ptr::null_mut())
    }
}

pub unsafe fn hiprtcAddNameExpression(program: hiprtcProgram, expression: *const c_char) -> Answer {
    // SAFETY: the caller's string.
    let expression = unsafe { text(expression) }?;
    let program = find(program)?;
    let mut state = program.state.lock();
    if state.compiled {
        return Err(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
    }
    state.expressions.push(expression);
    Ok(())
}

pub unsafe fn hiprtcCompileProgram(
    program: hiprtcProgram,
    option_count: c_int,
    options: *const *const c_char,
) -> Answer {
    let program = find(program)?;
    if option_count < 0 || (option_count > 0 && options.is_null()) {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    let mut given = Vec::new();
    for i in 0..option_count as usize {
        // SAFETY: the caller's array of `option_count` strings.
        given.push(unsafe { text(*options.add(i)) }?);
    }
    let runtime = runtime().map_err(|_| HIPRTC_ERROR_INTERNAL_ERROR)?;
    let (_, device) = runtime.current().map_err(|_| HIPRTC_ERROR_INTERNAL_ERROR)?;
    let mut texts = vec![program.source.as_str()];
    texts.extend(program.headers.iter().map(|(_, text)| text.as_str()));
    let gathered = include::gather(&given, &texts);
    let mut state = program.state.lock();
    let request = wire::Compile {
        isa: device.snapshot.isa.clone(),
        name: program.name.clone(),
        source: program.source.clone(),
        headers: program.headers.iter().cloned().chain(gathered.headers).collect(),
        options: gathered.options,
        expressions: state.expressions.clone(),
    };
    let waiting = Waiting::start("compiling on the worker");
    let reply = runtime.call(&request);
    drop(waiting);
    let reply = reply.map_err(|error| {
        report::line(format_args!("hiprtcCompileProgram: the worker could not compile: {error:?}"));
        HIPRTC_ERROR_INTERNAL_ERROR
    })?;
    state.compiled = true;
    state.log = reply.log.into_bytes();
    state.code = reply.code.0;
    state.bitcode = reply.bitcode.0;
    let names = state.expressions.clone().into_iter().zip(reply.lowered);
    state.lowered = names.filter_map(|(e, name)| Some((e, CString::new(name).ok()?))).collect();
    match hiprtcResult(reply.status as u32) {
        HIPRTC_SUCCESS => Ok(()),
        failure => Err(failure),
    }
}

pub unsafe fn hiprtcGetLoweredName(
    program: hiprtcProgram,
    expression: *const c_char,
    lowered: *mut *const c_char,
) -> Answer {
    // SAFETY: the caller's string.
    let expression = unsafe { text(expression) }?;
    let program = find(program)?;
    let state = program.state.lock();
    if !state.compiled {
        return Err(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    }
    let name = state.lowered.get(&expression).ok_or(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID)?;
    // SAFETY: the caller's out-pointer; the string lives as long as the program.
    unsafe { set(lowered, name.as_ptr()) }
}

/// Finds a program. A null out-pointer is reported before an invalid program.
fn find_for<T>(program: hiprtcProgram, answer: *const T) -> Result<Arc<Program>, hiprtcResult> {
    if answer.is_null() { Err(HIPRTC_ERROR_INVALID_INPUT) } else { find(program) }
}

/// Copies a result into a buffer that the program sized by the matching `Size` call.
unsafe fn copy_out(bytes: &[u8], buffer: *mut c_char) -> Answer {
    if buffer.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's buffer has the size that the `Size` call returned.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    Ok(())
}

pub unsafe fn hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) -> Answer {
    let program = find_for(program, bytes)?;
    let len = program.state.lock().log.len();
    // SAFETY: the caller's out-pointer. The size counts the NUL.
    unsafe { set(bytes, if len == 0 { 0 } else { len + 1 }) }
}

pub unsafe fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> Answer {
    let program = find(program)?;
    let state = program.state.lock();
    if state.log.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's buffer, sized by hiprtcGetProgramLogSize.
    unsafe {
        copy_out(&state.log, log)?;
        set(log.add(state.log.len()), 0)
    }
}

pub unsafe fn hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) -> Answer {
    let program = find_for(program, bytes)?;
    let len = program.state.lock().code.len();
    // SAFETY: the caller's out-pointer.
    unsafe { set(bytes, len) }
}

pub unsafe fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> Answer {
    let program = find_for(program, code)?;
    let state = program.state.lock();
    // SAFETY: the caller's buffer, sized by hiprtcGetCodeSize.
    unsafe { copy_out(&state.code, code) }
}

pub unsafe fn hiprtcGetBitcodeSize(program: hiprtcProgram, bytes: *mut usize) -> Answer {
    let program = find_for(program, bytes)?;
    let len = program.state.lock().bitcode.len();
    // SAFETY: the caller's out-pointer.
    unsafe { set(bytes, len) }
}

pub unsafe fn hiprtcGetBitcode(program: hiprtcProgram, bitcode: *mut c_char) -> Answer {
    let program = find_for(program, bitcode)?;
    let state = program.state.lock();
    // SAFETY: the caller's buffer, sized by hiprtcGetBitcodeSize.
    unsafe { copy_out(&state.bitcode, bitcode) }
}
