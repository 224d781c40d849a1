//! The core: combines the data sources of a machine and keeps its state (devices, assignments, limits).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::agent::{Agent, AgentError, ProcessSelection};
use crate::assignment::{Assignment, Book};
use crate::device::{Device, Source};
use crate::env::Settings;
use crate::error::ProviderError;
use crate::kernel::{self, Reading, View};
use crate::limits::{Ledger, Limit, Limiter};
use crate::log::Level;
use crate::metrics::{Metrics, ProcessUse};
use crate::mounts::{self, Mount};
use crate::nvml::{self, Nvml, NvmlError};
use crate::partition::{self, Template, Whole};
use crate::smi::{self, Session};
use crate::software;
use crate::topology::{self, Link, LinkKind};
use crate::tree::Tree;

/// Timeout until a card shows its new partitions.
const DIVISION: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(50);
/// Most workers that may share a device.
pub const MAX_WORKERS: u32 = 64;

/// Messages for the log callback.
pub type Notes = Vec<(Level, String)>;

/// A machine with its GPUs.
#[derive(Debug)]
pub struct Node {
    settings: Settings,
    tree: Tree,
    machine: u64,
    smi: Option<Mutex<Session>>,
    nvml: Option<Mutex<Nvml>>,
    limiter: Box<dyn Limiter>,
    agent: Option<Agent>,
    state: RwLock<Arc<State>>,
    book: Mutex<Book>,
}

/// Result of one discovery.
#[derive(Debug)]
struct State {
    view: View,
    devices: Vec<Device>,
    notes: Notes,
}

/// Virtualization capabilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub partitioning: bool,
    /// Whether workers enforce limits. Soft and hard isolation are the same.
    pub isolation: bool,
    pub max_partitions: u32,
}

impl Node {
    /// Discovers the devices of the machine.
    pub fn open(settings: Settings) -> (Node, Notes) {
        let limiter = Box::new(Ledger::new(settings.limits.clone()));
        Node::with_limiter(settings, limiter)
    }

    /// Like [`Node::open`], but with another limiter.
    pub fn with_limiter(settings: Settings, limiter: Box<dyn Limiter>) -> (Node, Notes) {
        let tree = Tree::new(&settings.root);
        let machine = kernel::machine(&tree);
        let mut notes = Notes::new();
        let smi = match Session::open(&settings.smi) {
            Ok(session) => {
                notes.push((Level::Info, session.describe()));
                Some(Mutex::new(session))
            }
            Err(why) => {
                notes.push((Level::Info, format!("{why}; using the kernel driver's files instead")));
                None
            }
        };
        let nvml = match Nvml::open(&settings.nvml) {
            Ok(nvml) => {
                notes.push((Level::Info, nvml.describe()));
                Some(Mutex::new(nvml))
            }
            Err(NvmlError::Off) => None,
            Err(why) => {
                notes.push((Level::Info, format!("{why}; NVIDIA GPUs are not listed")));
                None
            }
        };
        let state = look(&settings, &tree, machine, smi.as_ref(), nvml.as_ref());
        notes.extend(state.notes.iter().cloned());
        let state = RwLock::new(Arc::new(state));
        let agent = match settings.agent.as_deref().map(|address| Agent::new(address, settings.agent_token()))
        {
            Some(Err(error)) => {
                notes.push((Level::Warn, error.to_string()));
                None
            }
            agent => agent.and_then(Result::ok),
        };
        (Node { settings, tree, machine, smi, nvml, limiter, agent, state, book: Mutex::default() }, notes)
    }

    /// The settings that it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Discovers the devices again. Returns only messages that the previous discovery did not return.
    pub fn discover(&self) -> (Vec<Device>, Notes) {
        let state = look(&self.settings, &self.tree, self.machine, self.smi.as_ref(), self.nvml.as_ref());
        let before = self.state();
        let news = state.notes.iter().filter(|note| !before.notes.contains(note)).cloned().collect();
        let devices = state.devices.clone();
        self.book.lock().keep(&devices);
        *self.state.write() = Arc::new(state);
        (devices, news)
    }

    /// Returns the devices of the last discovery.
    pub fn devices(&self) -> Vec<Device> {
        self.state().devices.clone()
    }

