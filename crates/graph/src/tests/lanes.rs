//! Lanes: what a graph refuses, what a split moves, and lanes of applications.

use std::sync::{Arc, Mutex};

use super::{Bad, bench, frame};
use crate::needs::{Needs, Ways};
use crate::slots::{A16, A32, A64, C32, Ifaces, SlotSet, Slots, Stored};
use crate::{Builder, Card, Error, Lanes, NoDrop, NoEdge, Node, View};

crate::lanes! {
    /// Where it goes.
    Address = "address": A32 as u32;
    /// Where it was sent.
    Group = "group": A32 as u32;
    /// Why.
    Class = "class": A16 as u16;
    /// What an application knows of its flow.
    Flow = "flow": A64 as u64;
}

/// A node that does nothing to its packets.
macro_rules! node {
    ($type:ident, $name:literal, $to:ident {
        $($edge:ident = $text:literal $(carries [$($lane:ty),+])?),+ $(,)?
    }, reads $reads:ty $(, $more:item)?) => {
        crate::labels! { enum $to { $($edge = $text $(carries [$($lane),+])?),+ } }
        struct $type;
        impl Node for $type {
            type Edge = $to;
            type Drop = Bad;
            const NAME: &'static str = $name;
            const HELP: &'static str = "is for a test";
            const READS: Lanes = Lanes::of::<$reads>();
            $($more)?

            fn process(&mut self, v: &mut View<'_, Self>) {
                let edges = [$($to::$edge),+];
                v.leave_all(edges[0]);
            }
        }
    };
}

node!(Parse, "parse", FromParse { Find = "find" carries [Address] }, reads ());
node!(Find, "find", FromFind {
    Send = "send" carries [Group],
    Pass = "pass",
    Punt = "punt" carries [Class],
}, reads (Address,));
node!(Pass, "pass", FromPass { Send = "send" }, reads ());
node!(Send, "send", FromSend { Drop = "drop" }, reads (Group,));
node!(Punt, "punt", FromPunt { Drop = "drop" }, reads (Class,));
node!(Source, "source", FromSource { Send = "send" }, reads (), const SOURCE: bool = true;);
node!(Ticker, "ticker", FromTicker { Send = "send" }, reads (), const TICKS: bool = true;);
node!(Twice, "twice", FromTwice { Send = "send" carries [Address, Group] }, reads ());
node!(Spoil, "spoil", FromSpoil { Punt = "punt" carries [Address], Send = "send" }, reads ());
node!(Gate, "gate", FromGate { Find = "find", Drop = "drop" carries [Group] }, reads ());

struct Drop;
impl Node for Drop {
    type Edge = NoEdge;
    type Drop = NoDrop;
    const NAME: &'static str = "drop";
    const HELP: &'static str = "frees";

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.free();
    }
}

fn graph() -> Builder {
    Builder::new("parse").node(Parse).node(Find).node(Send).node(Punt).node(Drop)
}

fn refused(builder: Builder) -> String {
    builder.build(0).err().expect("it is refused").to_string()
}

#[test]
fn a_lane_that_is_read_is_filled_on_every_way() {
    assert!(graph().connect("find", "pass", "drop").build(0).is_ok());
    let pass = graph().node(Pass);
    assert_eq!(
        refused(pass),
        "node `send` reads lane `group`, which no node fills on the way find.pass, pass.send"
    );
    let bare = Builder::new("pass").node(Pass).node(Send).node(Drop);
    assert_eq!(
        refused(bare),
        "node `send` reads lane `group`, which no node fills on the way pass.send"
    );
    let first = Builder::new("send").node(Send).node(Drop);
    let want = Error::NotFilled { node: "send", lane: "group", way: Vec::new() };
    assert_eq!(first.build(0).err(), Some(want));
}

#[test]
fn no_lane_overwrites_another_that_is_read() {
    // `find` sends on what it has not looked at.
    let wrong = graph().connect("parse", "find", "send").connect("find", "pass", "drop");
    assert_eq!(
        refused(wrong),
        "node `send` reads lane `group`, and finds `address` in its slot on the way parse.find"
    );
    assert_eq!(
        refused(Builder::new("twice").node(Twice).node(Send).node(Drop)),
        "the edge `twice.send` carries `address` and `group`, which share a slot"
    );
    // What a node fills for one edge is gone on the others, too.
    let spoil =
        graph().node(Spoil).connect("find", "pass", "drop").connect("find", "send", "spoil");
    let want = Error::Overwritten {
        node: "send",
        lane: "group",
        other: "address",
        way: vec!["spoil.send".into()],
    };
    assert_eq!(spoil.connect("spoil", "punt", "drop").build(0).err(), Some(want));
}

#[test]
fn what_a_node_puts_in_comes_with_what_its_edges_carry() {
    for graph in [
        graph().connect("find", "pass", "drop").node(Source),
        graph().connect("find", "pass", "drop").connect("find", "send", "ticker").node(Ticker),
    ] {
        let said = refused(graph);
        assert!(said.contains("`send` reads lane `group`, which no node fills"), "{said}");
    }
}

