//! What an address meets: in the table that the nodes read, and in the store that the table
//! is built from.

use std::net::IpAddr;

use lookup::{Addr, Hop};

use super::RouteInfo;
use crate::control::{Control, VrfState};
use crate::fib::Fib;
use crate::intake::Tables;
use crate::listing::Listing;
use crate::net::number;
use crate::{Family, HopTable, IfaceId, Kind, Net, Vrf, VrfId};

/// An address looked up twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The engine that serves.
    pub engine: &'static str,
    /// What it answers the nodes.
    pub served: Answer,
    /// What the store of prefixes says, and by which prefix; `None` where it has none.
    pub stored: Option<(Net, Answer)>,
    /// Why the two may differ for now.
    pub why: Option<&'static str>,
    /// The route that counts, where one does: hosts and own addresses have none of their own.
    pub route: Option<RouteInfo>,
}

/// A hop, and what it means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Its number.
    pub hop: Hop,
    /// What happens to packets.
    pub kind: Kind,
    /// By which interfaces they leave, to which stations.
    pub ways: Vec<(IfaceId, [u8; 6])>,
}

impl Lookup {
    /// True when engine and store say the same.
    pub fn agrees(&self) -> bool {
        let stored = self.stored.as_ref().map_or(Hop::NONE, |(_, answer)| answer.hop);
        self.served.hop == stored
    }
}

impl Control {
    /// Looks an address up as packets to it are; `None` where there is no such VRF.
    pub fn look_up(&self, vrf: VrfId, addr: IpAddr) -> Option<Lookup> {
        let state = self.vrfs.get(usize::from(vrf.0))?;
        let mut found = match Family::of(addr) {
            Family::V4 => self.ask::<u32>(vrf, state, number(addr)?, |vrf| &*vrf.v4)?,
            Family::V6 => self.ask::<u128>(vrf, state, number(addr)?, |vrf| &*vrf.v6)?,
        };
        found.route = self.route_to(vrf, addr);
        Some(found)
    }

    fn ask<A: Tables>(
        &self,
        vrf: VrfId,
        state: &VrfState,
        addr: A,
        table: impl Fn(&Vrf) -> &dyn lookup::lpm::Lpm<A>,
    ) -> Option<Lookup> {
        // What the nodes read is what was published, whatever this thread thinks it has.
        let thread = self.domain.register("lookup");
        let vrfs = self.forwarding.vrfs.load(thread.guard());
        let served = table(vrfs.get(usize::from(vrf.0))?).lookup(addr);
        let hops = self.forwarding.hops.load(thread.guard());
        let ours = A::table_ref(state);
        let stored = ours.fib.rib().lookup(addr);
        Some(Lookup {
            engine: ours.fib.engine(),
            served: answer(served, hops),
            stored: stored.map(|(prefix, hop)| (Net::from(prefix), answer(hop, hops))),
            why: why(ours.listing, &ours.fib),
            route: None,
        })
    }
}

fn why<A: Addr + lookup::lpm::Engines>(listing: Listing, fib: &Fib<A>) -> Option<&'static str> {
    match listing {
        Listing::Done if fib.is_behind() => Some("the table is being built anew"),
        Listing::Done => None,
        _ => Some("the kernel's routes are being listed for the first time"),
    }
}

pub(super) fn answer(hop: Hop, hops: &HopTable) -> Answer {
    let step = hops.step(hop);
    let members = match step.multipath() {
        Some(group) => hops.members(group),
        None => vec![hop],
    };
    let mut ways = Vec::new();
    for adjacency in members.into_iter().filter_map(|hop| hops.step(hop).forward()) {
        let adjacency = hops.adjacency(adjacency).get();
        let at = adjacency.header.len() - usize::from(adjacency.len);
        let station = adjacency.header.get(at..).and_then(|header| header.first_chunk());
        let way = (adjacency.iface, station.copied().unwrap_or_default());
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    Answer { hop, kind: step.kind(), ways }
}
