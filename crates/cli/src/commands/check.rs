//! `rutter check`.

mod replay;
mod truth;
mod verify;

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use formats::{AnyPrefix, Error as TableError, Hops, Listed, Table};
use lookup::lpm::{Applied, Choice, Entry, Options, Writer};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Rib};
use serde::Serialize;

use crate::context::Context;
use crate::engine::{self, Fib};
use crate::error::Error;
use crate::status::Status;
use crate::table::TableArgs;
use truth::Truth;
use verify::{Tally, Verify};

/// Compare an engine with a table, address by address
///
/// Looks up both ends of every prefix and the addresses beside them. Looks up addresses
/// inside every prefix (at random, and at the ends of blocks of any size), between
/// neighbouring prefixes, and a million anywhere. Each is looked up alone and in
/// batches, and compared with a list of intervals that is made without the engine.
/// With --updates, applies announcements and withdrawals in batches, looks up around
/// and inside each change, and compares everything again at the end, with a separate
/// copy of the routes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter check --table internet:100000 --engine dir-24-8
  rutter check --table internet:100000 --engine dxr:k=18,isa=portable
  rutter check --table rib.20260701.bz2 --engine dxr --updates updates.20260701.0000.gz

If updates come from several peers, each prefix's best route counts, as in a table.

Exit status: 0 all answers agree, 1 some do not, 2 the engine refuses the table, a
file could not be read in full, or there is nothing to check.")]
pub struct Args {
    #[command(flatten)]
    table: TableArgs,

    /// The engine (see `rutter engines`), with options as NAME:OPTION=VALUE,…; it is
    /// checked in its families. `all`: one after the other
    #[arg(short, long, value_name = "NAME", value_parser = engine::Name, hide_possible_values = true)]
    engine: Choice,

    /// An MRT file of BGP4MP records to apply after the first comparison
    #[arg(short, long, value_name = "FILE")]
    updates: Option<PathBuf>,
}

/// Compares.
pub fn run(mut args: Args, cx: &mut Context) -> Result<Status, Error> {
    let all = args.engine.name == ALL && args.engine.options == Options::default();
    let engines = if all { Vec::new() } else { vec![engine::find(Some(&args.engine.name))?] };
    let peer = args.table.peer;
    let truths = RefCell::new(Truths::default());
    let listed = |routes: Listed| truths.borrow_mut().add(routes);
    let (table, mut status) = match args.table.load_listed(Some(&listed)) {
        // The peer is one of the updates then.
        Err(Error::Table { error: TableError::NoPeers, .. }) if args.updates.is_some() => {
            args.table.peer = None;
            args.table.load_listed(Some(&listed))?
        }
        loaded => loaded?,
    };
    let truths = truths.into_inner();
    for pair in &engines {
        engine::skip(pair, &table, &args.table.table)?;
    }
    if table.v4.is_empty() && table.v6.is_empty() && args.updates.is_none() {
        return Err(Error::EmptyTable { spec: args.table.table });
    }
    if !all {
        let pair = engines[0];
        return Ok(status.max(check(pair, &args, peer, (table, truths), cx)?));
    }
    // One that refuses does not keep the others from it.
    for name in engine::names() {
        let routes = (table.clone(), truths.clone());
        status = status.max(match check(engine::find(Some(name))?, &args, peer, routes, cx) {
            Err(Error::Refusal(refusal)) => {
                crate::warn::warn(refusal);
                Status::Fault
            }
            done => done?,
        });
        cx.out.flush()?;
    }
    Ok(status)
}

/// Checks one engine in its families.
fn check(
    engines: engine::Pair,
    args: &Args,
    peer: Option<IpAddr>,
    (table, truths): (Table, Truths),
    cx: &mut Context,
) -> Result<Status, Error> {
    let options =
        if args.engine.name == ALL { Options::default() } else { args.engine.options.clone() };
    let mut hops = table.hops;
    let mut checks = Checks { v4: None, v6: None, engines, options, domain: Domain::new() };
    // A family without routes needs no engine, unless updates bring some.
    checks.start((table.v4, truths.v4), (table.v6, truths.v6))?;
    checks.verify();
    let mut status = Status::Success;
    if let Some(path) = &args.updates {
        status = status.max(replay::replay(path, peer, &mut hops, &mut checks)?);
        checks.verify();
    }
    status = status.max(print(&checks.v4, &hops, cx)?);
    Ok(status.max(print(&checks.v6, &hops, cx)?))
}

/// The routes of both families as they were read.
#[derive(Clone, Default)]
struct Truths {
    v4: Truth<u32>,
    v6: Truth<u128>,
}

impl Truths {
    fn add(&mut self, routes: Listed) {
        match routes {
            Listed::V4(routes) => self.v4.extend(routes),
            Listed::V6(routes) => self.v6.extend(routes),
        }
    }
}

