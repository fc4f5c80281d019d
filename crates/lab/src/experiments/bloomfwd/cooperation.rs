//! `bloomfwd/fig9` and `fig10`: a coprocessor, its buffers, and the work divided between it and the cores.

use std::fmt;
use std::time::Duration;

use lookup::Rib;
use offload::Buffers;
use offload::calibrate::{Point, choose, measure, sweep};
use offload::crew::Share;

use super::AS65000;
use crate::data::Traffic;
use crate::devices::{Bench, judge, wanted};
use crate::lookups::claims::ratios;
use crate::record::Bound;
use crate::{Card, Context, Error, Experiment, Figure, Plot, Record, Row, Style, Takes, Verdict};

/// Figure 9.
pub struct Fig9;

/// Figure 10.
pub struct Fig10;

const FIG9: Card = Card {
    name: "bloomfwd/fig9",
    takes: Takes { full_s: 20.0, quick_s: 5.0 },
    help: "rate and latency of a device by the size of its buffers, synchronous and asynchronous",
    source: "Bloomfwd, figure 9 and section 6.7",
    claim: "asynchronous transfers are better in all cases, up to 1.13 times; buffers of 4 Mi addresses are best",
    plots: &[
        plot("Rate by buffer", "rate_mlps", "million lookups/s", "buffer", "transfers"),
        plot("Latency by buffer", "latency_ms", "ms", "buffer", "transfers"),
    ],
};

const FIG10: Card = Card {
    name: "bloomfwd/fig10",
    takes: Takes { full_s: 30.0, quick_s: 8.0 },
    help: "a device and the cores on one input, by the share of the device; beside the automatic one",
    source: "Bloomfwd, figure 10 and section 6.7",
    claim: "cooperation gains 1.18 times over the device alone, 1.33 with asynchrony; shares as the \
            rates are best",
    plots: &[plot("Rate by share", "rate_mlps", "million lookups/s", "share", "device")],
};

const fn plot(
    title: &'static str,
    figure: &'static str,
    unit: &'static str,
    x: &'static str,
    series: &'static str,
) -> Plot {
    Plot { title, figure, unit, x, series, panels: &[], style: Style::Bars }
}

/// A size, and how many batches are under way.
#[derive(Clone, Copy)]
struct Cell(Buffers);

impl Cell {
    fn transfers(self) -> &'static str {
        if self.0.depth == 1 { "synchronous" } else { "asynchronous" }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.size, self.transfers())
    }
}

impl Experiment for Fig9 {
    fn card(&self) -> &'static Card {
        &FIG9
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        let best = |transfers: &str| {
            let rates = rows.iter().filter(|row| row.label("transfers") == transfers);
            rates.filter_map(|row| row.median("rate_mlps")).reduce(f64::max)
        };
        let text = "asynchronous transfers are better in all cases, up to 1.13 times";
        let gain = judge(rows, text, |claim| {
            let found =
                ratios(rows, "rate_mlps", ("transfers", "asynchronous", "synchronous"), &[]);
            Some(UP_TO.judge(claim, &found, "times"))
        });
        let size = judge(rows, "buffers of 4 Mi addresses are best", |claim| {
            let large = rows
                .iter()
                .filter(|row| row.is(&[("transfers", "asynchronous"), ("buffer", "4194304")]));
            let large = large.filter_map(|row| row.median("rate_mlps")).next()?;
            Some(Bound::about(1.0).judge(claim, &[large / best("asynchronous")?], "of the best"))
        });
        vec![gain, size]
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let bench = Bench::new(FIG9.name);
        let routes = context.load(AS65000)?.ipv4.clone();
        let table = bench.table("bloomfwd", &routes.iter().copied().collect::<Rib<u32>>())?;
        let mut device = bench.device::<u32>()?;
        device.load(&table).map_err(|fault| bench.missing(&fault))?;
        let dsts = Traffic::Uniform.draw(&routes, CHECKED, 1);
        bench.agrees(&mut *device, &dsts, &wanted(&table, &dsts))?;
        let moment = context.pick(Duration::from_millis(300), Duration::from_millis(20));
        let sizes = (12..=context.pick(24, 20)).step_by(2).map(|bits| 1_usize << bits);
        let cells = sizes.flat_map(|size| [1, 2].map(|depth| Cell(Buffers { size, depth })));
        let rows = context.cells(cells.collect::<Vec<_>>(), |context, cell| {
            let points = (0..bench.turns()).map(|_| {
                let point = measure(&mut *device, cell.0, moment, &bench.clock);
                point.map_err(|fault| bench.missing(&fault))
            });
            let points = points.collect::<Result<Vec<_>, _>>()?;
            let of = |figure: fn(&Point) -> f64| points.iter().map(figure).collect::<Vec<_>>();
            let rate = Figure::most_is_best(&of(|point| point.rate / 1e6));
            let latency = Figure::least_is_best(&of(|point| point.latency.as_secs_f64() * 1e3));
            let (now, ms) = (rate.median, latency.median);
            context.say(&format!("{}: {cell}: {now:.1} million/s, {ms:.3} ms", bench.kind));
            let labels = [
                ("device", bench.kind.to_string()),
                ("transfers", cell.transfers().into()),
                ("buffer", cell.0.size.to_string()),
            ];
            Ok(vec![Row::new(labels).with("rate_mlps", rate).with("latency_ms", latency)])
        })?;
        let verdicts = self.judge(&rows);
        let notes = vec![bench.what(), "random addresses".into()];
        Ok(context.record(rows, verdicts, notes))
    }
}

