//! Changes of routes, in the order in which BGP speakers sent them or made up like theirs.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use formats::AnyPrefix;
use formats::mrt::{BestPath, Updates as Events};
use lookup::rib::Change;
use lookup::{Addr, Hop, Prefix};

use super::{Rng, short_name};
use crate::Error;

/// Changes of both families in their order.
#[derive(Default)]
pub struct Updates {
    /// The file's name without its folders.
    pub name: String,
    /// IPv4.
    pub ipv4: Vec<Change<u32>>,
    /// IPv6.
    pub ipv6: Vec<Change<u128>>,
    /// Records of the file that could not be read.
    pub damaged: u64,
}

impl Updates {
    /// What the announcements and withdrawals of an MRT file make of the best routes, of all
    /// of its peers.
    ///
    /// # Errors
    /// When it cannot be read, is no MRT, or holds no change.
    pub fn open(path: &Path) -> Result<Updates, Error> {
        let table = path.display().to_string();
        let updates = Events::open(path).map_err(|error| error.to_string()).and_then(Updates::of);
        let name = short_name(&table);
        let named = updates.map(|updates| Updates { name, ..updates });
        named.map_err(|reason| Error::Table { table, reason })
    }

    fn of(mut events: Events) -> Result<Updates, String> {
        let (mut best, mut hops) = (BestPath::default(), HashMap::new());
        let mut updates = Updates::default();
        for (_, event) in events.by_ref() {
            let mut touched = BTreeSet::new();
            best.grow().map_err(|error| error.to_string())?;
            best.apply(&event, |prefix| {
                touched.insert(prefix);
            });
            for prefix in touched {
                let next = hops.len() as u32 + 1;
                let route = best.best(&prefix);
                let hop = route.map(|route| Hop(*hops.entry(route.next_hop).or_insert(next)));
                match prefix {
                    AnyPrefix::V4(prefix) => updates.ipv4.push(Change { prefix, hop }),
                    AnyPrefix::V6(prefix) => updates.ipv6.push(Change { prefix, hop }),
                }
            }
        }
        updates.damaged = events.report().damaged;
        if updates.ipv4.is_empty() && updates.ipv6.is_empty() {
            return Err("it holds no update".into());
        }
        Ok(updates)
    }

    /// The same for the same changes in the same order.
    pub fn checksum(&self) -> u64 {
        let mix = |sum: u64, part: u64| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fn words<A: Addr>(changes: &[Change<A>]) -> impl Iterator<Item = u64> + '_ {
            changes.iter().flat_map(|change| {
                let first = change.prefix.first().to_u128();
                let hop = change.hop.map_or(u64::MAX, |hop| u64::from(hop.0));
                [first as u64, (first >> 64) as u64, u64::from(change.prefix.len()), hop]
            })
        }
        words(&self.ipv4)
            .chain(words(&self.ipv6))
            .fold(1, |sum, word| mix(sum, word).rotate_left(29))
    }
}

/// Sessions that go down and come back, `n` changes for each of the two: the routes of
/// every second one change their hop and change it back, those of the others go and come.
/// After all of them `routes` are as they were.
pub fn flaps<A: Addr>(routes: &[(Prefix<A>, Hop)], n: usize, sessions: usize) -> Vec<Change<A>> {
    let (mut rng, mut changes) = (Rng::new(11), Vec::new());
    if routes.is_empty() {
        return changes;
    }
    for session in 0..sessions {
        let picked: BTreeSet<usize> = (0..n).map(|_| rng.below(routes.len())).collect();
        let mut picked: Vec<(Prefix<A>, Hop)> = picked.into_iter().map(|at| routes[at]).collect();
        rng.shuffle(&mut picked);
        let away = |&(prefix, hop): &(Prefix<A>, Hop)| {
            let other = (session % 2 == 0).then_some(Hop(if hop.0 == 1 { 2 } else { 1 }));
            Change { prefix, hop: other }
        };
        let back = |&(prefix, hop): &(Prefix<A>, Hop)| Change { prefix, hop: Some(hop) };
        changes.extend(picked.iter().map(away));
        changes.extend(picked.iter().map(back));
    }
    changes
}

#[cfg(test)]
mod tests {
    use lookup::Rib;

    use super::*;

    #[test]
    fn sessions_that_came_back_leave_the_table_as_it_was() {
        let route = |i: u32| (Prefix::new(i << 16, 16).expect("a /16"), Hop(1 + i % 3));
        let routes: Vec<_> = (0..500).map(route).collect();
        let mut rib: Rib<u32> = routes.iter().copied().collect();
        let changes = flaps(&routes, 50, 2);
        assert!((150..=200).contains(&changes.len()), "{}", changes.len());
        assert!(changes.iter().any(|change| change.hop.is_none()));
        let (first, rest) = changes.split_at(changes.len() / 4);
        for change in first {
            rib.apply(change);
        }
        assert!(!rib.iter().eq(routes.iter().copied()));
        for change in rest {
            rib.apply(change);
        }
        assert!(rib.iter().eq(routes.iter().copied()));
        assert!(flaps::<u32>(&[], 50, 2).is_empty());
    }

    /// A BGP4MP_MESSAGE_AS4 record (RFC 6396 §4.4.3): withdraws and announces /8s.
    fn record(withdrawn: &[u8], hop: u8, announced: &[u8]) -> Vec<u8> {
        let prefixes = |of: &[u8]| of.iter().flat_map(|&first| [8, first]).collect::<Vec<u8>>();
        let with_len = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let path = [&[0x40, 1, 1, 0][..], &[0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8]].concat();
        let attributes = [&path[..], &[0x40, 3, 4, 192, 0, 2, hop]].concat();
        let (withdrawn, announced) = (prefixes(withdrawn), prefixes(announced));
        let message = [with_len(&withdrawn), with_len(&attributes), announced].concat();
        let length = (19 + message.len() as u16).to_be_bytes();
        let peer = [0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2];
        let body = [&peer[..], &[0xff; 16], &length, &[2], &message].concat();
        let header = [&[0, 0, 0, 1, 0, 16, 0, 4][..], &(body.len() as u32).to_be_bytes()];
        [&header.concat()[..], &body].concat()
    }

    #[test]
    fn updates_of_a_file_are_changes_of_the_best_routes() {
        let bytes = [record(&[], 7, &[10, 11]), record(&[11], 8, &[10])].concat();
        let read = |bytes: Vec<u8>| {
            let events = Events::new(std::io::Cursor::new(bytes));
            Updates::of(events.map_err(|error| error.to_string())?)
        };
        let updates = read(bytes.clone()).expect("two records");
        let mut rib = Rib::new();
        for change in &updates.ipv4 {
            rib.apply(change);
        }
        let left: Vec<_> = rib.iter().collect();
        assert_eq!(left, [(Prefix::covering(10 << 24, 8), Hop(2))]);
        assert_eq!((updates.ipv4.len(), updates.ipv6.len(), updates.damaged), (4, 0, 0));
        assert_eq!(updates.checksum(), read(bytes).expect("once more").checksum());
        assert!(read(b"10.0.0.0/8 a\n".to_vec()).is_err());
    }
}
