//! A worker that has nothing but requests.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use graph::clock::Rate;
use lookup::exact::flow::{FlowId, FlowKey, FlowTable};
use lookup::hint::prefetch;
use lookup::interleave::{fetch, interleave};
use lookup::lpm::{Engines, Lpm, Options};
use lookup::sync::Domain;
use lookup::{Hop, Prefix, Rib};
use nodes::gatekeeper::machine::{Flow, Machine, Verdict};
use nodes::gatekeeper::programs::Programs;
use nodes::gatekeeper::request::LOWEST_DSCP;
use nodes::gatekeeper::rule::Arrival;
use nodes::gatekeeper::times::Times;

use super::super::key;
use super::Heads;
use super::solicit::{Descriptor, Links, Solicitor};
use crate::data::Rng;

pub(super) struct Worker {
    table: Box<dyn FlowTable>,
    /// Where packets of flows that the table does not know are to go.
    fib: Arc<dyn Lpm<u32>>,
    heads: Heads,
    /// A flow without a place asks with the lowest priority; else its packet is dropped.
    unbacked: bool,
    solicitor: Solicitor,
    /// Packets: what is known of them, and their headers.
    descriptors: Vec<Descriptor>,
    headers: Vec<Header>,
    times: Times,
    programs: Programs,
    now: u64,
    /// The packet that comes next, and what is added to its source, so that none is repeated.
    at: usize,
    fresh: u32,
    /// Flows that were made, the oldest first.
    made: VecDeque<FlowKey>,
}

/// A packet's first line; its source is the word in the middle.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Header([u32; 16]);

impl Worker {
    pub(super) fn new(
        table: Box<dyn FlowTable>,
        fib: &Arc<dyn Lpm<u32>>,
        (heads, links): (Heads, Links),
        unbacked: bool,
    ) -> Worker {
        let rate = Rate::measured(SECOND, Duration::from_secs(1)).expect("a second has ticks");
        let header = |at: usize| Header([at as u32; 16]);
        Worker {
            table,
            fib: fib.clone(),
            heads,
            unbacked,
            solicitor: Solicitor::new(links),
            descriptors: vec![Descriptor::NONE; PACKETS],
            headers: (0..PACKETS).map(header).collect(),
            times: Times::new(rate),
            programs: Programs::default(),
            now: SECOND,
            at: 0,
            fresh: 0,
            made: VecDeque::new(),
        }
    }

    /// Fills the table, by single insertions, so that it holds the same whatever its options
    /// are, until so many in a row have found no place, or made others go.
    pub(super) fn fill(&mut self) {
        let mut failed = 0;
        while failed < FAILURES {
            let before = self.table.capacity();
            let key = key(self.fresh);
            self.fresh += 1;
            self.now += PACKET;
            self.find(std::slice::from_ref(&key), &mut [FlowId::NONE]);
            let grew = self.table.capacity().entries > before.entries;
            failed = if grew { 0 } else { failed + 1 };
        }
    }

