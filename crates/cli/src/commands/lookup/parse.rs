//! Parses many millions of addresses as text: the same ones as `core`, in a tenth of the time.

use std::net::{IpAddr, Ipv6Addr};

/// An address; `None` where the standard library would have none either.
#[inline]
pub fn address(word: &[u8]) -> Option<IpAddr> {
    match ipv4(word) {
        Some(addr) => Some(IpAddr::V4(addr.into())),
        None => ipv6(word).map(|addr| IpAddr::V6(addr.into())),
    }
}

/// `a.b.c.d`, each 0..=255 without leading zeros.
#[inline]
fn ipv4(word: &[u8]) -> Option<u32> {
    if word.len() > 15 {
        return None;
    }
    let (mut addr, mut octet, mut digits, mut dots) = (0_u32, 0_u32, 0, 0);
    for &byte in word {
        if byte == b'.' {
            if digits == 0 || dots == 3 {
                return None;
            }
            addr = addr << 8 | octet;
            (octet, digits, dots) = (0, 0, dots + 1);
        } else {
            let digit = u32::from(byte.wrapping_sub(b'0'));
            // "0" may stand alone, no more than that.
            if digit > 9 || digits > 0 && octet == 0 {
                return None;
            }
            octet = 10 * octet + digit;
            digits += 1;
            if octet > 255 {
                return None;
            }
        }
    }
    (dots == 3 && digits > 0).then_some(addr << 8 | octet)
}

/// Groups of up to four digits, with `::` once; `core` parses addresses with dots.
#[inline]
fn ipv6(word: &[u8]) -> Option<u128> {
    if word.len() > 39 {
        return by_core(word);
    }
    let (mut addr, mut group, mut digits, mut groups) = (0_u128, 0_u32, 0, 0);
    // The groups before `::`.
    let mut gap = None;
    let mut bytes = word;
    if let [b':', b':', rest @ ..] = word {
        (gap, bytes) = (Some(0), rest);
    }
    let mut after_colon = gap.is_none() && bytes.first() == Some(&b':');
    if after_colon {
        return None;
    }
    for &byte in bytes {
        if byte == b':' {
            if after_colon {
                // The second of two.
                if gap.replace(groups).is_some() {
                    return None;
                }
                after_colon = false;
                continue;
            }
            if digits == 0 || groups == 7 {
                return None;
            }
            addr = addr << 16 | u128::from(group);
            (group, digits, groups, after_colon) = (0, 0, groups + 1, true);
            continue;
        }
        let digit = HEX[usize::from(byte)];
        if digit > 15 || digits == 4 {
            return by_core(word);
        }
        group = group << 4 | u32::from(digit);
        (digits, after_colon) = (digits + 1, false);
    }
    if after_colon {
        return None;
    }
    if digits > 0 {
        addr = addr << 16 | u128::from(group);
        groups += 1;
    }
    match gap {
        None if groups == 8 => Some(addr),
        // `::` stands for one group at the least.
        Some(before) if groups < 8 => {
            let behind = 16 * (groups - before);
            let low = addr & ((1 << behind) - 1);
            let high = addr >> behind;
            Some(high.checked_shl(128 - 16 * before).unwrap_or(0) | low)
        }
        _ => None,
    }
}

#[cold]
fn by_core(word: &[u8]) -> Option<u128> {
    let addr: Ipv6Addr = core::str::from_utf8(word).ok()?.parse().ok()?;
    Some(addr.into())
}

/// The value of a digit; more than 15 for another character.
const HEX: [u8; 256] = {
    let (mut table, mut byte) = ([0xff; 256], 0);
    while byte < 256 {
        table[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => 0xff,
        };
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use lookup::rng::SplitMix64;

    use super::*;

    fn as_core(text: &[u8]) {
        let want = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        assert_eq!(address(text), want, "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn what_core_parses_and_nothing_else() {
        for text in [
            "",
            "0.0.0.0",
            "255.255.255.255",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1..2.3",
            "1.2.3.",
            ".1.2.3",
            "1.2.3.4 ",
            "::",
            ":::",
            "::1",
            "1::",
            "1::1::1",
            ":1",
            "1:",
            "1:2",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "::1:2:3:4:5:6:7:8",
            "1:2:3:4::5:6:7:8",
            "2001:DB8::1",
            "12345::",
            "::ffff:192.0.2.1",
            "::192.0.2.300",
            "1:2:3:4:5:6:192.0.2.1",
            "fe80::1%eth0",
            "g::",
            "1::2:",
            "::1:",
        ] {
            as_core(text.as_bytes());
        }
    }

    #[test]
    fn random_addresses_and_random_damage() {
        let mut rng = SplitMix64(5);
        for _ in 0..100_000 {
            let sparse = rng.next() & rng.next() & rng.next();
            let mut bits = rng.wide();
            for i in 0..8 {
                if sparse >> i & 1 == 1 || rng.below(3) == 0 {
                    bits &= !(0xffff << (16 * i));
                }
            }
            let text = match rng.below(3) {
                0 => Ipv6Addr::from(bits).to_string(),
                1 => std::net::Ipv4Addr::from((bits >> 64) as u32).to_string(),
                _ => format!("{:X}:{:x}::{:x}", bits as u16, bits >> 112, (bits >> 40) as u16),
            };
            let mut text = text.into_bytes();
            as_core(&text);
            let at = rng.below(text.len() as u64) as usize;
            match rng.below(3) {
                0 => text[at] = b"0:.f5g\xff "[rng.below(8) as usize],
                1 => text.insert(at, b"0:.f5"[rng.below(5) as usize]),
                _ => drop(text.remove(at)),
            }
            as_core(&text);
        }
    }
}
