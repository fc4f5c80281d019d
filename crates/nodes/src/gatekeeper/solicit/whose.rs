//! Whose requests are: what is the same for all of a protection's.

use graph::View;
use tables::{Protection, Protections, SetId};

use super::{ONE, Solicit, is_here};
use crate::gatekeeper::outer::{Unfit, Way, Ways, packet_len};

/// Whose the request before was: mostly the next one's, too.
pub(super) struct Whose<'g> {
    pub set: SetId,
    pub protection: Option<&'g Protection>,
    /// There is one, and another machine decides.
    pub is_away: bool,
    /// The way of its packets, where all have one.
    pub way: Option<Way<'g>>,
}

impl<'g> Whose<'g> {
    /// No protection's.
    pub(super) fn nobody() -> Whose<'g> {
        let set = SetId { index: u32::MAX, generation: u16::MAX };
        Whose { set, protection: None, is_away: false, way: None }
    }

    #[inline(never)]
    pub(super) fn turn_to(&mut self, set: SetId, protections: &'g Protections, ways: &Ways<'g>) {
        self.count(ways);
        let protection = protections.get(set);
        let is_away = protection.is_some_and(|protection| !is_here(protection));
        let way = protection.filter(|_| is_away).and_then(|protection| ways.only(protection));
        *self = Whose { set, protection, is_away, way };
    }

    /// Counts what left by its way.
    pub(super) fn count(&mut self, ways: &Ways<'_>) {
        if let Some(way) = &mut self.way {
            ways.count(way);
        }
    }

    /// Whether a policy of this machine decides.
    pub(super) fn is_here(&self) -> bool {
        self.protection.is_some() && !self.is_away
    }

    /// Bytes of the frame that packet `i` will be.
    pub(super) fn frame_len(
        &self,
        v: &View<'_, Solicit>,
        i: usize,
        mixed: u32,
        ways: &Ways<'_>,
    ) -> Result<u32, Unfit> {
        let packet_len = packet_len(v.head(i));
        match &self.way {
            _ if self.is_here() => Ok(ONE),
            Some(way) => way.frame_len(packet_len),
            None => {
                let grantor = self.protection.and_then(|it| it.grantor(mixed));
                ways.frame_len(packet_len, grantor, mixed)
            }
        }
    }
}
