//! The key of the tables for Ethernet addresses.

use core::fmt;

/// An Ethernet address in a forwarding domain (a VLAN of a bridge): 60 bits.
///
/// I1: the low four bits are 0, so that arithmetic modulo 2^64 on the number is
/// arithmetic modulo 2^60 on the key.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Key(u64);

impl Key {
    /// `mac` as a number, its first byte the most significant of 48 bits; of
    /// `domain` 12 bits. Higher bits of either are dropped.
    #[inline(always)]
    pub const fn new(mac: u64, domain: u16) -> Key {
        Key(mac << 16 >> 12 | (domain as u64) << 52)
    }

    /// The address in the order in which it is sent.
    #[inline]
    pub const fn of(mac: [u8; 6], domain: u16) -> Key {
        let [a, b, c, d, e, f] = mac;
        Key::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), domain)
    }

    /// The address as a number of 48 bits.
    pub const fn mac(self) -> u64 {
        self.0 << 12 >> 16
    }

    /// The address in the order in which it is sent.
    pub const fn octets(self) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = self.mac().to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The forwarding domain.
    pub const fn domain(self) -> u16 {
        (self.0 >> 52) as u16
    }

    /// The key in the upper 60 bits, by I1.
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The key whose [`Key::bits`] are the upper 60 of `bits`.
    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> Key {
        Key(bits & !0xf)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.octets();
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}.{}", self.domain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_key_come_back() {
        let key = Key::of([0x02, 0x11, 0x22, 0x33, 0x44, 0xff], 4095);
        assert_eq!(key, Key::new(0x0211_2233_44ff, 4095));
        assert_eq!((key.mac(), key.domain()), (0x0211_2233_44ff, 4095));
        assert_eq!(key.octets(), [0x02, 0x11, 0x22, 0x33, 0x44, 0xff]);
        assert_eq!(format!("{key:?}"), "02:11:22:33:44:ff.4095");
        assert_eq!(Key::new(u64::MAX, u16::MAX), Key::of([0xff; 6], 4095));
        assert_eq!(Key::from_bits(key.bits() | 7), key);
    }
}