/// What `--engine` takes for each of them.
const ALL: &str = "all";

/// Both families of an engine, as far as it has them and there are routes.
struct Checks {
    v4: Option<Check<u32>>,
    v6: Option<Check<u128>>,
    engines: engine::Pair,
    options: Options,
    domain: Arc<Domain>,
}

impl Checks {
    /// Builds an engine for each family that has routes and none yet.
    fn start(&mut self, v4: Routes<u32>, v6: Routes<u128>) -> Result<(), Error> {
        let (options, domain) = (&self.options, &self.domain);
        if let (Some(entry), None, false) = (self.engines.0, &self.v4, v4.1.is_empty()) {
            self.v4 = Some(Check::new(entry, options, v4, domain)?);
        }
        if let (Some(entry), None, false) = (self.engines.1, &self.v6, v6.1.is_empty()) {
            self.v6 = Some(Check::new(entry, options, v6, domain)?);
        }
        Ok(())
    }

    fn verify(&mut self) {
        self.v4.iter_mut().for_each(Check::verify);
        self.v6.iter_mut().for_each(Check::verify);
    }
}

/// One family: the routes, the engine built from them, and the findings.
struct Check<A: Addr> {
    entry: &'static Entry<A>,
    options: Options,
    rib: Rib<A>,
    /// The routes that `rib` should hold.
    truth: Truth<A>,
    fib: Fib<A>,
    writer: Box<dyn Writer<A>>,
    domain: Arc<Domain>,
    verify: Verify<A>,
    updates: Option<Updates>,
}

/// The store that an engine is built from, and the routes that it should hold.
type Routes<A> = (Rib<A>, Truth<A>);

/// The changes that were applied.
#[derive(Clone, Copy, Default, Serialize)]
struct Updates {
    /// Inserts, changes and deletes.
    changes: u64,
    /// Calls that brought them.
    batches: u64,
    /// Batches for which the engine was built anew.
    rebuilds: u64,
}

impl<A: Addr> Check<A> {
    fn new(
        entry: &'static Entry<A>,
        options: &Options,
        (rib, truth): Routes<A>,
        domain: &Arc<Domain>,
    ) -> Result<Self, Error> {
        let (fib, writer) = Fib::with_writer(entry, options, &rib, domain)?;
        let (domain, verify, options) = (Arc::clone(domain), Verify::default(), options.clone());
        Ok(Check { entry, options, rib, truth, fib, writer, domain, verify, updates: None })
    }

    fn verify(&mut self) {
        let mut routes: Vec<_> = self.truth.iter().collect();
        routes.sort_unstable(); // addresses near one another are looked up together
        self.verify.all(&routes, &*self.fib.table);
    }

    /// Applies `changes` and looks up around each.
    fn apply(&mut self, mut changes: Vec<Change<A>>) -> Result<(), Error> {
        // Also where there are none: the other family's garbage waits for this thread.
        self.fib.thread.quiesce();
        changes.retain(|change| self.truth.get(&change.prefix) != change.hop);
        if changes.is_empty() {
            return Ok(());
        }
        changes.iter().for_each(|change| {
            self.rib.apply(change);
            self.truth.apply(change);
        });
        let updates = self.updates.get_or_insert_default();
        updates.changes += changes.len() as u64;
        updates.batches += 1;
        if self.writer.apply(&self.rib, &changes)? == Applied::Rebuild {
            updates.rebuilds += 1;
            (self.fib, self.writer) =
                Fib::with_writer(self.entry, &self.options, &self.rib, &self.domain)?;
        }
        self.fib.thread.quiesce();
        self.domain.reclaim();
        self.verify.around(&changes, &self.truth, &*self.fib.table);
        Ok(())
    }
}

#[derive(Serialize)]
struct Outcome {
    engine: &'static str,
    family: &'static str,
    prefixes: usize,
    bytes: usize,
    #[serde(flatten)]
    tally: Tally,
    updates: Option<Updates>,
}

