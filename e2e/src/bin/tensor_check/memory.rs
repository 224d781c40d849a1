//! Memory tests on a small device: cached memory is freed before an allocation fails, and everything stays usable after a failure.

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
        return Err(format!("{kept} of {total} bytes are cached"));
    }
    // Too large unless the cached memory is freed.
    let large = rocm.allocate(total / 10 * 7).map_err(text)?;
    if rocm.memory().statistics().kept != 0 {
        return Err("the cached memory was not freed".to_owned());
    }
    match rocm.allocate(total / 10 * 7) {
        Err(DeviceError::OutOfMemory { held, .. }) if held.contains("tensors hold") => {}
        other => return Err(format!("expected an out-of-memory error, got {other:?}")),
    }
    drop(large);
    let small = rocm.allocate(1000).map_err(text)?;
    rocm.upload(&small, 10, b"still alive").map_err(text)?;
    let mut back = [0; 11];
    rocm.download(&small, 10, &mut back).map_err(text)?;
    if &back != b"still alive" {
        return Err(format!("read back {back:?}"));
    }
    if rocm.download(&small, 990, &mut back).is_ok() || rocm.upload(&small, usize::MAX, b"x").is_ok() {
        return Err("a copy past the end was accepted".to_owned());
    }
    drop(small);
    // Small blocks are freed at the next run.
    rocm.run(&[]).map_err(text)?;
    let again = rocm.memory().statistics();
    drop(rocm.allocate(999).map_err(text)?);
    if rocm.memory().statistics().cache_hits != again.cache_hits + 1 {
        return Err(format!("a freed block was not reused: {again:?}"));
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
    Ok(if back == [7; 6000] { Ok(()) } else { Err("pinned bytes were read back changed".to_owned()) })
}
