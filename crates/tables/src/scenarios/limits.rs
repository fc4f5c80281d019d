//! Full tables, and a machine without memory.

use super::*;

#[test]
fn a_full_table_refuses_and_goes_on() {
    let mut b = bench();
    let nets: Vec<String> = (0..200).map(|i| format!("20.{i}.0.0/16")).collect();
    let all: Vec<_> = nets.iter().map(|net| add(net, 0, to(1, "10.0.0.2"))).collect();
    b.handle(&all);
    assert_eq!((b.used("routes"), b.refused("routes")), (100, 102));
    let capacity = b.control.capacity();
    let last = capacity[0].last.clone().unwrap();
    assert_eq!((last.subject, last.reason), ("20.199.0.0/16".into(), "100 routes are in".into()));
    assert_eq!((b.see("20.5.0.1"), b.see("20.150.0.1")), (by(1, 2), NO_ROUTE));
    // One more of a prefix that is there is one more.
    b.handle(&[add("20.5.0.0/16", 7, Target::Blackhole)]);
    assert_eq!((b.used("routes"), b.refused("routes")), (100, 103));
    // What is there changes, and makes room when it goes.
    b.handle(&[Event::Route(route("20.5.0.0/16", 0, Target::Blackhole), How::Replace)]);
    assert_eq!(b.see("20.5.0.1"), Seen::Other(Kind::Blackhole));
    b.handle(&[
        del("20.6.0.0/16", 0, to(1, "10.0.0.2")),
        add("20.150.0.0/16", 0, to(1, "10.0.0.2")),
    ]);
    assert_eq!(b.see("20.150.0.1"), by(1, 2));
}

#[test]
fn without_hops_the_kernel_forwards_until_some_return() {
    let hops = crate::hops::fixed::FIRST_FREE as usize + 4;
    let limits = Limits { hops, ..Limits::default() };
    let mut b = Bench::new(limits, "plain");
    b.handle(&[add("10.0.0.0/24", 0, to(1, ""))]);
    let via = |i: u8| to(1, &format!("10.0.0.{i}"));
    let routes: Vec<_> = (2..8).map(|i| add(&format!("20.{i}.0.0/16"), 0, via(i))).collect();
    b.handle(&routes);
    assert_eq!((b.see("20.5.0.1"), b.see("20.6.0.1")), (GLEAN, Seen::Other(Kind::ViaKernel)));
    assert_eq!(b.refused("hops"), 2);
    b.handle(&[
        neighbour(1, "10.0.0.7", 7),
        del("20.2.0.0/16", 0, via(2)),
        del("20.3.0.0/16", 0, via(3)),
    ]);
    b.settle();
    assert_eq!((b.see("20.6.0.1"), b.see("20.7.0.1")), (GLEAN, by(1, 7)));
    assert_eq!(b.used("hops"), 4);
}

#[test]
fn short_memory_refuses_new_routes_only() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let short = Arc::new(AtomicBool::new(true));
    let seen = short.clone();
    let free = move || Some(if seen.load(Ordering::Relaxed) { 100 } else { u64::MAX });
    let memory = crate::limits::Memory::of(free);
    let mut b = Bench::with_memory(Limits::default(), "plain", memory);
    b.handle(&[add("192.0.2.0/24", 0, Target::Blackhole)]);
    assert_eq!((b.see("192.0.2.1"), b.refused("memory for routes")), (NO_ROUTE, 1));
    short.store(false, Ordering::Relaxed);
    std::thread::sleep(std::time::Duration::from_millis(120));
    b.handle(&[add("192.0.2.0/24", 0, Target::Blackhole)]);
    assert_eq!(b.see("192.0.2.1"), Seen::Other(Kind::Blackhole));
}
