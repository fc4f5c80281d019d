//! Programs: what decisions may name by a number.
//!
//! ```text
//!  [[gatekeeper.program]], program load ─► object ─► policy::bpf: check, engine ─► published: all workers at once
//!                                             └ refused: what was there stays
//! ```
//!
//! 0 and 1 are built in; 2, 3 and 4 are objects that come with Rutter. What is loaded takes a number's
//! place until it is unloaded. Packets, decisions that are heard and decisions that are made here read one
//! table ([`Published`]): there is no time at which workers have different ones, and the old one is freed
//! by control, once no packet can be in the middle of it.
//!
//! Another object under a number is another edition: it never reads what the one before has written into
//! a flow's page. Such flows ask again.
//!
//! `Held` is the last lock: nothing else is taken while it is held.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex};

use api::apps::gatekeeper::Program as Shown;
use api::{ErrorKind, Failure};
use graph::Counter;
use graph::clock::{self, Rate};
use lookup::sync::{Domain, Published};
use nodes::gatekeeper::programs::Programs as Table;
use nodes::gatekeeper::rule::PROGRAMS;
use nodes::gatekeeper::settings::{Counters, Mishaps};
use nodes::gatekeeper::times::Times;
use policy::bpf::stock::STOCK;
use policy::bpf::{Checked, Clock, Engine};
use policy::program::Program;

use crate::parts::state::{failure, lock};
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
pub(super) struct Programs {
    held: Mutex<Held>,
    /// The programs in the form that nodes read.
    table: Arc<Published<Table>>,
}

struct Held {
    by_index: Vec<Option<One>>,
    /// How often each number has got other code.
    editions: Vec<u64>,
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
    /// The programs that Rutter includes, and those of the file.
    ///
    /// # Errors
    /// Which of the file's, and why.
    pub fn new(wanted: &[Wanted], domain: &Arc<Domain>) -> Result<Programs, (usize, String)> {
        let (by_index, editions) = (vec![None; PROGRAMS], vec![0; PROGRAMS]);
        let mut held = Held { by_index, editions, rate: clock::rate() };
        for index in 0..=u8::MAX {
            held.by_index[usize::from(index)] = usual(index, &held.rate);
        }
        for (at, wanted) in wanted.iter().enumerate() {
            let one = read(&wanted.object)
                .and_then(|object| One::new(wanted, object, &held.rate))
                .map_err(|why| (at, why))?;
            held.by_index[usize::from(wanted.index)] = Some(one);
        }
        let table = Arc::new(Published::new(domain, held.table()));
        Ok(Programs { held: Mutex::new(held), table })
    }

    /// The programs in the form that nodes read.
    pub fn table(&self) -> Arc<Published<Table>> {
        self.table.clone()
    }

    /// Puts an object in; gives its edition.
    pub fn load(&self, wanted: &Wanted) -> Result<u8, Failure> {
        let refused = |why: String| failure(ErrorKind::Refused, why);
        let object = read(&wanted.object).map_err(refused)?;
        let mut held = lock(&self.held);
        let one = One::new(wanted, object, &held.rate).map_err(refused)?;
        Ok(self.put(&mut held, wanted.index, Some(one)))
    }

    /// Takes what was loaded out: what comes with Rutter is back, if there is such. Gives the
    /// number's edition.
    pub fn unload(&self, index: u8) -> Result<u8, Failure> {
        let mut held = lock(&self.held);
        let loaded = held.by_index[usize::from(index)].as_ref();
        if loaded.is_none_or(|one| one.file.is_none()) {
            let text = format!("no program was loaded as {index}");
            return Err(failure(ErrorKind::NotFound, text));
        }
        let usual = usual(index, &held.rate);
        Ok(self.put(&mut held, index, usual))
    }

    /// Programs know the length of a tick from when they are loaded: where the clock was measured
    /// anew since, they are loaded again.
    pub fn look(&self) {
        let Ok(mut held) = self.held.try_lock() else { return };
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
        self.table.publish(held.table());
    }

    /// Every reader of the table has the change when this returns, or at its next packets.
    fn put(&self, held: &mut Held, index: u8, one: Option<One>) -> u8 {
        let at = usize::from(index);
        let object = |one: &Option<One>| one.as_ref().map(|one| one.object.clone());
        if object(&held.by_index[at]) != object(&one) {
            held.editions[at] += 1;
        }
        held.by_index[at] = one;
        let table = held.table();
        let edition = table.edition(index);
        self.table.publish(table);
        edition
    }

    /// The loaded programs, in order.
    pub fn show(&self, counters: &[Arc<Counters>]) -> Vec<Shown> {
        let held = lock(&self.held);
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
    fn table(&self) -> Table {
        let mut table = Table::default();
        for (one, index) in self.by_index.iter().zip(0..=u8::MAX) {
            if let Some(one) = one {
                table.set(index, Some(Arc::new(one.program.clone())));
            }
            table.set_edition(index, self.editions[usize::from(index)]);
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

/// The object that Rutter includes under this number.
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

/// A program, how it runs, and the number of instructions in its two functions.
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

/// The programs that need no object.
const BUILT_IN: [&str; 2] = ["granted", "declined"];
/// Bytes of an object, with what a debugger wants of it.
const MOST: u64 = 4 << 20;
