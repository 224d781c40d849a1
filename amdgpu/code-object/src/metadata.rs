//! Parser of metadata notes: MessagePack maps that describe kernels and their arguments.
//!
//! Reads the keys that a launch needs and ignores all others, so that output of newer compilers remains readable.
//! [`crate::module`] combines them with the descriptor.

use rmpv::ValueRef;

use crate::kernel::{AddressSpace, Arg, ArgKind};
use crate::{Error, limits};

/// Combined contents of a code object's notes.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub kernels: Vec<KernelMetadata>,
    pub printf: Vec<String>,
    /// `amdhsa.target`; for display only, since compilers spell it differently.
    pub target: Option<String>,
}

/// Metadata map of one kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelMetadata {
    pub name: String,
    pub symbol: Option<String>,
    pub args: Vec<Arg>,
    pub kernarg_size: Option<u32>,
    pub kernarg_align: Option<u32>,
    pub group_size: Option<u32>,
    pub private_size: Option<u32>,
    pub wavefront_size: Option<u32>,
    pub sgpr_count: Option<u32>,
    pub vgpr_count: Option<u32>,
    pub agpr_count: Option<u32>,
    pub sgpr_spill_count: Option<u32>,
    pub vgpr_spill_count: Option<u32>,
    pub max_flat_workgroup_size: Option<u32>,
    pub reqd_workgroup_size: Option<[u32; 3]>,
    pub uses_dynamic_stack: Option<bool>,
    pub uniform_workgroup_size: Option<bool>,
    pub language: Option<String>,
    pub language_version: Option<[u32; 2]>,
    pub kind: Option<String>,
}

