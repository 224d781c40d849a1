//! Templates: the native code of each operation on a slice of lanes.
//!
//! A template computes the same bits as the micro-op (a NaN may have a different payload). Its intermediate values are immutable,
//! and it names the results after all sources were read. Forms without a template are executed as micro-ops. Templates are in one
//! file per kind of value; shared parts are here, the lookup is in `template_table.rs`.

use super::emit::Emit;

/// Emits the native code of one operation.
pub type Template = fn(&mut Emit<'_>);

macro_rules! commuting {
    ($vector:expr) => {
        |e| {
            let (a, b) = e.commuting();
            let new = e.op($vector, a, b);
            e.set(new);
        }
    };
}

macro_rules! ordered {
    ($vector:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op($vector, a, b);
            e.set(new);
        }
    };
}

macro_rules! reversed {
    ($vector:expr) => {
        |e| {
            let (b, a) = (e.reg(1), e.arg(0));
            let new = e.op($vector, b, a);
            e.set(new);
        }
    };
}

macro_rules! unary {
    ($vector:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary($vector, a);
            e.set(new);
        }
    };
    ($vector:expr, $immediate:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary_imm($vector, a, $immediate);
            e.set(new);
        }
    };
}

pub(super) use {commuting, ordered, reversed, unary};
