//! One worker of a Gatekeeper, the packets that go round through it, and the check that each
//! of them met the verdict that it should.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use graph::{Snapshot, clock as ticks};
use lookup::exact::flow::FlowKey;
use lookup::sync::Thread;
use nodes::gatekeeper::flows::Heard;
use nodes::gatekeeper::machine::{Decided, Machine};
use nodes::gatekeeper::programs::Programs;
use nodes::gatekeeper::shield::Shield;
use nodes::gatekeeper::times::Times;
use wire::ggu::Verdict;

use super::super::router::{Source, per_node};
use super::generator::{Back, Clients, Pace, Sent, destination, messages, owner, source};
use super::site::{Rings, Site, Worker};
use crate::slices::{Sample, Work};
use crate::watch::Watch;

/// What goes through a worker.
#[derive(Clone)]
pub(super) struct Load {
    /// Places of the table.
    pub places: usize,
    /// Flows that are decided before.
    pub granted: Arc<[u32]>,
    pub declined: Arc<[u32]>,
    /// Flows for which decisions come in at the back; other workers may own them.
    pub decisions: Arc<[u32]>,
    /// Whose packets come.
    pub clients: Clients,
    /// Packets that go round.
    pub packets: usize,
}

/// What became of packets, by verdict.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Verdicts {
    pub requests: u64,
    pub granted: u64,
    pub declined: u64,
}

/// One worker between two ports.
pub(super) struct Bed {
    worker: Worker,
    thread: Thread,
    load: Load,
    sent: Arc<Sent>,
    pace: Arc<Pace>,
    /// When it was left to itself last, and ticks that have gone by so: its own clock stops
    /// then. Else tokens would gather, and places to be swept, while others take their
    /// turns, and be this one's in its next.
    left_at: u64,
    away: u64,
    /// Ticks to one of its own clock.
    pub slowness: u64,
    /// The last of its own clock.
    last: u64,
    /// Dropped after the ports, which are in the graph.
    _source: Source,
}

impl Bed {
    /// Worker `number` of `site`, its table filled. Decisions come in at its back as `pace` has
    /// it.
    pub fn new(
        site: &Site,
        (number, rings): (usize, Rings),
        load: Load,
        pace: &Arc<Pace>,
    ) -> Result<Bed, String> {
        let mut source = source(load.packets, Some(&load.clients))?;
        let mut ports = std::mem::take(&mut source.ports);
        let back = ports.pop().ok_or("no port at the back")?;
        let is_own = |source| owner(site, source) == number;
        let back = Back::new(back, messages(&load.decisions, GRANT, is_own)?, pace);
        let sent = back.sent();
        ports.push(Box::new(back));
        let worker = site.worker((number, rings), (load.places, DECIDED), ports)?;
        let mut thread = site.domain.register("gatekeeper");
        thread.offline();
        let pace = pace.clone();
        let (left_at, away) = (ticks::now(), 0);
        let (slowness, last) = (1, left_at);
        let mut bed = Bed {
            worker,
            thread,
            load,
            sent,
            pace,
            left_at,
            away,
            slowness,
            last,
            _source: source,
        };
        bed.decide(site)?;
        bed.fill()?;
        Ok(bed)
    }

    /// Has all flows decided that are to be.
    fn decide(&mut self, site: &Site) -> Result<(), String> {
        let (programs, times) = (Programs::default(), Times::new(ticks::rate()));
        let machine = Machine { times: &times, programs: &programs };
        let decided = |verdict| machine.decision(&verdict, ticks::now());
        let refused = |_| "a decision is refused".to_string();
        for (flows, verdict) in [
            (self.load.granted.clone(), decided(GRANT).map_err(refused)?),
            (self.load.declined.clone(), decided(DECLINE).map_err(refused)?),
        ] {
            flows.iter().for_each(|&source| self.hear(site, source, verdict));
        }
        let wanted = (self.load.granted.len() + self.load.declined.len()) as u64;
        let mut tries = wanted;
        let counts = self.worker.counters.clone();
        let heard = || counts.decisions.all.granted.get() + counts.decisions.all.declined.get();
        while heard() < wanted && tries > 0 {
            self.poll();
            tries -= 1;
        }
        // Messages at its back may have brought more.
        if heard() >= wanted { Ok(()) } else { Err(format!("{} of {wanted} decided", heard())) }
    }

