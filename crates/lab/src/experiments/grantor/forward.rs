//! `grantor/forward`: what it costs to unwrap a granted packet, beside what it costs to route one.
//!
//! ```text
//!  router    inner packets, as router/forward has them
//!  grantor   the same packets, each wrapped by a Gatekeeper: unwrapped, and sent by the same routes
//! ```
//!
//! One worker, two ports, 64 next hops, receive and transmit included. What leaves is shorter than
//! what comes: each frame gets its outer header again as it comes in. What that costs is measured
//! (`ports`, written and not) and subtracted. Every packet is checked after each slice, as those of
//! the router are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use graph::Graph;
use io::mem::Stamp;
use lookup::rib::Change;
use lookup::sync::Published;
use lookup::{Hop, Prefix};
use nodes::assembly::Assembly;
use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{CAPACITY, Counters, Settings};
use nodes::grantor::{self, ENTRY, Parts};
use nodes::switch::Bridging;
use nodes::{router, switch};
use policy::ask::Asker;
use policy::program::GRANTED;
use tables::hops::fixed;
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::protocol::{IPIP, IPV6};

use super::super::router::{Bed, Faults, Frames, ROUTER, Shuttle, Source, Tables, stamp};
use crate::data::{Table, Traffic};
use crate::slices::{Timing, Variant};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Forward;

impl Experiment for Forward {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let wrong = |what| Error::Wrong { experiment: CARD.name, what };
        let rows = context.cells([Cell::V4, Cell::V6], |context, cell| {
            let table = context.load(cell.table(context.quick()))?;
            match cell {
                Cell::V4 => measure(context, *cell, &table.ipv4).map_err(wrong),
                Cell::V6 => measure(context, *cell, &table.ipv6).map_err(wrong),
            }
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const NOTES: [&str; 2] = [
    "core cycles a packet of processor time, receive and transmit included; inner frames of 64 \
     bytes, mem ports, 16,000 packets; nobody is asked",
    "less_generator, which the goals are about: without what it costs to write the outer header \
     into each frame whose first line is read anyway",
];

const CARD: Card = Card {
    name: "grantor/forward",
    takes: Takes { full_s: 30.0, quick_s: 6.0 },
    help: "cycles a packet that is granted, unwrapped and routed, beside the router's own, per node",
    source: "issue on policies and Grantor",
    claim: "≤ 60 core cycles more than the router takes",
    plots: &[Plot {
        title: "Cycles a packet",
        figure: "cycles",
        unit: "core cycles a packet",
        x: "variant",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

/// A family of both headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cell {
    V4,
    V6,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cell::V4 => "ipv4",
            Cell::V6 => "ipv6",
        })
    }
}

impl Cell {
    fn table(self, quick: bool) -> &'static str {
        match (self, quick) {
            (Cell::V4, false) => "internet:1000000",
            (Cell::V4, true) => "internet:10000",
            (Cell::V6, false) => "internet6:200000",
            (Cell::V6, true) => "internet6:10000",
        }
    }
}

fn measure<A: Wrapped>(
    context: &Context,
    cell: Cell,
    routes: &[(Prefix<A>, Hop)],
) -> Result<Vec<Row>, String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let routes = &beyond_default(routes);
    let dsts = Traffic::Prefix.draw(routes, PACKETS, 1);
    let (tables, faults) = (tables(routes)?, Faults::default());
    let bed = |name, graph, source| Bed::around(&tables, graph, name, source, &faults);
    let mut variants = vec![
        Variant::new(GRANTOR, bed(GRANTOR, graph(&tables)?, wrapped(PACKETS, &dsts)?)?),
        Variant::new(
            ROUTER_ALONE,
            bed(ROUTER_ALONE, tables.graph(0)?, Source::mem(PACKETS, &dsts)?)?,
        ),
        Variant::new(READ, Shuttle::new(Source::mem(PACKETS, &dsts)?).reading()),
        Variant::new(WRITTEN, Shuttle::new(wrapped(PACKETS, &dsts)?).reading()),
    ];
    let timings = context.measure(&mut variants);
    drop(variants);
    if let Some(fault) = faults.borrow().first() {
        return Err(fault.clone());
    }
    let of = |name: &str| timings.iter().find(|timing| timing.name == name);
    let cycles = |name: &str| of(name).map_or(0.0, |timing| timing.cycles.median);
    let generator = (cycles(WRITTEN) - cycles(READ)).max(0.0);
    Ok(timings.iter().map(|timing| row(timing, cell, generator)).collect())
}

