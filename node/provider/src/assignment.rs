//! Assignments of card partitions.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::error::ProviderError;

/// An assigned partition, and how to pass it to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub uuid: String,
    /// Environment variables, for programs that see all devices of the machine.
    pub variables: Vec<(String, String)>,
    /// Device nodes, for programs that see only the files passed to them (containers).
    pub device_nodes: Vec<String>,
}

/// Assigned partitions by UUID, with the template each was requested with.
#[derive(Debug, Default)]
pub struct Book {
    given: BTreeMap<String, String>,
}

impl Book {
    pub fn holds(&self, uuid: &str) -> bool {
        self.given.contains_key(uuid)
    }

    /// Assigns the first free partition of `candidates`.
    pub fn give(
        &mut self,
        template: &str,
        candidates: &[&Device],
        all: &[Device],
    ) -> Result<Assignment, ProviderError> {
        let free = candidates.iter().find(|device| !self.holds(&device.uuid));
        let Some(device) = free else {
            return Err(ProviderError::Exhausted(format!(
                "all {} partitions of {template} are already assigned",
                candidates.len()
            )));
        };
        self.given.insert(device.uuid.clone(), template.to_owned());
        let position =
            all.iter().filter(|other| other.node.is_some()).position(|other| other.uuid == device.uuid);
        let visible = position.map(|position| ("ROCR_VISIBLE_DEVICES".to_owned(), position.to_string()));
        let render = device.device_node();
        Ok(Assignment {
            uuid: device.uuid.clone(),
            variables: visible.into_iter().collect(),
            device_nodes: render.map(|node| vec!["/dev/kfd".to_owned(), node]).unwrap_or_default(),
        })
    }

    /// Removes the last assignment with a template among `devices`: one device, or all partitions of one card.
    pub fn take_back(&mut self, template: &str, devices: &[&Device]) -> Option<String> {
        let given = |device: &&&Device| self.given.get(&device.uuid).is_some_and(|known| known == template);
        let uuid = devices.iter().rev().find(given).map(|device| device.uuid.clone())?;
        self.given.remove(&uuid);
        Some(uuid)
    }

    /// Drops assignments of devices that no longer exist.
    pub fn keep(&mut self, devices: &[Device]) {
        self.given.retain(|uuid, _| devices.iter().any(|device| device.uuid == *uuid));
    }
}
