//! `cuckooswitch/table2`, `fig8`, `fig9` and `fig10`: section 4 of the paper, the full system, with one
//! worker on `mem` ports instead of two sockets, eight ports of 10 Gbit/s and four network cards.

use std::thread;

use super::super::switch::access;
use super::claims::{from_16_m_on, up_to_16_m, whatever_isa};
use super::forwarder::{Forwarder, How, station};
use super::sizes::{self, Entrant, InTables, Seat, TOO_LONG, Turn, is_large};
use super::tables::{STEPS, cuckoo, other, rival};
use crate::crew::{Crew, Maker};
use crate::data::Rng;
use crate::lookups::Claim;
use crate::matching::{self, Contestant, Entry, Table};
use crate::pace::{self, Beside};
use crate::record::Bound;
use crate::slices::Variant;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// Table 2: raw packet I/O.
pub struct Table2;

/// Figures 8 and 9: the forwarder with several tables.
pub struct Forwarding {
    card: &'static Card,
    /// Of bursts of the ports, or of one frame.
    entrants: fn() -> Vec<Entrant>,
    /// The router's own switch takes part, and ports without lookups.
    beside: bool,
    claims: &'static [Claim],
    notes: &'static [&'static str],
}

/// Figure 10: updates.
pub struct Fig10;

/// Figure 8: the factor analysis.
pub static FIG8: Forwarding = Forwarding {
    card: &Card {
        name: "cuckooswitch/fig8",
        takes: Takes { full_s: 800.0, quick_s: 20.0 },
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
            cuckoo(&name, &dynamic.collect::<Vec<_>>())
        });
        steps.chain([other("mac-table", "mac-table")]).collect()
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
            text: "mac-table, with what vector instructions there are, forwards faster than the paper's table",
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
        takes: Takes { full_s: 600.0, quick_s: 20.0 },
        help: "forwarding rate with the paper's table, ours, hash maps and rte_hash, 64-byte frames",
        source: "CuckooSwitch, figure 9",
        claim: "always faster than with dense_hash_map; that in bursts is near the maximum up to 16 M \
                entries, and then decreases",
        plots: &[RATE],
    },
    entrants: || {
        let [dense, hashbrown] = ["google-dense", "hashbrown-fx"].map(|name| {
            let one_by_one = rival(name, &format!("{name}, one by one"));
            [rival(name, name), Entrant { burst: 1, ..one_by_one }]
        });
        let mut entrants = vec![cuckoo("cuckoo", &[]), other("mac-table", "mac-table")];
        entrants.extend(dense.into_iter().chain(hashbrown));
        entrants.push(rival("rte_hash", "rte_hash"));
        entrants
    },
    beside: false,
    claims: &[
        faster("google-dense, one by one", "always faster than with dense_hash_map", EVERY),
        Claim::Ratio {
            text: "dense_hash_map in bursts outperforms the original",
            figure: "rate_mpps",
            label: "engine",
            of: "google-dense",
            to: "google-dense, one by one",
            bound: EVERY,
            when: &[],
        },
        Claim::Judge(|rows| {
            let claim = Claim::Ratio {
                text: "dense_hash_map in bursts nearly reaches the maximum, CuckooSwitch's, with up to \
                       16 M entries",
                figure: "rate_mpps",
                label: "engine",
                of: "google-dense",
                to: "cuckoo",
                bound: Bound::least(0.9).every(),
                when: &[],
            };
            up_to_16_m(rows, claim)
        }),
        Claim::Judge(|rows| {
            let claim = Claim::Trend {
                text: "dense_hash_map in bursts: from 16 M entries on a decrease (roughly linear in the \
                       paper, which has more sizes)",
                figure: "rate_mpps",
                along: "entries",
                bound: Bound::less(),
                when: &[("engine", "google-dense")],
            };
            from_16_m_on(rows, claim)
        }),
        faster("hashbrown-fx, one by one", "faster than with hashbrown (not in the paper)", OURS),
        faster("hashbrown-fx", "faster than with hashbrown in bursts (not in the paper)", OURS),
        faster("rte_hash", "faster than with rte_hash in bulk (not in the paper)", OURS),
    ],
    notes: &[
        "the paper's maximum is that of its cards; mem ports have none that is near",
        ONE_WORKER,
        GENERATED,
    ],
};

