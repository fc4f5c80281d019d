//! Decisions on their way to the tables of their flows' owners.
//!
//! ```text
//!  a Grantor's message ─► decisions ─┬► who may decide, program, parameters ─► ring ─► owner's table
//!  a policy of this machine ─────────┘
//! ```
//!
//! Decisions of this machine take the same way: the flow may be another worker's.

use core::net::IpAddr;
use std::sync::Arc;

use graph::clock;
use graph::ring::spsc::Producer;
use io::VECTOR;
use lookup::Hop;
use lookup::exact::flow::FlowKey;
use lookup::sync::{Guard, Published};
use tables::{Forwarding, IfaceId, Kind, LOCAL, SetId, VrfId};
use wire::ggu::{Decision, Flow, Verdict};

use super::flows::Heard;
use super::machine::{Machine, Made, Refused};
use super::programs::Programs;
use super::settings::{Counters, DecisionsFrom};
use super::times::Times;
use crate::assembly::Hearing;
use crate::parse::owner::Owners;

/// Gives decisions to the owners of their flows.
pub struct ToOwners {
    pub(super) forwarding: Arc<Forwarding>,
    pub(super) counters: Arc<Counters>,
    /// Which worker has a flow; `None`: all of them get its decisions.
    owners: Option<Arc<Owners>>,
    /// By worker.
    rings: Vec<Producer<Heard>>,
    programs: Arc<Published<Programs>>,
    times: Times,
}

/// Who decides.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// Somebody at this address, and whose decisions count.
    Grantor(IpAddr, DecisionsFrom),
    /// A policy of this machine.
    Here,
}

impl ToOwners {
    /// Puts decisions into `rings`, one a worker.
    pub fn new(
        (forwarding, counters): (Arc<Forwarding>, Arc<Counters>),
        (owners, rings): (Option<Arc<Owners>>, Vec<Producer<Heard>>),
        programs: Arc<Published<Programs>>,
    ) -> Self {
        let times = Times::new(clock::rate());
        ToOwners { forwarding, counters, owners, rings, programs, times }
    }

    /// How many decisions the owners' tables take in in the time of a poll.
    pub(super) fn pace(&self) -> usize {
        if self.owners.is_some() { VECTOR * self.rings.len() } else { VECTOR }
    }

    /// Sends a decision to the owner of its flow.
    pub(super) fn pass_on(
        &mut self,
        guard: Guard<'_>,
        by: By,
        (iface, now): (IfaceId, u64),
        decision: &Decision,
    ) {
        let rate = clock::rate();
        if rate != self.times.rate() {
            self.times = Times::new(rate);
        }
        let counters = &self.counters;
        let key = match decision.flow {
            Flow::V4 { src, dst } => FlowKey::v4(src.into(), dst.into()),
            Flow::V6 { src, dst } => FlowKey::v6(src.into(), dst.into()),
        };
        let set = match self.protection(guard, by, iface, decision.flow.ends().1) {
            Some(Ok(set)) => set,
            Some(Err(set)) => return counters.count_decision(set, |of| &of.not_its_grantor),
            None => return counters.decisions.unprotected.add(1),
        };
        let owner = self.owners.as_ref().map(|owners| match decision.flow {
            Flow::V4 { src, dst } => owners.ipv4(src, dst),
            Flow::V6 { src, dst } => owners.ipv6(src, dst),
        });
        let whose = owner.map_or(0..self.rings.len(), |owner| owner..owner + 1);
        let rings = self.rings.get_mut(whose).unwrap_or_default();
        let machine = Machine { times: &self.times, programs: self.programs.load(guard) };
        if let &Verdict::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms } =
            &decision.verdict
        {
            let parameters = [rate_kib, next_renewal_ms, renewal_step_ms];
            return give(rings, counters, (key, set), machine.grant(now, expire_s, parameters));
        }
        match machine.make(&decision.verdict, now) {
            Ok(made) => give(rings, counters, (key, set), made),
            Err(Refused::UnknownProgram) => counters.count_decision(set, |of| &of.unknown_program),
            Err(Refused::BadParameters) => {
                if let Verdict::Program { index, .. } = decision.verdict {
                    counters.program(index).refused.add(1);
                }
                counters.count_decision(set, |of| &of.bad_parameters);
            }
        }
    }

    /// Counts a decision that is not passed on, for want of room.
    #[cold]
    pub(super) fn cut_off(&self, guard: Guard<'_>, by: By, iface: IfaceId, decision: &Decision) {
        let counters = &self.counters;
        match self.protection(guard, by, iface, decision.flow.ends().1) {
            Some(Ok(set) | Err(set)) => counters.count_decision(set, |of| &of.too_many),
            None => counters.decisions.all.too_many.add(1),
        }
    }

    /// The protection of `dst` in the VRF of `iface`; as an error where `by` has no say
    /// there.
    fn protection(
        &self,
        guard: Guard<'_>,
        by: By,
        iface: IfaceId,
        dst: IpAddr,
    ) -> Option<Result<SetId, SetId>> {
        let ifaces = self.forwarding.ifaces.load(guard);
        let vrf: VrfId = ifaces.vrf.get(usize::from(iface.0)).copied().unwrap_or_default();
        let vrfs = self.forwarding.vrfs.load(guard);
        let front = vrfs.get(usize::from(vrf.0))?.front.as_ref()?;
        let hop: Hop = match dst {
            IpAddr::V4(dst) => front.v4.lookup(dst.into()),
            IpAddr::V6(dst) => front.v6.lookup(dst.into()),
        };
        let step = self.forwarding.hops.load(guard).step(hop);
        let index = (step.kind() == Kind::Protected).then(|| step.index())?;
        let protections = self.forwarding.protections.load(guard);
        let protection = protections.at(index)?;
        let is_here = protection.options & LOCAL != 0;
        let counts = match by {
            By::Here => is_here,
            // Only the policy of this machine decides here, even where other Grantors are heard.
            By::Grantor(..) if is_here => false,
            By::Grantor(from, DecisionsFrom::ItsGrantors) => protection.named(from).is_some(),
            By::Grantor(from, DecisionsFrom::Grantors) => protections.names(vrf, from),
            By::Grantor(_, DecisionsFrom::Anybody) => true,
        };
        Some(if counts { Ok(protection.id) } else { Err(protection.id) })
    }
}

/// Puts a decision into these rings.
#[inline(always)]
fn give(
    rings: &mut [Producer<Heard>],
    counters: &Counters,
    (key, set): (FlowKey, SetId),
    made: Made,
) {
    for ring in rings {
        let put = |heard: &mut Heard| {
            (heard.key, heard.set) = (key, set);
            made.put(&mut heard.decided);
        };
        if !ring.push_with(Heard::NOTHING, put) {
            counters.count_decision(set, |of| &of.ring_full);
        }
    }
}

impl Hearing for ToOwners {
    fn hear(&mut self, guard: Guard<'_>, iface: IfaceId, now: u64, decision: &Decision) {
        self.pass_on(guard, By::Here, (iface, now), decision);
    }
}
