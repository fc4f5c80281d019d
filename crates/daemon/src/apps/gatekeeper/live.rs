//! What changes while packets flow: what is protected and what the kernel shows of it, the way
//! to Grantors, this machine's addresses at the back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use api::apps::gatekeeper::Verdicts;
use nodes::gatekeeper::settings::{Ends, SHADOW};
use tables::show::{ProtectionInfo, RouteFilter};
use tables::{Action, Control, Net, Side, VrfId};

use super::read::Shield;
use super::{Guarding, candidates, ends};
use crate::config;
use crate::error::{Doing, Error};
use crate::kernel::shields::Shield as Shown;
use crate::parts::kernel_side::KernelSide;
use crate::parts::offline::MAIN;
use crate::parts::state::{State, lock};

/// What is known of a running shield.
#[derive(Default)]
pub(super) struct Live {
    /// By the index of a protection that came later: what another had counted there.
    pub before: HashMap<u32, Verdicts>,
    /// Protected prefixes that routing daemons do not see: none of their Grantors can be
    /// reached.
    pub withdrawn: BTreeSet<Net>,
    /// Those, and what may follow; since when.
    lost: BTreeMap<Net, Instant>,
    /// Who could not be reached when protections were listed last, and when that was.
    listed: Option<(Vec<IpAddr>, Instant)>,
    /// Grantors that cannot be reached: since when, and why if that was logged.
    faults: BTreeMap<IpAddr, (Instant, Option<String>)>,
    looked: Option<Instant>,
    /// Packets that were too long for the back so far, and when that was logged.
    too_long: (u64, Option<Instant>),
    /// When somebody asked for the capacity last, and what was counted then.
    pub seen: Option<Seen>,
}

/// Counters at a time.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub at: Instant,
    /// New flows, requests.
    pub counts: [u64; 2],
}

/// Protections are in main: both sides are.
pub(super) const VRF: VrfId = VrfId(0);

/// Sides, protections and what the kernel has to know of both.
pub(super) fn prepare(
    shield: &Shield,
    fronts: &[String],
    control: &mut Control,
    kernel: Option<&mut KernelSide>,
) -> Result<(), Error> {
    for info in control.interfaces() {
        let is_in = |names: &[String]| names.contains(&info.iface.name);
        let side = match (is_in(fronts), is_in(&shield.back)) {
            (true, _) => Side::Front,
            (_, true) => Side::Back,
            _ => continue,
        };
        control.set_side(info.id, side);
    }
    if let Some(others) = fronts.get(shield.front.len()..).filter(|others| !others.is_empty()) {
        tracing::info!(
            "gatekeeper: {} has a port of the front: it is the front's",
            others.join(", ")
        );
    }
    for (at, wanted) in shield.protected.iter().enumerate() {
        let place = ["gatekeeper", "protect", &at.to_string()];
        control.protect(VRF, wanted).map_err(|error| Error::asked(&place, error))?;
    }
    control.commit();
    let Some(kernel) = kernel else { return Ok(()) };
    let all = fronts.iter().cloned().collect();
    kernel.set_fronts(all).doing(|| "keep the kernel from forwarding at the front".into())?;
    let shown = shield.protected.iter().filter(|one| is_shown(one.action));
    let shown = shown.map(|one| shown_as(one.net)).collect();
    kernel.set_shields(shown).doing(|| "show routing daemons what is protected".into())
}

/// Whether routing daemons are to see such a protection: what passes is the routes' matter.
pub(super) fn is_shown(action: Action) -> bool {
    action != Action::Bypass
}

/// As the kernel has it.
pub(super) fn shown_as(net: Net) -> Shown {
    (MAIN, config::Net { address: net.addr(), length: net.len() })
}

/// Follows addresses and Grantors, some times a second.
pub(super) fn look(guarding: &Guarding, state: &State) {
    // `main` waits for nobody who changes something: it looks again at once.
    let Ok(mut live) = guarding.live.try_lock() else { return };
    let now = Instant::now();
    if live.looked.is_some_and(|looked| now.duration_since(looked) < PAUSE) {
        return;
    }
    live.looked = Some(now);
    let asked = state.ask(|control| (control.interfaces(), control.grantors()));
    let Ok((interfaces, grantors)) = asked else { return };
    let back = interfaces.iter().filter(|info| guarding.shield.back.contains(&info.iface.name));
    let back: Vec<_> = back.flat_map(|info| info.addresses.iter().map(|(ip, _)| *ip)).collect();
    guarding.follow_addresses(&back);
    let faults = grantors.into_iter().filter_map(|of| Some((of.ip, of.ways.err()?.to_string())));
    live.note_faults(faults.collect(), now);
    live.note_too_long(too_long(state), now);
    if guarding.shield.withdraw && state.kernel.is_some() {
        live.withdraw(state, now);
    }
}

impl Guarding {
    /// What Grantors are asked from is an address that the back has.
    fn follow_addresses(&self, back: &[IpAddr]) {
        let mut told = lock(&self.told);
        let from = ends(&self.shield, &candidates(told.from, back, &self.usual));
        if told.from == from {
            return;
        }
        tracing::info!("gatekeeper: Grantors are asked from {}", addresses(&from));
        told.from = from;
        self.settings.publish(told.clone());
    }
}