impl Experiment for Table2 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cuckooswitch/table2",
            takes: Takes { full_s: 10.0, quick_s: 2.0 },
            help: "frames that two ports pass on without a lookup, by size and workers",
            source: "CuckooSwitch, table 2",
            claim: "92.22 Mpps (61.97 Gbit/s) at 64 bytes, 36.23 Mpps (80 Gbit/s) at 256: first \
                    PCIe, then the network is full",
            plots: &[Plot { x: "bytes", series: "workers", ..RATE }],
        }
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        RAW.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells([64, 128, 192, 256], |context, bytes| raw(context, *bytes))?;
        let verdicts = self.judge(&rows);
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
            Box::new(move || Box::new(Forwarder::new(How::Raw, 0, bytes).ok()))
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

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        whatever_isa(rows, self.claims)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = sizes::run(context, self)?;
        let verdicts = self.judge(&rows);
        let notes = self.notes.iter().map(|note| (*note).to_string()).collect();
        Ok(context.record(rows, verdicts, notes))
    }
}

impl InTables for Forwarding {
    fn entrants(&self) -> Vec<Entrant> {
        (self.entrants)()
    }

    fn turn(&self, context: &mut Context, turn: &Turn<'_>) -> Vec<Row> {
        let forwarding = |seat: &Seat<'_>| {
            let find = seat.seen.finder();
            (seat.row.clone(), if seat.burst == 1 { How::Single(find) } else { How::Burst(find) })
        };
        let all = turn.seats.iter().map(forwarding).collect();
        forward(context, turn.size, all, self.beside && !is_large(turn.size))
    }

    fn alone(&self, context: &mut Context, size: usize) -> Vec<Row> {
        if self.beside { forward(context, size, Vec::new(), true) } else { Vec::new() }
    }
}

