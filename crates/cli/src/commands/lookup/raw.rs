//! Addresses and hops as numbers: as many bytes as an address has, and four for a hop, each in
//! network byte order.

use std::fs::File;
use std::io::{self, Read, Write, stdin};
use std::os::fd::AsFd;

use formats::Table;
use lookup::lpm::{Entry, Exports, Options};
use lookup::{Hop, Rib};
use offload::crew::{Input, Output};
use offload::table::Table as Crewed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Args;
use super::device::crew;
use super::pipe::{Progress, widen};
use crate::context::Context;
use crate::engine;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// The family of raw addresses.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Family {
    /// 4 bytes an address
    Ipv4,
    /// 16 bytes an address
    Ipv6,
}

/// Answers standard input.
pub fn from_stdin(
    family: Family,
    engines: engine::Pair,
    options: &Options,
    table: &Table,
    args: &Args,
    cx: &mut Context,
) -> Result<Status, Error> {
    let none = Error::Usage("the engine is not for the family of --raw");
    match family {
        Family::Ipv4 => run(engines.0.ok_or(none)?, options, &table.v4, args, cx),
        Family::Ipv6 => run(engines.1.ok_or(none)?, options, &table.v6, args, cx),
    }
}

fn run<A: Number>(
    entry: &'static Entry<A>,
    options: &Options,
    rib: &Rib<A>,
    args: &Args,
    cx: &mut Context,
) -> Result<Status, Error> {
    let mut crew = crew(&args.device, args.threads, Crewed::build(entry, options, rib)?)?;
    let mut input = Addresses::of_stdin::<A>()?;
    let mut hops = Hops {
        to: &mut cx.out,
        bytes: Vec::new(),
        unrouted: false,
        answered: 0,
        progress: Progress::on_terminal(input.total, args.output.is_some()),
        width: size_of::<A>() as u64,
    };
    let done = crew.run(&mut input, &mut hops);
    let unrouted = hops.unrouted;
    Progress::wipe();
    match done {
        Ok(()) => {}
        Err(offload::error::Error::Io(error)) if input.failed => return Err(Error::Input(error)),
        Err(error) => return Err(Error::Offload(error)),
    }
    cx.out.flush()?;
    if input.over > 0 {
        let (over, width) = (input.over, size_of::<A>());
        warn(format_args!(
            "standard input: {over} bytes are left after the last {width}-byte address"
        ));
        return Ok(Status::Fault);
    }
    Ok(if unrouted { Status::No } else { Status::Success })
}

/// An address as bytes.
trait Number: Exports {
    /// From its bytes, of which there are as many as the type has.
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl Number for u32 {
    #[inline]
    fn from_bytes(bytes: &[u8]) -> u32 {
        bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
    }
}

impl Number for u128 {
    #[inline]
    fn from_bytes(bytes: &[u8]) -> u128 {
        bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
    }
}

/// Reads addresses.
struct Addresses {
    input: File,
    bytes: Vec<u8>,
    /// Bytes of a file; 0 of anything else.
    total: u64,
    read: u64,
    width: u64,
    /// Bytes at the end that are no address.
    over: usize,
    failed: bool,
}

impl Addresses {
    fn of_stdin<A>() -> Result<Self, Error> {
        widen();
        let file = File::from(stdin().as_fd().try_clone_to_owned().map_err(Error::Input)?);
        let data = file.metadata().map_err(Error::Input)?;
        let total = if data.is_file() { data.len() } else { 0 };
        let (bytes, width) = (Vec::new(), size_of::<A>() as u64);
        Ok(Addresses { input: file, bytes, total, read: 0, width, over: 0, failed: false })
    }
}

impl<A: Number> Input<A> for Addresses {
    fn fill(&mut self, dsts: &mut [A]) -> io::Result<usize> {
        let (mut have, width) = (0, size_of::<A>());
        self.bytes.resize(size_of_val(dsts), 0);
        // The bytes that are there are enough: some addresses, and the rest of the last one.
        while have == 0 || have % width != 0 {
            let end = if have == 0 { self.bytes.len() } else { have.next_multiple_of(width) };
            match self.input.read(&mut self.bytes[have..end]) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
        self.read += have as u64;
        self.over += have % width; // at the end alone
        let whole = self.bytes[..have].chunks_exact(width);
        dsts.iter_mut().zip(whole).for_each(|(dst, bytes)| *dst = A::from_bytes(bytes));
        Ok(have / width)
    }

    fn waits(&self) -> bool {
        let mut input = [PollFd::new(&self.input, PollFlags::IN)];
        // An input that cannot be asked is read.
        poll(&mut input, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    fn left(&self) -> Option<u64> {
        (self.total > 0).then(|| self.total.saturating_sub(self.read) / self.width)
    }
}

/// Writes hops.
struct Hops<'o, W> {
    to: &'o mut W,
    bytes: Vec<u8>,
    unrouted: bool,
    answered: u64,
    progress: Option<Progress>,
    width: u64,
}

impl<A: Number, W: Write> Output<A> for Hops<'_, W> {
    fn take(&mut self, _: &[A], hops: &[Hop]) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.extend(hops.iter().flat_map(|hop| hop.0.to_be_bytes()));
        self.unrouted |= hops.iter().any(|hop| hop.is_none());
        self.to.write_all(&self.bytes)?;
        // Whoever writes to a pipe may wait for this answer before the next question.
        self.to.flush()?;
        self.answered += hops.len() as u64;
        if let Some(progress) = &mut self.progress {
            progress.show(self.answered, self.answered * self.width);
        }
        Ok(())
    }
}
