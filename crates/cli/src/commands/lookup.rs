//! `rutter lookup`.

use std::io::{self, BufRead, BufReader, Write, stdin};
use std::net::IpAddr;

use formats::Table;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix};
use serde::Serialize;

use crate::context::Context;
use crate::engine::{self, Fib};
use crate::error::Error;
use crate::status::Status;
use crate::table::TableArgs;
use crate::warn::warn;

/// Look addresses up in a table file
///
/// Prints one line an address: address, prefix and next hop, separated by tabs;
/// `-` where there is none.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter lookup --table routes.txt 192.0.2.1 2001:db8::1
  rutter lookup --table rib.20260701.bz2 --peer 198.51.100.1 192.0.2.1
  rutter lookup --table internet:1000000 -j - < addresses

A table file is text, one `prefix next-hop` a line:
  192.0.2.0/24     198.51.100.1    # a comment
  2001:db8::/32    2001:db8:ff::1

Exit status: 0 every address has a route, 1 one has none, 2 a malformed address,
or a table that could not be read in full (the rest is answered).")]
pub struct Args {
    #[command(flatten)]
    table: TableArgs,

    /// Look up with this engine (see `rutter engines`), in its families only
    #[arg(short, long, value_name = "NAME", value_parser = engine::Name, hide_possible_values = true)]
    engine: Option<String>,

    /// Addresses; `-`, or none, reads them from standard input, separated by blanks or lines
    #[arg(value_name = "ADDR", default_value = "-", hide_default_value = true)]
    addresses: Vec<String>,
}

/// Looks up.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let engines = engine::find(args.engine.as_deref())?;
    let (table, mut status) = args.table.load()?;
    let fibs = Fibs::build(engines, table, &args)?;
    for (number, address) in (1..).zip(&args.addresses) {
        status = status.max(match address.as_str() {
            "-" => from_stdin(&fibs, cx)?,
            address => answer(&fibs, address, format_args!("argument {number}"), cx)?,
        });
    }
    Ok(status)
}

struct Fibs {
    table: Table,
    v4: Option<Fib<u32>>,
    v6: Option<Fib<u128>>,
}

impl Fibs {
    fn build(engines: engine::Pair, table: Table, args: &Args) -> Result<Self, Error> {
        engine::skip(&engines, &table, &args.table.table)?;
        let domain = Domain::new();
        let v4 = engines.0.map(|entry| Fib::build(entry, &table.v4, &domain)).transpose()?;
        let v6 = engines.1.map(|entry| Fib::build(entry, &table.v6, &domain)).transpose()?;
        Ok(Fibs { table, v4, v6 })
    }

    fn lookup(&self, addr: IpAddr) -> Result<Option<(String, Hop)>, Error> {
        fn text<A: Addr>((prefix, hop): (Prefix<A>, Hop)) -> (String, Hop) {
            (prefix.to_string(), hop)
        }
        Ok(match (addr, &self.v4, &self.v6) {
            (IpAddr::V4(addr), Some(v4), _) => v4.lookup(&self.table.v4, addr.into())?.map(text),
            (IpAddr::V6(addr), _, Some(v6)) => v6.lookup(&self.table.v6, addr.into())?.map(text),
            _ => None,
        })
    }
}

/// Answers line by line, so that a person or a coprocess sees each answer before
/// the next question; what is piped in is answered in large pieces.
fn from_stdin(fibs: &Fibs, cx: &mut Context) -> Result<Status, Error> {
    let mut input = BufReader::with_capacity(64 << 10, stdin().lock());
    let (mut status, mut line, mut number) = (Status::Success, Vec::new(), 1_u64);
    loop {
        if input.buffer().is_empty() {
            cx.out.flush()?;
        }
        let ended = read_piece(&mut input, &mut line).map_err(Error::Input)?;
        if line.is_empty() {
            return Ok(status);
        }
        let text = String::from_utf8_lossy(&line);
        for word in text.split_ascii_whitespace() {
            let place = format_args!("standard input:{number}");
            status = status.max(answer(fibs, word, place, cx)?);
        }
        number += u64::from(ended);
    }
}

/// Reads a line, or of a long one a piece that ends between words; true at the
/// line's end. A word that is longer than any address loses the rest of it:
/// memory stays bounded, whatever comes.
fn read_piece(input: &mut impl BufRead, piece: &mut Vec<u8>) -> io::Result<bool> {
    piece.clear();
    let mut word = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(true);
        }
        let mut used = 0;
        for &byte in buffer {
            used += 1;
            word = if byte.is_ascii_whitespace() { 0 } else { word + 1 };
            if word <= LONGEST {
                piece.push(byte);
            }
            if byte == b'\n' || word == 0 && piece.len() >= PIECE {
                input.consume(used);
                return Ok(byte == b'\n');
            }
        }
        input.consume(used);
    }
}

/// More than an address has letters.
const LONGEST: usize = 64;
/// A line is answered in pieces of about so many bytes.
const PIECE: usize = 4096;

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
        cx.print_json(&Answer { addr: word, prefix, hop })?;
    } else {
        writeln!(cx.out, "{word}\t{}\t{}", prefix.unwrap_or("-"), hop.unwrap_or("-"))?;
    }
    Ok(if found.is_some() { Status::Success } else { Status::No })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_of_any_length_is_read_in_pieces() {
        let line = format!("{}\n{} 2.2.2.2\n", "1.1.1.1 ".repeat(1000), "x".repeat(100_000));
        let mut input = BufReader::with_capacity(7, line.as_bytes());
        let (mut piece, mut words, mut lines) = (Vec::new(), Vec::new(), 0);
        loop {
            lines += u32::from(read_piece(&mut input, &mut piece).unwrap());
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= PIECE + LONGEST);
            let text = String::from_utf8(piece.clone()).unwrap();
            words.extend(text.split_ascii_whitespace().map(str::to_string));
        }
        assert_eq!((words.len(), lines), (1002, 3), "two lines, and the end");
        assert!(words[..1000].iter().all(|word| word == "1.1.1.1"));
        assert_eq!((words[1000].len(), words[1001].as_str()), (LONGEST, "2.2.2.2"));
    }
}
