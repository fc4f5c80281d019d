//! Threads of the feeds: what the kernel or FRR reports goes to the control thread.
//!
//! A feed that fails or panics is opened again. The mirror then lists everything
//! anew, which also finds what it has not heard; FRR connects anew and sends all
//! it has. What is in the tables serves meanwhile.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use api::reply;
use feeds::fpm::{Fpm, Notice, Rules};
use feeds::netlink::Mirror;
use tables::Event;

use crate::error::{Doing, Error};
use crate::halt::Halt;
use crate::parts::control::Handle;
use crate::threads::Threads;

/// A running feed.
pub struct FeedThread {
    shared: Arc<Shared>,
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

/// How a feed is doing; lives on when its thread does not.
#[derive(Clone)]
pub struct Status(Arc<Shared>);

struct Shared {
    name: &'static str,
    events: AtomicU64,
    /// Routes swept because no connection has repeated them in time.
    swept: AtomicU64,
    /// State and counters after the last look.
    seen: Mutex<(String, Vec<(&'static str, u64)>)>,
}

/// A feed, as its thread sees it.
trait Source: Send + 'static {
    /// Waits for a while, or until `halt` is called, and hands on what came.
    fn poll(&mut self, halt: &Halt, sink: &mut dyn FnMut(&[Event])) -> io::Result<()>;
    /// Its state in a word or two, and its counters.
    fn status(&self) -> (String, Vec<(&'static str, u64)>);
    /// The present obstacle to its work.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// News for the log since the last check.
    fn notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
}

impl FeedThread {
    /// Mirrors the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn netlink(control: Handle, threads: &Threads) -> Result<FeedThread, Error> {
        let open = || Mirror::open(BUFFER);
        let mirror = open().doing(|| "open the netlink mirror".into())?;
        FeedThread::start("netlink", (mirror, open), control, threads)
    }

    /// Takes FRR's routes, at the port that its documentation names.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn fpm(rules: Rules, control: Handle, threads: &Threads) -> Result<FeedThread, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, feeds::fpm::PORT));
        let fpm = Fpm::listen(address, rules.clone());
        let fpm = fpm.doing(|| format!("listen for FRR at {address}"))?;
        let again = move || Fpm::listen_again(address, rules.clone());
        FeedThread::start("fpm", (fpm, again), control, threads)
    }

    /// Its first source is there; the others are opened when one has failed.
    fn start<S: Source>(
        name: &'static str,
        (source, mut again): (S, impl FnMut() -> io::Result<S> + Send + 'static),
        control: Handle,
        threads: &Threads,
    ) -> Result<FeedThread, Error> {
        let seen = Mutex::new(source.status());
        let (events, swept) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { name, events, swept, seen });
        let halt = Halt::new().doing(|| format!("start the {name} thread"))?;
        let (theirs, ends, mut first) = (shared.clone(), halt.clone(), Some(source));
        let life = move || {
            let mut lost = Lost { shared: &theirs, why: Some("it panicked".into()) };
            let source = first.take().map_or_else(&mut again, Ok);
            let done = source.and_then(|source| run(source, &control, &theirs, &ends));
            lost.why = done.as_ref().err().map(ToString::to_string);
            done
        };
        let thread = threads.restarting(name, halt.clone(), life);
        let thread = Some(thread.doing(|| format!("start the {name} thread"))?);
        Ok(FeedThread { shared, halt, thread })
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        Status(self.shared.clone())
    }
}

impl Drop for FeedThread {
    fn drop(&mut self) {
        self.halt.call();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was logged when it happened
        }
    }
}

/// Says in the status why a life has ended, also where it panicked.
struct Lost<'s> {
    shared: &'s Shared,
    /// `None`: in order.
    why: Option<String>,
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if let Some(why) = &self.why {
            lock(&self.shared.seen).0 = format!("lost: {why}");
        }
    }
}

