//! Protections are added, changed and taken out; sides of interfaces are set.
//!
//! What is said takes effect with the next [`Control::commit`]: an index is published
//! before the front view names it, and taken out after.

use lookup::Prefix;

use crate::control::Control;
use crate::error::{Error, Unfit};
use crate::grantors::Named;
use crate::guards::Guard;
use crate::intake::Tables;
use crate::protections::{Action, SetId};
use crate::{Family, IfaceId, Net, Side, Step, VrfId};

/// A protection as it is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Protect {
    /// What it covers.
    pub net: Net,
    /// What happens to packets from the front.
    pub action: Action,
    /// For its owner: [`Protection::options`](crate::Protection::options); but [`LOCAL`].
    pub options: u32,
    /// Who decides; nobody, unless it protects.
    pub grantors: Vec<Named>,
}

/// An option of a protection: this machine decides. It names no Grantor.
pub const LOCAL: u32 = 1 << 31;

/// What a change comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Changed {
    /// It was so.
    Same(SetId),
    /// Other Grantors, or other weights: flows stay, and may go to another Grantor.
    Swapped(SetId),
    /// Other options: the flows of the old number are to be flushed. Once that is
    /// committed, entries that name it are stale.
    Flush {
        /// As flows name it so far.
        old: SetId,
        /// As they are to from now on.
        new: SetId,
    },
}

impl Control {
    /// Marks an interface as one of the front, of the back, or neither; false where there is
    /// no such interface.
    pub fn set_side(&mut self, id: IfaceId, side: Side) -> bool {
        let Some(slot) = self.next_hops.links.slot_mut(id) else { return false };
        if std::mem::replace(&mut slot.iface.side, side) != side {
            let link = slot.link;
            self.next_hops.sides_changed();
            link.into_iter().for_each(|link| self.link_changed(link));
            self.ifaces_changed();
        }
        true
    }

    /// Protects a prefix.
    ///
    /// # Errors
    /// When the VRF is unknown or the prefix does not fit among the others ([`Unfit`]); when
    /// the engine has no room for it.
    pub fn protect(&mut self, vrf: VrfId, wanted: &Protect) -> Result<SetId, Error> {
        match wanted.net.family() {
            Family::V4 => self.add_protection::<u32>(vrf, wanted),
            Family::V6 => self.add_protection::<u128>(vrf, wanted),
        }
    }

    /// Changes a protection's Grantors, its options, or both. What it does never changes.
    ///
    /// # Errors
    /// When VRF or protection are unknown, or the Grantors do not fit.
    pub fn change_protection(&mut self, vrf: VrfId, wanted: &Protect) -> Result<Changed, Error> {
        match wanted.net.family() {
            Family::V4 => self.alter_protection::<u32>(vrf, wanted),
            Family::V6 => self.alter_protection::<u128>(vrf, wanted),
        }
    }

    /// Takes a protection out; the flows of the number returned are to be flushed.
    ///
    /// # Errors
    /// When VRF or protection are unknown.
    pub fn unprotect(&mut self, vrf: VrfId, net: Net) -> Result<SetId, Error> {
        match net.family() {
            Family::V4 => self.take_protection::<u32>(vrf, net),
            Family::V6 => self.take_protection::<u128>(vrf, net),
        }
    }

    /// The network of this router's own, or the address, that a prefix overlaps.
    pub(crate) fn own_network(&self, vrf: VrfId, net: Net) -> Option<Net> {
        let links = &self.next_hops.links;
        let addresses = links.iter().flat_map(|state| {
            let ours = links.ours(state.link.index).is_some();
            let here = state.addresses.iter().filter(|(_, of)| **of == vrf);
            here.filter_map(move |((ip, len), _)| {
                // Behind what is not Rutter's nothing is forwarded; the address is ours.
                Net::covering(*ip, if ours { *len } else { Family::of(*ip).width() })
            })
        });
        addresses.filter(|own| own.covers(&net) || net.covers(own)).min()
    }

