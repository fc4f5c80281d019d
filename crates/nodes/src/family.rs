//! IPv4 and IPv6, for the nodes that both share.

use graph::Lane;
use graph::slot::Slot;
use lookup::Addr;
use lookup::lpm::Lpm;
use tables::{Forwarding, FrontView, Recent, Vrf};
use wire::bytes::array;
use wire::flow::Hasher;
use wire::{ethernet, ipv4, ipv6};

use crate::lanes::{Dst4, Dst6};

/// What differs between the families. All of it is known when the nodes are
/// compiled: a shared node costs what one written for its family costs.
pub trait Family: Send + 'static {
    /// Its addresses as numbers, host byte order.
    type Addr: Addr;
    /// The lane with the destinations: as they are.
    type Dst: Lane<Value = Self::Addr, Slot: Slot<Bits = Self::Addr>>;
    /// The lane of destinations.
    const DST: Self::Dst;
    /// Name of the node [`Sources`](crate::router::l3::ip_source::Sources).
    const SOURCE: &'static str;
    /// Name of the node [`Front`](crate::router::l3::ip_front::Front).
    const FRONT: &'static str;
    /// Name of the node [`Sides`](crate::router::l3::ip_sides::Sides).
    const SIDES: &'static str;
    /// Name of the node that checks headers.
    const INPUT: &'static str;
    /// Name of the node that an application may put behind it, for packets that were cut
    /// ([`Assembly::longer`](crate::assembly::Assembly::longer)).
    const LONGER: &'static str;
    /// Name of the node [`Lookup`](crate::router::l3::ip_lookup::Lookup).
    const LOOKUP: &'static str;
    /// Name of the node [`Multipath`](crate::router::l3::ip_multipath::Multipath).
    const MULTIPATH: &'static str;
    /// Name of the node [`Rewrite`](crate::router::rewrite::ip_rewrite::Rewrite).
    const REWRITE: &'static str;
    /// EtherType.
    const ETHERTYPE: u16;

    /// The family's table of a VRF.
    fn table(vrf: &Vrf) -> &dyn Lpm<Self::Addr>;

    /// The family's table of a front view.
    fn front(view: &FrontView) -> &dyn Lpm<Self::Addr>;

    /// Where destinations met are noted.
    fn recent(forwarding: &Forwarding) -> &Recent;

    /// The source of a packet that starts at `head`.
    fn source(head: &[u8; 64]) -> Self::Addr;

    /// The hash of the flow of a packet that starts at `head`.
    fn flow(hasher: &Hasher, head: &[u8; 64]) -> u32;

    /// A word whose lowest byte is the TTL or hop limit.
    fn limit(head: &[u8; 64]) -> u32;

    /// Writes what [`Family::limit`] gave with a limit one less; it is not 0.
    fn decrement(head: &mut [u8; 64], limit: u32);
}

/// IPv4.
pub enum V4 {}

/// IPv6.
pub enum V6 {}

impl Family for V4 {
    type Addr = u32;
    type Dst = Dst4;
    const DST: Dst4 = Dst4;
    const SOURCE: &'static str = "ip4_source";
    const FRONT: &'static str = "ip4_front";
    const SIDES: &'static str = "ip4_sides";
    const INPUT: &'static str = "ip4_input";
    const LONGER: &'static str = "ip4_longer";
    const LOOKUP: &'static str = "ip4_lookup";
    const MULTIPATH: &'static str = "ip4_multipath";
    const REWRITE: &'static str = "ip4_rewrite";
    const ETHERTYPE: u16 = ethernet::IPV4;

    #[inline(always)]
    fn table(vrf: &Vrf) -> &dyn Lpm<u32> {
        &*vrf.v4
    }

    #[inline(always)]
    fn front(view: &FrontView) -> &dyn Lpm<u32> {
        &*view.v4
    }

    #[inline(always)]
    fn recent(forwarding: &Forwarding) -> &Recent {
        &forwarding.recent4
    }

    #[inline(always)]
    fn source(head: &[u8; 64]) -> u32 {
        u32::from_be_bytes(array(head, ipv4::SRC))
    }

    #[inline(always)]
    fn flow(hasher: &Hasher, head: &[u8; 64]) -> u32 {
        hasher.ipv4(head)
    }

    /// TTL, protocol and checksum, in memory order.
    #[inline(always)]
    fn limit(head: &[u8; 64]) -> u32 {
        u32::from_le_bytes(array(head, ipv4::TTL))
    }

    #[inline(always)]
    fn decrement(head: &mut [u8; 64], limit: u32) {
        head[ipv4::TTL..ipv4::TTL + 4].copy_from_slice(&decremented(limit).to_le_bytes());
    }
}

impl Family for V6 {
    type Addr = u128;
    type Dst = Dst6;
    const DST: Dst6 = Dst6;
    const SOURCE: &'static str = "ip6_source";
    const FRONT: &'static str = "ip6_front";
    const SIDES: &'static str = "ip6_sides";
    const INPUT: &'static str = "ip6_input";
    const LONGER: &'static str = "ip6_longer";
    const LOOKUP: &'static str = "ip6_lookup";
    const MULTIPATH: &'static str = "ip6_multipath";
    const REWRITE: &'static str = "ip6_rewrite";
    const ETHERTYPE: u16 = ethernet::IPV6;

    #[inline(always)]
    fn table(vrf: &Vrf) -> &dyn Lpm<u128> {
        &*vrf.v6
    }

    #[inline(always)]
    fn front(view: &FrontView) -> &dyn Lpm<u128> {
        &*view.v6
    }

    #[inline(always)]
    fn recent(forwarding: &Forwarding) -> &Recent {
        &forwarding.recent6
    }

    #[inline(always)]
    fn source(head: &[u8; 64]) -> u128 {
        u128::from_be_bytes(array(head, ipv6::SRC))
    }

    #[inline(always)]
    fn flow(hasher: &Hasher, head: &[u8; 64]) -> u32 {
        hasher.ipv6(head)
    }

    #[inline(always)]
    fn limit(head: &[u8; 64]) -> u32 {
        u32::from(head[ipv6::HOP_LIMIT])
    }

    #[inline(always)]
    fn decrement(head: &mut [u8; 64], limit: u32) {
        head[ipv6::HOP_LIMIT] = limit.wrapping_sub(1) as u8;
    }
}

/// TTL, protocol and checksum with the TTL one less: in memory order the checksum
/// is in the upper half, and 1 more (RFC 1624 equation 3: by carry 2 more where
/// it is 0xfffe or 0xffff). The TTL is not 0.
#[inline(always)]
fn decremented(word: u32) -> u32 {
    let no_carry = u32::from(word < 0xfffe_0000) << 16;
    word.wrapping_add(0x1_ffff).wrapping_sub(no_carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_follows_the_ttl() {
        for check in 0..=u16::MAX {
            let [low, high] = check.to_be_bytes();
            let word = u32::from_le_bytes([64, 17, low, high]);
            let [ttl, protocol, low, high] = decremented(word).to_le_bytes();
            let want = wire::checksum::after_ttl_decrement(check);
            assert_eq!((ttl, protocol, u16::from_be_bytes([low, high])), (63, 17, want));
        }
    }
}
