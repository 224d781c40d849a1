//! Memory of a device with little of it: what is kept is given up before anything is refused, and a refusal leaves everything usable.

use tensor_core::device::Device;
use tensor_core::error::DeviceError;
use tensor_rocm::RocmDevice;

pub fn check(rocm: &RocmDevice) -> Result<(), String> {
    let text = |error: DeviceError| error.to_string();
    let total = rocm.info().map_err(text)?.total_memory as usize;
    rocm.memory().clear().map_err(text)?;
    rocm.memory().reset_statistics();
    drop(rocm.allocate(total / 10 * 6).map_err(text)?);
    let kept = rocm.memory().statistics().kept;
    if kept < total / 10 * 6 {
        return Err(format!("{kept} bytes are kept of {total}"));
    }
    // There is no room for both.
    let large = rocm.allocate(total / 10 * 7).map_err(text)?;
    if rocm.memory().statistics().kept != 0 {
        return Err("what was kept is still kept".to_owned());
    }
    match rocm.allocate(total / 10 * 7) {
        Err(DeviceError::OutOfMemory { held, .. }) if held.contains("tensors hold") => {}
        other => return Err(format!("instead of being out of memory: {other:?}")),
    }
    drop(large);
    let small = rocm.allocate(1000).map_err(text)?;
    rocm.upload(&small, 10, b"still alive").map_err(text)?;
    let mut back = [0; 11];
    rocm.download(&small, 10, &mut back).map_err(text)?;
    if &back != b"still alive" {
        return Err(format!("{back:?} came back"));
    }
    if rocm.download(&small, 990, &mut back).is_ok() || rocm.upload(&small, usize::MAX, b"x").is_ok() {
        return Err("a copy beyond the end was not refused".to_owned());
    }
    drop(small);
    // Small blocks wait for the next run.
    rocm.run(&[]).map_err(text)?;
    let again = rocm.memory().statistics();
    drop(rocm.allocate(999).map_err(text)?);
    if rocm.memory().statistics().cache_hits != again.cache_hits + 1 {
        return Err(format!("a block was not used again: {again:?}"));
    }
    pinned(rocm).map_err(text)?
}

fn pinned(rocm: &RocmDevice) -> Result<Result<(), String>, DeviceError> {
    let pool = rocm.pinned();
    pool.warm_up(&[5000])?;
    let mut buffer = pool.acquire(6000)?;
    buffer.bytes_mut().fill(7);
    let statistics = pool.statistics();
    if statistics.hits != 1 || statistics.misses != 1 || statistics.in_use != 8192 {
        return Ok(Err(format!("{statistics:?}")));
    }
    let device = rocm.allocate(6000)?;
    rocm.upload(&device, 0, buffer.bytes())?;
    let mut back = vec![0; 6000];
    rocm.download(&device, 0, &mut back)?;
    drop(buffer);
    pool.clear()?;
    Ok(if back == [7; 6000] { Ok(()) } else { Err("pinned bytes came back changed".to_owned()) })
}
