//! `router/memory`: what a route costs in total: the engine's table, the store
//! that it is built from, the engine's writer, next hops, and the control
//! thread's own tables, as the process grows by them.

use std::fs;
use std::process::Command;

use lookup::lpm::Engines;
use lookup::{Addr, Hop, Prefix};
use tables::event::{Event, How, Path, Route, Source, Target};
use tables::{Control, Family, Net};

use super::control::{P0, control, p0_is_up};
use super::half::Half;
use crate::data::Table;
use crate::record::short;
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Memory;

impl Experiment for Memory {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let usual4 = context.pick(
            &["internet:10000", "internet:100000", "internet:1000000"][..],
            &["internet:1000000"],
        );
        let usual6 = context.pick(
            &["internet6:10000", "internet6:100000", "internet6:200000"][..],
            &["internet6:200000"],
        );
        let halves = Half::all(context, usual4, usual6);
        let rows = context.cells(halves, |context, half| {
            half.table(context)?; // loaded again where it is measured
            apart(half)
        })?;
        let note = "the growth of a process of its own, as the kernel counts what is resident; \
                    engines and next hops map whole tables at once, so small tables look dear";
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "router/memory",
    takes: Takes { full_s: 12.0, quick_s: 2.0 },
    help: "bytes a route in total: table, store, writer, next hops, control's own tables",
    source: "issue on the router",
    claim: "the store and the engine's writer take at most 24 bytes an IPv4 route, 40 an IPv6 route",
    plots: &[Plot {
        title: "Memory of a full table",
        figure: "resident_per_route",
        unit: "bytes a route",
        x: "prefixes",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

/// [`serve`] in a process of its own: in this one, what others have freed would
/// serve it, and it would grow by nothing.
fn apart(half: &Half) -> Result<Vec<Row>, Error> {
    let missing = |what: String| Error::Missing { experiment: CARD.name, what };
    let program = std::env::current_exe().map_err(|error| missing(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["memory", half.family, &half.name]);
    // glibc: what is freed goes back to the kernel at once.
    command.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "0");
    let output = command.output().map_err(|error| missing(error.to_string()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| missing(String::from_utf8_lossy(&output.stderr).trim().into()))
}

/// Measures routes of `family` (`ipv4`, `ipv6`) of a table in this process, and prints
/// the rows as JSON.
///
/// # Errors
/// When the table cannot be read, or not all of its routes are taken.
pub fn serve(family: &str, table: &str) -> Result<(), Error> {
    let table = Table::load(table)?;
    let rows = match family {
        "ipv4" => measure(&table.ipv4, Family::V4),
        _ => measure(&table.ipv6, Family::V6),
    }?;
    println!("{}", serde_json::to_string(&rows).expect("rows are plain data"));
    Ok(())
}

fn measure<A: Engines>(routes: &[(Prefix<A>, Hop)], family: Family) -> Result<Vec<Row>, Error> {
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |what: String| Error::Wrong { experiment: CARD.name, what };
    let (mut control, _domain) = control().map_err(failed)?;
    control.handle(&[p0_is_up()]);
    let before = resident();
    for routes in routes.chunks(BATCH) {
        let events: Vec<Event> = routes.iter().filter_map(|(p, hop)| event(p, *hop)).collect();
        control.handle(&events);
    }
    let info = settled(&mut control, family).ok_or_else(|| failed("no such table".into()))?;
    let after = resident();
    let taken = info.routes.min(info.prefixes);
    if (taken as usize) < routes.len() {
        return Err(failed(format!("{taken} of {} routes were taken", routes.len())));
    }
    let n = routes.len() as f64;
    let row = Row::new([
        ("family", A::FAMILY.to_string()),
        ("prefixes", routes.len().to_string()),
        ("engine", info.engine.to_string()),
    ]);
    let row = row
        .with("table_bytes", info.table_bytes as f64)
        .with("table_per_route", info.table_bytes as f64 / n)
        .with("store_per_route", info.rib_bytes as f64 / n)
        .with("writer_per_route", info.writer_bytes as f64 / n)
        .with("next_hops_bytes", control.hop_bytes() as f64)
        .with("resident_bytes", after.saturating_sub(before) as f64)
        .with("resident_per_route", after.saturating_sub(before) as f64 / n);
    Ok(vec![row])
}

/// A route as the kernel reports it, by one of a few gateways.
fn event<A: Addr>(prefix: &Prefix<A>, hop: Hop) -> Option<Event> {
    let net = Net::covering(prefix.first().to_ip().into(), prefix.len())?;
    let via = A::from_u128(if A::WIDTH == 32 { 0x0aff_0000 } else { 0xfe80 << 112 });
    let via = via.plus(u64::from(1 + hop.0 % GATEWAYS)).to_ip().into();
    let path = Path { link: P0, via: Some(via), weight: 1, mtu: 0 };
    let route = Route {
        table: tables::control::MAIN_TABLE,
        net,
        metric: 32,
        protocol: 12,
        source: Source::Kernel,
        target: Target::Path(path),
    };
    Some(Event::Route(route, How::Create))
}

/// Lets the control thread's builds end.
fn settled(control: &mut Control, family: Family) -> Option<tables::show::FibInfo> {
    let main = control.vrf_by_table(tables::control::MAIN_TABLE)?;
    loop {
        control.tick();
        let info = control.fib_info(main, family)?;
        if !info.behind && info.switching_to.is_none() {
            return Some(info);
        }
        std::thread::sleep(control.pause());
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (family, most) in [("ipv4", 24.0), ("ipv6", 40.0)] {
        let size = |row: &&Row| row.label("prefixes").parse::<u64>().unwrap_or(0);
        let of = rows.iter().filter(|row| row.label("family") == family);
        let Some(row) = of.max_by_key(size) else { continue };
        let sum = |names: &[&str]| names.iter().filter_map(|name| row.median(name)).sum::<f64>();
        let claim = format!("{family}: store and writer ≤ {most} bytes a route");
        let bytes = sum(&["store_per_route", "writer_per_route"]);
        verdicts.push(Verdict::at_most(claim, bytes, most, "bytes"));
        let measured = format!("{} bytes a route", short(sum(&["resident_per_route"])));
        verdicts.push(Verdict::beside(format!("{family}: in total"), measured));
    }
    verdicts
}

const BATCH: usize = 1000;
const GATEWAYS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_holds_every_route() {
        let table = Table::load("internet:3000+500").unwrap();
        let rows = [measure(&table.ipv4, Family::V4), measure(&table.ipv6, Family::V6)];
        for row in rows.into_iter().flat_map(Result::unwrap) {
            // An address and a hop at the least.
            assert!(row.median("store_per_route").unwrap() >= 8.0, "{row:?}");
        }
    }
}
