//! The graph as text: `rutter show graph`.
//!
//! ```text
//! receive                       12,345 packets   64.0/vector   20.1 cycles
//! └─ ethernet_input             12,345 packets   64.0/vector   12.3 cycles
//!    ├─ ip4_input               12,300 packets   64.0/vector   10.1 cycles
//!    │  └─ ip4_lookup …
//!    └─ ✗ unknown_vlan              45
//! ```

use std::collections::HashSet;
use std::fmt::Write;

use crate::stats::{NodeCount, Snapshot};

impl Snapshot {
    /// A tree from the entry and the sources. Each node is drawn in full where it
    /// is first met, later as an arrow with the packets that came that way; edges
    /// that no packet took are left out (`draw_all` shows them).
    pub fn draw(&self) -> String {
        Drawing::new(self, false).finish()
    }

    /// The same with edges that no packet took.
    pub fn draw_all(&self) -> String {
        Drawing::new(self, true).finish()
    }
}

struct Drawing<'s> {
    snapshot: &'s Snapshot,
    all: bool,
    seen: HashSet<&'static str>,
    text: String,
}

impl<'s> Drawing<'s> {
    fn new(snapshot: &'s Snapshot, all: bool) -> Self {
        Drawing { snapshot, all, seen: HashSet::new(), text: String::new() }
    }

    fn finish(mut self) -> String {
        let receive = &self.snapshot.receive;
        let counts = counts(receive.packets, receive.vectors, receive.cycles);
        self.line("receive", &counts);
        if let Some(entry) = self.snapshot.node(self.snapshot.entry) {
            self.node(entry, entry.packets, "└─ ", "   ");
        }
        for source in self.snapshot.nodes.iter().filter(|node| node.source) {
            if self.all || source.packets > 0 {
                self.node(source, source.packets, "", "");
            }
        }
        self.text
    }

    fn node(&mut self, node: &NodeCount, packets: u64, lead: &str, below: &str) {
        if !self.seen.insert(node.name) {
            let name = format!("{lead}→ {}", node.name);
            return self.line(&name, &format!("{:>15}", grouped(packets)));
        }
        let name = format!("{lead}{}", node.name);
        self.line(&name, &counts(node.packets, node.vectors, node.cycles));
        let edges = node.edges.iter().filter(|edge| edge.name != "drop" || edge.to != "drop");
        let edges = edges.filter(|edge| self.all || edge.packets > 0);
        let drops = self.snapshot.drops.iter().filter(|drop| drop.node == node.name);
        let drops = drops.filter(|drop| self.all || drop.packets > 0);
        let (edges, drops): (Vec<_>, Vec<_>) = (edges.collect(), drops.collect());
        let children = edges.len() + drops.len();
        let arms =
            |i: usize| if i + 1 == children { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        for (i, edge) in edges.iter().enumerate() {
            let (arm, under) = arms(i);
            let (lead, under) = (format!("{below}{arm}"), format!("{below}{under}"));
            if let Some(to) = self.snapshot.node(edge.to) {
                self.node(to, edge.packets, &lead, &under);
            }
        }
        for (i, drop) in drops.iter().enumerate() {
            let (arm, _) = arms(edges.len() + i);
            let name = format!("{below}{arm}✗ {}", drop.reason);
            self.line(&name, &format!("{:>15}", grouped(drop.packets)));
        }
    }

    fn line(&mut self, name: &str, counts: &str) {
        let _ = writeln!(self.text, "{name:<40}{counts}"); // writing to a String cannot fail
    }
}

fn counts(packets: u64, vectors: u64, cycles: u64) -> String {
    if packets == 0 {
        return format!("{:>15}", 0);
    }
    let (size, cost) = (packets as f64 / vectors.max(1) as f64, cycles as f64 / packets as f64);
    format!("{:>15} packets {size:>6.1}/vector {cost:>8.1} cycles", grouped(packets))
}

/// 1234567 as `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
