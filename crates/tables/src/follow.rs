//! Routes go where their targets went.

use std::time::Instant;

use crate::control::{Control, VrfState};
use crate::pace::SLICE;

impl Control {
    /// A link has changed: its routes wait until it is quiet.
    pub(crate) fn hold_routes(&mut self) {
        if self.next_hops.has_later() {
            self.pace.flip(Instant::now());
        }
    }

    /// Lets the next routes follow their links, once it is time.
    pub(crate) fn follow(&mut self) {
        let now = Instant::now();
        if self.pace.marks.is_none()
            && self.pace.left(now).is_zero()
            && let Some(marks) = self.next_hops.take_later()
        {
            self.pace.begin(now, marks);
            self.vrfs.iter_mut().for_each(|vrf| {
                vrf.v4.begin_to_follow();
                vrf.v6.begin_to_follow();
            });
        }
        let Some(marks) = &self.pace.marks else { return };
        let mut most = SLICE;
        let mut follow =
            |vrf: &mut VrfState| vrf.v4.follow(marks, &mut most) || vrf.v6.follow(marks, &mut most);
        if !self.vrfs.iter_mut().any(&mut follow) {
            self.pace.marks = None;
        }
    }

    /// Looks at the routes whose targets changed.
    pub(crate) fn retarget(&mut self) {
        let routes = self.vrfs.iter().map(|vrf| vrf.v4.routes.len() + vrf.v6.routes.len());
        if routes.sum::<usize>() <= self.pace.few {
            self.next_hops.hurry();
        }
        let Some(marks) = self.next_hops.take_changed() else { return };
        let mut lost = Vec::new();
        for vrf in &mut self.vrfs {
            vrf.v4.retarget(&marks, &self.next_hops, |candidate| lost.push(candidate.target));
            vrf.v6.retarget(&marks, &self.next_hops, |candidate| lost.push(candidate.target));
        }
        self.counters.routes_removed += lost.len() as u64;
        lost.into_iter().for_each(|target| self.next_hops.release(target));
    }
}
