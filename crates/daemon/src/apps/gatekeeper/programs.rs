//! Programs: what decisions may name by a number.
//!
//! ```text
//!  [[gatekeeper.program]], program load ─► object ─► policy::bpf: check, engine ─► workers, one after the other
//!                                             └ refused: what was there stays
//! ```
//!
//! 0 and 1 are built in; 2, 3 and 4 are objects that come with Rutter. What is loaded takes a number's
//! place until it is unloaded. A worker changes between two polls, and gives the old ones back: they are
//! freed here, by whom no worker waits for.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex};

use api::apps::gatekeeper::Program as Shown;
use api::{ErrorKind, Failure};
use graph::Counter;
use graph::clock::{self, Rate};
use nodes::gatekeeper::listing::set_programs;
use nodes::gatekeeper::programs::Programs as Table;
use nodes::gatekeeper::rule::PROGRAMS;
use nodes::gatekeeper::settings::{Counters, Mishaps};
use nodes::gatekeeper::times::Times;
use nodes::grantor;
use policy::bpf::stock::STOCK;
use policy::bpf::{Checked, Clock, Engine};
use policy::program::Program;

use crate::parts::state::{State, failure, lock, up};
use crate::trusted;

/// A program of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    pub index: u8,
    /// Its object.
    pub object: String,
    pub name: String,
}

/// All numbers.
pub(super) struct Programs(Mutex<Held>);

struct Held {
    by_index: Vec<Option<One>>,
    /// The clock that they were loaded with.
    rate: Rate,
}

/// An object, and what runs it.
#[derive(Clone)]
struct One {
    name: String,
    /// The file; none of what comes with Rutter.
    file: Option<String>,
    object: Arc<[u8]>,
    engine: Engine,
    instructions: [usize; 2],
    program: Arc<dyn Program>,
}

impl Programs {
    /// What comes with Rutter, and what the file adds.
    ///
    /// # Errors
    /// Which of the file's, and why.
    pub fn new(wanted: &[Wanted]) -> Result<Programs, (usize, String)> {
        let mut held = Held { by_index: vec![None; PROGRAMS], rate: clock::rate() };
        for index in 0..=u8::MAX {
            held.by_index[usize::from(index)] = usual(index, &held.rate);
        }
        for (at, wanted) in wanted.iter().enumerate() {
            let one = read(&wanted.object)
                .and_then(|object| One::new(wanted, object, &held.rate))
                .map_err(|why| (at, why))?;
            held.by_index[usize::from(wanted.index)] = Some(one);
        }
        Ok(Programs(Mutex::new(held)))
    }

    /// As nodes take them.
    pub fn table(&self) -> Table {
        lock(&self.0).table()
    }

    /// Puts an object in.
    pub fn load(&self, wanted: &Wanted, state: &State) -> Result<(), Failure> {
        let refused = |why: String| failure(ErrorKind::Refused, why);
        let object = read(&wanted.object).map_err(refused)?;
        let mut held = lock(&self.0);
        let one = One::new(wanted, object, &held.rate).map_err(refused)?;
        held.put(wanted.index, Some(one), state)
    }

    /// Takes what was loaded out: what comes with Rutter is back, if there is such.
    pub fn unload(&self, index: u8, state: &State) -> Result<(), Failure> {
        let mut held = lock(&self.0);
        let loaded = held.by_index[usize::from(index)].as_ref();
        if loaded.is_none_or(|one| one.file.is_none()) {
            let text = format!("no program was loaded as {index}");
            return Err(failure(ErrorKind::NotFound, text));
        }
        let usual = usual(index, &held.rate);
        held.put(index, usual, state)
    }

    /// Programs know the length of a tick from when they are loaded: where the clock was measured
    /// anew since, they are loaded again.
    pub fn look(&self, state: &State) {
        let Ok(mut held) = self.0.try_lock() else { return };
        let rate = clock::rate();
        if rate == held.rate {
            return;
        }
        held.rate = rate;
        for one in held.by_index.iter_mut().flatten() {
            // It was taken before.
            if let Ok((program, engine, _)) = made(&one.object, &rate) {
                (one.program, one.engine) = (program, engine);
            }
        }
        let _ = held.publish(state); // workers that end need none
    }

