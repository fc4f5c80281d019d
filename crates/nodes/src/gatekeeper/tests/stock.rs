//! The stock program `granted` does what is built in, to the byte of its page.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Instant;

use graph::{Job, Progress, clock};
use policy::bpf::assemble::{call, exit, mov, object};
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use policy::program::Program;
use wire::ggu::{Decision as Sent, Flow};

use super::decisions::{V4, decided, hear, message};
use super::rig::{Rig, in_v4};
use super::*;
use crate::gatekeeper::granted::{Granted, parameters};
use crate::gatekeeper::listing;
use crate::gatekeeper::shield::Shield;
use crate::testbed::{to_p0, udp4};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// At clocks with whole ticks in a millisecond: programs know no parts of one.
    #[test]
    fn the_program_granted_does_what_is_built_in(
        clock in 0..3_usize, begin in any::<u32>(), rate_kib in 0..9_u32,
        next in 0..5_000_u32, step in 0..5_000_u32,
        packets in proptest::collection::vec((0..600_u64, -1..2_i64, 0..4_000_u32), 1..80)
    ) {
        let times = Times::new([rate(1_000, 1), rate(2, 1), rate(1, 1)][clock]);
        let ms = times.millis(1);
        let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: ms };
        prop_assert_eq!(times.millis(u32::MAX), ms * u64::from(u32::MAX));
        let program = load(STOCK[0].object, clock).unwrap();
        let mut now = u64::from(begin);
        let mut built_in = parameters(rate_kib, next, step);
        let mut page = built_in;
        Granted.init(&times, now, &mut built_in).unwrap();
        Program::init(&*program, now, &mut page).unwrap();
        prop_assert_eq!(page, built_in);
        let mut packet = [0; 20];
        packet[0] = 0x45;
        for (after, beside, len) in packets {
            now = (now + after * ms).saturating_add_signed(beside);
            let arrival = Arrival { now, len, link: &[0; 14], packet: &packet };
            let wanted = match Granted.packet(&times, &arrival, u64::MAX, &mut built_in) {
                Answer::OverBudget => Answer::Decline, // a program has one word for both
                other => other,
            };
            prop_assert_eq!(Program::packet(&*program, &arrival, u64::MAX, &mut page), wanted);
            prop_assert_eq!(page, built_in);
        }
    }
}

