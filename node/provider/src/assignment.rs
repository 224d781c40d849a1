//! Which parts of cards are given away.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::refusal::Refusal;

/// A part that somebody has, and how a program is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub uuid: String,
    /// For programs that see every device of the machine.
    pub variables: Vec<(String, String)>,
    /// For programs that see only the files they are given.
    pub device_nodes: Vec<String>,
}

/// Parts given away, by their names, with the template they were asked for by.
#[derive(Debug, Default)]
pub struct Book {
    given: BTreeMap<String, String>,
}

impl Book {
    pub fn holds(&self, uuid: &str) -> bool {
        self.given.contains_key(uuid)
    }

    /// Gives away the first free part of `candidates`.
    pub fn give(
        &mut self,
        template: &str,
        candidates: &[&Device],
        all: &[Device],
    ) -> Result<Assignment, Refusal> {
        let free = candidates.iter().find(|device| !self.holds(&device.uuid));
        let Some(device) = free else {
            return Err(Refusal::Exhausted(format!(
                "all {} parts for {template} are given away",
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

    /// Takes back the last part that was given away for a template, of one device or of any part of one card.
    pub fn take_back(&mut self, template: &str, devices: &[&Device]) -> Option<String> {
        let given = |device: &&&Device| self.given.get(&device.uuid).is_some_and(|known| known == template);
        let uuid = devices.iter().rev().find(given).map(|device| device.uuid.clone())?;
        self.given.remove(&uuid);
        Some(uuid)
    }

    /// Forgets what is no longer there.
    pub fn keep(&mut self, devices: &[Device]) {
        self.given.retain(|uuid, _| devices.iter().any(|device| device.uuid == *uuid));
    }
}
