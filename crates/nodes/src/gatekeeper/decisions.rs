//! `decisions`: hears what Grantors decide.
//!
//! ```text
//!  lookups, multipath ─── punt ───┬ UDP to the port of decisions, from the back ─► each decision ─► ring
//!                                 │                                     to the worker of its flow
//!                                 ├ from the front: what a bypass has no way for ─► icmp_error, drop
//!                                 └ anything else ─► punt   PuntClass
//! ```
//!
//! | cost | of what is punted alone: a compare; of a decision: a lookup among the protections, a ring |
//! |------|---------------------------------------------------------------------------------------------|
//!
//! A Grantor decides for destinations whose protection names it, unless others may, too
//! ([`DecisionsFrom`]). A decision goes to the worker that has the flow, and to all where that is
//! not known. The order of one Grantor's decisions is kept: its messages come to one worker, and
//! each ring has an order.

use core::net::IpAddr;
use std::sync::Arc;

use graph::ring::spsc::Producer;
use graph::{Lanes, Node, View, clock, labels};
use lookup::Hop;
use lookup::exact::flow::FlowKey;
use lookup::sync::{Guard, Published};
use tables::{Forwarding, IfaceId, Kind, SetId, Side, VrfId};
use wire::bytes::be16;
use wire::ggu::{Decision, Flow, Message, Ports, Refusal};
use wire::{ipv4, ipv6, protocol, udp};

use super::fault::{Fault, Kind as Fate};
use super::flows::Heard;
use super::lanes::Faulty;
use super::machine::{Machine, Refused};
use super::programs::Programs;
use super::settings::{Counters, DecisionsFrom, Settings};
use super::times::Times;
use crate::class::Class;
use crate::lanes::{Iface, PuntClass};
use crate::parse::owner::Owners;

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass],
        Error = "icmp_error" carries [Faulty],
    }
}

labels! {
    /// What becomes of messages: none goes any further.
    pub enum Why {
        /// Its decisions are on their way to the table.
        Heard = "heard",
        /// It failed a check, which is counted by name, in the message or in a decision.
        Refused = "refused",
        /// More decisions than are heard in a poll.
        TooMany = "too_many",
        /// Of the front, let pass by a bypass: its neighbour is not resolved, or its route leads
        /// through the kernel, which gets nothing of it.
        NoWay = "no_way",
    }
}

/// The node.
pub struct Decisions {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    owners: Option<Arc<Owners>>,
    /// By worker.
    rings: Vec<Producer<Heard>>,
    programs: Programs,
    times: Times,
    /// The poll, and what may still be heard in it.
    left: (u64, usize),
}

impl Decisions {
    /// A node that puts decisions into `rings`, one a worker.
    pub fn new(
        forwarding: Arc<Forwarding>,
        settings: Arc<Published<Settings>>,
        counters: Arc<Counters>,
        (owners, rings): (Option<Arc<Owners>>, Vec<Producer<Heard>>),
        programs: Programs,
    ) -> Self {
        let times = Times::new(clock::rate());
        Decisions { forwarding, settings, counters, owners, rings, programs, times, left: (0, 0) }
    }

    /// What decisions may name; gives back what they might so far.
    pub fn set_programs(&mut self, programs: Programs) -> Programs {
        std::mem::replace(&mut self.programs, programs)
    }

    /// Hears a message.
    fn hear(&mut self, v: &View<'_, Self>, i: usize, settings: &Settings) -> Why {
        let ours = |to| match to {
            IpAddr::V4(to) => settings.from.v4 == Some(to),
            IpAddr::V6(to) => settings.from.v6 == Some(to),
        };
        let message = match Message::receive(v.rest(i), settings.ports, ours) {
            Ok(message) => message,
            Err(refusal) => return self.refuse(refusal),
        };
        for decision in message.decisions() {
            let decision = match decision {
                Ok(decision) => decision,
                Err(refusal) => return self.refuse(refusal),
            };
            if self.left.1 == 0 {
                return Why::TooMany;
            }
            self.left.1 -= 1;
            let from = (message.from, v.get(Iface, i), v.now());
            self.pass_on(v.guard(), from, settings.decisions_from, &decision);
        }
        Why::Heard
    }

    fn refuse(&self, refusal: Refusal) -> Why {
        self.counters.decisions.refused[refusal as usize].add(1);
        Why::Refused
    }

