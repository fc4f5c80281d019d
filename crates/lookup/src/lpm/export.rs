//! Tables for devices with memory of their own. An engine that has a kernel there builds the
//! same table and hands out what copies the arrays that its lookups read, by a line of its
//! own in the registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::engine::{Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Addr, Rib};

/// A table whose arrays can be copied as they are.
pub trait Export: Send + Sync {
    /// Appends figures and arrays, in the order in which the engine's kernel expects them.
    /// They are of one version where no update runs meanwhile.
    fn copy(&self, to: &mut Words);
}

/// What a table consists of, as words of 32 bits; of a longer number the low word comes first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Words {
    /// What a lookup needs beside the arrays.
    pub figures: Vec<u32>,
    /// The arrays.
    pub arrays: Vec<Vec<u32>>,
}

impl Words {
    /// Appends a figure of 64 bits.
    pub(super) fn figure_64(&mut self, figure: u64) {
        self.figures.extend(halves(figure));
    }

    /// Appends an array of words of 64 bits.
    pub(super) fn array_64<'w>(&mut self, words: impl Iterator<Item = &'w AtomicU64>) {
        let words = words.flat_map(|word| halves(word.load(Ordering::Relaxed)));
        self.arrays.push(words.collect());
    }
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// A table and what copies it: `export` is of the table that `writer` changes.
pub struct Exported<A: Addr> {
    /// What updates the table.
    pub writer: Box<dyn Writer<A>>,
    /// What copies it.
    pub export: Arc<dyn Export>,
}

/// Builds an engine with what copies it.
pub type BuildExported<A> = fn(&Rib<A>, &Options, &Arc<Domain>) -> Result<Exported<A>, Refusal>;
