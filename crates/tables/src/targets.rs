//! Targets: where the packets of a route go, kept once however many routes say
//! the same, each with the hop that the tables store for it.
//!
//! ```text
//!  one path          the hop of its gateway, or a fixed one: nothing of its own
//!  several paths     a hop of its own ──► a group of the gateways' hops, by weight
//!  next-hop object   a hop of its own ──► a group, or the step of its only way:
//!                    what the object stands for changes with one store
//!  several routes    a hop of its own ──► the step of the first that is usable
//! ```
//!
//! A path whose link is down is left out. A target without paths is unusable:
//! its routes give way to the next best of their prefix.
//!
//! Steps follow links at once. Tables follow with the next
//! [`NextHops::take_changed`]: until then they go by what was *placed*, the state
//! that they were given last, so that a link that comes back in time has changed
//! nothing.

mod chains;
mod objects;
mod placed;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use lookup::Hop;
use lookup::sync::Mark;

use crate::event::{LinkId, NextHopTo, Path, Target};
use crate::gateways::{GatewayId, Gateways};
use crate::hops::fixed;
use crate::limits::Refusals;
use crate::links::{Key, Links};
use crate::pool::{Group, Pool};
use crate::slab::Slab;
use crate::{Family, Kind, Step};
pub(crate) use placed::News;
use placed::Placed;
pub(crate) use resolve::spread;

/// A target by number; those below [`FIRST`] are the fixed hops of the same number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TargetId(pub(crate) u32);

pub(crate) const FOR_US: TargetId = TargetId(fixed::FOR_US.0);
pub(crate) const VIA_KERNEL: TargetId = TargetId(fixed::VIA_KERNEL.0);
pub(crate) const UNREACHABLE: TargetId = TargetId(fixed::UNREACHABLE.0);
pub(crate) const MULTICAST: TargetId = TargetId(fixed::MULTICAST.0);
pub(crate) const BLACKHOLE: TargetId = TargetId(fixed::BLACKHOLE.0);
/// As unreachable, but shown by its own name.
pub(crate) const PROHIBIT: TargetId = TargetId(fixed::FIRST_FREE);
/// As no route at all, which no entry of a table can say: so the kernel, which is
/// told of both, answers.
pub(crate) const THROW: TargetId = TargetId(fixed::FIRST_FREE + 1);
const FIRST: u32 = fixed::FIRST_FREE + 2;

/// Links, neighbours, gateways, targets, and the ids they hold.
pub(crate) struct NextHops {
    pub(crate) links: Links,
    pub(crate) pool: Pool,
    pub(crate) gateways: Gateways,
    targets: Slab<Entry>,
    /// By family: a gateway's hop is of one.
    by_paths: [HashMap<Box<[Path]>, TargetId>; 2],
    /// By number, MTU and family.
    by_object: BTreeMap<(u32, u16, Family), TargetId>,
    by_chain: HashMap<Box<[TargetId]>, TargetId>,
    pub(crate) refused_chains: Refusals,
    objects: HashMap<u32, NextHopTo>,
    /// Groups by their member objects.
    parents: HashMap<u32, BTreeSet<u32>>,
    /// Targets that tables must look at again at once: another hop, or gone.
    changed: BTreeSet<TargetId>,
    /// Those that came or ceased to be usable, and nothing else: their steps do for
    /// a while.
    later: BTreeSet<TargetId>,
    dying: VecDeque<(u64, Dying)>,
    limbo: VecDeque<(Mark, u64, Dying)>,
    /// The commit being prepared.
    pub(crate) seq: u64,
    /// Some target fell back to the kernel for want of a hop or group.
    degraded: bool,
    /// Since [`NextHops::take_news`].
    news: News,
}

#[derive(Clone, Copy)]
enum Dying {
    Gateway(GatewayId),
    Target(TargetId),
}

struct Entry {
    family: Family,
    spec: Spec,
    /// Routes that name it.
    refs: u32,
    /// The commit in which `refs` came to 0 last.
    tag: u64,
    hop: Hop,
    /// `hop` is this target's own.
    own: bool,
    /// Held.
    leaves: Vec<GatewayId>,
    group: Option<Group>,
    alias_of: Option<GatewayId>,
    /// Chains that have it.
    followers: BTreeSet<TargetId>,
    usable: bool,
    /// What tables go by.
    placed: Placed,
    /// Its only path is a network of this link, which is Rutter's; with the MTU
    /// of the path.
    direct: Option<(LinkId, u16)>,
    /// The kernel dropped all its routes without a word.
    gone: bool,
    /// Without a hop of its own or a group for want of ids.
    degraded: bool,
}

