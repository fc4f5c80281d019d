//! `ip4_multipath`, `ip6_multipath`: chooses one of a route's several next hops
//! by the packet's flow.
//!
//! ```text
//!  flow hash × members of the group ► hop ► step ─┬ forward ► rewrite   Adjacency
//!  (weight = how often a hop is a member)         └ else ───► punt, drop
//! ```
//!
//! | cost | the device's hash, or two multiplications (IPv6: four); three dependent reads |
//! |------|-------------------------------------------------------------------------------|
//! |      | in a shield: two sides more; where the member is no way, a look at each of the group |
//!
//! In a shield, packets from the front may leave at the back only, and those from the back not
//! there: of the members those count by which a packet may leave (`ip_sides`), if there are any.
//! So a route that both sides have at equal cost loses none of its flows.
//!
//! Source: RFC 2992 (equal-cost multi-path by hash), RFC 6438 for IPv6. A flow keeps
//! its path, and so its order, as long as the group exists. Each router draws its own
//! key of the hash; otherwise flows that one router has sent the same way would all
//! choose alike at the next router (polarisation).
//!
//! A flow whose hop has no neighbour yet does not move to another path: the first
//! packet in a second to a destination is punted, the others are dropped. The kernel
//! chooses a path by its own hash (`net.ipv4.fib_multipath_hash_policy`), so those
//! few may go by another path, though none from the back of a shield to the back: it is
//! dropped where the kernel could choose so; once the neighbour is known, all go by that of the
//! flow. The neighbour is asked for whether or not they do: gateways are managed
//! (`feeds::netlink::keep`).

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, Packets, View, labels};
use lookup::Hop;
use tables::{Forwarding, HopTable, IfaceId, Ifaces, Kind, Side, Step};
use wire::flow::Hasher;

use super::step::{self, Why};
use crate::family::Family;
use crate::lanes::{Adjacency, Answer, Group, Iface, PuntClass};

labels! {
    /// Where packets go.
    pub enum To {
        Rewrite = "rewrite" carries [Adjacency, Answer],
        Punt = "punt" carries [PuntClass, Answer],
    }
}

/// The node of the family `F`.
pub struct Multipath<F> {
    forwarding: Arc<Forwarding>,
    hasher: Hasher,
    family: PhantomData<F>,
}

impl<F: Family> Multipath<F> {
    /// A node that chooses by `hasher` where the device computed no hash. All
    /// workers must have the same hasher.
    pub fn new(forwarding: Arc<Forwarding>, hasher: Hasher) -> Self {
        Multipath { forwarding, hasher, family: PhantomData }
    }
}

impl<F: Family> Node for Multipath<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = F::MULTIPATH;
    const HELP: &'static str = "chooses among several next hops by the hash of the flow";
    const READS: Lanes = Lanes::of::<(Group, Iface)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops = self.forwarding.hops.load(v.guard());
        let ifaces = self.forwarding.ifaces.load(v.guard());
        v.leave_all(To::Rewrite);
        if !choose::<F>(v, hops, &self.hasher, ifaces.sided.then_some(ifaces)) {
            v.postponed(To::Punt, |v, i| other(v, i, hops, &self.forwarding));
        }
    }
}

/// Packets whose hops did not forward; one may since, its neighbour resolved meanwhile.
fn other<F: Family>(
    v: &mut View<'_, Multipath<F>>,
    i: usize,
    hops: &HopTable,
    forwarding: &Forwarding,
) {
    let step = hops.step(v.get(Answer, i));
    match step.forward() {
        Some(adjacency) => {
            v.set(Adjacency, i, adjacency);
            v.leave(i, To::Rewrite);
        }
        None => {
            let way = Step::new(Kind::Multipath, v.get(Group, i).0);
            step::other(v, i, (step, way), To::Punt, forwarding);
        }
    }
}

/// Chooses, and postpones packets whose hops do not forward; false where there are any.
#[inline(never)]
fn choose<F: Family>(
    v: &mut Packets<Multipath<F>>,
    hops: &HopTable,
    hasher: &Hasher,
    sides: Option<&Ifaces>,
) -> bool {
    let mut all = true;
    for i in 0..v.n() {
        let hash = v.device_hash(i).unwrap_or_else(|| F::flow(hasher, v.head(i)));
        let group = v.get(Group, i).0;
        let hop = match sides {
            None => hops.member(group, hash),
            Some(ifaces) => leading_on((group, hash), v.get(Iface, i), hops, ifaces),
        };
        v.set(Answer, i, hop);
        match hops.step(hop).forward() {
            Some(adjacency) => v.set(Adjacency, i, adjacency),
            None => {
                v.postpone(i);
                all = false;
            }
        }
    }
    all
}

