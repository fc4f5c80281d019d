//! `ip4_tunnel`, `ip6_tunnel`: take the packets that a Gatekeeper has wrapped for this Grantor.
//!
//! ```text
//!  packet ─► IP in IP, for this machine, not from the front ─┬ no ► ip4_lookup   Dst4: as it came
//!                                                            ├ DSCP 0, 1 ► unwrapped, ip4_lookup
//!                                                            ├ more ► grantor    Asks
//!                                                            └ not right ► drop, by name
//! ```
//!
//! | cost | of others: a compare; of these: the header checks, two searches; of a run to one address: a lookup of it |
//! |------|-----------------------------------------------------------------------------------------------------------|
//!
//! The Grantor must not be an open relay: it unwraps only packets from its Gatekeepers, to served
//! destinations. The node is before the lookup, so that a packet is looked up once.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Label, Lanes, Node, View, labels};
use lookup::Hop;
use lookup::hint::prefetch;
use lookup::sync::{Guard, Published};
use tables::{Forwarding, IfaceId, Kind, Side};
use wire::bytes::{array, ipv4 as ip4, ipv6 as ip6};
use wire::{ipv4, ipv6};

use super::inner::{self, Why, behind_extensions, is_ip};
use super::lanes::{Asks, Inner};
use super::settings::{Counters, Settings};
use super::unwrap::{Unfit, unwrap};
use crate::family::{Family, V4, V6};
use crate::lanes::{Dst4, Dst6, Iface};

labels! {
    /// Where packets go.
    pub enum To4 {
        Lookup = "ip4_lookup" carries [Dst4],
        Grantor = "grantor" carries [Asks],
    }
}

labels! {
    /// The same of IPv6.
    pub enum To6 {
        Lookup = "ip6_lookup" carries [Dst6],
        Grantor = "grantor" carries [Asks],
    }
}

/// The differences between the families.
pub trait Tunnels: Family {
    /// Where packets go.
    type To: Label;
    /// The edge to the lookup.
    const TO_LOOKUP: Self::To;
    /// The edge to the node that asks.
    const TO_GRANTOR: Self::To;
    /// The node's name.
    const TUNNEL: &'static str;
    /// Whether the inner header ends in another cache line than the outer one begins in.
    const IS_LONG: bool;
    /// Whether a packet that starts with `head` may hold an IP packet.
    fn may_hold_ip(head: &[u8; 64]) -> bool;
    /// Whether it does.
    fn holds_ip(packet: &[u8]) -> bool;
    /// Whether the sender is a Gatekeeper.
    fn is_known(head: &[u8; 64], settings: &Settings) -> bool;
    /// The inner packet.
    fn inner(packet: &[u8], settings: &Settings) -> Result<Inner, Why>;
    /// The destination of a packet that starts with `head`.
    fn dst(head: &[u8; 64]) -> Self::Addr;
}

impl Tunnels for V4 {
    type To = To4;
    const TO_LOOKUP: To4 = To4::Lookup;
    const TO_GRANTOR: To4 = To4::Grantor;
    const TUNNEL: &'static str = "ip4_tunnel";
    const IS_LONG: bool = false;

    #[inline(always)]
    fn may_hold_ip(head: &[u8; 64]) -> bool {
        is_ip(head[ipv4::PROTOCOL])
    }

    fn holds_ip(_: &[u8]) -> bool {
        true
    }

    fn is_known(head: &[u8; 64], settings: &Settings) -> bool {
        settings.gatekeepers.has4(ip4(head, ipv4::SRC))
    }

    fn inner(packet: &[u8], settings: &Settings) -> Result<Inner, Why> {
        inner::v4(packet, &settings.serves)
    }

    fn dst(head: &[u8; 64]) -> u32 {
        u32::from_be_bytes(array(head, ipv4::DST))
    }
}

impl Tunnels for V6 {
    type To = To6;
    const TO_LOOKUP: To6 = To6::Lookup;
    const TO_GRANTOR: To6 = To6::Grantor;
    const TUNNEL: &'static str = "ip6_tunnel";
    const IS_LONG: bool = true;

    #[inline(always)]
    fn may_hold_ip(head: &[u8; 64]) -> bool {
        let next = head[ipv6::NEXT_HEADER];
        is_ip(next) || ipv6::is_extension(next)
    }

    fn holds_ip(packet: &[u8]) -> bool {
        let Some((head, payload)) = packet.split_first_chunk::<{ ipv6::LEN }>() else {
            return false;
        };
        let next = head[ipv6::NEXT_HEADER];
        is_ip(next) || behind_extensions(next, payload).is_some()
    }

    fn is_known(head: &[u8; 64], settings: &Settings) -> bool {
        settings.gatekeepers.has6(ip6(head, ipv6::SRC))
    }

    fn inner(packet: &[u8], settings: &Settings) -> Result<Inner, Why> {
        inner::v6(packet, &settings.serves)
    }

