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
//!
//! Source: IEEE 802.1Q-2022 §8.6.

use std::sync::Arc;

use graph::{Live, Node, View, labels};
use io::VECTOR;
use tables::Forwarding;

use super::bridge_input::Came;
use super::decide::{Frame, Verdict, decide};
use super::tag::Edit;

labels! {
    /// Where frames go.
    pub enum To { Output = "output", Flood = "bridge_flood", Local = "bridge_local" }
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
    const LIVE: Live = Live::KEY64.and(Live::KEY32).and(Live::OUT).and(Live::IFACE);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (n, from, guard) = (v.n(), v.port(), v.guard());
        let bridges = self.forwarding.bridges.load(guard);
        let entries = &mut self.entries[..n];
        self.forwarding.macs.lookup_batch(guard, v.wide.key64.first(n), entries);
        for (i, &entry) in entries.iter().enumerate() {
            let (key, came) = (v.wide.key64[i], Came::from_code(v.key32[i]));
            let frame = Frame { key, came, from, head: v.head(i), len: v.len(i) };
            match decide(bridges, frame, entry) {
                Verdict::Send(port, Edit::Keep) => {
                    v.out[i] = port;
                    v.leave(i, if port < bridges.first_routed { To::Output } else { To::Local });
                }
                Verdict::Send(port, edit) => {
                    v.out[i] = port;
                    let edge = if port < bridges.first_routed { To::Output } else { To::Local };
                    match v.edit(i, |packet| edit.apply(packet)) {
                        Some(true) => v.leave(i, edge),
                        _ => v.drop(i, Why::NoRoom),
                    }
                }
                Verdict::Flood => {
                    v.out[i] = from;
                    v.leave(i, To::Flood);
                }
                Verdict::SamePort => v.drop(i, Why::SamePort),
                Verdict::Isolated => v.drop(i, Why::Isolated),
                Verdict::TooLong => v.drop(i, Why::TooLong),
            }
        }
    }
}
