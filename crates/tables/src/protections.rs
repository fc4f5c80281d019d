//! Protections as nodes read them: what a front view's hop means.
//!
//! ```text
//!  front view ── hop ──► step: Protected │ index ──► Protections[index]
//!                                                     action, options, SetId
//!                                                     GrantorSet ── hash ──► Grantor
//!  flow entry ── SetId: index, generation ────────►   (None: stale)          address, hop
//! ```
//!
//! [`Protections`] is published whole; its pages are shared with the one before, so a
//! change costs a page and the list of pages. What a route or a neighbour changes is
//! stored in place: the hop of a Grantor, the Grantors among whom a set chooses.
//!
//! The table may be older than the front view that a vector was looked up in, or newer: an
//! index that it does not have is a protection that comes or goes, and a drop.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lookup::Hop;

use crate::{Kind, VrfId};

/// What a protection does with packets from the front.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Action {
    /// Its Grantors decide.
    Protect,
    /// They go on by their route, to the back.
    Bypass,
    /// They are dropped.
    Discard,
}

impl Action {
    /// The kind of its hop.
    pub fn kind(self) -> Kind {
        match self {
            Action::Protect => Kind::Protected,
            Action::Bypass => Kind::Bypass,
            Action::Discard => Kind::Discard,
        }
    }

    /// `protect`, `bypass` or `drop`.
    pub fn name(self) -> &'static str {
        match self {
            Action::Protect => "protect",
            Action::Bypass => "bypass",
            Action::Discard => "drop",
        }
    }
}

/// A protection's Grantors, as flow entries name them: of another generation once the
/// protection is gone, or its options have changed. Counters of protections go by `index`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetId {
    /// Below 2^24; that of one that is gone is used again as late as possible.
    pub index: u32,
    /// Another one each time.
    pub generation: u16,
}

/// One protection.
#[derive(Clone, Debug)]
pub struct Protection {
    /// Its number.
    pub id: SetId,
    /// What it does.
    pub action: Action,
    /// What its owner wants to know of it; nothing to tables.
    pub options: u32,
    /// Whom it asks; nobody, unless it protects.
    pub(crate) set: Option<Arc<GrantorSet>>,
}

impl Protection {
    /// The Grantor of a flow, by a hash of its two addresses: the same one for as long as it
    /// can be reached. `None` while none of the set can.
    #[inline]
    pub fn grantor(&self, hash: u32) -> Option<&Grantor> {
        let set = self.set.as_ref()?;
        set.choose(&set.slots, hash)
    }

    /// The Grantor of all flows, whatever their hash, where there is no choice.
    #[inline]
    pub fn only(&self) -> Option<&Grantor> {
        let set = self.set.as_ref()?;
        if set.slots.len() == 1 { set.choose(&set.slots, 0) } else { None }
    }

    /// The Grantor of a flow among those that decide and never forward.
    #[inline]
    pub fn shadow(&self, hash: u32) -> Option<&Grantor> {
        let set = self.set.as_ref()?;
        set.choose(&set.shadows, hash)
    }

    /// All of its Grantors, whether they can be reached or not.
    pub fn grantors(&self) -> impl Iterator<Item = &Grantor> {
        self.set.iter().flat_map(|set| set.grantors.iter().map(|grantor| &**grantor))
    }

    /// The Grantor with this address.
    #[inline]
    pub fn named(&self, ip: IpAddr) -> Option<&Grantor> {
        let all = &self.set.as_ref()?.grantors;
        let at = all.binary_search_by(|grantor| grantor.ip.cmp(&ip)).ok()?;
        Some(&all[at])
    }
}

/// Whom a protection asks. Protections with the same list share it.
#[derive(Debug)]
pub(crate) struct GrantorSet {
    /// By address.
    pub(crate) grantors: Box<[Arc<Grantor>]>,
    /// As often as it has weight, each by its place in `grantors`; [`NOBODY`] where none
    /// can be reached.
    pub(crate) slots: Box<[AtomicU32]>,
    /// Likewise those that decide and never forward.
    pub(crate) shadows: Box<[AtomicU32]>,
}

impl GrantorSet {
    #[inline]
    fn choose(&self, slots: &[AtomicU32], hash: u32) -> Option<&Grantor> {
        let pick = (u64::from(hash) * slots.len() as u64) >> 32;
        let at = slots.get(pick as usize)?.load(Ordering::Relaxed);
        self.grantors.get(at as usize).map(|grantor| &**grantor)
    }
}