impl Experiment for Fig10 {
    fn card(&self) -> &'static Card {
        &FIG10
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        let of = |share: &str| rate(rows, share);
        let fixed = || rows.iter().filter(|row| row.label("share").parse::<u32>().is_ok());
        let best = || fixed().filter_map(|row| row.median("rate_mlps")).reduce(f64::max);
        let gain = judge(rows, "cooperation gains 1.18 times over the device alone", |claim| {
            Some(Bound::gain_of(1.18).judge(claim, &[best()? / of("100")?], "times"))
        });
        let both = judge(rows, "asynchrony and cooperation gain 1.33 times together", |claim| {
            Some(Bound::gain_of(1.33).judge(claim, &[best()? / of(SYNCHRONOUS)?], "times"))
        });
        let shared = judge(rows, "shares as the rates are best", |claim| {
            let shared = of(&by_rates(rows)?)? / best()?;
            Some(Bound::about(1.0).judge(claim, &[shared], "of the best"))
        });
        let split = "the automatic division is within 3 % of the best share";
        let split = judge(rows, split, |claim| {
            Some(Verdict::at_least(claim, of("automatic")? / best()?, 0.97, "of the best"))
        });
        vec![gain, both, shared, split]
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let bench = Bench::new(FIG10.name);
        let routes = context.load(AS65000)?.ipv4.clone();
        let table = bench.table("bloomfwd", &routes.iter().copied().collect::<Rib<u32>>())?;
        let dsts = Traffic::Uniform.draw(&routes, context.pick(1 << 25, 1 << 22), 1);
        let wanted = wanted(&table, &dsts);
        let failed = |fault| bench.missing(&fault);
        // Profiled before, as in the paper.
        let (mut device, mut cores) = (bench.device::<u32>()?, bench.cores::<u32>()?);
        device.load(&table).and_then(|()| cores.load(&table)).map_err(failed)?;
        let points = sweep(&mut *device, 2, context.pick(1 << 21, 1 << 16), &bench.clock);
        let point = choose(&points.map_err(failed)?, None);
        let alone = Buffers { size: 16 << 10, depth: 2 * cores.capabilities().at_once };
        let alone = measure(&mut *cores, alone, Duration::from_millis(50), &bench.clock);
        let (size, point) = point.map_or((CHECKED, 0.0), |point| (point.size, point.rate));
        let alone = alone.map_err(failed)?.rate;
        let mut crew = bench.crew(table, cores)?;
        let share = |tenth| (format!("{}", 10 * tenth), 3, Share::Fixed(f64::from(tenth) / 10.0));
        let others = [(SYNCHRONOUS, 1, Share::Fixed(1.0)), ("automatic", 3, Share::Measured)];
        let others = others.map(|(name, depth, share)| (name.to_string(), depth, share));
        let shares: Vec<_> = (0..=10).map(share).chain(others).collect();
        let names: Vec<String> = shares.iter().map(|(name, ..)| name.clone()).collect();
        let rows = context.cells(names, |context, name| {
            let found = shares.iter().find(|(other, ..)| other == name);
            let &(_, depth, share) = found.expect("it is one of them");
            crew.join(bench.device()?, Buffers { size, depth }, share).map_err(failed)?;
            crew.profiled(point, alone);
            let rates = (0..bench.turns())
                .map(|_| bench.rate(&mut crew, &bench.clock, &dsts, &wanted))
                .collect::<Result<Vec<_>, _>>()?;
            let rate = Figure::most_is_best(&rates);
            context.say(&format!("{}: share {name}: {:.1} million/s", bench.kind, rate.median));
            let labels = [("device", bench.kind.to_string()), ("share", name.clone())];
            Ok(vec![Row::new(labels).with("rate_mlps", rate)])
        })?;
        let by_rates = by_rates(&rows).unwrap_or_default();
        let verdicts = self.judge(&rows);
        let note = format!(
            "alone, the device does {:.1} and the cores do {:.1} million a second; batches of {size} \
             addresses, as calibrated. By the rates of the shares 100 and 0, in the same pipeline, the \
             device gets {by_rates} %",
            point / 1e6,
            alone / 1e6
        );
        Ok(context.record(rows, verdicts, vec![bench.what(), note]))
    }
}

/// The rate at a share of the device.
fn rate(rows: &[Row], share: &str) -> Option<f64> {
    rows.iter().find(|row| row.label("share") == share)?.median("rate_mlps")
}

/// The share of the device by the rates of each side alone, of those measured. Rates as in the
/// pipeline: what one core copies for the device is less than the device does.
fn by_rates(rows: &[Row]) -> Option<String> {
    let (device, cores) = (rate(rows, "100")?, rate(rows, "0")?);
    Some(format!("{:.0}", 10.0 * (10.0 * device / (device + cores)).round()))
}

/// The device alone, without a second batch under way: what the paper's gains are over.
const SYNCHRONOUS: &str = "100, synchronous";

/// In all cases, and 1.13 times in the best one.
const UP_TO: Bound = Bound::gain(1.0, 1.13).every();

/// Answers that are looked at before anything is timed.
const CHECKED: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruling::{AsStated, Contradicted, Stronger};

    /// No gain is within "up to 1.13"; a loss in one case is not.
    #[test]
    fn a_gain_of_up_to_has_no_least() {
        let ruled = |found: &[f64]| UP_TO.judge("", found, "times").ruling;
        assert_eq!(ruled(&[1.0, 1.02, 1.13]), AsStated);
        assert_eq!(ruled(&[1.1, 1.0, 0.8]), Contradicted);
        assert_eq!(ruled(&[1.3, 1.5]), Stronger);
    }
}
