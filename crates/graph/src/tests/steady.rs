//! What the data path does over and over allocates nothing.

use std::collections::VecDeque;

use io::mem::{Ring, RingDevice};
use io::{Device, Pool, PoolConfig};
use lookup::sync::Domain;

use super::{Drop, Straight};
use crate::jobs::{self, Jobs};
use crate::testing::Counting;
use crate::wheel::Wheel;
use crate::{
    Account, Builder, Due, Graph, Job, Kept, NoDrop, NoEdge, Node, Progress, Unsent, View,
};

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `work` allocates, after as much work before.
fn allocated(rounds: usize, mut work: impl FnMut()) -> u64 {
    (0..rounds).for_each(|_| work());
    let before = Counting::allocations();
    (0..rounds).for_each(|_| work());
    Counting::allocations() - before
}

const ROUNDS: usize = if cfg!(miri) { 10 } else { 1_000 };

#[test]
fn a_wheel_allocates_nothing() {
    let (mut wheel, mut now) = (Wheel::new(64, 3, 0), 0_u64);
    let mut ran_out = 0;
    let work = || {
        let timers = [5, 700, 90_000].map(|after| wheel.insert(now + after, after));
        timers[1].and_then(|timer| wheel.cancel(timer).ok_or(0)).expect("it runs");
        now += 20_000;
        wheel.advance(now, 64, |_| ran_out += 1);
    };
    assert_eq!(allocated(ROUNDS, work), 0);
    assert!(ran_out > ROUNDS);
}

/// Keeps every packet for two polls, by a timer each.
struct Delay {
    wheel: Wheel<Kept>,
    /// Those that have run out.
    ready: VecDeque<Kept>,
    polls: u64,
    emitted: usize,
}

impl Node for Delay {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "delay";
    const HELP: &'static str = "keeps packets for two polls";
    const TICKS: bool = true;
    const KEEPS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in 0..v.n() {
            let kept = v.keep(i).expect("a packet");
            let refused = self.wheel.insert(self.polls + 2, kept).err();
            self.ready.extend(refused);
        }
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        self.polls += 1;
        self.wheel.advance(self.polls, usize::MAX, |kept| self.ready.push_back(kept));
        while let Some(kept) = self.ready.pop_front() {
            match v.emit(kept) {
                Ok(i) => v.leave(i, Straight::Out),
                Err(Unsent::Full(kept)) => {
                    self.ready.push_front(kept);
                    return Due::NOW;
                }
                Err(Unsent::Gone(_)) => unreachable!("the test removes no port"),
            }
            self.emitted += 1;
        }
        Due::NEVER // with traffic, of which there is no end
    }

    fn abandon(&mut self) -> Option<(Kept, NoDrop)> {
        unreachable!("the test ends without a drain")
    }
}

struct Send;
impl Node for Send {
    type Edge = NoEdge;
    type Drop = NoDrop;
    const NAME: &'static str = "out";
    const HELP: &'static str = "sends by port 0";

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (packets, ports) = v.sink();
        let n = ports.get(0).expect("port 0").transmit(packets);
        v.account(Account::Transmitted, n);
    }
}

/// Counts the polls, by a job.
struct Look(usize);

impl Job<Delay> for Look {
    type Part = usize;

    fn step(&mut self, node: &mut Delay, items: usize) -> Progress<usize> {
        self.0 += items;
        Progress::More(self.0 + node.emitted)
    }
}

fn delaying(rings: &[Ring], pool: &Pool) -> Graph {
    let delay = Delay {
        wheel: Wheel::new(1024, 0, 0),
        ready: VecDeque::with_capacity(1024),
        polls: 0,
        emitted: 0,
    };
    let mut graph = Builder::new("delay").node(delay).node(Send).node(Drop).build(0).unwrap();
    let mut port = RingDevice::new("m", [2; 6], 0, rings, pool).start(1).unwrap().remove(0);
    port.attach(0);
    graph.ports().set(0, port);
    graph
}

#[test]
fn keeping_ticking_emitting_and_a_job_allocate_nothing() {
    let config = PoolConfig { packets: 800, mtu: 600, large_pages: false };
    let rings = [Ring::new(&config, 1, |_, _| 60).unwrap()];
    let mut graph = delaying(&rings, &Pool::new(&config).unwrap());
    let mut thread = Domain::new().register("test");
    let (mut jobs, _ended) = Jobs::new();
    let (job, parts) = jobs::started::<Delay, Look>(Look(0));
    jobs.add(job);
    let mut seen = 0;
    let work = || {
        graph.poll(thread.guard());
        thread.quiesce();
        assert!(jobs.step(&mut graph), "the job goes on");
        seen += usize::from(parts.messages.try_recv().is_ok());
    };
    assert_eq!(allocated(ROUNDS, work), 0);
    let law = graph.stats().balance();
    assert!(law.holds() && law.held > 0 && law.transmitted > ROUNDS as u64, "{law:?}");
    assert!(seen >= ROUNDS, "{seen} parts");
    std::mem::forget(graph); // with what it keeps
}