fn print<A: Addr>(
    check: &Option<Check<A>>,
    hops: &Hops,
    cx: &mut Context,
) -> Result<Status, Error> {
    let Some(check) = check else { return Ok(Status::Success) };
    let outcome = Outcome {
        engine: check.fib.engine,
        family: A::FAMILY,
        prefixes: check.rib.len(),
        bytes: check.fib.table.bytes(),
        tally: check.verify.tally,
        updates: check.updates,
    };
    let Outcome { engine, family, prefixes, bytes, tally, updates } = &outcome;
    let name = |hop: Hop| match hop {
        Hop::NONE => "no route".to_owned(),
        hop => format!("hop {} ({})", hop.0, hops.name(hop).unwrap_or("-")),
    };
    for wrong in check.verify.wrong() {
        let (addr, got, want) = (wrong.addr.to_ip(), name(wrong.got), name(wrong.want));
        crate::warn::warn(format_args!("{engine}: {addr}: {got} instead of {want}"));
    }
    if cx.json {
        cx.print_json(&outcome)?;
    } else {
        let Tally { addresses, disagreements } = tally;
        write!(cx.out, "{engine} {family}: {prefixes} prefixes in {bytes} bytes, ")?;
        if let Some(Updates { changes, batches, rebuilds }) = updates {
            write!(cx.out, "{changes} changes in {batches} batches ({rebuilds} rebuilds), ")?;
        }
        writeln!(cx.out, "{addresses} addresses looked up, {disagreements} disagree")?;
    }
    Ok(if tally.disagreements == 0 { Status::Success } else { Status::No })
}

/// A change to one prefix of either family.
fn change<A: Addr>(prefix: lookup::Prefix<A>, hop: Option<Hop>) -> Change<A> {
    Change { prefix, hop }
}

/// The first route that is added: enough to build an engine, which the others are added to.
fn added<A: Addr>(changes: &[Change<A>]) -> Routes<A> {
    let mut routes = changes.iter().filter_map(|change| Some((change.prefix, change.hop?)));
    let first: Vec<_> = routes.next().into_iter().collect();
    (first.iter().copied().collect(), Truth::new(first))
}

impl Checks {
    /// Applies `changes`, each to its family; those of other families are dropped.
    fn apply(&mut self, changes: &[(AnyPrefix, Option<Hop>)]) -> Result<(), Error> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for &(prefix, hop) in changes {
            match prefix {
                AnyPrefix::V4(prefix) => v4.push(change(prefix, hop)),
                AnyPrefix::V6(prefix) => v6.push(change(prefix, hop)),
            }
        }
        // Of a family that had no routes the first ones are what the engine is built from.
        self.start(added(&v4), added(&v6))?;
        self.v4.as_mut().map_or(Ok(()), |check| check.apply(v4))?;
        self.v6.as_mut().map_or(Ok(()), |check| check.apply(v6))
    }

    /// True when an engine was built anew for a batch: larger ones are cheaper.
    fn rebuilds(&self) -> bool {
        let v4 = self.v4.as_ref().and_then(|check| check.updates);
        let v6 = self.v6.as_ref().and_then(|check| check.updates);
        v4.into_iter().chain(v6).any(|updates| updates.rebuilds > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_family_do_not_wait_for_the_other() {
        let domain = Domain::new();
        let engines = engine::find(Some("bsd-radix")).unwrap();
        let options = Options::default();
        let mut checks =
            Checks { v4: None, v6: None, engines, options, domain: Arc::clone(&domain) };
        let v6 = lookup::Prefix::covering(1 << 127, 8);
        let v6 = added(&[change(v6, Some(Hop(2)))]);
        checks.start(added(&[]), v6).unwrap();
        assert!(checks.v4.is_none(), "there are no routes");
        let mark = domain.mark();
        let prefix = AnyPrefix::V4(lookup::Prefix::new(0xc000_0200, 24).unwrap());
        checks.apply(&[(prefix, Some(Hop(1)))]).unwrap();
        assert!(domain.passed(mark), "{:?}", domain.silent(mark));
        assert_eq!(checks.v4.unwrap().fib.table.lookup(0xc000_02ff), Hop(1));
    }

    /// What the store loses is missing in the engine, and in no list that is made from it.
    #[test]
    fn a_route_that_is_lost_in_loading_is_found() {
        let file = "192.0.2.0/24 a\n198.51.100.0/24 b\n192.0.2.0/24 b\n2001:db8::/32 a\n";
        let truths = RefCell::new(Truths::default());
        let listed = |routes: Listed| truths.borrow_mut().add(routes);
        let load = formats::Load { listed: Some(&listed), ..Default::default() };
        let table = Table::read(file.as_bytes(), 0, &load).unwrap();
        let truths = truths.into_inner();
        let disagreements = |lost: Option<lookup::Prefix<u32>>| {
            let mut rib = table.v4.clone();
            lost.iter().for_each(|prefix| {
                rib.remove(prefix);
            });
            let (engines, options) = (engine::find(Some("rutter4")).unwrap(), Options::default());
            let mut checks = Checks { v4: None, v6: None, engines, options, domain: Domain::new() };
            checks.start((rib, truths.v4.clone()), (table.v6.clone(), truths.v6.clone())).unwrap();
            checks.verify();
            checks.v4.unwrap().verify.tally.disagreements
        };
        assert_eq!(disagreements(None), 0);
        assert!(disagreements(lookup::Prefix::new(0xc633_6400, 24).ok()) > 0);
    }
}
