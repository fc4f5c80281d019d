//! What sweeps take out, whatever the clock does between them.

use super::*;

/// Whole rounds, in pieces: afterwards nothing is there that has expired, and nothing else went.
#[test]
fn all_that_has_expired_goes_and_nothing_else() {
    let (size, rounds) = if cfg!(miri) { (60, 30) } else { (600, 600) };
    let lives = [1, SECOND / 100, SECOND, 4 * SECOND, 40 * SECOND, 600 * SECOND, 100_000 * SECOND];
    for (entry, rule) in all() {
        let mut twin = Twin::new(built(entry, size, &[("full", rule)]));
        let slots = twin.table.capacity().slots;
        let (mut rng, mut now) = (Rng::new(11), 70 * SECOND);
        let mut below = |n: usize| rng.below(n as u32) as usize;
        for round in 0..rounds {
            let batch: Vec<_> = (0..size / 20).map(|_| key(below(3 * size) as u64)).collect();
            twin.claim(now, now + lives[below(lives.len())], &batch);
            let there: Vec<_> =
                batch.iter().filter(|key| twin.map.contains_key(key)).copied().collect();
            for key in there {
                let chance = below(4);
                if chance > 0 && twin.decide(&key) {
                    twin.change(&key, now + lives[below(lives.len())], chance == 1, round as u8);
                }
                if chance == 3 && twin.map.get(&key).is_some_and(|want| want.page.is_some()) {
                    twin.undecide(&key);
                }
            }
            // Less than a unit of the words, less than half of their circle, and more.
            now += match below(40) {
                0 => 3600 * SECOND,
                1 => 33 * SECOND + below(33 * SECOND as usize) as u64,
                2..10 => below(12 * SECOND as usize) as u64,
                _ => below(SECOND as usize / 20) as u64,
            };
            let mut left = slots;
            while left > 0 {
                let places = (1 + below(slots)).min(left);
                let least = twin.call(|table, gone| table.sweep(now, places, gone));
                assert_eq!(least, twin.went.len());
                for (_, went, why) in &twin.went {
                    assert!(went.expires <= now && *why == Why::Expired);
                }
                left -= places;
            }
            let late = twin.map.values().filter(|want| want.expires <= now).count();
            assert_eq!(late, 0, "{} {rule}, round {round}", entry.card.name);
        }
        twin.agrees(&[]);
    }
}