    /// What a device supports.
    pub fn capabilities(&self, device: &Device) -> Capabilities {
        let templates = self.templates(device);
        let parts = templates.iter().map(|template| template.parts).max().unwrap_or(1);
        let divided = device.part.is_some();
        Capabilities {
            // A whole card can be partitioned only if the settings allow it.
            partitioning: divided || (self.settings.repartition && device.modes.divides()),
            isolation: self.limiter.works(),
            max_partitions: if divided { 1 } else { parts },
        }
    }

    /// Returns for each device whether its sessions can be saved. The agent must answer and have the device, and the device must be a
    /// software GPU, because only there can memory be allocated at the same addresses again.
    pub fn savable(&self, devices: &[Device]) -> (Vec<bool>, Notes) {
        let mut notes = Notes::new();
        let mut agent = self.agent.as_ref();
        let savable = devices.iter().map(|device| {
            let asked = agent.filter(|_| device.source == Source::Software)?;
            match asked.has(&device.uuid) {
                Ok(has) => Some(has),
                Err(error) => {
                    // If the agent does not answer for one device, do not wait for it again for the others.
                    notes.push((Level::Warn, format!("sessions cannot be saved: {error}")));
                    agent = None;
                    None
                }
            }
        });
        let savable = savable.map(Option::unwrap_or_default).collect();
        (savable, notes)
    }

    /// Makes the agent save sessions. Their client programs wait until they are resumed.
    pub fn snapshot(&self, selection: &ProcessSelection) -> Result<(), ProviderError> {
        Ok(self.agent.as_ref().ok_or(AgentError::Nobody)?.snapshot(selection)?)
    }

    /// Makes the agent resume saved sessions.
    pub fn resume(&self, selection: &ProcessSelection) -> Result<(), ProviderError> {
        Ok(self.agent.as_ref().ok_or(AgentError::Nobody)?.resume(selection)?)
    }

    /// Returns all partition templates of a device's card.
    pub fn templates(&self, device: &Device) -> Vec<Template> {
        let parts = device.part.map_or(1, |(_, parts)| parts);
        let whole = Whole {
            memory: device.memory.saturating_mul(parts.into()),
            compute_units: device.compute_units.saturating_mul(parts.into()),
            tflops: device.tflops * f64::from(parts),
            dies: device.dies.saturating_mul(parts),
        };
        partition::templates(&device.modes, whole)
    }

    /// Returns the properties of a device that have no dedicated field in the interface.
    pub fn properties(&self, device: &Device) -> Vec<(String, String)> {
        let plain = device.properties().into_iter().map(|(key, value)| (key.to_owned(), value));
        let templates = self.templates(device).into_iter().map(|template| {
            let gib = template.memory >> 30;
            let (parts, units, tflops) = (template.parts, template.compute_units, template.tflops);
            let text = format!("{parts} parts, each {gib} GiB, {units} CUs, {tflops:.1} TFLOPS");
            (format!("partitionTemplate.{}", template.id()), text)
        });
        plain.chain(templates).collect()
    }

    /// Returns the link from one device to another.
    pub fn link(&self, from: &Device, to: &Device) -> Link {
        let state = self.state();
        let mut link = topology::link(state.view.link(&self.tree, from, to), from, to);
        if let (Source::Library(a), Source::Library(b), Some(smi)) = (from.source, to.source, &self.smi) {
            match smi.lock().is_xgmi(a, b) {
                Some(true) => link.kind = LinkKind::Internal,
                Some(false) if from.address != to.address => link.kind = topology::by_host(from, to),
                _ => {}
            }
        }
        if let (Source::Nvml(a), Source::Nvml(b), Some(nvml)) = (from.source, to.source, &self.nvml)
            && nvml.lock().is_nvlink(a, b) == Some(true)
        {
            link.kind = LinkKind::Internal;
        }
        link
    }

    /// Returns the metrics of a device; `None` if it does not exist.
    pub fn metrics(&self, uuid: &str) -> Option<Metrics> {
        self.metrics_of(&[uuid]).pop().flatten()
    }

    /// Like [`Node::metrics`], but for several devices with one reading of the sensors.
    pub fn metrics_of(&self, uuids: &[&str]) -> Vec<Option<Metrics>> {
        let state = self.state();
        let mut reading = Reading::new(&state.view, &self.tree);
        let mut metrics = |device: &Device| match (device.source, &self.smi) {
            (Source::Software, _) => Metrics::default(),
            (Source::Nvml(handle), _) => {
                self.nvml.as_ref().map(|nvml| nvml.lock().metrics(handle)).unwrap_or_default()
            }
            (Source::Library(handle), Some(smi)) => {
                let mut metrics = smi.lock().metrics(handle);
                if device.part.is_some() {
                    // The library also reports the memory usage of the whole card.
                    metrics.memory_used = None;
                }
                metrics.or(reading.metrics(device))
            }
            _ => reading.metrics(device),
        };
        uuids.iter().map(|uuid| find(&state.devices, uuid).map(&mut metrics)).collect()
    }

