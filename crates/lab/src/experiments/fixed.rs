//! Fixed amounts of forwarding, for counting instructions and for comparing two
//! versions of the code: the same work on every machine and in every run.

use super::router::{Bed, Faults, Frames, Source, Tables};
use super::{gatekeeper, grantor, switch};
use crate::data::{Table, Traffic};

/// The workloads, by name.
pub const NAMES: [&str; 18] = [
    "forward-ipv4",
    "forward-ipv4-ecmp",
    "forward-ipv4-large",
    "forward-ipv6",
    "forward-ipv6-ecmp",
    "forward-ipv6-large",
    "forward-switch",
    "forward-switch-large",
    "shield-request",
    "shield-declined",
    "shield-granted",
    "shield-request-large",
    "shield-declined-large",
    "shield-granted-large",
    "shield-here-request",
    "shield-here-granted",
    "grantor-ipv4",
    "grantor-ipv6",
];

/// Builds the workload `name`, one worker's whole path, and hands `body` what
/// forwards so many packets through it. A router has 10,000 routes and 1,000 packets
/// (`large`: a million and 16,000), a switch a thousand stations (a million), a shield a
/// thousand flows (2^20), or each packet is a new one in a table of 4,096 places (2^20); a Grantor
/// unwraps the packets of such a small router.
///
/// # Errors
/// When there is no such workload, when it cannot be built, or when a packet left wrongly.
pub fn run(name: &str, body: impl FnOnce(&mut dyn FnMut(u64))) -> Result<(), String> {
    if let Some(kind) = name.strip_prefix("shield-") {
        return gatekeeper::fixed(kind, body);
    }
    if let Some(family) = name.strip_prefix("grantor-") {
        return grantor::fixed(family, body);
    }
    let what = name.strip_prefix("forward-").filter(|_| NAMES.contains(&name));
    let what = what.ok_or_else(|| format!("no workload `{name}`"))?;
    let (kind, option) = what.split_once('-').unwrap_or((what, ""));
    let (large, multipath) = (option == "large", option == "ecmp");
    let (routes, packets) = if large { (1_000_000, 16_000) } else { (10_000, 1000) };
    let load =
        |kind: &str| Table::load(&format!("{kind}:{routes}")).map_err(|error| error.to_string());
    match kind {
        "ipv4" => forward(&load("internet")?.ipv4, packets, multipath, body),
        "ipv6" => forward(&load("internet6")?.ipv6, packets, multipath, body),
        _ => {
            let stations = if large { 1_000_000 } else { 1000 };
            let mut bed = switch::few(stations, packets)?;
            let mut lost = None;
            body(&mut |frames| {
                if let Err(reason) = bed.forward(frames) {
                    lost.get_or_insert(reason);
                }
            });
            lost.map_or(Ok(()), Err)
        }
    }
}

fn forward<A: Frames>(
    routes: &[(lookup::Prefix<A>, lookup::Hop)],
    packets: usize,
    multipath: bool,
    body: impl FnOnce(&mut dyn FnMut(u64)),
) -> Result<(), String> {
    let dsts = Traffic::Prefix.draw(routes, packets, 1);
    let (tables, _updater) = Tables::new(routes, A::DEFAULT, multipath)?;
    let faults = Faults::default();
    let source = Source::mem(packets, &dsts)?;
    let mut bed = Bed::new(&tables, "worker", source, &faults)?;
    body(&mut |packets| bed.forward(packets));
    drop(bed);
    faults.borrow().first().map_or(Ok(()), |fault| Err(fault.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_workload_forwards() {
        for name in NAMES.into_iter().filter(|name| !name.ends_with("large")) {
            run(name, |forward| forward(2000)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(run("forward-ipv5", |_| ()).is_err());
    }
}
