//! Text of registers and constants.

use crate::{DataType, Element, Operand};

/// Text of an operand of this type.
pub fn operand(operand: Operand, data_type: DataType) -> String {
    let dwords = data_type.dwords().max(1);
    let tuple = |file: &str, first: u8| match dwords {
        1 => format!("{file}{first}"),
        _ => format!("{file}[{first}:{}]", u32::from(first) + dwords - 1),
    };
    let pair = |one: &str, two: &str| if dwords == 1 { one.to_string() } else { two.to_string() };
    match operand {
        Operand::None => "off".to_string(),
        Operand::Sgpr(first) => tuple("s", first),
        Operand::Vgpr(first) => tuple("v", first),
        Operand::Agpr(first) => tuple("a", first),
        Operand::Ttmp(first) => tuple("ttmp", first),
        Operand::FlatScratchLo => pair("flat_scratch_lo", "flat_scratch"),
        Operand::FlatScratchHi => "flat_scratch_hi".to_string(),
        Operand::XnackMaskLo => pair("xnack_mask_lo", "xnack_mask"),
        Operand::XnackMaskHi => "xnack_mask_hi".to_string(),
        Operand::VccLo => pair("vcc_lo", "vcc"),
        Operand::VccHi => "vcc_hi".to_string(),
        Operand::M0 => "m0".to_string(),
        Operand::ExecLo => pair("exec_lo", "exec"),
        Operand::ExecHi => "exec_hi".to_string(),
        Operand::Int(value) => value.to_string(),
        Operand::Float(bits) => inline_float(bits, data_type),
        Operand::Literal(value) => literal(value, data_type),
        Operand::SharedBase => "src_shared_base".to_string(),
        Operand::SharedLimit => "src_shared_limit".to_string(),
        Operand::PrivateBase => "src_private_base".to_string(),
        Operand::PrivateLimit => "src_private_limit".to_string(),
        Operand::PopsExitingWaveId => "src_pops_exiting_wave_id".to_string(),
        Operand::Vccz => "src_vccz".to_string(),
        Operand::Execz => "src_execz".to_string(),
        Operand::Scc => "src_scc".to_string(),
        Operand::LdsDirect => "src_lds_direct".to_string(),
    }
}

/// Inline floats: bits as f32, f16 and upper half of f64, and the text.
const FLOATS: [(u32, u32, u32, &str); 9] = [
    (0x3f00_0000, 0x3800, 0x3fe0_0000, "0.5"),
    (0xbf00_0000, 0xb800, 0xbfe0_0000, "-0.5"),
    (0x3f80_0000, 0x3c00, 0x3ff0_0000, "1.0"),
    (0xbf80_0000, 0xbc00, 0xbff0_0000, "-1.0"),
    (0x4000_0000, 0x4000, 0x4000_0000, "2.0"),
    (0xc000_0000, 0xc000, 0xc000_0000, "-2.0"),
    (0x4080_0000, 0x4400, 0x4010_0000, "4.0"),
    (0xc080_0000, 0xc400, 0xc010_0000, "-4.0"),
    (0x3e22_f983, 0x3118, 0x3fc4_5f30, "0.15915494"),
];

/// 16-bit integer operands have no notation for inline floats; these are written as their bits.
fn is_int16(data_type: DataType) -> bool {
    data_type.element_bits() == 16 && data_type.count() == 1 && data_type.element() != Element::Float
}

fn inline_float(bits: u32, data_type: DataType) -> String {
    let Some(&(_, half, _, text)) = FLOATS.iter().find(|float| float.0 == bits) else {
        return format!("{bits:#x}");
    };
    if is_int16(data_type) {
        return format!("{half:#x}");
    }
    if half == FLOATS[8].1 && data_type.element_bits() == 64 {
        return "0.15915494309189532".to_string();
    }
    text.to_string()
}

/// A literal that could be an inline constant is written like one.
fn literal(value: u32, data_type: DataType) -> String {
    let inline_int = |value: i64| (-16..=64).contains(&value).then(|| value.to_string());
    let float = |key: fn(&(u32, u32, u32, &'static str)) -> u32, value: u32| {
        FLOATS.iter().find(|float| key(float) == value).map(|float| float.3.to_string())
    };
    let text = match (data_type.element_bits(), data_type.count(), data_type.element()) {
        (64, _, Element::Float) if value == 0 => Some("0".to_string()),
        // A 32-bit literal is the upper half, so it cannot be 1/(2*pi), whose lower half is not zero.
        (64, _, Element::Float) => float(|f| f.2, value).filter(|text| text != FLOATS[8].3),
        (64, ..) => inline_int(value.into()),
        (16, 1, Element::Float) => {
            let low = value as u16;
            let text = inline_int((low as i16).into()).or_else(|| float(|f| f.1, low.into()));
            return text.unwrap_or_else(|| format!("{low:#x}"));
        }
        (16, 1, _) => {
            let text = inline_int((value as i32).into()).or_else(|| float(|f| f.0, value));
            return text.unwrap_or_else(|| format!("{:#x}", value as u16));
        }
        (16, 2, Element::Float) => inline_int((value as i32).into()).or_else(|| float(|f| f.1, value)),
        _ => inline_int((value as i32).into()).or_else(|| float(|f| f.0, value)),
    };
    text.unwrap_or_else(|| format!("{value:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_as_inline_constants_where_those_exist() {
        assert_eq!(literal(0x3f80_0000, DataType::F32), "1.0");
        assert_eq!(literal(0x3ff0_0000, DataType::F64), "1.0");
        assert_eq!(literal(0xffff_ffff, DataType::I32), "-1");
        assert_eq!(literal(0xffff_ffff, DataType::B64), "0xffffffff");
        assert_eq!(literal(0x1234_3c00, DataType::F16), "1.0");
        assert_eq!(literal(0x3c00, DataType::U16), "0x3c00");
    }

    #[test]
    fn register_tuples_name_first_and_last() {
        assert_eq!(operand(Operand::Vgpr(4), DataType::F32x16), "v[4:19]");
        assert_eq!(operand(Operand::VccLo, DataType::B64), "vcc");
        assert_eq!(operand(Operand::VccLo, DataType::B32), "vcc_lo");
    }
}