    /// Returns the usage of all devices by process.
    pub fn processes(&self) -> Vec<ProcessUse> {
        let state = self.state();
        let mut found = Vec::new();
        let mut left = Vec::new();
        for device in &state.devices {
            if let (Source::Nvml(handle), Some(nvml)) = (device.source, &self.nvml) {
                found.extend(nvml.lock().processes(handle).into_iter().map(|process| ProcessUse {
                    pid: process.pid,
                    device: device.uuid.clone(),
                    occupied_units: device.compute_units * u64::from(process.busy_percent) / 100,
                    total_units: device.compute_units,
                    memory_used: process.memory,
                    memory_total: device.memory,
                }));
                continue;
            }
            let listed = match (device.source, &self.smi) {
                (Source::Library(handle), Some(smi)) => smi.lock().processes(handle),
                _ => None,
            };
            let Some(listed) = listed else {
                left.push(device.clone());
                continue;
            };
            found.extend(listed.into_iter().map(|process| ProcessUse {
                pid: process.pid,
                device: device.uuid.clone(),
                occupied_units: process.occupied_units.unwrap_or(0).min(device.compute_units),
                total_units: device.compute_units,
                memory_used: process.vram,
                memory_total: device.memory,
            }));
        }
        found.extend(kernel::processes(&self.tree, &left));
        found
    }

    /// The paths that a container needs mounted.
    pub fn mounts(&self) -> Vec<Mount> {
        if !self.settings.mounts {
            return Vec::new();
        }
        mounts::find(&self.tree, self.settings.rocm.as_deref())
    }

    /// Limits the memory that a worker may allocate on a device. `None` as the worker means all workers.
    pub fn limit_memory(&self, worker: Option<&str>, uuid: &str, bytes: u64) -> Result<(), ProviderError> {
        self.limit(worker, uuid, |limit| limit.memory_bytes = Some(bytes))
    }

    /// Limits a worker's share of a device's time, in percent. `None` as the worker means all workers.
    pub fn limit_compute(&self, worker: Option<&str>, uuid: &str, percent: u32) -> Result<(), ProviderError> {
        self.limit(worker, uuid, |limit| limit.compute_percent = Some(percent))
    }

    /// Assigns a partition of a card. The card is repartitioned first if necessary, provided that it is idle and the settings allow it.
    pub fn assign(&self, template: &str, uuid: &str) -> Result<Assignment, ProviderError> {
        let template = template.to_ascii_lowercase();
        let Some((compute, memory)) = Template::parse_id(&template) else {
            return Err(ProviderError::NotFound(format!("`{template}` is not a template like cpx-nps1")));
        };
        let devices = self.devices();
        let candidates = parts(&devices, uuid);
        let Some(first) = candidates.first() else {
            return Err(ProviderError::NotFound(format!("there is no device {uuid}")));
        };
        if !self.templates(first).iter().any(|known| known.id() == template) {
            return Err(ProviderError::NotSupported(format!(
                "{} cannot be partitioned as {template}",
                first.model
            )));
        }
        if first.modes.compute == Some(compute) && first.modes.memory.is_none_or(|mode| mode == memory) {
            return self.book.lock().give(&template, &candidates, &devices);
        }
        let card = first.card_uuid().to_owned();
        let devices = self.divide(&template, &card)?;
        self.book.lock().give(&template, &parts(&devices, &card), &devices)
    }

