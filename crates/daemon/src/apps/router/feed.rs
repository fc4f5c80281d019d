//! Threads of the feeds: what the kernel or FRR tells, to the control thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use api::reply;
use feeds::fpm::Fpm;
use feeds::netlink::Mirror;
use tables::Event;

use crate::error::{Doing, Error};
use crate::parts::control::Handle;

/// A running feed.
pub struct FeedThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How a feed is doing; lives on when its thread does not.
#[derive(Clone)]
pub struct Status(Arc<Shared>);

struct Shared {
    name: &'static str,
    stop: AtomicBool,
    events: AtomicU64,
    /// State and counters after the last look.
    seen: Mutex<(String, Vec<(&'static str, u64)>)>,
}

/// What a feed is to its thread.
trait Source: Send + 'static {
    /// Waits up to `timeout` and hands on what came.
    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&[Event])) -> io::Result<()>;
    /// Its state in a word or two, and its counters.
    fn status(&self) -> (String, Vec<(&'static str, u64)>);
}

impl FeedThread {
    /// Mirrors the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn netlink(control: Handle) -> Result<FeedThread, Error> {
        let mirror = Mirror::open(BUFFER).doing(|| "open the netlink mirror".into())?;
        FeedThread::start("netlink", mirror, control)
    }

    /// Takes FRR's routes, at the port that its documentation names.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn fpm(control: Handle) -> Result<FeedThread, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, feeds::fpm::PORT));
        let fpm = Fpm::listen(address).doing(|| format!("listen for FRR at {address}"))?;
        FeedThread::start("fpm", fpm, control)
    }

    fn start(
        name: &'static str,
        source: impl Source,
        control: Handle,
    ) -> Result<FeedThread, Error> {
        let shared = Arc::new(Shared {
            name,
            stop: AtomicBool::new(false),
            events: AtomicU64::new(0),
            seen: Mutex::new(source.status()),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || run(source, &control, &theirs));
        let thread = Some(thread.doing(|| format!("start the {name} thread"))?);
        Ok(FeedThread { shared, thread })
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        Status(self.shared.clone())
    }
}

impl Drop for FeedThread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed when it happened
        }
    }
}

impl Status {
    /// For `show system`.
    pub fn show(&self) -> reply::Feed {
        let (state, counters) = lock(&self.0.seen).clone();
        let events = ("events", self.0.events.load(Relaxed));
        let all = std::iter::once(events).chain(counters);
        let counters = all.map(|(name, value)| (name.to_string(), value)).collect();
        reply::Feed { name: self.0.name.into(), state, counters }
    }
}

fn run(mut source: impl Source, control: &Handle, shared: &Shared) {
    let mut alive = true;
    while alive && !shared.stop.load(Relaxed) {
        let polled = source.poll(PAUSE, &mut |events| {
            shared.events.fetch_add(events.len() as u64, Relaxed);
            // False: the control thread has ended, the daemon stops.
            alive &= control.events(events.to_vec());
        });
        *lock(&shared.seen) = source.status();
        if let Err(error) = polled {
            tracing::error!("the feed {} ends: {error}", shared.name);
            lock(&shared.seen).0 = format!("lost: {error}");
            return;
        }
    }
}

impl Source for Mirror {
    fn poll(&mut self, timeout: Duration, mut sink: &mut dyn FnMut(&[Event])) -> io::Result<()> {
        Mirror::poll(self, timeout, &mut sink)
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
    fn poll(&mut self, timeout: Duration, mut sink: &mut dyn FnMut(&[Event])) -> io::Result<()> {
        Fpm::poll(self, timeout, &mut sink)
    }

    fn status(&self) -> (String, Vec<(&'static str, u64)>) {
        let counters = self.counters();
        let state = if counters.connected { "connected" } else { "waiting for FRR" };
        let counters = vec![
            ("messages", counters.messages),
            ("connections", counters.connections),
            ("listings", counters.listings),
            ("ignored", counters.ignored),
            ("damaged", counters.damaged),
        ];
        (state.into(), counters)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of messages that the kernel may keep for us.
const BUFFER: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(100);
/// Listings that make the first round complete.
const LISTINGS: u64 = 6;