fn addresses(from: &Ends) -> String {
    let all = [from.v4.map(IpAddr::V4), from.v6.map(IpAddr::V6)];
    let all: Vec<_> = all.iter().flatten().map(IpAddr::to_string).collect();
    if all.is_empty() { "no address".into() } else { all.join(", ") }
}

impl Live {
    /// Logs Grantors that cannot be reached for a while, and those that can again.
    fn note_faults(&mut self, faults: BTreeMap<IpAddr, String>, now: Instant) {
        self.faults.retain(|ip, (_, logged)| {
            let stays = faults.contains_key(ip);
            if !stays && logged.is_some() {
                tracing::info!("gatekeeper: the Grantor {ip} can be reached again");
            }
            stays
        });
        for (ip, fault) in faults {
            let (since, logged) = self.faults.entry(ip).or_insert((now, None));
            if now.duration_since(*since) >= GONE && logged.as_ref() != Some(&fault) {
                tracing::warn!("gatekeeper: the Grantor {ip} cannot be reached: {fault}");
                *logged = Some(fault);
            }
        }
    }

    /// Logs, once a minute, that packets do not fit the back.
    fn note_too_long(&mut self, count: u64, now: Instant) {
        let (known, said) = self.too_long;
        if count > known && said.is_none_or(|said| now.duration_since(said) >= MINUTE) {
            tracing::warn!(
                "gatekeeper: {} packets were longer, with the outer header, than the way to the \
                 Grantors carries: raise the mtu at the back (`rutter doctor`)",
                count - known
            );
            self.too_long = (count, Some(now));
        }
    }

    /// Takes protections out of the kernel's routes that nobody decides for, and puts them in
    /// again once somebody does.
    fn withdraw(&mut self, state: &State, now: Instant) {
        if self.faults.is_empty() && self.lost.is_empty() {
            return;
        }
        // A hundred thousand protections are listed when there is news, and now and then.
        let faults: Vec<IpAddr> = self.faults.keys().copied().collect();
        let is_new = |(known, at): &(Vec<IpAddr>, Instant)| {
            *known != faults || now.duration_since(*at) >= AGAIN
        };
        let waits = self.lost.len() > self.withdrawn.len();
        if !waits && !self.listed.as_ref().is_none_or(is_new) {
            return;
        }
        self.listed = Some((faults, now));
        let mut lost = BTreeMap::new();
        let mut cursor = None;
        loop {
            let filter = RouteFilter { vrf: Some(VRF), ..RouteFilter::default() };
            let page = state.ask(move |control| control.protections(&filter, cursor, PAGE));
            let Ok((page, next)) = page else { return };
            let nobody = page.iter().filter(|info| has_nobody(info));
            lost.extend(nobody.map(|info| (info.net, *self.lost.get(&info.net).unwrap_or(&now))));
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        self.lost = lost;
        let Some(kernel) = &state.kernel else { return };
        let mut kernel = lock(kernel);
        let gone = self.lost.iter().filter(|(_, since)| now.duration_since(**since) >= GONE);
        for net in gone.map(|(net, _)| *net) {
            if self.withdrawn.contains(&net) {
                continue;
            }
            match kernel.delete_shield(shown_as(net)) {
                Ok(()) => tracing::warn!(
                    "gatekeeper: {net} is withdrawn: no Grantor of it can be reached"
                ),
                Err(error) => tracing::warn!("gatekeeper: {net} is not withdrawn: {error}"),
            }
            self.withdrawn.insert(net);
        }
        self.withdrawn.retain(|net| {
            if self.lost.contains_key(net) {
                return true;
            }
            match kernel.add_shield(shown_as(*net)) {
                Ok(()) => tracing::info!("gatekeeper: {net} is shown again"),
                Err(error) => tracing::warn!("gatekeeper: {net} is not shown: {error}"),
            }
            false
        });
    }

    /// A protection that has gone, or is new.
    pub fn forget(&mut self, net: Net) {
        self.lost.remove(&net);
        self.withdrawn.remove(&net);
    }
}

/// None of those who decide can be reached.
fn has_nobody(info: &ProtectionInfo) -> bool {
    let real = |named: &tables::Named| !named.shadow;
    info.action == Action::Protect
        && info.options & SHADOW == 0
        && info.grantors.iter().all(|(named, of)| !real(named) || of.ways.is_err())
}

/// Packets that did not fit the way to a Grantor, whether or not their sources heard of it.
pub(super) fn too_long(state: &State) -> u64 {
    let Ok(counts) = state.snapshot() else { return 0 };
    let told = |node: &str| {
        let edges = counts.node(node).into_iter().flat_map(|node| &node.edges);
        let told = edges.filter(|edge| edge.name == "icmp_error");
        told.map(|edge| edge.packets).sum::<u64>()
    };
    ["shield", "solicit"].map(|node| counts.dropped(node, "too_long") + told(node)).iter().sum()
}

/// Between two looks at what does not fit.
const MINUTE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two listings without news.
const AGAIN: Duration = Duration::from_secs(5);
/// A Grantor that cannot be reached for so long is gone.
const GONE: Duration = Duration::from_secs(3);
/// Protections that the control thread lists at once.
pub(super) const PAGE: usize = 1024;
