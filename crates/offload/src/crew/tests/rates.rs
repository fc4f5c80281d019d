//! Rates that change in mid-run, and profiles that are wrong. Addresses are counted.

use super::*;

struct Ignored;

impl Output<u32> for Ignored {
    fn take(&mut self, _: &[u32], _: &[Hop]) -> io::Result<()> {
        Ok(())
    }
}

/// A side: its rate, after so many addresses another, and the rate of its profile.
struct Side {
    rate: f64,
    then: Option<(u64, f64)>,
    profile: f64,
}

fn steady(rate: f64) -> Side {
    Side { rate, then: None, profile: rate }
}

/// What device and cores answer of `count` addresses, of an input that says how many are left, and
/// of one that does not.
fn divided(device: &Side, cores: &Side, count: u64) -> [[u64; 2]; 2] {
    let rib = routes();
    [true, false].map(|says| {
        let clock = Clock::made();
        let model = |side: &Side| {
            let figures = Figures { rate: side.rate, then: side.then, ..Figures::default() };
            Box::new(Model::new(figures, &clock))
        };
        let mut crew = Crew::new(table(&rib), model(cores), 1000, 4 << 20, &clock).unwrap();
        crew.join(model(device), Buffers { size: 2000, depth: 3 }, Share::Measured).unwrap();
        crew.profiled(device.profile, cores.profile);
        crew.run(&mut Source::new(count, says, &rib, None), &mut Ignored).unwrap();
        let answered = crew.answered();
        assert_eq!(answered[0] + answered[1], count);
        answered
    })
}

/// Beside cores that do 10 million a second; each rate is there for a tenth of a second or more.
#[test]
#[cfg_attr(miri, ignore = "millions of addresses")]
fn a_device_that_changes_a_hundredfold_gets_what_its_new_rate_deserves() {
    for (rate, then, count) in [(40e6, 4e5, 15_000_000), (4e5, 40e6, 6_000_000)] {
        let before = (rate / 10.0) as u64;
        let device = Side { rate, then: Some((before, then)), profile: rate };
        for [device, cores] in divided(&device, &steady(10e6), count) {
            let [device, cores] = [device - before, cores - 1_000_000].map(|rest| rest as f64);
            let (part, fair) = (device / (device + cores), then / (then + 10e6));
            assert!((part - fair).abs() < 0.04, "{then}: {part} of {fair}");
        }
    }
}

/// A side with less than a fiftieth of the other's rate gets nothing until a trial shows that it
/// is faster. A trial of it is due after somewhat less than 10 million addresses.
#[test]
#[cfg_attr(miri, ignore = "millions of addresses")]
fn a_profile_that_is_a_hundred_times_too_low_is_corrected() {
    let (count, low) = (20_000_000, Side { profile: 1e5, ..steady(10e6) });
    for [device, cores] in divided(&low, &steady(10e6), count) {
        assert!((4_800_000..=5_700_000).contains(&device), "{device} beside {cores}");
    }
    for [device, cores] in divided(&steady(10e6), &low, count) {
        assert!((4_800_000..=5_700_000).contains(&cores), "{cores} beside {device}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "millions of addresses")]
fn a_side_that_becomes_fast_is_found_and_one_that_stays_slow_gets_little() {
    // It changes in its first trial.
    let later = Side { then: Some((1000, 10e6)), ..steady(1.5e5) };
    for [device, cores] in divided(&later, &steady(10e6), 20_000_000) {
        assert!(device > 3_000_000, "{device} beside {cores}");
    }
    for [device, cores] in divided(&steady(1.5e5), &steady(10e6), 15_000_000) {
        assert!((1000..4000).contains(&device), "{device} beside {cores}");
    }
    for [device, cores] in divided(&steady(10e6), &steady(1.5e5), 15_000_000) {
        assert!((1000..4000).contains(&cores), "{cores} beside {device}");
    }
}

/// One core and all cores are the same here.
#[test]
#[cfg_attr(miri, ignore = "millions of addresses")]
fn a_device_that_is_left_out_gets_its_share_once_it_does_more_than_a_core() {
    let (rib, clock) = (routes(), Clock::made());
    for (then, parts) in [(None, 0.0..0.02), (Some((1000, 40e6)), 0.4..0.8)] {
        let mut crew = crew(&rib, &clock);
        let figures = Figures { rate: 2e6, then, ..Figures::default() };
        let buffers = Buffers { size: 4000, depth: 3 };
        crew.join(Box::new(Model::new(figures, &clock)), buffers, Share::Measured).unwrap();
        crew.profiled(2e6, 10e6);
        crew.leave_out();
        let count = 12_000_000;
        crew.run(&mut Source::new(count, false, &rib, None), &mut Ignored).unwrap();
        let part = crew.answered()[0] as f64 / count as f64;
        assert!(parts.contains(&part), "{then:?}: {part}");
    }
}

/// Cores that answer alone, the feeding one among them, because the device is too slow.
#[test]
fn what_cores_answer_without_a_slow_device_is_counted() {
    let (rib, clock) = (routes(), Clock::real());
    let cores = Box::new(Threads::start(2).unwrap());
    let mut crew = Crew::new(table(&rib), cores, 100, 1 << 20, &clock).unwrap();
    crew.join(model(1e4, None, &clock), Buffers { size: 100, depth: 2 }, Share::Measured).unwrap();
    crew.profiled(1e4, 50e6);
    let (dsts, mut hops, mut all) = ([7; 1000], [Hop::NONE; 1000], 0);
    for _ in 0..10 {
        crew.answer(&dsts, &mut hops).unwrap();
        all += 1000;
        assert_eq!(crew.answered().into_iter().sum::<u64>(), all);
    }
    assert!(crew.answered()[1] > 5000);
}

/// The side that would be done first, at the rates of the profile.
#[test]
fn the_first_batch_goes_to_who_is_done_first() {
    let (rib, clock) = (routes(), Clock::made());
    for (rate, who) in [(1e6, Who::Cores), (1e9, Who::Device)] {
        let mut crew = crew(&rib, &clock);
        crew.join(model(rate, None, &clock), BUFFERS, Share::Measured).unwrap();
        crew.profiled(rate, 10e6);
        assert_eq!(crew.choose(None), Some(who), "{rate}");
    }
}
