//! Six levels of the trie of prefixes in one word: the bits of all prefixes of a
//! node's length and up to five bits more.
//!
//! ```text
//!    bit       1           the node itself
//!           2     3        one bit more
//!          4 5   6 7       two …              bit 0 is not used
//!              …
//!        32  …  63         five
//! ```

/// Bits of all prefixes of a word that cover an address with these five bits
/// after the node's own.
#[inline(always)]
pub(super) fn path(five: u32) -> u64 {
    PATHS[(five & 31) as usize]
}

/// The bit of the prefix whose bits after the node's are the last `len` (0 to 5) of
/// `bits`.
#[inline(always)]
pub(super) fn bit(bits: u32, len: u8) -> u32 {
    1 << len | bits & ((1 << len) - 1)
}

/// How many bits more than the node the longest prefix of `word` has; 0 also where
/// there is none.
#[inline(always)]
pub(super) fn longest(word: u64) -> u32 {
    // | 2: a word of 0 gives 0; no other is changed by it in its highest bit.
    (word | 2).ilog2().ilog2()
}

const PATHS: [u64; 32] = {
    let mut paths = [0; 32];
    let mut five = 0;
    while five < 32 {
        let mut at = 32 | five;
        while at > 0 {
            paths[five] |= 1 << at;
            at /= 2;
        }
        five += 1;
    }
    paths
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_on_the_path_is_found() {
        for len in 0..=5 {
            for bits in 0..1 << len {
                let word = 1 << bit(bits, len);
                for five in 0..32 {
                    let covers = five >> (5 - len) == bits;
                    assert_eq!(word & path(five) != 0, covers, "{bits}/{len} {five}");
                }
                assert_eq!(longest(word | 1 << 1), len.into());
            }
        }
        assert_eq!(longest(0), 0);
    }
}
