//! Channel descriptions, which are plain values, and textures of linear memory. Other textures and surfaces are images,
//! which are refused; destroying a null object succeeds.

use std::ffi::c_int;
use std::sync::Once;

use hip_api::types::*;

use super::{Status, set};
use crate::state::memory::Place;
use crate::state::runtime::{Runtime, runtime};
use crate::state::texture::{self, Element, Texture};
use crate::telemetry::report;

pub unsafe fn hipCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: hipChannelFormatKind,
) -> hipChannelFormatDesc {
    hipChannelFormatDesc { x, y, z, w, f }
}

pub unsafe fn hipCreateTextureObject(
    object: *mut hipTextureObject_t,
    resource: *const hipResourceDesc,
    sampling: *const hipTextureDesc,
    view: *const hipResourceViewDesc,
) -> Status {
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    if !texture::has_linear_textures(&device.target.processor) {
        return refused(&format!("{} has no textures", device.target.processor));
    }
    if object.is_null() || resource.is_null() || sampling.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's descriptions, not null.
    let (resource, sampling) = unsafe { (resource.read(), sampling.read()) };
    if resource.resType != hipResourceTypeLinear {
        return refused("only textures of linear memory are supported, others are images");
    }
    if !view.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let address = create(runtime, &resource, &sampling)?;
    runtime.tables.textures.add(address, Texture { resource, sampling });
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(object, address as hipTextureObject_t) }
}

/// Builds the texture object in device memory.
fn create(
    runtime: &Runtime,
    resource: &hipResourceDesc,
    sampling: &hipTextureDesc,
) -> Result<u64, hipError_t> {
    let memory = resource.res;
    let element = Element::of(&memory.desc, sampling.readMode).ok_or(hipErrorInvalidValue)?;
    let elements = memory.width as u64 / u64::from(element.bytes());
    let address = memory.devPtr as u64;
    if address == 0 || !address.is_multiple_of(texture::ALIGNMENT) || elements >= u64::from(u32::MAX) {
        return Err(hipErrorInvalidValue);
    }
    let levels = [sampling.mipmapLevelBias, sampling.minMipmapLevelClamp, sampling.maxMipmapLevelClamp];
    if sampling.maxAnisotropy != 0 || sampling.sRGB != 0 || levels.iter().any(|level| *level != 0.0) {
        return Err(hipErrorNotSupported);
    }
    let (view, place) = runtime.locate(address, memory.width as u64)?;
    if !matches!(place, Place::Device) {
        return Err(hipErrorInvalidValue);
    }
    let bytes = texture::object(view, elements as u32, element);
    let object = runtime.allocate(bytes.len(), 0, 0)? as u64;
    // Kernels of any stream may use it at once.
    let null = runtime.resolve(std::ptr::null_mut())?;
    runtime.write(null.id, object, &bytes)?;
    runtime.copy_made(null)?;
    Ok(object)
}

fn refused(reason: &str) -> Status {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        report::line(format_args!(
            "hipCreateTextureObject: {reason}; it returns hipErrorNotSupported (see docs/hip-coverage.md)"
        ));
    });
    Err(hipErrorNotSupported)
}

pub unsafe fn hipDestroyTextureObject(texture: hipTextureObject_t) -> Status {
    if texture.is_null() {
        return Ok(());
    }
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    if !texture::has_linear_textures(&device.target.processor) {
        return Err(hipErrorNotSupported);
    }
    let address = texture as u64;
    runtime.tables.textures.remove(address).ok_or(hipErrorInvalidValue)?;
    runtime.free(address).map(|_| ())
}

pub unsafe fn hipTexObjectDestroy(texture: hipTextureObject_t) -> Status {
    // SAFETY: the handle is looked up, not dereferenced.
    unsafe { hipDestroyTextureObject(texture) }
}

pub unsafe fn hipGetTextureObjectResourceDesc(
    resource: *mut hipResourceDesc,
    texture: hipTextureObject_t,
) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { set(resource, known(texture)?.resource) }
}

pub unsafe fn hipGetTextureObjectTextureDesc(
    sampling: *mut hipTextureDesc,
    texture: hipTextureObject_t,
) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { set(sampling, known(texture)?.sampling) }
}

/// A texture of linear memory has no resource view.
pub unsafe fn hipGetTextureObjectResourceViewDesc(
    view: *mut hipResourceViewDesc,
    texture: hipTextureObject_t,
) -> Status {
    known(texture)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(view, hipResourceViewDesc::default()) }
}

fn known(texture: hipTextureObject_t) -> Result<Texture, hipError_t> {
    runtime()?.tables.textures.find(texture as u64).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipDestroySurfaceObject(surface: hipSurfaceObject_t) -> Status {
    if surface.is_null() { Ok(()) } else { Err(hipErrorInvalidValue) }
}
