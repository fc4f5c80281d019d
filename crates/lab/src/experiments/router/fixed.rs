//! A fixed amount of work, for counting instructions: the same on every machine
//! and in every run.

use super::bed::{Bed, Faults};
use super::frames::Frames;
use super::source::Source;
use super::tables::Tables;
use crate::data::{Table, Traffic};

/// Forwards `packets` IPv4 packets through one worker's router with 10,000
/// routes; with `multipath` each by a group of next hops.
///
/// # Errors
/// When the router cannot be built, or a packet left wrongly.
pub fn forward4(packets: u64, multipath: bool) -> Result<(), String> {
    let table = Table::load("internet:10000").map_err(|error| error.to_string())?;
    forward(&table.ipv4, packets, multipath)
}

/// The same with IPv6.
///
/// # Errors
/// When the router cannot be built, or a packet left wrongly.
pub fn forward6(packets: u64, multipath: bool) -> Result<(), String> {
    let table = Table::load("internet6:10000").map_err(|error| error.to_string())?;
    forward(&table.ipv6, packets, multipath)
}

fn forward<A: Frames>(
    routes: &[(lookup::Prefix<A>, lookup::Hop)],
    packets: u64,
    multipath: bool,
) -> Result<(), String> {
    let dsts = Traffic::Prefix.draw(routes, PACKETS, 1);
    let (tables, _updater) = Tables::new(routes, A::DEFAULT, multipath)?;
    let faults = Faults::default();
    let source = Source::mem(PACKETS, &dsts)?;
    Bed::new(&tables, "worker", source, &faults)?.forward(packets);
    faults.borrow().first().map_or(Ok(()), |fault| Err(fault.clone()))
}

const PACKETS: usize = 1000;
