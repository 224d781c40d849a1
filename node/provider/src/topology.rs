//! How near two devices are to each other.

use crate::device::Device;
use crate::kfd::NodeLink;

/// Two devices, seen from the first; in the interface's order, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// One card, or links of AMD's own between cards.
    Internal,
    /// The bus, below one memory controller of the host.
    NumaNode,
    /// The bus, across the host.
    System,
    Unknown,
}

impl LinkKind {
    /// The interface's number.
    pub fn level(self) -> i32 {
        match self {
            LinkKind::Internal => 0,
            LinkKind::NumaNode => 4,
            LinkKind::System => 5,
            LinkKind::Unknown => 7,
        }
    }
}

/// A link, and what it carries as far as the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub kind: LinkKind,
    pub bandwidth_bytes: u64,
}

/// What the drivers say of the way from one device to another, between which there may be a direct link.
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

/// What the host's memory controllers say of it.
pub fn by_host(from: &Device, to: &Device) -> LinkKind {
    if from.address.is_none() || to.address.is_none() {
        LinkKind::Unknown
    } else if from.numa >= 0 && from.numa == to.numa {
        LinkKind::NumaNode
    } else {
        LinkKind::System
    }
}