/// What forwards by each of `all`, as its row names it, in turn; `beside` them the ports alone and
/// our switch.
fn forward(context: &Context, size: usize, all: Vec<(Row, How)>, beside: bool) -> Vec<Row> {
    let (mut rows, mut variants) = (Vec::new(), Vec::new());
    let named =
        |name: &str| Row::new([("engine", name.to_string()), ("entries", size.to_string())]);
    let alone = beside.then(|| (named("ports alone"), How::Raw));
    for (row, how) in all.into_iter().chain(alone) {
        let forwarder = Forwarder::new(how, size, 64);
        rows.push((row, forwarder.as_ref().err().cloned()));
        variants.extend(forwarder.ok().map(|forwarder| Variant::new("", forwarder)));
    }
    if beside {
        let switch = match is_large(size) {
            true => Err(TOO_LONG.into()),
            false => access(size as u64),
        };
        rows.push((named("our switch"), switch.as_ref().err().cloned()));
        variants.extend(switch.ok().map(|bed| Variant::new("", bed)));
    }
    let mut timings = context.measure(&mut variants).into_iter();
    let timed = |(row, refusal): (Row, Option<String>)| match refusal {
        Some(reason) => row.noting(reason),
        None => match timings.next().filter(|timing| timing.checksum.is_some()) {
            None => row.noting("frames were lost, or not found"),
            Some(timing) => {
                row.with("rate_mpps", timing.rate.scaled(1e-6)).with("cycles", timing.cycles)
            }
        },
    };
    rows.into_iter().map(timed).collect()
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

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        KEPT.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        context.two_cores("cuckooswitch/fig10", "one forwards, one updates")?;
        let rows = context.cells(["cuckoo", "mac-table"], |context, name| {
            let mut row = Row::new([("engine", name.to_string())]);
            let found = other(name, name).contestant.and_then(|one| {
                row = row.clone().labelled("isa", &one.isa);
                updated(context, &one)
            });
            Ok(match found {
                Ok((found, moved)) => found.iter().map(|one| paced(&row, one, &moved)).collect(),
                Err(reason) => vec![row.noting(reason)],
            })
        })?;
        let verdicts = self.judge(&rows);
        let notes = [
            "updates: a station leaves, another comes, on another core, the table 95 % full; no frame goes \
             to those; moves_per_update: entries displaced, of all paces together",
            "kept: the rate over that without updates in the same round",
            "one forwarding worker; the paper's sixteen contend with the writer",
        ];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

/// Frames to half of the stations of a table at 95 % load, while stations of the other half
/// leave and new ones come. A key that is put back finds its own slot; a new one has to move
/// others.
fn updated(context: &Context, contestant: &Contestant) -> Result<(Vec<Beside>, Moved), String> {
    let n = context.pick(1_992_294, 996_147);
    let mut table = known(contestant, n)?;
    let forwarder = Forwarder::new(How::Burst(table.finder()), n / 2, 64)?;
    let mut moved = Moved::default();
    let before = table.moves();
    let mut changes = Changes::new(n);
    let found = pace::beside(context, forwarder, UPDATES, |pace| {
        pace.keep(|n| {
            for _ in 0..n.div_ceil(2) {
                changes.one(&mut *table)?;
                moved.updates += 2;
            }
            Ok(())
        })
    })?;
    moved.moves = table.moves().zip(before).map(|(after, before)| after - before);
    match found.iter().any(|beside| beside.timing.checksum.is_none()) {
        true => Err("frames were lost beside updates".into()),
        false => Ok((found, moved)),
    }
}

/// What updates moved.
#[derive(Default)]
struct Moved {
    updates: u64,
    moves: Option<u64>,
}

/// Stations of a table's second half, in no order, and as many that are not in it.
struct Changes {
    there: Vec<Entry>,
    away: Vec<Entry>,
    next: usize,
}

impl Changes {
    fn new(stations: usize) -> Changes {
        let half = stations / 2;
        let mut there: Vec<Entry> = (half..stations).map(station).collect();
        Rng::new(5).shuffle(&mut there);
        let away = (stations..stations + there.len()).map(station).collect();
        Changes { there, away, next: 0 }
    }

    /// One leaves, another comes.
    fn one(&mut self, table: &mut dyn Table) -> Result<(), String> {
        let at = self.next % self.there.len();
        self.next += 1;
        table.delete(&[self.there[at].0]);
        if table.insert(&[self.away[at]]) > 0 {
            return Err("an insert was refused".into());
        }
        std::mem::swap(&mut self.there[at], &mut self.away[at]);
        Ok(())
    }
}

fn paced(row: &Row, beside: &Beside, moved: &Moved) -> Row {
    let mut row = row.clone();
    if let Some(moves) = moved.moves.filter(|_| beside.wanted > 0) {
        row = row.with("moves_per_update", moves as f64 / moved.updates.max(1) as f64);
    }
    row.labels.insert("updates_wanted".into(), beside.wanted.to_string());
    row.with("updates_per_s", beside.done)
        .with("rate_mpps", beside.timing.rate.scaled(1e-6))
        .with("kept", beside.kept)
}

/// A table of the first `size` stations, which answers rightly.
fn known(contestant: &Contestant, size: usize) -> Result<Box<dyn Table>, String> {
    let (table, _) = matching::filled(contestant, size, station, &mut |_| ())?;
    let (keys, values) = matching::keys_of(size, station, 1 << 16, 0, 1);
    if table.stream(&keys).answers() != values {
        return Err("wrong answers".into());
    }
    Ok(table)
}

/// It is said of all sizes.
const EVERY: Bound = Bound::more().every();
/// It is no claim of the paper's.
const OURS: Bound = Bound::more().ours().every();

const fn faster(to: &'static str, text: &'static str, bound: Bound) -> Claim {
    let (figure, label, of) = ("rate_mpps", "engine", "cuckoo");
    Claim::Ratio { text, figure, label, of, to, bound, when: &[] }
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
        when: &[("engine", "cuckoo"), ("updates_wanted", "64000")],
    },
    Claim::Bound {
        text: "over half a million updates/s cost 25 % only (512,000: 0.75 of the rate is left)",
        figure: "kept",
        bound: Bound::gain_of(0.75),
        unit: "×",
        when: &[("engine", "cuckoo"), ("updates_wanted", "512000")],
    },
];

/// A second; the paper's second point is 64,000.
const UPDATES: &[u64] = &[0, 64_000, 128_000, 256_000, 512_000];

const ONE_WORKER: &str = "one worker on mem ports; 16,000 packets, bursts of 256";
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a million updates that put each key back into its own slot moved none.
    #[test]
    fn updates_displace() {
        let contestant = other("cuckoo", "cuckoo").contestant.unwrap();
        let n = 996_147;
        let mut table = known(&contestant, n).unwrap();
        let (mut changes, before) = (Changes::new(n), table.moves().unwrap());
        for _ in 0..20_000 {
            changes.one(&mut *table).unwrap();
        }
        let moved = table.moves().unwrap() - before;
        assert!(moved > 5_000, "{moved} moves");
        let (keys, values) = matching::keys_of(n / 2, station, 1 << 14, 0, 1);
        assert_eq!(table.stream(&keys).answers(), values);
    }
}
