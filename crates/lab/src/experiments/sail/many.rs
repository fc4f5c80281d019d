//! `sail/fig3.12`: SAIL_M, many FIBs in one overlay.

use lookup::lpm::Intervals;
use lookup::lpm::sail::m::OverlayWriter;
use lookup::sync::Domain;
use lookup::{Hop, Rib};

use crate::contest;
use crate::data::{Rng, Traffic};
use crate::record::Bound;
use crate::slices::{Variant, repeat};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Fig312;

impl Experiment for Fig312 {
    fn card(&self) -> &'static Card {
        &Card {
            name: "sail/fig3.12",
            takes: Takes { full_s: 75.0, quick_s: 5.0 },
            help: "lookup rate and memory of SAIL_M against the number of FIBs in one overlay",
            source: "thesis, figure 3.12",
            claim: "132 Mpps for random traffic and 366 for prefix-based, on average over 1 to 12 FIBs",
            plots: &[
                Plot {
                    title: "Lookups in 1 to 12 FIBs",
                    figure: "rate_mlps",
                    unit: "million lookups/s",
                    x: "fibs",
                    series: "traffic",
                    panels: &[],
                    style: Style::Lines,
                },
                Plot {
                    title: "Memory",
                    figure: "bytes_per_fib",
                    unit: "bytes a FIB",
                    x: "fibs",
                    series: "traffic",
                    panels: &[],
                    style: Style::Lines,
                },
            ],
        }
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        on_average(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let counts = context.pick(vec![1, 2, 4, 6, 8, 10, 12], vec![1, 4, 12]);
        let size = context.pick(467_000, 200_000);
        let rows = context.cells(counts, |context, fibs| {
            let names = (1..=*fibs).map(|seed| format!("internet:{size},{seed}"));
            let ribs: Result<Vec<Rib<u32>>, Error> =
                names.map(|name| Ok(context.load(&name)?.ipv4.iter().copied().collect())).collect();
            measure(context, &ribs?)
        })?;
        let verdicts = self.judge(&rows);
        let notes = ["each destination goes to a random FIB of the overlay, in bursts of 256"];
        Ok(context.record(rows, verdicts, notes.map(String::from).to_vec()))
    }
}

/// On average over the numbers of FIBs, prefix-based traffic over random traffic.
fn on_average(rows: &[Row]) -> Vec<Verdict> {
    let text =
        "on average prefix-based traffic is 2.8 × as fast as random traffic (366 and 132 Mpps)";
    let average = |traffic: &str| {
        let of = rows.iter().filter(|row| row.label("traffic") == traffic);
        let rates: Vec<f64> = of.filter_map(|row| row.median("rate_mlps")).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let ratio = average("swept").zip(average("random")).map(|(swept, random)| swept / random);
    vec![Bound::gain_of(366.0 / 132.0).judge(text, &ratio.into_iter().collect::<Vec<_>>(), "×")]
}

fn measure(context: &Context, ribs: &[Rib<u32>]) -> Result<Vec<Row>, Error> {
    let row = |traffic: Traffic| {
        Row::new([("fibs", ribs.len().to_string()), ("traffic", traffic.to_string())])
    };
    let each: Vec<&Rib<u32>> = ribs.iter().collect();
    let overlay = match OverlayWriter::build(&each, &Domain::new()) {
        Ok(writer) => writer.table(),
        Err(refusal) => return Ok(vec![row(Traffic::Random).noting(refusal.to_string())]),
    };
    let flat: Vec<_> = ribs.iter().map(|rib| Intervals::new(rib.iter())).collect();
    let all: Vec<_> = ribs[0].iter().collect();
    let mut rng = Rng::new(1);
    let (mut loads, mut rows) = (Vec::new(), Vec::new());
    for traffic in [Traffic::Random, Traffic::Swept, Traffic::Prefix] {
        let dsts = traffic.draw(&all, DSTS, 1);
        let fibs: Vec<u16> = dsts.iter().map(|_| rng.below(ribs.len()) as u16).collect();
        let want = |(fib, dst): (&u16, &u32)| flat[usize::from(*fib)].lookup(*dst);
        let want: Vec<Hop> = fibs.iter().zip(&dsts).map(want).collect();
        let mut hops = vec![Hop::NONE; dsts.len()];
        overlay.lookup_batch(&fibs, &dsts, &mut hops);
        if hops == want {
            rows.push(row(traffic).checked(contest::checksum(&want)));
            loads.push((fibs, dsts));
        } else {
            rows.push(row(traffic).noting("answers differ from the flattened intervals"));
        }
    }
    let mut variants: Vec<Variant<'_>> = loads
        .iter()
        .map(|(fibs, dsts)| {
            let (overlay, mut hops) = (&overlay, [Hop::NONE; BURST]);
            Variant::new(
                "",
                repeat(DSTS as u64, move || {
                    for (fibs, dsts) in fibs.chunks(BURST).zip(dsts.chunks(BURST)) {
                        overlay.lookup_batch(fibs, dsts, &mut hops[..dsts.len()]);
                        std::hint::black_box(&mut hops);
                    }
                    0
                }),
            )
        })
        .collect();
    let mut timings = context.measure(&mut variants).into_iter();
    let each_fib = overlay.bytes() as f64 / ribs.len() as f64;
    let timed = |row: Row| match timings.next().filter(|_| row.note.is_none()) {
        Some(timing) => {
            row.with("rate_mlps", timing.rate.scaled(1e-6)).with("bytes_per_fib", each_fib)
        }
        None => row,
    };
    Ok(rows.into_iter().map(timed).collect())
}

const DSTS: usize = 1 << 18;
const BURST: usize = 256;
