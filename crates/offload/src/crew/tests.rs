//! In made time with models, so that rates are exact; and with threads.

mod growth;
mod rates;
mod waits;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lookup::lpm::Options;
use lookup::rng::SplitMix64;
use lookup::{Addr, Prefix};

use super::*;
use crate::calibrate;
use crate::devices::{Figures, Model, Threads};
use crate::fault::Stage;

fn routes() -> Rib<u32> {
    let mut rng = SplitMix64(1);
    let mut route = |_| {
        let prefix = Prefix::covering(rng.next() as u32, 4 + rng.below(25) as u8);
        (prefix, Hop(1 + rng.below(1000) as u32))
    };
    (0..pick(2000, 40)).map(&mut route).collect()
}

/// The one, or the other under miri, which takes a thousand times as long.
fn pick(usual: u64, few: u64) -> u64 {
    if cfg!(miri) { few } else { usual }
}

/// Under miri of an engine without large arrays: it takes minutes to fill them.
fn table(rib: &Rib<u32>) -> Table<u32> {
    let engine = if cfg!(miri) { "miht" } else { "rutter4" };
    let entry = u32::engine(engine).expect("it is in the registry");
    Table::build(entry, &Options::default(), rib).expect("within the limits")
}

fn model(rate: f64, lost: Option<(Stage, u64)>, clock: &Clock) -> Box<dyn Device<u32>> {
    Box::new(Model::new(Figures { rate, lost, ..Figures::default() }, clock))
}

/// Cores that do 10 million a second, in batches of 1,000, and no device.
fn crew(rib: &Rib<u32>, clock: &Clock) -> Crew<u32> {
    Crew::new(table(rib), model(10e6, None, clock), 1000, 4 << 20, clock).expect("there is room")
}

const BUFFERS: Buffers = Buffers { size: 10_000, depth: 2 };

/// Random addresses, of which the sum is kept; changes in between.
struct Source {
    rng: SplitMix64,
    left: u64,
    /// Whether it says how many are left.
    says: bool,
    rib: Rib<u32>,
    /// After how many addresses the table changes.
    every: Option<u64>,
    until: u64,
}

impl Source {
    fn new(left: u64, says: bool, rib: &Rib<u32>, every: Option<u64>) -> Self {
        let until = every.unwrap_or(u64::MAX);
        Source { rng: SplitMix64(9), left, says, rib: rib.clone(), every, until }
    }
}

impl Input<u32> for Source {
    fn fill(&mut self, dsts: &mut [u32]) -> io::Result<usize> {
        let most = self.left.min(self.until).min(dsts.len() as u64);
        dsts[..most as usize].iter_mut().for_each(|dst| *dst = self.rng.next() as u32);
        (self.left, self.until) = (self.left - most, self.until - most);
        Ok(most as usize)
    }

    fn left(&self) -> Option<u64> {
        self.says.then_some(self.left)
    }

    fn changes(&mut self) -> Option<(&Rib<u32>, Vec<Change<u32>>)> {
        if self.until > 0 || self.left == 0 {
            return None;
        }
        self.until = self.every.unwrap_or(u64::MAX);
        let changes = changes(self.left);
        for change in &changes {
            self.rib.apply(change);
        }
        Some((&self.rib, changes))
    }
}

/// What changes where `left` addresses are left: a quarter of all answers.
fn changes(left: u64) -> Vec<Change<u32>> {
    let prefix = Prefix::covering((left as u32).wrapping_mul(0x9e37_79b1), 2);
    vec![Change { prefix, hop: Some(Hop(1 + left as u32 % 1000)) }]
}

/// Compares each answer with the routes as they were when its address was read.
struct Judge {
    rng: SplitMix64,
    left: u64,
    rib: Rib<u32>,
    every: Option<u64>,
    until: u64,
}

impl Judge {
    fn of(source: &Source) -> Self {
        let Source { left, rib, every, until, .. } = source;
        Judge { rng: SplitMix64(9), left: *left, rib: rib.clone(), every: *every, until: *until }
    }
}

