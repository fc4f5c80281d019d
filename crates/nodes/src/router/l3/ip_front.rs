//! `ip4_front`, `ip6_front`: packets that enter at the front of a shield.
//!
//! ```text
//!  packet ─┬ from elsewhere ─► lookup
//!          └ from the front ─► front view ─┬ a protection ──────► shield   Answer
//!                                          ├ this router's, multicast ► punt
//!                                          └ anything else ─► drop, by name
//! ```
//!
//! | cost | a compare a packet; one lookup among the protections for those from the front |
//! |------|--------------------------------------------------------------------------------|
//!
//! Packets from the front reach the lookup only by the node behind `shield`: the front view
//! has no hop that leads out. The node exists only with a shield
//! ([`router::shield`](crate::router::shield)).

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use lookup::Hop;
use tables::hops::{of_withheld, withheld};
use tables::{Denied, Forwarding, HopTable, Ifaces, Kind, Side, VrfId};

use crate::class::Class;
use crate::family::Family;
use crate::lanes::{Answer, Iface, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Lookup = "lookup",
        Shield = "shield" carries [Answer],
        Punt = "punt" carries [PuntClass],
    }
}

labels! {
    /// Why packets from the front are dropped.
    pub enum Why {
        /// Their route leads to the front again.
        FrontToFront = "front_to_front",
        /// Their route leads to the back, and no protection lets them pass.
        FrontToBack = "front_to_back",
        /// No route, an unresolved neighbour, an interface of neither side.
        FrontElsewhere = "front_elsewhere",
        /// A blackhole route.
        Blackhole = "blackhole",
        /// An address that must not be routed (RFC 1812 §5.3.7, RFC 6890).
        Martian = "martian",
        /// The kernel's routes are being listed for the first time, just after the start.
        NotReady = "not_ready",
    }
}

/// The node of the family `F`.
pub struct Front<F> {
    forwarding: Arc<Forwarding>,
    family: PhantomData<F>,
}

impl<F: Family> Front<F> {
    /// A node that looks up in `forwarding`.
    pub fn new(forwarding: Arc<Forwarding>) -> Self {
        Front { forwarding, family: PhantomData }
    }
}

impl<F: Family> Node for Front<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::FRONT;
    const HELP: &'static str = "looks up what comes in at the front of a shield";
    const READS: Lanes = Lanes::of::<(Iface, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let n = v.n();
        v.leave_all(To::Lookup);
        let mut start = 0;
        while start < n {
            let iface = v.get(Iface, start);
            let end = (start + 1..n).find(|&i| v.get(Iface, i) != iface).unwrap_or(n);
            if ifaces.side(iface) == Side::Front {
                let vrf = ifaces.vrf.get(usize::from(iface.0)).copied().unwrap_or_default();
                shield(v, &self.forwarding, ifaces, vrf, start..end);
            }
            start = end;
        }
    }
}

/// Looks up a run of packets of one interface at the front.
fn shield<F: Family>(
    v: &mut View<'_, Front<F>>,
    forwarding: &Forwarding,
    ifaces: &Ifaces,
    vrf: VrfId,
    run: Range<usize>,
) {
    let vrfs = forwarding.vrfs.load(v.guard());
    let table: &HopTable = forwarding.hops.load(v.guard());
    let (keys, hops) = v.between(F::DST, Answer);
    let hops = &mut hops.first_mut(run.end)[run.clone()];
    match vrfs.get(usize::from(vrf.0)).and_then(|vrf| vrf.front.as_ref()) {
        Some(front) => F::front(front).lookup_batch(&keys.first(run.end)[run.clone()], hops),
        // An interface just marked: nothing passes.
        None => hops.fill(withheld(Hop::NONE)),
    }
    for i in run {
        let hop = v.get(Answer, i);
        match table.step(hop).kind() {
            Kind::Protected | Kind::Bypass | Kind::Discard => v.leave(i, To::Shield),
            kind => other(v, i, hop, kind, table, ifaces),
        }
    }
}

