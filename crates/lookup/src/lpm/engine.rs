//! What an engine is: its table, its writer, its card.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Rib};

/// A table that many threads read. Memory-safe to read at any time; answers are
/// those of the routes before or after a concurrent update as long as the
/// reading thread is registered with the [`Domain`] that the table was built
/// with, and has not quiesced during the call.
pub trait Lpm<A: Addr>: Send + Sync {
    /// The hop of the longest prefix that covers `dst` (host byte order).
    fn lookup(&self, dst: A) -> Hop;

    /// `hops[i] = lookup(dsts[i])` for every `i`, many reads in flight at once.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]);

    /// The instruction set that [`lookup_batch`](Lpm::lookup_batch) uses: `portable` is what
    /// every processor of the target has.
    fn isa(&self) -> &'static str {
        "portable"
    }

    /// Bytes that a lookup can read, and unreclaimed and free arena: what the
    /// table costs in memory, without the [`Rib`] and the writer's own state.
    fn bytes(&self) -> usize;

    /// Engine-specific figures for `show fib` (name, value); none by default.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Counts lookups from 0 on: those so far were trials.
    fn reset_counters(&self) {}
}

/// The one thread that changes a table.
pub trait Writer<A: Addr>: Send {
    /// The table, to be read by any number of threads.
    fn table(&self) -> Arc<dyn Lpm<A>>;

    /// Brings the table in line with `rib`, which already holds `changes`.
    ///
    /// # Errors
    /// When a hop, a prefix or the size exceeds a limit of the engine. The table
    /// then still answers as before the call; the caller takes the changes back
    /// out of the `rib`, or builds another engine.
    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal>;

    /// Heap bytes of the writer's own state, beside the table and the `Rib`.
    fn bytes(&self) -> usize {
        0
    }
}

/// What [`Writer::apply`] did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Applied {
    /// The table now answers as the `Rib` does.
    InPlace,
    /// This engine does not update: build it anew from the `Rib` and swap.
    Rebuild,
}

/// Why an engine does not take a table: its name and the limit it names.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{engine} refuses: {limit}")]
pub struct Refusal {
    /// The engine's name.
    pub engine: &'static str,
    /// Which limit, with figures: `hop 70000 exceeds 65534`.
    pub limit: String,
}

/// What an engine is, as data: `rutter engines` prints these.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The name in configuration, records and `show` output.
    pub name: &'static str,
    /// The paper or text that describes it.
    pub paper: &'static str,
    /// One line.
    pub help: &'static str,
    /// The largest hop id it stores.
    pub max_hop: u32,
    /// The longest prefix it takes.
    pub max_len: u8,
    /// The most prefixes it takes; `None` where memory is the only limit.
    pub max_prefixes: Option<u64>,
    /// Options: name, default, one line of help.
    pub options: &'static [(&'static str, &'static str, &'static str)],
}

/// An engine's options by name, as written in the configuration.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options(pub BTreeMap<String, String>);

/// Builds an engine from a store of routes.
pub type Build<A> = fn(&Rib<A>, &Options, &Arc<Domain>) -> Result<Box<dyn Writer<A>>, Refusal>;

/// One engine in the registry of a family.
#[derive(Clone, Copy)]
pub struct Entry<A: Addr> {
    /// What it is.
    pub card: &'static Card,
    /// How it is built.
    pub build: Build<A>,
}
