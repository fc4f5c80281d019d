//! The shield for people.

use std::fmt::Write;

use api::apps::gatekeeper::{Action, Count, Flow, Grantor, Program, Protected, Shield, Verdicts};

use crate::columns::{Table, number};

/// All of it. Counters that are 0 are in JSON.
pub(super) fn shield(shield: &Shield) -> String {
    let mut out = String::new();
    let Shield { flows, requests, .. } = shield;
    let addresses: Vec<_> = shield.from.iter().map(ToString::to_string).collect();
    let [src, dst] = shield.ports;
    let sum = |of: [u64; 3]| number(of.iter().sum());
    let here = requests.decisions_per_s.map(|each| format!(", {} decisions here", number(each)));
    let [asking, spare, kept] = flows.held.map(number);
    let lines = [
        ("front", shield.front.join(", ")),
        ("back", shield.back.join(", ")),
        ("asks from", addresses.join(", ")),
        ("decisions", format!("UDP {src} to {dst}, from {}", shield.decisions_from)),
        (
            "protected",
            format!(
                "{} prefixes, {} in shadow",
                number(shield.protections),
                number(shield.shadows)
            ),
        ),
        (
            "flows",
            format!(
                "{} of {} ({}, full: {}, {} MiB): {asking} ask, {spare} declined or never used, \
                 {kept} granted and used",
                sum(flows.held),
                number(flows.limit),
                flows.table,
                flows.full,
                number(flows.bytes >> 20),
            ),
        ),
        (
            "flows gone",
            format!(
                "{} replaced, {} expired, {} flushed; {} without a place, {} not tried",
                sum(flows.replaced),
                sum(flows.expired),
                sum(flows.removed),
                number(flows.refused),
                number(flows.untried),
            ),
        ),
        (
            "requests",
            format!(
                "{} of {} wait; {} bytes a second{}",
                number(requests.waiting),
                number(requests.room),
                number(requests.bytes_per_s),
                here.unwrap_or_default()
            ),
        ),
    ];
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<11} {value}"); // cannot fail: a String
    }
    let _ = write!(out, "\n{}", verdicts("verdict", &shield.verdicts));
    if shield.shadows > 0 || shield.shadow_verdicts != Verdicts::default() {
        let _ = write!(out, "\n{}", verdicts("would be", &shield.shadow_verdicts));
    }
    counts(&mut out, "request of a shadow", &shield.shadow_requests);
    counts(&mut out, "decision", &shield.decisions);
    counts(&mut out, "icmp error", &shield.errors);
    counts(&mut out, "drop", &shield.drops);
    let mut table = Table::new(&["grantor", "by", "fault"]);
    for one in &shield.grantors {
        table.row([one.address.to_string(), one.by.join(", "), one.fault.clone()]);
    }
    let _ = write!(out, "\n{table}");
    let mut table = Table::new(&["protection", "drop", ">count"]);
    for one in &shield.protection_drops {
        table.row([one.prefix.clone(), one.what.clone(), number(one.count)]);
    }
    if !table.is_empty() {
        let _ = write!(out, "\n{table}");
    }
    out
}

fn verdicts(title: &'static str, of: &Verdicts) -> Table {
    let mut table = Table::new(&[title, ">packets", ">bytes"]);
    for (name, packets, bytes) in [
        ("asked", of.requests, of.request_bytes),
        ("granted", of.granted, of.granted_bytes),
        ("declined", of.declined, of.declined_bytes),
        ("dropped", of.dropped, of.dropped_bytes),
    ] {
        table.row([name.into(), number(packets), number(bytes)]);
    }
    table
}

fn counts(out: &mut String, what: &'static str, all: &[Count]) {
    let mut table = Table::new(&[what, ">count"]);
    for one in all.iter().filter(|one| one.count > 0) {
        table.row([one.what.clone(), number(one.count)]);
    }
    if !table.is_empty() {
        let _ = write!(out, "\n{table}"); // cannot fail: a String
    }
}

