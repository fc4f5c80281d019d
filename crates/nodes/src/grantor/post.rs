//! How a message gets to its Gatekeeper: by the plain view's route, or, where that route has no
//! known neighbour, back to the neighbour that the request came from.

use core::net::IpAddr;

use graph::{Account, Node, Packets, View};
use lookup::Hop;
use lookup::sync::Guard;
use tables::{AdjacencyId, Forwarding, IfaceId, PortId};
use wire::ethernet;
use wire::ggu::Ports;

use super::fates::{To, Why};
use super::messages::{Ends, Message};
use crate::counters::IfaceCounters;
use crate::lanes::{Iface, OutPort};
use crate::out::leave::leave;

/// The state that sending a message needs.
pub(super) struct Post<'g> {
    pub forwarding: &'g Forwarding,
    pub guard: Guard<'g>,
}

impl Post<'_> {
    /// The largest packet to a Gatekeeper, in bytes.
    pub fn mtu(&self, ends: &Ends) -> u16 {
        let hops = self.forwarding.hops.load(self.guard);
        if let Some(id) = self.way(ends) {
            return hops.adjacency(id).out().mtu();
        }
        let ifaces = self.forwarding.ifaces.load(self.guard);
        ifaces.get(ends.iface).map_or(0, |iface| iface.mtu)
    }

    fn way(&self, ends: &Ends) -> Option<AdjacencyId> {
        let ifaces = self.forwarding.ifaces.load(self.guard);
        let vrf = ifaces.vrf.get(usize::from(ends.iface.0)).copied().unwrap_or_default();
        let vrf = self.forwarding.vrfs.load(self.guard).get(usize::from(vrf.0))?;
        let (hop, mixed): (Hop, u32) = match ends.to {
            IpAddr::V4(to) => (vrf.v4.lookup(to.into()), to.into()),
            IpAddr::V6(to) => (vrf.v6.lookup(to.into()), u128::from(to) as u32),
        };
        self.forwarding.hops.load(self.guard).step_of_flow(hop, mixed).forward()
    }

    /// Makes a packet of a message, in a vector that has room for it, and sends it. Returns `None`
    /// if no packet can be made; a packet that cannot leave is dropped.
    pub fn send<N: Node<Edge = To, Drop = Why>>(
        &self,
        v: &mut View<'_, N>,
        message: &Message,
        ports: Ports,
        counters: &IfaceCounters,
    ) -> Option<()> {
        let pool = message.reply.port;
        let mut packet = v.ports().get(pool)?.allocate()?;
        let fits = packet.resize(message.packet_len());
        if !fits || !message.write(packet.data_mut(), ports) {
            v.ports().put_back(packet, pool);
            return None;
        }
        let i = match v.push(packet, pool) {
            Ok(i) => i,
            Err(packet) => {
                v.ports().put_back(packet, pool);
                return None;
            }
        };
        v.account(Account::Copies, 1);
        let Some((port, iface)) = self.leave(v, i, message, counters) else {
            v.drop(i, Why::NoWay);
            return None;
        };
        v.set(OutPort, i, port);
        v.set(Iface, i, iface);
        v.leave(i, To::Output);
        Some(())
    }

    /// Turns packet `i`, a message, into a frame. Returns the port that it leaves by, or `None`
    /// where no route takes it.
    fn leave<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        message: &Message,
        counters: &IfaceCounters,
    ) -> Option<(PortId, IfaceId)> {
        let len = message.packet_len() as u16; // a message has 2,048 bytes at most
        if len > self.mtu(&message.ends) {
            return None;
        }
        if let Some(id) = self.way(&message.ends) {
            let is_v4 = message.ends.to.is_ipv4();
            let ethertype = if is_v4 { ethernet::IPV4 } else { ethernet::IPV6 };
            let cell = self.forwarding.hops.load(self.guard).adjacency(id);
            return leave(v, i, cell, (len, ethertype), counters);
        }
        let link = usize::from(message.reply.link);
        if !v.frame(i, link, len.into()) {
            return None;
        }
        let room = v.before_mut(i);
        let at = room.len() - link; // cannot panic: `frame` takes no more than it has
        room[at..].copy_from_slice(&message.reply.header[..link]);
        let iface = message.ends.iface;
        let port = self.forwarding.ifaces.load(self.guard).get(iface)?.port;
        counters.sent(iface, 1, (link + usize::from(len)) as u64);
        Some((port, iface))
    }
}
