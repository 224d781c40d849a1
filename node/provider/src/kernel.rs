//! Devices from the two kernel drivers combined: the compute driver (KFD) lists them, the graphics driver (amdgpu) describes them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::address::PciAddress;
use crate::device::{Device, Source};
use crate::gfx;
use crate::kfd::{self, Node, NodeLink};
use crate::metrics::{Metrics, ProcessUse};
use crate::pci::{self, Card};
use crate::software::name_of_chip;
use crate::tree::Tree;

/// A snapshot of both drivers' devices.
#[derive(Debug, Default)]
pub struct View {
    pub devices: Vec<Device>,
    pub cards: BTreeMap<PciAddress, Card>,
    /// Warnings about inconsistent data.
    pub strange: Vec<String>,
    links: OnceLock<BTreeMap<(u32, u32), NodeLink>>,
}

impl View {
    pub fn look(tree: &Tree, machine: u64) -> View {
        let (nodes, senseless) = kfd::nodes(tree);
        let cards = pci::cards(tree);
        let driver = pci::driver_version(tree);
        let mut strange: Vec<String> = senseless
            .iter()
            .map(|number| format!("the compute driver's node {number} has invalid properties and is skipped"))
            .collect();
        for address in cards.keys().filter(|address| !nodes.iter().any(|node| node.address == **address)) {
            strange.push(format!("the compute driver does not list the card at {address}, which is skipped"));
        }
        let mut devices: Vec<Device> = Vec::new();
        for node in &nodes {
            let siblings: Vec<&Node> = nodes.iter().filter(|other| other.address == node.address).collect();
            let device = describe(node, &siblings, cards.get(&node.address), &driver, machine);
            devices.push(device);
        }
        distinguish(&mut devices);
        View { devices, cards, strange, links: OnceLock::new() }
    }

    /// Returns the direct link between two devices, if the compute driver lists one.
    pub fn link(&self, tree: &Tree, from: &Device, to: &Device) -> Option<&NodeLink> {
        let links = self.links.get_or_init(|| {
            let nodes = self.devices.iter().filter_map(|device| device.node);
            // In reverse, so that of two links between the same nodes the first one is kept.
            let of_node =
                |node| kfd::links(tree, node).into_iter().rev().map(move |link| ((node, link.to), link));
            nodes.flat_map(of_node).collect()
        });
        links.get(&(from.node?, to.node?))
    }
}

/// Current sensor values. Each card is read once, even if several of its partitions are queried.
#[derive(Debug)]
pub struct Reading<'a> {
    view: &'a View,
    tree: &'a Tree,
    cards: BTreeMap<PciAddress, Metrics>,
    processes: Option<Vec<kfd::Process>>,
}

impl<'a> Reading<'a> {
    pub fn new(view: &'a View, tree: &'a Tree) -> Reading<'a> {
        Reading { view, tree, cards: BTreeMap::new(), processes: None }
    }

    pub fn metrics(&mut self, device: &Device) -> Metrics {
        let Some(address) = device.address else { return Metrics::default() };
        let Some(card) = self.view.cards.get(&address) else { return Metrics::default() };
        let mut metrics = self.cards.entry(address).or_insert_with(|| card.metrics(self.tree)).clone();
        if device.part.is_some() {
            // The card's counter covers all partitions, so a partition's usage is the sum of its processes.
            let processes = self.processes.get_or_insert_with(|| kfd::processes(self.tree));
            let own = processes.iter().filter(|process| process.gpu_id == device.gpu_id);
            metrics.memory_used = Some(own.map(|process| process.vram).fold(0, u64::saturating_add));
        }
        metrics
    }
}

/// Returns the usage of these devices by process.
pub fn processes(tree: &Tree, devices: &[Device]) -> Vec<ProcessUse> {
    let of_device = |process: kfd::Process| {
        let device = devices.iter().find(|device| device.gpu_id != 0 && device.gpu_id == process.gpu_id)?;
        Some(ProcessUse {
            pid: process.pid,
            device: device.uuid.clone(),
            occupied_units: process.occupied.min(device.compute_units),
            total_units: device.compute_units,
            memory_used: process.vram,
            memory_total: device.memory,
        })
    };
    kfd::processes(tree).into_iter().filter_map(of_device).collect()
}

