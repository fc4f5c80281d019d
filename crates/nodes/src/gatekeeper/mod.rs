//! Gatekeeper: forwards the flows that the protected network has granted, drops those that
//! it has declined, and asks about all others through a channel ordered by patience.
//!
//! ```text
//!  packet ─► flow's entry ─► machine ─► granted, direct, dropped
//!                               └─────► request ─► solicitor: 64 levels, one budget ─► Grantor
//! ```
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   ip_longer listing
//!   ip_special
//!   decisions group_framed icmp_error shield solicit unsent
//!   to_owners
//!   flows
//!   machine outer
//!   lanes programs settings
//!   state
//!   granted request solicitor
//!   fault mix rule
//!   times
//! ```

pub mod decisions;
pub mod fault;
pub mod flows;
pub mod granted;
pub mod group_framed;
pub mod icmp_error;
pub mod ip_longer;
pub mod ip_special;
pub mod lanes;
pub mod listing;
pub mod machine;
pub mod mix;
mod outer;
pub mod programs;
pub mod request;
pub mod rule;
pub mod settings;
pub mod shield;
pub mod solicit;
pub mod solicitor;
pub mod state;
#[cfg(test)]
mod tests;
pub mod times;
pub mod to_owners;
pub mod unsent;

use std::sync::Arc;

use graph::Card;
use graph::ring::spsc::{Consumer, Producer};
use lookup::sync::Published;

use crate::assembly::{Assembly, FIRST, Hearing};
use crate::family::{Family, V4, V6};
use ip_longer::IpLonger;
use ip_special::IpSpecial;

/// Its nodes.
pub const NODES: &[Card] = &[
    Card::of::<group_framed::GroupFramed>(),
    Card::of::<IpLonger<V4>>(),
    Card::of::<IpLonger<V6>>(),
    Card::of::<IpSpecial<V4>>(),
    Card::of::<IpSpecial<V6>>(),
    Card::of::<shield::Shield>(),
    Card::of::<solicit::Solicit>(),
    Card::of::<unsent::Unsent>(),
    Card::of::<icmp_error::IcmpError>(),
    Card::of::<decisions::Decisions>(),
];

/// The node that a shield's router leads to, by family.
pub const ENTRY: [&str; 2] = ["shield", "shield"];

/// What one worker's Gatekeeper is made of.
pub struct Parts {
    /// What may change.
    pub settings: Arc<Published<settings::Settings>>,
    /// This worker's counters.
    pub counters: Arc<settings::Counters>,
    /// Spreads flows over Grantors: the same for all workers.
    pub mix: mix::Mix,
    /// The worker's flows; `None`: those of the graph that this one replaces.
    pub flows: Option<flows::Flows>,
    /// Decisions, from each worker that hears them.
    pub heard: Vec<Consumer<flows::Heard>>,
    /// Decisions that this worker hears, to each worker.
    pub hears: Vec<Producer<flows::Heard>>,
    /// What they may name: the same for all workers.
    pub programs: Arc<Published<programs::Programs>>,
    /// Requests that may wait; as many for [`Parts::here`].
    pub capacity: usize,
    /// The worker's part of the request channel.
    pub member: solicitor::Member,
    /// Where policies of this machine decide.
    pub here: Option<Here>,
}

/// What decisions that are made in this graph need.
pub struct Here {
    /// The worker's part of their channel, which counts [`solicit::DECISION`] for each.
    pub member: solicitor::Member,
    /// Decisions that this worker makes, to each worker.
    pub hears: Vec<Producer<flows::Heard>>,
}

/// Adds it to a router, which is then made a shield that leads to [`ENTRY`]
/// (`router::shield`).
pub fn add(mut assembly: Assembly, parts: Parts) -> Assembly {
    let (forwarding, ifaces) = (&assembly.common.forwarding, &assembly.common.counters);
    let Parts { settings, counters, mix, flows, heard, hears, programs, capacity, member, here } =
        parts;
    let at_once = here.is_some();
    let (here, made) = here.map(|Here { member, hears }| (member, hears)).unzip();
    let (queue, refusals) = ((capacity, member, here), assembly.refusals.clone());
    assembly.longer = vec![V4::LONGER, V6::LONGER];
    assembly.uncut.leave();
    let longer = (forwarding.clone(), settings.clone(), counters.clone());
    let to_owners = |hears| {
        let of = (forwarding.clone(), counters.clone());
        to_owners::ToOwners::new(of, (assembly.owners.clone(), hears), programs.clone())
    };
    let made = made.map(|hears| Box::new(to_owners(hears)) as Box<dyn Hearing>);
    let decisions = decisions::Decisions::new(settings.clone(), to_owners(hears));
    let solicit_counts = (ifaces.clone(), counters.clone(), refusals);
    let solicit =
        solicit::Solicit::new(forwarding.clone(), (settings.clone(), mix), solicit_counts, queue);
    let (longer4, longer6) =
        (IpLonger::<V4>::new(longer.clone()), IpLonger::<V6>::new(longer.clone()));
    let (unsent, framed) = (
        unsent::Unsent::new(forwarding.clone()),
        group_framed::GroupFramed::new(forwarding.clone()),
    );
    let error = icmp_error::IcmpError::new(
        forwarding.clone(),
        settings.clone(),
        counters.clone(),
        ifaces.clone(),
    );
    let [v4, v6] = [longer.clone(), longer.clone()];
    let (forwarding, ifaces) = (forwarding.clone(), ifaces.clone());
    let parts = shield::Parts {
        forwarding,
        settings,
        programs,
        ifaces,
        counters,
        mix,
        flows,
        heard,
        at_once,
    };
    assembly.hearing = made;
    if !at_once {
        // No packet goes there.
        assembly = assembly.connect("shield", "asked_here", "drop");
        assembly = assembly.connect("solicit", "asked_here", "drop");
    }
    assembly
        .node(longer4)
        .node(longer6)
        .node(IpSpecial::<V4>::new(v4))
        .node(IpSpecial::<V6>::new(v6))
        .node(shield::Shield::new(parts))
        .node(solicit)
        .node(decisions)
        .node(unsent)
        .node(framed)
        .node(error)
        .connect(V4::INPUT, "punt", "ip4_special")
        .connect(V6::INPUT, "punt", "ip6_special")
        .connect(V4::LOOKUP, "punt", "decisions")
        .connect(V6::LOOKUP, "punt", "decisions")
        .connect(V4::MULTIPATH, "punt", "decisions")
        .connect(V6::MULTIPATH, "punt", "decisions")
        .connect(V4::REWRITE, "punt", "unsent")
        .connect(V6::REWRITE, "punt", "unsent")
        .connect(FIRST, "punt", "group_framed")
        .connect("bridge_local", "punt", "group_framed")
}