impl Output<u32> for Judge {
    fn take(&mut self, dsts: &[u32], hops: &[Hop]) -> io::Result<()> {
        assert_eq!(dsts.len(), hops.len());
        for (&dst, &hop) in dsts.iter().zip(hops) {
            if self.until == 0 {
                for change in changes(self.left) {
                    self.rib.apply(&change);
                }
                self.until = self.every.unwrap_or(u64::MAX);
            }
            assert_eq!(dst, self.rng.next() as u32, "in order, none twice, none left out");
            let want = self.rib.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop);
            assert_eq!(hop, want, "{} with {} left", dst.to_ip(), self.left);
            (self.left, self.until) = (self.left - 1, self.until - 1);
        }
        Ok(())
    }
}

/// Runs, judges, and returns the seconds.
fn timed(crew: &mut Crew<u32>, mut source: Source, clock: &Clock) -> f64 {
    let (mut judge, begun) = (Judge::of(&source), clock.now());
    crew.run(&mut source, &mut judge).expect("it goes on");
    assert_eq!(judge.left, 0);
    (clock.now() - begun).as_secs_f64()
}

#[test]
fn asynchronous_transfers_overlap_with_the_work() {
    let (rib, mut times) = (routes(), Vec::new());
    for depth in [1, 2, 3] {
        let clock = Clock::made();
        let mut crew = crew(&rib, &clock);
        // A transfer takes a third of the time of the work.
        let figures = Figures {
            rate: 100e6,
            bandwidth: 1.2e9,
            latency: Duration::ZERO,
            ..Figures::default()
        };
        let device = Box::new(Model::new(figures, &clock));
        crew.join(device, Buffers { size: 10_000, depth }, Share::Fixed(1.0)).unwrap();
        times.push(timed(&mut crew, Source::new(1_000_000, true, &rib, None), &clock));
        assert_eq!(crew.answered(), [1_000_000, 0]);
    }
    // 10 ms of work; with one buffer, each transfer waits: 16.7 ms.
    assert!((0.0165..0.0175).contains(&times[0]), "{times:?}");
    assert!(times[1] < 0.0110 && times[2] < 0.0105, "{times:?}");
}

/// Seconds for `count` addresses by cores and a device whose batches take a quarter of a
/// millisecond, as calibration would have it, and what each has answered.
fn divided(
    of_device: f64,
    share: Share,
    profile: (f64, f64),
    count: u64,
    says: bool,
) -> (f64, [u64; 2]) {
    let (rib, clock) = (routes(), Clock::made());
    let mut crew = crew(&rib, &clock);
    let buffers = Buffers { size: ((of_device / 4000.0) as usize).max(1000), depth: 3 };
    crew.join(model(of_device, None, &clock), buffers, share).unwrap();
    crew.profiled(profile.0, profile.1);
    let took = timed(&mut crew, Source::new(count, says, &rib, None), &clock);
    (took, crew.answered())
}

#[test]
fn work_is_divided_by_rates_and_never_loses_against_the_better_one_alone() {
    for of_device in [1e6, 10e6, 40e6, 400e6] {
        let (count, truth) = (((of_device + 10e6) / 50.0) as u64, (of_device, 10e6));
        let by = |share, profile, says| divided(of_device, share, profile, count, says);
        let alone = |part| by(Share::Fixed(part), truth, true).0;
        let better = alone(1.0).min(alone(0.0));
        // The second profile is far from the truth.
        for (says, profile) in [(true, truth), (true, (4.0 * of_device, 2.5e6))] {
            let (took, [device, cores]) = by(Share::Measured, profile, says);
            let figures = format!("{of_device:.0e} {profile:?}: {device} {cores}");
            assert!(took < better * 1.02, "{took}, alone {better}; {figures}");
            if of_device == 40e6 && profile == truth {
                // The paper's case: four fifths to the one that is four times as fast.
                let part = device as f64 / count as f64;
                assert!((0.77..0.83).contains(&part), "{part} {figures}");
                let both = 1.0 / (1.0 / alone(1.0) + 1.0 / alone(0.0));
                assert!(took < both * 1.05, "{took}, ideal {both}; {figures}");
            }
        }
        // Of an input that does not say how much is left, the last batches may be late.
        let late = 2e-3;
        assert!(by(Share::Measured, truth, false).0 < better * 1.02 + late);
    }
}

#[test]
fn fixed_shares_are_exact() {
    let rib = routes();
    for percent in [0, 1, 20, 50, 80, 99, 100] {
        let clock = Clock::made();
        let mut crew = crew(&rib, &clock);
        let share = Share::Fixed(f64::from(percent) / 100.0);
        crew.join(model(40e6, None, &clock), Buffers { size: 1000, depth: 2 }, share).unwrap();
        timed(&mut crew, Source::new(1_000_000, true, &rib, None), &clock);
        let part = crew.answered()[0] as f64 / 10_000.0;
        assert!((part - f64::from(percent)).abs() <= 0.2, "{percent}: {part}");
    }
}