    /// Removes the assignment of a partition. If only the card is named, any of its partitions will do, because they are equal.
    pub fn remove(&self, template: &str, uuid: &str) -> Result<String, ProviderError> {
        let devices = self.devices();
        let template = template.to_ascii_lowercase();
        let taken = self.book.lock().take_back(&template, &parts(&devices, uuid));
        taken.ok_or_else(|| ProviderError::NotFound(format!("no {template} partition of {uuid} is assigned")))
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read())
    }

    fn limit(
        &self,
        worker: Option<&str>,
        uuid: &str,
        change: impl FnOnce(&mut Limit),
    ) -> Result<(), ProviderError> {
        let state = self.state();
        let Some(device) = find(&state.devices, uuid) else {
            return Err(ProviderError::NotFound(format!("there is no device {uuid}")));
        };
        // Lock the read-modify-write: two threads may set the two limits of one worker at the same time.
        let _order = self.book.lock();
        // Agents convert UUIDs to lower case, and look for a file of that name.
        let name = device.uuid.to_ascii_lowercase();
        let mut limit = self.limiter.limit(worker, &name)?;
        change(&mut limit);
        Ok(self.limiter.set(worker, &name, limit)?)
    }

    /// Sets a card to another partition mode and waits until its partitions appear.
    fn divide(&self, template: &str, card: &str) -> Result<Vec<Device>, ProviderError> {
        let devices = self.devices();
        let now = parts(&devices, card);
        if !self.settings.repartition {
            return Err(ProviderError::Failed(format!(
                "{card} is not partitioned as {template}; set that mode with amd-smi, or allow it with REMORA_REPARTITION=1"
            )));
        }
        let given = {
            let book = self.book.lock();
            now.iter().any(|device| book.holds(&device.uuid))
        };
        let used =
            self.processes().iter().any(|process| now.iter().any(|device| device.uuid == process.device));
        if given || used {
            return Err(ProviderError::Exhausted(format!("{card} is in use and cannot be repartitioned")));
        }
        let state = self.state();
        let address = now.first().and_then(|device| device.address);
        let place = address.and_then(|address| state.view.cards.get(&address));
        // Computed before the change: while partitions appear and disappear, the number of dies is unknown.
        let templates = now.first().map(|device| self.templates(device)).unwrap_or_default();
        let wanted = templates.into_iter().find(|known| known.id() == template);
        let (Some(place), Some(wanted)) = (place, wanted) else {
            return Err(ProviderError::NotSupported(format!("{card} has no partition modes")));
        };
        let refused = |error| {
            ProviderError::Failed(format!("the driver cannot partition {card} as {template}: {error}"))
        };
        place.set_modes(&self.tree, wanted.compute, wanted.memory_mode).map_err(refused)?;
        let asked = Instant::now();
        loop {
            if let Some(smi) = &self.smi {
                smi.lock().restart();
            }
            let (devices, _) = self.discover();
            let parts = parts(&devices, card);
            let set = parts.first().is_some_and(|first| first.modes.compute == Some(wanted.compute));
            let done = set && parts.len() == wanted.parts as usize;
            if done {
                return Ok(devices);
            }
            if asked.elapsed() > DIVISION {
                return Err(ProviderError::Failed(format!(
                    "{card} was set to {template}, but its partitions did not appear"
                )));
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// Finds a device by UUID, ignoring case, because agents convert UUIDs to lower case.
fn find<'a>(devices: &'a [Device], uuid: &str) -> Option<&'a Device> {
    devices.iter().find(|device| device.uuid.eq_ignore_ascii_case(uuid))
}

/// Returns the device with this UUID, or all partitions of the card with this UUID.
fn parts<'a>(devices: &'a [Device], uuid: &str) -> Vec<&'a Device> {
    match find(devices, uuid) {
        Some(device) => vec![device],
        None => {
            let of_card =
                |device: &&Device| device.part.is_some() && device.card_uuid().eq_ignore_ascii_case(uuid);
            devices.iter().filter(of_card).collect()
        }
    }
}

fn look(
    settings: &Settings,
    tree: &Tree,
    machine: u64,
    smi: Option<&Mutex<Session>>,
    nvml: Option<&Mutex<Nvml>>,
) -> State {
    let view = View::look(tree, machine);
    let mut notes: Notes = view.strange.iter().map(|strange| (Level::Warn, strange.clone())).collect();
    let facts = smi.map(|smi| smi.lock().devices()).unwrap_or_default();
    // If the library lists no devices, use the kernel driver's list.
    let mut devices =
        if facts.is_empty() { view.devices.clone() } else { smi::devices(&facts, &view.devices) };
    let (facts, strange) = nvml.map(|nvml| nvml.lock().devices()).unwrap_or_default();
    notes.extend(strange.into_iter().map(|strange| (Level::Warn, strange)));
    devices.extend(nvml::devices(&facts, tree));
    let (software, unknown) = software::devices(&settings.software, machine);
    for name in unknown {
        notes.push((Level::Warn, format!("there is no software GPU `{name}`")));
    }
    devices.extend(software);
    State { view, devices, notes }
}
