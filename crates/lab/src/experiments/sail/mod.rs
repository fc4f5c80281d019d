//! SAIL: chapter 3 of the thesis (Fu, *High-Performance Software Packet
//! Processing*, 2020).

mod bounds;
mod lookups;
mod many;
mod six;
mod updates;

pub(super) use bounds::{TABLE3_2, Table34};
pub(super) use lookups::{FIG3_7, FIG3_8, FIG3_9, FIG3_13};
pub(super) use many::Fig312;
pub(super) use six::{FIG3_16, FIG3_17, TABLE3_5};
pub(super) use updates::FIG3_11;

use crate::Context;

/// Tables as large as those of the thesis' collectors in 2013, each with a seed
/// of its own: `n` of them in a full run, two in a quick one.
fn collectors(context: &Context, n: u32) -> Vec<String> {
    let n = context.pick(n, 2);
    let names: Vec<String> = (1..=n).map(|seed| format!("internet:467000,{seed}")).collect();
    context.tables(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
