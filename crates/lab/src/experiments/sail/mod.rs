//! SAIL: chapter 3 of the thesis (Fu, *High-Performance Software Packet
//! Processing*, 2020).

experiments! {
    mod lookups: FIG3_7,
    in lookups: FIG3_8,
    in lookups: FIG3_9,
    mod updates: FIG3_11,
    mod many: Fig312,
    in lookups: FIG3_13,
    mod bounds: TABLE3_2,
    in bounds: Table34,
    mod six: TABLE3_5,
    in six: FIG3_16,
    in six: FIG3_17,
}

use crate::Context;

/// Tables as large as those of the thesis' collectors in 2013, each with a seed
/// of its own: as many as `full` in a full run, or `quick` in a quick one. Beside them those
/// that are given.
fn collectors(context: &Context, full: u32, quick: u32) -> Vec<String> {
    let n = context.pick(full, quick);
    let names: Vec<String> = (1..=n).map(|seed| format!("internet:467000,{seed}")).collect();
    context.beside(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