/// Returns the UUID of a device with a unique id. It does not depend on the slot.
pub fn uuid(unique_id: u64, part: Option<(u32, u32)>) -> String {
    match part {
        Some((part, _)) => format!("amd-{unique_id:016x}-p{part}"),
        None => format!("amd-{unique_id:016x}"),
    }
}

/// Returns a hash that identifies this machine.
pub fn machine(tree: &Tree) -> u64 {
    let name = tree.text("etc/machine-id").or_else(|| tree.text("proc/sys/kernel/hostname"));
    hash(name.unwrap_or_default().as_bytes())
}

fn describe(node: &Node, siblings: &[&Node], card: Option<&Card>, driver: &str, machine: u64) -> Device {
    let parts = siblings.len() as u32;
    let part = (parts > 1).then(|| {
        let numbered = siblings.iter().any(|sibling| sibling.partition != node.partition);
        // A driver that does not number partitions lists them in order.
        let place = siblings.iter().position(|sibling| sibling.number == node.number).unwrap_or(0) as u32;
        (if numbered { node.partition } else { place }, parts)
    });
    let stated = card.map_or(0, |card| card.unique_id);
    let unique_id = [stated, node.unique_id].into_iter().find(|id| *id != 0);
    // Consumer cards have no unique id. Their PCI address is unique only within a machine, so the machine id is hashed as well.
    let identity = unique_id.unwrap_or_else(|| hash(format!("{machine:016x} {}", node.address).as_bytes()));
    let whole_memory = card.map_or(0, |card| card.memory);
    let memory = if node.memory > 0 { node.memory } else { whole_memory / u64::from(parts.max(1)) };
    let chip = card.map_or(0, |card| card.device_id);
    let chip = if chip == 0 { node.device_id } else { chip };
    let named = card.and_then(|card| card.product.clone());
    let model = named.or_else(|| name_of_chip(chip).map(str::to_owned));
    let model = model.or_else(|| Some(format!("AMD GPU {}", gfx::name(node.target)?)));
    Device {
        uuid: uuid(identity, part),
        model: model.unwrap_or_else(|| "AMD GPU".to_owned()),
        driver: driver.to_owned(),
        firmware: card.and_then(|card| card.firmware.clone()).unwrap_or_default(),
        numa: card.map_or(-1, |card| card.numa),
        memory,
        compute_units: node.compute_units,
        dies: node.dies,
        tflops: gfx::tflops(node.target, node.compute_units, node.clock_mhz),
        pcie: card.and_then(|card| card.pcie),
        address: Some(node.address),
        part,
        render_minor: node.render_minor,
        gpu_id: node.gpu_id,
        node: Some(node.number),
        hive: node.hive,
        target: node.target,
        unique_id: unique_id.unwrap_or(0),
        modes: card.map(|card| card.modes.clone()).unwrap_or_default(),
        nvidia: None,
        source: Source::Kernel,
    }
}

/// Makes UUIDs unique: two dies of one card may share a unique id, so the second gets a suffix, in the order of PCI addresses.
pub fn distinguish(devices: &mut [Device]) {
    let mut places: Vec<(u64, PciAddress)> = devices
        .iter()
        .filter(|device| device.unique_id != 0)
        .filter_map(|device| Some((device.unique_id, device.address?)))
        .collect();
    places.sort_unstable();
    places.dedup();
    for device in devices {
        let Some(address) = device.address else { continue };
        let dies = places.iter().filter(|(id, _)| *id == device.unique_id);
        let Some(die) = dies.into_iter().position(|(_, place)| *place == address) else { continue };
        if die > 0 {
            let card = format!("amd-{:016x}-d{die}", device.unique_id);
            device.uuid = device.part.map_or(card.clone(), |(part, _)| format!("{card}-p{part}"));
        }
    }
}

/// FNV-1a hash, which is sufficient for names.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
