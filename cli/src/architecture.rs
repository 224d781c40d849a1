//! GPU targets of a program, and whether they are compatible with the available devices.

use std::path::Path;

use code_object::TargetId;

/// Maximum size of a program file that is searched for GPU code.
const MAX_PROGRAM_BYTES: u64 = 4 << 30;

/// The GPU targets embedded in a program. Empty for a script, or for a program whose kernels are in libraries or compiled at run time.
pub fn targets(program: &Path) -> Vec<TargetId> {
    let is_small = std::fs::metadata(program).is_ok_and(|data| data.len() <= MAX_PROGRAM_BYTES);
    let bytes = is_small.then(|| std::fs::read(program).ok()).flatten();
    bytes.and_then(|bytes| code_object::embedded_targets(&bytes).ok()).unwrap_or_default()
}

/// Whether one of the targets is compatible with a device of this ISA. False if the ISA cannot be parsed.
pub fn can_run(targets: &[TargetId], isa: &str) -> bool {
    let device = isa.parse::<TargetId>();
    device.is_ok_and(|device| targets.iter().any(|target| target.compatible(&device)))
}

/// Error message if none of the devices can run the program. `None` if one can, if the program file has no GPU code, or if an ISA is
/// unknown.
pub fn mismatch(program: &Path, targets: &[TargetId], devices: &[String]) -> Option<String> {
    let known = devices.iter().all(|isa| isa.parse::<TargetId>().is_ok());
    if targets.is_empty() || devices.is_empty() || !known || devices.iter().any(|isa| can_run(targets, isa)) {
        return None;
    }
    let list = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names.join(", ")
    };
    let built = list(targets.iter().map(ToString::to_string).collect());
    let offered = list(devices.to_vec());
    let processors = devices.iter().filter_map(|isa| Some(isa.parse::<TargetId>().ok()?.processor)).collect();
    Some(format!(
        "{} has GPU code for {built} only, which does not run on {offered}; build it with --offload-arch={}, or use a worker with \
         a GPU it was built for",
        program.display(),
        list(processors).replace(", ", " --offload-arch=")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(targets: &[&str]) -> Vec<TargetId> {
        targets.iter().map(|target| target.parse().unwrap()).collect()
    }

    #[test]
    fn a_refusal_names_what_the_program_has_and_what_the_device_is() {
        let message = |targets: &[&str], devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|isa| (*isa).to_owned()).collect();
            mismatch("./prog".as_ref(), &parse(targets), &devices)
        };
        let text = message(&["gfx1100", "gfx1030"], &["gfx942:sramecc+:xnack-"]).unwrap();
        for part in ["./prog", "gfx1030, gfx1100", "gfx942:sramecc+:xnack-", "--offload-arch=gfx942"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(message(&["gfx1100", "gfx90a"], &["gfx942", "gfx90a:sramecc+:xnack-"]), None);
        assert_eq!(message(&[], &["gfx942"]), None);
        assert_eq!(message(&["gfx1100"], &[]), None);
        assert_eq!(message(&["gfx1100"], &["a GPU of another maker"]), None);
    }
}
