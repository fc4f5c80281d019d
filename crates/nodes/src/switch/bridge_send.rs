//! `bridge_send`: frames of this machine into a bridge: routed packets whose next hop is
//! behind the bridge, and frames that the kernel sends by the bridge's tap.
//!
//! ```text
//!  output ─► ring ─► domain by the routed interface's tag ─► MAC table ─► output | bridge_flood
//! ```
//!
//! | cost (reads a packet) | the frame's line, in cache; one line of the MAC table |
//! |-----------------------|-------------------------------------------------------|
//!
//! The ring costs a routed packet one poll; in return no node on the way of
//! packets between ports has to ask whether a next hop is behind a bridge.

use std::sync::Arc;

use graph::ring::spsc::Consumer;
use graph::{Node, View, labels};
use io::VECTOR;
use lookup::exact::Key;
use tables::{Forwarding, PortId};

use super::bridge_input::{Found, classify, key};
use super::decide::{Frame, Verdict, decide};
use super::lanes::{Arrived, Code, Destination, Sender};
use crate::lanes::{Iface, OutPort};
use crate::out::detour::{Detour, refill};

labels! {
    /// Where frames go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
        Flood = "bridge_flood" carries [Sender, Arrived, Destination, Iface],
    }
}

labels! {
    /// Why frames are dropped.
    pub enum Why {
        /// The bridge has no such VLAN any more.
        NoDomain = "no_domain",
        /// To the bridge's own address.
        ToItself = "to_itself",
        /// Longer than the MTU of the port that the station is at.
        TooLong = "too_long",
        /// The packet has no room for a tag.
        NoRoom = "no_room",
        /// The port whose pool the packet is of has gone.
        NoPort = "no_port",
    }
}

/// The node.
pub struct BridgeSend {
    forwarding: Arc<Forwarding>,
    ring: Consumer<Detour>,
    entries: Box<[u16; VECTOR]>,
}

impl BridgeSend {
    /// A node that empties `ring`, and looks up in the MAC table of `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>, ring: Consumer<Detour>) -> Self {
        BridgeSend { forwarding, ring, entries: Box::new([0; VECTOR]) }
    }
}

impl Node for BridgeSend {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_send";
    const HELP: &'static str = "puts frames of the routed interface into its bridge";
    const SOURCE: bool = true;
    const WAKES: bool = true; // by nodes of its own worker

    fn process(&mut self, v: &mut View<'_, Self>) {
        refill(v, &mut self.ring, Why::NoPort);
        let (n, guard) = (v.n(), v.guard());
        if n == 0 {
            return;
        }
        let bridges = self.forwarding.bridges.load(guard);
        for i in 0..n {
            let found = classify(bridges.ingress(v.get(OutPort, i).0), v.head(i), v.len(i));
            let key = found.map_or(NO_KEY, |found| key(v.head(i), found.domain));
            v.set(Destination, i, key);
            v.set(Arrived, i, found.map_or(Code::default(), Found::code));
        }
        let entries = &mut self.entries[..n];
        self.forwarding.macs.lookup_batch(guard, v.lane(Destination).first(n), entries);
        for (i, &entry) in entries.iter().enumerate() {
            if v.get(Destination, i) == NO_KEY {
                v.drop(i, Why::NoDomain);
                continue;
            }
            let found = Found::from_code(v.get(Arrived, i));
            let from = v.get(OutPort, i);
            let frame = Frame { found, from: from.0, head: v.head(i), len: v.len(i) };
            match decide(bridges, frame, entry) {
                Verdict::Send(port, edit) if port < bridges.first_routed => {
                    v.set(OutPort, i, PortId(port));
                    match v.edit(i, |packet| edit.apply(packet)) {
                        Some(true) => v.leave(i, To::Output),
                        _ => v.drop(i, Why::NoRoom),
                    }
                }
                Verdict::Flood => {
                    v.set(Sender, i, from);
                    v.leave(i, To::Flood);
                }
                Verdict::TooLong => v.drop(i, Why::TooLong),
                _ => v.drop(i, Why::ToItself),
            }
        }
    }
}

/// A key that no frame has: domain 0.
const NO_KEY: Key = Key::new(0, 0);
