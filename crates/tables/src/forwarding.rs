//! All that the nodes read, each part published on its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lookup::Hop;
use lookup::lpm::Lpm;
use lookup::sync::{Domain, Published};

use crate::bridge::Bridges;
use crate::macs::Macs;
use crate::peers::Peers;
use crate::protections::Protections;
use crate::recent::Recent;
use crate::{Denied, HopTable, Ifaces, Side, Step};

/// The forwarding tables of one VRF, built by the engines that it chose.
#[derive(Clone)]
pub struct Vrf {
    /// IPv4.
    pub v4: Arc<dyn Lpm<u32>>,
    /// IPv6.
    pub v6: Arc<dyn Lpm<u128>>,
    /// Packets may leave by interfaces that are not Rutter's: the kernel forwards them.
    pub via_kernel: bool,
    /// Packets may come from this machine's own addresses.
    pub own_sources: bool,
    /// What packets look up that came in at the front of a shield; `None` without one.
    pub front: Option<FrontView>,
}

/// The front view of a VRF: hops of protections, of what is for this machine or for nobody,
/// and [`withheld`](crate::hops::withheld) ones. No hop in it leads out.
#[derive(Clone)]
pub struct FrontView {
    /// IPv4.
    pub v4: Arc<dyn Lpm<u32>>,
    /// IPv6.
    pub v6: Arc<dyn Lpm<u128>>,
}

impl Ifaces {
    /// Why a packet from the front is dropped that no protection lets pass, by the step of
    /// the route that is withheld from it.
    pub fn why_withheld(&self, step: Step, hops: &HopTable) -> Denied {
        let out = step.forward().map(|id| self.side(hops.adjacency(id).out().iface()));
        let denied = Side::Front.may_leave_at(out.unwrap_or_default(), false);
        denied.err().unwrap_or(Denied::FrontElsewhere)
    }

    /// Whether packets of `step` leave at the back, by one of its ways: of several, the kernel
    /// may choose another one than we do.
    pub fn leads_to_back(&self, step: Step, hops: &HopTable) -> bool {
        let at_back = |step: Step| match step.forward() {
            Some(id) => self.side(hops.adjacency(id).out().iface()) == Side::Back,
            None => step == Step::AT_BACK,
        };
        match step.multipath() {
            Some(group) => hops.member_that(group, 0, |hop| at_back(hops.step(hop))).is_some(),
            None => at_back(step),
        }
    }
}

/// What the nodes of all workers share. A worker loads each part once a vector.
pub struct Forwarding {
    /// Interfaces and how frames find them.
    pub ifaces: Published<Ifaces>,
    /// What a hop means.
    pub hops: Published<Arc<HopTable>>,
    /// By [`VrfId`].
    pub vrfs: Published<Vec<Vrf>>,
    /// What hops of front views mean.
    pub protections: Published<Protections>,
    /// Bridges, and how frames find them.
    pub bridges: Published<Bridges>,
    /// Whose packets the kernel gets first.
    pub peers: Published<Peers>,
    /// Where stations are.
    pub macs: Macs,
    /// IPv4 destinations met lately, of all VRFs.
    pub recent4: Recent,
    /// IPv6 destinations.
    pub recent6: Recent,
    /// The kernel has had no room for a neighbour lately: hosts stay unresolved.
    pub neighbours_full: AtomicBool,
}

impl Forwarding {
    /// No interfaces, and one VRF without routes.
    pub fn new(domain: &Arc<Domain>) -> Arc<Forwarding> {
        let empty = Vrf {
            v4: Arc::new(NoRoutes),
            v6: Arc::new(NoRoutes),
            via_kernel: false,
            own_sources: true,
            front: None,
        };
        Arc::new(Forwarding {
            ifaces: Published::new(domain, Ifaces::new([])),
            hops: Published::new(domain, Arc::new(HopTable::new(64, 16, 64))),
            vrfs: Published::new(domain, vec![empty]),
            protections: Published::new(domain, Protections::default()),
            bridges: Published::new(domain, Bridges::default()),
            peers: Published::new(domain, Peers::default()),
            macs: Macs::default(),
            recent4: Recent::new(),
            recent6: Recent::new(),
            neighbours_full: AtomicBool::new(false),
        })
    }
}

/// The table of a VRF before its first build.
struct NoRoutes;

impl<A: lookup::Addr> Lpm<A> for NoRoutes {
    fn lookup(&self, _: A) -> Hop {
        Hop::NONE
    }
    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        hops.fill(Hop::NONE);
    }
    fn bytes(&self) -> usize {
        0
    }
}