#[derive(Clone)]
enum Spec {
    Paths(Box<[Path]>),
    /// With the MTU of its routes.
    Object(u32, u16),
    /// Of several routes.
    Chain(Box<[TargetId]>),
}

/// A path, or a fixed hop with its weight.
#[derive(Clone, Copy)]
enum Way {
    Path(Path),
    Fixed(Hop, u16),
}

impl NextHops {
    pub(crate) fn new(pool: Pool) -> NextHops {
        NextHops {
            links: Links::default(),
            pool,
            gateways: Gateways::new(),
            targets: Slab::new(),
            by_paths: [HashMap::new(), HashMap::new()],
            by_object: BTreeMap::new(),
            by_chain: HashMap::new(),
            refused_chains: Refusals::default(),
            objects: HashMap::new(),
            parents: HashMap::new(),
            changed: BTreeSet::new(),
            later: BTreeSet::new(),
            dying: VecDeque::new(),
            limbo: VecDeque::new(),
            seq: 1,
            degraded: false,
            news: News::default(),
        }
    }

    /// The number of a target. It lives while it is held, and until the next
    /// [`NextHops::poll`].
    pub(crate) fn intern(&mut self, target: &Target, family: Family) -> TargetId {
        match target {
            Target::Path(path) => self.intern_paths(std::slice::from_ref(path), family),
            Target::Paths(paths) => self.intern_paths(paths, family),
            Target::Object { id, mtu } => self.intern_object((*id, *mtu, family)),
            // The others have fixed numbers.
            fixed => self.find(fixed, family).unwrap_or(VIA_KERNEL),
        }
    }

    /// The number of a target that some route may name already.
    pub(crate) fn find(&self, target: &Target, family: Family) -> Option<TargetId> {
        let known = &self.by_paths[family as usize];
        match target {
            Target::Path(path) => known.get(std::slice::from_ref(path)).copied(),
            Target::Paths(paths) => known.get(paths).copied(),
            Target::Object { id, mtu } => self.by_object.get(&(*id, *mtu, family)).copied(),
            Target::Local(_) => Some(FOR_US),
            Target::Broadcast(_) => Some(MULTICAST),
            Target::Blackhole => Some(BLACKHOLE),
            Target::Unreachable => Some(UNREACHABLE),
            Target::Prohibit => Some(PROHIBIT),
            Target::Throw => Some(THROW),
            Target::Kernel => Some(VIA_KERNEL),
        }
    }

