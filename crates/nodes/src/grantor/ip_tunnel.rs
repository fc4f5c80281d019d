//! `ip4_tunnel`, `ip6_tunnel`: take the packets that a Gatekeeper has wrapped for this Grantor.
//!
//! ```text
//!  packet ─► IP in IP, for this machine, not from the front ─┬ no ► ip4_lookup   Dst4: as it came
//!                                                            ├ DSCP 0, 1 ► unwrapped, ip4_lookup
//!                                                            ├ more ► grantor    Asks
//!                                                            └ not right ► drop, by name
//! ```
//!
//! | cost | of others: a compare; of a run to one address: a lookup of it |
//! |------|----------------------------------------------------------------|
//! | plain packets | some words of both headers, two networks compared with the last ones, the descriptor |
//! | not plain | all header checks, two searches in networks: three times the instructions |
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
use wire::{ipv4, ipv6, protocol};

use super::inner::{self, Why, behind_extensions, is_ip};
use super::lanes::{Asks, Inner};
use super::nets::{InNets, Near};
use super::plain::{self, GRANTED, Plain};
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
pub trait Tunnels: Plain<Addr: InNets> {
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
    /// Whether it surely does.
    fn holds_plain_ip(head: &[u8; 64]) -> bool;
    /// Whether a packet does.
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

    #[inline(always)]
    fn holds_plain_ip(head: &[u8; 64]) -> bool {
        head[ipv4::PROTOCOL] == protocol::IPIP
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

    #[inline(always)]
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

    #[inline(always)]
    fn holds_plain_ip(head: &[u8; 64]) -> bool {
        head[ipv6::NEXT_HEADER] == protocol::IPV6
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

    #[inline(always)]
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

    /// Whether `dst` is an address of this machine for packets from `iface`, where `last` does not
    /// say that it is. No packet from the front of a shield is for this Grantor.
    #[inline(never)]
    fn find(&self, guard: Guard<'_>, (iface, dst): (IfaceId, F::Addr), last: &mut Last<F>) -> bool {
        if last.found == Found::Not && (last.iface, last.dst) == (iface, dst) {
            return false;
        }
        let ifaces = self.forwarding.ifaces.load(guard);
        let is_ours =
            ifaces.side(iface) != Side::Front && is_ours::<F>(&self.forwarding, guard, iface, dst);
        *last = Last { iface, dst, found: if is_ours { Found::Ours } else { Found::Not } };
        is_ours
    }

    /// Prefetches the end of packet `i`'s inner header, which no earlier node has read.
    #[inline(always)]
    fn ask_ahead(v: &View<'_, Self>, i: usize) {
        let head = v.head(i); // beyond the packets it is nobody's
        if F::IS_LONG && F::holds_plain_ip(head) {
            prefetch(&head[head.len() - 1]);
        }
    }

    /// Unwraps packet `i`, where it is plain and for this Grantor. Otherwise returns false, and changes nothing.
    #[inline(always)]
    fn take_plain(v: &mut View<'_, Self>, i: usize, known: &mut Known<'_, F>) -> bool {
        let outer = v.head(i);
        let Some((total, dst)) = F::within(v, i).and_then(|inner| F::read(outer, inner)) else {
            return false;
        };
        let is_right = known.gatekeepers.has(F::source(outer)) && known.serves.has(dst);
        if !is_right || !plain::unwrap::<F, _>(v, i, total) {
            return false;
        }
        v.set(F::DST, i, dst);
        true
    }

    /// Chooses the edge of any other packet for an address of this machine.
    #[cold]
    #[inline(never)]
    fn other(&self, v: &mut View<'_, Self>, i: usize, settings: &Settings) {
        if F::holds_ip(v.rest(i))
            && let Err(why) = lead_on::<F, _>(v, i, settings, &self.counters)
        {
            v.drop(i, why);
        }
    }
}

/// Chooses the edge of a packet for this Grantor. By definition: a packet that is plain takes the
/// same edge with the same bytes.
pub(super) fn lead_on<F: Tunnels, N: Node<Edge = F::To>>(
    v: &mut View<'_, N>,
    i: usize,
    settings: &Settings,
    counters: &Counters,
) -> Result<(), Why> {
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
    counters.passed.add(1);
    Ok(())
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
        let mut known = Known::<F>::of(settings);
        let mut last = Last::<F> { iface: IfaceId(0), dst: F::Addr::default(), found: Found::None };
        let mut passed = 0;
        for i in 0..v.n() {
            Self::ask_ahead(v, i + AHEAD);
            let may_be_plain = F::holds_plain_ip(v.head(i));
            if !may_be_plain && !F::may_hold_ip(v.head(i)) {
                continue;
            }
            // Most packets have the destination of the one before.
            let key = (v.get(Iface, i), v.get(F::DST, i));
            let is_ours = (last.iface, last.dst) == key && last.found == Found::Ours;
            if !is_ours && !self.find(v.guard(), key, &mut last) {
                continue;
            }
            if may_be_plain && Self::take_plain(v, i, &mut known) {
                passed += 1;
            } else {
                self.other(v, i, settings);
            }
        }
        self.counters.passed.add(passed);
    }
}

/// The networks that plain packets come from and go to: of one vector, whose settings stay.
struct Known<'s, F: Tunnels> {
    gatekeepers: Near<'s, F::Addr>,
    serves: Near<'s, F::Addr>,
}

impl<'s, F: Tunnels> Known<'s, F> {
    fn of(settings: &'s Settings) -> Self {
        // In shadow mode nothing that is granted goes on.
        let served = (!settings.shadow).then_some(&settings.serves);
        Known { gatekeepers: Near::of(Some(&settings.gatekeepers)), serves: Near::of(served) }
    }
}

/// Whether an address is this machine's, as seen from an interface: the last one looked up.
struct Last<F: Family> {
    iface: IfaceId,
    dst: F::Addr,
    found: Found,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Found {
    /// Nothing was looked up.
    None,
    Not,
    Ours,
}

/// Packets whose inner headers are prefetched before they are read.
const AHEAD: usize = 12;

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
