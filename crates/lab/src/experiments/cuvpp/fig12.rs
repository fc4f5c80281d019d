//! `cuvpp/fig12`: time of an insertion into the cuckoo filter and moves that it
//! makes, against the filter's load.

use lookup::filter::CuckooWriter;
use lookup::hash::mix_128;

use crate::clock;
use crate::data::Rng;
use crate::lookups::Claim;
use crate::record::Bound;
use crate::record::Figure;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Fig12;

impl Experiment for Fig12 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        CLAIMS.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells(["16", "12", "8"], |context, bits| {
            clock::cores().last().map(|&core| clock::pin(core));
            filled(context.pick(11, 3), bits.parse().unwrap_or(16))
        })?;
        let verdicts = self.judge(&rows);
        let note = "the hash of a prefix is computed beforehand; a filter that refuses one is full: the row of \
             a load of 1.00 has those before it";
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "cuvpp/fig12",
    takes: Takes { full_s: 15.0, quick_s: 3.0 },
    help: "time and cuckoo moves of an insertion against the load of a filter of 1 M places",
    source: "CuVPP, figure 12",
    claim: "no moves until a load of 0.8, slightly more at 0.9, an abrupt peak when the filter is full",
    plots: &[
        plot("Time of an insertion", "insert_ns", "ns"),
        plot("Moves of an insertion", "moves_per_insert", "moves"),
    ],
};

const fn plot(title: &'static str, figure: &'static str, unit: &'static str) -> Plot {
    let (x, series) = ("load", "fingerprint_bits");
    Plot { title, figure, unit, x, series, panels: &[], style: Style::Lines }
}

const CLAIMS: &[Claim] = &[
    Claim::Judge(moves),
    Claim::Trend {
        text: "the time of an insertion grows with the load",
        figure: "insert_ns",
        along: "load",
        bound: Bound::more(),
        when: &[],
    },
];

/// What the text says of the moves, each width of fingerprints by itself. The last row that has a
/// figure is where the filter is full.
fn moves(rows: &[Row]) -> Vec<Verdict> {
    let mut widths: Vec<&str> = rows.iter().map(|row| row.label("fingerprint_bits")).collect();
    widths.dedup();
    let at = |bits: &str, load: f64| {
        let load = format!("{load:.2}");
        let of = [("fingerprint_bits", bits), ("load", &load)];
        rows.iter().find(|row| row.is(&of))?.median("moves_per_insert")
    };
    let full = |bits: &&str| {
        let of = rows.iter().filter(|row| row.label("fingerprint_bits") == *bits);
        Some(of.filter_map(|row| row.median("moves_per_insert")).next_back()? / at(bits, 0.9)?)
    };
    let early =
        rows.iter().filter(|row| row.label("load").parse().is_ok_and(|load: f64| load <= 0.8));
    let early: Vec<f64> = early.filter_map(|row| row.median("moves_per_insert")).collect();
    let rise = |bits: &&str| Some(at(bits, 0.9)? - at(bits, 0.8)?);
    let rises: Vec<f64> = widths.iter().filter_map(rise).collect();
    let peaks: Vec<f64> = widths.iter().filter_map(full).collect();
    let (moves, each) = ("moves an insertion", "moves more an insertion");
    vec![
        Bound::most(ZERO).counted().every().judge(
            "the number of cuckoo moves stays 0 until a load of 0.8 (0 to one decimal place)",
            &early,
            moves,
        ),
        Bound::within(ZERO, 1.0).every().judge(
            "it goes up slightly for 0.9: by less than one move an insertion",
            &rises,
            each,
        ),
        Bound::least(2.0).every().judge(
            "it abruptly peaks when the filter becomes full: to twice that of 0.9 and more",
            &peaks,
            "×",
        ),
    ]
}

/// What is 0 to one decimal place is less.
const ZERO: f64 = 0.05;

/// Fills a filter `times` times, in steps of 5 % of its places.
fn filled(times: usize, bits: u32) -> Result<Vec<Row>, Error> {
    let missing = |error: std::io::Error| Error::Missing {
        experiment: "cuvpp/fig12",
        what: format!("memory for a filter: {error}"),
    };
    let mut steps: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); STEPS];
    for seed in 0..times as u64 {
        let mut filter = CuckooWriter::new(PLACES, bits, 100).map_err(missing)?;
        let mut rng = Rng::new(seed);
        let step = filter.filter().entries() / STEPS;
        for (nanos, moves) in &mut steps {
            let hashes: Vec<u64> = (0..step).map(|_| mix_128(rng.wide(), seed)).collect();
            let (before, start) = (filter.moves(), clock::thread_time());
            let done = hashes.iter().take_while(|hash| filter.insert(**hash).is_ok()).count();
            let time = clock::thread_time() - start;
            // The last step ends where the filter is full.
            if done > 0 {
                nanos.push(time.as_nanos() as f64 / done as f64);
                moves.push((filter.moves() - before) as f64 / done as f64);
            }
            if done < step {
                break;
            }
        }
    }
    let row = |(i, (nanos, moves)): (usize, &(Vec<f64>, Vec<f64>))| {
        // The load in the middle of the step's end: what has been reached.
        let load = (i + 1) as f64 / STEPS as f64;
        let labels = [("load", format!("{load:.2}")), ("fingerprint_bits", bits.to_string())];
        let row = Row::new(labels);
        if nanos.is_empty() {
            return row.noting("the filter was full before");
        }
        row.with("insert_ns", Figure::least_is_best(nanos))
            .with("moves_per_insert", Figure::least_is_best(moves))
    };
    Ok(steps.iter().enumerate().map(row).collect())
}

const PLACES: usize = 1 << 20;
const STEPS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A rise to 0.4 moves at 0.8 is not 0, one of 3 moves not slight, and a tenth more no peak.
    #[test]
    fn moves_are_judged_at_every_load() {
        let judged = |at: [f64; 4]| {
            let row = |(load, moves): (&str, f64)| {
                let row = Row::new([("load", load), ("fingerprint_bits", "8")]);
                row.with("moves_per_insert", moves)
            };
            let mut rows: Vec<Row> =
                ["0.40", "0.80", "0.90", "0.95"].into_iter().zip(at).map(row).collect();
            let full = Row::new([("load", "1.00"), ("fingerprint_bits", "8")]);
            rows.push(full.noting("the filter was full before"));
            moves(&rows).iter().map(Verdict::holds).collect::<Vec<_>>()
        };
        assert_eq!(judged([0.0, 0.04, 0.3, 4.0]), [Some(true); 3]);
        assert_eq!(judged([0.06, 0.04, 3.1, 3.4]), [Some(false); 3]);
        assert_eq!(judged([0.0, 0.4, 0.4, 0.5]), [Some(false); 3]);
    }

    #[test]
    fn moves_begin_late() {
        let rows = filled(1, 16).unwrap();
        let moves = |load: &str| {
            let row = rows.iter().find(|row| row.is(&[("load", load)])).unwrap();
            row.median("moves_per_insert").unwrap_or_default()
        };
        assert!(moves("0.30") < 0.01 && moves("0.90") > moves("0.50"));
        // What is inserted before it is full counts.
        assert!(moves("1.00") > moves("0.95"));
    }
}