    /// Has the flows that are granted decided by one of these programs, which are the site's
    /// from now on: of all its beds.
    pub fn decide_by(
        &mut self,
        site: &Site,
        programs: &Programs,
        verdict: Verdict,
    ) -> Result<(), String> {
        let times = Times::new(ticks::rate());
        let machine = Machine { times: &times, programs };
        let decided =
            machine.decision(&verdict, ticks::now()).map_err(|_| "a decision is refused")?;
        site.programs.publish(programs.clone());
        let flows = self.load.granted.clone();
        flows.iter().for_each(|&source| self.hear(site, source, decided));
        let counts = self.worker.counters.clone();
        for _ in 0..flows.len() {
            if counts.decisions.all.by_program.get() >= flows.len() as u64 {
                return Ok(());
            }
            self.poll();
        }
        Err("not all flows are decided".into())
    }

    fn hear(&mut self, site: &Site, source: u32, decided: Decided) {
        let key = FlowKey::v4(source, destination(source));
        let mut heard = Heard { key, set: site.set, decided };
        while let Err(again) = self.worker.heard.push(heard) {
            self.poll();
            heard = again;
        }
    }

    /// Fills the table, where strangers come.
    fn fill(&mut self) -> Result<(), String> {
        let most = 4 * self.load.places;
        let mut came = 0;
        while self.load.clients.known == 0 && self.replaced() < self.load.places as u64 / 16 {
            came += self.poll();
            if came > most {
                return Err("the table does not become full".into());
            }
        }
        Ok(())
    }

    /// Flows that made room.
    fn replaced(&mut self) -> u64 {
        self.table(|table| table.counts().replaced[0])
    }

    /// The share of places that are taken.
    pub fn filled(&mut self) -> f64 {
        self.table(|table| table.capacity().entries as f64 / table.capacity().slots as f64)
    }

    fn table<R: Default>(
        &mut self,
        act: impl FnOnce(&dyn lookup::exact::flow::FlowTable) -> R,
    ) -> R {
        let flows = self.worker.graph.node_mut::<Shield>().ok().and_then(Shield::flows);
        flows.map(|flows| act(flows.table())).unwrap_or_default()
    }

    fn poll(&mut self) -> usize {
        self.begin();
        let n = self.round();
        self.end();
        n
    }

    /// Its clock goes on.
    fn begin(&mut self) {
        self.away += ticks::now().saturating_sub(self.left_at);
        self.thread.online();
    }

    #[inline]
    fn round(&mut self) -> usize {
        let now = ticks::now() - self.away;
        let lost = now.saturating_sub(self.last) / self.slowness * (self.slowness - 1);
        self.away += lost;
        self.last = now - lost;
        let n = self.worker.graph.poll_at(self.last, self.thread.guard());
        self.thread.quiesce();
        n
    }

    fn end(&mut self) {
        self.thread.offline();
        self.left_at = ticks::now();
    }

    /// Has at least `packets` come; says so where one met another verdict than it should.
    pub fn forward(&mut self, packets: u64) -> Result<(), String> {
        let before = self.mark();
        self.begin();
        let mut came = 0;
        while came < packets {
            came += self.round() as u64;
        }
        self.end();
        self.check(&before).map(|_| ())
    }

    fn mark(&self) -> Mark {
        let all = &self.worker.counters.all;
        let verdicts = Verdicts {
            requests: all.requests.get(),
            granted: all.granted.get(),
            declined: all.declined.get(),
        };
        let decisions = &self.worker.counters.decisions.all.granted;
        let asked = self.worker.grantor.as_ref().map_or(0, |of| of.asked.get());
        Mark {
            asked,
            snapshot: self.worker.graph.stats().snapshot(),
            verdicts,
            messages: self.sent.messages.load(Ordering::Relaxed),
            own: self.sent.own.load(Ordering::Relaxed),
            decisions: decisions.get(),
        }
    }

    /// How many packets of clients came since.
    fn check(&self, before: &Mark) -> Result<(u64, Mark), String> {
        let after = self.mark();
        let (old, new) = (before.verdicts, after.verdicts);
        let messages = after.messages - before.messages;
        let law = after.snapshot.law;
        let came = law.received - before.snapshot.law.received - messages;
        let found = Verdicts {
            requests: new.requests - old.requests,
            granted: new.granted - old.granted,
            declined: new.declined - old.declined,
        };
        // On one machine what is granted leaves as it came, and what asks is declined.
        let left = law.transmitted - before.snapshot.law.transmitted;
        let right = law.holds()
            && came > 0
            && self.load.allows(came, found)
            && (self.worker.grantor.is_none() || left == found.granted);
        if right {
            return Ok((came, after));
        }
        let drops = after.snapshot.drops.iter().filter(|drop| drop.packets > 0);
        let drops: Vec<_> =
            drops.map(|drop| format!("{}.{} {}", drop.node, drop.reason, drop.packets)).collect();
        Err(format!("of {came} packets {found:?}; {law:?}; dropped: {}", drops.join(", ")))
    }
}

