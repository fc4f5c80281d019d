//! The answer to `rutter grantor show`.

use api::Failure;
use api::apps::grantor::{Count, Shown};
use graph::Counter;
use nodes::grantor::settings::{Counters, Ecn};

use super::Deciding;
use crate::config::Net;
use crate::parts::show as parts;
use crate::parts::state::State;

impl Deciding {
    /// All of it.
    pub(super) fn show(&self, state: &State) -> Result<Shown, Failure> {
        let of = &self.granting;
        let nets = |all: &[Net]| all.iter().map(Net::to_string).collect();
        let ecn = match of.ecn {
            Ecn::Deployed => "deployed",
            Ecn::Rfc6040 => "rfc6040",
        };
        Ok(Shown {
            gatekeepers: nets(&of.gatekeepers),
            serves: nets(&of.serves),
            policy: self.policies.describe(),
            limit_ms: of.limit_ms.into(),
            on_limit: of.on_limit.to_string(),
            on_full: of.on_full.to_string(),
            ecn: ecn.into(),
            shadow: of.shadow,
            ports: [of.ports.src, of.ports.dst],
            waiting: self.sum(|of| &of.waiting),
            room: (of.waiting * self.counters.len()) as u64,
            counts: self.counts(),
            drops: drops(state)?,
            policies: self.policies.cells().map(|cells| cells.show()).transpose()?,
        })
    }

    /// Sums over all workers.
    pub(super) fn sum(&self, count: fn(&Counters) -> &Counter) -> u64 {
        self.counters.iter().map(|of| count(of).get()).sum()
    }

    fn counts(&self) -> Vec<Count> {
        let counts = COUNTS.iter();
        counts.map(|(what, of)| Count { what: (*what).into(), count: self.sum(*of) }).collect()
    }
}

type Of = fn(&Counters) -> &Counter;

const COUNTS: &[(&str, Of)] = &[
    ("passed", |of| &of.passed),
    ("renewals", |of| &of.renewals),
    ("renewals without a buffer", |of| &of.no_copy),
    ("requests", |of| &of.requests),
    ("fragments that waited", |of| &of.fragments),
    ("packets of fragments", |of| &of.whole),
    ("packets of fragments, joined", |of| &of.joined),
    ("packets of fragments, too long to join", |of| &of.apart),
    ("packets of fragments, incomplete", |of| &of.punished),
    ("asked", |of| &of.asked),
    ("times the policy's queue was full", |of| &of.refused),
    ("verdicts: forward", |of| &of.forwarded),
    ("verdicts: drop", |of| &of.denied),
    ("verdicts without a decision", |of| &of.undecided),
    ("verdicts too late", |of| &of.late),
    ("waited too long", |of| &of.overdue),
    ("no room to wait", |of| &of.shed),
    ("decisions sent", |of| &of.decisions),
    ("messages sent", |of| &of.messages),
    ("decisions not sent", |of| &of.unsent),
];

/// Packets that the Grantor's nodes dropped, by reason.
fn drops(state: &State) -> Result<Vec<Count>, Failure> {
    let counts = state.snapshot()?;
    let ours: Vec<_> = nodes::grantor::NODES.iter().map(|card| card.name).collect();
    let is_ours = |name: &str| name.split('.').next().is_some_and(|node| ours.contains(&node));
    let all = parts::drops(&counts).into_iter().filter(|drop| is_ours(&drop.reason));
    Ok(all.map(|drop| Count { what: drop.reason, count: drop.packets }).collect())
}
