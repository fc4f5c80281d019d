//! Each of our programs against the model, by each engine, over random packets and times.

use policy::program::{Answer, Arrival, BadParameters};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Debt, Filter, Granted, Packet};
use super::packets::{Frame, Upper, icmp, tcp, v4, v6};
use super::{MS, S, cookie, engines, stock};

/// A packet that comes so long after the one before.
#[derive(Clone, Debug)]
struct Step {
    after: u64,
    upper: Upper,
    v4: bool,
    options: usize,
    tags: usize,
    padding: usize,
}

impl Step {
    fn frame(&self) -> Frame {
        let mut upper = self.upper.clone();
        upper.bytes.resize(upper.bytes.len() + self.padding, 0xee);
        if self.v4 {
            v4(&upper, self.options, self.tags)
        } else {
            v6(&upper, self.options, self.tags)
        }
    }
}

fn ports() -> impl Strategy<Value = u16> {
    let near = [19, 20, 21, 22, 23, 79, 80, 81, 443, 444, 50_999, 51_000, 51_999, 52_000, 25, 993];
    prop_oneof![4 => select(near.to_vec()), 1 => any::<u16>()]
}

fn uppers() -> impl Strategy<Value = Upper> {
    let segment = (ports(), ports(), any::<u8>(), select(vec![0, 0x02, 0x10, 0x12]));
    let segment = segment.prop_map(|(from, to, any, flags)| tcp(from, to, any & !0x12 | flags));
    let message = (select(vec![1, 58]), prop_oneof![0..13_u8, 126..131_u8, any::<u8>()]);
    let message = message.prop_map(|(proto, kind)| icmp(proto, kind));
    let other = (any::<u8>(), vec(any::<u8>(), 0..30));
    let other =
        other.prop_filter("no extension header", |(proto, _)| ![0, 43, 44, 51, 60].contains(proto));
    let other = other.prop_map(|(proto, bytes)| Upper { proto, bytes, fragment: false });
    let short = (tcp(22, 80, 0x02).prop_cut(), any::<bool>());
    let short = short.prop_map(|(upper, fragment)| Upper { fragment, ..upper });
    let whole = prop_oneof![8 => segment, 3 => message, 2 => other, 1 => short];
    (whole, prop_oneof![7 => Just(false), 1 => Just(true)])
        .prop_map(|(upper, fragment)| Upper { fragment: fragment || upper.fragment, ..upper })
}

trait Cut {
    fn prop_cut(self) -> BoxedStrategy<Upper>;
}