impl Drop for Bed {
    /// Requests that wait go back to the ring.
    fn drop(&mut self) {
        self.thread.online();
        while self.worker.graph.drain(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
    }
}

/// What was counted up to a moment.
struct Mark {
    snapshot: Snapshot,
    verdicts: Verdicts,
    messages: u64,
    /// Decisions that came in at its back and are its own, and those that reached its table.
    own: u64,
    decisions: u64,
    /// What a policy of this machine was asked.
    asked: u64,
}

impl Load {
    /// Whether these may be the verdicts of `came` packets.
    fn allows(&self, came: u64, found: Verdicts) -> bool {
        let Verdicts { requests, granted, declined } = found;
        let known = self.clients.known;
        let some = |flows: &[u32], n: u64| (n > 0) == (known > 0 && !flows.is_empty());
        let strangers = super::generator::PERIOD > known;
        requests + granted + declined == came
            && some(&self.granted, granted)
            && some(&self.declined, declined)
            && (requests > 0) == strangers
    }
}

impl Work for Bed {
    fn slice(&mut self, target: Duration) -> Sample {
        let before = self.mark();
        self.begin();
        let mut watch = Watch::new(target);
        loop {
            let came = (0..ROUNDS).map(|_| self.round() as u64).sum();
            // Its clock does not go on while the core is looked at.
            self.end();
            let goes_on = watch.lap(came);
            self.begin();
            if !goes_on {
                break;
            }
        }
        self.end();
        match self.check(&before) {
            Ok((ops, after)) => {
                let (done, own) = (after.decisions - before.decisions, after.own - before.own);
                self.pace.done.fetch_add(done, Ordering::Relaxed);
                self.pace.handed.fetch_add(done as i64 - own as i64, Ordering::Relaxed);
                let parts = per_node(&before.snapshot, &after.snapshot);
                let left = after.snapshot.law.transmitted - before.snapshot.law.transmitted;
                let percent = |n: u64| n as f64 / ops as f64 * 100.0;
                let mut figures = vec![(LEFT.to_string(), percent(left))];
                if self.worker.grantor.is_some() {
                    figures.push((ASKED.to_string(), percent(after.asked - before.asked)));
                }
                Sample { checksum: Some(0), figures, ..watch.sample_of(ops, parts) }
            }
            Err(reason) => {
                eprintln!("gatekeeper: {reason}");
                Sample { time: target, ..Sample::default() }
            }
        }
    }
}

/// Of a hundred packets so many left: of requests those that the channel had room for.
pub(super) const LEFT: &str = "left_percent";
/// Of a hundred packets a policy of this machine was asked about so many.
pub(super) const ASKED: &str = "asked_percent";
/// More than any flow uses, for longer than anything is measured.
const GRANT: Verdict = Verdict::Granted {
    rate_kib: 1 << 24,
    expire_s: 100_000,
    next_renewal_ms: 100_000_000,
    renewal_step_ms: 100_000_000,
};
const DECLINE: Verdict = Verdict::Declined { expire_s: 100_000 };
/// Percent of a table that decided flows may fill, as by default.
const DECIDED: u8 = 75;
/// Polls between two looks at the clock.
const ROUNDS: usize = 128;

#[cfg(test)]
mod tests {
    use super::super::generator::{PERIOD, known};
    use super::*;

    fn slice(load: Load, per_s: u64) -> (Sample, u64) {
        let site = Site::new(1, 1_000_000_000).unwrap();
        let pace = Arc::new(Pace::default());
        pace.per_s.store(per_s, Ordering::Relaxed);
        let rings = Site::rings(1).pop().unwrap();
        let mut bed = Bed::new(&site, (0, rings), load, &pace).unwrap();
        bed.slice(Duration::from_millis(5));
        let sample = bed.slice(Duration::from_millis(5));
        (sample, pace.done.load(Ordering::Relaxed))
    }

    fn flows(from: u32) -> Arc<[u32]> {
        (from..from + 1_000).map(known).collect()
    }

    fn load() -> Load {
        let none: Arc<[u32]> = Arc::new([]);
        let (granted, declined, decisions) = (none.clone(), none.clone(), none);
        let clients = Clients::strangers();
        Load { places: 4_096, granted, declined, decisions, clients, packets: 1_000 }
    }

    #[test]
    fn each_packet_meets_its_verdict() {
        let (sample, _) = slice(load(), 0);
        assert!(sample.ops > 0 && sample.checksum.is_some(), "requests");
        let known = Load { clients: Clients::only(flows(0)), ..load() };
        let (sample, _) = slice(Load { granted: flows(0), ..known.clone() }, 0);
        assert!(sample.ops > 0 && sample.checksum.is_some(), "granted");
        let (sample, _) = slice(Load { declined: flows(0), ..known }, 0);
        assert!(sample.ops > 0 && sample.checksum.is_some(), "declined");
        let both: Vec<u32> =
            flows(0).iter().zip(&*flows(2_000)).flat_map(|(a, b)| [*a, *b]).collect();
        let clients = Clients { flows: both.into(), known: PERIOD / 2 };
        let mixed = Load { granted: flows(0), declined: flows(2_000), clients, ..load() };
        let (sample, _) = slice(mixed, 0);
        assert!(sample.ops > 0 && sample.checksum.is_some(), "mixed");
    }

