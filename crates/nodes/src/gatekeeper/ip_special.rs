//! `ip4_special`, `ip6_special`: packets that the header checks leave to the kernel.
//!
//! ```text
//!  ip4_input, ip6_input ─ punt ─┬ from elsewhere ─────────────────────► punt   PuntClass
//!                               ├ from the back ─► plain view ─┬ leads to the back, a decision ► drop
//!                               │                              └ anything else ─────────► punt
//!                               └ from the front ─► front view ─┬ this router's, multicast ► punt
//!                                    options ─► a protection ───┼────────► shield   Answer
//!                                    of one link ───────────────┴ anything else ─► drop
//! ```
//!
//! | cost | such packets alone: a lookup of those from the front or the back |
//! |------|-------------------------------------------------------------------|
//!
//! Packets with IPv4 options, and IPv6 packets of one link. The kernel would forward the
//! former, to a protected host too; and the latter to a host of the link that they came from.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use lookup::Hop;
use lookup::sync::{Guard, Published};
use tables::{Forwarding, HopTable, IfaceId, Kind, Side};
use wire::bytes::{array, be16};
use wire::{ipv4, ipv6};

use super::decisions::is_message_to_us;
use super::settings::{Counters, Settings};
use crate::family::{Family, V4, V6};
use crate::lanes::{Answer, Iface, PuntClass};
use crate::parse::cut::cut;

labels! {
    /// Where packets go.
    pub enum To {
        Punt = "punt" carries [PuntClass],
        Shield = "shield" carries [Answer],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// Nothing protects their destination, and it is not this router.
        NotForUs = "not_for_us",
        /// From an address of one link alone to another network: RFC 4291 §2.5.6.
        LinkLocal = "link_local",
        /// A message of decisions to this router, with IPv4 options: `options` among the refused.
        Decision = "decision",
        /// From the back, and its route leads there.
        BackToBack = "back_to_back",
    }
}

/// What differs between the families.
pub trait Special: Family {
    /// The node's name.
    const SPECIAL: &'static str;
    /// The destination; `None` where it is on the link for certain.
    fn beyond_the_link(head: &[u8; 64]) -> Option<Self::Addr>;
    /// Bytes of the packet where it may be protected.
    fn total(head: &[u8; 64]) -> Option<u16>;
    /// Whether it is a message of decisions to this router.
    fn is_message(packet: &[u8], settings: &Settings) -> bool;
}

impl Special for V4 {
    const SPECIAL: &'static str = "ip4_special";

    fn beyond_the_link(head: &[u8; 64]) -> Option<u32> {
        Some(u32::from_be_bytes(array(head, ipv4::DST)))
    }

    fn total(head: &[u8; 64]) -> Option<u16> {
        Some(be16(head, ipv4::TOTAL_LEN))
    }

    fn is_message(packet: &[u8], settings: &Settings) -> bool {
        is_message_to_us(packet, settings)
    }
}

impl Special for V6 {
    const SPECIAL: &'static str = "ip6_special";

    fn beyond_the_link(head: &[u8; 64]) -> Option<u128> {
        let first = be16(head, ipv6::DST);
        let stays = first >> 8 == 0xff || first & 0xffc0 == 0xfe80;
        (!stays).then(|| u128::from_be_bytes(array(head, ipv6::DST)))
    }

    fn total(_: &[u8; 64]) -> Option<u16> {
        None // from one link alone
    }

    fn is_message(_: &[u8], _: &Settings) -> bool {
        false // what comes here is of one link
    }
}

/// The hop of `dst` in the plain view of the interface's VRF.
fn plain_hop<F: Family>(
    forwarding: &Forwarding,
    guard: Guard<'_>,
    iface: IfaceId,
    dst: F::Addr,
) -> Hop {
    let vrf = forwarding.ifaces.load(guard).vrf.get(usize::from(iface.0)).copied();
    let vrfs = forwarding.vrfs.load(guard);
    let vrf = vrfs.get(usize::from(vrf.unwrap_or_default().0));
    vrf.map_or(Hop::NONE, |vrf| F::table(vrf).lookup(dst))
}

/// The hop of `dst` in the front view of the interface's VRF.
pub(super) fn front_hop<F: Family>(
    forwarding: &Forwarding,
    guard: Guard<'_>,
    iface: IfaceId,
    dst: F::Addr,
) -> Hop {
    let ifaces = forwarding.ifaces.load(guard);
    let vrf = ifaces.vrf.get(usize::from(iface.0)).copied().unwrap_or_default();
    let vrfs = forwarding.vrfs.load(guard);
    let front = vrfs.get(usize::from(vrf.0)).and_then(|vrf| vrf.front.as_ref());
    front.map_or(Hop::NONE, |front| F::front(front).lookup(dst))
}

/// The node of the family `F`.
pub struct IpSpecial<F> {
    of: Of,
    family: PhantomData<F>,
}

/// What it is made of.
type Of = (Arc<Forwarding>, Arc<Published<Settings>>, Arc<Counters>);

