//! Control lists and flushes the flows of a graph.

use std::sync::Arc;

use graph::{Job, Progress};
use tables::Net;
use wire::build::Frame;
use wire::ggu::Verdict as Decision;

use super::super::granted::parameters;
use super::super::listing::{Filter, Flush, Known, List, Row, State, ends, figures};
use super::super::programs::{Declined, Programs};
use super::super::rule::Budget;
use super::super::shield::Shield;
use super::rig::Rig;
use crate::testbed::{to_p0, udp4, udp6};

const V4: &str = "10.20.0.1";
const V6: &str = "2001:db8:20::1";

/// All parts of a job, of so many places at a step.
fn all<J: Job<Shield>>(rig: &mut Rig, mut job: J, places: usize) -> Vec<J::Part> {
    let node = rig.graph.node_mut::<Shield>().unwrap();
    let mut parts = Vec::new();
    loop {
        match job.step(node, places) {
            Progress::More(part) => parts.push(part),
            Progress::Last(part) => {
                parts.push(part);
                return parts;
            }
        }
    }
}

fn list(rig: &mut Rig, filter: Filter) -> Vec<Row> {
    all(rig, List::new(filter), 100).concat()
}

fn flush(rig: &mut Rig, filter: Filter) -> usize {
    all(rig, Flush::new(filter), 100).into_iter().sum()
}

/// Flows: granted, declined, a program's, and a hundred that ask.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let granted = Decision::Granted {
        expire_s: 300,
        rate_kib: 2,
        next_renewal_ms: 3_600_000,
        renewal_step_ms: 3_000,
    };
    rig.decide(V4, granted);
    rig.decide(V6, Decision::Declined { expire_s: 60 });
    rig.decide("10.20.0.2", Decision::Program { expire_s: 9, index: 1, cookie: [0; 64] });
    let from = |i: u32| std::net::SocketAddrV4::new((0xc612_0000 + i).into(), 9);
    let to = "10.20.7.1:53".parse().unwrap();
    let asks: Vec<_> = (0..100).map(|i| to_p0(Frame::udp4(from(i), to))).collect();
    rig.send(&asks);
    rig.send(&[to_p0(udp4(V4)), to_p0(udp6(V6))]);
    rig
}

#[test]
fn flows_are_listed_with_what_is_known_of_them() {
    let mut rig = rig();
    let rows = list(&mut rig, Filter::default());
    assert_eq!(rows.len(), 103);
    let of = |state| rows.iter().filter(move |row: &&Row| row.known.state() == state);
    assert_eq!(of(State::Request).count(), 100);
    let request = of(State::Request).next().unwrap();
    let Known::Request { priority, allowance, seen_ms } = request.known else { panic!() };
    assert!((priority, allowance) == (38, 6) && seen_ms < 4_000, "{request:?}");
    assert!((1..=4_399).contains(&request.left_ms), "2^42 ps: {request:?}");
    let granted = of(State::Granted).next().unwrap();
    let left = 2_048 - to_p0(udp4(V4)).len() as u64;
    assert_eq!(granted.known, Known::Granted(Budget { rate_kib: 2, left }));
    assert_eq!(ends(&granted.key)[0].to_string(), "198.51.100.7");
    assert!((290_000..=300_000).contains(&granted.left_ms));
    assert_eq!(granted.set, rig.set(V4));
    let declined = of(State::Declined).next().unwrap();
    assert_eq!(ends(&declined.key)[1].to_string(), V6);
    let program = Known::Program { number: 1, budget: None };
    assert_eq!(of(State::Program).next().unwrap().known, program);
    let figures = figures(&mut rig.graph).unwrap();
    assert_eq!((figures.capacity.entries, figures.counts.pages), (103, 3));
    assert_eq!((figures.waiting, figures.room), (0, 512));
}

/// The built-in program 0 keeps a budget as a grant does; nobody else reads what it has written.
#[test]
fn a_flow_of_program_0_is_listed_with_its_budget() {
    let mut rig = rig();
    let cookie = parameters(2, 3_600_000, 3_000);
    rig.decide("10.20.0.3", Decision::Program { expire_s: 9, index: 0, cookie });
    let frame = to_p0(udp4("10.20.0.3"));
    rig.send(std::slice::from_ref(&frame));
    let mut known = |programs: Option<Programs>| {
        let list = List::new(Filter { program: Some(0), ..Filter::default() });
        let list = match programs {
            Some(programs) => list.by(programs),
            None => list,
        };
        let rows = all(&mut rig, list, 100).concat();
        let [Row { known: Known::Program { number: 0, budget }, .. }] = rows[..] else {
            panic!("{rows:?}")
        };
        budget
    };
    let left = 2_048 - frame.len() as u64;
    assert_eq!(known(Some(Programs::default())), Some(Budget { rate_kib: 2, left }));
    assert_eq!(known(None), None);
    let mut others = Programs::default();
    others.set_edition(0, 1);
    assert_eq!(known(Some(others)), None, "of another edition");
    let mut others = Programs::default();
    others.set(0, Some(Arc::new(Declined)));
    assert_eq!(known(Some(others)), None, "which keeps none");
}

#[test]
fn a_filter_takes_what_is_all_that_it_says() {
    let mut rig = rig();
    let net = |text: &str| Some(text.parse::<Net>().unwrap());
    let count = |rig: &mut Rig, filter| list(rig, filter).len();
    let to = Filter { to: net("10.20.0.0/24"), ..Filter::default() };
    assert_eq!(count(&mut rig, to.clone()), 2);
    let state = Some(State::Granted);
    assert_eq!(count(&mut rig, Filter { state, ..to }), 1);
    assert_eq!(count(&mut rig, Filter { from: net("198.18.0.0/26"), ..Filter::default() }), 64);
    assert_eq!(count(&mut rig, Filter { from: net("::/0"), ..Filter::default() }), 1);
    let set = Some(rig.set(V6));
    assert_eq!(count(&mut rig, Filter { set, ..Filter::default() }), 1);
    let all = rig.control.forwarding().protections.load(rig.thread.guard()).clone();
    let asks = |ip: &str| Filter {
        grantor: Some((ip.parse().unwrap(), all.clone())),
        ..Filter::default()
    };
    let counts = ["10.0.2.9", "2001:db8:2::9", "10.0.2.8"].map(|ip| count(&mut rig, asks(ip)));
    assert_eq!(counts, [102, 1, 0]);
}

#[test]
fn a_flush_takes_those_and_no_others() {
    let mut rig = rig();
    let state = Some(State::Granted);
    assert_eq!(flush(&mut rig, Filter { state, ..Filter::default() }), 1);
    assert!(list(&mut rig, Filter { state, ..Filter::default() }).is_empty());
    let from = Some("198.18.0.0/26".parse().unwrap());
    assert_eq!(flush(&mut rig, Filter { from, ..Filter::default() }), 64);
    let now = figures(&mut rig.graph).unwrap();
    assert_eq!((now.capacity.entries, now.counts.pages, now.counts.removed[0]), (38, 2, 64));
    assert_eq!(flush(&mut rig, Filter::default()), 38);
    assert_eq!(figures(&mut rig.graph).unwrap().counts.pages, 0);
    // What was granted asks again.
    let sent = rig.send(&[to_p0(udp4(V4))]);
    assert_eq!(sent[0][15] >> 2, 41);
}
