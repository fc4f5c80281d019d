//! Hash functions of integers: what the filters and the hash tables are addressed
//! with, in one place.
//!
//! | function            | steps                             | source                         |
//! |---------------------|-----------------------------------|--------------------------------|
//! | [`murmur3_32`]      | 4 multiplications                 | Appleby, MurmurHash3 x86_32    |
//! | [`murmur3_64`]      | 2 multiplications                 | its 64-bit finalizer           |
//! | [`knuth_32`], `_64` | 1 multiplication                  | Knuth, TAOCP 3, 6.4            |
//! | [`h2`]              | 2 multiplications                 | Mueller, H2 database engine    |
//! | [`Crc32c`]          | 1 instruction, or 8 table reads   | Castagnoli; RFC 3720, B.4      |
//!
//! All but CRC are plain arithmetic without a branch: a loop over an array of keys
//! becomes vector code. CRC is linear: two CRCs of one key with different starts
//! differ by a constant, so a second, independent hash needs a key that was
//! multiplied first ([`pair`] does).

/// MurmurHash3 (x86_32) of one 32-bit word.
#[inline(always)]
pub fn murmur3_32(key: u32, seed: u32) -> u32 {
    let word = key.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let hash = (seed ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64) ^ 4;
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The 64-bit finalizer of MurmurHash3; `seed` is added to the key.
#[inline(always)]
pub fn murmur3_64(key: u64, seed: u64) -> u64 {
    let key = key.wrapping_add(seed);
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// Knuth's multiplicative hash. Its low bits say only what the key's low bits
/// do (keys that are multiples of 2^n give such hashes): use the high ones.
#[inline(always)]
pub fn knuth_32(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}

/// Knuth's multiplicative hash of 64 bits; see [`knuth_32`].
#[inline(always)]
pub fn knuth_64(key: u64) -> u64 {
    key.wrapping_mul(GOLDEN)
}

/// The integer hash of the H2 database engine.
#[inline(always)]
pub fn h2(key: u32) -> u32 {
    let key = (key >> 16 ^ key).wrapping_mul(0x045d_9f3b);
    let key = (key >> 16 ^ key).wrapping_mul(0x045d_9f3b);
    key >> 16 ^ key
}

/// A seeded 64-bit hash of 128 bits, for the filters: both halves of it are good.
#[inline(always)]
pub fn mix_128(key: u128, seed: u64) -> u64 {
    let high = murmur3_64((key >> 64) as u64, seed);
    murmur3_64(key as u64 ^ high, seed.rotate_left(32) ^ GOLDEN)
}

/// A way to compute CRC-32C (polynomial 0x1EDC6F41, reflected).
pub trait Crc32c {
    /// Goes on from `crc` over the eight bytes of `word`, low byte first; neither
    /// start nor end is inverted.
    fn word(crc: u32, word: u64) -> u32;
}

/// With eight tables of 256 words, on any processor.
pub struct Portable;

impl Crc32c for Portable {
    #[inline(always)]
    fn word(crc: u32, word: u64) -> u32 {
        let bytes = (word ^ u64::from(crc)).to_le_bytes();
        let of = |i: usize| TABLES[7 - i][usize::from(bytes[i])];
        of(0) ^ of(1) ^ of(2) ^ of(3) ^ of(4) ^ of(5) ^ of(6) ^ of(7)
    }
}

/// With the instruction of SSE 4.2; only where [`hardware`] says that there is one.
#[cfg(target_arch = "x86_64")]
pub struct Sse42;

#[cfg(target_arch = "x86_64")]
impl Crc32c for Sse42 {
    #[inline(always)]
    fn word(crc: u32, word: u64) -> u32 {
        // SAFETY: needs SSE 4.2, which every user of this type has looked for.
        unsafe { core::arch::x86_64::_mm_crc32_u64(u64::from(crc), word) as u32 }
    }
}

/// True where the processor computes CRC-32C.
pub fn hardware() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return is_x86_feature_detected!("sse4.2");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return false;
}

/// One step of CRC-32C, the way this processor does it best.
#[inline]
pub fn crc32c(crc: u32, word: u64) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if hardware() {
        return Sse42::word(crc, word);
    }
    Portable::word(crc, word)
}

/// 64 bits of hash from two CRCs: of the words, and of the words multiplied by
/// `odd`, which breaks the linearity that they would share.
#[inline(always)]
pub fn pair<C: Crc32c>(seeds: [u32; 2], odd: u64, words: &[u64]) -> u64 {
    let [mut low, mut high] = seeds;
    for &word in words {
        low = C::word(low, word);
        high = C::word(high, word.wrapping_mul(odd));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// A number below `n` from 32 bits of hash: the high ones count (Lemire, *Fast
/// random integer generation in an interval*, 2019).
#[inline(always)]
pub fn below(hash: u32, n: u64) -> u64 {
    (u64::from(hash) * n) >> 32
}

/// 2^64 over the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The polynomial with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[i][b]`: the CRC of byte `b` and `i` zero bytes behind it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut i = 1;
    while i < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[i - 1][byte];
            tables[i][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        i += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur_and_h2_give_the_published_values() {
        let test = u32::from_le_bytes(*b"test");
        assert_eq!(murmur3_32(test, 0), 0xba6b_d213);
        assert_eq!(murmur3_32(test, 0x9747_b28c), 0x704b_81dc);
        assert_eq!(murmur3_64(1, 0), 0xb456_bcfc_34c2_cb2c);
        assert_eq!((h2(0), knuth_32(1)), (0, 0x9e37_79b1));
    }

    #[test]
    fn crc_gives_the_values_of_rfc_3720() {
        let of = |word: u64| !(0..4).fold(u32::MAX, |crc, _| Portable::word(crc, word));
        assert_eq!(of(0), 0x8a91_36aa);
        assert_eq!(of(u64::MAX), 0x62a8_ab43);
    }

    #[test]
    fn the_ways_to_compute_crc_agree() {
        let mut word = 1_u64;
        for crc in 0..1000 {
            word = murmur3_64(word, 7);
            assert_eq!(Portable::word(crc, word), crc32c(crc, word));
        }
    }

    #[test]
    fn keys_that_one_crc_confuses_the_other_tells_apart() {
        let twin = 1 | u64::from(POLYNOMIAL) << 1; // the polynomial itself: its CRC is 0
        for key in (0..1000).map(|key| murmur3_64(key, 3)) {
            let [a, b] = [key, key ^ twin].map(|key| pair::<Portable>([1, 2], GOLDEN, &[key]));
            assert_eq!(a as u32, b as u32);
            assert_ne!(a >> 32, b >> 32);
        }
    }
}
