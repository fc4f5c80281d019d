//! Between the API's words and those of tables and nodes.

use std::net::IpAddr;
use std::sync::Arc;

use api::apps::gatekeeper as shown;
use graph::{Counter, Label};
use nodes::gatekeeper::icmp_error::IcmpError;
use nodes::gatekeeper::listing::{Known, Row, State};
use nodes::gatekeeper::rule::Budget;
use nodes::gatekeeper::settings::{
    Counters, DecisionsFrom, Drops, Fates, SHADOW, SHIELD_DROPS, SOLICIT_DROPS, Shadows, Verdicts,
};
use nodes::gatekeeper::{shield, solicit};
use tables::show::{GrantorInfo, ProtectionInfo};
use tables::{Action, Named, Net, SetId};
use wire::ggu::Refusal;

use super::protect::Asked;
use crate::parts::state::Names;

/// A protection that is asked for; an error where its prefix is none.
pub(super) fn asked(protect: &shown::Protect) -> Result<Asked, String> {
    let net = net(&protect.prefix)?;
    let action = match protect.action {
        shown::Action::Protect => Action::Protect,
        shown::Action::Bypass => Action::Bypass,
        shown::Action::Drop => Action::Discard,
    };
    let grantors = protect.grantors.iter();
    let named =
        |of: &shown::Grantor| Named { ip: of.address, weight: of.weight, shadow: of.shadow };
    Ok(Asked { net, action, shadow: protect.shadow, grantors: grantors.map(named).collect() })
}

/// A prefix, without bits right of its length.
pub(super) fn net(text: &str) -> Result<Net, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

/// A protection that is in.
pub(super) fn protect(info: &ProtectionInfo) -> shown::Protect {
    let grantors = info.grantors.iter();
    shown::Protect {
        prefix: info.net.to_string(),
        action: match info.action {
            Action::Protect => shown::Action::Protect,
            Action::Bypass => shown::Action::Bypass,
            Action::Discard => shown::Action::Drop,
        },
        grantors: grantors
            .map(|(named, _)| shown::Grantor {
                address: named.ip,
                weight: named.weight,
                shadow: named.shadow,
            })
            .collect(),
        shadow: info.options & SHADOW != 0,
    }
}

pub(super) fn grantor(info: &GrantorInfo, names: &Names) -> shown::GrantorState {
    let (by, fault) = match &info.ways {
        Ok(ways) => {
            let names = ways.iter().filter_map(|(iface, _)| names.interface(iface.0));
            let mut by: Vec<_> = names.map(str::to_string).collect();
            by.dedup();
            (by, String::new())
        }
        Err(fault) => (Vec::new(), fault.to_string()),
    };
    shown::GrantorState { address: info.ip, by, fault }
}

/// A flow of worker number `worker`.
pub(super) fn flow(
    row: &Row,
    worker: usize,
    protection: Option<String>,
    grantor: Option<IpAddr>,
) -> shown::Flow {
    let [from, to] = nodes::gatekeeper::listing::ends(&row.key);
    let mut flow = shown::Flow {
        from,
        to,
        state: state(row.known.state()),
        protection,
        grantor,
        left_ms: row.left_ms,
        priority: None,
        allowance: None,
        seen_ms: None,
        rate_kib: None,
        budget: None,
        program: None,
        worker: worker as u16,
    };
    match row.known {
        Known::Request { priority, allowance, seen_ms } => {
            flow.priority = Some(priority);
            flow.allowance = Some(allowance);
            flow.seen_ms = Some(seen_ms);
        }
        Known::Granted(budget) => show_budget(&mut flow, budget),
        Known::Declined => {}
        Known::Program { number, budget } => {
            flow.program = Some(number);
            budget.into_iter().for_each(|budget| show_budget(&mut flow, budget));
        }
    }
    flow
}

fn show_budget(flow: &mut shown::Flow, budget: Budget) {
    (flow.rate_kib, flow.budget) = (Some(budget.rate_kib), Some(budget.left));
}

fn state(state: State) -> shown::State {
    match state {
        State::Request => shown::State::Request,
        State::Granted => shown::State::Granted,
        State::Declined => shown::State::Declined,
        State::Program => shown::State::Program,
    }
}

