//! `cuckooswitch/table2`, `fig8`, `fig9` and `fig10`: section 4 of the paper, the full system: one worker on `mem` ports stands for
//! its two sockets, eight ports of 10 Gbit/s and four network cards.

use std::thread;

use super::super::switch::access;
use super::forwarder::{Forwarder, How, stations};
use super::tables::{Entrant, STEPS, cuckoo, other};
use crate::contestants;
use crate::crew::{Crew, Maker};
use crate::data::Rng;
use crate::lookups::Claim;
use crate::record::Bound;
use crate::matching::{self, Contestant, Entry, Table};
use crate::pace::{self, Beside};
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, clock};

/// Table 2: raw packet I/O.
pub struct Table2;

/// Figures 8 and 9: the forwarder with several tables.
pub struct Forwarding {
    card: &'static Card,
    entrants: fn() -> Vec<Competitor>,
    /// The router's own switch takes part, and ports without lookups.
    beside: bool,
    claims: &'static [Claim],
    notes: &'static [&'static str],
}

/// Figure 10: updates.
pub struct Fig10;

struct Competitor {
    entrant: Entrant,
    single: bool,
}

/// Figure 8: the factor analysis.
pub static FIG8: Forwarding = Forwarding {
    card: &Card {
        name: "cuckooswitch/fig8",
        takes: Takes { full_s: 110.0, quick_s: 20.0 },
        help: "what each optimisation of the table adds to the forwarding rate, 64-byte frames",
        source: "CuckooSwitch, figure 8",
        claim: "together the optimisations double the throughput; with 10⁹ entries it is that of the ports",
        plots: &[RATE],
    },
    entrants: || {
        // A burst of the ports is the batch, whatever its size.
        let steps = STEPS.iter().map(|(name, options)| {
            let dynamic = options.iter().map(|(option, value)| match (*option, *value) {
                ("batch", "14") => ("batch", "0"),
                other => other,
            });
            let name = name.replace("batches of 14", "dynamic batches");
            burst(cuckoo(&name, &dynamic.collect::<Vec<_>>()))
        });
        steps.chain([burst(other("mac-table", "mac-table"))]).collect()
    },
    beside: true,
    claims: &[
        Claim::Ratio {
            text: "together the optimisations are roughly 2 × the baseline",
            figure: "rate_mpps",
            label: "engine",
            of: "+ prefetching",
            to: "baseline",
            bound: Bound::gain_of(2.0),
            when: &[],
        },
        Claim::Ratio {
            text: "the table forwards as fast as the ports can, even with a billion entries",
            figure: "rate_mpps",
            label: "engine",
            of: "+ prefetching",
            to: "ports alone",
            bound: Bound::about(1.0).every(),
            when: &[],
        },
        Claim::Ratio {
            text: "mac-table forwards faster than the paper's table",
            figure: "rate_mpps",
            label: "engine",
            of: "mac-table",
            to: "+ prefetching",
            bound: Bound::least(1.0).ours().every(),
            when: &[],
        },
    ],
    notes: &[
        "ports alone: out of the port it came from, without a lookup; mem ports are faster than any network card",
        "our switch: the whole graph, with VLANs, learning, storm control and counters",
        ONE_WORKER,
        GENERATED,
    ],
};

/// Figure 9: other tables.
pub static FIG9: Forwarding = Forwarding {
    card: &Card {
        name: "cuckooswitch/fig9",
        takes: Takes { full_s: 90.0, quick_s: 20.0 },
        help: "forwarding rate with the paper's table, ours, hash maps and rte_hash, 64-byte frames",
        source: "CuckooSwitch, figure 9",
        claim: "always faster than with dense_hash_map, batched or not; from 16 M entries on by more and more",
        plots: &[RATE],
    },
    entrants: || {
        let mut entrants =
            vec![burst(cuckoo("cuckoo", &[])), burst(other("mac-table", "mac-table"))];
        for name in ["hashbrown-fx", "rte_hash"] {
            entrants.push(burst(rival(name, name)));
        }
        entrants.push(Competitor {
            single: true,
            entrant: rival("hashbrown-fx", "hashbrown-fx, one by one"),
        });
        entrants
    },
    beside: false,
    claims: &[
        faster("hashbrown-fx, one by one", "faster than with the hash map, frame by frame"),
        faster("hashbrown-fx", "faster than with the hash map, batched"),
        faster("rte_hash", "faster than with rte_hash in bulk (not in the paper)"),
    ],
    notes: &["hashbrown stands for Google's dense_hash_map", ONE_WORKER, GENERATED],
};

