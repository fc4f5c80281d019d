//! The table that every loader fills.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lookup::{Addr, Hop, Prefix, Rib};

use crate::hops::Hops;
use crate::internet::{self, Internet};
use crate::memory::{self, NoMemory, Small};
use crate::prefix::AnyPrefix;
use crate::report::{Fault, Report};
use crate::stream::{Content, Stream};
use crate::{mrt, rng, text};

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

/// How to load a table.
#[derive(Clone, Copy, Default)]
pub struct Load<'a> {
    /// Clear host bits instead of refusing the line.
    pub mask: bool,
    /// MRT: take this peer's routes only, instead of the best of all peers'.
    pub peer: Option<IpAddr>,
    /// Called now and then while a file is read.
    pub progress: Option<&'a dyn Fn(Progress)>,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Bytes of the stored file that were read.
    pub read: u64,
    /// Bytes of the stored file; 0 where unknown, as for a pipe.
    pub total: u64,
    /// Routes read.
    pub routes: usize,
}

impl Table {
    /// Loads what `--table` names: a file, or `internet:N`, `internet6:N`,
    /// `internet:N+M`.
    ///
    /// # Errors
    /// When there is nothing to read at all: no such file, a format that is not
    /// a table, a peer that the file does not name, a malformed specification; when
    /// there is no memory for the routes. A damaged file is no error: see
    /// [`Table::report`].
    pub fn open(spec: &str, load: &Load) -> Result<Self, Error> {
        match Internet::parse(spec) {
            Some(Ok(_)) if load.peer.is_some() => Err(Error::NoPeers),
            Some(Ok(internet)) => {
                memory::ask(internet.bytes())?;
                Ok(internet.table())
            }
            Some(Err(error)) => Err(error.into()),
            None => Self::load(Path::new(spec), load),
        }
    }

    /// Loads a file: text, pyasn or MRT, plain or compressed.
    ///
    /// # Errors
    /// When there is nothing to read at all: no such file, a format that is not
    /// a table, a peer that the file does not name; when there is no memory for the
    /// routes. A damaged file is no error: see [`Table::report`].
    pub fn load(path: &Path, load: &Load) -> Result<Self, Error> {
        let (file, total) = open(path)?;
        Self::read(file, total, load)
    }

    /// Reads from anything; `total` is its length where it is known, else 0.
    ///
    /// # Errors
    /// As [`Table::load`].
    pub fn read(file: impl Read + 'static, total: u64, load: &Load) -> Result<Self, Error> {
        let (stream, content) = Stream::new(file);
        let mut builder = Builder { mask: load.mask, ..Builder::default() };
        let tick = |stream: &Stream, routes| {
            if let Some(progress) = load.progress {
                progress(Progress { read: stream.stored(), total, routes });
            }
        };
        match content {
            Content::Text if load.peer.is_some() => return Err(Error::NoPeers),
            Content::Text => text::read(stream, &mut builder, tick)?,
            Content::Mrt => mrt::read(stream, load.peer, &mut builder, tick)?,
            Content::Tar => return Err(Error::Tar),
            Content::Foreign(format) => return Err(Error::Foreign { format }),
        }
        Ok(builder.finish()?)
    }

    /// Prefixes of both families.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Opens a file for reading, and says how long it is (0 for a pipe).
pub(crate) fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |error| Error::Open { path: path.into(), error };
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok((file, data.len()))
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {path}: {error}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An archive holds many files.
    #[error("this is a tar archive: extract it (tar xf FILE) and name one of its files")]
    Tar,
    /// A format that is known and not read.
    #[error("this is a {format} file; tables are text, pyasn or MRT, plain or as .gz, .bz2 or .xz")]
    Foreign {
        /// Its name.
        format: &'static str,
    },
    /// `internet:…` that is malformed.
    #[error(transparent)]
    Spec(#[from] internet::BadSpec),
    /// Updates were asked for, and this is something else.
    #[error("expected an MRT file with BGP4MP records")]
    NotMrt,
    /// There is no memory for the table.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A peer was asked for where there are none.
    #[error("only MRT files have peers to choose from")]
    NoPeers,
    /// The file does not name the peer.
    #[error("no route from peer {peer}; peers here: {}", list(peers))]
    UnknownPeer {
        /// As asked for.
        peer: IpAddr,
        /// The ones that announce routes, sorted.
        peers: Vec<IpAddr>,
    },
}

fn list(peers: &[IpAddr]) -> String {
    let shown: Vec<_> = peers.iter().take(50).map(ToString::to_string).collect();
    match peers.len() {
        0 => "none".into(),
        n if n > shown.len() => format!("{}, … ({n} in all)", shown.join(", ")),
        _ => shown.join(", "),
    }
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

    pub fn finish(mut self) -> Result<Table, NoMemory> {
        if self.nameless {
            let base = self.hops.add_nameless(NAMELESS as usize);
            place_nameless(&mut self.v4, base);
            place_nameless(&mut self.v6, base);
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
/// tells neighbours apart. Marked until the number of named ones is known.
fn nameless(prefix: &AnyPrefix) -> Hop {
    let (addr, len) = match prefix {
        AnyPrefix::V4(prefix) => (u128::from(prefix.first()), prefix.len()),
        AnyPrefix::V6(prefix) => (prefix.first(), prefix.len()),
    };
    let hash = rng::mix(addr as u64 ^ rng::mix((addr >> 64) as u64 ^ u64::from(len)));
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
