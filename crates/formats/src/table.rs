//! The table that every loader fills.

use lookup::rng::mix;
use lookup::{Addr, Hop, Prefix, Rib};

use crate::hops::Hops;
use crate::memory::{self, NoMemory, Small};
use crate::prefix::AnyPrefix;
use crate::report::{Fault, Report};

/// Routes of both families, the names of their next hops, and what was wrong
/// with the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// IPv4 routes.
    pub v4: Rib<u32>,
    /// IPv6 routes.
    pub v6: Rib<u128>,
    /// Next hops of both families by id.
    pub hops: Hops,
    /// What the load met besides good routes.
    pub report: Report,
}

impl Table {
    /// Prefixes of both families.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The routes of one family in the order of the file; of equal prefixes the last counts.
#[derive(Clone, Copy, Debug)]
pub enum Listed<'a> {
    /// IPv4.
    V4(&'a [(Prefix<u32>, Hop)]),
    /// IPv6.
    V6(&'a [(Prefix<u128>, Hop)]),
}

/// Collects routes in the order of the file; [`Builder::finish`] sorts them.
#[derive(Default)]
pub(crate) struct Builder {
    pub mask: bool,
    pub report: Report,
    hops: Hops,
    v4: Vec<(Prefix<u32>, Hop)>,
    v6: Vec<(Prefix<u128>, Hop)>,
    nameless: bool,
    small: Small,
}

impl Builder {
    /// `mask`: clear host bits instead of refusing the line.
    pub fn new(mask: bool) -> Self {
        Builder { mask, ..Builder::default() }
    }

    /// Makes room for one more route; before each [`Builder::add`].
    pub fn grow(&mut self) -> Result<(), NoMemory> {
        self.small.ask()?;
        self.hops.grow()?;
        memory::grow(&mut self.v4)?;
        memory::grow(&mut self.v6)
    }

    /// Adds a route; of equal prefixes the last one counts.
    pub fn add(&mut self, prefix: AnyPrefix, name: Option<&str>) -> Result<(), Fault> {
        let hop = match name {
            Some(name) => self.hops.id(name).ok_or(Fault::TooManyHops)?,
            None => {
                self.nameless = true;
                nameless(&prefix)
            }
        };
        match prefix {
            AnyPrefix::V4(prefix) => self.v4.push((prefix, hop)),
            AnyPrefix::V6(prefix) => self.v6.push((prefix, hop)),
        }
        Ok(())
    }

    /// Routes so far, duplicates included.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// The table; its routes are shown to `listed` first.
    pub fn finish(mut self, listed: Option<&dyn Fn(Listed)>) -> Result<Table, NoMemory> {
        if self.nameless {
            let base = self.hops.add_nameless(NAMELESS as usize);
            place_nameless(&mut self.v4, base);
            place_nameless(&mut self.v6, base);
        }
        if let Some(listed) = listed {
            listed(Listed::V4(&self.v4));
            listed(Listed::V6(&self.v6));
        }
        let routes = self.len();
        let (v4, v6) = (rib(self.v4)?, rib(self.v6)?);
        let mut table = Table { v4, v6, hops: self.hops, report: self.report };
        table.report.duplicates += (routes - table.len()) as u64;
        Ok(table)
    }
}

/// Sorts `routes` into a store, where there is memory for a copy to sort and for it.
fn rib<A: Addr>(routes: Vec<(Prefix<A>, Hop)>) -> Result<Rib<A>, NoMemory> {
    memory::ask(routes.len() * 2 * size_of::<(Prefix<A>, Hop)>())?;
    Ok(routes.into_iter().collect())
}

/// A route without a next hop gets one of 255 by its prefix, so that an engine
/// distinguishes neighbours. Marked until the number of named ones is known.
fn nameless(prefix: &AnyPrefix) -> Hop {
    let (addr, len) = match prefix {
        AnyPrefix::V4(prefix) => (u128::from(prefix.first()), prefix.len()),
        AnyPrefix::V6(prefix) => (prefix.first(), prefix.len()),
    };
    let hash = mix(addr as u64 ^ mix((addr >> 64) as u64 ^ u64::from(len)));
    Hop(MARK | (1 + hash % NAMELESS) as u32)
}

fn place_nameless<A: Addr>(routes: &mut [(Prefix<A>, Hop)], base: u32) {
    for (_, hop) in routes.iter_mut().filter(|(_, hop)| hop.0 & MARK != 0) {
        *hop = Hop(base + (hop.0 & !MARK));
    }
}

const NAMELESS: u64 = 255;

/// Above [`Hop::MAX`], so no named hop has it.
const MARK: u32 = 1 << 31;