    #[test]
    fn on_one_machine_too() {
        let slice = |load: Load| {
            let site = Site::one_box(1_000_000).unwrap();
            let mut bed = Bed::new(&site, (0, Rings::none()), load, &Arc::default()).unwrap();
            bed.slice(Duration::from_millis(5));
            bed.slice(Duration::from_millis(5))
        };
        let figure = |sample: &Sample, of: &str| {
            sample.figures.iter().find(|(name, _)| name == of).map(|(_, figure)| *figure)
        };
        let flood = slice(load());
        assert!(flood.ops > 0 && flood.checksum.is_some(), "requests");
        assert_eq!(figure(&flood, LEFT), Some(0.0), "nothing of it passes");
        assert!(figure(&flood, ASKED) > Some(0.0));
        let known = Load { clients: Clients::only(flows(0)), granted: flows(0), ..load() };
        let granted = slice(known);
        assert!(granted.checksum.is_some(), "granted");
        assert_eq!((figure(&granted, LEFT), figure(&granted, ASKED)), (Some(100.0), Some(0.0)));
        let clients = Clients { flows: flows(0), known: PERIOD / 2 };
        let mixed = slice(Load { granted: flows(0), clients, ..load() });
        assert!(mixed.checksum.is_some(), "mixed");
    }

    #[test]
    fn decisions_come_beside() {
        let (granted, decisions) = (flows(0), flows(0));
        let load = Load { clients: Clients::only(flows(0)), granted, decisions, ..load() };
        // On a busy machine the worker may not keep up with the clock.
        let heard = |_| {
            let (sample, done) = slice(load.clone(), 200_000);
            assert!(sample.checksum.is_some());
            done > 200
        };
        assert!((0..20).any(heard));
    }

    #[test]
    fn decisions_are_handed_over() {
        let site = Site::new(2, 1_000_000_000).unwrap();
        let bed = |(number, rings): (usize, Rings)| {
            let all = flows(0);
            let owned = all.iter().copied().filter(|&source| owner(&site, source) == number);
            let owned: Arc<[u32]> = owned.collect();
            assert!((400..600).contains(&owned.len()), "{}", owned.len());
            // The first hears what is to be decided for both.
            let decisions = if number == 0 { flows(0) } else { Arc::new([]) };
            let load = Load { clients: Clients::only(owned.clone()), granted: owned, ..load() };
            let pace = Arc::new(Pace::default());
            let bed = Bed::new(&site, (number, rings), Load { decisions, ..load }, &pace).unwrap();
            pace.per_s.store(200_000, Ordering::Relaxed);
            (bed, pace)
        };
        let mut beds: Vec<_> = Site::rings(2).into_iter().enumerate().map(bed).collect();
        let turn = |(bed, pace): &mut (Bed, Arc<Pace>)| {
            assert!(bed.slice(Duration::from_millis(5)).checksum.is_some());
            (pace.done.load(Ordering::Relaxed) as i64, pace.handed.load(Ordering::Relaxed))
        };
        let heard = |_| {
            let [(done, own), (theirs, handed)] = [0, 1].map(|n| turn(&mut beds[n]));
            assert_eq!(theirs, handed, "all that reach the second come from the first");
            assert!(own <= 0, "nobody hands the first anything: {own} of {done}");
            handed > 200
        };
        assert!((0..20).any(heard));
    }

    #[test]
    fn a_wrong_verdict_is_noticed() {
        let load =
            Load { clients: Clients { flows: flows(0), known: 5 }, granted: flows(0), ..load() };
        assert!(load.allows(5, Verdicts { granted: 2, requests: 3, declined: 0 }));
        assert!(!load.allows(5, Verdicts { granted: 2, requests: 2, declined: 0 }), "one is lost");
        assert!(!load.allows(5, Verdicts { granted: 0, requests: 5, declined: 0 }));
        assert!(!load.allows(5, Verdicts { granted: 2, requests: 2, declined: 1 }));
        let strangers = Load { clients: Clients::strangers(), ..load };
        assert!(strangers.allows(5, Verdicts { requests: 5, ..Verdicts::default() }));
        assert!(!strangers.allows(5, Verdicts { granted: 1, requests: 4, declined: 0 }));
    }
}
