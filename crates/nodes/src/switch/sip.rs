//! SipHash-2-4 of whole words: a keyed hash that nobody can predict without the key.
//!
//! Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012. (The
//! standard library's hashers promise no algorithm.)

/// The hash of `words` under `key`, each word read as eight bytes, the lowest first.
pub(super) fn sip(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let length = (words.len() as u64) << 59; // bytes in the highest byte: 8 a word
    for &word in words.iter().chain([&length]) {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' test vectors: key 00 01 … 0f, message 00 01 … of 0 and 8 bytes.
    #[test]
    fn hashes_are_those_of_the_paper() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(sip(key, &[0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    }

    #[test]
    #[allow(deprecated)]
    fn hashes_are_those_of_another_implementation() {
        use std::hash::{Hasher, SipHasher};
        for n in 0..12u64 {
            let words: Vec<u64> = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let mut other = SipHasher::new_with_keys(n, !n);
            words.iter().for_each(|word| other.write(&word.to_le_bytes()));
            assert_eq!(sip([n, !n], &words), other.finish(), "{n} words");
        }
    }
}
