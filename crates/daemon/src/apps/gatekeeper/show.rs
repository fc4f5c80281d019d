//! Between the API's words and those of tables and nodes.

use std::net::IpAddr;
use std::sync::Arc;

use api::apps::gatekeeper as shown;
use nodes::gatekeeper::listing::{Known, Row, State};
use nodes::gatekeeper::settings::{Counters, DecisionsFrom, SHADOW, Verdicts};
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
        Known::Granted { rate_kib, left } => {
            (flow.rate_kib, flow.budget) = (Some(rate_kib), Some(left));
        }
        Known::Declined => {}
        Known::Program(number) => flow.program = Some(number),
    }
    flow
}

fn state(state: State) -> shown::State {
    match state {
        State::Request => shown::State::Request,
        State::Granted => shown::State::Granted,
        State::Declined => shown::State::Declined,
        State::Program => shown::State::Program,
    }
}

/// As nodes have it.
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

/// What all workers have counted for one protection; for all, where there is no number.
pub(super) fn verdicts(workers: &[Arc<Counters>], of: Option<SetId>) -> shown::Verdicts {
    let mut sum = shown::Verdicts::default();
    for counters in workers {
        let Some(one) = of.map_or(Some(&counters.all), |set| counters.of(set)) else { continue };
        for (sum, counter) in fields(&mut sum).into_iter().zip(counted(one)) {
            *sum += counter;
        }
    }
    sum
}

/// What was counted since.
pub(super) fn since(mut now: shown::Verdicts, mut before: shown::Verdicts) -> shown::Verdicts {
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
    let mut all: Vec<shown::Count> = Vec::new();
    for counters in workers {
        let of = &counters.decisions;
        let fates = [
            ("granted", &of.granted),
            ("declined", &of.declined),
            ("by_program", &of.by_program),
            ("unprotected", &of.unprotected),
            ("not_its_grantor", &of.not_its_grantor),
            ("unknown_program", &of.unknown_program),
            ("bad_parameters", &of.bad_parameters),
            ("ring_full", &of.ring_full),
            ("stale", &of.stale),
            ("no_place", &of.no_place),
            ("no_page", &of.no_page),
        ];
        let refused = Refusal::ALL.iter().zip(&of.refused).map(|(why, count)| (why.name(), count));
        for (at, (what, count)) in fates.into_iter().chain(refused).enumerate() {
            match all.get_mut(at) {
                Some(sum) => sum.count += count.get(),
                None => all.push(shown::Count { what: what.into(), count: count.get() }),
            }
        }
    }
    all
}
