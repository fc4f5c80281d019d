//! `rutter lookup`.

mod bulk;
mod device;
mod parse;
mod pipe;
mod raw;

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use formats::Table;
use lookup::lpm::{Choice, Engines, Entry, Exports, Options};
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix, Rib};
use offload::crew::Crew;
use serde::Serialize;

use crate::context::Context;
use crate::engine::{self, Fib};
use crate::error::Error;
use crate::status::Status;
use crate::table::TableArgs;
use crate::warn::warn;
use crate::whole::Whole;
use bulk::Bulk;
use device::DeviceArgs;
use pipe::{Blocks, SMALL};

/// Look addresses up in a table file
///
/// Prints one line an address: address, prefix and next hop, separated by tabs;
/// `-` where there is none. Addresses from a terminal or a pipe are answered as they arrive.
/// When many are waiting, they are answered in large blocks, at millions a second.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter lookup --table routes.txt 192.0.2.1 2001:db8::1
  rutter lookup --table rib.20260701.bz2 --peer 198.51.100.1 192.0.2.1
  rutter lookup --table internet:1000000 -j - < addresses
  rutter lookup --table rib.mrt.gz --no-prefix --threads 4 < addresses > hops
  rutter lookup --table rib.mrt.gz --device threads --raw ipv4 -o hops.bin < addresses.bin
  zcat routes.gz | rutter lookup --table - 192.0.2.1

A table file is text, one `prefix next-hop` a line:
  192.0.2.0/24     198.51.100.1    # a comment
  2001:db8::/32    2001:db8:ff::1

Exit status: 0 every address has a route, 1 one has none, 2 a malformed address,
or a table that could not be read in full (the rest is answered).")]
pub struct Args {
    #[command(flatten)]
    table: TableArgs,

    /// Look up with this engine (see `rutter engines`), in its families only; options
    /// as NAME:OPTION=VALUE,…
    #[arg(short, long, value_name = "NAME", value_parser = engine::Name, hide_possible_values = true)]
    engine: Option<Choice>,

    /// Print address and next hop alone. The next hop is the engine's answer; with prefixes,
    /// each answer is compared with the prefix's route
    #[arg(long)]
    no_prefix: bool,

    /// Threads that look up addresses from standard input; with more than one, answers come in
    /// large pieces [default: 1; with --device, all cores, except one that feeds a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Standard input is binary: addresses of 4 or 16 bytes each in network byte order. Answers
    /// are binary too, 4 bytes each: the numbers of the next hops, counted from 1 in the order
    /// in which the table first names them; 0 for none
    #[arg(long, value_name = "FAMILY", conflicts_with = "addresses")]
    raw: Option<raw::Family>,

    /// Write the answers to this file. It appears when it is complete: if the command fails
    /// or is interrupted, the old one stays
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Addresses; `-`, or none, reads them from standard input, separated by blanks or lines
    #[arg(value_name = "ADDR", default_value = "-", hide_default_value = true)]
    addresses: Vec<String>,
}

/// Looks up.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let Some(path) = &args.output else { return look_up(&args, cx) };
    let whole = Whole::create(path, &cx.die_on_interrupt)?;
    let to_file = |error| Error::File { path: path.clone(), error };
    let before = std::mem::replace(&mut cx.out, whole.writer()?);
    let done = look_up(&args, cx).and_then(|status| {
        cx.out.flush()?;
        Ok(status)
    });
    drop(std::mem::replace(&mut cx.out, before).into_parts()); // drops the output of a failed run
    let status = done.map_err(|error| match error {
        Error::Output(error) | Error::Offload(offload::error::Error::Io(error)) => to_file(error),
        error => error,
    })?;
    whole.keep()?;
    Ok(status)
}

fn look_up(args: &Args, cx: &mut Context) -> Result<Status, Error> {
    let choice = args.engine.clone().unwrap_or_default();
    let engines = engine::find(args.engine.as_ref().map(|choice| choice.name.as_str()))?;
    if args.raw.is_some() && cx.json {
        return Err(Error::Usage("--raw and --json cannot be combined"));
    }
    if args.table.table == "-" && args.addresses.iter().any(|address| address == "-") {
        return Err(Error::Usage(
            "the table comes from standard input: give the addresses as arguments",
        ));
    }
    args.device.warn_of_unused();
    let (table, mut status) = args.table.load()?;
    if table.is_empty() && status == Status::Success {
        warn(format_args!("{}: there is no prefix in it", args.table.table));
    }
    if let Some(family) = args.raw {
        let done = raw::from_stdin(family, engines, &choice.options, &table, args, cx)?;
        return Ok(status.max(done));
    }
    let many = !cx.json && args.addresses.iter().any(|address| address == "-");
    if !many {
        args.warn_of_unused(cx.json);
    }
    let fibs = Fibs::build(engines, &choice.options, table, args, many)?;
    for (number, address) in (1..).zip(&args.addresses) {
        status = status.max(match address.as_str() {
            "-" if cx.json => words_of_stdin(&fibs, cx)?,
            "-" => pipe::from_stdin(&fibs, usize::from(args.threads.unwrap_or(1)), cx)?,
            address => answer(&fibs, address, format_args!("argument {number}"), cx)?,
        });
    }
    Ok(status)
}

impl Args {
    /// Names the options for many addresses, which have no effect on addresses that are looked up one
    /// by one.
    fn warn_of_unused(&self, json: bool) {
        let unused = match (&self.device.device, self.threads) {
            (None, None) => return,
            (Some(_), None) => "--device has",
            (None, Some(_)) => "--threads has",
            (Some(_), Some(_)) => "--device and --threads have",
        };
        let which = if json { "with -j" } else { "in arguments" };
        warn(format_args!("addresses {which} are looked up one by one: {unused} no effect"));
    }
}

