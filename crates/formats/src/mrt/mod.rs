//! MRT files (RFC 6396, RFC 8050): TABLE_DUMP, TABLE_DUMP_V2 and BGP4MP, with
//! or without ADD-PATH and extended timestamps.
//!
//! ```text
//!   bytes ── Records ── Decoder ── Event ──┬── BestPath ── Table
//!            framing,   one record         └── Updates: the events themselves
//!            damage
//! ```

mod best;
mod bgp;
mod cursor;
mod decode;
mod frame;

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, Read};
use std::net::IpAddr;
use std::path::Path;

pub use best::BestPath;
pub use decode::{Event, Peer, Route};
pub use frame::Stamp;

use crate::error::Error;
use crate::report::{Damage, Report};
use crate::stream::{self, Content, Stream};
use crate::table::Builder;
use decode::Decoder;
use frame::Records;

/// The announcements and withdrawals of an MRT file, in order.
///
/// ```no_run
/// use formats::mrt::{Event, Updates};
///
/// let mut updates = Updates::open("updates.gz".as_ref())?;
/// while let Some((stamp, event)) = updates.next() {
///     println!("{} {event:?}", stamp.seconds);
/// }
/// println!("{} damaged records", updates.report().damaged);
/// # Ok::<(), formats::Error>(())
/// ```
pub struct Updates {
    source: Source<Stream>,
    ready: VecDeque<Event>,
    stamp: Stamp,
}

impl Updates {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened, or is not MRT.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(stream::open(path)?.0)
    }

    /// Reads from anything, compressed or not.
    ///
    /// # Errors
    /// When it is not MRT.
    pub fn new(file: impl Read + 'static) -> Result<Self, Error> {
        let (stream, content) = Stream::new(file);
        match content {
            Content::Mrt => {
                let (source, ready) = (Source::new(stream), VecDeque::new());
                Ok(Updates { source, ready, stamp: Stamp::default() })
            }
            Content::Text => Err(Error::NotMrt),
            Content::Tar => Err(Error::Tar),
            Content::Foreign(format) => Err(Error::Foreign { format }),
        }
    }

    /// What was met so far besides events.
    pub fn report(&self) -> &Report {
        &self.source.report
    }
}

impl Iterator for Updates {
    type Item = (Stamp, Event);

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let ready = &mut self.ready;
            self.stamp = self.source.record(|event| ready.push_back(event))?;
        }
        Some((self.stamp, self.ready.pop_front()?))
    }
}

/// Reads every record of `input`; the best route of each prefix, or that of
/// `peer`, goes into `builder`.
pub(crate) fn read<R: BufRead>(
    input: R,
    peer: Option<IpAddr>,
    builder: &mut Builder,
    mut tick: impl FnMut(&R, usize),
) -> Result<(), Error> {
    let mut source = Source::new(input);
    let mut best = BestPath::default();
    let mut others = BTreeSet::new();
    let mut found = peer.is_none();
    let mut room = Ok(());
    for number in 1_u64.. {
        let mut take = |event: Event| match peer {
            Some(peer) if event.peer().addr != peer => {
                others.insert(event.peer().addr);
            }
            _ => {
                found = true;
                room = room.and_then(|()| best.grow());
                if room.is_ok() {
                    best.apply(&event, |_| ());
                }
            }
        };
        if source.record(&mut take).is_none() {
            break;
        }
        room?;
        if number % 1024 == 0 {
            tick(source.records.input(), best.len());
        }
    }
    if let Some(peer) = peer.filter(|_| !found) {
        return Err(Error::UnknownPeer { peer, peers: others.into_iter().collect() });
    }
    builder.report = source.report;
    for (prefix, route) in best.iter() {
        builder.grow()?;
        // Cannot fail: a table would need 2^31 distinct next hops.
        let _ = builder.add(prefix, route.next_hop.map(|hop| hop.to_string()).as_deref());
    }
    Ok(())
}

/// Framing, decoding and the account of damage, together.
struct Source<R> {
    records: Records<R>,
    decoder: Decoder,
    report: Report,
}

impl<R: BufRead> Source<R> {
    fn new(input: R) -> Self {
        let (records, decoder) = (Records::new(input), Decoder::default());
        Source { records, decoder, report: Report::default() }
    }

    /// Hands the next record's events to `sink`; `None` at the end.
    fn record(&mut self, sink: impl FnMut(Event)) -> Option<Stamp> {
        let mut sink = sink;
        match self.records.next()? {
            Err(damage) => {
                self.report.damage(damage);
                Some(Stamp::default())
            }
            Ok(record) => {
                let (place, stamp) = (record.place, record.stamp);
                match self.decoder.decode(&record, &mut sink) {
                    Ok(true) => (),
                    Ok(false) => self.report.other += 1,
                    Err(fault) => self.report.damage(Damage { place, fault }),
                }
                Some(stamp)
            }
        }
    }
}
