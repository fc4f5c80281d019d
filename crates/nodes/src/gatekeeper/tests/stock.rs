//! The stock program `granted` does what is built in, to the byte of its page.

use std::sync::{Weak, mpsc};
use std::time::Instant;

use graph::clock;
use policy::bpf::assemble::{call, exit, mov, object};
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use policy::program::Program;

use super::decisions::{V4, decided, hear, message};
use super::rig::{Rig, in_v4};
use super::*;
use crate::gatekeeper::granted::{Granted, parameters};
use crate::gatekeeper::listing;
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
fn put(rig: &mut Rig, index: u8, object: &[u8]) {
    let times = Times::new(clock::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let mut programs = Programs::default();
    programs.set(index, Some(Arc::new(load(object, clock).unwrap())));
    listing::set_programs(&mut rig.graph, [programs.clone(), programs]);
}

/// Whether a packet passes that this program was asked about, after a decision with `words` as
/// its cookie.
fn passes(rig: &mut Rig, index: u8, words: &[u32]) -> bool {
    let cookie = cookie(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    let program = Decision::Program { expire_s: 60, index, cookie };
    hear(rig, &message("10.0.2.9", &decided(program)[..1]));
    sent(rig)
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
        listing::set_programs(&mut rig.graph, [without.clone(), without]);
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

/// Easy version 19: control makes program after program, as fast as it can. Each is asked about every packet from
/// when the worker has taken it to when it takes the next one, and is freed by control soon after.
#[test]
fn programs_are_replaced_a_thousand_times_a_second_under_traffic() {
    const SWAPS: u8 = 250; // of a number of priorities, times eight
    let mut rig = Rig::new();
    let times = Times::new(clock::rate());
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    // In turns one of ours, which may be machine code, and one that sends with a priority of its own.
    let nth = move |n: u8| -> (u8, Arc<dyn Program>) {
        if n.is_multiple_of(2) {
            return (1, load(STOCK[0].object, clock).unwrap());
        }
        let priority = 2 + n % 60;
        let sends =
            [mov(2, priority.into()), mov(3, 0), call("gk_bpf_prep_for_tx"), mov(0, 0), exit()];
        let init = [mov(0, 0), exit()].concat();
        (priority, load(&object(&init, &sends.concat()), clock).unwrap())
    };
    put(&mut rig, 9, STOCK[0].object);
    assert!(passes(&mut rig, 9, &[u32::MAX, 3_600_000, 3_000]));
    let (to_worker, swaps) = mpsc::sync_channel::<(u8, Programs)>(1);
    let (back, to_control) = mpsc::channel::<[Programs; 2]>();
    let control = std::thread::spawn(move || {
        let mut known: Vec<Weak<dyn Program>> = Vec::new();
        for n in (0..8).flat_map(|_| 0..SWAPS) {
            let (priority, program) = nth(n);
            known.retain(|one| one.strong_count() > 0);
            assert!(known.len() <= 2, "the one that runs, and the one before");
            known.push(Arc::downgrade(&program));
            let mut programs = Programs::default();
            programs.set(9, Some(Arc::new(program)));
            to_worker.send((priority, programs)).unwrap();
            drop(to_control.recv().unwrap());
        }
    });
    let began = Instant::now();
    let frames = vec![to_p0(udp4(V4).payload(&[7; 60])); 16];
    let (mut priority, mut packets) = (1, 0);
    loop {
        let out = rig.send(&frames);
        packets += out.len();
        assert_eq!(out, vec![in_v4(priority, &frames[0][14..]); frames.len()]);
        match swaps.try_recv() {
            Ok((next, programs)) => {
                priority = next;
                let both = [programs.clone(), programs];
                back.send(listing::set_programs(&mut rig.graph, both)).unwrap();
            }
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
    }
    control.join().unwrap();
    let of_program = rig.counters.program(9);
    assert_eq!((of_program.failed.get(), rig.dropped("shield", "failed")), (0, 0));
    let rate = 8.0 * f64::from(SWAPS) / began.elapsed().as_secs_f64();
    println!("{rate:.0} swaps a second under {packets} packets");
}
