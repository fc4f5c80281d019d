//! `science/verdicts`: each paper's headline claim under four ways to look up, two kinds of
//! tables and four kinds of traffic: where it holds, and where it flips.
//!
//! ```text
//!  scalar     one address after the other, each a call of its own
//!  portable   bursts of 256, no vector instructions
//!  avx2       bursts of 256, each side with the most that it has up to AVX2
//!  avx512     the same up to AVX-512
//! ```
//!
//! A cell is one headline at one way, table and traffic. Where neither side has more for a
//! set than for the one before, the cell would be the same once more, and is left out.

use std::collections::BTreeMap;

use super::stations;
use crate::data::{Traffic, kind};
use crate::lookups::{Entrant, Measure, Part, Study};
use crate::record::{Bound, Figure, Ruling, short};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Verdicts;

impl Experiment for Verdicts {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, context: &Context) -> &'static [&'static str] {
        STUDY.families(context)
    }

    fn takes_engine(&self, context: &Context, engine: &str) -> bool {
        STUDY.takes_engine(context, engine)
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        cells(rows).into_iter().map(|cell| cell.verdict).collect()
    }

    fn judge_anew(&self, record: &mut Record) {
        record.rows.retain(|row| row.label(HEADLINE).is_empty());
        let is_summary = |note: &str| {
            HEADLINES.iter().any(|headline| note.starts_with(&format!("{}, ", headline.paper)))
        };
        record.notes.retain(|note| !is_summary(note));
        let cells = cells(&record.rows);
        record.notes.extend((0..HEADLINES.len()).map(|headline| summary(headline, &cells)));
        record.verdicts = cells.iter().map(|cell| cell.verdict.clone()).collect();
        record.rows.extend(cells.into_iter().map(|cell| cell.row));
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let stations = stations::rows(context)?;
        let mut record = STUDY.run(context)?;
        record.rows.extend(stations);
        self.judge_anew(&mut record);
        Ok(record)
    }
}

static STUDY: Study = Study {
    card: &CARD,
    parts,
    claims: &[],
    notes: &[
        "avx2, avx512: a side without vector instructions is what it is, as on any such machine; \
         the folders of the papers compare equal instruction sets",
        "headlines of several figures have the least and the most of them as bounds: 1.13 to \
         1.72 × Poptrie is of three kinds of traffic",
        "CuckooSwitch: no instruction sets to choose, so that each table is as its library is \
         compiled; random stations, of which all are known, or half; the rivals of its figure 7, \
         where the build has them",
        "the claims of the thesis' chapter 4 are of whole workers: they are in gatekeeper/fig4.6",
    ],
};

const CARD: Card = Card {
    name: "science/verdicts",
    takes: Takes { full_s: 330.0, quick_s: 45.0 },
    help: "each paper's headline claim by way of lookup, table and traffic: where it holds and flips",
    source: "issue on the lab, point 2.5",
    claim: "a claim of a paper holds for its way to look up, its table and its traffic, not for all",
    plots: &[Plot {
        title: "What the one side has over the other",
        figure: RATIO,
        unit: "× (1: equal)",
        x: "way",
        series: "traffic",
        panels: &[HEADLINE, "table"],
        style: Style::LogY,
    }],
};

/// What a paper says in its first lines: the one side has so much over the other.
struct Headline {
    paper: &'static str,
    text: &'static str,
    family: &'static str,
    of: &'static str,
    to: &'static str,
    bound: Bound,
    /// Of which tables it is said.
    tables: fn(&str) -> bool,
}