impl Experiment for Table2 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cuckooswitch/table2",
            takes: Takes { full_s: 10.0, quick_s: 2.0 },
            help: "frames that two ports pass on without a lookup, by size and workers",
            source: "CuckooSwitch, table 2",
            claim: "92.22 Mpps (61.97 Gbit/s) at 64 bytes, 36.23 Mpps (80 Gbit/s) at 256: first PCIe, then the network is full",
            plots: &[Plot { x: "bytes", series: "workers", ..RATE }],
        }
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells([64, 128, 192, 256], |context, bytes| raw(context, *bytes))?;
        let verdicts = RAW.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let notes = [
            "mem ports hand on descriptors and touch no payload: what the paper's cards are limited by is not here",
            "Gbit/s as on the wire, with 20 bytes of preamble and gap a frame",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

fn raw(context: &Context, bytes: usize) -> Result<Vec<Row>, Error> {
    let timings = thread::scope(|scope| {
        let maker = |_| -> Maker<'_> {
            Box::new(move || Box::new(Forwarder::new(How::Raw, &[], bytes).ok()))
        };
        let crew =
            |n: usize| Variant::new(n.to_string(), Crew::new(scope, (0..n).map(maker).collect()));
        let most = clock::cores().len().min(2);
        context.measure(&mut (1..=most).map(crew).collect::<Vec<_>>())
    });
    let row = |timing: &crate::slices::Timing| {
        let row = Row::new([("bytes", bytes.to_string()), ("workers", timing.name.clone())]);
        if timing.checksum.is_none() {
            return row.noting("the ports could not be made");
        }
        let on_wire = (bytes + 20) as f64 * 8.0;
        row.with("rate_mpps", timing.rate.scaled(1e-6))
            .with("rate_gbps", timing.rate.scaled(on_wire * 1e-9))
    };
    Ok(timings.iter().map(row).collect())
}

impl Experiment for Forwarding {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes: &[usize] =
            context.pick(&[1_000_000, 8_000_000, 32_000_000], &[1_000_000, 8_000_000]);
        let rows = context
            .cells(sizes.iter().copied(), |context, size| Ok(self.measure(context, *size)))?;
        let verdicts = self.claims.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let notes = self.notes.iter().map(|note| (*note).to_string()).collect();
        Ok(context.record(rows, verdicts, notes))
    }
}

impl Forwarding {
    fn measure(&self, context: &Context, size: usize) -> Vec<Row> {
        let entries = stations(&matching::entries(size));
        clock::cores().last().map(|&core| clock::pin(core));
        let (mut rows, mut tables, mut variants) = (Vec::new(), Vec::new(), Vec::new());
        let row =
            |name: &str| Row::new([("engine", name.to_string()), ("entries", size.to_string())]);
        for Competitor { entrant, single } in (self.entrants)() {
            let name = entrant.labels.first().map_or(String::new(), |(_, name)| name.clone());
            match entrant.contestant.and_then(|contestant| filled(&contestant, &entries)) {
                Ok(table) => tables.push((name, single, table)),
                Err(refusal) => rows.push(row(&name).noting(refusal)),
            }
        }
        for (name, single, table) in &tables {
            let find = table.finder();
            let how = if *single { How::Single(find) } else { How::Burst(find) };
            match Forwarder::new(how, &entries, 64) {
                Ok(forwarder) => variants.push(Variant::new(name, forwarder)),
                Err(reason) => rows.push(row(name).noting(reason)),
            }
        }
        if self.beside {
            match Forwarder::new(How::Raw, &entries, 64) {
                Ok(raw) => variants.push(Variant::new("ports alone", raw)),
                Err(reason) => rows.push(row("ports alone").noting(reason)),
            }
            match access(size as u64) {
                Ok(bed) => variants.push(Variant::new("our switch", bed)),
                Err(reason) => rows.push(row("our switch").noting(reason)),
            }
        }
        for timing in context.measure(&mut variants) {
            let row = row(&timing.name);
            rows.push(if timing.checksum.is_none() {
                row.noting("frames were lost, or not found")
            } else {
                row.with("rate_mpps", timing.rate.scaled(1e-6)).with("cycles", timing.cycles)
            });
        }
        rows
    }
}

