//! What an MRT record says about routes.

use core::net::IpAddr;

use super::bgp::{Attributes, Nlri};
use super::cursor::{Cursor, Family};
use super::frame::Record;
use crate::prefix::AnyPrefix;
use crate::report::Fault;

/// A BGP speaker that sent routes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer {
    /// Its address.
    pub addr: IpAddr,
    /// Its AS number.
    pub asn: u32,
}

/// What the choice between routes to one prefix looks at (RFC 4271 §9.1.2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Route {
    /// Higher is better; 100 where the file has none.
    pub local_pref: u32,
    /// Shorter is better.
    pub as_path_len: u32,
    /// Lower is better: IGP 0, EGP 1, incomplete 2.
    pub origin: u8,
    /// Lower is better among routes from one neighbour AS; 0 where there is none.
    pub med: u32,
    /// The first AS of the path; 0 for none.
    pub neighbour_as: u32,
    /// NEXT_HOP, or the next hop of MP_REACH_NLRI; tables may lack both, for
    /// local routes as well as by their writers' omission.
    pub next_hop: Option<IpAddr>,
}

/// One thing that happened to a peer's routes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A route, in place of the one of the same peer, path and prefix.
    Announce {
        /// From whom.
        peer: Peer,
        /// RFC 7911; 0 without it.
        path_id: u32,
        /// To where.
        prefix: AnyPrefix,
        /// How.
        route: Route,
    },
    /// The peer's route is gone.
    Withdraw {
        /// From whom.
        peer: Peer,
        /// RFC 7911; 0 without it.
        path_id: u32,
        /// To where.
        prefix: AnyPrefix,
    },
    /// The session left the state Established: all its routes are gone.
    Down {
        /// With whom.
        peer: Peer,
    },
}

impl Event {
    /// Whose routes it is about.
    pub fn peer(&self) -> Peer {
        match *self {
            Event::Announce { peer, .. } | Event::Withdraw { peer, .. } | Event::Down { peer } => {
                peer
            }
        }
    }
}

/// Decodes records one after the other; holds the peer table of TABLE_DUMP_V2.
#[derive(Default)]
pub(super) struct Decoder {
    peers: Vec<Peer>,
    routes: Vec<(u32, AnyPrefix)>,
}