/// The protections.
pub(super) fn protections(all: &[Protected]) -> Table {
    let mut table = Table::new(&[
        "prefix",
        "does",
        "grantors",
        ">asked",
        ">granted",
        ">declined",
        ">dropped",
        "",
    ]);
    for one in all {
        let action = one.protect.action.to_string();
        let does = if one.protect.shadow { "shadow".into() } else { action };
        let mut grantors: Vec<_> = one.protect.grantors.iter().map(grantor).collect();
        if grantors.is_empty() && one.protect.action == Action::Protect {
            grantors.push("this machine".into());
        }
        // Of a shadow: the fate that its packets would have.
        let verdicts = if one.protect.shadow { one.shadow_verdicts } else { one.verdicts };
        let Verdicts { requests, granted, declined, dropped, .. } = verdicts;
        let mut notes: Vec<String> = Vec::new();
        notes.extend((!one.in_table).then(|| "not in the forwarding table: dropped".into()));
        notes.extend(one.hides.as_ref().map(|net| format!("hides this router's network {net}")));
        let faults = one.faults.iter();
        notes.extend(faults.map(|of| format!("{}: {}", of.address, of.fault)));
        notes.extend((!one.shown).then(|| "not shown to routing daemons".into()));
        notes.extend((one.bypassed > 0).then(|| format!("{} let pass", number(one.bypassed))));
        let taken = |of: &&Count| TAKEN.contains(&of.what.as_str()) || of.count == 0;
        let refused = one.decisions.iter().filter(|of| !taken(of));
        notes.extend(refused.map(|of| format!("{} decisions {}", number(of.count), of.what)));
        let asked = one.shadow_requests.iter().filter(|of| of.count > 0);
        notes.extend(asked.map(|of| format!("{} shadow requests {}", number(of.count), of.what)));
        table.row([
            one.protect.prefix.clone(),
            does,
            grantors.join(", "),
            number(requests),
            number(granted),
            number(declined),
            number(dropped),
            notes.join("; "),
        ]);
    }
    table
}

/// The fate of decisions that are carried out.
const TAKEN: [&str; 3] = ["granted", "declined", "by_program"];

fn grantor(of: &Grantor) -> String {
    let mut text = of.address.to_string();
    if of.weight != 1 {
        let _ = write!(text, " weight {}", of.weight); // cannot fail: a String
    }
    if of.shadow {
        text.push_str(" shadow");
    }
    text
}

/// The programs that decisions may name by a number.
pub(super) fn programs(all: &[Program]) -> Table {
    let mut table =
        Table::new(&[">index", "name", "object", "runs", ">init", ">pkt", ">failed", ">refused"]);
    for one in all {
        let instructions = |at: usize| one.instructions.map_or("-".into(), |of| of[at].to_string());
        table.row([
            one.index.to_string(),
            one.name.clone(),
            one.object.clone(),
            one.engine.clone(),
            instructions(0),
            instructions(1),
            number(one.failed),
            number(one.refused),
        ]);
    }
    table
}

/// The verdicts about packets that a shadow let pass.
pub(super) fn shadows(all: &[Protected]) -> Table {
    let mut table = Table::new(&[
        "prefix",
        ">would ask",
        ">would pass",
        ">would decline",
        ">would drop",
        "asks",
    ]);
    for one in all {
        let Verdicts { requests, granted, declined, dropped, .. } = one.shadow_verdicts;
        let asks = one.protect.grantors.iter().filter(|of| of.shadow);
        let asks: Vec<_> = asks.map(|of| of.address.to_string()).collect();
        let asks = if asks.is_empty() { "nobody".into() } else { asks.join(", ") };
        table.row([
            one.protect.prefix.clone(),
            number(requests),
            number(granted),
            number(declined),
            number(dropped),
            asks,
        ]);
    }
    table
}

/// The flows.
pub(super) fn flows(all: &[Flow]) -> Table {
    let mut table =
        Table::new(&["from", "to", "state", ">left", "what", "protection", "grantor", ">worker"]);
    for flow in all {
        table.row([
            flow.from.to_string(),
            flow.to.to_string(),
            flow.state.to_string(),
            left(flow.left_ms),
            known(flow),
            flow.protection.clone().unwrap_or_else(|| "-".into()),
            flow.grantor.map_or_else(|| "-".into(), |ip| ip.to_string()),
            flow.worker.to_string(),
        ]);
    }
    table
}