/// An input that would go on for long, as one without an end does: who waits for the end of a run
/// waits for ever.
#[test]
fn a_lost_device_is_reported_while_the_run_goes_on() {
    struct Until(Arc<AtomicBool>, u64);
    impl Input<u32> for Until {
        fn fill(&mut self, dsts: &mut [u32]) -> io::Result<usize> {
            self.1 += dsts.len() as u64;
            let ends = self.0.load(Ordering::Relaxed) || self.1 > 10_000_000;
            Ok(if ends { 0 } else { dsts.len() })
        }
    }
    struct Ignored;
    impl Output<u32> for Ignored {
        fn take(&mut self, _: &[u32], _: &[Hop]) -> io::Result<()> {
            Ok(())
        }
    }
    let rib = routes();
    for stage in
        Stage::ALL.into_iter().filter(|stage| !matches!(stage, Stage::Load | Stage::Update))
    {
        let (clock, heard) = (Clock::made(), Arc::new(AtomicBool::new(false)));
        let mut crew = crew(&rib, &clock);
        let device = model(40e6, Some((stage, 5)), &clock);
        crew.join(device, Buffers { size: 1000, depth: 2 }, Share::Measured).unwrap();
        let hears = heard.clone();
        crew.on_fault(Box::new(move |fault| {
            assert!(matches!(fault, Fault::Lost { .. }), "{fault}");
            assert!(!hears.swap(true, Ordering::Relaxed), "once");
        }));
        let mut input = Until(heard.clone(), 0);
        crew.run(&mut input, &mut Ignored).unwrap();
        assert!(heard.load(Ordering::Relaxed) && input.1 < 1_000_000, "{stage}: {}", input.1);
        assert_eq!(crew.take_faults().len(), 1);
    }
}

/// At every stage, early and late, whoever has the larger share: each address is answered once.
#[test]
fn a_device_lost_at_any_stage_loses_no_address() {
    let rib = routes();
    for stage in Stage::ALL {
        for before in [0, 1, 2, 7] {
            for share in [Share::Measured, Share::Fixed(1.0), Share::Fixed(0.3)] {
                let clock = Clock::made();
                let mut crew = crew(&rib, &clock);
                let device = model(40e6, Some((stage, before)), &clock);
                let joined = crew.join(device, Buffers { size: 1000, depth: 2 }, share);
                assert_eq!(joined.is_err(), stage == Stage::Load && before == 0, "{stage}");
                let source = Source::new(100_000, before % 2 == 0, &rib, Some(9_000));
                timed(&mut crew, source, &clock);
                let [of_device, of_cores] = crew.answered();
                let faults = crew.take_faults();
                if stage == Stage::Load {
                    assert!(faults.is_empty(), "it is loaded once");
                } else {
                    let lost = |fault: &Fault| matches!(fault, Fault::Lost { stage: at, .. } if *at == stage);
                    assert!(faults.len() == 1 && lost(&faults[0]), "{stage} {before}: {faults:?}");
                    assert_eq!(of_device, 0, "the lane is gone");
                    assert!(of_cores > 0);
                }
            }
        }
    }
}

#[test]
fn a_table_that_does_not_fit_leaves_the_cores_at_work() {
    let (rib, clock) = (routes(), Clock::made());
    let mut crew = crew(&rib, &clock);
    let figures = Figures { memory: 1 << 20, ..Figures::default() };
    let joined = crew.join(Box::new(Model::new(figures, &clock)), BUFFERS, Share::Measured);
    assert!(matches!(joined, Err(Fault::NoMemory { .. })), "{joined:?}");
    timed(&mut crew, Source::new(10_000, true, &rib, None), &clock);
}

