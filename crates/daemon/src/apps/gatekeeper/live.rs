//! What changes while packets flow: what is protected and what the kernel shows of it, the way
//! to Grantors, this machine's addresses at the back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nodes::gatekeeper::settings::{Ends, SHADOW};
use tables::show::{ProtectionInfo, RouteFilter};
use tables::{Action, Control, LOCAL, Net, Side, VrfId};

use super::read::Shield;
use super::show::Counted;
use super::{Guarding, candidates, ends};
use crate::config;
use crate::error::{Doing, Error};
use crate::kernel::shields::Shield as Shown;
use crate::parts::kernel_side::KernelSide;
use crate::parts::offline::MAIN;
use crate::parts::state::{State, lock};

/// The state of a running shield.
#[derive(Default)]
pub(super) struct Live {
    /// By the index of a protection that came later: what another had counted there.
    pub before: HashMap<u32, Counted>,
    /// Protected prefixes that routing daemons do not see: none of their Grantors can be
    /// reached.
    pub withdrawn: BTreeSet<Net>,
    /// Those, and what may follow; since when.
    lost: BTreeMap<Net, Instant>,
    /// Of those, so many that the kernel did not let go: they are tried again with the next listing.
    stuck: usize,
    /// The Grantors that could not be reached when protections were listed last, and the time of that.
    listed: Option<(Vec<IpAddr>, Instant)>,
    /// Grantors that cannot be reached: since when, and why if that was logged.
    faults: BTreeMap<IpAddr, (Instant, Option<String>)>,
    /// Protected prefixes that the kernel did not take.
    pub unshown: BTreeSet<Net>,
    /// When the kernel's rules and routes were looked after.
    renewed: [Option<Instant>; 2],
    /// Rules and routes that somebody else has deleted, and that were put back.
    pub put_back: usize,
    /// Why the last of that failed.
    pub not_put_back: Option<String>,
    /// The back had an address: by family.
    had: [bool; 2],
    looked: Option<Instant>,
    /// Packets that were too long so far ([`too_long`]), and when that was logged.
    too_long: [(u64, Option<Instant>); 2],
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
            "gatekeeper: interfaces on ports of the front are front, too: {}",
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
    for (had, is_v6) in live.had.iter_mut().zip([false, true]) {
        *had |= back.iter().any(|ip| ip.is_ipv6() == is_v6);
    }
    guarding.follow_addresses(&back, live.had);
    let listed: BTreeSet<_> = grantors.iter().map(|of| of.ip).collect();
    let faults = grantors.into_iter().filter_map(|of| Some((of.ip, of.ways.err()?.to_string())));
    live.note_faults(faults.collect(), &listed, now);
    live.note_too_long(too_long(guarding, state), now);
    if guarding.shield.withdraw && state.kernel.is_some() {
        live.withdraw(state, now);
    }
    live.renew(state, now);
}