    fn dst(head: &[u8; 64]) -> u128 {
        u128::from_be_bytes(array(head, ipv6::DST))
    }
}

/// The node of the family `F`.
pub struct IpTunnel<F> {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    family: PhantomData<F>,
}

impl<F: Tunnels> IpTunnel<F> {
    /// A node that takes the packets for this machine, whose addresses are in `forwarding`.
    pub fn new(
        forwarding: Arc<Forwarding>,
        settings: Arc<Published<Settings>>,
        counters: Arc<Counters>,
    ) -> Self {
        IpTunnel { forwarding, settings, counters, family: PhantomData }
    }

    /// Whether an IP-in-IP packet is for this Grantor. A packet from the front of a shield never
    /// is. `last` is the result for the packet before: most packets have the same destination.
    fn is_for_us(&self, v: &View<'_, Self>, i: usize, last: &mut Option<Found<F>>) -> bool {
        let (iface, dst) = (v.get(Iface, i), v.get(F::DST, i));
        let found = match *last {
            Some(found) if (found.iface, found.dst) == (iface, dst) => found,
            _ => {
                let ifaces = self.forwarding.ifaces.load(v.guard());
                let is_ours = ifaces.side(iface) != Side::Front
                    && is_ours::<F>(&self.forwarding, v.guard(), iface, dst);
                *last.insert(Found { iface, dst, is_ours })
            }
        };
        found.is_ours && F::holds_ip(v.rest(i))
    }

    /// Prefetches the end of packet `i`'s inner header, which no earlier node has read.
    #[inline(always)]
    fn ask_ahead(v: &View<'_, Self>, i: usize) {
        if F::IS_LONG && i < v.n() {
            let head = v.head(i);
            if F::may_hold_ip(head) {
                prefetch(&head[head.len() - 1]);
            }
        }
    }

    /// Chooses the edge of a packet for this Grantor.
    fn lead_on(&self, v: &mut View<'_, Self>, i: usize, settings: &Settings) -> Result<(), Why> {
        if !F::is_known(v.head(i), settings) {
            return Err(Why::Stranger);
        }
        let inner = F::inner(v.rest(i), settings)?;
        if inner.dscp > GRANTED {
            v.set(Asks, i, inner);
            v.leave(i, F::TO_GRANTOR);
            return Ok(());
        }
        if settings.shadow {
            return Err(Why::Shadow);
        }
        let link = v.frame_len(i).wrapping_sub(v.len(i));
        unwrap(v, i, link.into(), &inner, settings.ecn).map_err(|unfit| match unfit {
            Unfit::Congested => Why::Congested,
            Unfit::NoRoom => Why::NoRoom,
        })?;
        let dst = F::dst(v.head(i));
        v.set(F::DST, i, dst);
        self.counters.passed.add(1);
        Ok(())
    }
}

impl<F: Tunnels> Node for IpTunnel<F> {
    type Edge = F::To;
    type Drop = Why;
    const NAME: &'static str = F::TUNNEL;
    const HELP: &'static str = "unwraps what Gatekeepers send to this Grantor";
    const READS: Lanes = Lanes::of::<(Iface, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let settings = self.settings.load(v.guard());
        v.leave_all(F::TO_LOOKUP);
        // Not for all at once: a core drops requests beyond those that it can have in flight.
        (0..AHEAD).for_each(|i| Self::ask_ahead(v, i));
        let mut last = None;
        for i in 0..v.n() {
            Self::ask_ahead(v, i + AHEAD);
            if F::may_hold_ip(v.head(i))
                && self.is_for_us(v, i, &mut last)
                && let Err(why) = self.lead_on(v, i, settings)
            {
                v.drop(i, why);
            }
        }
    }
}

/// Whether an address is this machine's, as seen from an interface.
struct Found<F: Family> {
    iface: IfaceId,
    dst: F::Addr,
    is_ours: bool,
}

impl<F: Family> Clone for Found<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Family> Copy for Found<F> {}

/// Packets whose inner headers are prefetched before they are read.
const AHEAD: usize = 12;

/// The highest DSCP of packets that ask for nothing.
const GRANTED: u8 = policy::program::GRANTED;

/// Whether `dst` is an address of this machine, in the interface's VRF.
pub(super) fn is_ours<F: Family>(
    forwarding: &Forwarding,
    guard: Guard<'_>,
    iface: IfaceId,
    dst: F::Addr,
) -> bool {
    let ifaces = forwarding.ifaces.load(guard);
    let vrf = ifaces.vrf.get(usize::from(iface.0)).copied().unwrap_or_default();
    let vrfs = forwarding.vrfs.load(guard);
    let hop = vrfs.get(usize::from(vrf.0)).map_or(Hop::NONE, |vrf| F::table(vrf).lookup(dst));
    forwarding.hops.load(guard).step(hop).kind() == Kind::ForUs
}
