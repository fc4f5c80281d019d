//! `cuckooswitch/fig5`, `fig6`, `fig7` and `table3`: sections 4.3 and 4.4 of the paper: its table
//! alone, its optimisations, rivals, memory.

use lookup::exact::engine;
use lookup::lpm::Options;

use super::claims::{best, large, more_with_large, small, whatever_isa};
use super::sizes::{self, Entrant, InTables, Seat, Turn};
use crate::contestants;
use crate::lookups::Claim;
use crate::matching::{self, Contestant};
use crate::record::Bound;
use crate::slices::{Timing, Variant};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// A figure of lookups in tables of several sizes.
pub struct Figure {
    card: &'static Card,
    /// What takes part: contestant, burst and labels.
    entrants: fn() -> Vec<Entrant>,
    claims: &'static [Claim],
    notes: &'static [&'static str],
}

/// The optimisations, one after the other: name, and the options that differ from
/// the table with all of them.
pub(super) const STEPS: [(&str, &[(&str, &str)]); 5] = [
    ("baseline", &[("pages", "small"), ("order", "atomic"), ("batch", "1"), ("prefetch", "none")]),
    ("+ large pages", &[("order", "atomic"), ("batch", "1"), ("prefetch", "none")]),
    ("+ x86 order", &[("batch", "1"), ("prefetch", "none")]),
    ("+ batches of 14", &[("batch", "14"), ("prefetch", "none")]),
    ("+ prefetching", &[("batch", "14")]),
];

/// Figure 5: the factor analysis.
pub static FIG5: Figure = Figure {
    card: &Card {
        name: "cuckooswitch/fig5",
        takes: Takes { full_s: 800.0, quick_s: 13.0 },
        help: "what each optimisation adds to the lookup rate of the paper's table, and ours beside it",
        source: "CuckooSwitch, figure 5",
        claim: "all together make it 5.6 × the baseline; batches alone add less than 20 % to large tables, \
                and make small ones slower",
        plots: &[Plot { x: "engine", series: "entries", ..RATE }],
    },
    entrants: || {
        let mut entrants: Vec<Entrant> =
            STEPS.iter().map(|(name, options)| cuckoo(name, options)).collect();
        entrants.push(cuckoo("+ batches of 256", &[("batch", "0")]));
        entrants.push(other("mac-table", "mac-table"));
        entrants
    },
    claims: &[
        Claim::Ratio {
            text: "all optimisations together: 5.6 × the baseline",
            figure: "rate_mlps",
            label: "engine",
            of: "+ prefetching",
            to: "baseline",
            bound: Bound::gain_of(5.6),
            when: &[],
        },
        Claim::Judge(|rows| {
            let text = "with large tables batches without prefetching add less than 20 %";
            large(
                rows,
                step(text, "+ batches of 14", "+ x86 order", Bound::within(1.0, 1.2).every()),
            )
        }),
        Claim::Judge(|rows| {
            let text =
                "with tables that fit the L3 cache batches without prefetching are worse than none";
            small(rows, step(text, "+ batches of 14", "+ x86 order", Bound::less().every()))
        }),
        step(
            "prefetching in two rounds adds substantially to batches",
            "+ prefetching",
            "+ batches of 14",
            Bound::much().every(),
        ),
        Claim::Judge(|rows| {
            let text = "prefetching adds more with large tables";
            more_with_large(rows, text, "+ prefetching", "+ batches of 14")
        }),
        step(
            "huge pages improve performance only slightly",
            "+ large pages",
            "baseline",
            Bound::slightly().every(),
        ),
        Claim::Ratio {
            text: "memory order without atomic instructions more than doubles the rate",
            figure: "rate_mlps",
            label: "engine",
            of: "+ x86 order",
            to: "+ large pages",
            bound: Bound::least(2.0),
            when: &[],
        },
        Claim::Ratio {
            text: "our mac-table, with what vector instructions there are, is 3 × the paper's table at its batch of 14",
            figure: "rate_mlps",
            label: "engine",
            of: "mac-table",
            to: "+ prefetching",
            bound: Bound::least(3.0).ours(),
            when: &[],
        },
    ],
    notes: &["one thread; the paper's figure has 16, which contend for the version counters"],
};

