//! Random calls, against a map.

use super::*;

/// One random call of each kind, for all engines and rules.
fn step(rng: &mut Rng, twin: &mut Twin, now: u64, numbers: u64) {
    let pick = |rng: &mut Rng| key(rng.next() % numbers);
    match rng.below(12) {
        0..6 => {
            let batch: Vec<_> = (0..rng.below(90)).map(|_| pick(rng)).collect();
            twin.claim(now, now + rng.next() % (9 * SECOND), &batch);
        }
        6 => {
            let key = pick(rng);
            let held = twin.map.contains_key(&key);
            assert_eq!(twin.call(|table, gone| table.delete(&key, gone)), held);
        }
        7 => {
            twin.call(|table, gone| table.sweep(now, 50, gone));
        }
        8 => {
            let which = rng.next() as u8 & 31;
            let (mut from, want) = (Some(0), |flow: &Flow| flow.state[0] & 31 == which);
            let stay = twin.map.values().filter(|want| want.state[0] & 31 != which).count();
            while let Some(at) = from {
                let all = &mut |flow: &Flow, _: Option<&Page>| want(flow);
                from = twin.call(|table, gone| table.flush(at, 64, all, gone));
            }
            assert_eq!(twin.map.len(), stay);
        }
        _ => {
            for _ in 0..rng.below(40) {
                let key = pick(rng);
                if !twin.map.contains_key(&key) {
                    continue;
                }
                match rng.below(5) {
                    0 | 1 => {
                        let is_new = twin.map[&key].page.is_none();
                        assert!(twin.decide(&key) || is_new, "a decided flow stays one");
                    }
                    2 => twin.undecide(&key),
                    _ => {
                        let expires = now.saturating_add(rng.next() >> rng.below(64));
                        twin.change(&key, expires, rng.below(2) == 0, rng.next() as u8);
                    }
                }
            }
        }
    }
}

#[test]
fn every_table_agrees_with_a_map() {
    let rounds = if cfg!(miri) { 12 } else { 400 };
    for (seed, (entry, rule)) in (0..).zip(all()) {
        for (size, way) in [(8, "groups"), (90, "turns"), (300, "groups"), (2500, "singly")] {
            if cfg!(miri) && size > 90 {
                continue;
            }
            let options = [("full", rule), ("batch", way)];
            let mut twin = Twin::new(built(entry, size, &options));
            let (mut rng, mut now) = (Rng::new(seed), SECOND);
            let numbers = size as u64 * 5 / 4;
            for round in 0..rounds {
                now += rng.next() % (SECOND / 4);
                step(&mut rng, &mut twin, now, numbers);
                if round % 20 == 0 {
                    twin.agrees(&keys(numbers..numbers + 20));
                }
            }
            twin.agrees(&keys(0..numbers));
        }
    }
}

/// Clocks that jump make for other choices, and for nothing else.
#[test]
fn time_may_run_anywhere() {
    for (entry, rule) in all() {
        let mut twin = Twin::new(built(entry, 100, &[("full", rule)]));
        let mut rng = Rng::new(7);
        let mut now = 0;
        for _ in 0..if cfg!(miri) { 10 } else { 1000 } {
            now = match rng.below(8) {
                0 => 0,
                1 => u64::MAX - 9 * SECOND,
                2 => rng.next() >> rng.below(64) >> 5,
                3 => now.saturating_sub(rng.next() % SECOND),
                _ => (now + SECOND / 10).min(u64::MAX - 9 * SECOND),
            };
            step(&mut rng, &mut twin, now, 150);
        }
        twin.agrees(&keys(0..150));
    }
}

/// Which flow goes does not depend on the processor.
#[test]
fn every_instruction_set_makes_the_same_choices() {
    let (size, rounds) = if cfg!(miri) { (60, 12) } else { (300, 2_000) };
    for isa in ["avx2", "avx512"] {
        if crate::lpm::isa::Isa::named(isa).is_none() {
            testing::skip(format_args!("no {isa}"));
            continue;
        }
        let mut rngs = [(); 2].map(|()| Rng::new(9));
        let mut twins =
            ["portable", isa].map(|isa| Twin::new(built(ours(), size, &[("isa", isa)])));
        let vectors = if cfg!(miri) { "portable" } else { "avx2" };
        assert_eq!(twins.each_ref().map(|twin| twin.table.isa()), ["portable", vectors]);
        let mut now = SECOND;
        for round in 0..rounds {
            for (rng, twin) in rngs.iter_mut().zip(&mut twins) {
                step(rng, twin, now, 2 * size as u64);
            }
            let [portable, other] = &twins;
            assert!(portable.went == other.went && portable.map == other.map, "{isa}, {round}");
            now += (round * round) % (SECOND / 10);
        }
        let goes = twins.each_ref().map(|twin| twin.table.counts().replaced);
        assert!(goes[0] == goes[1] && (cfg!(miri) || goes[0][0] > 100), "{goes:?}");
    }
}
