//! Keeps the tables in step with the kernel's.
//!
//! Notifications are applied as they come. A listing (all links, or all routes of
//! a family …) is made at the start, after an overrun, after an event that takes
//! routes along without a message, and once a minute to be sure. While a listing
//! is read, notifications are stored, not applied: the listing may be older than
//! they are. Applied after it, in order, they lead to what is true now.
//!
//! Linux says nothing of IPv4 routes that vanish with a link, an address or a
//! next-hop object, nor of those that revive when a link comes back. A carrier that
//! is lost takes next-hop objects along in silence, and the routes by these, but no
//! other: objects alone are listed then, not a million routes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use netlink::message::{Message, Messages, u32_at};
use netlink::names::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tables::Family;
use tables::event::{Event, LinkId, Scope, Source, Why};

use super::decode::decode;
use super::socket::{Received, Socket};

/// What the mirror did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Messages read.
    pub messages: u64,
    /// Datagrams that ended in bytes that are no message.
    pub damaged: u64,
    /// Times the kernel had no room for messages.
    pub overruns: u64,
    /// Listings read to the end.
    pub listings: u64,
    /// Listings given up.
    pub aborted: u64,
}

/// The kernel's tables as a stream of events.
pub struct Mirror {
    events: Socket,
    requests: Socket,
    /// Datagrams of `events` not yet applied.
    heard: Vec<u8>,
    batch: Vec<Event>,
    links: HashMap<LinkId, Carries>,
    /// Listings that are due: why, since when, and when.
    due: Option<Due>,
    next_audit: Instant,
    counters: Counters,
}

/// How a link is.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Carries {
    /// Administratively up.
    set_up: bool,
    /// And with carrier.
    up: bool,
}

#[derive(Clone, Copy)]
struct Due {
    why: Why,
    /// Routes are as they were, but for those that go with next-hop objects.
    objects: bool,
    since: Instant,
    at: Instant,
}

impl Mirror {
    /// Begins to listen in the network namespace of this thread, with room for
    /// `buffer` bytes of messages. The first [`Mirror::poll`] lists everything.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub fn open(buffer: usize) -> io::Result<Mirror> {
        let now = Instant::now();
        Ok(Mirror {
            events: Socket::listening(buffer)?,
            requests: Socket::open()?,
            heard: Vec::new(),
            batch: Vec::new(),
            links: HashMap::new(),
            due: Some(Due { why: Why::Start, objects: false, since: now, at: now }),
            next_audit: now + AUDIT,
            counters: Counters::default(),
        })
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Compares everything with the kernel's tables at the next [`Mirror::poll`],
    /// as the background does once a minute: after an interface was added, say.
    pub fn resync(&mut self) {
        self.next_audit = Instant::now();
    }

    /// Waits up to `timeout` for something to do, and does it: hands events to
    /// `sink` in batches.
    ///
    /// # Errors
    /// When a socket fails for good.
    pub fn poll(&mut self, timeout: Duration, sink: &mut impl FnMut(&[Event])) -> io::Result<()> {
        self.wait(timeout.min(self.left()))?;
        self.hear(PATIENCE)?;
        self.apply(sink);
        let now = Instant::now();
        if let Some(due) = self.due.filter(|due| due.at <= now) {
            self.due = None;
            // Only next-hop objects and routes vanish silently; after an overrun
            // anything may have.
            let scopes = match (due.why, due.objects) {
                (Why::Event, true) => &SCOPES[SILENT..=SILENT],
                (Why::Event, false) => &SCOPES[SILENT..],
                _ => &SCOPES[..],
            };
            self.list_all(scopes, due.why, sink)?;
        } else if self.next_audit <= now {
            self.list_all(&SCOPES, Why::Audit, sink)?;
        }
        Ok(())
    }