/// Packets that no protection covers.
#[cold]
#[inline(never)]
fn other<F: Family>(
    v: &mut View<'_, Front<F>>,
    i: usize,
    hop: Hop,
    kind: Kind,
    table: &HopTable,
    ifaces: &Ifaces,
) {
    let class = match kind {
        Kind::ForUs => Class::ForUs,
        Kind::Multicast => Class::Multicast,
        Kind::Blackhole => return v.drop(i, Why::Blackhole),
        Kind::Martian => return v.drop(i, Why::Martian),
        Kind::NotReady => return v.drop(i, Why::NotReady),
        _ => {
            let plain = of_withheld(hop).unwrap_or(Hop::NONE);
            return v.drop(
                i,
                match ifaces.why_withheld(table.step_of_flow(plain, 0), table) {
                    Denied::FrontToFront => Why::FrontToFront,
                    Denied::FrontToBack => Why::FrontToBack,
                    Denied::FrontElsewhere | Denied::BackToBack => Why::FrontElsewhere,
                },
            );
        }
    };
    v.set(PuntClass, i, class);
    v.leave(i, To::Punt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use crate::lanes::{Dst4, Dst6};
    use crate::testbed::{Net, shielded, to_p0, udp4, udp6};
    use tables::IfaceId;

    fn run(dst: &[&str], iface: &[u16]) -> Vec<String> {
        let net = Net::new();
        shielded(&net);
        let mut node = Front::<V4>::new(net.forwarding.clone());
        let frame = to_p0(udp4("10.0.0.1"));
        let outcomes = net.bench().run(&mut node, &vec![frame.as_slice(); dst.len()], |v, i| {
            v.set(Dst4, i, dst[i].parse::<std::net::Ipv4Addr>().unwrap().into());
            v.set(Iface, i, IfaceId(iface[i % iface.len()]));
        });
        outcomes
            .into_iter()
            .map(|got| match got.to.as_str() {
                "shield" => format!("shield {}", got.get(Answer).0),
                "punt" => format!("punt {:?}", got.get(PuntClass)),
                to => to.into(),
            })
            .collect()
    }

    #[test]
    fn each_hop_of_the_front_view_has_its_way() {
        // Interface 1 is the front, 2 the back, 3 neither.
        let rows = [
            ("10.20.0.1", "shield 12"),
            ("10.21.0.1", "shield 13"),
            ("10.22.0.1", "shield 14"),
            ("10.9.0.1", "drop: front_to_back"),
            ("10.23.0.1", "drop: front_to_front"),
            ("10.1.0.1", "drop: front_elsewhere"),
            ("10.2.0.1", "drop: front_to_back"),
            ("10.3.0.1", "drop: front_elsewhere"),
            ("10.5.0.1", "drop: front_elsewhere"),
            ("10.6.0.1", "drop: front_elsewhere"),
            ("11.0.0.1", "drop: front_elsewhere"),
            ("10.4.0.1", "drop: blackhole"),
            ("255.255.255.255", "drop: martian"),
            ("192.0.2.1", "punt ForUs"),
            ("224.0.0.5", "punt Multicast"),
        ];
        let want: Vec<_> = rows.iter().map(|(_, to)| *to).collect();
        assert_eq!(run(&rows.map(|(dst, _)| dst), &[1]), want);
        assert!(run(&rows.map(|(dst, _)| dst), &[2, 3, 3]).iter().all(|to| to == "lookup"));
    }

    #[test]
    fn runs_of_the_front_are_looked_up_alone() {
        let got = run(&["10.20.0.1"; 7], &[1, 1, 2, 1, 3, 9, 1]);
        let want =
            ["shield 12", "shield 12", "lookup", "shield 12", "lookup", "lookup", "shield 12"];
        assert_eq!(got, want);
    }

    #[test]
    fn without_a_front_view_nothing_passes() {
        let net = Net::new();
        shielded(&net);
        let guard = net.domain.register("test");
        let mut vrfs = net.forwarding.vrfs.load(guard.guard()).clone();
        vrfs[0].front = None;
        net.forwarding.vrfs.publish(vrfs);
        let mut node = Front::<V6>::new(net.forwarding.clone());
        let frame = to_p0(udp6("2001:db8::1"));
        let got = net.bench().run(&mut node, &[&frame], |v, i| {
            v.set(Dst6, i, "2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().into());
            v.set(Iface, i, IfaceId(1));
        });
        assert_eq!(got[0].to, "drop: front_elsewhere");
    }

    #[test]
    fn hops_of_ipv6_have_theirs() {
        let net = Net::new();
        shielded(&net);
        let mut node = Front::<V6>::new(net.forwarding.clone());
        let dst = ["2001:db8:20::1", "2001:db8:9::1", "2001:db8:ffff::1"];
        let frame = to_p0(udp6("2001:db8::1"));
        let got = net.bench().run(&mut node, &[frame.as_slice(); 3], |v, i| {
            v.set(Dst6, i, dst[i].parse::<std::net::Ipv6Addr>().unwrap().into());
            v.set(Iface, i, IfaceId(1));
        });
        let got: Vec<_> = got.iter().map(|got| got.to.as_str()).collect();
        assert_eq!(got, ["shield", "drop: front_to_back", "punt"]);
    }
}
