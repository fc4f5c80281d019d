//! What the front view should say, and where Grantors should be found: protections are
//! tried one after the other.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Meets, Prefix, Routing, covering, covers, rules, width};
use crate::event::{NextHopTo, Path, Target};
use crate::hops::Kind;
use crate::iface::Side;
use crate::protections::Action;

/// A protection.
#[derive(Clone, Debug, PartialEq)]
pub struct Shielded {
    /// What it does.
    pub action: Action,
    /// Who decides.
    pub grantors: Vec<IpAddr>,
}

/// What packets to an address meet that came in at the front.
#[derive(Clone, Debug, PartialEq)]
pub enum Front {
    /// This protection.
    Shielded(Prefix, Action),
    /// None: what others meet, as far as that leads to no other network.
    Plain(BTreeSet<Meets>),
}

impl Routing {
    /// What packets of all flows to `ip` meet in the front view of `vrf`.
    pub fn front(&self, vrf: u16, ip: IpAddr) -> Front {
        let covering = self
            .shields
            .iter()
            .filter(|((of, outer), _)| *of == vrf && covers(*outer, (ip, width(ip))));
        match covering.max_by_key(|((_, outer), _)| outer.1) {
            Some(((_, prefix), shielded)) => Front::Shielded(*prefix, shielded.action),
            None => Front::Plain(self.lookup(vrf, ip)),
        }
    }

    /// Whether the prefix may be protected so.
    pub fn admits(&self, vrf: u16, prefix: Prefix, action: Action) -> bool {
        let overlaps = |other: Prefix| covers(other, prefix) || covers(prefix, other);
        let passes = |action| action == Action::Bypass;
        let mut others = self.shields.iter().filter(|((of, _), _)| *of == vrf);
        let hole = others.any(|((_, other), shielded)| {
            *other == prefix || overlaps(*other) && passes(shielded.action) != passes(action)
        });
        let mut addresses = self.addresses.iter().filter(|address| self.home(address.link) == vrf);
        let own = addresses.any(|address| {
            let ours = self.iface_of(address.link).is_some();
            overlaps(covering(address.ip, if ours { address.len } else { width(address.ip) }))
        });
        let routed = |reserved: &Prefix| reserved.0 == IpAddr::from([240, 0, 0, 0]);
        let reserved = rules().into_iter().any(|(of, ..)| !routed(&of) && overlaps(of));
        !hole && !own && !reserved
    }

    /// Where packets to a Grantor go; `None` where it cannot be reached.
    pub fn grantor(&self, vrf: u16, ip: IpAddr) -> Option<BTreeSet<Meets>> {
        if self.lookup(vrf, ip) == BTreeSet::from([Meets::Other(Kind::ForUs)]) {
            return None;
        }
        let best = |len: &u8| self.best(vrf, covering(ip, *len)).is_some();
        let len = (0..=width(ip)).rev().find(best)?;
        for (_, target) in &self.routes[&(vrf, covering(ip, len))] {
            let Some(ways) = self.target(target) else { continue };
            let paths = self.all_paths(target);
            if paths.is_empty() {
                return None;
            }
            let back = |path: &Path| {
                let iface = self.iface_of(path.link);
                iface.and_then(|id| self.sides.get(&id)) == Some(&Side::Back)
            };
            let there = || paths.iter().filter(|path| self.path(path).is_some());
            let (only, ways) = if there().all(back) {
                (self.only_path(target), ways)
            } else {
                let kept: Vec<Path> = paths.iter().filter(|path| back(path)).copied().collect();
                let ways = kept.iter().filter_map(|path| self.path(path)).collect();
                (if let [only] = kept[..] { Some(only) } else { None }, ways)
            };
            if !there().any(back) {
                continue;
            }
            let ways = match only {
                Some(path) if path.via.is_none() => {
                    let neighbour = self.neighbours.get(&(path.link, ip))?;
                    BTreeSet::from([self.way(&path, neighbour)?])
                }
                _ => ways,
            };
            return ways.iter().any(|meets| matches!(meets, Meets::Way(..))).then_some(ways);
        }
        None
    }

    fn all_paths(&self, target: &Target) -> Vec<Path> {
        let path = |id: &u32| match self.objects.get(id) {
            Some(NextHopTo::Path(path)) => Some(*path),
            _ => None,
        };
        match target {
            Target::Path(path) => vec![*path],
            Target::Paths(paths) => paths.to_vec(),
            Target::Object { id, .. } => match self.objects.get(id) {
                Some(NextHopTo::Group(list)) => {
                    list.iter().filter_map(|(id, _)| path(id)).collect()
                }
                _ => path(id).into_iter().collect(),
            },
            _ => Vec::new(),
        }
    }
}