/// No place in a set.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A server that decides which packets may pass.
#[derive(Debug)]
pub struct Grantor {
    /// Its number, for counters: that of one that is gone may be another's later.
    pub id: u32,
    /// Where packets are sent to be decided on.
    pub ip: IpAddr,
    pub(crate) hop: AtomicU32,
}

impl Grantor {
    /// The way to it, by the plain view of the protection's VRF: never one that leads out
    /// at the front. [`Hop::NONE`] while there is none.
    #[inline]
    pub fn hop(&self) -> Hop {
        // Acquire: as for a step, what the hop means was written before it.
        Hop(self.hop.load(Ordering::Acquire))
    }
}

/// All protections of all VRFs, by [`SetId::index`].
#[derive(Clone, Debug, Default)]
pub struct Protections {
    pages: Vec<Arc<Page>>,
    grantors: Arc<BTreeSet<(VrfId, IpAddr)>>,
}

#[derive(Clone, Debug, Default)]
struct Page(Vec<Option<Protection>>);

/// Protections of a page.
const PAGE: usize = 256;

impl Protections {
    /// The protection of a step of the front view; `None` while it comes or goes.
    #[inline]
    pub fn at(&self, index: u32) -> Option<&Protection> {
        let page = self.pages.get(index as usize / PAGE)?;
        page.0.get(index as usize % PAGE)?.as_ref()
    }

    /// The protection of a flow entry; `None` where the entry is stale.
    #[inline]
    pub fn get(&self, id: SetId) -> Option<&Protection> {
        self.at(id.index).filter(|protection| protection.id == id)
    }

    /// Whether a protection of the VRF names a Grantor with this address.
    pub fn names(&self, vrf: VrfId, grantor: IpAddr) -> bool {
        self.grantors.contains(&(vrf, grantor))
    }

    /// All that are named, from now on.
    pub(crate) fn set_grantors(&mut self, all: BTreeSet<(VrfId, IpAddr)>) {
        self.grantors = Arc::new(all);
    }

    /// Puts one in its place, or nothing; returns how much was copied for that.
    pub(crate) fn set(&mut self, index: u32, protection: Option<Protection>) -> usize {
        let (page, at) = (index as usize / PAGE, index as usize % PAGE);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, Arc::default);
        }
        let shared = Arc::strong_count(&self.pages[page]) > 1;
        let page = Arc::make_mut(&mut self.pages[page]);
        if page.0.is_empty() {
            page.0.resize_with(PAGE, || None);
        }
        page.0[at] = protection; // cannot panic: a page has so many
        if shared { PAGE } else { 1 }
    }

    /// How much is copied to publish it.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(index: u32, generation: u16) -> Protection {
        let id = SetId { index, generation };
        Protection { id, action: Action::Discard, options: 0, set: None }
    }

    #[test]
    fn what_is_stale_is_absent() {
        let mut all = Protections::default();
        assert!(all.at(0).is_none() && all.at(u32::MAX).is_none());
        all.set(600, Some(protection(600, 7)));
        let before = all.clone();
        all.set(600, Some(protection(600, 8)));
        let id = |generation| SetId { index: 600, generation };
        assert!(all.get(id(8)).is_some() && all.get(id(7)).is_none());
        assert!(before.get(id(7)).is_some() && before.get(id(8)).is_none(), "pages are copied");
        all.set(600, None);
        assert!(all.at(600).is_none() && all.at(599).is_none());
    }

    #[test]
    fn a_hash_chooses_by_weight() {
        let grantor = |id: u32| {
            let ip = IpAddr::from([10, 0, 0, id as u8]);
            Arc::new(Grantor { id, ip, hop: AtomicU32::new(id + 20) })
        };
        let set = GrantorSet {
            grantors: [grantor(1), grantor(2)].into(),
            slots: [0, 1, 1, 1].map(AtomicU32::new).into(),
            shadows: [].into(),
        };
        let protected = Protection { set: Some(Arc::new(set)), ..protection(1, 1) };
        let second = |i: u32| protected.grantor(i << 24).unwrap().id == 2;
        assert_eq!((0..256).filter(|i| second(*i)).count(), 192);
        assert!(protected.shadow(3).is_none() && protection(1, 1).grantor(3).is_none());
        assert_eq!(protected.named([10, 0, 0, 2].into()).unwrap().hop(), Hop(22));
        assert!(protected.named([10, 0, 0, 3].into()).is_none());
    }
}