fn row(timing: &Timing, cell: Cell, generator: f64) -> Row {
    let labels = [("family", cell.to_string()), ("variant", timing.name.clone())];
    let mut row = Row::new(labels).with("cycles", timing.cycles);
    row = row.with("rate_mpps", timing.rate.scaled(1e-6));
    if timing.name == GRANTOR {
        row = row.with("less_generator", timing.cycles.less(generator));
        row = row.with("generator_cycles", generator);
    }
    let parts = timing.parts.iter();
    parts.fold(row, |row, (node, cycles)| row.with(format!("node.{node}"), *cycles))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let find = |family: &str, variant: &str, figure: &str| {
        let labels = [("family", family), ("variant", variant)];
        rows.iter().find(|row| row.is(&labels))?.median(figure)
    };
    let verdict = |cell: Cell| {
        let family = cell.to_string();
        let claim = format!("{family}: {LEAST} to {MOST} cycles more than the router");
        let wrapped = find(&family, GRANTOR, "less_generator");
        match wrapped.zip(find(&family, ROUTER_ALONE, "cycles")) {
            Some((wrapped, plain)) => {
                Verdict::between(claim, wrapped - plain, (LEAST, MOST), "cycles")
            }
            None => Verdict::open(claim, "not measured here"),
        }
    };
    [Cell::V4, Cell::V6].map(verdict).into()
}

/// A worker of a Grantor that unwraps a thousand granted packets of a family, which have 10,000
/// routes.
pub(in crate::experiments) fn fixed(
    family: &str,
    body: impl FnOnce(&mut dyn FnMut(u64)),
) -> Result<(), String> {
    let load = |cell: Cell| Table::load(cell.table(true)).map_err(|error| error.to_string());
    match family {
        "ipv4" => unwraps(&load(Cell::V4)?.ipv4, body),
        "ipv6" => unwraps(&load(Cell::V6)?.ipv6, body),
        _ => Err(format!("no family `{family}`")),
    }
}

fn unwraps<A: Wrapped>(
    routes: &[(Prefix<A>, Hop)],
    body: impl FnOnce(&mut dyn FnMut(u64)),
) -> Result<(), String> {
    let routes = &beyond_default(routes);
    let dsts = Traffic::Prefix.draw(routes, 1_000, 1);
    let (tables, faults) = (tables(routes)?, Faults::default());
    let source = wrapped(dsts.len(), &dsts)?;
    let mut bed = Bed::around(&tables, graph(&tables)?, GRANTOR, source, &faults)?;
    body(&mut |packets| bed.forward(packets));
    drop(bed);
    faults.borrow().first().map_or(Ok(()), |fault| Err(fault.clone()))
}

/// All routes but the default one, whose addresses need not be anybody's.
fn beyond_default<A: Wrapped>(routes: &[(Prefix<A>, Hop)]) -> Vec<(Prefix<A>, Hop)> {
    routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect()
}

/// A router's tables, with this machine's address in them.
pub(super) fn tables<A: Wrapped>(routes: &[(Prefix<A>, Hop)]) -> Result<Tables<A>, String> {
    let (tables, mut updater) = Tables::new(routes, A::DEFAULT, false)?;
    let own = Prefix::covering(A::OWN, A::WIDTH);
    updater.apply(&[Change { prefix: own, hop: Some(fixed::FOR_US) }])?;
    Ok(tables)
}

/// A Grantor's worker without ports. Nobody decides: no packet asks.
fn graph<A: Wrapped>(tables: &Tables<A>) -> Result<Graph, String> {
    asking(tables, None, Counters::new())
}

/// The same, with somebody who decides. It serves everybody.
pub(super) fn asking<A: Wrapped>(
    tables: &Tables<A>,
    asker: Option<Box<dyn Asker>>,
    counters: Arc<Counters>,
) -> Result<Graph, String> {
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
    let settings = Settings {
        gatekeepers: Nets::new(GATEKEEPERS),
        serves: Nets::new(any.map(|ip| (ip, 0))),
        ..Settings::default()
    };
    let parts = Parts {
        settings: Arc::new(Published::new(tables.domain(), settings)),
        counters,
        asker,
        capacity: CAPACITY,
        fragments: 0,
    };
    let assembly = Assembly::new(tables.common());
    let assembly = router::add(switch::add(assembly, Bridging::none()));
    let assembly = router::tunnels(grantor::add(assembly, parts, None), (false, false), ENTRY);
    assembly.finish().build(0).map_err(|error| error.to_string())
}

/// `packets` packets to `dsts` in a ring, each wrapped anew as it comes in.
fn wrapped<A: Wrapped>(packets: usize, dsts: &[A]) -> Result<Source, String> {
    let mut len = 0;
    let source = Source::ring(packets, |number, frame| {
        let mut inner = [0; INNER];
        let inner_len = A::write(dsts[number % dsts.len()], &mut inner);
        let wrapped = A::wrap(&inner[LINK..inner_len]);
        frame[..wrapped.len()].copy_from_slice(&wrapped);
        len = wrapped.len();
        len
    })?;
    Ok(source.lengthened(len).stamped(|_| A::rewrap()))
}

