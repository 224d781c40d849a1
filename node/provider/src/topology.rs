//! Topology: the kind and bandwidth of the link between two devices.

use crate::device::Device;
use crate::kfd::NodeLink;

/// Kind of link between two devices, in the interface's order: nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// Within one card, or by XGMI between cards.
    Internal,
    /// PCIe, within one NUMA node.
    NumaNode,
    /// PCIe, across NUMA nodes.
    System,
    /// Nothing is known.
    Unknown,
}

impl LinkKind {
    /// Returns the interface's number of the kind.
    pub fn level(self) -> i32 {
        match self {
            LinkKind::Internal => 0,
            LinkKind::NumaNode => 4,
            LinkKind::System => 5,
            LinkKind::Unknown => 7,
        }
    }
}

/// A link and its bandwidth, zero if the driver does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub kind: LinkKind,
    pub bandwidth_bytes: u64,
}

/// Returns the link from one device to another, given the driver's direct link, if any.
pub fn link(direct: Option<&NodeLink>, from: &Device, to: &Device) -> Link {
    let bandwidth_bytes = direct.map_or(0, |link| link.bandwidth_bytes);
    let one_card = from.address.is_some() && from.address == to.address;
    let one_hive = from.hive != 0 && from.hive == to.hive;
    let kind = if one_card || one_hive || direct.is_some_and(|link| link.xgmi) {
        LinkKind::Internal
    } else {
        by_host(from, to)
    };
    Link { kind, bandwidth_bytes }
}

/// Returns the kind of link by NUMA node.
pub fn by_host(from: &Device, to: &Device) -> LinkKind {
    if from.address.is_none() || to.address.is_none() {
        LinkKind::Unknown
    } else if from.numa >= 0 && from.numa == to.numa {
        LinkKind::NumaNode
    } else {
        LinkKind::System
    }
}
