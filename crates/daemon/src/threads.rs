//! The daemon's threads: each is started here, so that none dies unnoticed.
//!
//! ```text
//!  fatal        panic          ─► noted: the run ends with its cause
//!  restarting   panic or error ─► again after 0.1, 1, 10 s; the fourth end in a minute: as fatal
//!  contained    panic          ─► logged: its client alone has lost something
//! ```
//!
//! A panic is logged once, by the hook, on the thread that panicked: also where
//! a second one on the way out then aborts the process. By the time a death is
//! noted, all that the thread owned has been dropped: the domain waits for its
//! reader no longer, and a call that waits for its answer fails.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::halt::Halt;

/// Starts threads and hears of their deaths; cheap to clone.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

struct Shared {
    restarts: Restarts,
    /// The first: what dies after it may die of it.
    died: Mutex<Option<Death>>,
    pulses: Mutex<Vec<Watched>>,
}

/// A thread that ended before its time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Death {
    /// Its name.
    pub thread: String,
    /// The panic with its place, or the error.
    pub cause: String,
}

/// How often a thread is started again.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    /// Before the first restart, the second …; there are no more than these.
    pub pauses: [Duration; 3],
    /// Ends longer ago than this do not count.
    pub within: Duration,
}

impl Restarts {
    /// Three a minute. What fails for want of memory or descriptors has ten
    /// seconds to find some.
    pub const USUAL: Restarts = Restarts {
        pauses: [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10)],
        within: Duration::from_secs(60),
    };
}

/// Beaten by a thread that goes round: it makes progress.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Once a round.
    pub fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A pulse, what it was at the last look, and since when.
struct Watched {
    thread: &'static str,
    pulse: Pulse,
    beats: u64,
    since: Instant,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::new(Restarts::USUAL)
    }
}

impl Threads {
    /// No threads yet.
    pub fn new(restarts: Restarts) -> Threads {
        log_panics();
        let (died, pulses) = (Mutex::default(), Mutex::default());
        Threads(Arc::new(Shared { restarts, died, pulses }))
    }

    /// Starts a thread whose panic ends the run.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn fatal<R: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<JoinHandle<R>> {
        let (threads, own) = (self.clone(), name.to_string());
        let run = move || match caught(body) {
            Ok(result) => result,
            Err((payload, cause)) => {
                threads.note(&own, cause);
                resume_unwind(payload) // for the thread that joins; the hook is not called again
            }
        };
        Builder::new().name(name.into()).spawn(run)
    }

    /// Starts a thread whose `life` is begun again when it ends by a panic or an
    /// error, unless `halt` is called; beyond its restarts it ends the run.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn restarting(
        &self,
        name: &str,
        halt: Halt,
        mut life: impl FnMut() -> io::Result<()> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (threads, own) = (self.clone(), name.to_string());
        let Restarts { pauses, within } = self.0.restarts;
        let run = move || {
            let mut ends: Vec<Instant> = Vec::new();
            loop {
                let cause = match caught(&mut life) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => {
                        tracing::error!("the thread {own} ends: {error}");
                        error.to_string()
                    }
                    Err((_, cause)) => cause,
                };
                ends.retain(|end| end.elapsed() < within);
                ends.push(Instant::now());
                let Some(&pause) = pauses.get(ends.len() - 1) else {
                    return threads.note(&own, format!("{cause} ({} times)", ends.len()));
                };
                tracing::warn!("the thread {own} is started again in {pause:?}");
                if !halt.pass(pause) {
                    return;
                }
            }
        };
        Builder::new().name(name.into()).spawn(run)
    }

    /// Starts a thread that works for one client. Only that client loses by its panic.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn contained(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let run = move || drop(caught(body)); // logged by the hook
        Builder::new().name(name.into()).spawn(run).map(drop)
    }

    /// Runs `body` on this thread; `None`: it has panicked, which ends the run.
    pub fn here<R>(&self, name: &str, body: impl FnOnce() -> R) -> Option<R> {
        caught(body).map_err(|(_, cause)| self.note(name, cause)).ok()
    }

    /// The first death, after which the run has to end.
    pub fn death(&self) -> Option<Death> {
        lock(&self.0.died).clone()
    }

    /// A pulse, to be beaten by the thread of this name.
    pub fn pulse(&self, thread: &'static str) -> Pulse {
        let pulse = Pulse::default();
        let watched = Watched { thread, pulse: pulse.clone(), beats: 0, since: Instant::now() };
        lock(&self.0.pulses).push(watched);
        pulse
    }

    /// Threads whose pulse has not been beaten for so long. Call it often: it sees
    /// no more than its calls do.
    pub fn silent(&self, for_so_long: Duration) -> Vec<&'static str> {
        let mut pulses = lock(&self.0.pulses);
        for watched in pulses.iter_mut() {
            let beats = watched.pulse.0.load(Relaxed);
            if beats != watched.beats {
                (watched.beats, watched.since) = (beats, Instant::now());
            }
        }
        let silent = pulses.iter().filter(|watched| watched.since.elapsed() >= for_so_long);
        silent.map(|watched| watched.thread).collect()
    }

    fn note(&self, thread: &str, cause: String) {
        let death = Death { thread: thread.into(), cause };
        lock(&self.0.died).get_or_insert(death);
    }
}

