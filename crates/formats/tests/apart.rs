//! What the parser makes of a file, compared with what shares nothing with it: the
//! standard library's addresses, a plain list, and a search from end to end.

use std::fmt::Write;
use std::net::IpAddr;

use formats::{Load, Table};
use lookup::rng::SplitMix64;

/// Address and length as numbers of 128 bits: of IPv4 in the upper 32.
fn wide(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => u128::from(addr.to_bits()) << 96,
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

/// The next hop of the longest prefix around `addr`, in a list of `prefix next-hop` lines.
fn scan(text: &str, addr: IpAddr) -> Option<&str> {
    let mut best: Option<(u32, &str)> = None;
    for line in text.lines() {
        let (prefix, hop) = line.split_once(' ').expect("a next hop");
        let (base, len) = prefix.split_once('/').expect("a length");
        let (base, len): (IpAddr, u32) = (base.parse().unwrap(), len.parse().unwrap());
        let differ = (wide(base) ^ wide(addr)).leading_zeros();
        // Of two equal prefixes the later line counts.
        let covers = base.is_ipv4() == addr.is_ipv4() && differ >= len;
        if covers && best.is_none_or(|(longest, _)| len >= longest) {
            best = Some((len, hop));
        }
    }
    best.map(|(_, hop)| hop)
}

#[test]
fn a_search_from_end_to_end_finds_the_same_next_hops() {
    let (mut rng, mut text, mut asked) = (SplitMix64(16), String::new(), Vec::new());
    for i in 0..400 {
        let v4 = rng.below(2) == 0;
        let width = if v4 { 32 } else { 128 };
        let len = rng.below(width + 1) as u32;
        // Few places, so that prefixes nest and repeat.
        let place = 0x2a0a_0000_u128 << 96 | u128::from(rng.below(8)) << (128 - len.clamp(1, 20));
        let random = rng.wide();
        let bits = (place | random >> 20) & (u128::MAX.checked_shl(128 - len).unwrap_or(0));
        let ip = |bits: u128| -> IpAddr {
            if v4 { IpAddr::V4(((bits >> 96) as u32).into()) } else { IpAddr::V6(bits.into()) }
        };
        writeln!(text, "{}/{len} gw{}", ip(bits), i % 37).unwrap();
        let host = u128::MAX.checked_shr(len).unwrap_or(0);
        asked.extend([bits, bits | host, bits | random & host, bits ^ 1 << 96].map(ip));
    }
    let file: std::io::Cursor<Vec<u8>> = std::io::Cursor::new(text.clone().into());
    let table = Table::read(file, 0, &Load::default()).unwrap();
    assert!(table.report.is_sound(), "{:?}", table.report);
    let mut found = 0;
    for addr in asked {
        let hop = match addr {
            IpAddr::V4(addr) => table.v4.lookup(addr.to_bits()).map(|(_, hop)| hop),
            IpAddr::V6(addr) => table.v6.lookup(addr.to_bits()).map(|(_, hop)| hop),
        };
        let name = hop.map(|hop| table.hops.name(hop).expect("all have names"));
        assert_eq!(name, scan(&text, addr), "{addr}");
        found += usize::from(name.is_some());
    }
    assert!(found > 1000, "{found}");
}