    /// The verdicts on the same packets for each table: of four one is of a flow that it knows,
    /// the others are of flows that find no place, so that the rule says what becomes of them.
    /// Where others make room for them, they are just new.
    pub(super) fn trace(&mut self) -> u64 {
        let makes_room = self.table.counts().replaced != [0; 3];
        let (mut rng, mut fresh) = (Rng::new(46), u32::MAX);
        let mut keys = Vec::with_capacity(TRACE);
        // As many are known of each table, and since when: see `fill`.
        let known = self.table.capacity().max_entries / 4;
        while keys.len() < TRACE {
            if keys.len() % 4 == 0 {
                keys.push(key(rng.below(known) as u32));
                continue;
            }
            let (key, mut id) = (key(fresh), [FlowId::NONE]);
            fresh -= 1;
            if !makes_room {
                self.find(std::slice::from_ref(&key), &mut id);
            }
            if id[0].is_none() {
                keys.push(key);
            }
        }
        self.now = SECOND + 2 * PACKET * self.table.capacity().max_entries as u64;
        let mut sum = 0_u64;
        for keys in keys.chunks(BURST) {
            let (packets, _) = self.packets(keys.len());
            self.ask(keys, &packets, |word| {
                sum = (sum ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
            });
        }
        sum
    }

    /// So many packets of new flows. The oldest flow goes before each burst, as by a sweep: in
    /// a table that has no place at all nobody would search for one.
    pub(super) fn serve(&mut self, count: u64) -> u64 {
        for _ in 0..count / BURST as u64 {
            if let Some(oldest) = self.made.pop_front() {
                self.table.delete(&oldest, &mut |_, _, _| ());
            }
            let (packets, fresh) = self.packets(BURST);
            let (mut keys, headers) = ([FlowKey::v4(0, 0); BURST], &self.headers);
            let header = |i: usize| &headers[packets[i] as usize];
            let key = |i: usize| key(header(i).0[7].wrapping_add(fresh[i]));
            match self.heads {
                Heads::Singly => (0..BURST).for_each(|i| keys[i] = key(i)),
                Heads::Ahead => {
                    (0..AHEAD).for_each(|i| prefetch(header(i)));
                    for (i, of) in keys.iter_mut().enumerate() {
                        prefetch(header((i + AHEAD) % BURST));
                        *of = key(i);
                    }
                }
                Heads::Turns => interleave::<TURNS, _>(
                    BURST,
                    async |i| {
                        fetch(header(i)).await;
                        key(i)
                    },
                    |i, key| keys[i] = key,
                ),
            }
            self.ask(&keys, &packets, |word| {
                black_box(word);
            });
        }
        0
    }

    pub(super) fn filled_percent(&self) -> f64 {
        let capacity = self.table.capacity();
        capacity.entries as f64 / capacity.slots as f64 * 100.0
    }

    /// The next packets that do not wait, in an order that no cache foresees; and what is to
    /// be added to the source of each.
    fn packets(&mut self, count: usize) -> ([u32; BURST], [u32; BURST]) {
        let (mut packets, mut fresh) = ([0; BURST], [0; BURST]);
        for (packet, fresh) in packets.iter_mut().zip(&mut fresh).take(count) {
            loop {
                (*packet, *fresh) = ((self.at * STRIDE % PACKETS) as u32, self.fresh);
                self.at += 1;
                if self.at == PACKETS {
                    (self.at, self.fresh) = (0, self.fresh.wrapping_add(PACKETS as u32));
                }
                if !self.descriptors[*packet as usize].waits() {
                    break;
                }
            }
        }
        (packets, fresh)
    }

    /// The flows of `keys`; those that are new have the state of a new request.
    fn find(&mut self, keys: &[FlowKey], ids: &mut [FlowId]) {
        let machine = Machine { times: &self.times, programs: &self.programs };
        let (expires, state) = machine.fresh(self.now);
        self.table.find_or_insert_batch(self.now, expires, keys, ids, &mut |_, _, _| ());
        let mut view = self.table.view();
        for (&id, key) in ids.iter().zip(keys).filter(|(id, _)| id.is_new()) {
            *view.state(id).0 = state;
            self.made.push_back(*key);
        }
    }

    /// Looks up where packets of flows are to go that the table has not known: what nothing
    /// protects would be no request.
    fn route(&self, ids: &[FlowId], levels: &mut [u8; BURST]) {
        let unknown = |&i: &usize| ids[i].is_none() || ids[i].is_new();
        let (dsts, mut hops) = (black_box([DESTINATION; BURST]), [Hop::NONE; BURST]);
        if self.heads == Heads::Singly {
            (0..ids.len()).filter(unknown).for_each(|i| hops[i] = self.fib.lookup(dsts[i]));
        } else {
            let n = (0..ids.len()).filter(unknown).count();
            self.fib.lookup_batch(&dsts[..n], &mut hops[..n]);
            // All are to one destination: whose is whose makes no difference.
            hops = [hops[0]; BURST];
        }
        for i in (0..ids.len()).filter(unknown) {
            levels[i] = if hops[i] == PROTECTED { levels[i] } else { DROPPED };
        }
    }

    /// What becomes of a burst: `verdict` sees the level of each, and what is sent.
    fn ask(&mut self, keys: &[FlowKey], packets: &[u32; BURST], mut verdict: impl FnMut(u32)) {
        let (mut ids, mut levels) = ([FlowId::NONE; BURST], [LOWEST_DSCP; BURST]);
        self.now += PACKET * keys.len() as u64;
        let ids = &mut ids[..keys.len()];
        self.find(keys, ids);
        self.route(ids, &mut levels);
        let machine = Machine { times: &self.times, programs: &self.programs };
        let arrival = Arrival { now: self.now, len: 60, link: &[], packet: &[] };
        let mut view = self.table.view();
        for (&id, level) in ids.iter().zip(&mut levels).filter(|(id, _)| !id.is_none()) {
            let expired = view.flow(id).expires();
            let mut expires = expired;
            let (state, _) = view.state(id);
            let mut flow = Flow { expires: &mut expires, state, page: None };
            if let Verdict::Request(dscp) = machine.packet(&mut flow, &arrival).verdict {
                *level = dscp;
            }
            if expires != expired {
                view.set_expires(id, expires);
            }
        }
        if !self.unbacked {
            let placeless = ids.iter().zip(&mut levels).filter(|(id, _)| id.is_none());
            placeless.for_each(|(_, level)| *level = DROPPED);
        }
        levels[..keys.len()].iter().for_each(|&level| verdict(u32::from(level)));
        let burst = packets.iter().copied().zip(levels).take(keys.len());
        let burst = burst.filter(|(_, level)| *level != DROPPED);
        let most = keys.len() / 20;
        self.solicitor
            .burst(&mut self.descriptors, burst, most, |packet| verdict(packet | 1 << 31));
    }
}

/// A table of routes as DPDK's, with the route of what is protected: requests of the thesis'
/// measurement are to one destination.
pub(super) fn fib() -> Result<Arc<dyn Lpm<u32>>, String> {
    let entry = u32::engine("dir-24-8").ok_or("no engine `dir-24-8`")?;
    let rib: Rib<u32> = [(Prefix::covering(DESTINATION, 24), PROTECTED)].into_iter().collect();
    let writer = (entry.build)(&rib, &Options::default(), &Domain::new());
    writer.map(|writer| writer.table()).map_err(|refusal| refusal.to_string())
}

/// No level.
const DROPPED: u8 = 0;
const DESTINATION: u32 = 0xc000_0201;
const PROTECTED: Hop = Hop(7);
/// Ticks in a second: nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Ticks from packet to packet.
const PACKET: u64 = 50;
const BURST: usize = 64;
const AHEAD: usize = 4;
const TURNS: usize = 32;
/// Packets there are, and the odd number of them from one to the next.
const PACKETS: usize = 1 << 14;
const STRIDE: usize = 5501;
const TRACE: usize = 1 << 13;
const FAILURES: usize = 200;

#[cfg(test)]
mod tests {
    use lookup::exact::flow::Wanted;

