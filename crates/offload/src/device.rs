//! What a device is: a table goes in, batches of addresses go through.

use std::ops::DerefMut;

use lookup::{Addr, Hop};

use crate::fault::Fault;
use crate::image::Patch;
use crate::pieces::Pieces;
use crate::table::Table;

/// A processor for batches of lookups.
///
/// A batch is one value: whoever has it answers for it. [`Device::submit`] takes it,
/// [`Device::collect`] gives it back answered, and after a fault [`Device::abandon`] gives back
/// those that have no answer. So none is lost, and none answered twice.
///
/// A table is loaded or changed while no batch is under way, so a batch sees one version.
pub trait Device<A: Addr>: Send {
    /// What it is.
    fn capabilities(&self) -> &Capabilities;

    /// Memory for a batch, as the device likes it best.
    ///
    /// # Errors
    /// When there is none.
    fn batch(&mut self, addresses: usize) -> Result<Batch<A>, Fault>;

    /// Takes a whole table.
    ///
    /// # Errors
    /// When the engine has no code for the device, the device no room, or it is lost.
    fn load(&mut self, table: &Table<A>) -> Result<(), Fault>;

    /// Takes what has changed: `patch` leads from the version that it has to `table`.
    ///
    /// # Errors
    /// As [`Device::load`].
    fn update(&mut self, table: &Table<A>, patch: &Patch) -> Result<(), Fault>;

    /// Takes a batch and begins to answer it.
    ///
    /// # Errors
    /// When the device is lost. It has the batch all the same: [`Device::abandon`].
    fn submit(&mut self, batch: Batch<A>) -> Result<(), Fault>;

    /// Gives back a batch that is answered; `None` where there is none, or, without `wait`,
    /// none yet.
    ///
    /// # Errors
    /// When the device is lost, or has kept a batch for too long.
    fn collect(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault>;

    /// Who answers addresses where they lie, from the table that is loaded now. `None` of a device
    /// that takes batches alone, as one with memory of its own does.
    fn in_place(&self) -> Option<Box<dyn InPlace<A>>> {
        None
    }

    /// Gives back all batches that were submitted and not collected. What is in their hops is
    /// no answer.
    fn abandon(&mut self) -> Vec<Batch<A>>;
}

/// Processors that need no batches.
pub trait InPlace<A: Addr>: Sync {
    /// Answers pieces from the back until none is left, on so many threads more than the processor
    /// has otherwise. The caller works, too.
    ///
    /// # Errors
    /// When a lookup fails. The hops of its piece are then no answers.
    fn answer(&self, pieces: &Pieces<'_, A>, more: usize) -> Result<(), Fault>;
}

/// What a device is.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// `threads`, `cuda` or `model`.
    pub kind: &'static str,
    /// Its name, for people.
    pub name: String,
    /// Batches that it works on at once.
    pub at_once: usize,
    /// Bytes for a table and batches; `None` where they are the machine's.
    pub memory: Option<u64>,
}

/// Memory that a device may have allocated.
pub type Room<T> = Box<dyn DerefMut<Target = [T]> + Send>;

/// Addresses, and room for their hops.
///
/// I1: `dsts` and `hops` have the same length, and `len` is not more.
pub struct Batch<A> {
    dsts: Room<A>,
    hops: Room<Hop>,
    len: usize,
    /// Its place in the input.
    pub number: u64,
}

impl<A: Addr> Batch<A> {
    /// An empty one in ordinary memory.
    pub fn new(addresses: usize) -> Self {
        Batch::of(Box::new(vec![A::default(); addresses]), Box::new(vec![Hop::NONE; addresses]))
    }

    /// An empty one in memory that a device has allocated.
    ///
    /// # Panics
    /// When there is room for more of the one than of the other.
    pub(crate) fn of(dsts: Room<A>, hops: Room<Hop>) -> Self {
        assert_eq!(dsts.len(), hops.len());
        Batch { dsts, hops, len: 0, number: 0 }
    }

    /// The same addresses in ordinary memory, without answers.
    pub(crate) fn copy(&self) -> Self {
        let mut copy = Batch::new(self.room());
        copy.dsts[..self.len].copy_from_slice(self.dsts());
        Batch { len: self.len, number: self.number, ..copy }
    }

    /// Addresses that it has room for.
    pub fn room(&self) -> usize {
        self.dsts.len()
    }

    /// Lets `write` write addresses to the beginning of up to `most`; it returns how many.
    ///
    /// # Errors
    /// What `write` returns; the batch is then empty.
    pub fn fill<E>(
        &mut self,
        most: usize,
        write: impl FnOnce(&mut [A]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.len = 0;
        let most = most.min(self.room());
        self.len = write(&mut self.dsts[..most])?.min(most);
        Ok(self.len)
    }

    /// The addresses.
    pub fn dsts(&self) -> &[A] {
        &self.dsts[..self.len]
    }

    /// Their hops, once the batch is answered.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..self.len]
    }

    /// The addresses, and where their hops go.
    pub fn parts(&mut self) -> (&[A], &mut [Hop]) {
        (&self.dsts[..self.len], &mut self.hops[..self.len])
    }
}
