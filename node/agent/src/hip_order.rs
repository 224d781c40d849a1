//! The order in which AMD's HIP runtime enumerates the GPUs.
//!
//! `HIP_VISIBLE_DEVICES` takes indices in the runtime's own order, which differs from the provider library's: firmware, topology and
//! filters change it. A GPU is therefore identified by its PCI address. A separate process loads the runtime and prints the address of each
//! GPU, because a runtime without its driver may crash.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::config::Config;

/// Other environment variables that filter or reorder GPUs. They are removed from a worker's environment.
pub(crate) const OTHER_FILTERS: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];
/// How long the runtime may take to load.
const LOAD: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Most bytes that are read of the probe's output.
const OUTPUT_BYTES: u64 = 16 << 10;

/// PCI addresses of the GPUs, in the HIP runtime's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HipOrder {
    addresses: Vec<Address>,
}

/// PCI domain, bus and device. The function is ignored: whether the partitions of a GPU differ in it depends on the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address([u32; 3]);

impl HipOrder {
    /// Lists the GPUs with the same runtime library that workers load.
    pub(crate) fn probe(config: &Config) -> Result<HipOrder, String> {
        let program = config.worker.first().ok_or("no program is configured for workers")?;
        let mut command = Command::new(program);
        command.args(["probe-hip", "--addresses"]).args(&config.hip_library);
        command.env_remove("HIP_VISIBLE_DEVICES");
        for name in OTHER_FILTERS {
            command.env_remove(name);
        }
        let failed = |error: std::io::Error| format!("the HIP runtime cannot be probed: {error}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        while child.try_wait().map_err(failed)?.is_none() {
            if began.elapsed() > LOAD {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the HIP runtime did not load within {} s", LOAD.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
        let mut text = String::new();
        if let Some(output) = child.stdout.take() {
            output.take(OUTPUT_BYTES).read_to_string(&mut text).map_err(failed)?;
        }
        HipOrder::parse(&text)
    }

    /// Parses the probe's output: one line `gpu ADDRESS` per GPU. Any other text is an error message.
    fn parse(text: &str) -> Result<HipOrder, String> {
        let addresses: Option<Vec<Address>> =
            text.lines().map(|line| line.strip_prefix("gpu ").and_then(Address::parse)).collect();
        match addresses.filter(|found| !found.is_empty()) {
            Some(addresses) => Ok(HipOrder { addresses }),
            None if text.trim().is_empty() => Err("the HIP runtime crashed when it was loaded".to_owned()),
            None => Err(format!("the HIP runtime does not list its GPUs: {}", text.trim())),
        }
    }

    /// Returns the runtime's index of the `position`th GPU at a PCI address. Without an address the index is the position.
    pub(crate) fn ordinal(&self, pci: Option<&str>, position: u32) -> Result<u32, String> {
        let Some(pci) = pci else { return Ok(position) };
        let address = Address::parse(pci).ok_or_else(|| format!("\"{pci}\" is not a PCI address"))?;
        let mut at_address = (0..).zip(&self.addresses).filter(|(_, other)| **other == address);
        let found = at_address.nth(position as usize).map(|(ordinal, _)| ordinal);
        found.ok_or_else(|| {
            let listed: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
            format!("the HIP runtime lists no GPU at {pci}; it lists {}", listed.join(", "))
        })
    }
}

impl Address {
    fn parse(text: &str) -> Option<Address> {
        let parts: Vec<&str> = text.trim().split([':', '.']).collect();
        let [domain, bus, device, _function] = parts[..] else { return None };
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        Some(Address([number(domain)?, number(bus)?, number(device)?]))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [domain, bus, device] = self.0;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_by_its_address_and_not_by_its_place_in_a_list() {
        let order = HipOrder::parse("gpu 0000:c1:00.0\ngpu 0000:05:00.0\ngpu 0001:05:00.0\n").unwrap();
        for (pci, ordinal) in [("0000:05:00.0", 1), ("0000:C1:00.0", 0), ("0001:05:00.0", 2)] {
            assert_eq!(order.ordinal(Some(pci), 0), Ok(ordinal), "{pci}");
        }
        assert_eq!(order.ordinal(None, 7), Ok(7));
        let missing = order.ordinal(Some("0000:21:00.0"), 0).unwrap_err();
        assert!(missing.contains("no GPU at 0000:21:00.0; it lists 0000:c1:00"), "{missing}");
    }

    #[test]
    fn parts_of_one_gpu_share_an_address_and_keep_their_order() {
        let order = HipOrder::parse("gpu 0000:05:00.0\ngpu 0000:c1:00.0\ngpu 0000:05:00.1\n").unwrap();
        assert_eq!(order.ordinal(Some("0000:05:00.0"), 0), Ok(0));
        assert_eq!(order.ordinal(Some("0000:05:00.0"), 1), Ok(2));
        assert!(order.ordinal(Some("0000:05:00.0"), 2).is_err());
    }

    #[test]
    fn a_runtime_that_does_not_load_is_named() {
        assert!(HipOrder::parse("").unwrap_err().contains("crashed"));
        let error = HipOrder::parse("no ROCm-capable device is detected (status 100)\n").unwrap_err();
        assert!(error.contains("status 100"), "{error}");
        assert!(HipOrder::parse("gpu x\n").is_err());
    }
}
