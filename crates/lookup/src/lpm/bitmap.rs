//! What tries with bitmaps of 64 bits share: the six-bit windows of an address.
//! And what masks of eight lanes do: where their ones are.

use crate::Addr;

/// The six bits of `dst` after the first `from`, with zeros behind the last.
#[inline(always)]
pub(super) fn six<A: Addr>(dst: A, from: u8) -> u32 {
    if from <= 64 - STRIDE {
        return ((top(dst) << from) >> (64 - STRIDE)) as u32;
    }
    ((left(dst) << from) >> (128 - STRIDE)) as u32
}

/// The address's highest 64 bits; an IPv4 address is in the upper half.
#[inline(always)]
pub(super) fn top<A: Addr>(dst: A) -> u64 {
    (left(dst) >> 64) as u64
}

/// The address shifted to the left end of 128 bits.
#[inline(always)]
fn left<A: Addr>(dst: A) -> u128 {
    dst.to_u128() << (128 - A::WIDTH)
}

/// Bits that a node takes.
pub(super) const STRIDE: u8 = 6;

/// Slots of a node.
pub(super) const SLOTS: usize = 1 << STRIDE;

/// For each byte the places of its ones, a byte each.
pub(super) static ONES: [u64; 256] = {
    let mut all = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut at) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                all[mask] |= (bit as u64) << (8 * at);
                at += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bits_anywhere() {
        for from in 0..=26 {
            assert_eq!(six(0x89ab_cdef_u32, from), 0x89ab_cdef_u32.bits(from, 6), "{from}");
        }
        assert_eq!(six(0xffff_fff5_u32, 30), 0b01_0000);
        let dst = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3212_u128;
        for from in 0..=122 {
            assert_eq!(six(dst, from), dst.bits(from, 6), "{from}");
        }
        assert_eq!(six(dst, 126), 0b10_0000);
    }
}
