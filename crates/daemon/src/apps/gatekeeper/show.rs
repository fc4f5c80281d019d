//! Between the API's words and those of tables and nodes.

use std::net::IpAddr;
use std::sync::Arc;

use api::apps::gatekeeper as shown;
use graph::{Counter, Label};
use nodes::gatekeeper::icmp_error::IcmpError;
use nodes::gatekeeper::listing::{Known, Row, State};
use nodes::gatekeeper::rule::Budget;
use nodes::gatekeeper::settings::{
    Counters, DecisionsFrom, Drops, Fates, SHADOW, SHIELD_DROPS, SOLICIT_DROPS, Verdicts,
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
    verdicts: [shown::Verdicts; 2],
    decided: [u64; FATES.len()],
    drops: [u64; DROPS],
    bypassed: [u64; 2],
}

impl Counted {
    /// All workers' for a protection.
    pub fn of(workers: &[Arc<Counters>], set: SetId) -> Counted {
        let mut decided = [0; FATES.len()];
        for of in workers.iter().filter_map(|counters| counters.decided(set)) {
            decided.iter_mut().zip(fates(of)).for_each(|(sum, counter)| *sum += counter.get());
        }
        let verdicts = [
            sum(workers.iter().filter_map(|counters| counters.of(set))),
            sum(workers.iter().filter_map(|counters| counters.shadow_of(set))),
        ];
        let (mut drops, mut bypassed) = ([0; DROPS], [0; 2]);
        for of in workers.iter().filter_map(|counters| counters.drops(set)) {
            drops.iter_mut().zip(dropped(of)).for_each(|(sum, counter)| *sum += counter.get());
            let passed = [&of.bypassed, &of.bypassed_bytes];
            bypassed.iter_mut().zip(passed).for_each(|(sum, counter)| *sum += counter.get());
        }
        Counted { verdicts, decided, drops, bypassed }
    }

    /// Packets and bytes that a bypass has let pass since then.
    pub fn bypassed_since(&self, before: &Counted) -> [u64; 2] {
        [0, 1].map(|at| self.bypassed[at].saturating_sub(before.bypassed[at]))
    }

    /// Drops since then, by node and reason; and what was reported.
    pub fn dropped_since(
        &self,
        before: &Counted,
    ) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let counts = self.drops.into_iter().zip(before.drops);
        let counts = counts.map(|(now, then)| now.saturating_sub(then));
        let reasons =
            [(SHIELD, shield::Why::NAMES), (SOLICIT, solicit::Why::NAMES), (ERRORS, REPORTED)];
        let names =
            reasons.into_iter().flat_map(|(node, all)| all.iter().map(move |of| (node, of)));
        names.zip(counts).map(|((node, why), count)| (node, *why, count))
    }

    /// What was counted since: of a protection, of it as a shadow, and decisions by what
    /// became of them.
    pub fn since(self, before: Counted) -> ([shown::Verdicts; 2], Vec<shown::Count>) {
        let [now, then] = [self.verdicts, before.verdicts];
        let decided = self.decided.iter().zip(before.decided);
        let decided = decided.map(|(now, then)| now.saturating_sub(then));
        let count = |(what, count): (&&str, u64)| shown::Count { what: (*what).into(), count };
        let decided = FATES.iter().zip(decided).map(count).collect();
        ([since(now[0], then[0]), since(now[1], then[1])], decided)
    }
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
        let [options, stale] = [("options", &of.options), ("stale", &of.stale)];
        let [unprotected, too_many] =
            [("unprotected", &of.unprotected), ("too_many", &of.too_many)];
        let others = [unprotected, stale, options, too_many];
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
    counts(workers, |of| {
        let of = &of.shadows;
        vec![("passed", &of.passed), ("dropped", &of.dropped), ("no_copy", &of.no_copy)]
    })
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
const FATES: [&str; 9] = [
    "granted",
    "declined",
    "by_program",
    "not_its_grantor",
    "unknown_program",
    "bad_parameters",
    "ring_full",
    "no_place",
    "no_page",
];

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
    ]
}