/// Figure 6: batch sizes.
pub static FIG6: Figure = Figure {
    card: &Card {
        name: "cuckooswitch/fig6",
        takes: Takes { full_s: 350.0, quick_s: 14.0 },
        help: "lookup rate of the paper's table against the batch size",
        source: "CuckooSwitch, figure 6",
        claim: "up to 4 the rate grows; from 5 on it drops slightly for small tables, and grows to 14 for large ones",
        plots: &[Plot { x: "batch", series: "entries", style: Style::LogLines, ..RATE }],
    },
    entrants: || {
        let sizes = ["1", "2", "4", "8", "14", "16", "32", "64", "128", "256"];
        let entrant = |batch: &&str| {
            let mut entrant = cuckoo("cuckoo", &[("batch", batch)]);
            entrant.labels.push(("batch", (*batch).to_string()));
            entrant
        };
        sizes.iter().map(entrant).collect()
    },
    claims: &[
        batch(
            "up to batches of 4 the rate grows significantly, for small and large tables",
            ("4", "1"),
            Bound::much().every(),
        ),
        Claim::Judge(|rows| {
            let text = "from batches of 5 on the rate increases greatly for tables too large for the L3 cache";
            large(rows, batch(text, ("14", "4"), Bound::much().every()))
        }),
        Claim::Judge(|rows| {
            let text = "from batches of 5 on the rate slightly drops for small tables";
            small(rows, batch(text, ("4", "14"), Bound::slightly().every()))
        }),
        Claim::Judge(|rows| {
            let text = "14 is the best batch of up to 16, of those measured";
            best(rows, text, "batch", ("14", &["1", "2", "4", "8", "16"]))
        }),
        batch("batches of 16 are only 6 % slower than those of 14", ("14", "16"), SLOWER),
    ],
    notes: &[],
};

/// Figure 7: rivals.
pub static FIG7: Figure = Figure {
    card: &Card {
        name: "cuckooswitch/fig7",
        takes: Takes { full_s: 650.0, quick_s: 35.0 },
        help: "lookup rate of the paper's table beside ordinary hash tables and rte_hash",
        source: "CuckooSwitch, figure 7",
        claim: "the optimised table is faster than all others but dense_hash_map with small tables",
        plots: &[Plot { x: "engine", series: "entries", ..RATE }],
    },
    entrants: || {
        let all = contestants::exact().into_iter();
        all.map(|contestant| {
            let labels = vec![("engine", contestant.name.clone())];
            Entrant { contestant: Ok(contestant), burst: 256, labels }
        })
        .collect()
    },
    claims: &[
        faster_than("tbb-hash", "faster than TBB's concurrent_hash_map", EVERY),
        faster_than("std-unordered", "faster than the STL's hash map", EVERY),
        faster_than("google-sparse", "faster than sparse_hash_map", EVERY),
        Claim::Judge(|rows| {
            let text = "faster than dense_hash_map with large tables";
            large(rows, faster_than("google-dense", text, EVERY))
        }),
        Claim::Judge(|rows| {
            let text = "with small tables dense_hash_map is faster";
            small(rows, faster_than("google-dense", text, Bound::less().every()))
        }),
        Claim::Ratio {
            text: "dense_hash_map uses more than 4 × the memory",
            figure: "bytes_per_entry",
            label: "engine",
            of: "google-dense",
            to: "cuckoo",
            bound: Bound::least(4.0).every(),
            when: &[],
        },
        faster_than("rte_hash", "faster than rte_hash (not in the paper)", OURS),
        faster_than("absl-flat", "faster than absl::flat_hash_map (not in the paper)", OURS),
        faster_than("boost-flat", "faster than boost::unordered_flat_map (not in the paper)", OURS),
        faster_than("hashbrown-fx", "faster than Rust's hashbrown (not in the paper)", OURS),
    ],
    notes: &[
        "the rivals look up one key after the other, as their users do, a burst in one call; each \
         with its own hash, which of std::unordered_map and Google's is the key itself",
        "what refuses lacked its headers when the lab was built: `make bench` installs them",
    ],
};

/// It is said of all sizes.
const EVERY: Bound = Bound::more().every();
/// It is no claim of the paper's.
const OURS: Bound = Bound::more().ours();
/// By 6 % at most, and not faster.
const SLOWER: Bound = Bound::within(1.0, 1.06);

const fn faster_than(to: &'static str, text: &'static str, bound: Bound) -> Claim {
    step(text, "cuckoo", to, bound)
}

/// The rate of one entrant over that of another.
const fn step(text: &'static str, of: &'static str, to: &'static str, bound: Bound) -> Claim {
    Claim::Ratio { text, figure: "rate_mlps", label: "engine", of, to, bound, when: &[] }
}

