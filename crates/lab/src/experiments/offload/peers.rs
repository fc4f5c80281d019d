//! `offload/peers`: every engine that runs on devices, on each of them.

use std::fmt;
use std::time::Duration;

use lookup::lpm::Exports;
use lookup::{Hop, Prefix};
use offload::Buffers;
use offload::calibrate::{choose, sweep};
use offload::clock::Clock;
use offload::crew::Share;

use crate::clock;
use crate::data::Traffic;
use crate::devices::{Bench, GPU, Limits, judge, wanted};
use crate::{Card, Context, Error, Experiment, Figure, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Peers;

const CARD: Card = Card {
    name: "offload/peers",
    takes: Takes { full_s: 90.0, quick_s: 15.0 },
    help: "engines on the device from end to end, on all cores and on one: both families",
    source: "issue on coprocessors",
    claim: "two cores do nearly twice what one does",
    plots: &[Plot {
        title: "Bulk lookups",
        figure: "rate_mlps",
        unit: "million lookups/s",
        x: "traffic",
        series: "engine+device",
        panels: &["family"],
        style: Style::Bars,
    }],
};

/// An engine and what it is asked.
struct Cell {
    family: &'static str,
    engine: &'static str,
    traffic: Traffic,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.engine, self.traffic)
    }
}

impl Experiment for Peers {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let name = context.pick("internet:1000000+200000", "internet:100000+50000");
        let (bench, table) = (Bench::new(CARD.name), context.load(name)?);
        let cells = cells::<u32>("ipv4").chain(cells::<u128>("ipv6"));
        let rows = context.cells(cells.collect::<Vec<_>>(), |context, cell| match cell.family {
            "ipv4" => rows(&bench, context, cell, &table.ipv4),
            _ => rows(&bench, context, cell, &table.ipv6),
        })?;
        let verdicts = self.judge(&rows);
        let note = "rate_mlps: from this machine's memory and back into it, copied to locked memory \
            and from it by one core; end_mlps: from locked memory; resident_mlps: addresses and hops stay on the \
            device; bus_mlps: what copies both ways at once would take";
        let isa = "isa: of the engine's bursts on the cores, whatever their number and beside a device; \
            ptx: a GPU's own instructions; a model of a device answers by the engine";
        let notes = vec![bench.what(), note.into(), isa.into()];
        Ok(context.record(rows, verdicts, notes))
    }
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |engine, device: &str| {
        let labels = [("engine", engine), ("device", device), ("traffic", "random")];
        rows.iter().find(|row| row.is(&labels))
    };
    let claim = "rutter4 on two cores does 1.8 times what it does on one";
    // The best of several turns: others may be at work on some of the cores.
    let rate = |device| {
        let row = of("rutter4", device)?;
        Some((row.figures.get("rate_mlps")?.best, row.label("isa")))
    };
    let threads = match (rate("two cores").or(rate("threads")), rate("one core")) {
        (Some((two, by)), Some((one, same))) if by == same => {
            Verdict::at_least(claim, two / one, 1.8, "times")
        }
        (Some(_), Some(_)) => Verdict::open(claim, "they have other instruction sets"),
        _ => Verdict::open(claim, "there is one core"),
    };
    let goal = |claim: &str, engine, figure: &str, least| {
        judge(rows, claim, |claim| {
            let share = of(engine, GPU)?.median(figure)?;
            Some(Verdict::at_least(claim, share, least, "of it"))
        })
    };
    let [reads, bus] = ["of_reads", "of_bus"];
    let least = |rows: &[Row]| {
        let rate = |row: &Row, device| {
            let of = |label| row.label(label);
            let labels = ["family", "engine", "traffic"].map(|label| (label, of(label)));
            let same = |other: &&Row| other.is(&labels) && other.label("device") == device;
            rows.iter().find(same)?.median("rate_mlps")
        };
        let all = rows.iter().filter(|row| row.label("device") == TOGETHER);
        let shares = all.filter_map(|row| {
            let alone = rate(row, GPU)?.max(rate(row, "threads")?);
            Some(row.median("rate_mlps")? / alone)
        });
        shares.reduce(f64::min)
    };
    let together = "device and cores together are never more than 2 % below the better one alone";
    vec![
        threads,
        judge(rows, together, |claim| {
            Some(Verdict::at_least(claim, least(rows)?, 0.98, "of it, at the least"))
        }),
        goal(
            "rutter4 does 60 % of the device's random reads by its own a lookup",
            "rutter4",
            reads,
            0.6,
        ),
        goal(
            "bloomfwd does 40 % of the device's random reads by its own a lookup",
            "bloomfwd",
            reads,
            0.4,
        ),
        goal(
            "rutter4 from end to end does 85 % of the bus, both ways at once",
            "rutter4",
            bus,
            0.85,
        ),
    ]
}

