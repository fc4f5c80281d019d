//! `decisions`: receives the decisions of Grantors.
//!
//! ```text
//!  lookups, multipath ─── punt ───┬ UDP for us to the port of decisions, from the back ─► each decision ─► ring
//!                                 │                                            to the worker of its flow
//!                                 ├ ICMP "too long" about an outer header, from the back ─► counted, punt
//!                                 ├ from the front: what a bypass has no way for ─► icmp_error, drop
//!                                 └ anything else ─► punt   PuntClass
//! ```
//!
//! | cost | of what is punted alone: a compare; of a decision: a lookup among the protections, a ring |
//! |------|---------------------------------------------------------------------------------------------|
//! |      | memory: 2 MiB for decisions that wait for a later poll                                      |
//!
//! A Grantor decides for destinations whose protection names it, unless others may, too
//! ([`DecisionsFrom`](super::settings::DecisionsFrom)). A decision goes to the worker
//! that has the flow, and to all where that is not known. The order of one Grantor's decisions is
//! kept: its messages come to one worker, and each ring has an order.
//!
//! A poll passes on 1,024 decisions at most, so that no message costs the packets their time.
//! The others wait, in their order, 16,384 of them; later polls pass on as many as the owners
//! take in. Only what comes beyond that is lost, and counted. A decision has the time of the
//! poll that passes it on.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use graph::{Due, Lanes, Node, View, labels};
use lookup::sync::Published;
use tables::{IfaceId, Side};
use wire::bytes::be16;
use wire::ggu::{Decision, Message, Ports, Refusal};
use wire::{icmp, icmpv6, ipv4, ipv6, protocol, udp};

use super::fault::{Fault, Kind as Fate};
use super::lanes::Faulty;
use super::settings::{Ends, Settings};
use super::to_owners::{By, ToOwners};
use crate::class::Class;
use crate::lanes::{Iface, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass, Iface],
        Error = "icmp_error" carries [Faulty, Iface],
    }
}

labels! {
    /// What becomes of messages: none goes any further.
    pub enum Why {
        /// Its decisions are on their way to the table.
        Heard = "heard",
        /// It failed a check, which is counted by name, in the message or in a decision.
        Refused = "refused",
        /// More decisions than may wait; those cut off are counted, too.
        TooMany = "too_many",
        /// Of the front, let pass by a bypass: its neighbour is not resolved, or its route leads
        /// through the kernel, which gets nothing of it.
        NoWay = "no_way",
    }
}

/// The node.
pub struct Decisions {
    settings: Arc<Published<Settings>>,
    heard: ToOwners,
    /// The poll, and what may still be passed on in it.
    left: (u64, usize),
    /// For later polls, oldest first.
    waiting: VecDeque<Waiting>,
}

/// A decision that has been heard.
struct Waiting {
    decision: Decision,
    /// Of whom.
    from: IpAddr,
    /// By which interface.
    iface: IfaceId,
}

impl Decisions {
    /// A node that gives decisions to `heard`.
    pub fn new(settings: Arc<Published<Settings>>, heard: ToOwners) -> Self {
        let waiting = VecDeque::with_capacity(MOST_WAITING);
        Decisions { settings, heard, left: (0, 0), waiting }
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
        let (from, iface) = (message.from, v.get(Iface, i));
        let mut decisions = message.decisions();
        let by = By::Grantor(from, settings.decisions_from);
        while decisions.left() > 0 {
            // Used where it is: see `Machine::grant` for what a copy would cost.
            let next = decisions.read();
            let decision = match &next {
                Ok(decision) => decision,
                Err(refusal) => return self.refuse(*refusal),
            };
            if self.left.1 > 0 && self.waiting.is_empty() {
                self.pass_on(v, by, iface, decision);
            } else if self.waiting.len() < MOST_WAITING {
                self.waiting.push_back(Waiting { decision: *decision, from, iface });
            } else {
                for lost in std::iter::once(*decision).chain(decisions.flatten()) {
                    self.heard.cut_off(v.guard(), by, iface, &lost);
                }
                return Why::TooMany;
            }
        }
        Why::Heard
    }