#[test]
fn an_engine_without_a_kernel_stays_on_the_cores() {
    let (rib, clock) = (routes(), Clock::made());
    let entry = u32::engine("dxr").expect("it is in the registry");
    let table = Table::build(entry, &Options::default(), &rib).unwrap();
    let cores = Box::new(Threads::start(2).unwrap());
    let mut crew = Crew::new(table, cores, 1000, 1 << 20, &clock).unwrap();
    let joined = crew.join(model(1e9, None, &clock), BUFFERS, Share::Measured);
    let fault = Fault::NoKernel { engine: "dxr" };
    let others = "rutter4, bloomfwd, miht, rutter6, bloomfwd6 and miht6";
    assert_eq!(fault.to_string(), format!("dxr runs on no device: {others} do"));
    assert_eq!(joined, Err(fault));
    timed(&mut crew, Source::new(50_000, true, &rib, Some(7_000)), &Clock::real());
}

/// Threads in real time beside a model, while the table changes.
#[test]
fn threads_answer_in_order_and_each_batch_sees_one_version() {
    let (rib, clock, all, every) =
        (routes(), Clock::real(), pick(100_000, 3000), Some(pick(3000, 900)));
    for threads in [1, 3] {
        let cores = Box::new(Threads::start(threads).unwrap());
        let mut crew = Crew::new(table(&rib), cores, 512, 1 << 20, &clock).unwrap();
        timed(&mut crew, Source::new(all, false, &rib, every), &clock);
        crew = Crew::new(
            table(&rib),
            Box::new(Threads::start(threads).unwrap()),
            512,
            1 << 20,
            &clock,
        )
        .unwrap();
        crew.join(model(50e6, None, &clock), Buffers { size: 2048, depth: 3 }, Share::Measured)
            .unwrap();
        timed(&mut crew, Source::new(all, true, &rib, every), &clock);
        assert!(crew.answered()[0] > 0, "{:?}", crew.answered());
    }
}

/// Of every length around whole pieces, and more threads than pieces: nothing beside is written.
#[test]
fn threads_answer_where_addresses_lie() {
    let (rib, clock, piece, mut rng) = (routes(), Clock::real(), 100, SplitMix64(4));
    let dsts: Vec<u32> = (0..pick(20_000, 320)).map(|_| rng.next() as u32).collect();
    let wanted: Vec<Hop> =
        dsts.iter().map(|&dst| rib.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop)).collect();
    for threads in [1, 2, 5] {
        let cores = Box::new(Threads::start(threads).unwrap());
        let mut crew = Crew::new(table(&rib), cores, piece, 1 << 20, &clock).unwrap();
        let mut all = 0;
        for count in [0, 1, 99, 100, 101, 300, dsts.len()] {
            let mut hops = vec![Hop(9999); dsts.len()];
            crew.answer(&dsts[..count], &mut hops[..count]).unwrap();
            assert!(hops[..count] == wanted[..count], "{threads} threads, {count} addresses");
            assert!(hops[count..].iter().all(|hop| *hop == Hop(9999)));
            all += count as u64;
        }
        assert_eq!(crew.answered(), [0, all]);
        assert!(crew.rates()[1] > Some(0.0));
    }
}

/// In every division, also where the device is lost: each address is answered once, and fixed
/// shares are exact.
#[test]
fn threads_answer_where_addresses_lie_beside_a_device() {
    let (rib, clock, mut rng) = (routes(), Clock::real(), SplitMix64(4));
    let dsts: Vec<u32> = (0..pick(200_000, 320)).map(|_| rng.next() as u32).collect();
    let wanted: Vec<Hop> =
        dsts.iter().map(|&dst| rib.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop)).collect();
    let shares = [0.0, 0.3, 1.0].map(Share::Fixed).into_iter().chain([Share::Measured]);
    let losses = Stage::ALL.into_iter().flat_map(|stage| [0, 2].map(|times| Some((stage, times))));
    for lost in std::iter::once(None).chain(losses.step_by(pick(1, 5) as usize)) {
        for share in shares.clone() {
            let cores = Box::new(Threads::start(2).unwrap());
            let mut crew =
                Crew::new(table(&rib), cores, pick(100, 20) as usize, 1 << 20, &clock).unwrap();
            let buffers = Buffers { size: pick(999, 99) as usize, depth: 3 };
            let _ = crew.join(model(50e6, lost, &clock), buffers, share); // it may be lost here
            let mut all = 0;
            for count in [0, 1, pick(1000, 100) as usize, dsts.len()] {
                let mut hops = vec![Hop(9999); dsts.len()];
                crew.answer(&dsts[..count], &mut hops[..count]).unwrap();
                assert!(hops[..count] == wanted[..count], "{share:?}, {count} addresses, {lost:?}");
                assert!(hops[count..].iter().all(|hop| *hop == Hop(9999)));
                all += count as u64;
            }
            let [by_device, by_cores] = crew.answered();
            match (share, lost) {
                (Share::Fixed(part), None) => {
                    let exact = (all as f64 * part) as u64;
                    assert!(by_device.abs_diff(exact) <= 3 && by_device + by_cores == all);
                }
                (Share::Measured, None) => assert_eq!(by_device + by_cores, all),
                _ => {}
            }
        }
    }
}

