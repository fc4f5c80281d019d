//! Files without end, in a process whose memory has one: the load ends in an error that
//! says so, and the process lives.

use std::io::{self, Read};
use std::process::{Command, Output};

use formats::{Error, Load, Table};

/// Gives what `next` makes of 0, 1, 2 and so on.
struct Endless<F> {
    next: F,
    number: u32,
    ready: Vec<u8>,
}

impl<F: Fn(u32) -> Vec<u8>> Read for Endless<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() {
            self.ready = (self.next)(self.number);
            self.number += 1;
        }
        let taken = self.ready.len().min(into.len());
        into[..taken].copy_from_slice(&self.ready[..taken]);
        self.ready.drain(..taken);
        Ok(taken)
    }
}

/// A hundred host routes, each with a next hop of its own, whose name is long.
fn lines(number: u32) -> Vec<u8> {
    let line = |i| format!("2001:db8::{:x}:{:x} {}{i}\n", i >> 16, i & 0xffff, "hop".repeat(20));
    (number * 100..).take(100).map(line).collect::<String>().into_bytes()
}

/// An MRT record of an update that announces two hundred host routes.
fn record(number: u32) -> Vec<u8> {
    let attributes =
        [&[0x40, 1, 1, 0][..], &[0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8], &[0x40, 3, 4, 192, 0, 2, 1]];
    let attributes = attributes.concat();
    let prefix = |i: u32| [&[32][..], &i.to_be_bytes()].concat();
    let routes: Vec<u8> = (number * 200..).take(200).flat_map(prefix).collect();
    let length = (23 + attributes.len() + routes.len()) as u16;
    let update = [
        &[0xff; 16][..],
        &length.to_be_bytes(),
        &[2, 0, 0],
        &(attributes.len() as u16).to_be_bytes(),
        &attributes,
        &routes,
    ];
    let peer = [0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2];
    let body = [&peer[..], &update.concat()].concat();
    let header = [&[0, 0, 0, 1, 0, 16, 0, 4][..], &(body.len() as u32).to_be_bytes()];
    [&header.concat()[..], &body].concat()
}

fn load(next: impl Fn(u32) -> Vec<u8> + 'static) {
    let file = Endless { next, number: 0, ready: Vec::new() };
    let error = Table::read(file, 0, &Load::default()).expect_err("it has no end");
    assert!(matches!(error, Error::NoMemory(_)), "{error}");
}

#[test]
#[ignore = "run by the test below, with less memory"]
fn child() {
    load(lines);
    load(record);
    for spec in ["internet:20000000", "internet6:20000000"] {
        let error = Table::open(spec, &Load::default()).expect_err("it is too large");
        assert!(matches!(error, Error::NoMemory(_)), "{error}");
    }
}

/// This program again, in an address space of so many KiB.
fn itself(kib: u32, args: &[&str]) -> Output {
    let itself = std::env::current_exe().expect("it runs");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v $0 && exec \"$@\"", &kib.to_string()]).arg(itself).args(args);
    shell.output().expect("a shell")
}

#[test]
fn a_table_for_which_there_is_no_memory_is_an_error() {
    for kib in [60_000, 150_000] {
        if !itself(kib, &["--list"]).status.success() {
            let why = format!("with AddressSanitizer nothing runs in {kib} KiB");
            return testing::skip(why);
        }
        let output = itself(kib, &["--exact", "child", "--ignored", "--test-threads=1"]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kib} KiB: {}\n{said}\n{errors}", output.status);
        assert!(said.contains("1 passed"), "{said}");
    }
}
