//! A hash of a flow's two addresses, by which it has one Grantor of several.

use lookup::exact::flow::FlowKey;
use lookup::rng::SplitMix64;

use super::flows::key_of;

/// Four secret numbers: whoever chooses addresses does not choose the Grantor.
#[derive(Clone, Copy, Debug)]
pub struct Mix([u64; 4]);

impl Mix {
    /// Drawn by `seed`.
    pub fn new(seed: u64) -> Mix {
        let mut rng = SplitMix64(seed);
        Mix(std::array::from_fn(|_| rng.next()))
    }

    /// Of a flow.
    #[inline]
    pub fn of(&self, key: &FlowKey) -> u32 {
        let [[a, b], [c, d]] = key.words();
        let [s, t, u, v] = self.0;
        let one = fold(a ^ s, b ^ t);
        let two = fold(c ^ u, d ^ v);
        (fold(one ^ u, two ^ t) >> 32) as u32
    }

    /// Of the flow of the packet that begins with `head`.
    #[inline]
    pub(super) fn of_packet(&self, head: &[u8; 64]) -> u32 {
        self.of(&key_of(head))
    }
}

/// Both halves of a product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn flows_are_spread_whichever_address_differs() {
        let mix = Mix::new(7);
        let share = |of: &dyn Fn(u32) -> FlowKey| {
            let mut seen = [0; 4];
            (0..4_000).for_each(|i| seen[(mix.of(&of(i)) >> 30) as usize] += 1);
            assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
        };
        share(&|i| FlowKey::v4(i, 1));
        share(&|i| FlowKey::v4(1, i));
        share(&|i| FlowKey::v6(u128::from(i) << 64, 1));
        share(&|i| FlowKey::v6(9, u128::from(i) << 64 | 3));
        assert_ne!(mix.of(&FlowKey::v4(1, 2)), Mix::new(8).of(&FlowKey::v4(1, 2)));
    }
}