struct Fibs<'a> {
    table: Table,
    v4: Option<Served<u32>>,
    v6: Option<Served<u128>>,
    prefixes: bool,
    args: &'a Args,
}

/// The table of one family, and with `--device` the processors that answer many addresses from it.
struct Served<A: Addr> {
    fib: Fib<A>,
    crew: Option<Mutex<Crew<A>>>,
}

impl<A: Engines + Exports> Served<A> {
    fn build(
        entry: &'static Entry<A>,
        options: &Options,
        rib: &Rib<A>,
        args: &Args,
        many: bool,
    ) -> Result<Self, Error> {
        if args.device.device.is_none() || !many {
            let fib = Fib::build(entry, options, rib, &Domain::new())?;
            return Ok(Served { fib, crew: None });
        }
        let table = offload::table::Table::build(entry, options, rib)?;
        let fib = Fib::of(&table);
        let crew = device::crew(&args.device, args.threads, table)?;
        Ok(Served { fib, crew: Some(Mutex::new(crew)) })
    }
}

impl<'a> Fibs<'a> {
    /// Engines for the families that the table has, and for `many` addresses the device.
    fn build(
        engines: engine::Pair,
        options: &Options,
        table: Table,
        args: &'a Args,
        many: bool,
    ) -> Result<Self, Error> {
        engine::skip(&engines, &table, &args.table.table)?;
        let v4 = engines.0.filter(|_| !table.v4.is_empty());
        let v4 =
            v4.map(|entry| Served::build(entry, options, &table.v4, args, many)).transpose()?;
        let v6 = engines.1.filter(|_| !table.v6.is_empty());
        let v6 =
            v6.map(|entry| Served::build(entry, options, &table.v6, args, many)).transpose()?;
        Ok(Fibs { table, v4, v6, prefixes: !args.no_prefix, args })
    }

    fn lookup(&self, addr: IpAddr) -> Result<Option<(String, Hop)>, Error> {
        fn text<A: Addr>((prefix, hop): (Prefix<A>, Hop)) -> (String, Hop) {
            (prefix.to_string(), hop)
        }
        Ok(match (addr, &self.v4, &self.v6) {
            (IpAddr::V4(addr), Some(v4), _) => {
                v4.fib.lookup(&self.table.v4, addr.into())?.map(text)
            }
            (IpAddr::V6(addr), _, Some(v6)) => {
                v6.fib.lookup(&self.table.v6, addr.into())?.map(text)
            }
            _ => None,
        })
    }

    /// For blocks of addresses.
    fn bulk(&self) -> Result<Bulk<'_>, Error> {
        let v4 = self.v4.as_ref().map(|served| (served, &self.table.v4));
        let v6 = self.v6.as_ref().map(|served| (served, &self.table.v6));
        Bulk::new(v4, v6, &self.table.hops, self.prefixes)
    }
}

/// Answers one by one: lines of JSON.
fn words_of_stdin(fibs: &Fibs, cx: &mut Context) -> Result<Status, Error> {
    let (mut blocks, mut status, mut number) = (Blocks::of_stdin()?, Status::Success, 1_u64);
    let mut block = Vec::new();
    while blocks.next(&mut block, SMALL)? {
        for line in block.split_inclusive(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            for word in text.split_ascii_whitespace() {
                let answered = answer(fibs, word, format_args!("standard input:{number}"), cx)?;
                status = status.max(answered);
            }
            number += u64::from(line.ends_with(b"\n"));
        }
        cx.out.flush()?;
    }
    Ok(status)
}

#[derive(Serialize)]
struct Answer<'a> {
    addr: &'a str,
    prefix: Option<&'a str>,
    hop: Option<&'a str>,
}

fn answer(
    fibs: &Fibs,
    word: &str,
    place: std::fmt::Arguments,
    cx: &mut Context,
) -> Result<Status, Error> {
    let Ok(addr) = word.parse() else {
        warn(format_args!("{place}: not an IPv4 or IPv6 address: {word}"));
        return Ok(Status::Fault);
    };
    let found = fibs.lookup(addr)?;
    let prefix = found.as_ref().map(|(prefix, _)| prefix.as_str());
    let hop = found.as_ref().and_then(|&(_, hop)| fibs.table.hops.name(hop));
    if cx.json {
        let prefix = prefix.filter(|_| fibs.prefixes);
        cx.print_json(&Answer { addr: word, prefix, hop })?;
    } else if !fibs.prefixes {
        writeln!(cx.out, "{word}\t{}", hop.unwrap_or("-"))?;
    } else {
        writeln!(cx.out, "{word}\t{}\t{}", prefix.unwrap_or("-"), hop.unwrap_or("-"))?;
    }
    Ok(if found.is_some() { Status::Success } else { Status::No })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_empty_family_gets_no_engine() {
        for (table, has_v4, has_v6) in [
            ("internet:20", true, false),
            ("internet6:20", false, true),
            ("internet:20+20", true, true),
        ] {
            let Line { args } = Line::parse_from(["lookup", "--table", table]);
            let (table, _) = args.table.load().expect("it is generated");
            let engines = engine::find(None).expect("the default ones");
            for many in [false, true] {
                let table = table.clone();
                let fibs = Fibs::build(engines, &Options::default(), table, &args, many);
                let fibs = fibs.expect("within the limits");
                assert_eq!((fibs.v4.is_some(), fibs.v6.is_some()), (has_v4, has_v6));
            }
        }
    }
}