    /// Sends a decision of `from` to the owner of its flow.
    fn pass_on(
        &mut self,
        guard: Guard<'_>,
        (from, iface, now): (IpAddr, IfaceId, u64),
        whose: DecisionsFrom,
        decision: &Decision,
    ) {
        let counters = &self.counters;
        let key = match decision.flow {
            Flow::V4 { src, dst } => FlowKey::v4(src.into(), dst.into()),
            Flow::V6 { src, dst } => FlowKey::v6(src.into(), dst.into()),
        };
        let set = match self.protection(guard, (from, iface), whose, decision.flow.ends().1) {
            Some(Ok(set)) => set,
            Some(Err(set)) => return counters.count_decision(set, |of| &of.not_its_grantor),
            None => return counters.decisions.unprotected.add(1),
        };
        let machine = Machine { times: &self.times, programs: &self.programs };
        let decided = match machine.decision(&decision.verdict, now) {
            Ok(decided) => decided,
            Err(Refused::UnknownProgram) => {
                return counters.count_decision(set, |of| &of.unknown_program);
            }
            Err(Refused::BadParameters) => {
                if let wire::ggu::Verdict::Program { index, .. } = decision.verdict {
                    counters.program(index).refused.add(1);
                }
                return counters.count_decision(set, |of| &of.bad_parameters);
            }
        };
        let heard = Heard { key, set, decided };
        let owner = self.owners.as_ref().map(|owners| match decision.flow {
            Flow::V4 { src, dst } => owners.ipv4(src, dst),
            Flow::V6 { src, dst } => owners.ipv6(src, dst),
        });
        let rings = self.rings.iter_mut().enumerate();
        for (_, ring) in rings.filter(|(worker, _)| owner.is_none_or(|owner| owner == *worker)) {
            if ring.push(heard).is_err() {
                counters.count_decision(set, |of| &of.ring_full);
            }
        }
    }

    /// The protection of `dst` in the VRF of `iface`; as an error where `from` has no say
    /// there.
    fn protection(
        &self,
        guard: Guard<'_>,
        (from, iface): (IpAddr, IfaceId),
        whose: DecisionsFrom,
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
        let counts = match whose {
            DecisionsFrom::ItsGrantors => protection.named(from).is_some(),
            DecisionsFrom::Grantors => protections.names(vrf, from),
            DecisionsFrom::Anybody => true,
        };
        Some(if counts { Ok(protection.id) } else { Err(protection.id) })
    }
}

impl Node for Decisions {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "decisions";
    const HELP: &'static str = "hears what Grantors decide";
    const READS: Lanes = Lanes::of::<(Iface, PuntClass)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let rate = clock::rate();
        if rate != self.times.rate() {
            self.times = Times::new(rate);
        }
        if self.left.0 != v.now() {
            self.left = (v.now(), MOST);
        }
        v.leave_all(To::Punt);
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let settings = self.settings.load(v.guard());
        for i in 0..v.n() {
            let side = ifaces.side(v.get(Iface, i));
            if side == Side::Front {
                match v.get(PuntClass, i) {
                    Class::Unreachable => {
                        v.set(Faulty, i, Fault::new(Fate::Unreachable));
                        v.leave(i, To::Error);
                    }
                    _ => v.drop(i, Why::NoWay),
                }
                continue;
            }
            if side == Side::Back && is_message(v.rest(i), settings.ports) {
                let why = self.hear(v, i, settings);
                v.drop(i, why);
            }
        }
    }
}

/// Whether it is UDP to the port of decisions, whatever headers or fragments it lies in: nobody
/// else listens there. A later fragment does not say.
pub(super) fn is_message(packet: &[u8], ports: Ports) -> bool {
    let datagram = match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4::View::new(packet)
            .ok()
            .filter(|view| view.protocol() == protocol::UDP && view.offset() == 0)
            .map(|view| view.payload()),
        _ => ipv6::View::new(packet).ok().and_then(|view| {
            let (chain, upper) = view.upper().ok()?;
            let first = chain.fragment.is_none_or(|fragment| fragment.offset == 0);
            (first && chain.protocol == protocol::UDP).then_some(upper)
        }),
    };
    datagram.is_some_and(|udp| udp.len() >= udp::LEN && be16(udp, udp::DST) == ports.dst)
}

/// Decisions that are heard in a poll at most.
const MOST: usize = 1_024;
