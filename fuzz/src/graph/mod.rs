//! The whole graph against a model: real control, tables, switch, workers and nodes are
//! built as the daemon builds them, and driven by the bytes: links, addresses,
//! neighbours, routes, engines, stations, time, frames. What comes out is compared with
//! what an [`oracle`](oracle::Oracle) says that may come, after each step:
//!
//! - every frame comes out where its addresses, tags and routes lead, changed as a router
//!   or bridge changes it, and nowhere else; what is dropped comes out nowhere
//! - mirrors copy what they look at, once
//! - the accounting law holds, and agrees with what was seen from outside
//! - no packet is lost to the pool
//! - the MAC table holds what was learnt, for as long as it should
//!
//! ```text
//!  bytes ─► plan, operations ─┬► control, switch ─► tables ─► workers' graphs ◄► cables, kernel
//!                             └► tables' oracle, bridging, stations ─► oracle ─► compared ◄┘
//! ```

mod bridging;
mod events;
mod frames;
mod input;
mod loops;
mod mirrors;
mod oracle;
mod outcome;
mod peers;
mod plan;
mod probing;
pub mod seeds;
mod stations;
mod step;
mod world;

use input::Input;
use outcome::Counts;
use plan::Plan;
use step::Step;

/// Bytes as a router with bridges.
pub fn graph(bytes: &[u8]) {
    explore(bytes, Plan::of_graph);
}

/// Bytes as a switch with routed sides.
pub fn switch(bytes: &[u8]) {
    explore(bytes, Plan::of_switch);
}

/// What a target reaches with these bytes, by name; `None` for other targets.
pub fn reached(target: &str, bytes: &[u8]) -> Option<Counts> {
    match target {
        "grantor" => Some(crate::grantor::reached(bytes)),
        "graph" => Some(explore(bytes, Plan::of_graph)),
        "shield" => Some(crate::shield::reached(bytes)),
        "switch" => Some(explore(bytes, Plan::of_switch)),
        _ => None,
    }
}

fn explore(bytes: &[u8], plan: impl Fn(&mut Input<'_>) -> Plan) -> Counts {
    let mut input = Input(bytes);
    let mut step = Step::new(&plan(&mut input));
    for _ in 0..MOST_OPERATIONS {
        let Some(&[code]) = input.take(1) else { break };
        let Some((_, length, does)) = OPERATIONS.iter().find(|(number, ..)| *number == code & 31)
        else {
            continue; // not taken yet
        };
        let Some(arguments) = input.take(*length) else { break };
        does(&mut step, &mut Input(arguments), &mut input);
    }
    step.end()
}

/// What an operation does with its arguments, and with what follows them.
type Does = fn(&mut Step, &mut Input<'_>, &mut Input<'_>);

/// Number, bytes of arguments, what it does. See [`input`] before you change a line.
const OPERATIONS: &[(u8, usize, Does)] = &[
    (0, frames::BYTES, |step, input, _| step.frame(input.array())),
    (1, 0, |step, _, _| step.run()),
    (2, 2, |step, input, more| step.raw(input.array(), more)),
    (3, 3, |step, input, _| step.spoil(input.array())),
    (4, 2, |step, input, _| step.again(input.array())),
    (5, frames::BYTES, |step, input, _| step.sent_by_kernel(input.array())),
    (6, 3, |step, input, _| step.link(input.array())),
    (7, 1, |step, input, _| step.link_gone(input.array())),
    (8, 4, |step, input, _| step.address(input.array())),
    (9, 4, |step, input, _| step.neighbour(input.array())),
    (10, 5, |step, input, _| step.object(input.array())),
    (11, 8, |step, input, _| step.route(input.array())),
    (12, 2, |step, input, _| step.route_gone(input.array())),
    (13, 2, |step, input, _| step.listing(input.array())),
    (14, 0, |step, _, _| step.tick()),
    (15, 2, |step, input, _| step.engine(input.array())),
    (16, 1, |step, input, _| step.iface(input.array())),
    (17, 1, |step, input, _| step.carrier(input.array())),
    (18, 1, |step, input, _| step.time(input.array())),
    (19, 3, |step, input, _| step.station(input.array())),
    (20, 2, |step, input, _| step.flush(input.array())),
    (21, 2, |step, input, _| step.device_full(input.array())),
    (22, 1, |step, input, _| step.starve(input.array())),
    (23, 4, |step, input, _| step.mirror(input.array())),
    (24, 3, |step, input, _| step.probe(input.array())),
];

/// Enough for any input that a fuzzer makes; a bound on the time of one.
const MOST_OPERATIONS: usize = 4096;