fn left(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn known(flow: &Flow) -> String {
    let mut words = Vec::new();
    words.extend(flow.priority.map(|of| format!("priority {of}")));
    words.extend(flow.allowance.map(|of| format!("allowance {of}")));
    words.extend(flow.rate_kib.map(|of| format!("{} KiB/s", number(of.into()))));
    words.extend(flow.budget.map(|of| format!("{} bytes left", number(of))));
    words.extend(flow.program.map(|of| format!("program {of}")));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::apps::gatekeeper::State;

    #[test]
    fn flows_read_as_they_are() {
        let flow = Flow {
            from: "192.0.2.1".parse().unwrap(),
            to: "203.0.113.5".parse().unwrap(),
            state: State::Granted,
            protection: Some("203.0.113.0/24".into()),
            grantor: Some("198.51.100.9".parse().unwrap()),
            left_ms: 12_345,
            priority: None,
            allowance: None,
            seen_ms: None,
            rate_kib: Some(1024),
            budget: Some(1_000_000),
            program: None,
            worker: 1,
        };
        let shown = flows(std::slice::from_ref(&flow)).to_string();
        let line = shown.lines().nth(1).unwrap();
        let wanted = "192.0.2.1  203.0.113.5  granted  12.3 s  1,024 KiB/s, 1,000,000 bytes left  \
                      203.0.113.0/24  198.51.100.9       1";
        assert_eq!(line, wanted);
        let request = Flow {
            state: State::Request,
            priority: Some(38),
            allowance: Some(6),
            rate_kib: None,
            budget: None,
            ..flow
        };
        assert_eq!(known(&request), "priority 38, allowance 6");
    }

    #[test]
    fn drops_by_protection_come_last() {
        let mut of = Shield::default();
        assert!(!shield(&of).contains("protection"));
        let (prefix, what) = ("203.0.113.0/24".into(), "shield.declined".into());
        of.protection_drops.push(api::apps::gatekeeper::Dropped { prefix, what, count: 1_234 });
        let text = shield(&of);
        let lines: Vec<_> = text.lines().rev().take(2).collect();
        assert!(lines[1].starts_with("protection"), "{text}");
        let words: Vec<_> = lines[0].split_whitespace().collect();
        assert_eq!(words, ["203.0.113.0/24", "shield.declined", "1,234"]);
    }

    #[test]
    fn what_is_not_so_is_said_of_a_protection() {
        let text = |one: &Protected| protections(std::slice::from_ref(one)).to_string();
        let protect = super::super::words::protect(
            "203.0.113.0/24".into(),
            &["via", "198.51.100.9", "weight", "2"].map(String::from),
            true,
        );
        let mut one = Protected {
            protect: protect.unwrap(),
            faults: Vec::new(),
            shown: true,
            in_table: true,
            hides: None,
            verdicts: Verdicts::default(),
            shadow_verdicts: Verdicts { requests: 1_234, ..Verdicts::default() },
            shadow_requests: Vec::new(),
            decisions: Vec::new(),
            drops: Vec::new(),
            bypassed: 0,
            bypassed_bytes: 0,
        };
        let plain = text(&one);
        assert!(!plain.contains("let pass"));
        assert!(plain.contains("shadow  198.51.100.9 weight 2"), "{plain}");
        one.shown = false;
        assert!(text(&one).contains("not shown to routing daemons"));
        (one.shown, one.bypassed) = (true, 5_678);
        assert!(text(&one).contains("5,678 let pass"));
        let count = |what: &str, count| Count { what: what.into(), count };
        one.decisions = vec![count("granted", 7), count("no_page", 0), count("no_place", 2)];
        let refused = text(&one);
        assert!(refused.contains("2 decisions no_place") && !refused.contains("granted,"));
        assert!(!refused.contains("no_page") && refused.contains("1,234"));
        one.shadow_requests = vec![count("passed", 56), count("dropped", 0)];
        let asked = text(&one);
        assert!(asked.contains("56 shadow requests passed") && !asked.contains("requests dropped"));
        one.protect.shadow = false;
        assert!(!text(&one).contains("1,234"), "it was not a shadow");
        let shown = shadows(&[one]).to_string();
        assert!(shown.contains("nobody") && shown.contains("1,234"), "{shown}");
    }
}
