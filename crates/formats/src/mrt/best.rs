//! The best route of each prefix among all peers' routes.

use std::collections::HashMap;
use std::hash::Hash;

use lookup::{Addr, Prefix};

use super::decode::{Event, Peer, Route};
use crate::memory::{self, NoMemory, Small};
use crate::prefix::AnyPrefix;

/// Routes by (prefix, peer, path id), and the choice among them: highest
/// LOCAL_PREF, shortest AS path, lowest origin, lowest MED among routes from the
/// same neighbour AS, lowest peer address (RFC 4271 §9.1.2.2).
///
/// A million IPv4 prefixes of one peer take about 60 MiB, from 2^20 on 90: the families are
/// apart, and the routes of a prefix are a chain in one list. A list for each prefix took 270
/// MiB, which is more than a policy's process has by default. Each set of attributes that no
/// other route has takes 80 bytes and more beside.
#[derive(Clone, Debug)]
pub struct BestPath {
    v4: Family<u32>,
    v6: Family<u128>,
    /// The places of both, in order of first appearance.
    order: Vec<Place>,
    entries: Vec<Entry>,
    /// The first of the entries that are not in use.
    free: u32,
    routes: Ids<Route>,
    peers: Ids<Peer>,
    /// Routes that each peer has here.
    counts: Vec<u32>,
    small: Small,
}

/// The prefixes of one family, each with its first entry.
#[derive(Clone, Debug, Default)]
struct Family<A: Addr> {
    prefixes: Vec<(Prefix<A>, u32)>,
    /// Index into `prefixes`.
    places: HashMap<Prefix<A>, u32>,
}

/// A prefix's index in its family, below [`V6`]; those of IPv6 have that bit.
type Place = u32;

/// Sixteen bytes, since a full dump has tens of millions.
#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: u32,
    path_id: u32,
    route: u32,
    /// The next entry of the prefix, or [`NONE`].
    next: u32,
}

impl Default for BestPath {
    fn default() -> Self {
        BestPath {
            v4: Family::default(),
            v6: Family::default(),
            order: Vec::new(),
            entries: Vec::new(),
            free: NONE,
            routes: Ids::default(),
            peers: Ids::default(),
            counts: Vec::new(),
            small: Small::default(),
        }
    }
}

impl BestPath {
    /// Makes room for what one event brings; before each [`BestPath::apply`].
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn grow(&mut self) -> Result<(), NoMemory> {
        self.small.ask()?;
        self.v4.grow()?;
        self.v6.grow()?;
        memory::grow(&mut self.order)?;
        let prefixes = self.v4.prefixes.len().max(self.v6.prefixes.len());
        if self.entries.len() >= NONE as usize || prefixes >= V6 as usize {
            return Err(NoMemory { wanted: self.entries.len() * size_of::<Entry>() });
        }
        memory::grow(&mut self.entries)?;
        memory::grow(&mut self.counts)?;
        self.peers.grow()?;
        self.routes.grow()
    }

    /// Applies one event; `touched` is called with each prefix whose routes
    /// changed.
    pub fn apply(&mut self, event: &Event, mut touched: impl FnMut(AnyPrefix)) {
        match *event {
            Event::Announce { peer, path_id, prefix, route } => {
                let peer = self.peer(peer);
                let route = self.routes.id(route);
                self.insert(prefix, Entry { peer, path_id, route, next: NONE });
                touched(prefix);
            }
            Event::Withdraw { peer, path_id, prefix } => {
                let peer = self.peer(peer);
                let Some(place) = self.place(&prefix) else { return };
                if self.remove(place, |entry| (entry.peer, entry.path_id) == (peer, path_id)) {
                    self.counts[peer as usize] -= 1;
                    touched(prefix);
                }
            }
            Event::Down { peer } => {
                let peer = self.peer(peer);
                if core::mem::take(&mut self.counts[peer as usize]) == 0 {
                    return;
                }
                for n in 0..self.order.len() {
                    let place = self.order[n];
                    if self.remove(place, |entry| entry.peer == peer) {
                        touched(self.prefix(place));
                    }
                }
            }
        }
    }