impl Status {
    /// For `show system`.
    pub fn show(&self) -> reply::Feed {
        let (state, counters) = lock(&self.0.seen).clone();
        let events = ("events", self.0.events.load(Relaxed));
        let swept = Some(("swept", self.0.swept.load(Relaxed))).filter(|(_, n)| *n > 0);
        let all = std::iter::once(events).chain(counters).chain(swept);
        let counters = all.map(|(name, value)| (name.to_string(), value)).collect();
        reply::Feed { name: self.0.name.into(), state, counters }
    }
}

fn run(mut source: impl Source, control: &Handle, shared: &Shared, halt: &Halt) -> io::Result<()> {
    let (mut alive, mut known) = (true, None);
    while alive && !halt.is_called() {
        let polled = source.poll(halt, &mut |events| {
            shared.events.fetch_add(events.len() as u64, Relaxed);
            // False: the control thread has ended, the daemon stops.
            alive &= control.events(events.to_vec());
        });
        *lock(&shared.seen) = source.status();
        for notice in source.notices() {
            note(shared, &notice, control);
        }
        polled?;
        let trouble = source.trouble();
        match (&known, &trouble) {
            (None, Some(why)) => tracing::warn!("the feed {}: {why}", shared.name),
            (Some(_), None) => tracing::info!("the feed {} works again", shared.name),
            _ => {}
        }
        known = trouble;
    }
    Ok(())
}

fn note(shared: &Shared, notice: &Notice, control: &Handle) {
    let Shared { name, .. } = shared;
    match notice {
        Notice::Swept { .. } => {
            // Behind the sweep among the control thread's messages: it is done.
            let Ok(all) = control.call(|control| control.counters().fpm_swept) else { return };
            let new = all - shared.swept.swap(all, Relaxed);
            match new {
                0 => tracing::info!("the feed {name}: all routes have been repeated"),
                new => tracing::warn!("the feed {name}: {notice} ({new} routes)"),
            }
        }
        Notice::Lost { .. } => tracing::warn!("the feed {name}: {notice}"),
        Notice::Second | Notice::Stranger { .. } => {
            tracing::warn!(
                "the feed {name}: {notice} (logged once a minute; `show system` counts)"
            );
        }
    }
}

impl Source for Mirror {
    fn poll(&mut self, halt: &Halt, mut sink: &mut dyn FnMut(&[Event])) -> io::Result<()> {
        halt.wait_beside(self.as_fd(), Some(self.left()))?;
        Mirror::poll(self, Duration::ZERO, &mut sink)
    }

    fn status(&self) -> (String, Vec<(&'static str, u64)>) {
        let counters = self.counters();
        let state = if counters.listings < LISTINGS { "listing" } else { "in step" };
        let counters = vec![
            ("messages", counters.messages),
            ("listings", counters.listings),
            ("overruns", counters.overruns),
            ("damaged", counters.damaged),
            ("aborted", counters.aborted),
        ];
        (state.into(), counters)
    }
}

impl Source for Fpm {
    fn poll(&mut self, _: &Halt, mut sink: &mut dyn FnMut(&[Event])) -> io::Result<()> {
        Fpm::poll(self, PAUSE, &mut sink)
    }

