//! Forwarding rates of several engines through the packet graph, side by side.

use lookup::{Hop, Prefix};

use super::bed::{Bed, Faults};
use super::frames::Frames;
use super::source::Source;
use super::tables::Tables;
use crate::data::Traffic;
use crate::slices::Variant;
use crate::{Context, Row};

/// One row for each of `names`: one worker, `mem` ports, `traffic`.
pub(in crate::experiments) fn engines<A: Frames>(
    context: &Context,
    routes: &[(Prefix<A>, Hop)],
    names: &[&str],
    traffic: Traffic,
) -> Vec<Row> {
    let dsts = traffic.draw(routes, PACKETS, 1);
    let row = |name: &str| {
        let labels = [("engine", name), ("family", A::FAMILY), ("traffic", &*traffic.to_string())];
        Row::new(labels)
    };
    let (mut rows, mut tables) = (Vec::new(), Vec::new());
    for name in names {
        // The writer is dropped: nothing changes here.
        match Tables::new(routes, name, false) {
            Ok((built, _)) => tables.push((*name, built)),
            Err(refusal) => rows.push(row(name).noting(refusal)),
        }
    }
    let faults = Faults::default();
    let (mut variants, mut taken) = (Vec::new(), Vec::new());
    for (name, tables) in &tables {
        let bed = Source::mem(PACKETS, &dsts).and_then(|s| Bed::new(tables, name, s, &faults));
        match bed {
            Ok(bed) => {
                variants.push(Variant::new(*name, bed));
                taken.push(row(name).labelled("isa", tables.isa()));
            }
            Err(reason) => rows.push(row(name).noting(reason)),
        }
    }
    for (row, timing) in taken.into_iter().zip(context.measure(&mut variants)) {
        rows.push(if timing.checksum.is_none() {
            row.noting(format!("packets left wrongly: {}", faults.borrow().join("; ")))
        } else {
            row.with("rate_mpps", timing.rate.scaled(1e-6)).with("cycles", timing.cycles)
        });
    }
    rows
}

const PACKETS: usize = 16_000;