/// A family in which packets are wrapped.
pub(super) trait Wrapped: Frames {
    /// The address of this machine that Gatekeepers ask.
    const OWN: Self;

    /// A frame with this packet inside, granted.
    fn wrap(inner: &[u8]) -> Vec<u8> {
        Self::wrap_as(GRANTED, inner)
    }

    /// The same with this priority, a DSCP.
    fn wrap_as(dscp: u8, inner: &[u8]) -> Vec<u8>;

    /// Writes all that comes before the inner packet.
    fn rewrap() -> Stamp;
}

impl Wrapped for u32 {
    const OWN: u32 = 0x0a00_0209;

    fn wrap_as(dscp: u8, inner: &[u8]) -> Vec<u8> {
        outer(Frame::ipv4(Ipv4Addr::new(10, 0, 1, 7), Self::OWN.into(), IPIP), dscp, inner)
    }

    fn rewrap() -> Stamp {
        const HEADERS: usize = LINK + 20;
        stamp::<HEADERS>(vec![wire::bytes::array(&Self::wrap(&INNER_ONLY), 0)], 0)
    }
}

impl Wrapped for u128 {
    const OWN: u128 = 0x2001_0db8_0002_0000_0000_0000_0000_0009;

    fn wrap_as(dscp: u8, inner: &[u8]) -> Vec<u8> {
        let from = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7);
        outer(Frame::ipv6(from, Self::OWN.into(), IPV6), dscp, inner)
    }

    fn rewrap() -> Stamp {
        const HEADERS: usize = LINK + 40;
        stamp::<HEADERS>(vec![wire::bytes::array(&Self::wrap(&INNER_ONLY), 0)], 0)
    }
}

fn outer(frame: Frame<'_>, dscp: u8, inner: &[u8]) -> Vec<u8> {
    let frame = frame.macs(Mac([2, 0, 0, 0, 0, 2]), Mac(ROUTER)).tos(dscp << 2);
    frame.payload(inner).build().to_vec()
}

const GRANTOR: &str = "grantor";
const ROUTER_ALONE: &str = "router";
const READ: &str = "ports, first lines read";
const WRITTEN: &str = "ports, outer headers written and first lines read";
/// Packets that go round.
const PACKETS: usize = 16_000;
/// Gatekeepers' networks.
const GATEKEEPERS: [(IpAddr, u8); 2] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 1, 0)), 28),
    (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)), 64),
];
/// Bytes of a frame before it is wrapped, and of its link header.
pub(super) const INNER: usize = 64;
pub(super) const LINK: usize = 14;
const INNER_ONLY: [u8; INNER - LINK] = [0; INNER - LINK];
/// Two headers more are not looked at for less.
const LEAST: f64 = 5.0;
const MOST: f64 = 60.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::slices::Work;

    fn unwraps<A: Wrapped>(first: u128) {
        let route = |i: u32| {
            let addr = (first + u128::from(i)) << (u32::from(A::WIDTH) - 32);
            (Prefix::covering(A::from_u128(addr), 24), Hop(i))
        };
        let routes: Vec<_> = (0..200).map(|i| route(i << 8)).collect();
        let dsts = Traffic::Prefix.draw(&routes, 1_000, 1);
        let (tables, faults) = (tables(&routes).unwrap(), Faults::default());
        let source = wrapped(500, &dsts).unwrap();
        let mut bed =
            Bed::around(&tables, graph(&tables).unwrap(), "bed", source, &faults).unwrap();
        for _ in 0..2 {
            let sample = bed.slice(Duration::from_millis(5));
            assert_eq!(*faults.borrow(), Vec::<String>::new());
            let tunnel = |(node, _): &(String, f64)| node.ends_with("_tunnel");
            assert!(sample.ops > 0 && sample.parts.iter().any(tunnel), "{sample:?}");
        }
    }

    #[test]
    fn what_is_granted_leaves_by_its_next_hop() {
        unwraps::<u32>(0x1000_0000);
        unwraps::<u128>(0x2001_0000);
    }

    #[test]
    fn the_goal_holds_and_fails_by_the_rows() {
        let rows = |cycles: f64| {
            let row = |variant: &str| {
                Row::new([("family", "ipv4".to_string()), ("variant", variant.to_string())])
            };
            let wrapped = row(GRANTOR).with("less_generator", cycles);
            vec![wrapped, row(ROUTER_ALONE).with("cycles", 70.0)]
        };
        let held = |cycles| verdicts(&rows(cycles))[0].holds();
        assert_eq!([held(129.0), held(131.0), held(70.0)], [Some(true), Some(false), Some(false)]);
        assert_eq!(verdicts(&rows(129.0))[1].holds(), None);
    }
}