    /// Those that are there, in their order.
    pub fn show(&self, counters: &[Arc<Counters>]) -> Vec<Shown> {
        let held = lock(&self.0);
        let shown = held.by_index.iter().zip(0_u8..=u8::MAX).filter_map(|(one, index)| {
            let sum = |of: fn(&Mishaps) -> &Counter| -> u64 {
                counters.iter().map(|all| of(all.program(index)).get()).sum()
            };
            let [failed, refused] = [sum(|of| &of.failed), sum(|of| &of.refused)];
            let shown = match (one, BUILT_IN.get(usize::from(index))) {
                (Some(one), _) => Shown {
                    index,
                    name: one.name.clone(),
                    object: one.file.clone().unwrap_or_else(|| "rutter".into()),
                    engine: engine_name(one.engine).into(),
                    instructions: Some(one.instructions.map(|n| n as u32)),
                    failed,
                    refused,
                },
                (None, Some(name)) => Shown {
                    index,
                    name: (*name).into(),
                    object: "rutter".into(),
                    engine: "built in".into(),
                    instructions: None,
                    failed,
                    refused,
                },
                (None, None) => return None,
            };
            Some(shown)
        });
        shown.collect()
    }
}

impl Held {
    fn put(&mut self, index: u8, one: Option<One>, state: &State) -> Result<(), Failure> {
        let place = &mut self.by_index[usize::from(index)];
        let old = std::mem::replace(place, one);
        self.publish(state).inspect_err(|_| self.by_index[usize::from(index)] = old)
    }

    /// Every worker has them, and none of the old ones, when this returns.
    fn publish(&self, state: &State) -> Result<(), Failure> {
        let workers = state.workers();
        for worker in &up(&workers)?.threads {
            let (both, here) = ([self.table(), self.table()], self.table());
            let old = worker
                .call(move |graph| (set_programs(graph, both), grantor::set_programs(graph, here)));
            drop(old.map_err(|error| failure(ErrorKind::Internal, error))?);
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::default();
        for (one, index) in self.by_index.iter().zip(0..=u8::MAX) {
            if let Some(one) = one {
                table.set(index, Some(Arc::new(one.program.clone())));
            }
        }
        table
    }
}

impl One {
    fn new(wanted: &Wanted, object: Arc<[u8]>, rate: &Rate) -> Result<One, String> {
        let named = |why: &dyn Display| format!("{}: {why}", wanted.object);
        let (program, engine, instructions) = made(&object, rate).map_err(|why| named(&why))?;
        let Wanted { name, object: file, .. } = wanted.clone();
        Ok(One { name, file: Some(file), object, engine, instructions, program })
    }
}

/// What comes with Rutter as an object under this number.
fn usual(index: u8, rate: &Rate) -> Option<One> {
    let stock = STOCK.iter().find(|stock| stock.index == index)?;
    if usize::from(index) < BUILT_IN.len() {
        return None;
    }
    // The tests of `policy` load each.
    let (program, engine, instructions) = made(stock.object, rate).ok()?;
    let object = stock.object.into();
    Some(One { name: stock.name.into(), file: None, object, engine, instructions, program })
}

/// A program, who runs it, and the instructions of its two functions.
type Made = (Arc<dyn Program>, Engine, [usize; 2]);

/// By DPDK's compiler where it is trusted with the object, else by the interpreter.
fn made(object: &[u8], rate: &Rate) -> Result<Made, policy::bpf::Refused> {
    let times = Times::new(*rate);
    let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) };
    let checked = Checked::new(object, clock)?;
    let (program, engine) = checked.best();
    Ok((program, engine, checked.instructions()))
}

fn read(path: &str) -> Result<Arc<[u8]>, String> {
    let read = trusted::bytes(Path::new(path), MOST);
    read.map(Arc::from).map_err(|error| format!("{path}: {error}"))
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Interpreter => "interpreter",
        Engine::Compiled => "compiled",
    }
}

/// What is there without an object.
const BUILT_IN: [&str; 2] = ["granted", "declined"];
/// Bytes of an object, with what a debugger wants of it.
const MOST: u64 = 4 << 20;