    use super::super::usual;
    use super::*;

    /// Each step of a rule has the verdicts of the one before it, however many packets it
    /// serves meanwhile.
    #[test]
    fn steps_of_a_rule_agree() {
        let mut sums = Vec::new();
        let fib = fib().unwrap();
        for step in usual() {
            let wanted = Wanted { entries: (1 << 10) - 1, second: SECOND };
            let table = (step.engine.build)(wanted, &step.options).unwrap();
            let how = (step.heads, step.links);
            let mut worker = Worker::new(table, &fib, how, step.rule == "thesis");
            worker.fill();
            let sum = worker.trace();
            worker.serve(1 << 10);
            assert!(worker.filled_percent() > 80.0, "{}: {}", step.name, worker.filled_percent());
            sums.push((step.rule, sum));
        }
        let of = |rule: &str| -> Vec<u64> {
            sums.iter().filter(|(of, _)| of == rule).map(|(_, sum)| *sum).collect()
        };
        let (thesis, deployed, replace) = (of("thesis"), of("deployed"), of("replace"));
        assert!(thesis.iter().all(|it| it == &thesis[0]) && thesis.len() == 6, "{sums:x?}");
        assert!(deployed.len() == 1 && replace.len() == 1);
        assert!(thesis[0] != deployed[0] && thesis[0] != replace[0] && deployed[0] != replace[0]);
    }
}
