//! The Forwarding Plane Manager of FRR: zebra connects to us and sends its routes
//! (`zebra -M dplane_fpm_nl`, `fpm address 127.0.0.1 port 2620`).
//!
//! ```text
//!    0        1        2                 4
//!    version  type     length (network)  netlink message …      type 1: netlink
//!    1        1        header included
//! ```
//!
//! Zebra sends everything it has when it connects, and does not say when that is
//! all. What it had sent to us before, and does not repeat, is dropped once it
//! has been quiet for a while. When the connection ends, what is there serves on
//! for [`HOLD`].
//!
//! A connection that cannot be taken (no descriptor is free, say) is tried again
//! after [`PAUSE`]; the one that is there is served meanwhile.
//!
//! Zebra changes a route by a deletion and an addition, one behind the other. A
//! deletion is therefore held back until the next message, or silence: both then
//! go into the tables together, and no packet finds the prefix without a route.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tables::Family;
use tables::event::{Event, FPM_OBJECTS, NextHopTo, Scope, Source, Target, Why};

use crate::accept::is_for_good;
use crate::netlink::decode::decode;
use crate::netlink::message::Messages;

/// Where FRR's documentation has it.
pub const PORT: u16 = 2620;

/// What came by the FPM.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Connections taken.
    pub connections: u64,
    /// Netlink messages read.
    pub messages: u64,
    /// Messages that concern nothing here (MAC addresses, labels …).
    pub ignored: u64,
    /// Connections given up for bytes that are no FPM message.
    pub damaged: u64,
    /// Complete tables taken.
    pub listings: u64,
    /// Times a connection could not be taken.
    pub refused: u64,
    /// True while zebra is connected.
    pub connected: bool,
}

/// The server: one zebra at a time, the latest counts.
pub struct Fpm {
    listener: TcpListener,
    client: Option<TcpStream>,
    /// Bytes of the client not yet understood.
    heard: Vec<u8>,
    batch: Vec<Event>,
    /// When a listing began, and when a message came last.
    listing: Option<(Instant, Instant)>,
    /// Since when nobody has been connected whose routes are here.
    orphaned: Option<Instant>,
    /// Why the last connection could not be taken, and when that is tried again.
    refusal: Option<(io::Error, Instant)>,
    counters: Counters,
}