    /// The best route to `prefix`.
    pub fn best(&self, prefix: &AnyPrefix) -> Option<&Route> {
        self.choose(self.place(prefix)?)
    }

    /// Every prefix that has a route, in order of first appearance, and its best.
    pub fn iter(&self) -> impl Iterator<Item = (AnyPrefix, &Route)> + '_ {
        self.order.iter().filter_map(|&place| Some((self.prefix(place), self.choose(place)?)))
    }

    /// Prefixes seen so far.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True when none was seen.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn place(&self, prefix: &AnyPrefix) -> Option<Place> {
        match prefix {
            AnyPrefix::V4(prefix) => self.v4.places.get(prefix).copied(),
            AnyPrefix::V6(prefix) => self.v6.places.get(prefix).map(|place| place | V6),
        }
    }

    fn prefix(&self, place: Place) -> AnyPrefix {
        match place & V6 {
            0 => AnyPrefix::V4(self.v4.prefixes[place as usize].0),
            _ => AnyPrefix::V6(self.v6.prefixes[(place & !V6) as usize].0),
        }
    }

    fn first(&mut self, place: Place) -> &mut u32 {
        match place & V6 {
            0 => &mut self.v4.prefixes[place as usize].1,
            _ => &mut self.v6.prefixes[(place & !V6) as usize].1,
        }
    }

    /// The routes of a prefix, in no order.
    fn chain(&self, place: Place) -> impl Iterator<Item = &Entry> + '_ {
        let first = match place & V6 {
            0 => self.v4.prefixes[place as usize].1,
            _ => self.v6.prefixes[(place & !V6) as usize].1,
        };
        let entry = |at: u32| self.entries.get(at as usize); // none at NONE
        std::iter::successors(entry(first), move |last| entry(last.next))
    }

    fn peer(&mut self, peer: Peer) -> u32 {
        let id = self.peers.id(peer);
        if self.counts.len() <= id as usize {
            self.counts.push(0);
        }
        id
    }

    fn insert(&mut self, prefix: AnyPrefix, entry: Entry) {
        let (place, is_new) = match prefix {
            AnyPrefix::V4(prefix) => self.v4.place(prefix),
            AnyPrefix::V6(prefix) => {
                let (place, is_new) = self.v6.place(prefix);
                (place | V6, is_new)
            }
        };
        if is_new {
            self.order.push(place);
        }
        let first = *self.first(place);
        let mut at = first;
        while let Some(old) = self.entries.get_mut(at as usize) {
            if (old.peer, old.path_id) == (entry.peer, entry.path_id) {
                old.route = entry.route;
                return;
            }
            at = old.next;
        }
        let entry = Entry { next: first, ..entry };
        let at = self.free;
        let at = match self.entries.get_mut(at as usize) {
            Some(free) => {
                self.free = free.next;
                *free = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        *self.first(place) = at;
        self.counts[entry.peer as usize] += 1;
    }

    /// Takes those entries of a prefix out; returns whether there was one.
    fn remove(&mut self, place: Place, goes: impl Fn(&Entry) -> bool) -> bool {
        let mut at = *self.first(place);
        let (mut before, mut found) = (NONE, false);
        while let Some(&entry) = self.entries.get(at as usize) {
            if goes(&entry) {
                match self.entries.get_mut(before as usize) {
                    Some(before) => before.next = entry.next,
                    None => *self.first(place) = entry.next,
                }
                self.entries[at as usize].next = std::mem::replace(&mut self.free, at);
                found = true;
            } else {
                before = at;
            }
            at = entry.next;
        }
        found
    }

    fn choose(&self, place: Place) -> Option<&Route> {
        let first_steps =
            |route: &Route| (core::cmp::Reverse(route.local_pref), route.as_path_len, route.origin);
        let route = |entry: &Entry| self.routes.get(entry.route);
        let best = self.chain(place).map(|entry| first_steps(route(entry))).min()?;
        let left = || self.chain(place).filter(|entry| first_steps(route(entry)) == best);
        // MED does not order routes of different neighbours: a route goes where one
        // of its own neighbour AS has a lower one, whatever the order of arrival.
        let mut lowest: Vec<_> = left().map(|e| (route(e).neighbour_as, route(e).med)).collect();
        lowest.sort_unstable();
        lowest.dedup_by_key(|&mut (neighbour_as, _)| neighbour_as);
        let kept = |route: &Route| lowest.binary_search(&(route.neighbour_as, route.med)).is_ok();
        left()
            .filter(|entry| kept(route(entry)))
            .min_by_key(|entry| (self.peers.get(entry.peer), entry.path_id))
            .map(route)
    }
}

impl<A: Addr + Hash> Family<A> {
    fn grow(&mut self) -> Result<(), NoMemory> {
        memory::grow(&mut self.prefixes)?;
        memory::grow_map(&mut self.places)
    }

    /// The index of a prefix, and whether it is a new one.
    fn place(&mut self, prefix: Prefix<A>) -> (u32, bool) {
        let before = self.prefixes.len();
        let place = *self.places.entry(prefix).or_insert_with(|| {
            self.prefixes.push((prefix, NONE));
            before as u32
        });
        (place, self.prefixes.len() > before)
    }
}

const _: () = assert!(size_of::<Entry>() == 16 && size_of::<(Prefix<u32>, u32)>() == 12);
/// No entry: behind the last that there can be.
const NONE: u32 = u32::MAX;
/// A place of IPv6.
const V6: Place = 1 << 31;

/// Values by number, each stored once.
#[derive(Clone, Debug)]
struct Ids<T> {
    values: Vec<T>,
    ids: HashMap<T, u32>,
}

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Ids { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Ids<T> {
    fn grow(&mut self) -> Result<(), NoMemory> {
        memory::grow(&mut self.values)?;
        memory::grow_map(&mut self.ids)
    }

    fn id(&mut self, value: T) -> u32 {
        *self.ids.entry(value).or_insert_with(|| {
            self.values.push(value);
            (self.values.len() - 1) as u32
        })
    }

    fn get(&self, id: u32) -> &T {
        &self.values[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use lookup::rng::SplitMix64;

    use super::*;

    fn peer(n: u8) -> Peer {
        Peer { addr: [192, 0, 2, n].into(), asn: n.into() }
    }

    fn prefix() -> AnyPrefix {
        AnyPrefix::covering([10, 0, 0, 0].into(), 8).unwrap()
    }

    fn plain(hop: u8) -> Route {
        let next_hop = Some([198, 51, 100, hop].into());
        Route { local_pref: 100, as_path_len: 2, origin: 0, med: 0, neighbour_as: 1, next_hop }
    }

    fn announce(n: u8, path_id: u32, route: Route) -> Event {
        Event::Announce { peer: peer(n), path_id, prefix: prefix(), route }
    }

    fn best(events: &[Event]) -> Option<Route> {
        let mut state = BestPath::default();
        events.iter().for_each(|event| state.apply(event, |_| ()));
        state.best(&prefix()).copied()
    }

    #[test]
    fn each_step_decides_where_those_before_are_equal() {
        let better = [
            Route { local_pref: 101, as_path_len: 9, ..plain(2) },
            Route { as_path_len: 1, origin: 2, ..plain(2) },
        ];
        for route in better {
            assert_eq!(best(&[announce(1, 0, plain(1)), announce(2, 0, route)]), Some(route));
        }
        let worse = Route { origin: 1, ..plain(1) };
        assert_eq!(best(&[announce(1, 0, worse), announce(2, 0, plain(2))]), Some(plain(2)));
        assert_eq!(best(&[announce(3, 0, plain(3)), announce(2, 0, plain(2))]), Some(plain(2)));
        assert_eq!(best(&[announce(2, 7, plain(3)), announce(2, 4, plain(2))]), Some(plain(2)));
    }

    #[test]
    fn med_counts_within_a_neighbour_as_whatever_the_order() {
        let a = Route { med: 10, ..plain(1) };
        let b = Route { med: 5, ..plain(2) };
        let c = Route { med: 20, neighbour_as: 2, ..plain(3) };
        // a has the lowest peer address, but b beats it; c stays behind b.
        let events = [announce(1, 0, a), announce(2, 0, b), announce(3, 0, c)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(best(&order.map(|i| events[i])), Some(b), "{order:?}");
        }
    }

    #[test]
    fn withdrawals_and_lost_sessions() {
        let both = [announce(1, 0, plain(1)), announce(2, 0, plain(2))];
        let gone = |n| Event::Withdraw { peer: peer(n), path_id: 0, prefix: prefix() };
        let down = |n| Event::Down { peer: peer(n) };
        for end in [gone, down] {
            assert_eq!(best(&[both[0], both[1], end(1)]), Some(plain(2)));
            assert_eq!(best(&[both[0], both[1], end(1), end(1), end(2)]), None);
            assert_eq!(best(&[end(1), both[0]]), Some(plain(1)));
        }
        let mut state = BestPath::default();
        both.iter().for_each(|event| state.apply(event, |_| ()));
        let mut touched = 0;
        state.apply(&gone(3), |_| touched += 1);
        state.apply(&down(2), |_| touched += 1);
        state.apply(&down(2), |_| touched += 1);
        assert_eq!((touched, state.iter().count(), state.len()), (1, 1, 1));
    }

    /// Against lists that are searched, with few peers and prefixes of both families.
    #[test]
    fn chains_are_what_lists_would_be() {
        let mut rng = SplitMix64(7);
        let prefixes = [8, 9, 10].map(|len| AnyPrefix::covering([10, 0, 0, 0].into(), len));
        let others = [32, 33].map(|len| AnyPrefix::covering([0x2001; 8].into(), len));
        let prefixes = [&prefixes[..], &others].concat();
        let mut state = BestPath::default();
        type Routes = Vec<(Peer, u32, Route)>;
        let mut lists: Vec<(AnyPrefix, Routes)> = Vec::new();
        for _ in 0..20_000 {
            let prefix = prefixes[rng.below(5) as usize].unwrap();
            let (peer, path_id) = (peer(rng.below(4) as u8), rng.below(2) as u32);
            let route = plain(rng.below(200) as u8);
            let mut wanted = Vec::new();
            let event = match rng.below(8) {
                0 => Event::Down { peer },
                1..4 => Event::Withdraw { peer, path_id, prefix },
                _ => Event::Announce { peer, path_id, prefix, route },
            };
            for (of, list) in &mut lists {
                let before = list.len();
                match event {
                    Event::Down { peer } => list.retain(|(of, ..)| *of != peer),
                    _ if *of != prefix => {}
                    _ => list.retain(|(of, id, _)| (*of, *id) != (peer, path_id)),
                }
                if list.len() < before {
                    wanted.push(*of);
                }
            }
            if matches!(event, Event::Announce { .. }) {
                wanted = vec![prefix];
                match lists.iter_mut().find(|(of, _)| *of == prefix) {
                    Some((_, list)) => list.push((peer, path_id, route)),
                    None => lists.push((prefix, vec![(peer, path_id, route)])),
                }
            }
            let mut touched = Vec::new();
            state.apply(&event, |prefix| touched.push(prefix));
            assert_eq!(touched, wanted, "{event:?}");
            let best = lists.iter().filter_map(|(of, list)| {
                Some((*of, list.iter().min_by_key(|(peer, id, _)| (*peer, *id))?.2))
            });
            let found: Vec<_> = state.iter().map(|(prefix, route)| (prefix, *route)).collect();
            assert_eq!(found, best.collect::<Vec<_>>(), "{event:?}");
        }
        assert!(state.entries.len() <= 5 * 4 * 2, "{}", state.entries.len());
    }
}