const HEADLINES: &[Headline] = &[
    v4("DXR", "D18R is about 40 × the BSD radix tree", "D18R", "bsd-radix", Bound::gain_of(40.0)),
    sail("SAIL_L is 34 to 68 × LC-trie", "lc-trie", 34.53, 68.46),
    sail("SAIL_L is 6.7 to 31 × Tree Bitmap", "tree-bitmap", 6.73, 31.44),
    sail("SAIL_L is 4.2 to 7.7 × Lulea", "lulea", 4.24, 7.66),
    sail("SAIL_L is 2.3 to 5.1 × D18R", "D18R", 2.27, 5.06),
    sail("SAIL_L is 1.13 to 1.72 × Poptrie", "poptrie", 1.13, 1.72),
    v4("Bloomfwd", "up to 3.8 × MIHT", "bloomfwd", "miht", Bound::gain(1.0, 3.8)),
    v6(v4("Bloomfwd", "up to 5.1 × MIHT", "bloomfwd6", "miht6", Bound::gain(1.0, 5.1))),
    cuvpp("13 to 24 % faster than base VPP", "vpp-hash", 1.13, 1.24),
    cuvpp("3 to 51 % faster than Bloom", "vpp-bloom", 1.03, 1.51),
    cuvpp("7 to 128 % faster than a trie", "vpp-trie", 1.07, 2.28),
    mac("faster than TBB's concurrent_hash_map", stations::RIVALS[0]),
    mac("faster than std::unordered_map", stations::RIVALS[1]),
    mac("faster than sparse_hash_map", stations::RIVALS[2]),
    Headline {
        tables: |table| !stations::are_few(table),
        ..mac("faster than dense_hash_map, but with small tables", stations::RIVALS[3])
    },
    Headline {
        of: stations::RIVALS[3],
        to: stations::CUCKOO,
        tables: stations::are_few,
        ..mac("with small tables dense_hash_map is faster", "")
    },
];

const fn v4(
    paper: &'static str,
    text: &'static str,
    of: &'static str,
    to: &'static str,
    bound: Bound,
) -> Headline {
    Headline { paper, text, family: "ipv4", of, to, bound, tables: |_| true }
}

const fn cuvpp(text: &'static str, to: &'static str, least: f64, most: f64) -> Headline {
    v6(v4("CuVPP", text, "cuvpp", to, Bound::gain(least, most)))
}

const fn mac(text: &'static str, to: &'static str) -> Headline {
    let headline = v4("CuckooSwitch", text, stations::CUCKOO, to, Bound::more());
    Headline { family: stations::FAMILY, ..headline }
}

const fn v6(headline: Headline) -> Headline {
    Headline { family: "ipv6", ..headline }
}

const fn sail(text: &'static str, to: &'static str, least: f64, most: f64) -> Headline {
    v4("SAIL", text, "sail-l", to, Bound::gain(least, most))
}

fn parts(context: &Context) -> Vec<Part> {
    let traffic: &[Traffic] = context.pick(&Traffic::ALL, &[Traffic::Random, Traffic::Zipf]);
    let measured = |part: Part, entrants: Vec<Entrant>| {
        part.entrants(entrants)
            .each_isa()
            .traffic(traffic)
            .measure(&[Measure::Rate, Measure::Scalar])
    };
    let of = |name: &String| {
        let ipv4 = [
            "bsd-radix",
            "sail-l",
            "lc-trie",
            "tree-bitmap",
            "lulea",
            "poptrie",
            "bloomfwd",
            "miht",
        ];
        let mut ipv4 = ipv4.map(Entrant::new).to_vec();
        ipv4.push(Entrant::new("dxr").named("D18R").option("k", 18));
        let mut ipv6 =
            ["cuvpp", "vpp-hash", "vpp-bloom", "vpp-trie", "miht6"].map(Entrant::new).to_vec();
        ipv6.push(Entrant::new("bloomfwd6").option("levels", 5));
        [measured(Part::ipv4(name), ipv4), measured(Part::ipv6(name), ipv6)]
    };
    let usual = context.pick("internet:1000000+200000", "internet:50000+10000");
    context.beside(&[usual]).iter().flat_map(of).collect()
}

/// One headline at one way, table and traffic.
struct Cell {
    headline: usize,
    place: String,
    ratio: f64,
    verdict: Verdict,
    row: Row,
}

