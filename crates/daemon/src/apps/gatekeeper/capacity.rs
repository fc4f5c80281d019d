//! The shield's lines of `show capacity`: what it holds, and the floods that it withstands.

use std::time::Instant;

use api::Failure;
use api::apps::gatekeeper::Flows;
use api::reply::Capacity;
use lookup::exact::flow::Full;
use nodes::gatekeeper::solicitor::OVERHEAD;

use super::live::Seen;
use super::{Guarding, show};
use crate::parts::state::{State, lock};

/// All of them.
pub(super) fn lines(guarding: &Guarding, state: &State) -> Result<Vec<Capacity>, Failure> {
    let (flows, requests) = guarding.held(state)?;
    let [decided, decided_max] = flows.decided;
    let rate = rates(guarding, &flows);
    let no_page: u64 = guarding.counters.iter().map(|of| of.decisions.all.no_page.get()).sum();
    let channel = requests.bytes_per_s / SYN;
    let asked = state.ask(|control| control.grantors().len())?;
    // If a policy on this machine decides everything, the channel to Grantors is unused.
    let asked = match requests.decisions_per_s {
        Some(each) if asked == 0 => [(IS_ASKED, each, "requests")].to_vec(),
        Some(each) => [(IS_ASKED, channel, "request_percent"), (HERE, each, "requests")].to_vec(),
        None => [(IS_ASKED, channel, "request_percent")].to_vec(),
    };
    let decides = asked.iter().map(|(_, each, _)| each).sum::<u64>();
    let line = |what: &str, used, limit, refused, key: Option<&str>| Capacity {
        what: what.into(),
        used,
        limit: Some(limit),
        refused,
        last: String::new(),
        key: key.map(|key| format!("gatekeeper.{key}")),
    };
    let held = flows.held.iter().sum();
    let lost = flows.refused + flows.untried;
    let first = [
        line("flows", held, flows.limit, lost, Some("entries")),
        line("decided flows", decided, decided_max, no_page, Some("decided_max")),
        line("new flows a second", rate[0], outlasts(guarding, &flows), 0, Some("entries")),
    ];
    let asked = asked.into_iter().map(|(what, each, key)| line(what, rate[1], each, 0, Some(key)));
    let last = line(DECISIONS, decided, decides.saturating_mul(EXPIRY_S), 0, None);
    Ok(first.into_iter().chain(asked).chain([last]).collect())
}

/// New sources a second that the table can remember until each has asked again after a second
/// (study: 1.3 s), or, where no flow makes room, for a request's lifetime.
fn outlasts(guarding: &Guarding, flows: &Flows) -> u64 {
    match guarding.shield.table.full {
        Full::Replace => flows.limit * 10 / 13,
        Full::Thesis | Full::Deployed => flows.limit * 10 / 44,
    }
}

/// New flows and requests a second since the last call.
fn rates(guarding: &Guarding, flows: &Flows) -> [u64; 2] {
    let all = [flows.held, flows.replaced, flows.expired, flows.removed];
    // Flows in shadow mode use tokens, too.
    let requests = show::verdicts(&guarding.counters).iter().map(|of| of.requests).sum();
    let now = Seen { at: Instant::now(), counts: [all.iter().flatten().sum(), requests] };
    let mut live = lock(&guarding.live);
    let before = live.seen.replace(now).unwrap_or(guarding.started);
    let ms = u64::try_from(now.at.duration_since(before.at).as_millis()).unwrap_or(u64::MAX);
    let mut pairs = now.counts.into_iter().zip(before.counts);
    std::array::from_fn(|_| {
        let (now, before) = pairs.next().unwrap_or_default();
        now.saturating_sub(before).saturating_mul(1_000) / ms.max(1)
    })
}

/// The channel's cost of the shortest TCP packet in an outer IPv4 header; each patient source sends
/// one a second.
const SYN: u64 = 14 + 20 + 40 + OVERHEAD;
/// Lifetime of decisions in seconds: those of the stock policies last 300 to 600.
const EXPIRY_S: u64 = 600;
const IS_ASKED: &str = "requests a second";
const HERE: &str = "requests a second, decided here";
const DECISIONS: &str = "decisions of 600 s that the requests can bring";
