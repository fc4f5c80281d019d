//! Control reaches a node of a running graph: at once, and step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lookup::sync::Domain;

use super::{Bench, Drop, Left, Out, Straight, bench, frame};
use crate::{
    Builder, Due, Graph, Idle, Job, NoDrop, Node, NodeError, Progress, View, Worker, WorkerConfig,
    WorkerError,
};

const SIZE: usize = if cfg!(miri) { 4_000 } else { 1_000_000 };

/// Passes packets on, has a table, and knows how many of its items were touched at
/// most between two polls.
struct Table {
    items: Vec<u32>,
    now: usize,
    most: Arc<AtomicUsize>,
}

impl Node for Table {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "table";
    const HELP: &'static str = "has a table";
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(Straight::Out);
    }

    fn tick(&mut self, _: &mut View<'_, Self>) -> Due {
        self.most.fetch_max(std::mem::take(&mut self.now), Ordering::Relaxed);
        Due::NEVER // a step wakes it
    }
}

/// Another type of the same name.
struct Other;
impl Node for Other {
    type Edge = Straight;
    type Drop = NoDrop;
    const NAME: &'static str = "table";
    const HELP: &'static str = "is none";

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(Straight::Out);
    }
}

fn table_graph() -> (Bench, Arc<AtomicUsize>) {
    let (mut bench, most) = (bench(), Arc::new(AtomicUsize::new(0)));
    let table = Table { items: (0..SIZE as u32).collect(), now: 0, most: most.clone() };
    let port = bench.graph.ports().remove(0).unwrap();
    bench.graph = Builder::new("table").node(table).node(Out).node(Drop).build(0).unwrap();
    bench.graph.ports().set(0, port);
    (bench, most)
}

fn start(graph: Graph) -> Worker {
    let config = WorkerConfig {
        name: "lister".into(),
        number: 0,
        core: None,
        idle: Idle::Adaptive,
        bell: crate::Bell::new().unwrap(),
    };
    Worker::start(config, &Domain::new(), graph).unwrap()
}

/// Lists the table.
#[derive(Default)]
struct List {
    at: usize,
    steps: Arc<AtomicUsize>,
    /// Set where the job is freed.
    freed: Option<Arc<AtomicBool>>,
}

impl Job<Table> for List {
    type Part = Vec<u32>;

    fn step(&mut self, node: &mut Table, items: usize) -> Progress<Vec<u32>> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let end = node.items.len().min(self.at + items);
        let part = node.items[self.at..end].to_vec();
        node.now += part.len();
        self.at = end;
        if end == node.items.len() { Progress::Last(part) } else { Progress::More(part) }
    }
}