    fn status(&self) -> (String, Vec<(&'static str, u64)>) {
        let counters = self.counters();
        let state = match (counters.connected, self.trouble()) {
            (true, _) => "connected".into(),
            (false, Some(why)) => why,
            (false, None) => "waiting for FRR".into(),
        };
        let counters = vec![
            ("messages", counters.messages),
            ("connections", counters.connections),
            ("listings", counters.listings),
            ("ignored", counters.ignored),
            ("damaged", counters.damaged),
            ("refused", counters.refused),
            ("strangers", counters.strangers),
            ("seconds", counters.seconds),
            ("expired", counters.expired),
        ];
        (state, counters)
    }

    fn notices(&mut self) -> Vec<Notice> {
        Fpm::notices(self)
    }

    fn trouble(&self) -> Option<String> {
        self.refusal().map(|error| format!("a connection cannot be taken: {error}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of messages that the kernel may keep for us.
const BUFFER: usize = 64 << 20;
/// FPM's: it has more than one socket to wait for.
const PAUSE: Duration = Duration::from_millis(100);
/// Listings that make the first round complete.
const LISTINGS: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::control::ControlThread;
    use crate::threads::tests::{AT_ONCE, death_of};
    use lookup::sync::Domain;
    use std::net::TcpStream;
    use std::os::fd::AsFd;
    use std::time::Instant;
    use tables::{Control, Limits, VrfConfig};

    fn control(threads: &Threads) -> ControlThread {
        let control = Control::new(&Domain::new(), Limits::default(), &VrfConfig::default());
        ControlThread::start(control.unwrap(), threads).unwrap()
    }

    /// The process that runs the test may look like FRR.
    fn own() -> Rules {
        let user = feeds::fpm::User::Number(rustix::process::geteuid().as_raw());
        Rules { users: vec![user], ..Rules::default() }
    }

    /// Fails at every look, by an error or a panic.
    struct Failing(bool);

    impl Source for Failing {
        fn poll(&mut self, _: &Halt, _: &mut dyn FnMut(&[Event])) -> io::Result<()> {
            assert!(!self.0, "planted");
            Err(io::Error::other("planted"))
        }

        fn status(&self) -> (String, Vec<(&'static str, u64)>) {
            ("in step".into(), vec![("lives", 1)])
        }
    }

    #[test]
    fn a_feed_beyond_its_restarts_is_a_death_and_says_why() {
        for panics in [false, true] {
            let threads = Threads::new(AT_ONCE);
            let control = control(&threads);
            let (lives, opened) = (Arc::new(AtomicU64::new(1)), Failing(panics));
            let counted = lives.clone();
            let again = move || {
                counted.fetch_add(1, Relaxed);
                Ok(Failing(panics))
            };
            let source = (opened, again);
            let feed = FeedThread::start("planted", source, control.handle(), &threads).unwrap();
            let death = death_of(&threads);
            assert_eq!((death.thread.as_str(), lives.load(Relaxed)), ("planted", 4));
            assert!(death.cause.contains("planted"), "{death:?}");
            assert!(feed.status().show().state.starts_with("lost: "));
            assert!(control.handle().call(|_| ()).is_ok(), "the others live");
        }
    }

    #[test]
    fn a_feed_that_cannot_be_opened_again_is_tried_as_often() {
        let threads = Threads::new(AT_ONCE);
        let control = control(&threads);
        let again = || Err(io::Error::other("the port is taken"));
        let source = (Failing(false), again);
        let _feed = FeedThread::start("planted", source, control.handle(), &threads).unwrap();
        assert_eq!(death_of(&threads).cause, "the port is taken (4 times)");
    }

    #[test]
    fn fpm_listens_again_where_its_socket_failed() {
        let threads = Threads::new(AT_ONCE);
        let control = control(&threads);
        let rules = own();
        let fpm = Fpm::listen((Ipv4Addr::LOCALHOST, 0).into(), rules.clone()).unwrap();
        let (address, same) = (fpm.address().unwrap(), fpm.as_fd().try_clone_to_owned().unwrap());
        let source = (fpm, move || Fpm::listen_again(address, rules.clone()));
        let feed = FeedThread::start("fpm", source, control.handle(), &threads).unwrap();
        rustix::net::shutdown(&same, rustix::net::Shutdown::Both).unwrap();
        drop(same);
        let begun = Instant::now();
        let mut zebra = None;
        while feed.status().show().state != "connected" {
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", feed.status().show());
            zebra = zebra.or_else(|| TcpStream::connect(address).ok());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(threads.death(), None);
    }
}
