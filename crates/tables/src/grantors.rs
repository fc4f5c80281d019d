//! Grantors: who decides on a protection's packets, and the way there.
//!
//! ```text
//!  sets ── slots by weight ──► known: address ──► the route of the plain view ─┬ a gateway's hop
//!   a slot whose Grantor cannot be                                              └ why it has none
//!   reached is another's, by weight
//! ```
//!
//! A Grantor is reached at the back only: else the front would see what is protected. Its way
//! is the longest prefix that other packets to it take, as well; but of the paths of a route
//! those count that lead out at the back, and of the routes of the prefix the best one that
//! has such a path. So a prefix that both sides announce leads to its Grantor by the back,
//! whichever side the routing daemon prefers. A longer prefix at the front hides those at the
//! back: it says that the Grantor is elsewhere.
//!
//! A Grantor on a connected network is a gateway, so that the kernel is asked to keep it
//! resolved: no packet for a Grantor is ever left to the kernel.
//!
//! A Grantor that cannot be reached is skipped: its flows go to the others of its set, and
//! back to it, while theirs stay where they are. Where none is left, the set has nobody, and
//! its packets are drops.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lookup::lpm::Engines;
use lookup::{Hop, Prefix, Rib};

use crate::event::{Path, Target};
use crate::gateways::GatewayId;
use crate::hops::fixed;
use crate::links::Key;
use crate::net::number;
use crate::protections::{Grantor, GrantorSet, NOBODY};
use crate::routes::Routes;
use crate::slab::Slab;
use crate::targets::{News, NextHops, TargetId, VIA_KERNEL, spread};
use crate::{Family, HopTable, IfaceId, Kind, Side};

/// A Grantor as a protection names it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Named {
    /// Its address.
    pub ip: IpAddr,
    /// Its share of the flows, among the others of its kind.
    pub weight: u16,
    /// It decides, and never forwards: [`Protection::shadow`](crate::Protection::shadow).
    pub shadow: bool,
}

/// Why a Grantor cannot be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unresolved {
    /// No route.
    #[error("no route")]
    NoRoute,
    /// One that drops.
    #[error("its route drops")]
    Unreachable,
    /// An address of this machine.
    #[error("an address of this router")]
    Own,
    /// One that is never routed.
    #[error("not an address that is routed")]
    NotRouted,
    /// By an interface that is none of Rutter's.
    #[error("its route leads through an interface of the kernel")]
    NotOurs,
    /// By none that is at the back; this is one of Rutter's.
    #[error("its route leads out by an interface that is not marked as back")]
    NotBack(IfaceId),
    /// The hardware address of its gateway, or its own, is not known.
    #[error("the neighbour is not resolved")]
    NoNeighbour,
    /// All hops are in use.
    #[error("all hops are in use")]
    NoHop,
}

/// The Grantors of a VRF and family.
pub(crate) struct Grantors<A> {
    known: BTreeMap<A, Known>,
    sets: Slab<Kept>,
    by_list: HashMap<Box<[Named]>, u32>,
    /// Whose way must be found anew at the next commit.
    stale: BTreeSet<A>,
}

struct Known {
    cell: Arc<Grantor>,
    /// Held: it is on a connected network.
    gateway: Option<GatewayId>,
    /// Held: those paths of its route that lead out at the back.
    target: Option<TargetId>,
    /// The hop, though its neighbour may be unresolved.
    way: Result<Hop, Unresolved>,
    live: bool,
    /// Those that have it.
    sets: BTreeSet<u32>,
}

struct Kept {
    list: Box<[Named]>,
    set: Arc<GrantorSet>,
    refs: u32,
}

enum Way {
    Gateway(Key),
    Hop(Hop),
    /// Some of a route's.
    Paths(Box<[Path]>, Family),
}

impl<A: Engines> Grantors<A> {
    pub(crate) fn new() -> Self {
        Grantors {
            known: BTreeMap::new(),
            sets: Slab::new(),
            by_list: HashMap::new(),
            stale: BTreeSet::new(),
        }
    }

