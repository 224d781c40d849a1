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
        .map(|reported| {
            let by_id = |device: &&Device| reported.gpu_id == Some(device.gpu_id);
            let by_place = |device: &&Device| {
                device.address == reported.address
                    && device.part.map_or(0, |(part, _)| part) == reported.partition
            };
            let known = kernel.iter().find(by_id).or_else(|| kernel.iter().find(by_place));
            let parts =
                facts.iter().filter(|other| other.address.is_some() && other.address == reported.address);
            complete(reported, known, parts.count() as u32)
        })
        .collect();
    kernel::distinguish(&mut devices);
    devices
}

fn complete(reported: &Facts, known: Option<&Device>, parts: u32) -> Device {
    let mut device = known.cloned().unwrap_or_else(|| alone(reported, parts));
    device.source = Source::Library(reported.handle);
    if let Some(name) = &reported.name {
        device.model.clone_from(name);
    }
    if let Some(driver) = &reported.driver {
        device.driver.clone_from(driver);
    }
    if let Some(firmware) = &reported.firmware {
        device.firmware.clone_from(firmware);
    }
    if let Some(numa) = reported.numa {
        device.numa = numa;
    }
    device.pcie = reported.pcie.or(device.pcie);
    device.render_minor = device.render_minor.or(reported.render_minor);
    device.node = device.node.or(reported.node);
    // For a partition the library reports the memory of the whole card, and the kernel that of the partition.
    if device.part.is_none()
        && let Some(memory) = reported.memory.filter(|bytes| *bytes > 0)
    {
        device.memory = memory;
    }
    device
}

/// Builds a device that the kernel driver does not list.
fn alone(reported: &Facts, parts: u32) -> Device {
    let part = (parts > 1).then_some((reported.partition, parts));
    let units = reported.compute_units.unwrap_or(0);
    let target = reported.target.unwrap_or(0);
    let place = reported
        .address
        .map_or(0, |it| u64::from(it.domain) << 16 | u64::from(it.bus) << 8 | u64::from(it.device));
    Device {
        uuid: kernel::uuid(if reported.unique_id != 0 { reported.unique_id } else { place }, part),
        model: name_of_chip(reported.device_id).unwrap_or("AMD GPU").to_owned(),
        driver: String::new(),
        firmware: String::new(),
        numa: -1,
        memory: reported.memory.unwrap_or(0) / u64::from(parts.max(1)),
        compute_units: units,
        dies: 1,
        tflops: gfx::tflops(target, units, reported.clock_mhz.unwrap_or(0)),
        pcie: None,
        address: reported.address,
        part,
        render_minor: None,
        gpu_id: reported.gpu_id.unwrap_or(0),
        node: None,
        hive: 0,
        target,
        unique_id: reported.unique_id,
        modes: Modes::default(),
        nvidia: None,
        source: Source::Library(reported.handle),
    }
}
