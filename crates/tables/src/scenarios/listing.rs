//! Before the kernel's routes have been listed for the first time.

use super::*;

fn listed(net: &str, target: Target) -> Event {
    Event::Route(route(net, 0, target), How::Listed)
}

#[test]
fn nothing_is_forwarded_before_all_routes_are_listed() {
    const NOT_READY: Seen = Seen::Other(Kind::NotReady);
    for engine in ["plain", "rebuilt"] {
        let mut b = Bench::new(Limits::default(), engine);
        b.control.await_listing();
        let scope = Scope::Routes(Family::V4, Source::Kernel);
        b.handle(&[address(1, "10.0.0.1/24"), neighbour(1, "10.0.0.2", 2)]);
        b.handle(&[Event::SweepBegin(scope, Why::Start)]);
        b.handle(&[
            listed("10.0.0.0/24", to(1, "")),
            listed("0.0.0.0/0", to(1, "10.0.0.2")),
            listed("192.0.2.0/24", Target::Unreachable),
        ]);
        b.settle();
        // Neither by the default route nor as unreachable: a longer prefix may be to come.
        for ip in ["198.51.100.1", "192.0.2.1", "10.0.0.2", "10.0.0.9"] {
            assert_eq!(b.see(ip), NOT_READY, "{engine}: {ip}");
        }
        for (ip, kind) in [
            ("10.0.0.1", Kind::ForUs),
            ("224.0.0.5", Kind::Multicast),
            ("127.0.0.1", Kind::Martian),
        ] {
            assert_eq!(b.see(ip), Seen::Other(kind), "{engine}: {ip}");
        }
        b.handle(&[Event::SweepAbort(scope), Event::SweepBegin(scope, Why::Start)]);
        b.settle();
        assert_eq!(b.see("198.51.100.1"), NOT_READY, "{engine}: it was given up");
        b.handle(&[
            listed("10.0.0.0/24", to(1, "")),
            listed("0.0.0.0/0", to(1, "10.0.0.2")),
            listed("198.51.100.0/24", Target::Blackhole),
            Event::SweepEnd(scope),
        ]);
        if engine == "rebuilt" {
            assert_eq!(b.see("198.51.100.1"), NOT_READY, "the table is still being built");
        }
        b.settle();
        assert_eq!(b.see("198.51.100.1"), Seen::Other(Kind::Blackhole), "{engine}");
        assert_eq!((b.see("192.0.2.1"), b.see("10.0.0.2")), (by(1, 2), by(1, 2)), "{engine}");
        assert_eq!(b.see("2001:db8::1"), NOT_READY, "{engine}: the other family");
        // A later listing holds nobody up.
        b.handle(&[Event::SweepBegin(scope, Why::Overrun)]);
        assert_eq!(b.see("192.0.2.1"), by(1, 2), "{engine}");
    }
}

/// Routes that change while they are read: the feed gives up, for a minute.
#[test]
fn what_cannot_be_listed_is_used_as_it_is_known() {
    let mut b = Bench::new(Limits::default(), "plain");
    b.control.await_listing();
    let scope = Scope::Routes(Family::V4, Source::Kernel);
    b.handle(&[address(1, "10.0.0.1/24"), neighbour(1, "10.0.0.2", 2)]);
    for left in (0..4).rev() {
        b.handle(&[
            Event::SweepBegin(scope, Why::Start),
            listed("10.0.0.0/24", to(1, "")),
            Event::SweepAbort(scope),
        ]);
        let ready = b.see("10.0.0.2") == by(1, 2);
        assert_eq!(ready, left == 0, "{left}");
    }
}