impl Fpm {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken or is not ours.
    pub fn listen(address: SocketAddr) -> io::Result<Fpm> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Fpm {
            listener,
            client: None,
            heard: Vec::new(),
            batch: Vec::new(),
            listing: None,
            orphaned: None,
            refusal: None,
            counters: Counters::default(),
        })
    }

    /// Listens in the place of one that failed: routes which that one has brought
    /// serve for [`HOLD`], as after a zebra that went.
    ///
    /// # Errors
    /// As of [`Fpm::listen`].
    pub fn listen_again(address: SocketAddr) -> io::Result<Fpm> {
        let orphaned = Some(Instant::now());
        Ok(Fpm { orphaned, ..Fpm::listen(address)? })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What came so far.
    pub fn counters(&self) -> Counters {
        Counters { connected: self.client.is_some(), ..self.counters }
    }

    /// Why connections are not taken at present.
    pub fn refusal(&self) -> Option<&io::Error> {
        self.refusal.as_ref().map(|(error, _)| error)
    }

    /// Waits up to `timeout` for something to do, and does it: hands events to
    /// `sink` in batches.
    ///
    /// # Errors
    /// When the listening socket fails for good.
    pub fn poll(&mut self, timeout: Duration, sink: &mut impl FnMut(&[Event])) -> io::Result<()> {
        let quiet = !self.wait(if self.batch.is_empty() { timeout } else { HELD.min(timeout) })?;
        if self.deaf(Instant::now()).is_none() {
            self.accept(sink)?;
        }
        self.read(sink);
        if quiet {
            self.flush(sink);
        }
        self.look_at_the_clock(Instant::now(), sink);
        Ok(())
    }

    fn accept(&mut self, sink: &mut impl FnMut(&[Event])) -> io::Result<()> {
        let taken = self.listener.accept();
        let taken = taken.and_then(|(client, _)| client.set_nonblocking(true).map(|()| client));
        match taken {
            Ok(client) => {
                self.refusal = None;
                self.connected(client, sink);
            }
            Err(error) if is_nothing(&error) => self.refusal = None,
            Err(error) if is_for_good(&error) => return Err(error),
            Err(error) => {
                self.counters.refused += 1;
                self.refusal = Some((error, Instant::now() + PAUSE));
            }
        }
        Ok(())
    }

    /// For how long no connection is taken.
    fn deaf(&self, now: Instant) -> Option<Duration> {
        let (_, until) = self.refusal.as_ref()?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// True when there is something to read.
    fn wait(&self, timeout: Duration) -> io::Result<bool> {
        // What waits to be taken would end every wait at once.
        let deaf = self.deaf(Instant::now());
        let timeout = timeout.min(deaf.unwrap_or(timeout));
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let listener = Some(&self.listener).filter(|_| deaf.is_none());
        let mut fds: Vec<_> =
            listener.into_iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        fds.extend(self.client.as_ref().map(|client| PollFd::new(client, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn connected(&mut self, client: TcpStream, sink: &mut impl FnMut(&[Event])) {
        self.disconnected(sink);
        self.client = Some(client);
        self.counters.connections += 1;
        self.orphaned = None;
        let now = Instant::now();
        self.listing = Some((now, now));
        sink(&SCOPES.map(|scope| Event::SweepBegin(scope, Why::Start)));
    }

    fn disconnected(&mut self, sink: &mut impl FnMut(&[Event])) {
        if self.client.take().is_none() {
            return;
        }
        self.flush(sink);
        self.heard.clear();
        self.orphaned = Some(Instant::now());
        if self.listing.take().is_some() {
            sink(&SCOPES.map(Event::SweepAbort));
        }
    }

    /// Reads what is there, up to a share that lets the other work go on.
    fn read(&mut self, sink: &mut impl FnMut(&[Event])) {
        for _ in 0..READS {
            let Some(client) = &mut self.client else { return };
            let had = self.heard.len();
            self.heard.resize(had + CHUNK, 0);
            let read = client.read(&mut self.heard[had..]);
            self.heard.truncate(had + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return self.disconnected(sink),
                Ok(_) => {}
                Err(error) if is_nothing(&error) => return,
                Err(_) => return self.disconnected(sink),
            }
            if !self.understand(sink) {
                self.counters.damaged += 1;
                return self.disconnected(sink);
            }
        }
    }

    /// Takes the whole messages out of what was heard; false where it is none.
    fn understand(&mut self, sink: &mut impl FnMut(&[Event])) -> bool {
        let mut heard = std::mem::take(&mut self.heard);
        let before = self.counters.messages;
        let used = understand(&heard, |event| {
            self.counters.messages += 1;
            match event {
                Some(event) => self.push(event, sink),
                None => self.counters.ignored += 1,
            }
        });
        if let Some((_, last)) = self.listing.as_mut().filter(|_| self.counters.messages > before) {
            *last = Instant::now();
        }
        heard.drain(..used.unwrap_or(heard.len()));
        self.heard = heard;
        used.is_some()
    }

    fn push(&mut self, event: Event, sink: &mut impl FnMut(&[Event])) {
        // A deletion stays with what follows it.
        if self.batch.len() >= BATCH && !matches!(self.batch.last(), Some(Event::RouteGone(_))) {
            self.flush(sink);
        }
        self.batch.push(event);
    }

    /// Hands over what has come; nothing follows soon.
    fn flush(&mut self, sink: &mut impl FnMut(&[Event])) {
        if !self.batch.is_empty() {
            sink(&self.batch);
            self.batch.clear();
        }
    }

    fn look_at_the_clock(&mut self, now: Instant, sink: &mut impl FnMut(&[Event])) {
        let complete = self.listing.is_some_and(|(began, last)| {
            now.duration_since(last) >= QUIET || now.duration_since(began) >= LONGEST
        });
        let abandoned = self.orphaned.is_some_and(|since| now.duration_since(since) >= HOLD);
        if !complete && !abandoned {
            return;
        }
        self.flush(sink);
        if abandoned {
            self.orphaned = None;
            sink(&SCOPES.map(|scope| Event::SweepBegin(scope, Why::Overrun)));
        }
        self.listing = None;
        self.counters.listings += u64::from(complete);
        sink(&SCOPES.map(Event::SweepEnd));
    }
}

impl AsFd for Fpm {
    /// The listening socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Hands the event of each netlink message in whole FPM messages to `each`, `None`
/// for one that concerns nothing here. Returns the bytes of the whole messages;
/// `None` where some are no FPM message.
pub fn understand(heard: &[u8], mut each: impl FnMut(Option<Event>)) -> Option<usize> {
    let mut rest = heard;
    while let Some(&[version, kind, high, low]) = rest.first_chunk::<HEADER>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if version != 1 || length < HEADER {
            return None;
        }
        let Some(message) = rest.get(HEADER..length) else { break }; // more is to come
        rest = &rest[length..];
        if kind == NETLINK {
            // Links, addresses and neighbours come from the kernel alone.
            let event = |message| decode(&message, Source::Fpm).and_then(of_fpm);
            Messages::new(message).map(event).for_each(&mut each);
        }
    }
    Some(heard.len() - rest.len())
}

/// Events that the FPM may cause; its next-hop objects are not the kernel's.
fn of_fpm(event: Event) -> Option<Event> {
    Some(match event {
        Event::Route(mut route, how) => {
            own_object(&mut route.target);
            Event::Route(route, how)
        }
        Event::RouteGone(mut route) => {
            own_object(&mut route.target);
            Event::RouteGone(route)
        }
        Event::NextHop(mut object) => {
            object.id |= FPM_OBJECTS;
            if let NextHopTo::Group(members) = &mut object.to {
                members.iter_mut().for_each(|(id, _)| *id |= FPM_OBJECTS);
            }
            Event::NextHop(object)
        }
        Event::NextHopGone(id) => Event::NextHopGone(id | FPM_OBJECTS),
        _ => return None,
    })
}

fn own_object(target: &mut Target) {
    if let Target::Object { id, .. } = target {
        *id |= FPM_OBJECTS;
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

const SCOPES: [Scope; 3] = [
    Scope::NextHops(Source::Fpm),
    Scope::Routes(Family::V4, Source::Fpm),
    Scope::Routes(Family::V6, Source::Fpm),
];
const HEADER: usize = 4;
const NETLINK: u8 = 1;
const BATCH: usize = 4096;
const CHUNK: usize = 256 << 10;
const READS: usize = 16;
/// Until a connection that could not be taken is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a deletion waits for the addition that may follow.
const HELD: Duration = Duration::from_millis(10);
/// Silence that ends the table zebra sends on connecting; a daemon that was
/// restarted may still be learning, so the wait is long.
const QUIET: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
/// How long routes serve without a zebra that answers for them.
pub const HOLD: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Ipv4Addr;

    /// A netlink route to `third`.0/24 (or its deletion) in FPM's framing.
    fn framed(kind: u16, third: u8, object: u32) -> Vec<u8> {
        let mut body = vec![2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
        body.extend([8, 0, 1, 0, 203, 0, third, 0]);
        if object > 0 {
            body.extend([8, 0, 30, 0]);
            body.extend(object.to_ne_bytes());
        }
        let mut all = vec![1, NETLINK];
        all.extend(((HEADER + 16 + body.len()) as u16).to_be_bytes());
        all.extend(((16 + body.len()) as u32).to_ne_bytes());
        all.extend(kind.to_ne_bytes());
        all.extend([0; 10]);
        all.extend(body);
        all
    }

    struct Bench {
        fpm: Fpm,
        zebra: TcpStream,
        batches: Vec<Vec<Event>>,
    }

    impl Bench {
        fn new() -> Bench {
            let mut fpm = Fpm::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let zebra = TcpStream::connect(fpm.address().unwrap()).unwrap();
            let mut batches = Vec::new();
            let mut sink = |events: &[Event]| batches.push(events.to_vec());
            while fpm.counters().connections == 0 {
                fpm.poll(Duration::from_millis(10), &mut sink).unwrap();
            }
            assert_eq!(batches.remove(0).len(), 3, "three listings begin");
            Bench { fpm, zebra, batches }
        }

        /// Zebra says `bytes`, all of which are there when this returns: also on the
        /// loopback they may take their time.
        fn says(&mut self, bytes: &[u8]) {
            let client = self.fpm.client.as_ref().unwrap();
            let there = || rustix::io::ioctl_fionread(client).unwrap() as usize;
            let (before, begun) = (there(), Instant::now());
            self.zebra.write_all(bytes).unwrap();
            while there() < before + bytes.len() {
                assert!(begun.elapsed() < LIMIT, "{} of {}", there(), bytes.len());
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn poll(&mut self) {
            let mut sink = |events: &[Event]| self.batches.push(events.to_vec());
            self.fpm.poll(Duration::from_millis(20), &mut sink).unwrap();
        }

        fn until(&mut self, is: impl Fn(&Bench) -> bool) {
            let begun = Instant::now();
            while !is(self) {
                assert!(begun.elapsed() < LIMIT, "{:?}", self.fpm.counters());
                self.poll();
            }
        }

        fn at(&mut self, later: Duration) {
            let mut sink = |events: &[Event]| self.batches.push(events.to_vec());
            self.fpm.look_at_the_clock(Instant::now() + later, &mut sink);
        }
    }

    #[test]
    fn routes_in_pieces() {
        let mut b = Bench::new();
        for piece in [framed(24, 1, 0), framed(24, 2, 7)].concat().chunks(13) {
            b.says(piece);
            b.poll();
        }
        b.until(|b| b.batches.concat().len() == 2);
        assert!(matches!(
            &b.batches.concat()[1],
            Event::Route(r, _) if r.target == Target::Object { id: 7 | FPM_OBJECTS, mtu: 0 }
        ));
        assert_eq!(b.fpm.counters().messages, 2);
    }

    #[test]
    fn a_change_is_one_batch() {
        let mut b = Bench::new();
        b.says(&[framed(24, 1, 0), framed(25, 2, 0)].concat());
        b.poll();
        assert!(b.batches.is_empty(), "a deletion waits for what follows");
        b.says(&framed(24, 2, 7));
        b.until(|b| !b.batches.is_empty());
        assert!(matches!(
            b.batches[0][..],
            [Event::Route(..), Event::RouteGone(_), Event::Route(..)]
        ));
    }

    #[test]
    fn silence_completes_the_listing_and_a_lost_zebra_is_remembered_for_a_while() {
        let mut b = Bench::new();
        b.says(&framed(24, 1, 0));
        b.until(|b| !b.batches.is_empty());
        b.batches.clear();
        b.at(Duration::from_secs(1));
        assert!(b.batches.is_empty());
        b.at(QUIET);
        assert_eq!(b.batches, [SCOPES.map(Event::SweepEnd).to_vec()]);
        b.batches.clear();
        b.zebra.shutdown(std::net::Shutdown::Both).unwrap();
        b.until(|b| !b.fpm.counters().connected);
        b.at(HOLD / 2);
        assert!(b.batches.is_empty(), "what is there serves meanwhile");
        b.at(HOLD);
        assert_eq!(b.batches.concat().len(), 6);
        b.at(HOLD * 2);
        assert_eq!(b.batches.len(), 2, "once");
    }

    #[test]
    fn damage_ends_the_connection_and_the_next_zebra_counts() {
        let mut b = Bench::new();
        b.says(&[9, 9, 9, 9, 9]);
        b.poll();
        assert_eq!((b.fpm.counters().damaged, b.fpm.counters().connected), (1, false));
        let _second = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
        let _third = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
        b.until(|b| b.fpm.counters().connections == 3);
        assert!(b.fpm.counters().connected);
    }

    #[test]
    fn a_socket_that_listens_no_more_is_an_error_and_its_routes_are_held_for_a_while() {
        let mut b = Bench::new();
        let address = b.fpm.address().unwrap();
        rustix::net::shutdown(&b.fpm, rustix::net::Shutdown::Both).unwrap();
        let failed = b.fpm.poll(Duration::from_millis(20), &mut |_: &[Event]| {});
        assert!(is_for_good(&failed.unwrap_err()));
        let Bench { fpm, zebra, .. } = b;
        drop((fpm, zebra));
        b = Bench { fpm: Fpm::listen_again(address).unwrap(), ..Bench::new() };
        b.batches.clear();
        b.at(HOLD / 2);
        assert!(b.batches.is_empty(), "what is there serves meanwhile");
        b.at(HOLD);
        assert_eq!(b.batches.concat().len(), 6, "all listings, with nothing in them");
    }

    const LIMIT: Duration = Duration::from_secs(10);
}
