//! `bridge_forward`: looks the destinations of bridged frames up, all at once.
//!
//! ```text
//!                        ┌ at a port ──► output, the tag put in or taken out
//!  key ─► MAC table ─────┼ the bridge's own address ──► bridge_local
//!                        ├ unknown, group ──► bridge_flood
//!                        └ where it came from, isolated, too long for the port ──► drop
//! ```
//!
//! | cost (reads a packet) | one line of the MAC table, two for an unknown address |
//! |-----------------------|-------------------------------------------------------|
//! | as it came, to a port | one compare for all that could be otherwise, no call  |
//!
//! Source: IEEE 802.1Q-2022 §8.6.

use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use io::VECTOR;
use tables::bridge::{Bridges, Direct};
use tables::macs::entry_port;
use tables::{Forwarding, PortId};

use super::bridge_input::{Came, Found};
use super::decide::{Frame, Verdict, decide};
use super::lanes::{Arrived, Code, Destination, Sender};
use super::tag::Edit;
use crate::lanes::OutPort;

labels! {
    /// Where frames go.
    pub enum To {
        Output = "output" carries [OutPort],
        Flood = "bridge_flood" carries [Sender],
        Local = "bridge_local" carries [OutPort],
    }
}

labels! {
    /// Why frames are dropped.
    pub enum Why {
        /// The station is at the port that the frame came in by.
        SamePort = "same_port",
        /// Both ports are isolated.
        Isolated = "isolated",
        /// Longer than the MTU of the port that the station is at.
        TooLong = "too_long",
        /// The packet has no room for a tag.
        NoRoom = "no_room",
    }
}

/// The node.
pub struct BridgeForward {
    forwarding: Arc<Forwarding>,
    entries: Box<[u16; VECTOR]>,
}

impl BridgeForward {
    /// A node that looks up in the MAC table of `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        BridgeForward { forwarding, entries: Box::new([0; VECTOR]) }
    }
}

impl Node for BridgeForward {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_forward";
    const HELP: &'static str = "looks up MAC addresses";
    const READS: Lanes = Lanes::of::<(Destination, Arrived)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (n, from, guard) = (v.n(), v.port(), v.guard());
        let bridges = self.forwarding.bridges.load(guard);
        let entries = &mut self.entries[..n];
        self.forwarding.macs.lookup_batch(guard, v.lane(Destination).first(n), entries);
        v.leave_all(To::Output);
        let mut run = Run::of(bridges, v.get(Arrived, 0), from);
        for (i, &entry) in entries.iter().enumerate() {
            if v.get(Arrived, i) != run.code {
                run = Run::of(bridges, v.get(Arrived, i), from);
            }
            let port = entry_port(entry);
            if run.is_direct(port) & (port != from) & (v.len(i) <= bridges.fits_all) {
                v.set(OutPort, i, PortId(port));
            } else {
                other(v, i, bridges, entry);
            }
        }
    }
}

/// The common facts about frames of one domain that came in alike.
struct Run<'b> {
    /// The value of the lane.
    code: Code,
    ports: &'b [Direct],
    /// The bits that are compared, and the values that they must have.
    mask: u8,
    want: u8,
}

impl<'b> Run<'b> {
    fn of(bridges: &'b Bridges, code: Code, from: u16) -> Run<'b> {
        let Found { domain, came } = Found::from_code(code);
        let want = match came {
            Came::Untagged => Direct::UNTAGGED,
            Came::Tagged => Direct::TAGGED,
            Came::Priority => Direct::PRIORITY,
        };
        let isolated = bridges.isolated.get(usize::from(from)) == Some(&true);
        let mask = want | if isolated { Direct::ISOLATED } else { 0 };
        let ports = bridges.domain(domain).map_or(&[][..], |domain| &domain.direct);
        Run { code, ports, mask, want }
    }

    /// May they go to a station at `port` as they are? No port has the number
    /// in [`tables::macs::ABSENT`].
    #[inline(always)]
    fn is_direct(&self, port: u16) -> bool {
        let direct = self.ports.get(usize::from(port)).copied().unwrap_or_default();
        direct.0 & self.mask == self.want
    }
}

/// Frames that go nowhere or everywhere, or not as they are.
#[inline(never)]
fn other(v: &mut View<'_, BridgeForward>, i: usize, bridges: &Bridges, entry: u16) {
    let (found, from) = (Found::from_code(v.get(Arrived, i)), v.port());
    match decide(bridges, Frame { found, from, head: v.head(i), len: v.len(i) }, entry) {
        Verdict::Send(port, edit) => {
            v.set(OutPort, i, PortId(port));
            let edge = if port < bridges.first_routed { To::Output } else { To::Local };
            if edit != Edit::Keep && v.edit(i, |packet| edit.apply(packet)) != Some(true) {
                return v.drop(i, Why::NoRoom);
            }
            v.leave(i, edge);
        }
        Verdict::Flood => {
            v.set(Sender, i, PortId(from));
            v.leave(i, To::Flood);
        }
        Verdict::SamePort => v.drop(i, Why::SamePort),
        Verdict::Isolated => v.drop(i, Why::Isolated),
        Verdict::TooLong => v.drop(i, Why::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Lan, bridges};
    use super::*;
    use tables::bridge::DomainId;
    use tables::macs::{ABSENT, entry};

    #[test]
    fn what_goes_directly_is_what_is_sent_as_it_is() {
        let mut configs = bridges();
        configs[0].members[0].isolated = true;
        configs[0].members[1].isolated = true;
        configs[1].members[0].isolated = true;
        let mut lan = Lan::of(configs);
        lan.switch.set_link(2, false);
        lan.switch.set_link(2, true); // stations behind it are not trusted
        lan.switch.set_link(5, false);
        let mut thread = lan.domain.register("test");
        let bridges = lan.forwarding.bridges.load(thread.guard());
        let mut sent = 0;
        for domain in (0..5).map(DomainId) {
            for came in [Came::Untagged, Came::Tagged, Came::Priority] {
                let found = Found { domain, came };
                assert_eq!(Found::from_code(found.code()), found);
                for from in 0..10 {
                    let run = Run::of(bridges, found.code(), from);
                    assert!(!run.is_direct(entry_port(ABSENT)));
                    for port in 0..10 {
                        let frame = Frame { found, from, head: &[0; 64], len: 64 };
                        let as_it_is = decide(bridges, frame, entry(port, 3))
                            == Verdict::Send(port, Edit::Keep)
                            && port < bridges.first_routed;
                        let direct = run.is_direct(port) & (port != from);
                        assert_eq!(direct, as_it_is, "{found:?} from {from} to {port}");
                        sent += usize::from(direct);
                    }
                }
            }
        }
        assert!(sent > 50, "{sent}");
        thread.quiesce();
    }
}
