//! `cuvpp/fig10` and `table2`: how often filter and FIB are probed. `cuvpp/table4`:
//! memory.

use super::{ENGINES, tables};
use crate::data::Traffic;
use crate::lookups::{Claim, Measure, Part, Study};
use crate::record::Bound;
use crate::{Card, Plot, Style, Takes};

/// Figure 10: probes against the number of prefixes.
pub static FIG10: Study = Study {
    card: &Card {
        name: "cuvpp/fig10",
        takes: Takes { full_s: 40.0, quick_s: 9.0 },
        help: "probes of filter and FIB for 500,000 addresses against 0.5 to 2 M prefixes",
        source: "CuVPP, figure 10",
        claim: "the cuckoo filter needs 90 % fewer filter lookups than the Bloom filter at 2 M prefixes",
        plots: &[
            plot("Probes of the filter", "filter_probes_total"),
            plot("Probes of the FIB", "fib_probes_total"),
            plot("False positives", "false_positives_total"),
        ],
    },
    parts: |context| tables(context, "dt-ip6").iter().map(probes).collect(),
    claims: &[
        Claim::Trend {
            text: "the cuckoo filter's probes stay nearly the same whatever the number of prefixes",
            figure: "filter_probes_total",
            along: "prefixes",
            bound: Bound::about(1.0),
            when: &[("engine", "cuvpp")],
        },
        Claim::Ratio {
            text: "at 2 M prefixes the Bloom filter takes 10 × the filter lookups (CuVPP: 90 % fewer)",
            figure: "filter_probes_total",
            label: "engine",
            of: "vpp-bloom",
            to: "cuvpp",
            bound: Bound::about(10.0),
            when: &[("prefixes", "2000000")],
        },
        Claim::Trend {
            text: "FIB probes grow with the table behind a Bloom filter of fixed size",
            figure: "fib_probes_total",
            along: "prefixes",
            bound: Bound::more(),
            when: &[("engine", "vpp-bloom")],
        },
        Claim::Ratio {
            text: "base VPP makes many needless FIB probes: more than CuVPP",
            figure: "fib_probes_total",
            label: "engine",
            of: "vpp-hash",
            to: "cuvpp",
            bound: Bound::more(),
            when: &[],
        },
    ],
    notes: &[
        "a Bloom test counts once here, however many bits it reads; the paper counts its hash computations",
        "the Bloom filter is sized as the paper's, 6 MB",
    ],
};

/// Table 2: probes and time at 500,000 prefixes.
pub static TABLE2: Study = Study {
    card: &Card {
        name: "cuvpp/table2",
        takes: Takes { full_s: 8.0, quick_s: 3.0 },
        help: "probes of filter and FIB and time for 500,000 addresses on 500,000 prefixes",
        source: "CuVPP, table II",
        claim: "FIB probes: base 16,987,150, Bloom 1,205,520, trie 500,000, CuVPP 648,800; CuVPP takes the least time",
        plots: &[
            Plot {
                style: Style::Bars,
                x: "engine",
                series: "family",
                ..plot("Probes of the FIB", "fib_probes_total")
            },
            Plot {
                style: Style::Bars,
                x: "engine",
                series: "family",
                unit: "million lookups/s",
                ..plot("Lookups", "rate_mlps")
            },
        ],
    },
    parts: |context| {
        let tables = context.beside(&["rv-linx:500000"]);
        tables.iter().map(probes).collect()
    },
    claims: &[
        Claim::Ratio {
            text: "base VPP: 26 × the FIB probes of CuVPP (16,987,150 and 648,800)",
            figure: "fib_probes_total",
            label: "engine",
            of: "vpp-hash",
            to: "cuvpp",
            bound: Bound::about(26.18),
            when: &[],
        },
        Claim::Ratio {
            text: "with a Bloom filter: 1.9 × the FIB probes of CuVPP (1,205,520 and 648,800)",
            figure: "fib_probes_total",
            label: "engine",
            of: "vpp-bloom",
            to: "cuvpp",
            bound: Bound::about(1.858),
            when: &[],
        },
        Claim::Bound {
            text: "CuVPP: 1.3 FIB probes an address (648,800 of 500,000)",
            figure: "fib_probes_per_lookup",
            bound: Bound::about(1.2976),
            unit: "probes",
            when: &[("engine", "cuvpp")],
        },
        Claim::Ratio {
            text: "CuVPP takes 20 % less time than base VPP: 1.25 × its rate (0.2190 and 0.2747 s)",
            figure: "rate_mlps",
            label: "engine",
            of: "cuvpp",
            to: "vpp-hash",
            bound: Bound::gain_of(1.254),
            when: &[],
        },
    ],
    notes: &["the time of the paper's table is the rate here: bursts of 256, prefetched"],
};

/// Table IV: memory.
pub static TABLE4: Study = Study {
    card: &Card {
        name: "cuvpp/table4",
        takes: Takes { full_s: 10.0, quick_s: 3.0 },
        help: "memory of the four data planes with 1,000,000 prefixes",
        source: "CuVPP, table IV",
        claim: "filters add 6 MB to base VPP's 4,000 MB, a trie 581 MB",
        plots: &[
            Plot {
                style: Style::Bars,
                x: "engine",
                series: "family",
                unit: "bytes",
                ..plot("Memory", "bytes")
            },
            Plot {
                style: Style::Bars,
                x: "engine",
                series: "family",
                unit: "bytes",
                ..plot("Filter or trie", "filter_bytes")
            },
        ],
    },
    parts: |context| {
        let part = |table: &String| {
            Part::ipv6(table).engines(ENGINES).measure(&[Measure::Build, Measure::Counts])
        };
        context.beside(&["rv-linx:1000000"]).iter().map(part).collect()
    },
    claims: &[
        Claim::Bound {
            text: "the cuckoo filter takes 6 MB",
            figure: "filter_bytes",
            bound: Bound::about(6.0e6),
            unit: "bytes",
            when: &[("engine", "cuvpp")],
        },
        Claim::Ratio {
            text: "the trie takes 97 × what the filter does (581 MB and 6 MB)",
            figure: "filter_bytes",
            label: "engine",
            of: "vpp-trie",
            to: "cuvpp",
            bound: Bound::about(581.0 / 6.0),
            when: &[],
        },
    ],
    notes: &["the paper's figures are those of whole VPP processes; these of the tables alone"],
};

const fn plot(title: &'static str, figure: &'static str) -> Plot {
    Plot {
        title,
        figure,
        unit: "probes",
        x: "prefixes",
        series: "engine",
        panels: &[],
        style: Style::Lines,
    }
}

fn probes(table: &String) -> Part {
    let part = Part::ipv6(table).engines(ENGINES).traffic(&[Traffic::Prefix]);
    part.measure(&[Measure::Rate, Measure::Probes(500_000)])
}