impl std::ops::Drop for List {
    fn drop(&mut self) {
        if let Some(freed) = &self.freed {
            assert_ne!(std::thread::current().name(), Some("lister"), "freed by the worker");
            freed.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_large_table_is_listed_while_packets_flow() {
    let (Bench { graph, peer, pool, .. }, most) = table_graph();
    let worker = start(graph);
    let mut lists = [(); 2].map(|()| worker.start_job(List::default()).unwrap());
    let (mut seen, mut sent, mut pushed) = ([Vec::new(), Vec::new()], 0, 0);
    loop {
        let mut more = false;
        for (list, seen) in lists.iter_mut().zip(&mut seen) {
            if let Some(part) = list.next_part().unwrap() {
                seen.extend(part);
                more = true;
            }
        }
        if !more {
            break;
        }
        if pushed - sent < 200 {
            peer.push(&frame(0, pushed));
            pushed += 1;
        }
        sent += peer.take().len();
    }
    for seen in seen {
        assert_eq!(seen.len(), SIZE);
        assert!(seen.iter().enumerate().all(|(i, &item)| i == item as usize));
    }
    while sent < pushed {
        sent += peer.take().len();
        std::thread::sleep(Duration::from_millis(1));
    }
    let graph = worker.stop().unwrap();
    assert!(pushed > SIZE / 1000, "{pushed}");
    let most = most.load(Ordering::Relaxed);
    assert!(most > 0 && most <= <List as Job<Table>>::ITEMS, "{most} items in one poll");
    assert!(graph.stats().balance().holds());
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn a_job_that_nobody_waits_for_ends_and_is_freed_by_control() {
    let worker = start(table_graph().0.graph);
    let (steps, freed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let list = List { at: 0, steps: steps.clone(), freed: Some(freed.clone()) };
    let mut answers = worker.start_job(list).unwrap();
    assert_eq!(answers.next_part().unwrap().unwrap().len(), 256);
    // It waits for its parts to be fetched.
    let waited = settled(&steps);
    assert!(waited <= 8, "{waited} steps");
    drop(answers);
    for _ in 0..1_000 {
        worker.call(|_| ()).unwrap();
        if freed.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(freed.load(Ordering::Relaxed) && steps.load(Ordering::Relaxed) <= waited + 1);
}

/// Its value once it has stayed for 30 ms.
fn settled(count: &AtomicUsize) -> usize {
    let mut seen = usize::MAX;
    while std::mem::replace(&mut seen, count.load(Ordering::Relaxed)) != seen {
        std::thread::sleep(Duration::from_millis(30));
    }
    seen
}

/// Nothing has to be polled, so it sleeps for 100 ms at a time; a part that is fetched
/// wakes it.
#[test]
#[cfg_attr(miri, ignore)] // it measures time, which passes too slowly there
fn a_job_that_waits_leaves_an_idle_worker_asleep() {
    let mut graph = table_graph().0.graph;
    drop(graph.ports().remove(0));
    let worker = start(graph);
    let steps = Arc::new(AtomicUsize::new(0));
    let mut answers = worker.start_job(List { at: 0, steps: steps.clone(), freed: None }).unwrap();
    for _ in 0..3 {
        let waited = settled(&steps);
        while !worker.status().asleep {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = worker.status().polls;
        std::thread::sleep(Duration::from_millis(250));
        let polls = worker.status().polls - before;
        assert!(polls <= 8, "{polls} polls while the job waits");
        assert_eq!(steps.load(Ordering::Relaxed), waited);
        assert!(answers.next_part().unwrap().is_some());
        assert_eq!(settled(&steps), waited + 1, "there is room for one part more");
    }
}

/// Changes the table's items, and says how many.
struct Add(u32, usize);

impl Job<Table> for Add {
    type Part = usize;
    const ITEMS: usize = 1000;

    fn step(&mut self, node: &mut Table, items: usize) -> Progress<usize> {
        let from = self.1;
        let items = node.items.iter_mut().skip(from).take(items);
        let done = items.map(|item| *item += self.0).count();
        self.1 += done;
        if self.1 == node.items.len() { Progress::Last(done) } else { Progress::More(done) }
    }
}

#[test]
fn control_reads_and_changes_a_node() {
    let worker = start(table_graph().0.graph);
    let done = worker.start_job(Add(7, 0)).unwrap().all().unwrap();
    assert_eq!((done.len(), done.iter().sum::<usize>()), (SIZE / 1000, SIZE));
    let last = |graph: &mut Graph| graph.node_mut::<Table>().map(|table| table.items[SIZE - 1]);
    assert_eq!(worker.call(last).unwrap(), Ok(SIZE as u32 + 6));
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let worker = start(table_graph().0.graph);
    let missing = |graph: &mut Graph| graph.node_mut::<Left>().map(|_| ()).unwrap_err();
    let error = worker.call(missing).unwrap();
    assert_eq!(error, NodeError::None { node: "left" });
    assert_eq!(error.to_string(), "the graph has no node `left`");
    let other = |graph: &mut Graph| graph.node_mut::<Other>().map(|_| ()).unwrap_err();
    let error = worker.call(other).unwrap().to_string();
    assert!(error.starts_with("node `table` is not a ") && error.ends_with("Other"), "{error}");

    // A running job ends with its graph, and one for the new graph finds another node.
    let mut answers = worker.start_job(List::default()).unwrap();
    std::thread::sleep(Duration::from_millis(20)); // as many parts wait as may
    let replaced = Builder::new("table").node(Other).node(Out).node(Drop).build(0).unwrap();
    worker.swap(replaced).unwrap();
    let ended = loop {
        match answers.next_part() {
            Ok(part) => assert!(part.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, WorkerError::Replaced { .. }), "{ended}");
    let error = worker.start_job(List::default()).unwrap().all().unwrap_err();
    assert!(matches!(
        error,
        WorkerError::Node { source: NodeError::Type { node: "table", .. }, .. }
    ));
    let mut late = worker.start_job(List::default()).unwrap();
    worker.stop().unwrap();
    assert!(late.next_part().is_err());
}