    /// The set of this list, which is in the order of addresses; held once more.
    pub(crate) fn hold(&mut self, list: &[Named], ids: &mut Slab<()>) -> (u32, Arc<GrantorSet>) {
        if let Some(&id) = self.by_list.get(list)
            && let Some(kept) = self.sets.get_mut(id)
        {
            kept.refs += 1;
            return (id, kept.set.clone());
        }
        let cells = list.iter().filter_map(|named| self.cell(number(named.ip)?, named.ip, ids));
        let grantors: Box<[Arc<Grantor>]> = cells.collect::<Vec<_>>().into();
        let slots = |shadow| {
            let slots = spread(&role(list, shadow)).len();
            (0..slots).map(|_| AtomicU32::new(NOBODY)).collect()
        };
        let (slots, shadows) = (slots(false), slots(true));
        let set = Arc::new(GrantorSet { grantors, slots, shadows });
        let id = self.sets.insert(Kept { list: list.into(), set: set.clone(), refs: 1 });
        self.by_list.insert(list.into(), id);
        for addr in list.iter().filter_map(|named| number(named.ip)) {
            if let Some(known) = self.known.get_mut(&addr) {
                known.sets.insert(id);
            }
        }
        self.fill(id);
        (id, set)
    }

    /// Lets go of a set.
    pub(crate) fn release(&mut self, id: u32, next_hops: &mut NextHops, ids: &mut Slab<()>) {
        let Some(kept) = self.sets.get_mut(id) else { return };
        kept.refs -= 1;
        if kept.refs > 0 {
            return;
        }
        let Some(kept) = self.sets.remove(id) else { return };
        self.by_list.remove(&kept.list);
        for addr in kept.list.iter().filter_map(|named| number::<A>(named.ip)) {
            let Some(known) = self.known.get_mut(&addr) else { continue };
            known.sets.remove(&id);
            if known.sets.is_empty() {
                ids.remove(known.cell.id);
                known.gateway.into_iter().for_each(|gateway| next_hops.release_gateway(gateway));
                known.target.into_iter().for_each(|target| next_hops.release(target));
                self.known.remove(&addr);
                self.stale.remove(&addr);
            }
        }
    }

    /// What is known of a Grantor: its number, the interface it is on where it has a hop, or
    /// why it has none.
    pub(crate) fn state(&self, addr: A) -> Option<(u32, Result<Hop, Unresolved>)> {
        let known = self.known.get(&addr)?;
        let way = known
            .way
            .and_then(|hop| if known.live { Ok(hop) } else { Err(Unresolved::NoNeighbour) });
        Some((known.cell.id, way))
    }

    /// All of them, by address.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = A> + '_ {
        self.known.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The routes of these prefixes have changed.
    pub(crate) fn touch(&mut self, prefixes: &[Prefix<A>]) {
        if self.known.is_empty() {
            return;
        }
        for prefix in prefixes {
            let inside = self.known.range(prefix.first()..=prefix.last());
            self.stale.extend(inside.map(|(addr, _)| *addr));
        }
    }

    /// Finds the ways anew that may have changed.
    pub(crate) fn commit(
        &mut self,
        routes: &Routes<A>,
        rib: &Rib<A>,
        next_hops: &mut NextHops,
        news: News,
    ) {
        if self.known.is_empty() {
            return;
        }
        if news.ways {
            self.stale.extend(self.known.keys());
        }
        let stale = std::mem::take(&mut self.stale);
        for addr in &stale {
            let way = way(*addr, routes, rib, next_hops);
            if let Some(known) = self.known.get_mut(addr) {
                known.take(way, next_hops);
                if known.way == Err(Unresolved::NoHop) {
                    self.stale.insert(*addr); // hops may be free at the next tick
                }
            }
        }
        let table = next_hops.pool.table();
        let mut moved = BTreeSet::new();
        let mut look = |known: &mut Known| {
            let live = known.way.is_ok_and(|hop| leads_on(hop, table));
            if std::mem::replace(&mut known.live, live) != live {
                moved.extend(&known.sets);
            }
        };
        if news.steps {
            self.known.values_mut().for_each(&mut look);
        } else {
            stale.iter().for_each(|addr| self.known.get_mut(addr).into_iter().for_each(&mut look));
        }
        moved.into_iter().for_each(|id| self.fill(id));
    }

