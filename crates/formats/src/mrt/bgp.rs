//! The part of BGP that says which routes there are (RFC 4271 §4.3, RFC 4760,
//! RFC 7911): NLRI and the attributes that choose the best route.

use core::net::IpAddr;

use super::cursor::{Cursor, Family};
use crate::prefix::AnyPrefix;
use crate::report::Fault;

/// The attributes that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes<'a> {
    pub local_pref: Option<u32>,
    pub as_path: AsPath,
    pub as4_path: Option<AsPath>,
    pub origin: u8,
    pub med: Option<u32>,
    pub next_hop: Option<IpAddr>,
    /// Next hop and NLRI of an MP_REACH_NLRI of a unicast family.
    pub reach: Option<(Option<IpAddr>, Nlri<'a>)>,
    /// NLRI of an MP_UNREACH_NLRI of a unicast family.
    pub unreach: Option<Nlri<'a>>,
}

/// An AS path as far as the choice of routes needs it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct AsPath {
    /// An AS_SET counts as one (RFC 4271 §9.1.2.2 a), a confederation as none
    /// (RFC 5065 §5.3).
    pub len: u32,
    /// The first AS of a leading sequence, else 0.
    pub first: u32,
}

impl<'a> Attributes<'a> {
    /// Parses a whole attribute section, of a message or of a table's entry; AS
    /// numbers have 4 bytes where `wide_asn`, else 2.
    pub fn parse(mut section: Cursor<'a>, wide_asn: bool) -> Result<Self, Fault> {
        let mut all = Attributes { origin: INCOMPLETE, ..Attributes::default() };
        while !section.is_empty() {
            let flags = section.u8("attributes")?;
            let kind = section.u8("attributes")?;
            let len = match flags & EXTENDED {
                0 => usize::from(section.u8("attributes")?),
                _ => usize::from(section.u16("attributes")?),
            };
            all.add(kind, section.sub(len, "attributes")?, wide_asn)?;
        }
        Ok(all)
    }

    fn add(&mut self, kind: u8, mut value: Cursor<'a>, wide_asn: bool) -> Result<(), Fault> {
        match kind {
            1 => self.origin = value.u8("ORIGIN")?,
            2 => self.as_path = AsPath::parse(value, wide_asn)?,
            3 => self.next_hop = Some(next_hop(value)?.ok_or(NO_ADDRESS)?),
            4 => self.med = Some(value.u32("MULTI_EXIT_DISC")?),
            5 => self.local_pref = Some(value.u32("LOCAL_PREF")?),
            14 => self.reach = reach(value)?,
            15 => self.unreach = Nlri::header(&mut value)?.map(|family| Nlri { family, value }),
            // RFC 6793 §6: a malformed AS4_PATH is ignored.
            17 => self.as4_path = AsPath::parse(value, true).ok(),
            _ => (),
        }
        Ok(())
    }

    /// The AS that the route came from, where AS4_PATH says what AS_PATH's
    /// 23456 stands for (RFC 6793 §4.2.3).
    pub fn neighbour_as(&self) -> u32 {
        match self.as4_path {
            Some(path) if path.len == self.as_path.len => path.first,
            _ => self.as_path.first,
        }
    }
}

impl AsPath {
    fn parse(mut value: Cursor, wide: bool) -> Result<Self, Fault> {
        let mut path = AsPath::default();
        let mut leading = true;
        while !value.is_empty() {
            let kind = value.u8("AS_PATH")?;
            let count = value.u8("AS_PATH")?;
            let mut ases = value.sub(usize::from(count) * if wide { 4 } else { 2 }, "AS_PATH")?;
            match kind {
                1 => path.len += 1,
                2 => {
                    path.len += u32::from(count);
                    if leading && count > 0 {
                        path.first = ases.asn(wide, "AS_PATH")?;
                    }
                }
                3 | 4 => continue, // inside our own confederation
                _ => return Err(Fault::Malformed("an unknown AS_PATH segment")),
            }
            leading = false;
        }
        Ok(path)
    }
}

/// A list of prefixes, not parsed yet.
#[derive(Clone, Copy)]
pub(super) struct Nlri<'a> {
    pub family: Family,
    pub value: Cursor<'a>,
}