impl Experiment for Fig10 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cuckooswitch/fig10",
            takes: Takes { full_s: 10.0, quick_s: 3.0 },
            help: "forwarding rate against updates a second of a table of 2 million stations",
            source: "CuckooSwitch, figure 10",
            claim: "64,000 updates/s cost next to nothing, half a million a quarter of the rate",
            plots: &[Plot { x: "updates_wanted", series: "engine", style: Style::Lines, ..RATE }],
        }
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        if clock::cores().len() < 2 {
            let what = "two cores: one forwards, one updates".into();
            return Err(Error::Missing { experiment: "cuckooswitch/fig10", what });
        }
        let rows = context.cells(["cuckoo", "mac-table"], |context, name| {
            let row = Row::new([("engine", name.to_string())]);
            let found = other(name, name).contestant.and_then(|one| updated(context, &one));
            Ok(match found {
                Ok(found) => found.iter().map(|beside| paced(&row, beside)).collect(),
                Err(reason) => vec![row.noting(reason)],
            })
        })?;
        let verdicts = KEPT.iter().flat_map(|claim| claim.judge(&rows)).collect();
        let notes = [
            "updates delete a station and put it back, on another core; no frame goes to those",
            "kept: the rate over that without updates in the same round",
            "one forwarding worker; the paper's sixteen contend with the writer",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

/// Frames to half of the stations, while the other half comes and goes.
fn updated(context: &Context, contestant: &Contestant) -> Result<Vec<Beside>, String> {
    let entries = stations(&matching::entries(context.pick(2_000_000, 1_000_000)));
    let (used, changed) = entries.split_at(entries.len() / 2);
    let mut table = filled(contestant, &entries)?;
    let forwarder = Forwarder::new(How::Burst(table.finder()), used, 64)?;
    let mut order: Vec<Entry> = changed.to_vec();
    Rng::new(5).shuffle(&mut order);
    let mut next = order.iter().cycle();
    let found = pace::beside(context, forwarder, UPDATES, |pace| {
        pace.keep(|n| {
            for (key, value) in next.by_ref().take(n.div_ceil(2) as usize) {
                table.delete(&[*key]);
                if table.insert(&[(*key, *value)]) > 0 {
                    return Err("an insert was refused".into());
                }
            }
            Ok(())
        })
    })?;
    match found.iter().any(|beside| beside.timing.checksum.is_none()) {
        true => Err("frames were lost beside updates".into()),
        false => Ok(found),
    }
}

fn paced(row: &Row, beside: &Beside) -> Row {
    let mut row = row.clone();
    row.labels.insert("updates_wanted".into(), beside.wanted.to_string());
    row.with("updates_per_s", beside.done)
        .with("rate_mpps", beside.timing.rate.scaled(1e-6))
        .with("kept", beside.kept)
}

/// A table with all of `entries`, which answers rightly.
fn filled(contestant: &Contestant, entries: &[Entry]) -> Result<Box<dyn Table>, String> {
    let mut table = contestant.build(entries.len())?;
    let refused = table.insert(entries);
    let (keys, values) = matching::keys(entries, 1 << 16, 0, 1);
    if refused > 0 || table.stream(&keys).answers() != values {
        return Err(format!("{refused} entries refused, or wrong answers"));
    }
    Ok(table)
}

fn burst(entrant: Entrant) -> Competitor {
    Competitor { entrant, single: false }
}

fn rival(name: &str, label: &str) -> Entrant {
    let found = contestants::exact().into_iter().find(|contestant| contestant.name == name);
    Entrant {
        contestant: found.ok_or_else(|| format!("this build has no {name}")),
        burst: io::BURST,
        labels: vec![("engine", label.to_string())],
    }
}

const fn faster(to: &'static str, text: &'static str) -> Claim {
    let (figure, label, of) = ("rate_mpps", "engine", "cuckoo");
    Claim::Ratio { text, figure, label, of, to, bound: Bound::more().every(), when: &[] }
}

const RAW: &[Claim] = &[
    Claim::Trend {
        text: "frames of 256 bytes: 0.39 × as many a second as of 64 (the network is full)",
        figure: "rate_mpps",
        along: "bytes",
        bound: Bound::about(36.23 / 92.22),
        when: &[("workers", "1")],
    },
    Claim::Scaling {
        text: "throughput scales linearly with ports and cards (here: workers)",
        figure: "rate_mpps",
        along: "workers",
        bound: Bound::about(1.0),
        when: &[],
    },
];

const KEPT: &[Claim] = &[
    Claim::Bound {
        text: "tens of thousands of updates/s cost little (64,000: at least 0.9 of the rate is left)",
        figure: "kept",
        bound: Bound::least(0.9),
        unit: "×",
        when: &[("updates_wanted", "64000")],
    },
    Claim::Bound {
        text: "over half a million updates/s cost 25 % only (512,000: 0.75 of the rate is left)",
        figure: "kept",
        bound: Bound::gain_of(0.75),
        unit: "×",
        when: &[("updates_wanted", "512000")],
    },
];

/// A second; the paper's second point is 64,000.
const UPDATES: &[u64] = &[0, 64_000, 128_000, 256_000, 512_000];

const ONE_WORKER: &str = "one worker on mem ports; 16,000 packets, bursts of 64";
const GENERATED: &str =
    "each frame gets a new destination out of two million draws as it comes in, that cost included";

const RATE: Plot = Plot {
    title: "Frames forwarded",
    figure: "rate_mpps",
    unit: "million frames/s",
    x: "engine",
    series: "entries",
    panels: &[],
    style: Style::Ranked,
};