/// Program `index` is this object from now on.
pub(super) fn put(rig: &mut Rig, index: u8, object: &[u8]) {
    let times = Times::new(clock::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let mut programs = Programs::default();
    programs.set(index, Some(Arc::new(load(object, clock).unwrap())));
    rig.programs.publish(programs);
}

/// Whether a packet passes that this program was asked about, after a decision with `words` as
/// its cookie.
fn passes(rig: &mut Rig, index: u8, words: &[u32]) -> bool {
    hear(rig, &message("10.0.2.9", &decided(by_number(index, words))[..1]));
    sent(rig)
}

/// By a program, with these words as its cookie.
pub(super) fn by_number(index: u8, words: &[u32]) -> Decision {
    let cookie = cookie(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    Decision::Program { expire_s: 60, index, cookie }
}

fn sent(rig: &mut Rig) -> bool {
    let frame = to_p0(udp4(V4).payload(&[7; 60]));
    let out = rig.send(std::slice::from_ref(&frame));
    // What asks has another DSCP than what is granted.
    out == [in_v4(1, &frame[14..])]
}

/// Easy version 16, through messages, rings, table and nodes: nothing that is built in is asked
/// where an object is.
#[test]
fn objects_decide_through_the_nodes() {
    let grant = [1_024, 3_600_000, 3_000];
    let debt = [1_024, 1_024, 3_600_000, 3_000, 0];
    for (index, stock, words, passed) in [
        (0, 0, &grant[..], true), // as what is built in
        (9, 0, &grant, true),
        (0, 1, &grant, false),
        (1, 0, &grant, true),
        (2, 2, &debt, true),
        (3, 3, &debt, false), // UDP is none of a web server's
        (4, 4, &[1_024, 3_600_000, 3_000], false),
    ] {
        let mut rig = Rig::new();
        if index < 2 {
            assert_eq!(passes(&mut rig, index, words), index == 0, "built in");
        }
        put(&mut rig, index, STOCK[stock].object);
        // The flow is in the table: it meets the object, with the page that it has.
        let name = STOCK[stock].name;
        assert_eq!(passes(&mut rig, index, words), passed, "{name} as {index}");
        let mut without = Programs::default();
        without.set(index, None);
        rig.programs.publish(without);
        assert!(!sent(&mut rig), "{name} has gone");
    }
}

/// What errs is counted by its number, and drops what it was asked about alone.
#[test]
fn programs_that_err_are_counted() {
    let mut rig = Rig::new();
    let end = |value| [mov(0, value), exit()].concat();
    put(&mut rig, 7, &object(&end(0), &end(2)));
    assert!(!passes(&mut rig, 7, &[]));
    let counted = |rig: &Rig| {
        let of = rig.counters.program(7);
        [of.failed.get(), of.refused.get()]
    };
    assert_eq!((counted(&rig), rig.dropped("shield", "failed")), ([1, 0], 1));
    put(&mut rig, 7, &object(&end(1), &end(1)));
    let heard = decided(Decision::Program { expire_s: 60, index: 7, cookie: [0; 64] });
    hear(&mut rig, &message("10.0.2.9", &heard[..1]));
    assert_eq!(counted(&rig), [1, 1]);
    assert_eq!(rig.counters.program(8).failed.get(), 0);
}

/// Easy version 19: control makes program after program, as fast as packets go round. Each packet
/// has the verdict of one of the two that were there while it was on its way, and who has gone is
/// freed by control soon after. The rate is the machine's: it is printed.
#[test]
fn programs_are_replaced_two_thousand_times_under_traffic() {
    const SWAPS: u64 = 2_000;
    let mut rig = Rig::new();
    let times = Times::new(clock::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    // In turns one of ours, which may be machine code, and one that sends with a priority of its own.
    let priority = |n: u64| if n.is_multiple_of(2) { 1 } else { 2 + (n % 60) as u8 };
    let nth = move |n: u64| -> Arc<dyn Program> {
        if n.is_multiple_of(2) {
            return load(STOCK[0].object, clock).unwrap();
        }
        let own = mov(2, priority(n).into());
        let sends = [own, mov(3, 0), call("gk_bpf_prep_for_tx"), mov(0, 0), exit()];
        let init = [mov(0, 0), exit()].concat();
        load(&object(&init, &sends.concat()), clock).unwrap()
    };
    put(&mut rig, 9, STOCK[0].object);
    assert!(passes(&mut rig, 9, &[u32::MAX, 3_600_000, 3_000]));
    // The last whose publishing has begun, the last that is there, and how often packets went round.
    let shared = Arc::new([const { AtomicU64::new(0) }; 3]);
    let (published, domain) = (rig.programs.clone(), rig.thread.domain().clone());
    let of_control = shared.clone();
    let control = std::thread::spawn(move || {
        let [begun, there, rounds] = &*of_control;
        let mut known: Vec<Weak<dyn Program>> = Vec::new();
        for n in 1..=SWAPS {
            let program = nth(n);
            known.push(Arc::downgrade(&program));
            let mut programs = Programs::default();
            programs.set(9, Some(Arc::new(program)));
            begun.store(n, SeqCst);
            published.publish(programs);
            there.store(n, SeqCst);
            // Until packets have gone round by it alone.
            let before = rounds.load(SeqCst);
            while rounds.load(SeqCst) < before + 2 {
                std::thread::yield_now();
            }
            domain.reclaim();
            known.retain(|one| one.strong_count() > 0);
            assert_eq!(known.len(), 1, "the one that runs");
        }
    });
    let [begun, there, rounds] = &*shared;
    let began = Instant::now();
    let frames = vec![to_p0(udp4(V4).payload(&[7; 60])); 16];
    let mut packets = 0;
    while !control.is_finished() {
        let first = there.load(SeqCst);
        let out = rig.send(&frames);
        let last = begun.load(SeqCst);
        packets += out.len();
        assert_eq!(out.len(), frames.len());
        assert!(last - first <= 1, "two programs at the most");
        let by = |n| in_v4(priority(n), &frames[0][14..]);
        let wanted: Vec<_> = (first..=last).map(by).collect();
        assert!(out.iter().all(|frame| wanted.contains(frame)), "programs {first} to {last}");
        rounds.fetch_add(1, SeqCst);
    }
    control.join().unwrap();
    let of_program = rig.counters.program(9);
    assert_eq!((of_program.failed.get(), rig.dropped("shield", "failed")), (0, 0));
    let rate = SWAPS as f64 / began.elapsed().as_secs_f64();
    println!("{rate:.0} swaps a second under {packets} packets");
}

/// A number gets another program: what the one before has written is not judged by it, in the
/// table or on its way there. Loaded again, the same one goes on.
#[test]
fn a_page_is_read_by_the_program_that_wrote_it_alone() {
    let mut rig = Rig::new();
    let words = [1_024, 3_600_000, 3_000];
    let with = |rule: &[u8], edition| {
        let times = Times::new(clock::rate());
        let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
        let mut programs = Programs::default();
        programs.set(9, Some(Arc::new(load(rule, clock).unwrap())));
        programs.set_edition(9, edition);
        programs
    };
    let (granted, web) = (STOCK[0].object, STOCK[3].object);
    rig.programs.publish(with(granted, 7));
    assert!(passes(&mut rig, 9, &words));
    rig.programs.publish(with(granted, 7));
    assert!(sent(&mut rig), "it is loaded again");
    let counts = rig.counters.clone();
    let asked = || counts.all.requests.get();
    let before = asked();
    rig.programs.publish(with(web, 8));
    assert!(!sent(&mut rig));
    assert_eq!((asked(), counts.all.declined.get()), (before + 1, 0), "it asks");
    assert_eq!(listed(&mut rig, None), 0);
    // On its way while the program changes.
    rig.programs.publish(with(granted, 9));
    rig.back.push(&message("10.0.2.9", &decided(by_number(9, &words))[..1]));
    rig.graph.poll(rig.thread.guard());
    rig.programs.publish(with(web, 10));
    assert!(!sent(&mut rig));
    assert_eq!((asked(), counts.all.declined.get()), (before + 2, 0));
    assert!(passes(&mut rig, 0, &words), "another number's");
}

/// Flows of a program that has gone are found by number and edition.
#[test]
fn flows_of_the_program_before_are_found() {
    let mut rig = Rig::new();
    let words = [1_024, 3_600_000, 3_000];
    put(&mut rig, 9, STOCK[0].object);
    assert!(passes(&mut rig, 9, &words));
    assert_eq!([None, Some(0), Some(1)].map(|not_of| listed(&mut rig, not_of)), [1, 0, 1]);
}

/// Flows of program 9, but for those of this edition.
fn listed(rig: &mut Rig, not_of: Option<u8>) -> usize {
    let filter = listing::Filter { program: Some(9), not_of, ..listing::Filter::default() };
    let node = rig.graph.node_mut::<Shield>().unwrap();
    let (Progress::More(rows) | Progress::Last(rows)) =
        listing::List::new(filter).step(node, 1 << 20);
    rows.len()
}

/// Easy version 15: `init` is asked once for each decision, and never by a packet; what it refuses
/// is that decision alone.
#[test]
fn a_program_is_asked_once_for_each_decision() {
    struct Counted(AtomicU64);
    impl Rule for Counted {
        fn init(&self, _: &Times, _: u64, page: &mut Page) -> Result<(), BadParameters> {
            self.0.fetch_add(1, Relaxed);
            if page[0] == 1 { Err(BadParameters) } else { Ok(()) }
        }
        fn packet(&self, _: &Times, _: &Arrival<'_>, _: u64, _: &mut Page) -> Answer {
            Answer::Send(1)
        }
    }
    let (mut rig, counted) = (Rig::new(), Arc::new(Counted(AtomicU64::new(0))));
    let mut programs = Programs::default();
    programs.set(9, Some(counted.clone()));
    rig.programs.publish(programs);
    let of = |client: u8, first: u32| {
        let flow = Flow::V4 { src: [198, 51, 100, client].into(), dst: V4.parse().unwrap() };
        Sent { flow, verdict: by_number(9, &[first]) }
    };
    hear(&mut rig, &message("10.0.2.9", &[of(7, 0), of(8, 1), of(9, 0)]));
    let counts = rig.counters.clone();
    let all = &counts.decisions.all;
    assert_eq!((all.by_program.get(), all.bad_parameters.get()), (2, 1));
    assert!((0..5).all(|_| sent(&mut rig)));
    assert_eq!(counted.0.load(Relaxed), 3, "decisions, not packets");
    hear(&mut rig, &message("10.0.2.9", &[of(7, 0)]));
    assert_eq!(counted.0.load(Relaxed), 4, "a flow that is known is decided anew");
}