    /// One more route names the target.
    pub(crate) fn hold(&mut self, id: TargetId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.refs += 1;
        }
    }

    /// One route less names the target.
    pub(crate) fn release(&mut self, id: TargetId) {
        let seq = self.seq;
        let Some(entry) = self.entry_mut(id) else { return };
        entry.refs -= 1;
        if entry.refs == 0 {
            entry.tag = seq;
            self.dying.push_back((seq, Dying::Target(id)));
        }
    }

    /// The hop that tables store; `None` while the target is unusable, as far as
    /// they are to know.
    #[inline]
    pub(crate) fn hop(&self, id: TargetId) -> Option<Hop> {
        if id.0 < FIRST {
            return Some(fixed_hop(id));
        }
        self.entry(id).map(|entry| entry.placed).filter(|placed| placed.usable).map(|p| p.hop)
    }

    /// Whether packets can take the target's hop, as its links are.
    pub(crate) fn usable(&self, id: TargetId) -> bool {
        id.0 < FIRST || self.entry(id).is_some_and(|entry| entry.usable)
    }

    /// The target's hop, whatever tables know.
    pub(crate) fn current_hop(&self, id: TargetId) -> Option<Hop> {
        if id.0 < FIRST { Some(fixed_hop(id)) } else { self.entry(id).map(|entry| entry.hop) }
    }

    /// The link of Rutter's on which the target's packets find their destination
    /// directly, and the MTU of the route to it.
    pub(crate) fn direct(&self, id: TargetId) -> Option<(LinkId, u16)> {
        self.entry(id)?.placed.direct
    }

    /// The target's paths, those of its objects included; for `show`.
    pub(crate) fn paths(&self, id: TargetId) -> Vec<Path> {
        let Some(entry) = self.entry(id) else { return Vec::new() };
        match &entry.spec {
            Spec::Paths(paths) => paths.to_vec(),
            Spec::Object(id, mtu) => self.object_paths(*id, *mtu).collect(),
            Spec::Chain(_) => Vec::new(),
        }
    }

    /// The paths of a target that is not an object.
    pub(crate) fn plain_paths(&self, id: TargetId) -> Option<&[Path]> {
        match &self.entry(id)?.spec {
            Spec::Paths(paths) => Some(paths),
            Spec::Object(..) | Spec::Chain(_) => None,
        }
    }

    /// The next-hop object that the target is.
    pub(crate) fn object_of(&self, id: TargetId) -> Option<u32> {
        match self.entry(id)?.spec {
            Spec::Object(id, _) => Some(id),
            Spec::Paths(_) | Spec::Chain(_) => None,
        }
    }

    /// True when the routes of the target are to be dropped.
    pub(crate) fn is_gone(&self, id: TargetId) -> bool {
        self.entry(id).is_some_and(|entry| entry.gone)
    }

    /// The link changed (up, down, address, MTU, whose it is): steps follow at
    /// once, routes with the next [`NextHops::take_changed`].
    pub(crate) fn link_changed(&mut self, link: LinkId) {
        self.news = News { ways: true, steps: true };
        self.gateways.refresh_link(link, &mut self.pool, &self.links);
        let over = |entry: &Entry| match &entry.spec {
            Spec::Paths(paths) => paths.iter().any(|path| path.link == link),
            Spec::Object(id, mtu) => self.object_paths(*id, *mtu).any(|path| path.link == link),
            Spec::Chain(_) => false, // follows its targets
        };
        let ids: Vec<_> = self.targets.iter().filter(|(_, e)| over(e)).map(|(i, _)| i).collect();
        ids.into_iter().for_each(|at| self.resolve(TargetId(at + FIRST)));
    }

    /// The neighbour was resolved, moved or lost.
    pub(crate) fn neighbour_changed(&mut self, link: LinkId, ip: std::net::IpAddr) {
        self.news.steps = true;
        let all: Vec<_> = self.gateways.of(link, ip).collect();
        all.into_iter().for_each(|id| self.gateways.refresh(id, &mut self.pool, &self.links));
    }

    /// The kernel drops the routes of `family` all of whose paths use `link`.
    pub(crate) fn flush_over(&mut self, link: LinkId, family: Family) {
        let over = |entry: &Entry| {
            entry.family == family
                && matches!(&entry.spec, Spec::Paths(paths) if paths.iter().all(|p| p.link == link))
        };
        let ids: Vec<_> = self.targets.iter().filter(|(_, e)| over(e)).map(|(i, _)| i).collect();
        for id in ids.into_iter().map(|at| TargetId(at + FIRST)) {
            if let Some(paths) = self.plain_paths(id).map(Box::<[Path]>::from) {
                self.by_paths[family as usize].remove(&paths);
            }
            self.lose(id);
        }
    }

    /// Ids that no table names since commit `synced`, and no reader holds, return.
    pub(crate) fn poll(
        &mut self,
        synced: u64,
        mark: impl Fn() -> Mark,
        passed: impl Fn(Mark) -> bool,
    ) {
        if self.dying.front().is_some_and(|(tag, _)| *tag <= synced) {
            let mark = mark();
            while let Some(&(tag, dying)) = self.dying.front().filter(|(tag, _)| *tag <= synced) {
                self.limbo.push_back((mark, tag, dying));
                self.dying.pop_front();
            }
        }
        while let Some(&(_, tag, dying)) = self.limbo.front().filter(|(mark, ..)| passed(*mark)) {
            self.limbo.pop_front();
            match dying {
                Dying::Gateway(id) => self.gateways.bury(id, tag, &mut self.pool),
                Dying::Target(id) => self.bury(id, tag),
            }
        }
        self.pool.reclaim();
        self.gateways.feed_starved(&mut self.pool, &self.links);
        self.news.steps = true; // it may have fed some
        self.feed_degraded();
    }

    /// True while ids wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.dying.is_empty() || !self.limbo.is_empty() || self.pool.is_waiting()
    }

    /// Targets kept, those that wait included.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// What happens to packets of a path; `None` while its link is down.
    pub(crate) fn path_state(&self, path: &Path, family: Family) -> Option<Kind> {
        if self.links.ours(path.link).is_none() {
            return Some(Kind::ViaKernel);
        }
        let Some(key) = Key::of(path, family).filter(|_| self.links.usable(path.link)) else {
            return self.links.usable(path.link).then_some(Kind::NoNeighbour);
        };
        let gateway = self.gateways.find(&key);
        let step = gateway.and_then(|id| self.gateways.get(id)).map(|gateway| gateway.step());
        Some(step.map_or(Kind::ViaKernel, Step::kind))
    }

    /// The gateway that a host is to hold in place of `old` where the route to it
    /// has this MTU; `None` where that is `old`, or no hop is left.
    pub(crate) fn refit_host(&mut self, old: GatewayId, mtu: u16) -> Option<GatewayId> {
        let key = self.gateways.get(old)?.key;
        if key.mtu == mtu {
            return None;
        }
        let key = Key { mtu, ..key };
        let new = self.gateways.hold(key, &mut self.pool, &self.links)?;
        self.gateways.set_host(new, true);
        self.release_host(old);
        Some(new)
    }

    /// Lets go of a gateway that a host held.
    pub(crate) fn release_host(&mut self, id: GatewayId) {
        self.gateways.set_host(id, false);
        self.release_gateway(id);
    }

    pub(crate) fn release_gateway(&mut self, id: GatewayId) {
        if self.gateways.release(id, self.seq) {
            self.dying.push_back((self.seq, Dying::Gateway(id)));
        }
    }

    fn entry(&self, id: TargetId) -> Option<&Entry> {
        self.targets.get(id.0.checked_sub(FIRST)?)
    }

    fn entry_mut(&mut self, id: TargetId) -> Option<&mut Entry> {
        self.targets.get_mut(id.0.checked_sub(FIRST)?)
    }

    fn intern_paths(&mut self, paths: &[Path], family: Family) -> TargetId {
        if let Some(id) = self.by_paths[family as usize].get(paths) {
            return *id;
        }
        let id = self.insert(Spec::Paths(paths.into()), family);
        self.by_paths[family as usize].insert(paths.into(), id);
        id
    }

    fn intern_object(&mut self, object: (u32, u16, Family)) -> TargetId {
        if let Some(id) = self.by_object.get(&object) {
            return *id;
        }
        let (number, mtu, family) = object;
        let id = self.insert(Spec::Object(number, mtu), family);
        self.by_object.insert(object, id);
        id
    }

    /// Not held yet: due to be buried, unless a route holds it in this commit.
    fn insert(&mut self, spec: Spec, family: Family) -> TargetId {
        let id = self.insert_entry(spec, family);
        self.resolve(id);
        // No table knows it otherwise.
        self.changed.remove(&id);
        self.later.remove(&id);
        if let Some(entry) = self.entry_mut(id) {
            entry.placed = entry.now();
        }
        id
    }

    fn insert_entry(&mut self, spec: Spec, family: Family) -> TargetId {
        let entry = Entry {
            family,
            spec,
            refs: 0,
            tag: self.seq,
            hop: Hop::NONE,
            own: false,
            leaves: Vec::new(),
            group: None,
            alias_of: None,
            followers: BTreeSet::new(),
            usable: false,
            placed: Placed { usable: false, hop: Hop::NONE, direct: None },
            direct: None,
            gone: false,
            degraded: false,
        };
        let id = TargetId(self.targets.insert(entry) + FIRST);
        self.dying.push_back((self.seq, Dying::Target(id)));
        id
    }

    fn lose(&mut self, id: TargetId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.gone = true;
            entry.usable = false;
            self.news.ways = true; // a Grantor may hold it, too
            self.note_change(id);
            self.follow(id);
        }
    }

    /// Takes out a target that no reader can meet any more, unless a route names
    /// it again since `tag`.
    fn bury(&mut self, id: TargetId, tag: u64) {
        if self.entry(id).is_none_or(|entry| entry.refs > 0 || entry.tag != tag) {
            return;
        }
        let Some(entry) = self.targets.remove(id.0 - FIRST) else { return };
        match entry.spec {
            Spec::Paths(paths) => {
                let known = &mut self.by_paths[entry.family as usize];
                if known.get(&paths) == Some(&id) {
                    known.remove(&paths);
                }
            }
            Spec::Object(object, mtu) => {
                let key = (object, mtu, entry.family);
                if self.by_object.get(&key) == Some(&id) {
                    self.by_object.remove(&key);
                }
            }
            Spec::Chain(members) => self.bury_chain(id, &members),
        }
        if let Some(gateway) = entry.alias_of {
            self.gateways.unalias(gateway, entry.hop);
        }
        if let Some(group) = entry.group {
            self.pool.retire_group(group);
        }
        if entry.own {
            self.pool.give_hop(entry.hop);
        }
        entry.leaves.into_iter().for_each(|gateway| self.release_gateway(gateway));
        self.changed.remove(&id);
        self.later.remove(&id);
    }
}

fn fixed_hop(id: TargetId) -> Hop {
    let error = id == PROHIBIT || id == THROW;
    if error { fixed::UNREACHABLE } else { Hop(id.0) }
}