/// A fault, not a wrong answer and no write outside, whatever it is asked.
#[test]
fn threads_without_a_table_answer_nothing() {
    let mut cores = Threads::<u32>::start(2).unwrap();
    assert!(cores.in_place().is_none());
    cores.load(&table(&routes())).unwrap();
    let mut crew = Crew::new(table(&routes()), Box::new(cores), 0, 0, &Clock::real()).unwrap();
    let mut hops = [Hop(9); 2];
    assert!(crew.answer(&[1, 2], &mut hops).is_ok(), "pieces of one");
    let odd = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = crew.answer(&[1, 2, 3], &mut hops);
    }));
    assert!(odd.is_err());
}

/// An output that fails, as a full disk does, ends the run; the next one begins anew.
#[test]
fn after_an_error_the_next_run_is_whole() {
    struct Full(usize);
    impl Output<u32> for Full {
        fn take(&mut self, dsts: &[u32], _: &[Hop]) -> io::Result<()> {
            self.0 = self.0.checked_sub(dsts.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(())
        }
    }
    let (rib, clock) = (routes(), Clock::made());
    let mut crew = crew(&rib, &clock);
    crew.join(model(40e6, None, &clock), BUFFERS, Share::Measured).unwrap();
    for room in [0, 30_000, 200_000] {
        let ended = crew.run(&mut Source::new(1 << 20, true, &rib, None), &mut Full(room));
        assert!(
            matches!(ended, Err(Error::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
        );
        timed(&mut crew, Source::new(100_000, true, &rib, None), &clock);
    }
}

#[test]
fn slices_are_answered() {
    let (rib, clock) = (routes(), Clock::made());
    let (mut crew, mut rng) = (crew(&rib, &clock), SplitMix64(3));
    crew.join(model(40e6, None, &clock), BUFFERS, Share::Measured).unwrap();
    for count in [0, 1, 999, 123_456] {
        let dsts: Vec<u32> = (0..count).map(|_| rng.next() as u32).collect();
        let mut hops = vec![Hop(9999); count];
        crew.answer(&dsts, &mut hops).unwrap();
        let want = |dst: &u32| rib.lookup(*dst).map_or(Hop::NONE, |(_, hop)| hop);
        assert!(dsts.iter().zip(&hops).all(|(dst, &hop)| hop == want(dst)));
    }
}

/// Of a model whose transfers cost 20 µs however short they are, and which does 100 million a
/// second: larger batches are faster, up to a point.
#[test]
fn calibration_finds_where_the_rate_ends_to_grow() {
    let (rib, clock) = (routes(), Clock::made());
    let figures = Figures { rate: 100e6, latency: Duration::from_micros(20), ..Figures::default() };
    let mut device = Model::new(figures, &clock);
    device.load(&table(&rib)).unwrap();
    let points = calibrate::sweep::<u32>(&mut device, 2, 1 << 20, &clock).unwrap();
    assert!(points.windows(2).all(|pair| pair[0].latency < pair[1].latency), "{points:?}");
    let best = calibrate::choose(&points, None).unwrap();
    assert_eq!(best.size, 1 << 16, "{points:?}");
    let mut slow = Model::new(Figures { rate: 1e5, ..Figures::default() }, &clock);
    slow.load(&table(&rib)).unwrap();
    let begun = clock.now();
    let points_of_slow = calibrate::sweep::<u32>(&mut slow, 2, 1 << 20, &clock).unwrap();
    assert_eq!(points_of_slow.len(), 1, "{points_of_slow:?}");
    assert!(clock.now() - begun < Duration::from_secs(1), "{:?}", clock.now() - begun);
    let quick = calibrate::choose(&points, Some(best.latency / 2)).unwrap();
    assert!(quick.size < best.size && quick.latency <= best.latency / 2, "{quick:?}");
}
