//! Simulated machines: folders with the files that the kernel provides for one.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use accelerator_amd::Settings;

/// A card and its partitioning.
#[derive(Clone, Debug)]
pub struct Card {
    pub bus: u8,
    pub chip: u32,
    pub product: &'static str,
    pub unique_id: u64,
    pub target: u32,
    pub units: u64,
    pub dies: u32,
    pub clock: u64,
    pub memory: u64,
    pub numa: i32,
    pub hive: u64,
    pub compute_mode: &'static str,
    pub memory_mode: &'static str,
    pub parts: u32,
    /// Whether the driver encodes the partition number in `location_id`.
    pub numbered: bool,
}

impl Card {
    pub fn mi300x(slot: u8) -> Card {
        Card {
            bus: 0x05 + slot * 0x18,
            chip: 0x74a1,
            product: "AMD Instinct MI300X OAM",
            unique_id: 0xa1b2_c3d4_0000_0000 + u64::from(slot),
            target: 90402,
            units: 304,
            dies: 8,
            clock: 2100,
            memory: 192 << 30,
            numa: i32::from(slot / 4),
            hive: 0x1111_2222_3333_4444,
            compute_mode: "SPX",
            memory_mode: "NPS1",
            parts: 1,
            numbered: true,
        }
    }

    /// One die; a card has two.
    pub fn mi250x(die: u8) -> Card {
        Card {
            bus: 0xc1 + die * 5,
            chip: 0x7408,
            product: "",
            unique_id: 0x7777_0000_0000_0000 + u64::from(die / 2),
            target: 90010,
            units: 110,
            dies: 1,
            clock: 1700,
            memory: 64 << 30,
            numa: i32::from(die / 2),
            hive: 0x9999,
            compute_mode: "",
            ..Card::mi300x(0)
        }
    }

    /// A consumer card: no unique id, no partition modes, no hive.
    pub fn radeon() -> Card {
        Card {
            bus: 0x03,
            chip: 0x744c,
            product: "",
            unique_id: 0,
            target: 110000,
            units: 96,
            dies: 1,
            clock: 2500,
            memory: 24 << 30,
            numa: -1,
            hive: 0,
            compute_mode: "",
            ..Card::mi300x(0)
        }
    }

    pub fn divided(mut self, compute_mode: &'static str, parts: u32) -> Card {
        self.compute_mode = compute_mode;
        self.parts = parts;
        self
    }

    pub fn address(&self) -> String {
        format!("0000:{:02x}:00.0", self.bus)
    }
}

/// A simulated machine: a folder with `sys` and the other trees.
pub struct Machine {
    folder: tempfile::TempDir,
    nodes: u32,
    minor: u32,
    /// The compute driver's GPU ids of each card's nodes.
    pub gpu_ids: Vec<Vec<u64>>,
}

impl Machine {
    /// Creates a machine with one CPU, which the compute driver lists as a node too.
    pub fn new() -> Machine {
        let mut machine =
            Machine { folder: tempfile::tempdir().unwrap(), nodes: 0, minor: 128, gpu_ids: Vec::new() };
        machine.put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        machine.put("sys/module/amdgpu/version", "6.12.12\n");
        let node = machine.next_node();
        machine.put(&format!("{node}/gpu_id"), "0\n");
        machine.put(&format!("{node}/properties"), "cpu_cores_count 96\nsimd_count 0\n");
        machine
    }

