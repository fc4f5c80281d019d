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
//! all: silence is no complete listing. What it had sent to us before, and does not
//! repeat, serves on for [`Rules::hold`] after it has connected anew, and so does all
//! of it after a connection has ended; then it is swept. Connections that end before
//! their hold is over do not prolong it.
//!
//! Whoever can connect could otherwise put routes in: the user at the other end has to
//! be one of [`Rules::users`], by the kernel's word ([`peer`]), which it has about
//! this machine's sockets only: the port is one of the loopback. There is one zebra at
//! a time, the first; one that has gone without a word is noticed by keepalive.
//!
//! A connection that cannot be taken (no descriptor is free, say) is tried again
//! after [`PAUSE`]; the one that is there is served meanwhile.
//!
//! Zebra changes a route by a deletion and an addition, one behind the other. A
//! deletion is therefore held back until the next message, or silence: both then
//! go into the tables together, and no packet finds the prefix without a route.

mod framing;
mod notice;
mod peer;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tables::Family;
use tables::event::{Event, Scope, Source, Why};

pub use framing::understand;
pub use notice::Notice;
use notice::Notices;
use peer::Peers;
pub use peer::User;

use crate::accept::is_for_good;

/// Where FRR's documentation has it.
pub const PORT: u16 = 2620;

/// Whom it listens to, and how long routes serve.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rules {
    /// Who may be FRR.
    pub users: Vec<User>,
    /// How long routes serve that no connection answers for.
    pub hold: Duration,
}

impl Default for Rules {
    fn default() -> Rules {
        let users = ["root", "frr"].map(User::parse).into();
        Rules { users, hold: Duration::from_secs(120) }
    }
}

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
    /// Connections refused for their user.
    pub strangers: u64,
    /// Connections refused because there is one.
    pub seconds: u64,
    /// Times that routes of a zebra that did not come back were swept.
    pub expired: u64,
    /// True while zebra is connected.
    pub connected: bool,
}

/// The server: one zebra at a time, the first counts.
pub struct Fpm {
    rules: Rules,
    listener: TcpListener,
    peers: Peers,
    client: Option<TcpStream>,
    /// Bytes of the client not yet understood.
    heard: Vec<u8>,
    batch: Vec<Event>,
    /// When a listing began, and when a message came last.
    listing: Option<(Instant, Instant)>,
    /// Since when there may be routes that no connection has answered for.
    stale: Option<Instant>,
    /// Why the last connection could not be taken, and when that is tried again.
    refusal: Option<(io::Error, Instant)>,
    notices: Notices,
    counters: Counters,
}

impl Fpm {
    /// Listens, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the address is taken, is not ours, or no connection of which could be
    /// whose it is: one that is not of the loopback.
    pub fn listen(address: SocketAddr, rules: Rules) -> io::Result<Fpm> {
        if !address.ip().is_loopback() {
            let why = "FRR can connect to the loopback only: the kernel knows no senders elsewhere";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Fpm {
            rules,
            listener,
            peers: Peers::open()?,
            client: None,
            heard: Vec::new(),
            batch: Vec::new(),
            listing: None,
            stale: None,
            refusal: None,
            notices: Notices::default(),
            counters: Counters::default(),
        })
    }