    fn add_protection<A: Tables>(&mut self, vrf: VrfId, wanted: &Protect) -> Result<SetId, Error> {
        let (net, action) = (wanted.net, wanted.action);
        let prefix = self.fits::<A>(vrf, wanted)?;
        let full = |limit: String| Unfit::Full { net, limit };
        let most = self.limits.protections.min(1 << 24);
        if self.guards.len() >= most {
            return Err(self.refuse_protection(full(format!("{most} protections are in"))));
        }
        if !self.next_hops.pool.memory.allows(BYTES) {
            return Err(self.refuse_protection(full("too little memory is free".into())));
        }
        let Some(hop) = self.next_hops.pool.take_hop() else {
            return Err(self.refuse_protection(full("all hops are in use".into())));
        };
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]); // cannot panic: `fits`
        let had = table.front.fib.is_some();
        if let Err(error) = table.front.admit(&prefix, hop, &table.fib, &self.domain) {
            self.next_hops.pool.give_hop(hop); // nobody has met it
            self.refused_protections.note(|| net.to_string(), || error.to_string());
            return Err(error);
        }
        self.views_changed |= !had;
        let id = self.guards.next();
        self.next_hops.pool.set_step(hop, Step::new(action.kind(), id.index));
        let list = sorted(&wanted.grantors);
        let ids = &mut self.guards.grantor_ids;
        let set = (action == Action::Protect).then(|| table.grantors.hold(&list, ids));
        let (set, shown) = set.unzip();
        table.front.insert(prefix, action, id.index, hop);
        let (options, grantors) = (wanted.options, list);
        self.guards.insert(Guard { vrf, net, id, action, options, grantors, hop, set }, shown);
        Ok(id)
    }

    /// The prefix, where it fits among the others and its Grantors are right.
    fn fits<A: Tables>(&mut self, vrf: VrfId, wanted: &Protect) -> Result<Prefix<A>, Error> {
        let (net, action) = (wanted.net, wanted.action);
        let state = self.vrfs.get(usize::from(vrf.0)).ok_or(Error::UnknownVrf)?;
        let table = A::table_ref(state);
        let prefix = net.prefix::<A>().ok_or(Error::UnknownVrf)?; // of its family: it is
        grantors_fit(wanted)?;
        if table.front.prefixes.contains_key(&prefix) {
            return Err(self.refuse_protection(Unfit::Duplicate { net }));
        }
        if let Some(reserved) = table.reserved(&prefix) {
            let reserved = reserved.into();
            return Err(self.refuse_protection(Unfit::Reserved { net, reserved }));
        }
        if let Some(subnet) = self.own_network(vrf, net) {
            return Err(self.refuse_protection(Unfit::OwnNetwork { net, subnet }));
        }
        if let Some(other) = table.front.hole(&prefix, action, &mut self.guards.steps) {
            let index = table.front.prefixes.get(&other);
            let guard = index.and_then(|index| self.guards.get(*index));
            let others = guard.map_or("", |guard| guard.action.name());
            let (does, other) = (action.name(), other.into());
            return Err(self.refuse_protection(Unfit::Hole { net, does, other, others }));
        }
        Ok(prefix)
    }

    fn alter_protection<A: Tables>(
        &mut self,
        vrf: VrfId,
        wanted: &Protect,
    ) -> Result<Changed, Error> {
        let net = wanted.net;
        let index = self.index::<A>(vrf, net)?;
        grantors_fit(wanted)?;
        let guard = self.guards.get(index).ok_or(Unfit::Unknown { net })?;
        if guard.action != wanted.action {
            return Err(Unfit::OtherAction { net, does: guard.action.name() }.into());
        }
        let (old, held, list) = (guard.id, guard.set, sorted(&wanted.grantors));
        let (swaps, flushes) = (guard.grantors != list, guard.options != wanted.options);
        if swaps {
            let table = A::table(&mut self.vrfs[usize::from(vrf.0)]); // cannot panic: `index`
            let ids = &mut self.guards.grantor_ids;
            let set = table.grantors.hold(&list, ids);
            if let Some(held) = held {
                table.grantors.release(held, &mut self.next_hops, ids);
            }
            self.guards.swap(index, &list, set);
        }
        if flushes && let Some(new) = self.guards.set_options(index, wanted.options) {
            return Ok(Changed::Flush { old, new });
        }
        Ok(if swaps { Changed::Swapped(old) } else { Changed::Same(old) })
    }

    fn take_protection<A: Tables>(&mut self, vrf: VrfId, net: Net) -> Result<SetId, Error> {
        let index = self.index::<A>(vrf, net)?;
        let guard = self.guards.remove(index, self.next_hops.seq);
        let guard = guard.ok_or(Unfit::Unknown { net })?;
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]); // cannot panic: `index`
        if let Some(prefix) = net.prefix::<A>() {
            table.front.remove(&prefix, guard.action);
        }
        if let Some(set) = guard.set {
            table.grantors.release(set, &mut self.next_hops, &mut self.guards.grantor_ids);
        }
        Ok(guard.id)
    }

    fn index<A: Tables>(&self, vrf: VrfId, net: Net) -> Result<u32, Error> {
        let state = self.vrfs.get(usize::from(vrf.0)).ok_or(Error::UnknownVrf)?;
        let prefix = net.prefix::<A>();
        let known = &A::table_ref(state).front.prefixes;
        let index = prefix.and_then(|prefix| known.get(&prefix).copied());
        Ok(index.ok_or(Unfit::Unknown { net })?)
    }

    fn refuse_protection(&mut self, unfit: Unfit) -> Error {
        let (refusals, net) = match &unfit {
            Unfit::Full { net, .. } => (&mut self.refused_protections, *net),
            Unfit::Duplicate { net }
            | Unfit::Hole { net, .. }
            | Unfit::OwnNetwork { net, .. }
            | Unfit::Reserved { net, .. } => (&mut self.unfit_protections, *net),
            _ => return unfit.into(),
        };
        refusals.note(|| net.to_string(), || unfit.to_string());
        unfit.into()
    }
}

/// Each of the family, named once, with a share; some where they decide, none elsewhere.
fn grantors_fit(wanted: &Protect) -> Result<(), Unfit> {
    let Protect { net, action, grantors, options } = wanted;
    let net = *net;
    let is_asked = *action == Action::Protect && options & LOCAL == 0;
    match (is_asked, grantors.is_empty()) {
        (true, true) => return Err(Unfit::NoGrantor { net }),
        (false, false) => {
            return Err(Unfit::NeedlessGrantor { net, does: action.name() });
        }
        _ => {}
    }
    let list = sorted(grantors);
    for (at, Named { ip, weight, .. }) in list.iter().enumerate() {
        let grantor = *ip;
        if Family::of(grantor) != net.family() {
            return Err(Unfit::OtherFamily { net, grantor });
        }
        let again = list.get(at + 1).is_some_and(|next| next.ip == grantor);
        if again || *weight == 0 {
            return Err(Unfit::BadGrantor { net, grantor });
        }
    }
    Ok(())
}

/// By address.
fn sorted(grantors: &[Named]) -> Box<[Named]> {
    let mut list: Box<[Named]> = grantors.into();
    list.sort_unstable();
    list
}

/// What a protection takes, in all: its place, hop, prefix, and those in the engine.
const BYTES: u64 = 512;