/// The member by which packets of this interface may leave; the flow's own one where none is.
#[inline(never)]
fn leading_on((group, hash): (u32, u32), iface: IfaceId, hops: &HopTable, ifaces: &Ifaces) -> Hop {
    let from = ifaces.side(iface);
    let may = |hop| {
        let out = hops.step(hop).forward().map(|of| hops.adjacency(of).out().iface());
        out.is_some_and(|out| from.may_leave_at(ifaces.side(out), true).is_ok())
    };
    match from {
        // Whichever way they go.
        Side::Neither => hops.member(group, hash),
        _ => hops.member_that(group, hash, may).unwrap_or_else(|| hops.member(group, hash)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use crate::lanes::GroupId;
    use crate::testbed::{Net, shielded, stripped, to_p0, udp4};
    use graph::testing::Outcome;
    use std::net::{SocketAddrV4, SocketAddrV6};
    use tables::hops::fixed;
    use wire::build::Frame;

    fn run<F: Family>(frames: &[Vec<u8>], group: u32) -> Vec<Outcome> {
        let net = Net::new();
        let mut node = Multipath::<F>::new(net.forwarding.clone(), Hasher::new(7));
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        net.bench().run(&mut node, &frames, |v, i| {
            stripped(v, i);
            v.set(Group, i, GroupId(group));
        })
    }

    fn spreads(outcomes: &[Outcome]) {
        assert!(outcomes.iter().all(|got| got.to == "rewrite"));
        assert!(outcomes.chunks(2).all(|pair| pair[0].get(Adjacency) == pair[1].get(Adjacency)));
        let second = outcomes
            .iter()
            .filter(|got| (got.get(Adjacency).0, got.get(Answer).0) == (9, 9))
            .count();
        assert!((120..=200).contains(&second), "{second} of 240, 160 expected");
    }

    #[test]
    fn flows_spread_by_weight_and_stay() {
        let (src, dst): (SocketAddrV4, SocketAddrV4) =
            ("198.51.100.7:1".parse().unwrap(), "10.2.0.1:53".parse().unwrap());
        let frame = |i: u16| to_p0(Frame::udp4(SocketAddrV4::new(*src.ip(), 1000 + i / 2), dst));
        spreads(&run::<V4>(&(0..240).map(frame).collect::<Vec<_>>(), 1));
        let (src, dst): (SocketAddrV6, SocketAddrV6) =
            ("[2001:db8:9::7]:1".parse().unwrap(), "[2001:db8:2::1]:53".parse().unwrap());
        let from = |i: u16| SocketAddrV6::new(*src.ip(), 1000 + i / 2, 0, 0);
        let frame = |i: u16| to_p0(Frame::udp6(from(i), dst));
        spreads(&run::<V6>(&(0..240).map(frame).collect::<Vec<_>>(), 1));
    }

    /// By adjacency 8 to the back, by 9 to neither side, by 10 to the front.
    #[test]
    fn in_a_shield_flows_take_the_members_by_which_they_may_leave() {
        let net = Net::new();
        shielded(&net);
        let thread = net.domain.register("groups");
        let hops = net.forwarding.hops.load(thread.guard());
        let [back, neither, front] = [Hop(8), Hop(9), Hop(15)];
        let unresolved = Hop(11);
        hops.set_group(2, 8, &[front, back, neither, unresolved]);
        hops.set_group(3, 16, &[front, front]);
        let frame = |i: u16| {
            let from = SocketAddrV4::new([198, 51, 100, 7].into(), i);
            to_p0(Frame::udp4(from, "10.2.0.1:53".parse().unwrap()))
        };
        let frames: Vec<_> = (0..240).map(frame).collect();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let ways = |from: u16, group: u32| {
            let mut node = Multipath::<V4>::new(net.forwarding.clone(), Hasher::new(7));
            let got = net.bench().run(&mut node, &frames, |v, i| {
                stripped(v, i);
                v.set(Group, i, GroupId(group));
                v.set(Iface, i, IfaceId(from));
            });
            [8, 9, 10].map(|id| {
                let by = |got: &&Outcome| got.to == "rewrite" && got.get(Adjacency).0 == id;
                got.iter().filter(by).count()
            })
        };
        assert_eq!(ways(1, 2), [240, 0, 0], "from the front to the back alone");
        let [to_back, out, to_front] = ways(2, 2);
        assert_eq!((to_back, out + to_front), (0, 240));
        assert!((90..=150).contains(&out), "{out} of 240, 120 expected");
        let all = ways(3, 2);
        assert!(all.iter().all(|n| (35..=85).contains(n)), "{all:?}: 60 each, 60 unresolved");
        assert_eq!(ways(1, 3), [0, 0, 240], "no way: `ip4_sides` drops it by name");
        // Where the kernel could choose the back, it gets nothing from there.
        hops.set_group(4, 18, &[unresolved, back]);
        hops.set_group(5, 20, &[unresolved, fixed::VIA_KERNEL]);
        hops.set_group(6, 22, &[unresolved, Hop(16)]);
        for (from, group, want) in [
            (2, 4, "drop: back_to_back"),
            (2, 5, "punt"),
            (2, 6, "drop: back_to_back"),
            (3, 6, "punt"),
        ] {
            let mut node = Multipath::<V4>::new(net.forwarding.clone(), Hasher::new(7));
            let got = net.bench().run(&mut node, &frames, |v, i| {
                stripped(v, i);
                v.set(Group, i, GroupId(group));
                v.set(Iface, i, IfaceId(from));
            });
            // What a flow's own member takes to the back is `ip_sides`'s.
            let mut others = got.iter().filter(|got| got.to != "rewrite").peekable();
            assert!(
                others.peek().is_some() && others.all(|got| got.to == want),
                "{from} by {group}"
            );
        }
    }

    #[test]
    fn an_empty_group_is_no_route() {
        assert_eq!(run::<V4>(&[to_p0(udp4("10.2.0.1"))], 5)[0].to, "punt");
    }
}
