//! `cuvpp/fig8`, `fig9` and `fig11`: the four data planes through the packet graph,
//! and CuVPP with more than one worker.

use super::{ENGINES, tables};
use crate::data::Traffic;
use crate::experiments::router::{through, workers};
use crate::lookups::Claim;
use crate::record::Bound;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// A figure of the real testbed, here of the router on `mem` ports.
pub struct Testbed {
    card: &'static Card,
    lengths: &'static str,
    claims: &'static [Claim],
}

/// Figure 8: lengths as RouteViews' LINX archive has them.
pub static FIG8: Testbed = Testbed {
    card: &Card {
        name: "cuvpp/fig8",
        takes: Takes { full_s: 80.0, quick_s: 29.0 },
        help: "packets forwarded against 0.5 to 2 M prefixes, RouteViews lengths",
        source: "CuVPP, figure 8",
        claim: "CuVPP is 18–24 % faster than base VPP, 10–55 % than with a Bloom filter, 15–35 % than with a trie",
        plots: PLOTS,
    },
    lengths: "rv-linx",
    claims: &[
        faster("vpp-hash", "18 to 24 % faster than base VPP", 1.18, 1.24),
        faster("vpp-bloom", "10 to 55 % faster than with a Bloom filter", 1.10, 1.55),
        faster("vpp-trie", "15 to 35 % faster than with a trie", 1.15, 1.35),
    ],
};

/// Figure 9: lengths as Deutsche Telekom's looking glass has them.
pub static FIG9: Testbed = Testbed {
    card: &Card {
        name: "cuvpp/fig9",
        takes: Takes { full_s: 80.0, quick_s: 25.0 },
        help: "packets forwarded against 0.5 to 2 M prefixes, Deutsche Telekom lengths",
        source: "CuVPP, figure 9",
        claim: "CuVPP is 4–5 % faster than base VPP, 4–25 % than with a Bloom filter, 75–100 % than with a trie",
        plots: PLOTS,
    },
    lengths: "dt-ip6",
    claims: &[
        faster("vpp-hash", "4 to 5 % faster than base VPP", 1.04, 1.05),
        faster("vpp-bloom", "4 to 25 % faster than with a Bloom filter", 1.04, 1.25),
        faster("vpp-trie", "75 to 100 % faster than with a trie", 1.75, 2.00),
    ],
};

/// Figure 11: workers.
pub struct Fig11;

impl Experiment for Testbed {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        self.claims.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells(tables(context, self.lengths), |context, name| {
            let table = context.load(name)?;
            let mut rows = Vec::new();
            for traffic in [Traffic::Random, Traffic::Prefix] {
                let found = through(context, &table.ipv6, ENGINES, traffic);
                rows.extend(
                    found.into_iter().map(|row| labelled(row, &table.name, table.ipv6.len())),
                );
            }
            Ok(rows)
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![NOTE.into(), ROUTED.into()]))
    }
}

impl Experiment for Fig11 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cuvpp/fig11",
            takes: Takes { full_s: 15.0, quick_s: 3.0 },
            help: "packets forwarded by CuVPP against workers, 1 and 34 prefix lengths",
            source: "CuVPP, figure 11",
            claim: "two workers forward nearly twice as much; one prefix length is 3–4 times as fast as 33",
            plots: &[Plot {
                title: "Forwarding by workers",
                figure: "rate_mpps",
                unit: "million packets/s",
                x: "workers",
                series: "lengths",
                panels: &["prefixes"],
                style: Style::Lines,
            }],
        }
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        WORKERS.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let cells = ["flat6:10000", "rv-linx:10000", "flat6:100000", "rv-linx:100000"];
        let rows = context.cells(cells, |context, name| {
            let table = context.load(name)?;
            let mut lengths: Vec<u8> = table.ipv6.iter().map(|(prefix, _)| prefix.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let kind = if lengths.len() == 1 { "one" } else { "many" };
            let label = |mut row: Row| {
                // Tables of one size are compared, so none is named.
                row.labels.insert("lengths".into(), kind.into());
                row.labels.insert("prefixes".into(), table.ipv6.len().to_string());
                row
            };
            let rows = workers(context, &table.ipv6, "cuvpp")
                .unwrap_or_else(|why| vec![Row::default().noting(why)]);
            Ok(rows.into_iter().map(label).collect())
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![NOTE.into()]))
    }
}

const WORKERS: &[Claim] = &[
    Claim::Scaling {
        text: "two workers forward nearly twice as much as one",
        figure: "rate_mpps",
        along: "workers",
        bound: Bound::within(0.9, 1.0),
        when: &[],
    },
    Claim::Ratio {
        text: "one prefix length is 3 to 4 times as fast as 33",
        figure: "rate_mpps",
        label: "lengths",
        of: "one",
        to: "many",
        bound: Bound::gain(3.0, 4.0),
        when: &[("workers", "1")],
    },
];

const fn faster(to: &'static str, text: &'static str, least: f64, most: f64) -> Claim {
    let (figure, label, of) = ("rate_mpps", "engine", "cuvpp");
    let bound = Bound::gain(least, most);
    Claim::Ratio { text, figure, label, of, to, bound, when: &[] }
}

fn labelled(mut row: Row, table: &str, prefixes: usize) -> Row {
    row.labels.insert("table".into(), table.into());
    row.labels.insert("prefixes".into(), prefixes.to_string());
    row
}

const PLOTS: &[Plot] = &[Plot {
    title: "Packets forwarded",
    figure: "rate_mpps",
    unit: "million packets/s",
    x: "prefixes",
    series: "engine",
    panels: &["traffic"],
    style: Style::Lines,
}];

const NOTE: &str = "one worker's whole graph on mem ports (16,000 packets) instead of the \
                    paper's two servers and network cards";
const ROUTED: &str =
    "random: addresses in routed /32s, as addresses out of 2^128 would all take the default route";