    fn pass_on(&mut self, v: &View<'_, Self>, by: By, iface: IfaceId, decision: &Decision) {
        self.left.1 -= 1; // the caller knows that some are left
        self.heard.pass_on(v.guard(), by, (iface, v.now()), decision);
    }

    /// Decisions that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A poll has so many decisions, whether its vectors or its tick bring them.
    fn begin(&mut self, now: u64) {
        if self.left.0 != now {
            self.left = (now, MOST);
        }
    }

    fn refuse(&self, refusal: Refusal) -> Why {
        self.heard.counters.decisions.refused[refusal as usize].add(1);
        Why::Refused
    }
}

impl Node for Decisions {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "decisions";
    const HELP: &'static str = "hears what Grantors decide";
    const READS: Lanes = Lanes::of::<(Iface, PuntClass)>();
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.begin(v.now());
        v.leave_all(To::Punt);
        let ifaces = self.heard.forwarding.ifaces.load(v.guard());
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
            let for_us = side == Side::Back && v.get(PuntClass, i) == Class::ForUs;
            if for_us && is_message(v.rest(i), settings.ports) {
                let why = self.hear(v, i, settings);
                v.drop(i, why);
            } else if for_us && was_too_long(v.rest(i), settings.from) {
                self.heard.counters.errors.too_long_beyond.add(1);
            }
        }
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        if self.waiting.is_empty() {
            return Due::NEVER;
        }
        self.begin(v.now());
        let settings = self.settings.load(v.guard());
        let most = self.left.1.min(self.heard.pace());
        for _ in 0..most.min(self.waiting.len()) {
            let Some(next) = self.waiting.pop_front() else { break };
            let by = By::Grantor(next.from, settings.decisions_from);
            self.pass_on(v, by, next.iface, &next.decision);
        }
        if self.waiting.is_empty() { Due::NEVER } else { Due::NOW }
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.waiting, &mut old.waiting);
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

/// Whether it is that, and its destination is what Grantors send decisions to: hosts may use the
/// port, too, and their packets are as any others.
pub(super) fn is_message_to_us(packet: &[u8], settings: &Settings) -> bool {
    let ours = match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4::View::new(packet).is_ok_and(|view| settings.from.v4 == Some(view.dst())),
        _ => ipv6::View::new(packet).is_ok_and(|view| settings.from.v6 == Some(view.dst())),
    };
    ours && is_message(packet, settings.ports)
}

/// Whether it is an ICMP error about a packet that we have sent to a Grantor: a router on the way
/// does not carry it. The packet's own source does not hear of that: no path MTU is kept, and such
/// an error may quote no more than the outer header (RFC 792).
fn was_too_long(packet: &[u8], from: Ends) -> bool {
    if packet.first().is_some_and(|first| first >> 4 == 4) {
        let view = ipv4::View::new(packet).ok();
        let view = view.filter(|view| view.protocol() == protocol::ICMP && view.offset() == 0);
        let error = view.and_then(|view| icmp::View::new(view.payload()).ok());
        let wanted = (icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED);
        let error = error.filter(|error| (error.kind(), error.code()) == wanted);
        let sent = error.and_then(|error| ipv4::View::quoted(error.data()).ok());
        return sent
            .is_some_and(|sent| sent.protocol() == protocol::IPIP && from.v4 == Some(sent.src()));
    }
    let upper = ipv6::View::new(packet).ok().and_then(|view| view.upper().ok());
    let upper = upper.filter(|(chain, _)| chain.protocol == protocol::ICMPV6);
    let error = upper.and_then(|(_, message)| icmp::View::new(message).ok());
    let error = error.filter(|error| error.kind() == icmpv6::PACKET_TOO_BIG);
    let sent = error.and_then(|error| ipv6::View::quoted(error.data()).ok());
    sent.is_some_and(|sent| sent.next_header() == protocol::IPV6 && from.v6 == Some(sent.src()))
}

/// Decisions that are passed on in a poll at most.
const MOST: usize = 1_024;
/// Decisions that wait at most: a vector of the longest messages with an MTU of 1,500.
const MOST_WAITING: usize = 16 * MOST;