/// All cells that `rows` have both sides of.
fn cells(rows: &[Row]) -> Vec<Cell> {
    let mut places = BTreeMap::<(&str, &str, &str), Vec<&Row>>::new();
    for row in rows.iter().filter(|row| !row.label("traffic").is_empty()) {
        let place = (row.label("family"), row.label("table"), row.label("traffic"));
        places.entry(place).or_default().push(row);
    }
    let mut cells = Vec::new();
    for (i, headline) in HEADLINES.iter().enumerate() {
        let is_of = |(family, table, _): &(&str, &str, &str)| {
            *family == headline.family && (headline.tables)(table)
        };
        for ((_, table, traffic), rows) in places.iter().filter(|(place, _)| is_of(place)) {
            let mut before = None;
            for way in WAYS {
                let sides = [headline.of, headline.to].map(|engine| side(rows, engine, way));
                let [Some(of), Some(to)] = sides else { continue };
                if before == Some((of.1, to.1)) {
                    continue;
                }
                before = Some((of.1, to.1));
                let place = format!("{}, {traffic}, {way}", table_of(table));
                cells.extend(cell(i, place, (table, traffic, way), (of.0, to.0)));
            }
        }
    }
    cells
}

/// A generated table says that it is one.
fn table_of(table: &str) -> String {
    match kind(table) {
        "generated" => format!("generated {table}"),
        _ => table.to_string(),
    }
}

/// The rate of `engine` at `way`, and with which instructions: the most that it has up to
/// those of that name.
fn side<'r>(rows: &[&'r Row], engine: &str, way: &'static str) -> Option<(Figure, &'r str)> {
    let of = |isa: &str| {
        rows.iter().find(|row| row.label("engine") == engine && row.label("isa") == isa)
    };
    if way == SCALAR {
        let row = of(WAYS[1])?;
        return Some((*row.figures.get("scalar_mlps")?, SCALAR));
    }
    let most = WAYS.iter().position(|known| *known == way)?;
    let row = WAYS[1..=most].iter().rev().find_map(|isa| of(isa))?;
    Some((*row.figures.get("rate_mlps")?, row.label("isa")))
}

fn cell(
    i: usize,
    place: String,
    (table, traffic, way): (&str, &str, &str),
    (of, to): (Figure, Figure),
) -> Option<Cell> {
    let headline = &HEADLINES[i];
    let over = |of: f64, to: f64| (to > 0.0).then(|| of / to);
    let figure = Figure {
        median: over(of.median, to.median)?,
        best: over(of.best, to.best)?,
        spread: of.spread.hypot(to.spread),
        samples: of.samples.min(to.samples),
    };
    let name = format!("{}: {}", headline.paper, headline.text);
    let verdict = headline.bound.judge(
        format!("{name} [{}, {place}]", headline.family),
        &[figure.median],
        "×",
    );
    let labels = [
        (HEADLINE, name.as_str()),
        ("family", headline.family),
        ("table", table),
        ("traffic", traffic),
        ("way", way),
    ];
    let row = Row::new(labels);
    Some(Cell { headline: i, place, ratio: figure.median, verdict, row: row.with(RATIO, figure) })
}

/// In how many cells the headline holds, and in which the other side is ahead.
fn summary(headline: usize, cells: &[Cell]) -> String {
    let of: Vec<&Cell> = cells.iter().filter(|cell| cell.headline == headline).collect();
    let Headline { paper, text, family, .. } = HEADLINES[headline];
    let name = format!("{paper}, {text} ({family})");
    let count = |ruling| of.iter().filter(|cell| cell.verdict.ruling == ruling).count();
    let flipped: Vec<String> = of
        .iter()
        .filter(|cell| cell.ratio < 1.0)
        .map(|cell| format!("{} ({} ×)", cell.place, short(cell.ratio)))
        .collect();
    let flips = match flipped.is_empty() {
        true => "it flips nowhere".to_string(),
        false => format!("it flips at {}", flipped.join("; ")),
    };
    format!(
        "{name}: of {} cells {} as stated, {} stronger, {} within noise, {} contradicted; {flips}",
        of.len(),
        count(Ruling::AsStated),
        count(Ruling::Stronger),
        count(Ruling::WithinNoise),
        count(Ruling::Contradicted),
    )
}

