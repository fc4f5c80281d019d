//! `router/hugepages`: one worker between two `net_null` ports, the packets of
//! DPDK's pools on reserved huge pages, and on what the system gives without.
//!
//! DPDK is started once in a process and either has them or not, so each side is a
//! process of its own, on the same core; they take turns.

use std::io::BufRead;
use std::process::Command;
use std::time::Duration;

use lookup::{Hop, Prefix};

use super::bed::{Bed, Faults};
use super::frames::Frames;
use super::source::Source;
use super::tables::Tables;
use crate::clock;
use crate::data::{Table, Traffic};
use crate::peer::Peer;
use crate::slices::{Sample, Variant, Work};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict};

/// See the module.
pub struct Hugepages;

impl Experiment for Hugepages {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let rows = context.cells(FAMILIES, |context, family| {
            let missing = |what| Error::Missing { experiment: CARD.name, what };
            let mut variants = Vec::new();
            for (name, hugepages) in [("with", true), ("without", false)] {
                let forwarder = Forwarder::start(family, hugepages).map_err(missing)?;
                variants.push(Variant::new(name, forwarder));
            }
            let timings = context.measure(&mut variants);
            let rows = timings.iter().map(|timing| {
                let labels = [("family", (*family).into()), ("hugepages", timing.name.clone())];
                let row = Row::new(labels).with("cycles", timing.cycles);
                let row = row.with("rate_mpps", timing.rate.scaled(1e-6));
                match timing.checksum {
                    Some(_) => Ok(row),
                    None => Err(Error::Wrong {
                        experiment: CARD.name,
                        what: "a packet was lost, or left by a wrong hop".into(),
                    }),
                }
            });
            rows.collect()
        })?;
        let note = "core cycles a packet of processor time, receive and transmit included; \
                    1,000,000 prefixes, prefix-based destinations, bursts of 256";
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, vec![note.into()]))
    }
}

const CARD: Card = Card {
    name: "router/hugepages",
    takes: Takes { full_s: 15.0, quick_s: 8.0 },
    help: "cycles a packet of one worker on net_null, pools on reserved huge pages and without",
    source: "issue on the router",
    claim: "without hugepages at most 5 % more cycles on net_null",
    plots: &[Plot {
        title: "Cycles a packet",
        figure: "cycles",
        unit: "core cycles a packet",
        x: "hugepages",
        series: "family",
        panels: &[],
        style: Style::Bars,
    }],
};

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let cycles = |family: &str, hugepages: &str| {
        let labels = [("family", family), ("hugepages", hugepages)];
        rows.iter().find(|row| row.is(&labels))?.median("cycles")
    };
    let verdict = |family: &&str| {
        let ratio = cycles(family, "without")? / cycles(family, "with")?;
        let claim = format!("{family}: without hugepages ≤ 1.05 × the cycles");
        Some(Verdict::at_most(claim, ratio, 1.05, "×"))
    };
    FAMILIES.iter().filter_map(verdict).collect()
}

/// A process that runs [`serve`].
struct Forwarder(Peer);

impl Forwarder {
    /// Starts it, and waits until it is ready.
    fn start(family: &str, hugepages: bool) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["forward", family]);
        if hugepages {
            command.arg("--hugepages");
        }
        let mut peer = Peer::start(command)?;
        match peer.line() {
            Ok(line) if line == READY => Ok(Forwarder(peer)),
            _ if hugepages => Err(format!(
                "{HUGEPAGES_NEEDED} free huge pages of 2 MiB (as root: \
                 sysctl vm.nr_hugepages={HUGEPAGES_NEEDED}), and a build with DPDK"
            )),
            _ => Err("a build with DPDK".into()),
        }
    }

    fn forward(&mut self, target: Duration) -> Result<Sample, String> {
        self.0.say(&target.as_micros().to_string())?;
        let line = self.0.line()?;
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[ops, nanos, spent, quiet, right] = &*numbers else { return Err(line) };
        Ok(Sample {
            ops,
            time: Duration::from_nanos(nanos),
            spent: Duration::from_nanos(spent),
            quiet: Some(quiet as f64 / MILLIONTHS),
            checksum: (right == 1).then_some(0),
            ..Sample::default()
        })
    }
}

impl Work for Forwarder {
    fn slice(&mut self, target: Duration) -> Sample {
        // One that has ended has no checksum.
        self.forward(target).unwrap_or_default()
    }
}

/// One side: builds a router of 1,000,000 prefixes of `family` on DPDK with or without
/// `hugepages`, says `ready`, and for each line with a number forwards for so many
/// microseconds and answers with packets, nanoseconds of processor time that count and all,
/// the millionths of it that were quiet, and 1 when each packet left as it should.
///
/// # Errors
/// When DPDK does not start like this, or the router cannot be built.
pub fn serve(family: &str, hugepages: bool) -> Result<(), String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let config = io_dpdk::Config { hugepages: Some(hugepages), ..io_dpdk::Config::default() };
    io_dpdk::init(&config).map_err(|error| error.to_string())?;
    let load = |name: &str| Table::load(name).map_err(|error| error.to_string());
    match family {
        "ipv4" => answer(&load("internet:1000000")?.ipv4),
        _ => answer(&load("internet6:1000000")?.ipv6),
    }
}

fn answer<A: Frames>(routes: &[(Prefix<A>, Hop)]) -> Result<(), String> {
    let routed: Vec<_> = routes.iter().filter(|(prefix, _)| prefix.len() > 0).copied().collect();
    let dsts = Traffic::Prefix.draw(&routed, DSTS, 1);
    let (tables, _updater) = Tables::new(&routed, A::DEFAULT, false)?;
    let mut bed = Bed::new(&tables, "null", Source::null(&dsts)?, &Faults::default())?;
    println!("{READY}");
    for line in std::io::stdin().lock().lines() {
        let Ok(micros) = line.map_err(|error| error.to_string())?.parse() else { break };
        let sample = bed.slice(Duration::from_micros(micros));
        let (ops, time, spent) = (sample.ops, sample.time.as_nanos(), sample.spent.as_nanos());
        let quiet = (sample.quiet.unwrap_or_default() * MILLIONTHS) as u64;
        println!("{ops} {time} {spent} {quiet} {}", u8::from(sample.checksum.is_some()));
    }
    Ok(())
}

const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];
const READY: &str = "ready";
const MILLIONTHS: f64 = 1e6;
const DSTS: usize = 1 << 20;
/// For two pools of 32,767 packets and DPDK's own needs.
const HUGEPAGES_NEEDED: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_judged_for_each_family() {
        let row = |family: &str, hugepages: &str, cycles: f64| {
            let labels = [("family", family.to_string()), ("hugepages", hugepages.into())];
            Row::new(labels).with("cycles", cycles)
        };
        let rows = [row("ipv4", "with", 100.0), row("ipv4", "without", 104.0)];
        let verdicts = verdicts(&rows);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].holds(), Some(true));
    }
}
