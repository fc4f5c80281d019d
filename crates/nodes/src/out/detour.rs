//! Packets that leave one node and come back in at another of the same worker, by
//! a ring, in its next poll: copies, of which there may be more than a vector holds, and
//! what goes to an inner port.

use graph::ring::spsc::Consumer;
use graph::{Node, View};
use io::{Owned, VECTOR};
use tables::{IfaceId, PortId};

use crate::lanes::{Iface, OutPort};

/// A packet on its way by a ring of its own worker.
pub struct Detour {
    /// The packet.
    pub packet: Owned,
    /// The port whose pool it is of.
    pub pool: u16,
    /// The port to leave by.
    pub out: u16,
}

/// Fills the vector of a source with packets from `ring`, as far as it goes; `held` is
/// one that did not fit into the vector before.
pub(crate) fn refill<N: Node>(
    v: &mut View<'_, N>,
    ring: &mut Consumer<Detour>,
    held: &mut Option<Detour>,
) {
    while v.n() < VECTOR {
        let Some(Detour { packet, pool, out }) = held.take().or_else(|| ring.pop()) else { break };
        match v.push(packet, pool) {
            Ok(i) => {
                v.set(OutPort, i, PortId(out));
                v.set(Iface, i, IfaceId(graph::NO_IFACE));
            }
            // Of another world than those before it: the next vector's first.
            Err(packet) => {
                *held = Some(Detour { packet, pool, out });
                break;
            }
        }
    }
}