type Panic = (Box<dyn Any + Send>, String);

/// Runs `body`; its panic comes back with its cause in words.
fn caught<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = SUPERVISED.replace(true);
    // What `body` has touched is dropped, or behind locks that heed no poison.
    let done = catch_unwind(AssertUnwindSafe(body));
    SUPERVISED.set(outer);
    done.map_err(|payload| {
        let noted = CAUSE.take();
        let cause = noted.unwrap_or_else(|| message(&*payload).to_string());
        (payload, cause)
    })
}

thread_local! {
    /// True while this thread runs what was started here.
    static SUPERVISED: Cell<bool> = const { Cell::new(false) };
    /// Of the panic under way.
    static CAUSE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics of supervised threads logged like all else; those of others are
/// printed as before.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if SUPERVISED.get() { log_panic(info) } else { others(info) }
        }));
    });
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|at| format!(" at {at}")).unwrap_or_default();
    let cause = format!("panicked{place}: {}", message(info.payload()));
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?");
    let trace = std::backtrace::Backtrace::capture(); // where RUST_BACKTRACE asks for it
    match trace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!("the thread {name} {cause}\n{trace}");
        }
        _ => tracing::error!("the thread {name} {cause}"),
    }
    // The first is the cause; a second one, while it unwinds, aborts.
    CAUSE.with_borrow_mut(|known| _ = known.get_or_insert(cause));
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As usual, but in no time.
    pub const AT_ONCE: Restarts =
        Restarts { pauses: [Duration::from_millis(1); 3], within: Duration::from_secs(60) };

    /// The death, within the second in which it has to be noticed.
    pub fn death_of(threads: &Threads) -> Death {
        let begun = Instant::now();
        loop {
            match threads.death() {
                Some(death) => return death,
                None => assert!(begun.elapsed() < Duration::from_secs(1), "nobody has died"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_panic_is_a_death_with_its_cause_and_who_joins_sees_it() {
        let threads = Threads::default();
        let well = threads.fatal("well", || 7).unwrap();
        assert_eq!((well.join().unwrap(), threads.death()), (7, None));
        let ill = threads.fatal("ill", || panic!("at {}", "night")).unwrap();
        let death = death_of(&threads);
        assert_eq!(death.thread, "ill");
        assert!(death.cause.starts_with("panicked at crates/daemon/src/threads.rs:"), "{death:?}");
        assert!(death.cause.ends_with(": at night"), "{death:?}");
        assert!(ill.join().is_err());
        threads.here("main", || panic!("later")).unwrap_or(());
        assert_eq!(threads.death(), Some(death), "the first counts");
    }

    #[test]
    fn a_life_begins_again_three_times_a_minute() {
        let threads = Threads::new(AT_ONCE);
        let lives = Arc::new(AtomicU64::new(0));
        let (counted, halt) = (lives.clone(), Halt::new().unwrap());
        let life = move || match counted.fetch_add(1, Relaxed) {
            0 | 2 => panic!("planted"),
            _ => Err(io::Error::other("no more")),
        };
        threads.restarting("cat", halt, life).unwrap().join().unwrap();
        let death = death_of(&threads);
        assert_eq!((death.thread.as_str(), death.cause.as_str()), ("cat", "no more (4 times)"));
        assert_eq!(lives.load(Relaxed), 4);
    }

    #[test]
    fn ends_long_ago_do_not_count_and_a_stop_is_no_death() {
        let restarts = Restarts { within: Duration::ZERO, ..AT_ONCE };
        let threads = Threads::new(restarts);
        let halt = Halt::new().unwrap();
        let (theirs, mut lives) = (halt.clone(), 0);
        let life = move || {
            lives += 1;
            if lives == 50 {
                theirs.call();
            }
            Err(io::Error::other("again"))
        };
        threads.restarting("cat", halt, life).unwrap().join().unwrap();
        assert_eq!(threads.death(), None);
        let slow = Restarts { pauses: [Duration::from_secs(600); 3], ..AT_ONCE };
        let halt = Halt::new().unwrap();
        let life = || Err(io::Error::other("once"));
        let waiting = Threads::new(slow).restarting("cat", halt.clone(), life).unwrap();
        halt.call();
        waiting.join().unwrap(); // at once: not after ten minutes
    }

    #[test]
    fn what_is_contained_harms_nobody() {
        let threads = Threads::default();
        let (sent, came) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let _sent = sent;
            panic!("planted");
        };
        threads.contained("api-client", body).unwrap();
        assert!(came.recv().is_err());
        assert_eq!(threads.death(), None);
    }

    #[test]
    fn a_pulse_that_stops_is_silent() {
        let threads = Threads::default();
        let (busy, stuck) = (threads.pulse("busy"), threads.pulse("stuck"));
        stuck.beat();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            busy.beat();
            let silent = threads.silent(Duration::from_millis(50));
            assert!(!silent.contains(&"busy"), "{silent:?}");
        }
        busy.beat();
        assert_eq!(threads.silent(Duration::from_millis(50)), ["stuck"]);
        assert!(threads.silent(Duration::from_secs(60)).is_empty());
        stuck.beat();
        assert!(threads.silent(Duration::from_millis(50)).iter().all(|name| *name != "stuck"));
    }
}