    /// The Grantor with this address, added if it is new.
    fn cell(&mut self, addr: A, ip: IpAddr, ids: &mut Slab<()>) -> Option<Arc<Grantor>> {
        let known = self.known.entry(addr).or_insert_with(|| {
            let cell = Grantor { id: ids.insert(()), ip, hop: AtomicU32::new(Hop::NONE.0) };
            self.stale.insert(addr);
            Known {
                cell: Arc::new(cell),
                gateway: None,
                target: None,
                way: Err(Unresolved::NoRoute),
                live: false,
                sets: BTreeSet::new(),
            }
        });
        Some(known.cell.clone())
    }

    /// Gives the slots of a set to those of its Grantors that can be reached.
    fn fill(&self, id: u32) {
        let Some(kept) = self.sets.get(id) else { return };
        let live = |place: u32| {
            let addr = kept.list.get(place as usize).and_then(|named| number::<A>(named.ip));
            addr.and_then(|addr| self.known.get(&addr)).is_some_and(|known| known.live)
        };
        for (slots, shadow) in [(&kept.set.slots, false), (&kept.set.shadows, true)] {
            let mut all = role(&kept.list, shadow);
            let places = spread(&all);
            all.retain(|(place, _)| live(*place));
            let (others, dead) = (spread(&all), places.iter().filter(|place| !live(**place)));
            let (dead, mut nth) = (dead.count(), 0);
            for (slot, place) in slots.iter().zip(places) {
                let place = if live(place) {
                    place
                } else {
                    nth += 1;
                    // Spread over the whole of `others`, which is in order.
                    others.get((nth - 1) * others.len() / dead).copied().unwrap_or(NOBODY)
                };
                slot.store(place, Ordering::Relaxed);
            }
        }
    }
}

impl Known {
    fn take(&mut self, way: Result<Way, Unresolved>, next_hops: &mut NextHops) {
        let (mut gateway, mut target) = (None, None);
        self.way = way.and_then(|way| match way {
            Way::Hop(hop) => Ok(hop),
            Way::Gateway(key) => {
                let NextHops { gateways, pool, links, .. } = &mut *next_hops;
                gateway = gateways.hold(key, pool, links);
                let held = gateway.and_then(|id| gateways.get(id));
                held.map(|gateway| gateway.hop).ok_or(Unresolved::NoHop)
            }
            Way::Paths(paths, family) => {
                let id = next_hops.intern(&Target::Paths(paths), family);
                next_hops.hold(id);
                target = Some(id);
                next_hops.current_hop(id).ok_or(Unresolved::NoHop)
            }
        });
        let old = std::mem::replace(&mut self.gateway, gateway);
        old.into_iter().for_each(|old| next_hops.release_gateway(old));
        let old = std::mem::replace(&mut self.target, target);
        old.into_iter().for_each(|old| next_hops.release(old));
        let hop = self.way.unwrap_or(Hop::NONE);
        self.cell.hop.store(hop.0, Ordering::Release);
    }
}

/// Places and weights of those that forward, or of those that do not.
fn role(list: &[Named], shadow: bool) -> Vec<(u32, u16)> {
    let all = list.iter().enumerate().filter(|(_, named)| named.shadow == shadow);
    all.map(|(place, named)| (place as u32, named.weight)).collect()
}