impl<F: Special> IpSpecial<F> {
    /// A node that looks up in these tables, and knows decisions by these settings.
    pub fn new(of: Of) -> Self {
        IpSpecial { of, family: PhantomData }
    }
}

impl<F: Special> Node for IpSpecial<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::SPECIAL;
    const HELP: &'static str = "keeps from the kernel what a shield must not lose sight of";
    const READS: Lanes = Lanes::of::<(Iface, PuntClass)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (forwarding, settings, counters) = &self.of;
        let ifaces = forwarding.ifaces.load(v.guard());
        let hops: &HopTable = forwarding.hops.load(v.guard());
        let settings = settings.load(v.guard());
        v.leave_all(To::Punt);
        for i in 0..v.n() {
            let iface = v.get(Iface, i);
            let side = ifaces.side(iface);
            if side == Side::Back && F::is_message(v.rest(i), settings) {
                counters.decisions.options.add(1);
                v.drop(i, Why::Decision);
                continue;
            }
            let Some(dst) = F::beyond_the_link(v.head(i)) else { continue };
            if side == Side::Back {
                let hop = plain_hop::<F>(forwarding, v.guard(), iface, dst);
                if ifaces.leads_to_back(hops.step(hop), hops) {
                    v.drop(i, Why::BackToBack);
                }
            }
            if side != Side::Front {
                continue;
            }
            let hop = front_hop::<F>(forwarding, v.guard(), iface, dst);
            let kind = hops.step(hop).kind();
            match kind {
                Kind::ForUs | Kind::Multicast => {}
                Kind::Protected | Kind::Bypass | Kind::Discard => {
                    let Some(total) = F::total(v.head(i)) else {
                        v.drop(i, Why::LinkLocal);
                        continue;
                    };
                    // Of the others all bytes of the frame count: `shield` cuts what asks.
                    if kind == Kind::Bypass {
                        cut(v, i, total); // no longer than the frame: checked
                    }
                    v.set(Answer, i, hop);
                    v.leave(i, To::Shield);
                }
                _ => v.drop(i, Why::NotForUs),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::testbed::{Net, shielded, to_p0, udp4, udp6};
    use wire::build::Frame;

    fn run<F: Special>(frames: &[Frame<'_>], iface: u16) -> Vec<String> {
        let net = Net::new();
        shielded(&net);
        let frames: Vec<_> = frames.iter().map(|frame| to_p0(*frame)).collect();
        let frames: Vec<_> = frames.iter().map(|frame| &frame[..]).collect();
        let settings = Arc::new(Published::new(&net.domain, Settings::default()));
        let of = (net.forwarding.clone(), settings, Counters::new(0));
        let mut node = IpSpecial::<F>::new(of);
        let got = net.bench().run(&mut node, &frames, |v, i| {
            assert!(v.advance(i, 14));
            v.set(Iface, i, IfaceId(iface));
            v.set(PuntClass, i, Class::Options);
        });
        got.iter().map(|got| got.to.clone()).collect()
    }

    #[test]
    fn options_from_the_front_meet_the_shield() {
        let with = |dst| udp4(dst).options(&[7, 4, 4, 0]);
        let dst = ["10.20.0.1", "10.21.0.1", "10.22.0.1", "10.9.0.1", "192.0.2.1", "224.0.0.22"];
        let want =
            ["shield", "shield", "shield", "drop: not_for_us", "punt", "punt"].map(str::to_owned);
        assert_eq!(run::<V4>(&dst.map(with), 1), want);
    }

    #[test]
    fn options_from_the_back_do_not_lead_there() {
        let with = |dst| udp4(dst).options(&[7, 4, 4, 0]);
        // To the back: resolved, one of several ways, not resolved yet.
        let to_back = ["10.9.0.1", "10.20.0.1", "10.2.0.1", "10.24.0.1"];
        assert!(run::<V4>(&to_back.map(with), 2).iter().all(|to| to == "drop: back_to_back"));
        let others = ["10.1.0.1", "10.3.0.1", "10.5.0.1", "10.25.0.1", "192.0.2.1", "224.0.0.22"];
        assert!(run::<V4>(&others.map(with), 2).iter().all(|to| to == "punt"));
        assert!(run::<V4>(&to_back.map(with), 3).iter().all(|to| to == "punt"), "of no side");
    }

    #[test]
    fn what_is_of_one_link_stays_there() {
        let from = |dst: &str| {
            let dst = std::net::SocketAddrV6::new(dst.parse().unwrap(), 53, 0, 0);
            Frame::udp6("[fe80::7]:4000".parse().unwrap(), dst)
        };
        let frames = [
            from("2001:db8:20::1"),
            from("2001:db8:9::1"),
            from("2001:db8:ffff::1"),
            from("ff02::1"),
            udp6("fe80::9"),
        ];
        let want = ["drop: link_local", "drop: not_for_us", "punt", "punt", "punt"];
        assert_eq!(run::<V6>(&frames, 1), want.map(str::to_owned));
        let back = "drop: back_to_back";
        let want = [back, back, "punt", "punt", "punt"];
        assert_eq!(run::<V6>(&frames, 2), want.map(str::to_owned));
    }
}
