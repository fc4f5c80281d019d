//! How many neighbours the kernel takes. In its first network namespace the configuration sets the
//! limit; in others the machine's limit applies.

use api::reply::Capacity;

use super::kernel_side::KernelSide;
use crate::kernel::neighbours::{NeighbourTable, Refused};

impl KernelSide {
    /// Lets the kernel hold `most` neighbours of each family, and reports where it does not.
    pub(super) fn limit_neighbours(&mut self, most: u32) {
        for family in ["ipv4", "ipv6"] {
            // From the largest down, for readers: the kernel requires no order.
            for (threshold, value) in [(3, most), (2, most / 2), (1, most / 8)] {
                let key = format!("net/{family}/neigh/default/gc_thresh{threshold}");
                // Only the first network namespace has these settings.
                if self.settings.get(&key).is_ok() {
                    self.set(&key, &value.to_string());
                }
            }
        }
        let tables = self.neighbour_tables();
        self.neighbours = Refused {
            before: tables.iter().map(|table| (table.family, table.refused)).collect(),
            last: tables.iter().map(|table| table.refused).sum(),
        };
        let short: Vec<_> = tables.iter().filter(|table| table.most < most).collect();
        if short.is_empty() {
            return;
        }
        let each = |part: fn(&NeighbourTable, u32) -> String, between: &str| {
            short.iter().map(|table| part(table, most)).collect::<Vec<_>>().join(between)
        };
        let held = each(|table, _| format!("{} neighbours of {}", table.most, table.family), ", ");
        let set = each(|table, most| setting(table.family, most), " ");
        self.warn(format!(
            "the kernel holds {held}, for the whole machine, not the {most} of each that \
             `neighbours.max` asks for; strangers' packets that fill these tables are limited to \
             fewer a second than in `[punt]`: in the first network namespace, run sysctl {set}"
        ));
    }

    /// How many neighbours of each family the kernel holds at most; the smaller of both tables.
    pub fn most_neighbours(&mut self) -> Option<u32> {
        self.neighbour_tables().iter().map(|table| table.most).min()
    }

    /// Lines of `show capacity`.
    pub fn capacity(&mut self) -> Vec<Capacity> {
        let tables = self.neighbour_tables();
        // A table that could not be read at the start has no figures.
        let before = |table: &NeighbourTable| self.neighbours.before.get(table.family).copied();
        let line = |table: &NeighbourTable| Capacity {
            what: format!("kernel neighbours {}, of the machine", table.family),
            used: table.entries.into(),
            limit: Some(table.most.into()),
            refused: before(table).map_or(0, |before| table.refused.saturating_sub(before)),
            last: String::new(),
            key: Some("gc_thresh3".into()),
        };
        tables.iter().map(line).collect()
    }

    /// Whether the kernel has refused a neighbour since the last call.
    pub fn neighbours_were_full(&mut self) -> bool {
        let refused = self.neighbour_tables().iter().map(|table| table.refused).sum();
        std::mem::replace(&mut self.neighbours.last, refused) < refused
    }

    fn neighbour_tables(&mut self) -> Vec<NeighbourTable> {
        // Where the figures are unknown, nothing is reported.
        self.rtnetlink.neighbour_tables().unwrap_or_default()
    }
}

fn setting(family: &str, most: u32) -> String {
    format!("net.{family}.neigh.default.gc_thresh3={most}")
}
