//! `gatekeeper/goodput`: what clients get through a worker while a flood meets it.
//!
//! ```text
//!  alone      a flood of new sources, as much as the worker takes
//!  quiet      three TCP connections at 80 % of grants of 1, 10, 100 Mbit/s, and UDP at 90 % of one
//!             of 10, without a flood
//!  capacity   the same, and as much of a flood as the worker takes beside them
//!  flood      the same while new sources come at 80 % of the capacity
//!  clients    and 200 new clients connect
//!  declined   the same as `flood`, but its flows are declined ones
//! ```
//!
//! Clients and server are the kernel's TCP and UDP in namespaces; a stand-in grants
//! (`goodput::net`). The flood shares the places of a receive queue with clients' frames
//! (`goodput::queue`), is paced by the clock, and made by the worker, which pays for it: the
//! node `receive` says how much.

mod marks;
mod net;
mod phases;
mod queue;
mod traffic;

use crate::record::short;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Goodput;

impl Experiment for Goodput {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells(["all"], |context, _| phases::measure(context))?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/goodput",
    takes: Takes { full_s: 75.0, quick_s: 20.0 },
    help: "what TCP and UDP of granted clients, and new clients, get under a flood of new sources",
    source: "issue on Gatekeeper",
    claim: "flood at 80 % of the capacity: UDP loses ≤ 0.5 %, TCP keeps ≥ 95 %, new clients are \
            granted within 1.5 s (median) and 3.5 s (95 %); a declined flood changes ≤ 2 %",
    plots: &[Plot {
        title: "TCP through a flood",
        figure: "goodput_mbps",
        unit: "Mbit/s of payload",
        x: "grant_mbps",
        series: "phase",
        panels: &[],
        style: Style::Bars,
    }],
};

const NOTES: [&str; 4] = [
    "one worker on a core of its own; clients, server and stand-in share the other",
    "the stand-in grants clients and leaves the flood's requests unanswered; the flood's frames \
     are made by the worker, whose capacity is with that",
    "elapsed time; seconds in which the machine took more than 1 ms of the worker's core are left \
     out, whatever came of them: taken_percent and slices_left_out are of the worker's core",
    "places: flows that the table may hold; it has 2^26, or as many as there is memory for",
];

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let find = |labels: &[(&str, &str)], name: &str| {
        rows.iter().find(|row| row.is(labels)).and_then(|row| row.median(name))
    };
    let mut verdicts = Vec::new();
    let judge = |claim: &str, measured: Option<f64>, (least, most): (f64, f64), unit: &str| {
        match measured {
            Some(measured) => Verdict::between(claim, measured, (least, most), unit),
            None => Verdict::open(claim, "not measured here"),
        }
    };
    for (phase, claim) in [
        ("alone", "the worker takes, of new sources alone"),
        ("capacity", "its capacity: the same beside clients"),
    ] {
        let of = |name| find(&[("phase", phase)], name);
        let (Some(rate), Some(made)) = (of("rate_mpps"), of("generator_percent")) else { continue };
        let text = format!("{} M/s; {} % of its time to make them", short(rate), short(made));
        verdicts.push(Verdict::beside(claim, text));
    }
    let share = find(&[("phase", "flood"), ("kind", "flood")], "capacity_percent");
    verdicts.push(judge("the flood came at 75 to 85 % of it", share, (75.0, 85.0), "%"));
    if let Some(filled) = find(&[("phase", "flood"), ("kind", "flood")], "filled_percent") {
        let claim = "the flood had filled the table";
        verdicts.push(Verdict::beside(claim, format!("to {} % of its flows", short(filled))));
    }
    let lost = |phase| find(&[("phase", phase), ("kind", "udp")], "lost_percent");
    verdicts.push(judge(
        "UDP at 90 % of its grant loses 0 to 0.5 %",
        lost("flood"),
        (0.0, 0.5),
        "%",
    ));
    for grant in ["1", "10", "100"] {
        let of = |phase| {
            let labels = [("phase", phase), ("kind", "tcp"), ("grant_mbps", grant)];
            find(&labels, "goodput_mbps")
        };
        let kept = |phase, of_phase| Some(of(phase)? / of(of_phase)? * 100.0);
        let claim = format!("TCP at 80 % of {grant} Mbit/s keeps 95 to 105 %");
        verdicts.push(judge(&claim, kept("flood", "quiet"), (95.0, 105.0), "%"));
        let claim =
            format!("a flood of declined flows leaves 98 to 102 % of TCP at {grant} Mbit/s");
        verdicts.push(judge(&claim, kept("declined", "quiet"), (98.0, 102.0), "%"));
    }
    let claim = "and UDP loses 0 to 2 %";
    verdicts.push(judge(claim, lost("declined"), (0.0, 2.0), "%"));
    let clients = |name| find(&[("phase", "clients")], name);
    let claim = "new clients: median 0.001 to 1.5 s until granted";
    verdicts.push(judge(claim, clients("median_s"), (0.001, 1.5), "s"));
    let claim = "95 % of them within 0.001 to 3.5 s";
    verdicts.push(judge(claim, clients("p95_s"), (0.001, 3.5), "s"));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_can_fail() {
        let row = |labels: &[(&str, &str)], name: &str, value: f64| {
            Row::new(labels.iter().copied()).with(name, value)
        };
        let rows = |kept: f64, lost: f64, wait: f64| {
            let tcp = |phase, grant, rate| {
                row(
                    &[("phase", phase), ("kind", "tcp"), ("grant_mbps", grant)],
                    "goodput_mbps",
                    rate,
                )
            };
            let mut rows = vec![
                row(&[("phase", "flood"), ("kind", "flood")], "capacity_percent", 80.0 * kept),
                row(&[("phase", "flood"), ("kind", "udp")], "lost_percent", lost),
                row(&[("phase", "declined"), ("kind", "udp")], "lost_percent", 4.0 * lost),
                row(&[("phase", "clients")], "median_s", wait).with("p95_s", wait * 2.3),
            ];
            for grant in ["1", "10", "100"] {
                rows.push(tcp("quiet", grant, 10.0));
                rows.push(tcp("flood", grant, 10.0 * kept));
                rows.push(tcp("declined", grant, 10.0 * kept));
            }
            rows
        };
        let held = |rows: &[Row]| -> Vec<_> {
            verdicts(rows).into_iter().map(|verdict| verdict.holds()).collect()
        };
        assert_eq!(held(&rows(0.99, 0.4, 1.4)), [Some(true); 11]);
        assert_eq!(held(&rows(0.90, 0.6, 1.6)), [Some(false); 11]);
        assert_eq!(held(&[]), [None; 11]);
    }
}
