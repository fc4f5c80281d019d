//! Loads a table from what `--table` names: the readers' meeting place.

use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

use crate::error::Error;
use crate::internet::Internet;
use crate::stream::{self, Content, Stream};
use crate::table::{Builder, Listed, Table};
use crate::{memory, mrt, text};

/// How to load a table.
#[derive(Clone, Copy, Default)]
pub struct Load<'a> {
    /// Clear host bits instead of refusing the line.
    pub mask: bool,
    /// MRT: take this peer's routes only, instead of the best of all peers'.
    pub peer: Option<IpAddr>,
    /// Called now and then while a file is read.
    pub progress: Option<&'a dyn Fn(Progress)>,
    /// Called with the routes of each family, before a store is made of them: for who wants
    /// to know them independently of it.
    pub listed: Option<&'a dyn Fn(Listed)>,
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
    /// Loads what `--table` names: a file, `-` for standard input, or `internet:N`,
    /// `internet6:N`, `internet:N+M`.
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
                Ok(internet.listed_table(load.listed))
            }
            Some(Err(error)) => Err(error.into()),
            None if spec == "-" => Self::read(std::io::stdin(), 0, load),
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
        let (file, total) = stream::open(path)?;
        Self::read(file, total, load)
    }

    /// Reads from anything; `total` is its length where it is known, else 0.
    ///
    /// # Errors
    /// As [`Table::load`].
    pub fn read(file: impl Read + 'static, total: u64, load: &Load) -> Result<Self, Error> {
        let (stream, content) = Stream::new(file);
        let mut builder = Builder::new(load.mask);
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
        Ok(builder.finish(load.listed)?)
    }
}
