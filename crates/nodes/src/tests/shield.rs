//! A router with a shield whose node does the least: what bypasses goes on to the lookup.

use std::marker::PhantomData;
use std::sync::Arc;

use graph::{Lanes, Node, View, labels};
use tables::{Forwarding, Kind};
use wire::build::Frame;

use super::router::Rig;
use crate::assembly::Assembly;
use crate::family::{Family, V4, V6};
use crate::lanes::Answer;
use crate::testbed::{shielded, to_p0, udp4, udp6};
use crate::{Class, router};

labels! {
    /// Where packets go.
    enum To {
        Lookup = "lookup",
    }
}

/// Takes the place of a shield's node.
struct Stub<F>(Arc<Forwarding>, PhantomData<F>);

trait Named {
    const NAME: &'static str;
}

impl Named for V4 {
    const NAME: &'static str = "stub4";
}

impl Named for V6 {
    const NAME: &'static str = "stub6";
}

labels! {
    /// Why packets are dropped.
    enum Why {
        Protected = "protected",
        Discard = "discard",
    }
}

impl<F: Family + Named> Node for Stub<F> {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = <F as Named>::NAME;
    const HELP: &'static str = "lets pass what bypasses";
    const READS: Lanes = Lanes::of::<(Answer, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let hops = self.0.hops.load(v.guard());
        v.leave_all(To::Lookup);
        for i in 0..v.n() {
            match hops.step(v.get(Answer, i)).kind() {
                Kind::Bypass => {}
                Kind::Protected => v.drop(i, Why::Protected),
                _ => v.drop(i, Why::Discard),
            }
        }
    }
}

fn shield(assembly: Assembly, sources: bool) -> Assembly {
    let forwarding = assembly.common.forwarding.clone();
    let stub = |assembly: Assembly| {
        let (four, six) = (forwarding.clone(), forwarding.clone());
        let (four, six) = (Stub::<V4>(four, PhantomData), Stub::<V6>(six, PhantomData));
        let assembly = assembly.node(four).node(six);
        assembly.connect("stub4", "lookup", V4::LOOKUP).connect("stub6", "lookup", V6::LOOKUP)
    };
    let assembly = if sources { router::check_sources(assembly) } else { assembly };
    stub(router::shield(assembly, sources, ["stub4", "stub6"]))
}

#[test]
fn only_what_a_protection_lets_pass_leaves_the_front() {
    for sources in [false, true] {
        let mut rig = Rig::assembled(|assembly| shield(assembly, sources));
        shielded(&rig.net);
        for dst in ["10.20.0.1", "10.22.0.1", "10.9.0.1", "10.23.0.1", "10.5.0.1", "10.3.0.1"] {
            rig.peers[0].push(&to_p0(udp4(dst)));
        }
        rig.peers[0].push(&to_p0(udp6("2001:db8:20::1")));
        rig.peers[0].push(&to_p0(udp6("2001:db8:9::1")));
        rig.run();
        assert!(rig.peers[1].take().is_empty() && rig.peers[0].take().is_empty());
        assert!(rig.punted().is_empty(), "nothing of it is the kernel's");
        // What bypasses leaves at the back; sessions with this router go on.
        let bgp = "192.0.2.1:179".parse().unwrap();
        rig.peers[0].push(&to_p0(udp4("10.21.0.1")));
        rig.peers[0].push(&to_p0(Frame::tcp4("192.0.2.2:5000".parse().unwrap(), bgp, 2)));
        rig.run();
        assert_eq!(rig.peers[1].take().len(), 1);
        let punted: Vec<_> = rig.punted().iter().map(|(_, class, _)| *class).collect();
        assert_eq!(punted, [Class::Strangers]);
    }
}