impl Decoder {
    /// Hands the record's events to `sink`; false where a sound record has none
    /// to give by its kind. What comes before a fault is handed over.
    pub fn decode(&mut self, record: &Record, sink: &mut impl FnMut(Event)) -> Result<bool, Fault> {
        let body = Cursor(record.body);
        match (record.kind, record.subtype) {
            (12, 1) => table_dump(body, Family::V4, sink)?,
            (12, 2) => table_dump(body, Family::V6, sink)?,
            (13, 1) => self.peers = peer_table(body)?,
            (13, 2) => self.rib(body, Family::V4, false, sink)?,
            (13, 4) => self.rib(body, Family::V6, false, sink)?,
            (13, 8) => self.rib(body, Family::V4, true, sink)?,
            (13, 10) => self.rib(body, Family::V6, true, sink)?,
            (16 | 17, 0) => state_change(body, false, sink)?,
            (16 | 17, 5) => state_change(body, true, sink)?,
            (16 | 17, 2) => entry(body, sink)?,
            (16 | 17, 1) => return self.message(body, false, false, sink),
            (16 | 17, 4) => return self.message(body, true, false, sink),
            (16 | 17, 8) => return self.message(body, false, true, sink),
            (16 | 17, 9) => return self.message(body, true, true, sink),
            // Multicast, generic and geographic tables; messages that the
            // collector sent itself; other protocols.
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// RFC 6396 §4.3.2 and RFC 8050 §4: all peers' routes to one prefix.
    fn rib(
        &self,
        mut body: Cursor,
        family: Family,
        add_path: bool,
        sink: &mut impl FnMut(Event),
    ) -> Result<(), Fault> {
        body.u32("sequence number")?;
        let prefix = body.prefix(family, "prefix")?;
        for _ in 0..body.u16("entry count")? {
            let index = body.u16("entry")?;
            body.u32("entry")?; // originated time
            let path_id = if add_path { body.u32("entry")? } else { 0 };
            let len = body.u16("entry")?;
            let attributes = Attributes::parse(body.sub(len.into(), "entry")?, true)?;
            let peers = self.peers.len();
            let peer = *self.peers.get(usize::from(index)).ok_or(Fault::Peer { index, peers })?;
            sink(Event::Announce { peer, path_id, prefix, route: route(&attributes, family) });
        }
        finished(body)
    }

    /// RFC 6396 §4.4.2, §4.4.3, RFC 8050 §3: a BGP message from a peer.
    fn message(
        &mut self,
        mut body: Cursor,
        wide_asn: bool,
        add_path: bool,
        sink: &mut impl FnMut(Event),
    ) -> Result<bool, Fault> {
        let (peer, _) = session(&mut body, wide_asn)?;
        if body.take(16, "BGP header")? != [0xff; 16] {
            return Err(Fault::Malformed("a BGP message without its marker"));
        }
        let len = usize::from(body.u16("BGP header")?);
        let kind = body.u8("BGP header")?;
        let mut update = body.sub(len.checked_sub(19).ok_or(BAD_LENGTH)?, "BGP message")?;
        finished(body)?;
        if kind != UPDATE {
            return if matches!(kind, 1..=5) { Ok(false) } else { Err(BAD_KIND) };
        }

        let withdrawn = update.u16("withdrawn routes")?;
        let withdrawn = update.sub(withdrawn.into(), "withdrawn routes")?;
        let len = update.u16("attributes")?;
        let attributes = update.sub(len.into(), "attributes")?;
        let attributes = Attributes::parse(attributes, wide_asn)?;

        self.routes.clear(); // a fault may have left some
        let withdrawn = Nlri { family: Family::V4, value: withdrawn };
        let mut done = withdrawn.parse(add_path, &mut self.routes);
        if let Some(unreach) = attributes.unreach {
            done = done.and(unreach.parse(add_path, &mut self.routes));
        }
        for (path_id, prefix) in self.routes.drain(..) {
            sink(Event::Withdraw { peer, path_id, prefix });
        }

        let announced = Nlri { family: Family::V4, value: update };
        let multi = attributes.reach.map(|(_, nlri)| (nlri, Family::V6));
        for (nlri, family) in [(announced, Family::V4)].into_iter().chain(multi) {
            done = done.and(nlri.parse(add_path, &mut self.routes));
            let route = route(&attributes, family);
            if route.next_hop.is_none() && !self.routes.is_empty() {
                return Err(Fault::NoNextHop);
            }
            for (path_id, prefix) in self.routes.drain(..) {
                sink(Event::Announce { peer, path_id, prefix, route });
            }
        }
        done.map(|()| true)
    }
}

/// RFC 6396 §4.2. Old writers put several entries into one record.
fn table_dump(mut body: Cursor, family: Family, sink: &mut impl FnMut(Event)) -> Result<(), Fault> {
    body.u32("view and sequence number")?;
    loop {
        let addr = body.addr(family, "entry")?;
        let len = body.u8("entry")?;
        let prefix = AnyPrefix::covering(addr, len)
            .ok_or(Fault::Malformed("a prefix longer than an address"))?;
        body.take(5, "entry")?; // status, originated time
        let peer = Peer { addr: body.addr(family, "entry")?, asn: body.asn(false, "entry")? };
        let len = body.u16("entry")?;
        let attributes = Attributes::parse(body.sub(len.into(), "entry")?, false)?;
        let route = route(&attributes, family);
        sink(Event::Announce { peer, path_id: 0, prefix, route });
        if body.is_empty() {
            return Ok(());
        }
    }
}

/// RFC 6396 §4.3.1.
fn peer_table(mut body: Cursor) -> Result<Vec<Peer>, Fault> {
    body.u32("collector")?;
    let len = body.u16("view name")?;
    body.take(len.into(), "view name")?;
    let count = body.u16("peer count")?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let kind = body.u8("peer table")?;
        body.u32("peer table")?; // BGP identifier
        let family = if kind & 1 == 0 { Family::V4 } else { Family::V6 };
        let addr = body.addr(family, "peer table")?;
        let asn = body.asn(kind & 2 != 0, "peer table")?;
        peers.push(Peer { addr, asn });
    }
    finished(body)?;
    Ok(peers)
}

/// RFC 6396 §4.4.1, §4.4.4.
fn state_change(mut body: Cursor, wide: bool, sink: &mut impl FnMut(Event)) -> Result<(), Fault> {
    let (peer, _) = session(&mut body, wide)?;
    body.u16("states")?;
    let new = body.u16("states")?;
    finished(body)?;
    if new != ESTABLISHED {
        sink(Event::Down { peer });
    }
    Ok(())
}

/// BGP4MP_ENTRY (in the drafts of RFC 6396, then dropped): OpenBGPD's `table-mp`.
fn entry(mut body: Cursor, sink: &mut impl FnMut(Event)) -> Result<(), Fault> {
    let (peer, _) = session(&mut body, false)?;
    body.take(8, "entry")?; // view, status, time of the last change
    let afi = body.u16("entry")?;
    let family = Family::from_afi(afi).ok_or(BAD_FAMILY)?;
    body.u8("entry")?; // SAFI
    let len = body.u8("entry")?;
    let hop = match len {
        4 => Some(body.addr(Family::V4, "next hop")?),
        16 => Some(body.addr(Family::V6, "next hop")?),
        len => body.take(len.into(), "next hop").map(|_| None)?,
    };
    let prefix = body.prefix(family, "prefix")?;
    let len = body.u16("attributes")?;
    let mut attributes = Attributes::parse(body.sub(len.into(), "attributes")?, false)?;
    finished(body)?;
    attributes.next_hop = hop.or(attributes.next_hop);
    let route = route(&attributes, Family::V4);
    sink(Event::Announce { peer, path_id: 0, prefix, route });
    Ok(())
}

/// What begins every BGP4MP record: peer and local AS, interface, family, peer
/// and local address.
fn session(body: &mut Cursor, wide: bool) -> Result<(Peer, Family), Fault> {
    let asn = body.asn(wide, "session")?;
    body.asn(wide, "session")?;
    body.u16("session")?;
    let family = Family::from_afi(body.u16("session")?).ok_or(BAD_FAMILY)?;
    let addr = body.addr(family, "session")?;
    body.addr(family, "session")?;
    Ok((Peer { addr, asn }, family))
}

/// The route that attributes describe; IPv6 has its next hop in MP_REACH_NLRI.
fn route(attributes: &Attributes, family: Family) -> Route {
    let multi = attributes.reach.and_then(|(hop, _)| hop);
    let next_hop = match family {
        Family::V4 => attributes.next_hop.or(multi),
        Family::V6 => multi.or(attributes.next_hop),
    };
    Route {
        local_pref: attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF),
        as_path_len: attributes.as_path.len,
        origin: attributes.origin,
        med: attributes.med.unwrap_or(0),
        neighbour_as: attributes.neighbour_as(),
        next_hop,
    }
}