impl Metadata {
    /// Adds the contents of one note.
    pub(crate) fn add(&mut self, mut note: &[u8]) -> Result<(), Error> {
        let root = rmpv::decode::read_value_ref_with_max_depth(&mut note, limits::METADATA_DEPTH)
            .map_err(Error::Metadata)?;
        let ValueRef::Map(root) = root else { return Err(Error::MetadataField { field: "root" }) };
        for (key, value) in &root {
            match text(key).unwrap_or_default() {
                "amdhsa.kernels" => {
                    let room = limits::TABLE_ENTRIES - self.kernels.len();
                    for kernel in list(value, "amdhsa.kernels", room)? {
                        self.kernels.push(read_kernel(kernel)?);
                    }
                }
                "amdhsa.printf" => {
                    let room = limits::TABLE_ENTRIES - self.printf.len();
                    for format in list(value, "amdhsa.printf", room)? {
                        self.printf.push(string(format, "amdhsa.printf")?);
                    }
                }
                "amdhsa.target" if self.target.is_none() => {
                    self.target = Some(string(value, "amdhsa.target")?);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_kernel(value: &ValueRef<'_>) -> Result<KernelMetadata, Error> {
    let ValueRef::Map(pairs) = value else { return Err(Error::MetadataField { field: "amdhsa.kernels" }) };
    let mut kernel = KernelMetadata::default();
    for (key, value) in pairs {
        match text(key).unwrap_or_default() {
            ".name" => kernel.name = string(value, ".name")?,
            ".symbol" => kernel.symbol = Some(string(value, ".symbol")?),
            ".kind" => kernel.kind = Some(string(value, ".kind")?),
            ".language" => kernel.language = Some(string(value, ".language")?),
            ".language_version" => kernel.language_version = Some(numbers(value, ".language_version")?),
            ".args" => {
                for arg in list(value, ".args", limits::KERNEL_ARGS)? {
                    kernel.args.push(read_arg(arg)?);
                }
            }
            ".kernarg_segment_size" => kernel.kernarg_size = Some(number(value, ".kernarg_segment_size")?),
            ".kernarg_segment_align" => kernel.kernarg_align = Some(number(value, ".kernarg_segment_align")?),
            ".group_segment_fixed_size" => {
                kernel.group_size = Some(number(value, ".group_segment_fixed_size")?);
            }
            ".private_segment_fixed_size" => {
                kernel.private_size = Some(number(value, ".private_segment_fixed_size")?);
            }
            ".wavefront_size" => kernel.wavefront_size = Some(number(value, ".wavefront_size")?),
            ".sgpr_count" => kernel.sgpr_count = Some(number(value, ".sgpr_count")?),
            ".vgpr_count" => kernel.vgpr_count = Some(number(value, ".vgpr_count")?),
            ".agpr_count" => kernel.agpr_count = Some(number(value, ".agpr_count")?),
            ".sgpr_spill_count" => kernel.sgpr_spill_count = Some(number(value, ".sgpr_spill_count")?),
            ".vgpr_spill_count" => kernel.vgpr_spill_count = Some(number(value, ".vgpr_spill_count")?),
            ".max_flat_workgroup_size" => {
                kernel.max_flat_workgroup_size = Some(number(value, ".max_flat_workgroup_size")?);
            }
            ".reqd_workgroup_size" => {
                kernel.reqd_workgroup_size = Some(numbers(value, ".reqd_workgroup_size")?);
            }
            ".uses_dynamic_stack" => kernel.uses_dynamic_stack = Some(truth(value, ".uses_dynamic_stack")?),
            ".uniform_work_group_size" => {
                kernel.uniform_workgroup_size = Some(truth(value, ".uniform_work_group_size")?);
            }
            _ => {}
        }
    }
    if kernel.name.is_empty() {
        return Err(Error::MetadataField { field: ".name" });
    }
    Ok(kernel)
}

fn read_arg(value: &ValueRef<'_>) -> Result<Arg, Error> {
    let ValueRef::Map(pairs) = value else { return Err(Error::MetadataField { field: ".args" }) };
    let (mut offset, mut size, mut kind) = (None, None, None);
    let mut arg = Arg {
        name: String::new(),
        offset: 0,
        size: 0,
        kind: ArgKind::ByValue,
        address_space: None,
        type_name: None,
        access: None,
        pointee_align: None,
        is_const: false,
        is_restrict: false,
    };
    for (key, value) in pairs {
        match text(key).unwrap_or_default() {
            ".name" => arg.name = string(value, ".name")?,
            ".type_name" => arg.type_name = Some(string(value, ".type_name")?),
            ".offset" => offset = Some(number(value, ".offset")?),
            ".size" => size = Some(number(value, ".size")?),
            ".value_kind" => kind = text(value).map(ArgKind::from_name),
            ".address_space" => arg.address_space = text(value).map(AddressSpace::from_name),
            ".actual_access" => arg.access = Some(string(value, ".actual_access")?),
            ".access" if arg.access.is_none() => arg.access = Some(string(value, ".access")?),
            ".pointee_align" => arg.pointee_align = Some(number(value, ".pointee_align")?),
            ".is_const" => arg.is_const = truth(value, ".is_const")?,
            ".is_restrict" => arg.is_restrict = truth(value, ".is_restrict")?,
            _ => {}
        }
    }
    arg.offset = offset.ok_or(Error::MetadataField { field: ".offset" })?;
    arg.size = size.ok_or(Error::MetadataField { field: ".size" })?;
    arg.kind = kind.ok_or(Error::MetadataField { field: ".value_kind" })?;
    Ok(arg)
}

fn text<'a>(value: &'a ValueRef<'_>) -> Option<&'a str> {
    match value {
        ValueRef::String(text) => text.as_str(),
        _ => None,
    }
}

fn string(value: &ValueRef<'_>, field: &'static str) -> Result<String, Error> {
    text(value).map(str::to_owned).ok_or(Error::MetadataField { field })
}

fn number(value: &ValueRef<'_>, field: &'static str) -> Result<u32, Error> {
    let number = match value {
        ValueRef::Integer(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        _ => None,
    };
    number.ok_or(Error::MetadataField { field })
}

/// Parses a boolean; compilers write some of them as a number.
fn truth(value: &ValueRef<'_>, field: &'static str) -> Result<bool, Error> {
    match value {
        ValueRef::Boolean(truth) => Ok(*truth),
        other => number(other, field).map(|number| number != 0),
    }
}

fn list<'a, 'v>(
    value: &'a ValueRef<'v>,
    field: &'static str,
    limit: usize,
) -> Result<&'a [ValueRef<'v>], Error> {
    let ValueRef::Array(values) = value else { return Err(Error::MetadataField { field }) };
    if values.len() > limit {
        return Err(Error::TooLarge { what: field, value: values.len() as u64, limit: limit as u64 });
    }
    Ok(values)
}

fn numbers<const N: usize>(value: &ValueRef<'_>, field: &'static str) -> Result<[u32; N], Error> {
    let values = list(value, field, N)?;
    if values.len() != N {
        return Err(Error::MetadataField { field });
    }
    let mut numbers = [0; N];
    for (slot, value) in numbers.iter_mut().zip(values) {
        *slot = number(value, field)?;
    }
    Ok(numbers)
}