fn cells<A: Exports>(family: &'static str) -> impl Iterator<Item = Cell> {
    let all = [Traffic::Random, Traffic::Prefix, Traffic::Zipf];
    let of =
        move |&(engine, _): &(&'static str, _)| all.map(|traffic| Cell { family, engine, traffic });
    A::exported().iter().flat_map(of)
}

fn rows<A: Exports>(
    bench: &Bench,
    context: &mut Context,
    cell: &Cell,
    routes: &[(Prefix<A>, Hop)],
) -> Result<Vec<Row>, Error> {
    let rib = routes.iter().copied().collect();
    let dsts = cell.traffic.draw(routes, context.pick(1 << 23, 1 << 18), 1);
    let table = bench.table(cell.engine, &rib)?;
    let (wanted, isa) = (wanted(&table, &dsts), table.lpm().isa());
    let failed = |fault| bench.missing(&fault);
    let mut device = bench.device()?;
    device.load(&table).map_err(failed)?;
    bench.agrees(&mut *device, &dsts[..CHECKED.min(dsts.len())], &wanted)?;
    let points = sweep(&mut *device, 3, context.pick(1 << 21, 1 << 16), &bench.clock);
    let size = choose(&points.map_err(failed)?, None).map_or(CHECKED, |point| point.size);
    let moment = context.pick(Duration::from_millis(200), Duration::from_millis(10));
    let limits = bench.limits(&table, &dsts, &wanted, size, moment)?;
    let buffers = Buffers { size, depth: 3 };
    let mut beside = bench.crew(table, bench.cores()?)?;
    beside.join(device, buffers, Share::Fixed(1.0)).map_err(failed)?;
    let mut together = bench.crew(bench.table(cell.engine, &rib)?, bench.cores()?)?;
    together.join(bench.device()?, buffers, Share::Measured).map_err(failed)?;
    let all = clock::cores().len();
    let teams = [("threads", all), ("two cores", 2)]
        .into_iter()
        .filter(|&(name, cores)| all > 1 && (name == "threads" || cores < all));
    let mut teams = teams
        .map(|(name, cores)| {
            let cores = Box::new(bench.threads(cores)?);
            Ok((name, bench.crew(bench.table(cell.engine, &rib)?, cores)?))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let mut one = bench.crew(bench.table(cell.engine, &rib)?, Box::new(bench.one_core()?))?;
    let devices = [bench.kind, TOGETHER].into_iter().chain(teams.iter().map(|&(name, _)| name));
    let devices: Vec<&str> = devices.chain(["one core"]).collect();
    // In turns, so that what disturbs them disturbs all.
    let (real, mut rates) = (Clock::real(), vec![vec![]; devices.len()]);
    for _ in 0..context.pick(7, 3) {
        let mut turn = Vec::new();
        for crew in [&mut beside, &mut together] {
            turn.push(bench.rate(crew, &bench.clock, &dsts, &wanted)?);
        }
        for (_, team) in &mut teams {
            turn.push(bench.rate(team, &real, &dsts, &wanted)?);
        }
        // Whoever feeds it would be a second core.
        bench.keep_to_one_core();
        let rate = bench.rate(&mut one, &real, &dsts, &wanted);
        clock::unpin();
        turn.push(rate?);
        rates.iter_mut().zip(turn).for_each(|(rates, rate)| rates.push(rate));
    }
    Ok(devices
        .iter()
        .zip(&rates)
        .map(|(device, rates)| {
            let rate = Figure::most_is_best(rates);
            context.say(&format!("{device}: {cell}: {:.1} million/s", rate.median));
            let labels = [
                ("family", cell.family.to_string()),
                ("engine", cell.engine.into()),
                ("traffic", cell.traffic.to_string()),
                ("device", device.to_string()),
                ("isa", if *device == GPU { "ptx" } else { isa }.to_string()),
            ];
            let row = Row::new(labels).with("rate_mlps", rate);
            match &limits {
                Some(limits) if *device == bench.kind => beside_limits(context, cell, row, limits),
                _ => row,
            }
        })
        .collect())
}

/// What the device does beside what it could.
fn beside_limits(context: &mut Context, cell: &Cell, row: Row, limits: &Limits) -> Row {
    let Limits { resident, end_to_end, bus, reads } = *limits;
    context.say(&format!(
        "{cell}: {resident:.1} million/s resident, {end_to_end:.1} from end to end, {bus:.1} by the bus"
    ));
    let row = row.with("resident_mlps", resident).with("end_mlps", end_to_end);
    let row = row.with("bus_mlps", bus).with("of_bus", end_to_end / bus);
    let Some((lines, rate)) = reads else { return row };
    context.say(&format!("{cell}: {lines:.2} reads a lookup, {rate:.1} million random reads/s"));
    let row = row.with("lines", lines).with("reads_mps", rate);
    row.with("of_reads", resident / (rate / lines))
}

/// The device and the cores, at what is divided by rates.
const TOGETHER: &str = "together";

/// Answers that are looked at before anything is timed.
const CHECKED: usize = 1 << 16;
