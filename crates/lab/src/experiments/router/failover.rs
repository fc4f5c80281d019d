//! `router/failover`: how long packets are lost when a port loses its carrier under many
//! routes, and how long their routes take to follow.
//!
//! ```text
//!  second    each prefix has its next best route by another port
//!  ecmp      each prefix has a route of two paths, one by either port
//!  objects   the same by next-hop objects
//!  only      each prefix has one route, and a default route by the other port covers it
//!  lists     as `second`, with more pairs of gateways than hops are kept for
//! ```
//!
//! The time begins when control hears of the loss: before lie the kernel's news, which
//! `scripts/failover.sh` has with it, beside the kernel's own forwarding.

mod events;
mod inside;

use std::fmt;
use std::time::Duration;

use lookup::{Hop, Prefix};

use crate::clock;
use crate::record::{Figure, short};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};
use inside::{Loss, Router};

/// See the module.
pub struct Failover;

impl Experiment for Failover {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let sizes: &[usize] = context.pick(&[1_000, 100_000, 1_000_000], &[10_000, 100_000]);
        let of = |kind: Kind| {
            let fits = move |routes: &&usize| kind != Kind::Lists || **routes > MOST_LISTS;
            sizes.iter().filter(fits).map(move |routes| Cell { kind, routes: *routes })
        };
        let cells: Vec<_> = Kind::ALL.into_iter().flat_map(of).collect();
        let rows = context.cells(cells, |context, cell| {
            let table = context.load(&format!("internet:{}", cell.routes))?;
            let row = inside(context, cell, &table.ipv4);
            row.map(|row| vec![row]).map_err(|what| Error::Wrong { experiment: CARD.name, what })
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "router/failover",
    takes: Takes { full_s: 35.0, quick_s: 30.0 },
    help: "time from a lost carrier until all traffic has moved, and until routes have followed",
    source: "issue on repairs, point 3.7",
    claim: "traffic leaves a lost port within 10 ms at 1,000,000 routes; 200 flaps change no route",
    plots: &[Plot {
        title: "Until all traffic has moved",
        figure: "moved_ms",
        unit: "ms",
        x: "routes",
        series: "kind",
        panels: &[],
        style: Style::LogLog,
    }],
};

const NOTES: [&str; 2] = [
    "elapsed time: neighbours of either core are in it; moved_worst_ms is the worst of all losses",
    "the worker forwards as many packets as it can, and lost_packets are of those",
];

/// How prefixes have another way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Second,
    Ecmp,
    Objects,
    Only,
    Lists,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Second, Kind::Ecmp, Kind::Objects, Kind::Only, Kind::Lists];

    /// Packets move with a store a hop.
    fn at_once(self) -> bool {
        !matches!(self, Kind::Only | Kind::Lists)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Second => "second",
            Kind::Ecmp => "ecmp",
            Kind::Objects => "objects",
            Kind::Only => "only",
            Kind::Lists => "lists",
        })
    }
}

/// What is measured at a time.
struct Cell {
    kind: Kind,
    routes: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} routes", self.kind, self.routes)
    }
}