/// The same of two sizes of batches.
const fn batch(text: &'static str, (of, to): (&'static str, &'static str), bound: Bound) -> Claim {
    Claim::Ratio { text, figure: "rate_mlps", label: "batch", of, to, bound, when: &[] }
}

/// Table 3: memory.
pub static TABLE3: Figure = Figure {
    card: &Card {
        name: "cuckooswitch/table3",
        takes: Takes { full_s: 500.0, quick_s: 6.0 },
        help: "bytes of the paper's table and of ours by number of entries",
        source: "CuckooSwitch, table 3",
        claim: "0.25 GiB for 32 M entries, 8 GiB for 10⁹: 8.4 bytes an entry at 95 % load; dense_hash_map \
                needs 4 × as much",
        plots: &[Plot {
            title: "Memory",
            figure: "bytes_per_entry",
            unit: "bytes an entry",
            x: "engine",
            series: "entries",
            ..RATE
        }],
    },
    entrants: || {
        let dense = rival("google-dense", "google-dense");
        vec![cuckoo("cuckoo", &[]), other("mac-table", "mac-table"), dense]
    },
    claims: &[
        Claim::Bound {
            text: "0.25 GiB for 32 M entries, 8 GiB for 1 B: 8.4 bytes an entry at 95 % load",
            figure: "bytes_per_entry",
            bound: Bound::about(8.0 / 0.95).every(),
            unit: "bytes",
            when: &[("engine", "cuckoo")],
        },
        Claim::Ratio {
            text: "dense_hash_map requires about 4 × more memory",
            figure: "bytes_per_entry",
            label: "engine",
            of: "google-dense",
            to: "cuckoo",
            bound: Bound::about(4.0).every(),
            when: &[],
        },
    ],
    notes: &["tables of 2^n slots filled to 95 %, that of 10⁹ to 93 %: its bytes an entry are 8.6"],
};

impl Experiment for Figure {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        whatever_isa(rows, self.claims)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = sizes::run(context, self)?;
        let verdicts = self.judge(&rows);
        let mut notes: Vec<String> = self.notes.iter().map(|note| (*note).to_string()).collect();
        notes.push(
            "more than 64 M entries: as many tables take turns as there are cores to fill them, \
             and as memory allows"
                .into(),
        );
        Ok(context.record(rows, verdicts, notes))
    }
}

impl InTables for Figure {
    fn entrants(&self) -> Vec<Entrant> {
        (self.entrants)()
    }

    fn turn(&self, context: &mut Context, turn: &Turn<'_>) -> Vec<Row> {
        let n = turn.keys.len();
        let work = turn.seats.iter().map(|seat| {
            Variant::new("", matching::rate(seat.seen.stream(turn.keys), n, seat.burst))
        });
        let timings = context.measure(&mut work.collect::<Vec<_>>());
        let row = |(seat, timing): (&Seat<'_>, Timing)| {
            let row = seat.row.clone().checked(turn.checksum);
            let row = row.with("rate_mlps", timing.rate.scaled(1e-6));
            match seat.bytes {
                Some(bytes) => row.with("bytes_per_entry", bytes as f64 / turn.size as f64),
                None => row,
            }
        };
        turn.seats.iter().zip(timings).map(row).collect()
    }
}

/// One of others' tables, a burst of the ports at once.
pub(super) fn rival(name: &str, label: &str) -> Entrant {
    let found = contestants::exact().into_iter().find(|contestant| contestant.name == name);
    Entrant {
        contestant: found.ok_or_else(|| format!("this build has no {name}")),
        burst: 256,
        labels: vec![("engine", label.to_string())],
    }
}

pub(super) fn cuckoo(name: &str, options: &[(&str, &str)]) -> Entrant {
    let mut all = matching::fixed_seed();
    all.0.extend(options.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    entrant("cuckoo", name, all)
}

pub(super) fn other(name: &str, label: &str) -> Entrant {
    entrant(name, label, matching::fixed_seed())
}

fn entrant(name: &str, label: &str, options: Options) -> Entrant {
    let contestant = engine(name).map(|entry| Contestant::engine(entry, name, options));
    let contestant = contestant.ok_or_else(|| format!("this build has no {name}"));
    Entrant { contestant, burst: 256, labels: vec![("engine", label.to_string())] }
}

const RATE: Plot = Plot {
    title: "Lookups",
    figure: "rate_mlps",
    unit: "million lookups/s",
    x: "engine",
    series: "entries",
    panels: &[],
    style: Style::Ranked,
};