impl core::fmt::Debug for Nlri<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {:02x?}", self.family, self.value.0)
    }
}

impl Nlri<'_> {
    /// Appends each path identifier (0 without ADD-PATH) and prefix to `routes`;
    /// before a fault, what could be read.
    ///
    /// Some writers leave ADD-PATH unsaid. Read without it, the zeros that begin a
    /// path identifier are default routes: where there are several, or the rest
    /// does not parse, and all of it parses with ADD-PATH, that is what it is.
    pub fn parse(self, add_path: bool, routes: &mut Vec<(u32, AnyPrefix)>) -> Result<(), Fault> {
        let before = routes.len();
        let done = self.parse_as(add_path, routes);
        let defaults = routes[before..].iter().filter(|(_, prefix)| prefix.is_default()).count();
        if add_path || !self.value.0.starts_with(&[0]) || (done.is_ok() && defaults < 2) {
            return done;
        }
        let mut other = Vec::new();
        if self.parse_as(true, &mut other).is_ok() {
            routes.truncate(before);
            routes.append(&mut other);
            return Ok(());
        }
        done
    }

    fn parse_as(mut self, add_path: bool, routes: &mut Vec<(u32, AnyPrefix)>) -> Result<(), Fault> {
        while !self.value.is_empty() {
            let path_id = if add_path { self.value.u32("NLRI")? } else { 0 };
            routes.push((path_id, self.value.prefix(self.family, "NLRI")?));
        }
        Ok(())
    }

    /// Reads the family in front of MP_REACH and MP_UNREACH; `None` where it is
    /// not unicast IPv4 or IPv6.
    fn header(value: &mut Cursor) -> Result<Option<Family>, Fault> {
        let afi = value.u16("multiprotocol NLRI")?;
        let safi = value.u8("multiprotocol NLRI")?;
        Ok(Family::from_afi(afi).filter(|_| safi == UNICAST))
    }
}

/// MP_REACH_NLRI (RFC 4760 §3), or what tables store of it: the next hop alone
/// (RFC 6396 §4.3.4), which many writers ignore. A next hop's length cannot be 0
/// there, and no family number begins with another byte than 0.
fn reach(mut value: Cursor<'_>) -> Result<Option<(Option<IpAddr>, Nlri<'_>)>, Fault> {
    let alone =
        value.0.first().is_some_and(|&len| len > 0 && usize::from(len) + 1 == value.0.len());
    if alone {
        value.u8("MP_REACH_NLRI")?;
        let none = Nlri { family: Family::V6, value: Cursor(&[]) };
        return Ok(Some((next_hop(value)?, none)));
    }
    let Some(family) = Nlri::header(&mut value)? else { return Ok(None) };
    let len = value.u8("MP_REACH_NLRI")?;
    let hop = next_hop(value.sub(usize::from(len), "MP_REACH_NLRI")?)?;
    value.u8("MP_REACH_NLRI")?; // reserved
    Ok(Some((hop, Nlri { family, value })))
}

/// A next hop of any length in use: an address, two of them (RFC 2545 §3: of a
/// global and a link-local one the global), or either behind route
/// distinguishers (RFC 8950 §4).
fn next_hop(mut value: Cursor) -> Result<Option<IpAddr>, Fault> {
    let len = value.0.len();
    let mut v6 = || value.addr(Family::V6, "next hop");
    Ok(Some(match len {
        0 => return Ok(None),
        4 => value.addr(Family::V4, "next hop")?,
        16 => v6()?,
        32 => {
            let (first, second) = (v6()?, v6()?);
            let local = |addr| matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
            if local(first) && !local(second) { second } else { first }
        }
        12 | 24 | 48 => {
            value.take(8, "next hop")?;
            let family = if value.0.len() == 4 { Family::V4 } else { Family::V6 };
            value.addr(family, "next hop")?
        }
        _ => return Err(NO_ADDRESS),
    }))
}

const NO_ADDRESS: Fault = Fault::Malformed("a next hop that is no address");