/// Off, it is as if it were not there; it must fit all the same.
#[test]
fn an_inset_leaves_lanes_alone() {
    let graph = || graph().connect("find", "pass", "drop");
    assert!(graph().inset("send", Inset, &[]).build(0).is_ok());
    assert_eq!(
        refused(graph().inset("find", Gate, &[])),
        "node `find` reads lane `address`, and finds `group` in its slot on the way gate.find"
    );
    assert!(graph().inset("find", Gate, &["parse"]).build(0).is_ok(), "it stands before nobody");
    assert_eq!(
        refused(
            Builder::new("find")
                .node(Find)
                .node(Send)
                .node(Punt)
                .node(Drop)
                .inset("find", Inset2, &[])
                .connect("find", "pass", "drop")
        ),
        "node `find` reads lane `address`, which no node fills on the way inset2.find"
    );
}

node!(Inset, "inset", FromInset { Send = "send" carries [Flow] }, reads (Group,));
node!(Inset2, "inset2", FromInset2 { Find = "find" }, reads ());

node!(Shield, "shield", FromShield {
    Find = "find" carries [Address, Flow, Iface],
    Drop = "drop",
}, reads ());
node!(Shaper, "shaper", FromShaper { Drop = "drop" }, reads (Group, Flow));

crate::lanes! {
    /// Where it came in.
    Iface = "iface": Ifaces as u16;
}

/// By name, what has to come with a packet to each node.
fn needs(cards: &[Card], next: &[Vec<usize>]) -> Vec<SlotSet> {
    let here = |needs: Vec<Needs>| needs.into_iter().map(|needs| needs.here).collect();
    let order: Vec<usize> = (0..cards.len()).collect();
    let ways = Ways::new(cards, next, &[], (0, cards.len() - 1));
    here(ways.needs(&order).expect("it fits together"))
}

#[test]
fn a_split_moves_what_following_nodes_read_and_nothing_more() {
    let (none, a32, a16) = (SlotSet::NONE, A32::BIT, A16::BIT);
    // parse ► find ┬ send, punt ► drop
    let cards = [Card::of::<Parse>(), Card::of::<Find>(), Card::of::<Send>(), Card::of::<Punt>()];
    let cards = [cards.as_slice(), &[Card::of::<Drop>()]].concat();
    let next = vec![vec![1], vec![2, 4, 3], vec![4], vec![4], vec![]];
    assert_eq!(needs(&cards, &next), [none, a32, a32, a16, none]);
    // shield ► find ┬ shaper: a lane of an application, over a node that does not know it;
    // and the interface, which captures show, to wherever it is known.
    let cards =
        [Card::of::<Shield>(), Card::of::<Find>(), Card::of::<Shaper>(), Card::of::<Drop>()];
    let next = vec![vec![1, 3], vec![2, 3, 3], vec![3], vec![]];
    let (flow, iface) = (A64::BIT, Ifaces::BIT);
    let all = a32.and(flow).and(iface);
    assert_eq!(needs(&cards, &next), [none, all, all, iface]);
}

#[test]
fn only_what_is_asked_for_is_copied() {
    let (mut from, mut to) = (Slots::new(), Slots::new());
    A32::of_mut(&mut from).first_mut(4).copy_from_slice(&[1, 2, 3, 4]);
    C32::of_mut(&mut from).first_mut(4).copy_from_slice(&[1, 2, 3, 4]);
    to.copy(1, &from, 2..4, C32::BIT);
    assert_eq!((A32::of(&to).first(4), C32::of(&to).first(4)), (&[0; 4][..], &[0, 3, 4, 0][..]));
    from.shift(2..4, 0, A32::BIT);
    let now = (A32::of(&from).first(4), C32::of(&from).first(4));
    assert_eq!(now, (&[3, 4, 3, 4][..], &[1, 2, 3, 4][..]));
}

/// Fills its lane for packets that begin with 0, and forgets the others.
struct Forgetful;
impl Node for Forgetful {
    type Edge = FromParse;
    type Drop = Bad;
    const NAME: &'static str = "forgetful";
    const HELP: &'static str = "is for a test";

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in (0..v.n()).filter(|&i| v.head(i)[0] == 0).collect::<Vec<_>>() {
            v.set(Address, i, 1);
        }
        v.leave_all(FromParse::Find);
    }
}

struct Reader(Arc<Mutex<Vec<u32>>>);
impl Node for Reader {
    type Edge = FromSend;
    type Drop = Bad;
    const NAME: &'static str = "reader";
    const HELP: &'static str = "is for a test";
    const READS: Lanes = Lanes::of::<(Address,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.0.lock().unwrap().extend(v.values(Address));
        v.leave_all(FromSend::Drop);
    }
}

/// Else it has that of an earlier packet, which is often right.
#[test]
#[cfg(debug_assertions)]
fn a_lane_that_a_node_forgets_to_fill_is_poison() {
    let read = Arc::new(Mutex::new(Vec::new()));
    let graph = Builder::new("forgetful").node(Forgetful).node(Reader(read.clone())).node(Drop);
    let mut graph = graph.connect("forgetful", "find", "reader").build(0).unwrap();
    let mut bench = bench();
    graph.ports().set(0, bench.graph.ports().remove(0).unwrap());
    for kinds in [[0; 4], [1, 0, 1, 0]] {
        kinds.iter().for_each(|&kind| bench.peer.push(&frame(kind, 0)));
        graph.poll(bench.thread.guard());
    }
    let poison = 0xfdfd_fdfd;
    assert_eq!(*read.lock().unwrap(), [1, 1, 1, 1, poison, 1, poison, 1]);
}