const HEADLINE: &str = "headline";
const RATIO: &str = "ratio";
const SCALAR: &str = "scalar";
const WAYS: [&str; 4] = [SCALAR, "portable", "avx2", "avx512"];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, isa: &str, rates: [f64; 2]) -> Row {
        let labels = [
            ("engine", engine),
            ("family", "ipv4"),
            ("table", "internet:1000"),
            ("traffic", "random"),
            ("isa", isa),
        ];
        let row = Row::new(labels);
        row.with("rate_mlps", rates[0]).with("scalar_mlps", rates[1])
    }

    #[test]
    fn a_headline_has_a_cell_for_each_way_that_differs() {
        let rows = [
            row("D18R", "portable", [80.0, 20.0]),
            row("D18R", "avx2", [200.0, 20.0]),
            row("bsd-radix", "portable", [2.0, 40.0]),
        ];
        let cells = cells(&rows);
        let found: Vec<(&str, f64)> =
            cells.iter().map(|cell| (cell.row.label("way"), cell.ratio)).collect();
        // Neither has AVX-512: that would be the cell of AVX2 once more.
        assert_eq!(found, [("scalar", 0.5), ("portable", 40.0), ("avx2", 100.0)]);
        let rulings: Vec<Ruling> = cells.iter().map(|cell| cell.verdict.ruling).collect();
        assert_eq!(rulings, [Ruling::Contradicted, Ruling::AsStated, Ruling::Stronger]);
        let said = summary(0, &cells);
        assert!(said.contains("of 3 cells 1 as stated, 1 stronger, 0 within noise"), "{said}");
        assert!(
            said.ends_with("it flips at generated internet:1000, random, scalar (0.5 ×)"),
            "{said}"
        );
    }

    #[test]
    fn stations_have_a_cell_for_each_way_and_traffic() {
        let row = |engine: &str, rates| {
            let row = row(engine, "portable", rates).labelled("family", "mac");
            row.labelled("table", "stations:9000000")
        };
        let rows = [row("cuckoo", [80.0, 10.0]), row("google-dense", [20.0, 20.0])];
        let cells = cells(&rows);
        let found: Vec<(&str, f64)> =
            cells.iter().map(|cell| (cell.row.label("way"), cell.ratio)).collect();
        assert_eq!(found, [("scalar", 0.5), ("portable", 4.0)]);
        assert!(cells[0].verdict.claim.contains("[mac, stations:9000000, random, scalar]"));
    }

    /// The paper's exception: with small tables the other side is ahead.
    #[test]
    fn small_tables_have_a_headline_of_their_own() {
        let ruled = |table: &str, dense: f64| {
            let row = |engine: &str, rate| {
                let row = row(engine, "portable", [rate, rate]).labelled("family", "mac");
                row.labelled("table", table)
            };
            let rulings = Verdicts.judge(&[row("cuckoo", 10.0), row("google-dense", dense)]);
            rulings.into_iter().map(|verdict| verdict.ruling).collect::<Vec<_>>()
        };
        let dense = |table| [20.0, 5.0].map(|rate| ruled(table, rate));
        let [yes, no] = [vec![Ruling::AsStated; 2], vec![Ruling::Contradicted; 2]];
        assert_eq!(dense("stations:996147"), [yes.clone(), no.clone()]);
        assert_eq!(dense("stations:7969177"), [no, yes]);
    }

    #[test]
    fn judged_anew_it_has_its_cells_and_summaries_once() {
        let rows =
            vec![row("D18R", "portable", [80.0, 2.0]), row("bsd-radix", "portable", [2.0; 2])];
        let mut record = Record { rows, notes: vec!["of the run".into()], ..Record::default() };
        Verdicts.judge_anew(&mut record);
        let once = (record.rows.clone(), record.notes.clone());
        assert_eq!((once.0.len(), once.1.len()), (4, 1 + HEADLINES.len()));
        Verdicts.judge_anew(&mut record);
        assert_eq!((record.rows, record.notes), once);
    }

    #[test]
    fn a_side_that_did_not_take_part_makes_no_cell() {
        assert!(cells(&[row("sail-l", "portable", [80.0, 20.0])]).is_empty());
        let said = summary(1, &[]);
        assert!(said.contains("of 0 cells"), "{said}");
    }
}
