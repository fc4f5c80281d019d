//! What `grantor` does with fragments, where they wait for one another.

use graph::{Kept, View};
use io::VECTOR;
use wire::ggu::Flow;

use super::super::fates::Why;
use super::super::fragments::{Joined, is_possible, is_tiny, part};
use super::super::gather::{Chain, Put, World};
use super::super::lanes::Asks;
use super::super::messages::Ends;
use super::super::parked::{Goes, Parked, level};
use super::super::post::Post;
use super::super::settings::Settings;
use super::{Grantor, LOWEST, ticks};
use crate::lanes::Iface;

impl Grantor {
    /// Has fragment `i` wait for the others of its packet.
    pub(super) fn gather(
        &mut self,
        v: &mut View<'_, Self>,
        i: usize,
        parked: impl Fn(Kept) -> Parked,
        settings: &Settings,
    ) {
        let inner = v.get(Asks, i);
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let vrf = ifaces.vrf.get(usize::from(v.get(Iface, i).0)).map_or(0, |vrf| vrf.0);
        let world = World { vrf, at: inner.at, shadow: inner.copy || settings.shadow };
        let packet = v.rest(i).get(inner.at.into()..).unwrap_or_default();
        let Some((key, at)) = part(packet, &inner, world) else {
            return v.drop(i, Why::FragmentLength);
        };
        if is_tiny(&inner, &at) {
            return v.drop(i, Why::FragmentTiny);
        }
        if at.start == 0 && !at.more {
            // RFC 6946 §4: one that is all of its packet has nothing to do with others of its id.
            let Some(kept) = v.keep(i) else { return };
            self.counters.whole.add(1);
            let level = level(&inner, settings.shadow);
            return self.put_in(v, level, Parked { whole: at.end, ..parked(kept) }, settings);
        }
        while !self.fragments.all.has_room() {
            let Some(chain) = self.fragments.all.give_up(u64::MAX) else {
                return v.drop(i, Why::FragmentFull); // cannot be: a whole leaves a place
            };
            self.punish(v, chain, Why::FragmentFull);
        }
        let Some(kept) = v.keep(i) else { return };
        self.counters.fragments.add(1);
        match self.fragments.all.put(key, at, v.now(), parked(kept)) {
            Put::Waits => {}
            Put::Whole(chain, whole) => {
                let Some(first) = self.fragments.next(chain) else { return };
                if !is_possible(&first, whole) {
                    return self.discard(v, first, Why::FragmentLong);
                }
                self.counters.whole.add(1);
                let level = level(&first.inner, settings.shadow);
                self.put_in(v, level, Parked { whole, ..first }, settings);
            }
            Put::Again(parked) => v.discard(parked.kept, Why::FragmentAgain),
            Put::Overlap(parked, rest) => {
                self.discard(v, Parked { rest, ..parked }, Why::FragmentOverlap);
            }
            Put::TooMany(parked, rest) if rest == Chain::EMPTY => {
                v.discard(parked.kept, Why::FragmentMany);
            }
            Put::TooMany(parked, rest) => {
                self.discard(v, parked, Why::FragmentMany);
                self.punish(v, rest, Why::FragmentMany);
            }
        }
    }

    /// Drops fragments that come to nothing, and has the policy asked what their flow deserves.
    fn punish(&mut self, v: &mut View<'_, Self>, chain: Chain, why: Why) {
        let Some(parked) = self.fragments.next(chain) else { return };
        let mut rest = parked.rest;
        while let Some(next) = self.fragments.next(rest) {
            rest = next.rest;
            v.discard(next.kept, why);
        }
        let (goes, rest) = (Goes::Punished(why), Chain::EMPTY);
        match self.park.put(LOWEST, v.now(), Parked { goes, rest, ..parked }) {
            Ok(()) => self.counters.punished.add(1),
            Err(parked) => v.discard(parked.kept, why),
        }
    }

    /// Gives up fragments whose others have not come; whether there may be more of them.
    pub(super) fn give_up_fragments(
        &mut self,
        v: &mut View<'_, Self>,
        settings: &Settings,
    ) -> bool {
        let Some(until) = v.now().checked_sub(ticks(settings.fragment_ms)) else { return false };
        for _ in 0..VECTOR {
            let Some(chain) = self.fragments.all.give_up(until) else { return false };
            self.punish(v, chain, Why::FragmentLate);
        }
        true
    }

    /// A packet that goes on: as one, where that is wanted and fits. `None`: it goes no further.
    pub(super) fn join(
        &mut self,
        v: &mut View<'_, Self>,
        parked: Parked,
        settings: &Settings,
    ) -> Option<Parked> {
        if parked.whole == 0 || !settings.reassemble {
            return Some(parked);
        }
        let most = self.mtu(v, &parked);
        match self.fragments.join(parked, most.into(), settings.ecn) {
            Joined::One(parked, rest) => {
                self.counters.joined.add(1);
                if let Some(next) = self.fragments.next(rest) {
                    self.discard(v, next, Why::FragmentJoined);
                }
                Some(parked)
            }
            Joined::Apart(parked) => {
                self.counters.apart.add(1);
                Some(Parked { whole: 0, ..parked })
            }
            Joined::Congested(parked) => {
                self.discard(v, parked, Why::Congested);
                None
            }
        }
    }

    /// Bytes that a packet may have on its way.
    fn mtu(&self, v: &View<'_, Self>, parked: &Parked) -> u16 {
        let (from, to) = match parked.flow() {
            Some(Flow::V4 { src, dst }) => (src.into(), dst.into()),
            Some(Flow::V6 { src, dst }) => (src.into(), dst.into()),
            None => return 0,
        };
        let post = Post { forwarding: &self.forwarding, guard: v.guard() };
        post.mtu(&Ends { from, to, iface: parked.iface })
    }
}
