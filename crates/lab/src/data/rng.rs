//! Random numbers that are the same on every machine.

use lookup::hash;
use lookup::rng::SplitMix64;

/// A seed is enough to see a run again.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64(seed))
    }

    /// 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `n`, which is at least 1 and at most 2^32.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        hash::below((self.next() >> 32) as u32, n as u64) as usize
    }

    /// A number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 128 random bits.
    pub fn wide(&mut self) -> u128 {
        self.0.wide()
    }

    /// Mixes the order of `items` (Fisher, Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next(), 0xe220_a839_7b1d_cdaf); // as published
        assert!((0..1000).all(|_| rng.below(7) < 7 && rng.unit() < 1.0));
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert_ne!(items[..5], [0, 1, 2, 3, 4]);
        items.sort_unstable();
        assert!(items.iter().enumerate().all(|(i, &item)| i as u32 == item));
    }
}