/// The form that nodes have.
pub(super) fn wanted_state(state: shown::State) -> State {
    match state {
        shown::State::Request => State::Request,
        shown::State::Granted => State::Granted,
        shown::State::Declined => State::Declined,
        shown::State::Program => State::Program,
    }
}

pub(super) fn decisions_from(from: DecisionsFrom) -> &'static str {
    match from {
        DecisionsFrom::ItsGrantors => "its_grantors",
        DecisionsFrom::Grantors => "grantors",
        DecisionsFrom::Anybody => "anybody",
    }
}

/// The workers' counters for one protection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Of the protection, and of it as a shadow.
    pub verdicts: [shown::Verdicts; 2],
    /// Packets and bytes that a bypass has let pass.
    pub bypassed: [u64; 2],
    decided: [u64; FATES.len()],
    drops: [u64; DROPS],
    shadows: [u64; SHADOWS.len()],
}

impl Counted {
    /// All workers' for a protection.
    pub fn of(workers: &[Arc<Counters>], set: SetId) -> Counted {
        let mut all = Counted {
            verdicts: [
                sum(workers.iter().filter_map(|counters| counters.of(set))),
                sum(workers.iter().filter_map(|counters| counters.shadow_of(set))),
            ],
            ..Counted::default()
        };
        for of in workers.iter().filter_map(|counters| counters.decided(set)) {
            add(&mut all.decided, fates(of));
        }
        for of in workers.iter().filter_map(|counters| counters.drops(set)) {
            add(&mut all.drops, dropped(of));
            add(&mut all.bypassed, [&of.bypassed, &of.bypassed_bytes]);
            add(&mut all.shadows, shadows(&of.shadows));
        }
        all
    }

    /// What was counted since.
    pub fn since(mut self, before: &Counted) -> Counted {
        for (now, before) in self.verdicts.iter_mut().zip(before.verdicts) {
            *now = since(*now, before);
        }
        less(&mut self.bypassed, &before.bypassed);
        less(&mut self.decided, &before.decided);
        less(&mut self.drops, &before.drops);
        less(&mut self.shadows, &before.shadows);
        self
    }

    /// Drops, by node and reason; and what was reported.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let ours = &shield::Why::NAMES[..SHIELD_DROPS];
        let reasons = [(SHIELD, ours), (SOLICIT, solicit::Why::NAMES), (ERRORS, REPORTED)];
        let names =
            reasons.into_iter().flat_map(|(node, all)| all.iter().map(move |of| (node, of)));
        names.zip(self.drops).map(|((node, why), count)| (node, *why, count))
    }

    /// Decisions by what became of them.
    pub fn decisions(&self) -> Vec<shown::Count> {
        named(FATES.into_iter().zip(self.decided))
    }

    /// Requests of it as a shadow by what the channel did.
    pub fn shadow_requests(&self) -> Vec<shown::Count> {
        named(SHADOWS.into_iter().zip(self.shadows))
    }
}

fn add<'c>(sums: &mut [u64], counters: impl IntoIterator<Item = &'c Counter>) {
    sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.get());
}

fn less(now: &mut [u64], before: &[u64]) {
    now.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(*before));
}

fn named(all: impl Iterator<Item = (&'static str, u64)>) -> Vec<shown::Count> {
    all.map(|(what, count)| shown::Count { what: what.into(), count }).collect()
}

/// What all workers have counted: of what is no shadow, and of shadows.
pub(super) fn verdicts(workers: &[Arc<Counters>]) -> [shown::Verdicts; 2] {
    [
        sum(workers.iter().map(|counters| &counters.all)),
        sum(workers.iter().map(|counters| &counters.shadow)),
    ]
}

fn sum<'c>(all: impl Iterator<Item = &'c Verdicts>) -> shown::Verdicts {
    let mut sum = shown::Verdicts::default();
    for one in all {
        for (sum, counter) in fields(&mut sum).into_iter().zip(counted(one)) {
            *sum += counter;
        }
    }
    sum
}

/// The counts since then.
fn since(mut now: shown::Verdicts, mut before: shown::Verdicts) -> shown::Verdicts {
    for (now, before) in fields(&mut now).into_iter().zip(fields(&mut before)) {
        *now = now.saturating_sub(*before);
    }
    now
}

