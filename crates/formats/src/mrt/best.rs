//! The best route of each prefix among all peers' routes.

use std::collections::HashMap;

use super::decode::{Event, Peer, Route};
use crate::memory::{self, NoMemory, Small};
use crate::prefix::AnyPrefix;

/// Routes by (prefix, peer, path id), and the choice among them: highest
/// LOCAL_PREF, shortest AS path, lowest origin, lowest MED among routes from the
/// same neighbour AS, lowest peer address (RFC 4271 §9.1.2.2).
#[derive(Clone, Debug, Default)]
pub struct BestPath {
    prefixes: Vec<(AnyPrefix, Vec<Entry>)>,
    /// Index into `prefixes`.
    places: HashMap<AnyPrefix, u32>,
    routes: Ids<Route>,
    peers: Ids<Peer>,
    /// Routes that each peer has here.
    counts: Vec<u32>,
    small: Small,
}

/// Twelve bytes, since a full dump has tens of millions.
#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: u32,
    path_id: u32,
    route: u32,
}

impl BestPath {
    /// Makes room for what one event brings; before each [`BestPath::apply`].
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn grow(&mut self) -> Result<(), NoMemory> {
        self.small.ask()?;
        memory::grow(&mut self.prefixes)?;
        memory::grow_map(&mut self.places)?;
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
                self.insert(prefix, Entry { peer, path_id, route });
                touched(prefix);
            }
            Event::Withdraw { peer, path_id, prefix } => {
                let peer = self.peer(peer);
                let Some(&place) = self.places.get(&prefix) else { return };
                let entries = &mut self.prefixes[place as usize].1;
                let found = entries.iter().position(|e| (e.peer, e.path_id) == (peer, path_id));
                if let Some(found) = found {
                    entries.remove(found);
                    self.counts[peer as usize] -= 1;
                    touched(prefix);
                }
            }
            Event::Down { peer } => {
                let peer = self.peer(peer);
                if core::mem::take(&mut self.counts[peer as usize]) == 0 {
                    return;
                }
                for (prefix, entries) in &mut self.prefixes {
                    let before = entries.len();
                    entries.retain(|entry| entry.peer != peer);
                    if entries.len() < before {
                        touched(*prefix);
                    }
                }
            }
        }
    }

    /// The best route to `prefix`.
    pub fn best(&self, prefix: &AnyPrefix) -> Option<&Route> {
        let place = *self.places.get(prefix)?;
        self.choose(&self.prefixes[place as usize].1)
    }

    /// Every prefix that has a route, in order of first appearance, and its best.
    pub fn iter(&self) -> impl Iterator<Item = (AnyPrefix, &Route)> + '_ {
        self.prefixes.iter().filter_map(|(prefix, entries)| Some((*prefix, self.choose(entries)?)))
    }

    /// Prefixes seen so far.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// True when none was seen.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    fn peer(&mut self, peer: Peer) -> u32 {
        let id = self.peers.id(peer);
        if self.counts.len() <= id as usize {
            self.counts.push(0);
        }
        id
    }

    fn insert(&mut self, prefix: AnyPrefix, entry: Entry) {
        let place = *self.places.entry(prefix).or_insert_with(|| {
            self.prefixes.push((prefix, Vec::new()));
            (self.prefixes.len() - 1) as u32
        });
        let entries = &mut self.prefixes[place as usize].1;
        let key = (entry.peer, entry.path_id);
        match entries.iter_mut().find(|old| (old.peer, old.path_id) == key) {
            Some(old) => *old = entry,
            None => {
                entries.push(entry);
                self.counts[entry.peer as usize] += 1;
            }
        }
    }

    fn choose(&self, entries: &[Entry]) -> Option<&Route> {
        let first_steps =
            |route: &Route| (core::cmp::Reverse(route.local_pref), route.as_path_len, route.origin);
        let route = |entry: &Entry| self.routes.get(entry.route);
        let best = entries.iter().map(|entry| first_steps(route(entry))).min()?;
        let left = || entries.iter().filter(|entry| first_steps(route(entry)) == best);
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

impl<T: Copy + Eq + std::hash::Hash> Ids<T> {
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
}