    pub fn with(cards: impl IntoIterator<Item = Card>) -> Machine {
        let mut machine = Machine::new();
        for card in cards {
            machine.add(&card);
        }
        machine.connect();
        machine
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    pub fn settings(&self) -> Settings {
        Settings { root: self.root().to_owned(), ..Settings::default() }
    }

    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    /// Adds a card to both drivers. The PCI driver's folders are symbolic links, as in a real system.
    pub fn add(&mut self, card: &Card) {
        let device = format!("sys/devices/pci0000:00/{}", card.address());
        let at = |name: &str| format!("{device}/{name}");
        self.put(&at("vendor"), "0x1002\n");
        self.put(&at("device"), format!("{:#06x}\n", card.chip));
        self.put(&at("numa_node"), format!("{}\n", card.numa));
        if card.unique_id != 0 {
            self.put(&at("unique_id"), format!("{:016x}\n", card.unique_id));
        }
        if !card.product.is_empty() {
            self.put(&at("product_name"), format!("{}\n", card.product));
        }
        self.put(&at("vbios_version"), "113-M3000100-102\n");
        self.put(&at("mem_info_vram_total"), format!("{}\n", card.memory));
        self.put(&at("mem_info_vram_used"), format!("{}\n", 3u64 << 30));
        self.put(&at("gpu_busy_percent"), "37\n");
        self.put(&at("mem_busy_percent"), "12\n");
        self.put(&at("max_link_speed"), "32.0 GT/s PCIe\n");
        self.put(&at("max_link_width"), "16\n");
        self.put(&at("ras/umc_err_count"), "ue: 0\nce: 5\n");
        if !card.compute_mode.is_empty() {
            self.put(&at("current_compute_partition"), format!("{}\n", card.compute_mode));
            self.put(&at("available_compute_partition"), "SPX, DPX, QPX, CPX\n");
            self.put(&at("current_memory_partition"), format!("{}\n", card.memory_mode));
            self.put(&at("available_memory_partition"), "NPS1, NPS4\n");
        }
        let hwmon = at("hwmon/hwmon4");
        self.put(&format!("{hwmon}/power1_input"), "421000000\n");
        self.put(&format!("{hwmon}/power1_cap"), "750000000\n");
        self.put(&format!("{hwmon}/freq1_input"), "1800000000\n");
        self.put(&format!("{hwmon}/freq2_input"), "900000000\n");
        self.put(&format!("{hwmon}/temp2_label"), "junction\n");
        self.put(&format!("{hwmon}/temp2_input"), "51000\n");
        self.put(&format!("{hwmon}/temp3_label"), "mem\n");
        self.put(&format!("{hwmon}/temp3_input"), "44000\n");
        let driver = self.path("sys/module/amdgpu/drivers/pci:amdgpu");
        fs::create_dir_all(&driver).unwrap();
        let _ = symlink(self.path(&device), driver.join(card.address()));
        self.put("sys/module/amdgpu/drivers/pci:amdgpu/new_id", "");
        self.add_nodes(card);
    }

    /// Adds the compute driver's nodes of a card.
    pub fn add_nodes(&mut self, card: &Card) {
        let mut ids = Vec::new();
        for part in 0..card.parts {
            let gpu_id = 1000 + u64::from(self.nodes) * 17;
            let node = self.next_node();
            let location = u64::from(card.bus) << 8 | u64::from(if card.numbered { part } else { 0 }) << 28;
            let units = card.units / u64::from(card.parts);
            self.put(&format!("{node}/gpu_id"), format!("{gpu_id}\n"));
            self.put(&format!("{node}/name"), "aqua vanjaram\n");
            self.put(
                &format!("{node}/properties"),
                format!(
                    "cpu_cores_count 0\nsimd_count {}\nsimd_per_cu 4\nnum_xcc {}\ngfx_target_version {}\nlocation_id \
                     {location}\ndomain 0\ndrm_render_minor {}\nhive_id {}\nunique_id {}\nmax_engine_clk_fcompute \
                     {}\ndevice_id {}\nlocal_mem_size 0\n",
                    units * 4,
                    (card.dies / card.parts).max(1),
                    card.target,
                    self.minor,
                    card.hive,
                    card.unique_id,
                    card.clock,
                    card.chip,
                ),
            );
            let memory = card.memory / u64::from(card.parts);
            let bank = format!("heap_type 1\nsize_in_bytes {memory}\nflags 0\nwidth 8192\n");
            self.put(&format!("{node}/mem_banks/0/properties"), bank);
            self.minor += 1;
            ids.push(gpu_id);
        }
        self.gpu_ids.push(ids);
    }

    /// Adds XGMI links between all devices with a hive.
    pub fn connect(&self) {
        let nodes: Vec<u32> = (0..self.nodes).collect();
        let hive = |node: &u32| {
            let text = fs::read_to_string(self.path(&format!("{}/properties", node_path(*node)))).unwrap();
            text.lines().any(|line| line.starts_with("hive_id ") && line != "hive_id 0")
        };
        for from in nodes.iter().filter(|node| hive(node)) {
            let others = nodes.iter().filter(|to| *to != from && hive(to));
            for (index, to) in others.enumerate() {
                let link =
                    format!("type 11\nnode_from {from}\nnode_to {to}\nweight 15\nmax_bandwidth 64000\n");
                self.put(&format!("{}/io_links/{index}/properties", node_path(*from)), link);
            }
        }
    }

    pub fn process(&self, pid: u32, gpu_id: u64, vram: u64, occupied: u64) {
        let folder = format!("sys/class/kfd/kfd/proc/{pid}");
        self.put(&format!("{folder}/pasid"), "32770\n");
        self.put(&format!("{folder}/vram_{gpu_id}"), format!("{vram}\n"));
        self.put(&format!("{folder}/stats_{gpu_id}/cu_occupancy"), format!("{occupied}\n"));
    }

    pub fn node_file(&self, node: u32, name: &str) -> String {
        format!("{}/{name}", node_path(node))
    }

    fn next_node(&mut self) -> String {
        self.nodes += 1;
        node_path(self.nodes - 1)
    }
}

fn node_path(node: u32) -> String {
    format!("sys/class/kfd/kfd/topology/nodes/{node}")
}