fn finished(body: Cursor) -> Result<(), Fault> {
    if body.is_empty() { Ok(()) } else { Err(Fault::Malformed("bytes behind its end")) }
}

const BAD_LENGTH: Fault = Fault::Malformed("a BGP message shorter than its header");
const BAD_KIND: Fault = Fault::Malformed("an unknown BGP message");
const BAD_FAMILY: Fault = Fault::Malformed("an unknown address family");

const UPDATE: u8 = 2;
const ESTABLISHED: u16 = 6;

/// What routers assume for a route without LOCAL_PREF.
const DEFAULT_LOCAL_PREF: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Its type has a bit for an IPv6 address and one for an AS number of four bytes.
    #[test]
    fn peers_are_read_by_their_types() {
        let mut body = vec![10, 0, 0, 1, 0, 2, b'v', b'w', 0, 4];
        for (kind, addr, asn) in [
            (0, &[192, 0, 2, 1][..], &[1, 2][..]),
            (1, &[7; 16], &[1, 2]),
            (2, &[192, 0, 2, 3], &[0, 1, 0, 2]),
            (3, &[9; 16], &[0, 1, 0, 2]),
        ] {
            body.push(kind);
            body.extend([10, 0, 0, kind]);
            body.extend(addr.iter().chain(asn));
        }
        let peers = peer_table(Cursor(&body)).unwrap();
        let found: Vec<_> = peers.iter().map(|peer| (peer.addr.to_string(), peer.asn)).collect();
        let wanted = [
            ("192.0.2.1", 0x0102),
            ("707:707:707:707:707:707:707:707", 0x0102),
            ("192.0.2.3", 0x0001_0002),
            ("909:909:909:909:909:909:909:909", 0x0001_0002),
        ];
        assert!(found.iter().map(|(addr, asn)| (&**addr, *asn)).eq(wanted), "{found:?}");
        assert!(peer_table(Cursor(&body[..body.len() - 1])).is_err());
    }
}
