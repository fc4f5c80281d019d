//! Keeps neighbours in use resolved, so that forwarding never waits for one:
//! gateways of installed routes are managed by the kernel (`NTF_EXT_MANAGED`),
//! hosts that packets went to are used now and then (`NTF_USE`).

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tables::{Control, LinkId};

use super::kernel_side::KernelSide;

type Neighbour = (LinkId, IpAddr);

/// What was asked of the kernel so far.
pub struct Keeper {
    managed: HashSet<Neighbour>,
    /// True where the kernel (before 5.16) does not manage: all are used instead.
    by_use: bool,
    next_use: Instant,
}

/// What the control thread tells the keeper.
pub struct Wanted {
    gateways: Vec<Neighbour>,
    used: Vec<Neighbour>,
}

impl Keeper {
    /// Has asked for nothing yet.
    pub fn new() -> Keeper {
        Keeper { managed: HashSet::new(), by_use: false, next_use: Instant::now() + USE }
    }

    /// True when hosts in use are due, too.
    pub fn uses(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next_use;
        if due {
            self.next_use = now + USE;
        }
        due
    }

    /// Asks the kernel for what changed. `used` is empty unless it is due.
    pub fn keep(&mut self, wanted: &Wanted, kernel: &mut KernelSide) {
        let gateways: HashSet<Neighbour> = wanted.gateways.iter().copied().collect();
        let rtnetlink = kernel.rtnetlink();
        for &(link, address) in gateways.difference(&self.managed) {
            if !self.by_use && rtnetlink.manage_neighbour(link.0, address).is_err() {
                // Gone with its link, or an old kernel: a use tells.
                self.by_use = rtnetlink.use_neighbour(link.0, address).is_ok();
            }
        }
        for &(link, address) in self.managed.difference(&gateways) {
            // Used instead of managed: from now on it may age. It may be gone.
            let _ = rtnetlink.use_neighbour(link.0, address);
        }
        let again = gateways.iter().filter(|_| self.by_use && !wanted.used.is_empty());
        for &(link, address) in
            wanted.used.iter().filter(|used| !gateways.contains(used)).chain(again)
        {
            let _ = rtnetlink.use_neighbour(link.0, address); // it may be gone
        }
        self.managed = gateways;
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Keeper::new()
    }
}

impl Wanted {
    /// Asks the tables. Links that are not Rutter's are the kernel's own affair.
    pub fn of(control: &mut Control, with_used: bool) -> Wanted {
        let ours: HashSet<LinkId> =
            control.interfaces().iter().filter_map(|interface| interface.link).collect();
        let mine = |all: Vec<Neighbour>| -> Vec<Neighbour> {
            all.into_iter().filter(|(link, _)| ours.contains(link)).collect()
        };
        let gateways = mine(control.gateways());
        let used = if with_used { mine(control.take_used()) } else { Vec::new() };
        Wanted { gateways, used }
    }
}

/// Often enough that a host stays reachable (30 s), seldom enough to cost nothing.
const USE: Duration = Duration::from_secs(10);