/// Packets of some flow, at least, leave by this hop.
fn leads_on(hop: Hop, table: &HopTable) -> bool {
    let step = table.step(hop);
    let forwards = |hop: &Hop| table.step(*hop).kind() == Kind::Forward;
    step.forward().is_some()
        || step.multipath().is_some_and(|group| table.members(group).iter().any(forwards))
}

/// The way to a Grantor.
fn way<A: Engines>(
    addr: A,
    routes: &Routes<A>,
    rib: &Rib<A>,
    next_hops: &NextHops,
) -> Result<Way, Unresolved> {
    match rib.lookup(addr).map(|(_, hop)| hop) {
        None => return Err(Unresolved::NoRoute),
        Some(fixed::FOR_US) => return Err(Unresolved::Own),
        Some(fixed::MULTICAST | fixed::MARTIAN) => return Err(Unresolved::NotRouted),
        Some(_) => {}
    }
    // By the links as they are, not as the tables were given them: a lost link is no way.
    let usable = |c: &crate::routes::Candidate| next_hops.usable(c.target);
    let (prefix, _) = routes.longest(addr, usable).ok_or(Unresolved::NoRoute)?;
    let mut first = None;
    for route in routes.get(&prefix).iter().filter(|route| usable(route)) {
        match at_the_back(route.target, next_hops) {
            Ok(at_back) => return lead(addr, route.target, at_back, next_hops),
            Err(Elsewhere::Here(why)) => first = first.or(Some(why)),
            // No worse route counts behind it.
            Err(Elsewhere::Ends(why)) => return Err(first.unwrap_or(why)),
        }
    }
    Err(first.unwrap_or(Unresolved::NoRoute))
}

/// The way of a target, or of those paths of it that are at the back, where not all are.
fn lead<A: Engines>(
    addr: A,
    target: TargetId,
    at_back: Option<Box<[Path]>>,
    next_hops: &NextHops,
) -> Result<Way, Unresolved> {
    let direct = match at_back.as_deref() {
        None => next_hops.current_direct(target),
        Some([Path { link, via: None, mtu, .. }]) => Some((*link, *mtu)),
        Some(_) => None,
    };
    let family = Family::of_addr::<A>();
    if let Some((link, mtu)) = direct {
        let ip = crate::Net::from(Prefix::covering(addr, A::WIDTH)).addr();
        return Ok(Way::Gateway(Key { link, ip, family, mtu }));
    }
    match at_back {
        Some(paths) => Ok(Way::Paths(paths, family)),
        None => next_hops.current_hop(target).map(Way::Hop).ok_or(Unresolved::NoRoute),
    }
}

/// A target leads nowhere at the back.
enum Elsewhere {
    /// Another route of the prefix may.
    Here(Unresolved),
    /// It ends the search: a route that drops, or that only the kernel knows.
    Ends(Unresolved),
}

/// The paths of a target that lead out at the back: `None` where all do that can be used.
fn at_the_back(target: TargetId, next_hops: &NextHops) -> Result<Option<Box<[Path]>>, Elsewhere> {
    if target == VIA_KERNEL {
        return Err(Elsewhere::Ends(Unresolved::NotOurs));
    }
    let links = &next_hops.links;
    let paths = next_hops.paths(target);
    if paths.is_empty() {
        return Err(Elsewhere::Ends(Unresolved::Unreachable));
    }
    let back = |path: &Path| match links.ours(path.link) {
        Some((_, iface)) if iface.side == Side::Back => Ok(()),
        Some((id, _)) => Err(Unresolved::NotBack(id)),
        None => Err(Unresolved::NotOurs),
    };
    let mut usable = paths.iter().filter(|path| links.usable(path.link));
    let Some(why) = usable.clone().find_map(|path| back(path).err()) else { return Ok(None) };
    if !usable.any(|path| back(path).is_ok()) {
        return Err(Elsewhere::Here(why));
    }
    Ok(Some(paths.iter().filter(|path| back(path).is_ok()).copied().collect()))
}
