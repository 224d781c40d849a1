//! Devices as listed by AMD SMI, completed with the kernel driver's data where the library reports nothing.

use super::session::Facts;
use crate::device::{Device, Source};
use crate::gfx;
use crate::kernel;
use crate::partition::Modes;
use crate::software::name_of_chip;

/// Merges both sources. The library decides which devices exist, and their order.
pub fn devices(facts: &[Facts], kernel: &[Device]) -> Vec<Device> {
    let mut devices: Vec<Device> = facts
        .iter()
        .map(|told| {
            let by_id = |device: &&Device| told.gpu_id == Some(device.gpu_id);
            let by_place = |device: &&Device| {
                device.address == told.address && device.part.map_or(0, |(part, _)| part) == told.partition
            };
            let known = kernel.iter().find(by_id).or_else(|| kernel.iter().find(by_place));
            let parts = facts.iter().filter(|other| other.address.is_some() && other.address == told.address);
            complete(told, known, parts.count() as u32)
        })
        .collect();
    kernel::distinguish(&mut devices);
    devices
}

fn complete(told: &Facts, known: Option<&Device>, parts: u32) -> Device {
    let mut device = known.cloned().unwrap_or_else(|| alone(told, parts));
    device.source = Source::Library(told.handle);
    if let Some(name) = &told.name {
        device.model.clone_from(name);
    }
    if let Some(driver) = &told.driver {
        device.driver.clone_from(driver);
    }
    if let Some(firmware) = &told.firmware {
        device.firmware.clone_from(firmware);
    }
    if let Some(numa) = told.numa {
        device.numa = numa;
    }
    device.pcie = told.pcie.or(device.pcie);
    device.render_minor = device.render_minor.or(told.render_minor);
    device.node = device.node.or(told.node);
    // For a partition the library reports the memory of the whole card, and the kernel that of the partition.
    if device.part.is_none()
        && let Some(memory) = told.memory.filter(|bytes| *bytes > 0)
    {
        device.memory = memory;
    }
    device
}

/// Builds a device that the kernel driver does not list.
fn alone(told: &Facts, parts: u32) -> Device {
    let part = (parts > 1).then_some((told.partition, parts));
    let units = told.compute_units.unwrap_or(0);
    let target = told.target.unwrap_or(0);
    let place = told
        .address
        .map_or(0, |it| u64::from(it.domain) << 16 | u64::from(it.bus) << 8 | u64::from(it.device));
    Device {
        uuid: kernel::uuid(if told.unique_id != 0 { told.unique_id } else { place }, part),
        model: name_of_chip(told.device_id).unwrap_or("AMD GPU").to_owned(),
        driver: String::new(),
        firmware: String::new(),
        numa: -1,
        memory: told.memory.unwrap_or(0) / u64::from(parts.max(1)),
        compute_units: units,
        dies: 1,
        tflops: gfx::tflops(target, units, told.clock_mhz.unwrap_or(0)),
        pcie: None,
        address: told.address,
        part,
        render_minor: None,
        gpu_id: told.gpu_id.unwrap_or(0),
        node: None,
        hive: 0,
        target,
        unique_id: told.unique_id,
        modes: Modes::default(),
        source: Source::Library(told.handle),
    }
}