fn inside(context: &Context, cell: &Cell, routes: &[(Prefix<u32>, Hop)]) -> Result<Row, String> {
    clock::pin(clock::cores()[0]);
    let mut router = Router::new(cell.kind, routes)?;
    let ((lists, beyond), (groups, _)) = (router.used("backups"), router.used("groups"));
    let mut row = Row::new([("kind", cell.kind.to_string()), ("routes", routes.len().to_string())]);
    row = row
        .with("lists", lists as f64)
        .with("beyond_lists", beyond as f64)
        .with("groups", groups as f64);
    let mut losses = Vec::new();
    if cell.kind.at_once() {
        for _ in 0..context.pick(LOSSES, 5) {
            losses.push(router.lose(false)?.0);
            router.restore();
        }
        let flaps = router.flap(FLAPS);
        row = row
            .with("flap_changes", flaps.changes as f64)
            .with("flap_lost_packets", flaps.lost as f64)
            .with("flap_packets", flaps.packets as f64);
    }
    // Last, or the next time links would have to be quiet for longer.
    let (last, followed) = router.lose(true)?;
    if !cell.kind.at_once() {
        losses.push(last);
    }
    let of = |what: &dyn Fn(&Loss) -> f64| {
        Figure::least_is_best(&losses.iter().map(what).collect::<Vec<_>>())
    };
    row = row
        .with("moved_ms", of(&|loss| ms(loss.moved)))
        .with("moved_worst_ms", losses.iter().map(|loss| ms(loss.moved)).fold(0.0, f64::max))
        .with("control_ms", of(&|loss| ms(loss.control)))
        .with("lost_packets", of(&|loss| loss.lost as f64));
    if !matches!(cell.kind, Kind::Ecmp | Kind::Objects) {
        row = row.with("first_ms", of(&|loss| ms(loss.first)));
    }
    if let Some(followed) = followed {
        row = row
            .with("followed_ms", ms(followed.since))
            .with("following_ms", ms(followed.took))
            .with("following_step_ms", ms(followed.step))
            .with("following_changes", followed.changes as f64);
    }
    router.end()?;
    Ok(row)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for kind in Kind::ALL {
        let size = |row: &&Row| row.label("routes").parse::<u64>().unwrap_or(0);
        let mut of: Vec<_> =
            rows.iter().filter(|row| row.label("kind") == kind.to_string()).collect();
        of.sort_by_key(size);
        // A thousand routes have not all the pairs of gateways that more of them have.
        let [.., few, many] = of[..] else { continue };
        let (n, figure) = (many.label("routes"), |name| many.median(name).unwrap_or(f64::NAN));
        if kind.at_once() {
            let claim = format!("{kind}, {n} routes: all traffic has moved after 0.0001 to 10 ms");
            verdicts.push(Verdict::between(claim, figure("moved_ms"), (0.0001, 10.0), "ms"));
            let claim =
                format!("{kind}: that is 0.5 to 2 × what it is with {}", few.label("routes"));
            let ratio = figure("moved_ms") / few.median("moved_ms").unwrap_or(f64::NAN);
            verdicts.push(Verdict::between(claim, ratio, (0.5, 2.0), "×"));
            let claim = format!("{kind}, {n} routes: {FLAPS} flaps change no route");
            verdicts.push(Verdict::at_most(claim, figure("flap_changes"), 0.0, "changes"));
        } else {
            let claim = match kind {
                Kind::Lists => format!("{n} routes, some beyond {MOST_LISTS} lists: until moved"),
                _ => format!("{n} routes without another: until the default route has the traffic"),
            };
            verdicts.push(Verdict::beside(claim, format!("{} ms", short(figure("moved_ms")))));
        }
        if figure("following_step_ms") != figure("followed_ms") {
            let claim =
                format!("{kind}, {n} routes: while they follow, the next loss waits ≤ 10 ms");
            verdicts.push(Verdict::at_most(claim, figure("following_step_ms"), 10.0, "ms"));
        }
    }
    verdicts
}

/// Of a carrier, where packets move at once.
const LOSSES: usize = 21;
const FLAPS: usize = 200;
/// Of routes that have a hop (`backups` in `show capacity`).
const MOST_LISTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(routes: &str, moved: f64, changes: f64) -> Row {
        let labels = [("kind", "second".to_string()), ("routes", routes.to_string())];
        let row = Row::new(labels).with("moved_ms", moved).with("flap_changes", changes);
        row.with("followed_ms", 500.0).with("following_step_ms", 2.0)
    }

    #[test]
    fn every_verdict_can_fail() {
        let held = |few: Row, many: Row| -> Vec<_> {
            verdicts(&[few, many]).into_iter().map(|verdict| verdict.holds()).collect()
        };
        let (yes, no) = (Some(true), Some(false));
        let few = || row("1000", 0.02, 0.0);
        assert_eq!(held(few(), row("1000000", 0.03, 0.0)), [yes, yes, yes, yes]);
        assert_eq!(held(few(), row("1000000", 12.0, 4.0)), [no, no, no, yes]);
        assert_eq!(held(few(), row("1000000", 0.0, 0.0)), [no, no, yes, yes]);
        let slow = row("1000000", 0.03, 0.0).with("following_step_ms", 11.0);
        assert_eq!(held(few(), slow), [yes, yes, yes, no]);
    }
}
