//! The mirror's thread: what the kernel tells, to the control thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use api::reply::Feed;
use feeds::netlink::{Counters, Mirror};

use super::control::Handle;
use crate::error::{Doing, Error};

/// The running thread.
pub struct MirrorThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    counters: Mutex<Counters>,
    events: AtomicU64,
    /// Why it ended before its time.
    lost: Mutex<Option<String>>,
}

impl MirrorThread {
    /// Starts to mirror the network namespace of the calling thread, and waits
    /// until the first listing is handed over.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(control: Handle) -> Result<MirrorThread, Error> {
        let mirror = Mirror::open(BUFFER).doing(|| "open the netlink mirror".into())?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("mirror".into());
        let thread = thread.spawn(move || run(mirror, &control, &theirs));
        let thread = Some(thread.doing(|| "start the mirror thread".into())?);
        Ok(MirrorThread { shared, thread })
    }

    /// How it is doing; lives on when the thread does not.
    pub fn status(&self) -> impl Fn() -> Feed + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || {
            let counters = *lock(&shared.counters);
            let lost = lock(&shared.lost).clone();
            let state = match (&lost, counters.listings) {
                (Some(error), _) => format!("lost: {error}"),
                (None, 0..LISTINGS) => "listing".into(),
                (None, _) => "in step".into(),
            };
            let counter = |name: &str, value| (name.to_string(), value);
            Feed {
                name: "netlink".into(),
                state,
                counters: vec![
                    counter("events", shared.events.load(Relaxed)),
                    counter("messages", counters.messages),
                    counter("listings", counters.listings),
                    counter("overruns", counters.overruns),
                    counter("damaged", counters.damaged),
                    counter("aborted", counters.aborted),
                ],
            }
        }
    }
}

impl Drop for MirrorThread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed when it happened
        }
    }
}

fn run(mut mirror: Mirror, control: &Handle, shared: &Shared) {
    while !shared.stop.load(Relaxed) {
        let mut alive = true;
        let polled = mirror.poll(PAUSE, &mut |events| {
            shared.events.fetch_add(events.len() as u64, Relaxed);
            alive &= control.events(events.to_vec());
        });
        *lock(&shared.counters) = mirror.counters();
        if let Err(error) = polled {
            tracing::error!("the mirror of the kernel's tables ends: {error}");
            *lock(&shared.lost) = Some(error.to_string());
            return;
        }
        if !alive {
            return; // the control thread has ended: the daemon stops
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of messages that the kernel may keep for us.
const BUFFER: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(100);
/// Listings that make the first round complete.
const LISTINGS: u64 = 6;