impl Guarding {
    /// What Grantors are asked from is an address that the back has.
    fn follow_addresses(&self, back: &[IpAddr], had: [bool; 2]) {
        let mut told = lock(&self.told);
        let from = ends(&self.shield, &candidates(told.from, back, &self.usual, had));
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
    fn note_faults(
        &mut self,
        faults: BTreeMap<IpAddr, String>,
        listed: &BTreeSet<IpAddr>,
        now: Instant,
    ) {
        self.faults.retain(|ip, (_, logged)| {
            let stays = faults.contains_key(ip);
            if !stays && logged.is_some() && listed.contains(ip) {
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

    /// Logs, once a minute, that packets do not fit the back, or the way behind it.
    fn note_too_long(&mut self, counts: [u64; 2], now: Instant) {
        let both = self.too_long.iter_mut().zip(counts).zip(TOO_LONG);
        for ((state, count), what) in both {
            let (known, said) = *state;
            if count > known && said.is_none_or(|said| now.duration_since(said) >= MINUTE) {
                let new = count - known;
                tracing::warn!("gatekeeper: {new} packets with their outer header {what}");
                *state = (count, Some(now));
            }
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
        let waits = self.lost.len() > self.withdrawn.len() + self.stuck;
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
        let is_gone = |since: &Instant| now.duration_since(*since) >= GONE;
        let gone =
            self.lost.iter().filter(|(net, since)| is_gone(since) && !self.withdrawn.contains(net));
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for net in gone.map(|(net, _)| *net) {
            match kernel.delete_shield(shown_as(net)) {
                Ok(()) => done.push(net),
                Err(error) => failed.push((net, error)),
            }
        }
        if let Some(text) = several(&done) {
            tracing::warn!("gatekeeper: {text} withdrawn: no Grantor can be reached");
        }
        if let Some((net, error)) = failed.first() {
            let count = failed.len();
            tracing::warn!(
                "gatekeeper: {count} protections not withdrawn, the first {net}: {error}"
            );
        }
        self.withdrawn.extend(&done);
        self.unshown.retain(|net| !done.contains(net));
        self.stuck = failed.len();
        let again = self.withdrawn.iter().filter(|net| !self.lost.contains_key(net));
        let again: Vec<Net> = again.copied().collect();
        for net in &again {
            self.withdrawn.remove(net);
            if let Err(error) = kernel.add_shield(shown_as(*net)) {
                self.unshown.insert(*net);
                self.not_put_back = Some(format!("{net}: {error}"));
            }
        }
        let shown = again.into_iter().filter(|net| !self.unshown.contains(net));
        if let Some(text) = several(&shown.collect::<Vec<_>>()) {
            tracing::info!("gatekeeper: {text} announced again");
        }
    }

    /// Puts back what somebody else has deleted in the kernel (systemd-networkd does), and
    /// what the kernel had refused.
    fn renew(&mut self, state: &State, now: Instant) {
        let Some(kernel) = &state.kernel else { return };
        let [rules, routes] = self.renewed;
        let is_due =
            |at: Option<Instant>, pause| at.is_none_or(|at| now.duration_since(at) >= pause);
        if !is_due(rules, AGAIN) {
            return;
        }
        self.renewed[0] = Some(now);
        let mut kernel = lock(kernel);
        let fronts = kernel.renew_fronts();
        if let Some(fronts) = fronts.as_ref().ok().filter(|fronts| !fronts.is_empty()) {
            self.put_back += fronts.len();
            tracing::warn!(
                "gatekeeper: rules that keep the kernel from forwarding from {} were deleted: they \
                 are restored",
                fronts.join(", ")
            );
        }
        let mut failed = fronts.err().map(|error| format!("rules of the front: {error}"));
        if !is_due(routes, MINUTE) && self.unshown.is_empty() && self.not_put_back.is_none() {
            self.note_not_put_back(failed);
            return;
        }
        self.renewed[1] = Some(now);
        match kernel.show_again() {
            Ok(count) => {
                let others = count.saturating_sub(self.unshown.len());
                self.unshown.clear();
                self.put_back += others;
                if others > 0 {
                    tracing::warn!(
                        "gatekeeper: {others} routes that announce protections were deleted: \
                         they are restored"
                    );
                }
            }
            Err(error) => failed = failed.or(Some(format!("routes of protections: {error}"))),
        }
        self.note_not_put_back(failed);
    }

    /// Logs a failure once.
    fn note_not_put_back(&mut self, failed: Option<String>) {
        if let Some(text) = failed.as_ref().filter(|_| failed != self.not_put_back) {
            tracing::warn!("gatekeeper: {text}");
        }
        self.not_put_back = failed;
    }

    /// Whether routing daemons do not see a protected prefix that they are to see.
    pub fn is_hidden(&self, net: Net) -> bool {
        self.withdrawn.contains(&net) || self.unshown.contains(&net)
    }

    /// A protection that has gone, or is new.
    pub fn forget(&mut self, net: Net) {
        self.stuck = 0;
        self.lost.remove(&net);
        self.withdrawn.remove(&net);
        self.unshown.remove(&net);
    }
}

/// Some prefixes as the beginning of a sentence.
fn several(nets: &[Net]) -> Option<String> {
    match nets {
        [] => None,
        [net] => Some(format!("{net} is")),
        [first, ..] => Some(format!("{} protections, the first {first}, are", nets.len())),
    }
}

/// No Grantor of the protection can be reached.
fn has_nobody(info: &ProtectionInfo) -> bool {
    let real = |named: &tables::Named| !named.shadow;
    info.action == Action::Protect
        && info.options & (SHADOW | LOCAL) == 0
        && info.grantors.iter().all(|(named, of)| !real(named) || of.ways.is_err())
}

/// Packets that did not fit the way to a Grantor: here, whether or not their sources heard of it;
/// and those that routers behind the back have reported, of which no source has heard.
pub(super) fn too_long(guarding: &Guarding, state: &State) -> [u64; 2] {
    let beyond = guarding.counters.iter().map(|of| of.errors.too_long_beyond.get()).sum();
    let Ok(counts) = state.snapshot() else { return [0, beyond] };
    let told = |node: &str| {
        let edges = counts.node(node).into_iter().flat_map(|node| &node.edges);
        let told = edges.filter(|edge| edge.name == "icmp_error");
        told.map(|edge| edge.packets).sum::<u64>()
    };
    let here = ["shield", "solicit"].map(|node| counts.dropped(node, "too_long") + told(node));
    [here.iter().sum(), beyond]
}

/// What is logged of each of these.
const TOO_LONG: [&str; 2] = [
    "exceeded the MTU of the path to the Grantors: raise the mtu at the back (`rutter doctor`)",
    "were too long for a router behind the back: raise the MTU on the whole way to the Grantors",
];

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
