//! Packets that leave one node and enter another node of the same worker through a ring, in its
//! next poll: copies, which may be more than a vector holds, and packets to an inner port.

use graph::ring::spsc::{Consumer, Producer};
use graph::{Account, Node, View};
use io::Owned;
use tables::{IfaceId, PortId};

use crate::lanes::{Iface, OutPort};

/// A packet in a ring of its own worker.
pub struct Detour {
    /// The packet.
    pub packet: Owned,
    /// The port whose pool the packet belongs to.
    pub pool: u16,
    /// The port to leave by.
    pub out: u16,
}

/// Puts a packet into `ring`; it counts as held until [`refill`] takes it out.
///
/// # Errors
/// The packet, where the ring is full.
#[inline]
pub(crate) fn send<N: Node>(
    v: &View<'_, N>,
    ring: &mut Producer<Detour>,
    detour: Detour,
) -> Result<(), Owned> {
    ring.push(detour).map_err(|back| back.packet)?;
    v.account(Account::Detoured, 1);
    Ok(())
}

/// Fills the vector of a source with packets from `ring`, as far as it has room for them.
/// A packet whose port is gone is dropped as `gone`.
pub(crate) fn refill<N: Node>(v: &mut View<'_, N>, ring: &mut Consumer<Detour>, gone: N::Drop) {
    while let Some(next) = ring.peek()
        && v.has_room(next.pool)
        && let Some(Detour { packet, pool, out }) = ring.pop()
    {
        v.account(Account::Returned, 1);
        match v.push(packet, pool) {
            Ok(i) => {
                v.set(OutPort, i, PortId(out));
                v.set(Iface, i, IfaceId(graph::NO_IFACE));
            }
            Err(packet) => {
                v.count_dropped(gone, 1);
                v.ports().put_back(packet, pool);
            }
        }
    }
}