    /// How long it has nothing to do, if it hears nothing.
    pub fn left(&self) -> Duration {
        let next = self.due.map_or(self.next_audit, |due| due.at.min(self.next_audit));
        next.saturating_duration_since(Instant::now())
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores what has been heard, up to `most` bytes.
    fn hear(&mut self, most: usize) -> io::Result<()> {
        while self.heard.len() < most {
            match self.events.receive(&mut self.heard, false)? {
                Received::Datagram => {}
                Received::Nothing => return Ok(()),
                Received::Overrun => {
                    self.counters.overruns += 1;
                    self.schedule(Why::Overrun, false);
                }
            }
        }
        Ok(())
    }

    /// Applies what was stored.
    fn apply(&mut self, sink: &mut impl FnMut(&[Event])) {
        let heard = std::mem::take(&mut self.heard);
        let mut messages = Messages::new(&heard);
        for message in &mut messages {
            self.counters.messages += 1;
            if let Some(event) = decode(&message, Source::Kernel) {
                self.note(&event, &message);
                self.batch.push(event);
                self.flush(BATCH, sink);
            }
        }
        self.counters.damaged += u64::from(messages.rest() > 0);
        self.flush(1, sink);
        self.heard = heard;
        self.heard.clear();
        self.heard.shrink_to(PATIENCE * 2);
    }

    fn flush(&mut self, least: usize, sink: &mut impl FnMut(&[Event])) {
        if self.batch.len() >= least {
            sink(&self.batch);
            self.batch.clear();
        }
    }

    /// Remembers what routes may vanish or revive with.
    fn note(&mut self, event: &Event, message: &Message<'_>) {
        let (silent, objects) = match event {
            Event::Link(link) => {
                let now = Carries { set_up: is_set_up(message), up: link.up };
                let before = self.links.insert(link.index, now);
                (before != Some(now), before.is_some_and(|before| before.set_up == now.set_up))
            }
            Event::LinkGone(link) => (self.links.remove(link).is_some(), false),
            Event::AddressGone(_) | Event::NextHopGone(_) => (true, false),
            _ => (false, false),
        };
        if silent {
            self.schedule(Why::Event, objects);
        }
    }

    /// Plans a listing for when it has been quiet for a while, or at the latest
    /// some time after it was first wanted.
    fn schedule(&mut self, why: Why, objects: bool) {
        let now = Instant::now();
        let before = self.due.unwrap_or(Due { why, objects, since: now, at: now });
        let at = (now + QUIET).min(before.since + LATEST);
        let why = if before.why == Why::Event { why } else { before.why };
        self.due = Some(Due { why, objects: before.objects && objects, since: before.since, at });
    }

    fn list_all(
        &mut self,
        scopes: &[(Scope, u16, u8)],
        why: Why,
        sink: &mut impl FnMut(&[Event]),
    ) -> io::Result<()> {
        for &(scope, kind, family) in scopes {
            let mut complete = false;
            for _ in 0..TRIES {
                if self.list(scope, kind, family, why, sink)? {
                    complete = true;
                    break;
                }
            }
            if !complete {
                self.counters.aborted += 1;
                // What cannot be listed at all (no next-hop objects in an old
                // kernel) is not asked for again before the next audit.
            }
            self.hear(usize::MAX)?;
            self.apply(sink);
        }
        if scopes.len() == SCOPES.len() {
            self.next_audit = Instant::now() + AUDIT;
        }
        Ok(())
    }

    /// Reads one listing; false when it broke off or was not consistent.
    fn list(
        &mut self,
        scope: Scope,
        kind: u16,
        family: u8,
        why: Why,
        sink: &mut impl FnMut(&[Event]),
    ) -> io::Result<bool> {
        let sequence = self.requests.request(kind, family)?;
        sink(&[Event::SweepBegin(scope, why)]);
        let (mut datagram, mut end, mut consistent) = (Vec::new(), None, true);
        while end.is_none() {
            datagram.clear();
            if self.requests.receive(&mut datagram, true)? == Received::Overrun {
                end = Some(false);
            }
            for message in Messages::new(&datagram).filter(|m| m.sequence == sequence) {
                consistent &= message.flags & NLM_F_DUMP_INTR == 0;
                match message.kind {
                    NLMSG_DONE => end = Some(u32_at(message.payload, 0) == 0),
                    NLMSG_ERROR => end = Some(false),
                    _ => self.batch.extend(decode(&message, Source::Kernel)),
                }
                if let Some(Event::Link(link)) = self.batch.last() {
                    let carries = Carries { set_up: is_set_up(&message), up: link.up };
                    self.links.insert(link.index, carries);
                }
                self.counters.messages += 1;
                self.flush(BATCH, sink);
            }
            self.hear(usize::MAX)?; // so that the kernel need not drop any
        }
        self.flush(1, sink);
        let complete = end == Some(true) && consistent;
        sink(&[if complete { Event::SweepEnd(scope) } else { Event::SweepAbort(scope) }]);
        self.counters.listings += u64::from(complete);
        Ok(complete)
    }
}

impl AsFd for Mirror {
    /// Readable when there is something to poll for; listings that are due have
    /// no sign here ([`Mirror::left`]).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// `IFF_UP` of a link's message.
fn is_set_up(message: &Message<'_>) -> bool {
    u32_at(message.payload, 8) & IFF_UP != 0
}

/// What is listed, in the order in which the tables need it.
const SCOPES: [(Scope, u16, u8); 6] = [
    (Scope::Links, RTM_GETLINK, AF_UNSPEC),
    (Scope::Addresses, RTM_GETADDR, AF_UNSPEC),
    (Scope::Neighbours, RTM_GETNEIGH, AF_UNSPEC),
    (Scope::NextHops(Source::Kernel), RTM_GETNEXTHOP, AF_UNSPEC),
    (Scope::Routes(Family::V4, Source::Kernel), RTM_GETROUTE, AF_INET),
    (Scope::Routes(Family::V6, Source::Kernel), RTM_GETROUTE, AF_INET6),
];
/// The first of `SCOPES` of what vanishes without a message.
const SILENT: usize = 3;

/// Events handed over together.
const BATCH: usize = 4096;
/// Bytes stored before they are applied.
const PATIENCE: usize = 1 << 20;
/// Attempts at a listing that changes while it is read (`tables` counts as many at the start).
const TRIES: usize = 4;
/// How long it must have been quiet before a listing, and the longest wait for that.
const QUIET: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(1);
/// Between comparisons with everything.
const AUDIT: Duration = Duration::from_secs(60);