    /// Listens in the place of one that failed: routes which that one has brought
    /// serve for [`Rules::hold`], as after a zebra that went.
    ///
    /// # Errors
    /// As of [`Fpm::listen`].
    pub fn listen_again(address: SocketAddr, rules: Rules) -> io::Result<Fpm> {
        let stale = Some(Instant::now());
        Ok(Fpm { stale, ..Fpm::listen(address, rules)? })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// When the system does not say.
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

    /// What is worth a line in the log since the last call; of refusals that go on, one
    /// in a minute.
    pub fn notices(&mut self) -> Vec<Notice> {
        self.notices.take()
    }

    /// Waits up to `timeout` for something to do, and does it: hands events to
    /// `sink` in batches.
    ///
    /// # Errors
    /// When the listening socket fails for good.
    pub fn poll(&mut self, timeout: Duration, sink: &mut impl FnMut(&[Event])) -> io::Result<()> {
        let quiet = !self.wait(if self.batch.is_empty() { timeout } else { HELD.min(timeout) })?;
        self.read(sink); // first: where the last zebra's end has come, the next finds room
        if self.deaf(Instant::now()).is_none() {
            self.accept(sink)?;
        }
        if quiet {
            self.flush(sink);
        }
        self.look_at_the_clock(Instant::now(), sink);
        Ok(())
    }

    /// Takes those that wait: a crowd of strangers does not hold zebra up for long.
    fn accept(&mut self, sink: &mut impl FnMut(&[Event])) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            if self.is_ending() {
                return Ok(()); // who is next waits until the last word has been read
            }
            let taken = self.listener.accept();
            let taken = taken.and_then(|(client, _)| client.set_nonblocking(true).map(|()| client));
            match taken {
                Ok(client) => {
                    self.refusal = None;
                    self.let_in(client, sink);
                }
                Err(error) if is_nothing(&error) => {
                    self.refusal = None;
                    return Ok(());
                }
                Err(error) if is_for_good(&error) => return Err(error),
                Err(error) => {
                    self.counters.refused += 1;
                    self.refusal = Some((error, Instant::now() + PAUSE));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes `client` the zebra, or ends it.
    fn let_in(&mut self, client: TcpStream, sink: &mut impl FnMut(&[Event])) {
        let user = self.peers.user_of(&client);
        let known = |uid: u32| Ok((uid, peer::is_one_of(uid, &self.rules.users)?));
        let user = user.and_then(|user| user.map(known).transpose());
        if !matches!(user, Ok(Some((_, true)))) {
            self.counters.strangers += 1;
            let user = user.map(|user| user.map(|(uid, _)| uid));
            self.notices.stranger(user, &self.rules.users);
        } else if self.client.is_some() {
            self.counters.seconds += 1;
            self.notices.second();
        } else {
            // Without it a zebra that goes without a word is not noticed; no reason to
            // take none.
            let _ = peer::notice_death(&client);
            self.connected(client, sink);
        }
    }

    /// True when zebra has said its last word, which is still to be read.
    fn is_ending(&self) -> bool {
        let Some(client) = &self.client else { return false };
        let mut wanted = [PollFd::new(client, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0)
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
        self.client = Some(client);
        self.counters.connections += 1;
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
        let now = Instant::now();
        if self.listing.take().is_some() {
            sink(&SCOPES.map(Event::SweepAbort));
            self.stale.get_or_insert(now); // what it has not repeated is older than it
        } else {
            self.stale = Some(now);
        }
        self.notices.lost(self.rules.hold);
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
        let hold = self.rules.hold;
        let complete = self.listing.is_some_and(|(began, last)| {
            let due = began + self.stale.map_or(Duration::ZERO, |_| hold);
            let quiet = now.saturating_duration_since(last) >= QUIET;
            now >= due && (quiet || now >= due + LONGEST)
        });
        let expired = self.client.is_none()
            && self.stale.is_some_and(|since| now.saturating_duration_since(since) >= hold);
        if !complete && !expired {
            return;
        }
        self.flush(sink);
        if expired {
            self.counters.expired += 1;
            sink(&SCOPES.map(|scope| Event::SweepBegin(scope, Why::Overrun)));
        }
        if self.stale.take().is_some() {
            self.notices.swept(expired);
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

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

const SCOPES: [Scope; 3] = [
    Scope::NextHops(Source::Fpm),
    Scope::Routes(Family::V4, Source::Fpm),
    Scope::Routes(Family::V6, Source::Fpm),
];
const BATCH: usize = 4096;
const CHUNK: usize = 256 << 10;
const READS: usize = 16;
/// Until a connection that could not be taken is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a deletion waits for the addition that may follow.
const HELD: Duration = Duration::from_millis(10);
/// Silence before a sweep: a daemon that was restarted may still be learning.
const QUIET: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
/// Connections looked at in one round.
const ACCEPTS: usize = 64;

#[cfg(test)]
mod tests;