fn fields(of: &mut shown::Verdicts) -> [&mut u64; 8] {
    let shown::Verdicts { requests, request_bytes, granted, granted_bytes, .. } = of;
    let shown::Verdicts { declined, declined_bytes, dropped, dropped_bytes, .. } = of;
    [
        requests,
        request_bytes,
        granted,
        granted_bytes,
        declined,
        declined_bytes,
        dropped,
        dropped_bytes,
    ]
}

fn counted(of: &Verdicts) -> [u64; 8] {
    let all = [
        &of.requests,
        &of.request_bytes,
        &of.granted,
        &of.granted_bytes,
        &of.declined,
        &of.declined_bytes,
        &of.dropped,
        &of.dropped_bytes,
    ];
    all.map(|counter| counter.get())
}

/// Decisions by what became of them: all, also those that never were.
pub(super) fn decisions(workers: &[Arc<Counters>]) -> Vec<shown::Count> {
    counts(workers, |of| {
        let of = &of.decisions;
        let fates = FATES.iter().copied().zip(fates(&of.all));
        let others = [("unprotected", &of.unprotected), ("options", &of.options)];
        let refused = Refusal::ALL.iter().zip(&of.refused).map(|(why, count)| (why.name(), count));
        fates.chain(others).chain(refused).collect()
    })
}

/// ICMP errors by what they are about.
pub(super) fn errors(workers: &[Arc<Counters>]) -> Vec<shown::Count> {
    counts(workers, |of| {
        let of = &of.errors;
        let [long, expired] = [("too_long", &of.too_long), ("ttl_exceeded", &of.ttl_exceeded)];
        let beyond = ("too_long_beyond", &of.too_long_beyond);
        vec![long, expired, ("unreachable", &of.unreachable), beyond]
    })
}

/// Requests of shadows by what the channel did.
pub(super) fn shadow_requests(workers: &[Arc<Counters>]) -> Vec<shown::Count> {
    counts(workers, |of| SHADOWS.into_iter().zip(shadows(&of.shadows)).collect())
}

/// Added up over the workers, each of which has the same ones.
fn counts(
    workers: &[Arc<Counters>],
    of: impl Fn(&Counters) -> Vec<(&'static str, &Counter)>,
) -> Vec<shown::Count> {
    let mut all: Vec<shown::Count> = Vec::new();
    for counters in workers {
        for (at, (what, count)) in of(counters).into_iter().enumerate() {
            match all.get_mut(at) {
                Some(sum) => sum.count += count.get(),
                None => all.push(shown::Count { what: what.into(), count: count.get() }),
            }
        }
    }
    all
}

/// The outcomes of decisions for a protection, by name.
const FATES: [&str; 11] = [
    "granted",
    "declined",
    "by_program",
    "not_its_grantor",
    "unknown_program",
    "bad_parameters",
    "ring_full",
    "no_place",
    "no_page",
    "stale",
    "too_many",
];

/// What the channel did with requests of shadows, by name.
const SHADOWS: [&str; 3] = ["passed", "dropped", "no_copy"];

/// Drops of one protection.
const DROPS: usize = SHIELD_DROPS + SOLICIT_DROPS + 1;
const SHIELD: &str = <shield::Shield as graph::Node>::NAME;
const SOLICIT: &str = <solicit::Solicit as graph::Node>::NAME;
const ERRORS: &str = <IcmpError as graph::Node>::NAME;
/// Not a drop: the source hears of it.
const REPORTED: &[&str] = &["reported"];

/// In the order of the nodes' reasons.
fn dropped(of: &Drops) -> impl Iterator<Item = &Counter> {
    of.shield.iter().chain(&of.solicit).chain([&of.reported])
}

/// In the order of their names.
fn fates(of: &Fates) -> [&Counter; FATES.len()] {
    [
        &of.granted,
        &of.declined,
        &of.by_program,
        &of.not_its_grantor,
        &of.unknown_program,
        &of.bad_parameters,
        &of.ring_full,
        &of.no_place,
        &of.no_page,
        &of.stale,
        &of.too_many,
    ]
}

/// In the order of their names.
fn shadows(of: &Shadows) -> [&Counter; SHADOWS.len()] {
    [&of.passed, &of.dropped, &of.no_copy]
}