impl Cut for Upper {
    /// Its beginnings.
    fn prop_cut(self) -> BoxedStrategy<Upper> {
        let cut = move |len| Upper { bytes: self.bytes[..len].to_vec(), ..self.clone() };
        (0..20_usize).prop_map(cut).boxed()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![
        6 => 0..S / 4,
        2 => (0..4_u64, 0..3_u64).prop_map(|(seconds, beside)| seconds * S + beside),
        1 => 0..100 * S,
        1 => Just(0),
    ];
    let step = (after, uppers(), any::<bool>(), 0..9_usize, 0..3_usize, 0..1_500_usize);
    let step = step.prop_map(|(after, upper, v4, options, tags, padding)| {
        let padding = if upper.bytes.len() < 20 && upper.proto == 6 { 0 } else { padding };
        Step { after, upper, v4, options, tags, padding }
    });
    vec(step, 1..60)
}

/// What a program of each engine answers must be what the model does.
fn compare(
    name: &str,
    begin: u64,
    parameters: &[u8],
    steps: &[Step],
    mut model: impl FnMut(&Packet<'_>) -> Answer,
) {
    let mut wanted = Vec::new();
    for (engine, program) in engines(&stock(name)) {
        let mut page = cookie(parameters);
        program.init(begin, &mut page).unwrap();
        let mut now = begin;
        for (i, step) in steps.iter().enumerate() {
            now += step.after;
            let frame = step.frame();
            let arrival = frame.arrival(now);
            let found = program.packet(&arrival, u64::MAX, &mut page);
            if wanted.len() <= i {
                let padded = [&step.upper.bytes[..], &vec![0xee; step.padding]].concat();
                let upper = Upper { bytes: padded, ..step.upper.clone() };
                let len = arrival.len.into();
                wanted.push(model(&Packet { now, len, v4: step.v4, upper: &upper }));
            }
            assert_eq!(found, wanted[i], "{name} by {engine:?}, packet {i}: {step:?}");
        }
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn granted(
        begin in 0..S * 1_000_000, rate in 0..8_u32, next in 0..9_000_u32, step in 0..9_000_u32,
        steps in steps()
    ) {
        let mut model = Granted::new(begin, rate, next, step);
        compare("granted", begin, &words(&[rate, next, step]), &steps, |p| model.packet(p));
    }

    #[test]
    fn grantedv2(
        begin in 0..S * 1_000_000, rates in [0..8_u32, 0..4_u32], times in [0..9_000_u32, 0..9_000],
        direct in 0..3_u8, steps in steps()
    ) {
        let bytes = rates.map(|rate| u64::from(rate) * 1_024);
        let mut model = Debt::new(Filter::None, begin, bytes, times, direct != 0);
        let given = [words(&rates), words(&times), vec![direct]].concat();
        compare("grantedv2", begin, &given, &steps, |packet| model.packet(packet));
    }

    #[test]
    fn web(
        begin in 0..S * 1_000_000, rates in [0..20_u32, 0..4_u32], times in [0..9_000_u32, 0..9_000],
        direct in 0..2_u8, steps in steps()
    ) {
        let bytes = rates.map(|rate| u64::from(rate) * 1_024);
        let mut model = Debt::new(Filter::Web, begin, bytes, times, direct != 0);
        let given = [words(&rates), words(&times), vec![direct]].concat();
        compare("web", begin, &given, &steps, |packet| model.packet(packet));
    }

    #[test]
    fn tcp_services(
        begin in 0..S * 1_000_000, rate in 0..100_u32, times in [0..9_000_u32, 0..9_000],
        listen in vec(ports(), 0..=12), remote in vec(ports(), 0..=12), steps in steps()
    ) {
        let given = services(rate, times, &listen, &remote);
        if listen.len() + remote.len() > 12 {
            for (_, program) in engines(&stock("tcp-services")) {
                prop_assert_eq!(program.init(begin, &mut cookie(&given)), Err(BadParameters));
            }
            return Ok(());
        }
        let rate = u64::from(rate) * 1_024;
        let filter = Filter::Services(listen, remote);
        let mut model = Debt::new(filter, begin, [rate, rate * 5 / 100], times, true);
        compare("tcp-services", begin, &given, &steps, |packet| model.packet(packet));
    }
}

/// 36 bytes: those at which it listens ascend from the first place, the others descend from
/// the last.
fn services(rate: u32, [next, step]: [u32; 2], listen: &[u16], remote: &[u16]) -> Vec<u8> {
    let counts = ((remote.len() << 4 | listen.len()) as u32) << 24;
    let mut places = [0_u16; 12];
    let sorted = |ports: &[u16]| {
        let mut ports = ports.to_vec();
        ports.sort_unstable();
        ports
    };
    places.iter_mut().zip(sorted(listen)).for_each(|(place, port)| *place = port);
    if listen.len() + remote.len() <= 12 {
        places.iter_mut().rev().zip(sorted(remote)).for_each(|(place, port)| *place = port);
    }
    let ports = places.iter().flat_map(|port| port.to_le_bytes()).collect();
    [words(&[rate, next, counts | step]), ports].concat()
}

#[test]
fn declined() {
    for (_, program) in engines(&stock("declined")) {
        let mut page = [7; 64];
        assert_eq!(program.init(0, &mut page), Ok(()));
        let frame = v4(&tcp(1, 80, 2), 0, 0);
        assert_eq!(program.packet(&frame.arrival(1), 2, &mut page), Answer::Decline);
        assert_eq!(page, [7; 64]);
    }
}

/// Easy version 6: who stays over the limit stays blocked, and is free when the debt is paid.
#[test]
fn ten_seconds_over_the_limit_stay_blocked() {
    for (_, program) in engines(&stock("grantedv2")) {
        let mut page = cookie(&words(&[1, 1, 1 << 30, 1]));
        program.init(0, &mut page).unwrap();
        let frame = v4(&tcp(9, 80, 0x10), 0, 0);
        let mut ask = |now| {
            let arrival = Arrival { len: 100, ..frame.arrival(now) };
            program.packet(&arrival, u64::MAX, &mut page) == Answer::Send(1)
        };
        let passed = (0..10_000).filter(|ms| ask(ms * MS)).count();
        assert_eq!(passed, 10, "the first window's: 100,000 bytes a second for 1,024");
        // 1,000,000 bytes less 9 refills are a debt of 966 seconds.
        assert!(!ask(970 * S) && ask(980 * S));
    }
}

/// Easy version 5: the frame as it was received, tag included.
#[test]
fn the_budget_counts_frames() {
    // The frame without a tag, and how many of 2,048 bytes pass with none, one and two.
    for (len, tags, passed) in
        [(508, [4, 4, 3]), (509, [4, 3, 3]), (512, [4, 3, 3]), (513, [3, 3, 3])]
            .into_iter()
            .flat_map(|(len, all)| [0, 1, 2].map(|tags| (len, tags, all[tags])))
    {
        for (_, program) in engines(&stock("granted")) {
            let mut page = cookie(&words(&[2, 1 << 30, 1]));
            program.init(0, &mut page).unwrap();
            let mut upper = tcp(9, 80, 0x10);
            upper.bytes.resize(len - 14 - 20, 0);
            let frame = v4(&upper, 0, tags);
            let mut ask = || program.packet(&frame.arrival(1), 2, &mut page) == Answer::Send(1);
            assert_eq!((0..10).filter(|_| ask()).count(), passed, "{len} bytes, {tags} tags");
        }
    }
}