const EXTENDED: u8 = 0x10;
const INCOMPLETE: u8 = 2;
const UNICAST: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(bytes: &[u8]) -> Result<Attributes<'_>, Fault> {
        Attributes::parse(Cursor(bytes), true)
    }

    #[test]
    fn the_attributes_that_choose() {
        let bytes = [
            &[0x40, 1, 1, 0][..],
            &[0x50, 2, 0, 10, 2, 2, 0, 0, 0xfd, 0xe8, 0, 0, 0, 7],
            &[0x40, 3, 4, 192, 0, 2, 1],
            &[0x80, 4, 4, 0, 0, 0, 9],
            &[0x40, 5, 4, 0, 0, 0, 200],
            &[0xc0, 8, 4, 1, 2, 3, 4],
        ]
        .concat();
        let all = attributes(&bytes).unwrap();
        assert_eq!((all.origin, all.med, all.local_pref), (0, Some(9), Some(200)));
        assert_eq!(all.as_path, AsPath { len: 2, first: 65_000 });
        assert_eq!(all.next_hop, Some([192, 0, 2, 1].into()));
        for cut in 1..bytes.len() {
            let _ = attributes(&bytes[..cut]); // never a panic
        }
    }

    #[test]
    fn sets_count_once_and_confederations_not() {
        let path = [3, 1, 0, 0, 0, 9, 2, 1, 0, 0, 0, 5, 1, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let path = AsPath::parse(Cursor(&path), true).unwrap();
        assert_eq!(path, AsPath { len: 2, first: 5 });
        assert_eq!(AsPath::parse(Cursor(&[1, 1, 0, 8]), false).unwrap().first, 0);
        assert!(AsPath::parse(Cursor(&[9, 0]), true).is_err());
        assert!(AsPath::parse(Cursor(&[2, 3, 0, 0]), true).is_err());
    }

    #[test]
    fn a_wide_path_beside_a_narrow_one_names_the_neighbour() {
        let bytes = [0x40, 2, 4, 2, 1, 0x5b, 0xa0, 0xc0, 17, 6, 2, 1, 0, 1, 0, 0];
        let all = Attributes::parse(Cursor(&bytes), false).unwrap();
        assert_eq!((all.as_path.first, all.neighbour_as()), (23456, 65536));
    }

    #[test]
    fn both_forms_of_mp_reach() {
        let global = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let alone = [&[0x80, 14, 17, 16][..], &global].concat();
        let (hop, nlri) = attributes(&alone).unwrap().reach.unwrap();
        assert_eq!((hop, nlri.value.0.len()), (Some(global.into()), 0));
        // Link-local first, and the default route with another behind it.
        let nlri = [0, 16, 0x20, 1];
        let full = [&[0x80, 14, 41, 0, 2, 1, 32][..], &local, &global, &[0], &nlri].concat();
        let (hop, nlri) = attributes(&full).unwrap().reach.unwrap();
        let mut routes = Vec::new();
        nlri.parse(false, &mut routes).unwrap();
        assert_eq!(hop, Some(global.into()));
        let routes: Vec<_> = routes.iter().map(|(_, prefix)| prefix.to_string()).collect();
        assert_eq!(routes, ["::/0", "2001::/16"]);
        // Another family is no business of ours.
        let vpn = [0x80, 14, 6, 0, 1, 128, 1, 7, 0];
        assert!(attributes(&vpn).unwrap().reach.is_none());
    }

    #[test]
    fn prefixes_are_masked_and_too_long_ones_refused() {
        let parse = |bytes, add_path| {
            let mut routes = Vec::new();
            let nlri = Nlri { family: Family::V4, value: Cursor(bytes) };
            nlri.parse(add_path, &mut routes).map(|()| routes)
        };
        let routes = parse(&[0, 0, 0, 7, 20, 10, 1, 0xff], true).unwrap();
        assert_eq!((routes[0].0, routes[0].1.to_string().as_str()), (7, "10.1.240.0/20"));
        // ADD-PATH unsaid: path identifier 2, 172.17.0.0/24, twice.
        let routes =
            parse(&[0, 0, 0, 2, 24, 172, 17, 0, 0, 0, 0, 2, 24, 172, 17, 1], false).unwrap();
        assert_eq!(
            (routes.len(), routes[0].0, routes[1].1.to_string().as_str()),
            (2, 2, "172.17.1.0/24")
        );
        assert!(parse(&[33, 1, 2, 3, 4, 5], false).is_err());
        assert!(parse(&[200], false).is_err());
        assert!(parse(&[24, 1, 2], false).is_err());
    }
}
