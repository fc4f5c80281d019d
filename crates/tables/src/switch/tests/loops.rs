//! Loops found by probes.

use super::*;

/// What happens, at each second after the start, to ports `a` and `b` (devices 0 and 1).
struct Loop(Lan);

impl Loop {
    fn new(loops: LoopDetection) -> Loop {
        Loop(Lan::new(|config| config.loops = loops))
    }

    /// A probe that left by `sender` came in by `port`.
    fn probe(&mut self, sender: u16, port: u16) -> bool {
        let sighting = Sighting { port, sender, domain: DomainId(1) };
        self.0.switch.loop_seen(sighting, self.0.start)
    }

    fn out(&self) -> Vec<u16> {
        let looped = self.0.switch.looped();
        looped.iter().map(|looped| looped.sighting.port).collect()
    }

    /// Are frames taken and sent by the ports, as readers see it?
    fn open(&mut self) -> [bool; 2] {
        let bridges = self.0.forwarding.bridges.load(self.0.thread.guard());
        [0, 1].map(|port| {
            let sent = bridges.domains[1].egress(port).way() != Egress::Closed;
            assert_eq!(sent, !matches!(bridges.ingress(port), Ingress::Out(_)));
            sent
        })
    }
}

#[test]
fn of_the_two_ports_of_a_loop_the_higher_goes_out() {
    for order in [[(0, 1), (1, 0)], [(1, 0), (0, 1)]] {
        let mut ring = Loop::new(LoopDetection::Block);
        ring.0.see(7, 1);
        order.into_iter().for_each(|(sender, port)| _ = ring.probe(sender, port));
        assert_eq!((ring.out(), ring.open()), (vec![1], [true, false]));
        assert_eq!(ring.0.switch.counters(0).loops, 1);
        assert!(matches!(ring.0.switch.take_notices()[..], [Notice::Loop(of)] if of.out));
        // Stations are forgotten there; probes go on, as on the other.
        ring.0.wait(1);
        assert_eq!(ring.0.port(7), None);
        let bridges = ring.0.forwarding.bridges.load(ring.0.thread.guard());
        let probed: Vec<_> = bridges.probed.iter().map(|way| way.port.0).collect();
        assert_eq!(probed, [0, 1]);
    }
}

#[test]
fn a_loop_of_one_direction_takes_the_lower_port_out_with_the_second_probe() {
    let mut ring = Loop::new(LoopDetection::Block);
    assert!(ring.probe(1, 0), "another probe would help");
    assert!(ring.out().is_empty());
    ring.0.start += Duration::from_millis(100);
    assert!(!ring.probe(1, 0));
    assert_eq!(ring.out(), [0]);
}

#[test]
fn a_port_that_sees_its_own_probes_goes_out_and_comes_back() {
    let mut ring = Loop::new(LoopDetection::Block);
    ring.probe(0, 0);
    assert_eq!(ring.open(), [false, true]);
    // It still comes back at the first look, after 10 s; not at the second, 20 s later.
    for _ in 0..10 {
        ring.0.wait(1);
        ring.probe(0, 0);
    }
    ring.0.wait(19);
    assert_eq!(ring.open(), [false, true]);
    ring.0.wait(2);
    assert_eq!(ring.open(), [true, true]);
    assert_eq!(ring.0.switch.take_notices()[1..], [Notice::LoopOver(0)]);
    // The next time, soon after, it is out for longer.
    ring.probe(0, 0);
    ring.0.wait(39);
    assert_eq!(ring.open(), [false, true]);
    ring.0.wait(2);
    assert_eq!(ring.open(), [true, true]);
    // A link that was down is another cable's.
    ring.probe(0, 0);
    ring.0.switch.set_link(0, false);
    ring.0.switch.set_link(0, true);
    assert_eq!((ring.out(), ring.open()), (vec![], [true, true]));
}

#[test]
fn a_loop_is_only_named_where_that_is_asked_for() {
    let mut ring = Loop::new(LoopDetection::Report);
    ring.probe(0, 1);
    assert_eq!((ring.out(), ring.open()), (vec![1], [true, true]));
    assert!(matches!(ring.0.switch.take_notices()[..], [Notice::Loop(of)] if !of.out));
    let mut ring = Loop::new(LoopDetection::Off);
    ring.probe(0, 1);
    assert_eq!((ring.out(), ring.open()), (vec![], [true, true]));
    assert!(ring.0.forwarding.bridges.load(ring.0.thread.guard()).probed.is_empty());
}

#[test]
fn probes_of_nowhere_take_nothing_out() {
    let mut ring = Loop::new(LoopDetection::Block);
    for (sender, port, domain) in [(0, 2, 1), (7, 1, 1), (0, 1, 0), (0, 1, 2), (2, 2, 1)] {
        let sighting = Sighting { port, sender, domain: DomainId(domain) };
        assert!(!ring.0.switch.loop_seen(sighting, ring.0.start));
    }
    assert!(ring.out().is_empty());
}
