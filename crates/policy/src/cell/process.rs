//! One process, from outside.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::begin::Begin;
use super::control;
use super::gauge::{Gauge, State};
use super::layout::{HEAD, Layout};
use super::line::Line;
use super::settings::Settings;
use super::shared::{self, Own, Window};
use super::source::Source;
use super::status::Counts;

/// A process and the rings to it.
#[derive(Debug)]
pub(super) struct Process {
    /// Of all, in turn.
    pub number: u32,
    pub source: Source,
    pub stage: Stage,
    pub since: Instant,
    /// It has said that it is shut in.
    pub shut: bool,
    /// With what less than it should have it does.
    pub remark: Option<String>,
    /// How much it has said, since when.
    said: (u32, Instant),
    child: Child,
    pub control: OwnedFd,
    pub links: Vec<Link>,
    /// One a worker, until they are with the workers.
    #[expect(clippy::vec_box, reason = "they move between threads as one pointer")]
    pub lines: Vec<Box<Line>>,
    /// A chunk that it was given, and since when.
    pub chunk: Option<(u32, Instant)>,
    /// Why it was killed, where we did it; empty: for no fault of its.
    pub killed: Option<String>,
    /// How it ended is known.
    pub reported: bool,
}

/// What it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// It makes its policy.
    Starting,
    /// It could serve.
    Ready,
    /// Workers ask it.
    Serving,
    /// It answers what it was asked.
    Draining,
    /// It is to go.
    Over,
}

/// What the supervisor sees of the rings to one worker.
#[derive(Debug)]
pub(super) struct Link {
    pub gauge: Arc<Gauge>,
    verdicts: Arc<Window>,
    /// Verdicts at the last look, and since when there are no more.
    seen: u64,
    since: Instant,
}

impl Process {
    /// Starts one. The thread that calls this must outlive it: it ends with that thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(number: u32, source: &Source, settings: &Settings) -> io::Result<Process> {
        let (control, theirs) = control::pair()?;
        let mut words = settings.command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        // No code of ours between fork and exec: a fork would copy the daemon's page tables.
        let child = Command::new(program)
            .args(words)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Process {
            number,
            source: source.clone(),
            stage: Stage::Starting,
            since: Instant::now(),
            shut: false,
            said: (0, Instant::now()),
            child,
            control,
            links: Vec::new(),
            lines: Vec::new(),
            chunk: None,
            remark: None,
            killed: None,
            reported: false,
        };
        if let Err(error) = process.equip(settings) {
            process.end();
            return Err(error);
        }
        Ok(process)
    }

    fn equip(&mut self, settings: &Settings) -> io::Result<()> {
        let layout = Layout::new(settings.depth, settings.captured);
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let user = settings.user.map(|first| first.wrapping_add(self.number % USERS));
        let begin = Begin {
            depth: layout.depth().into(),
            captured: layout.captured().into(),
            user: user.map_or(u64::MAX, u64::from),
            memory: settings.memory,
            limit_ms: millis(settings.limit).max(1),
            load_ms: millis(settings.load),
            spin_us: settings.spin.map_or(u64::MAX, |spin| spin.as_micros() as u64),
            parent: std::process::id().into(),
        };
        let name = self.source.name().as_bytes();
        self.send(control::BEGIN, &[&begin.emit(), name], std::slice::from_ref(&*bell))?;
        for _ in 0..settings.workers {
            let files = [
                shared::memory("questions", layout.questions())?,
                shared::memory("verdicts", layout.verdicts())?,
            ];
            // SAFETY: the one of this file.
            let questions = unsafe { Own::map(files[0].as_fd(), layout.questions()) }?;
            shared::seal_from_writers(&files[0])?;
            shared::seal(&files[1])?;
            let verdicts = Arc::new(Window::map(files[1].as_fd(), layout.verdicts())?);
            let gauge = Arc::new(Gauge::default());
            let line = Line::new(
                layout,
                questions,
                verdicts.clone(),
                Some(bell.clone()),
                gauge.clone(),
                settings.instead,
            );
            self.lines.push(Box::new(line));
            self.links.push(Link { gauge, verdicts, seen: 0, since: self.since });
            self.send(control::RINGS, &[], &files)?;
        }
        for file in self.source.files() {
            let len = (file.len as u64).to_ne_bytes();
            let parts = [&len[..], file.name.as_bytes()];
            self.send(control::FILE, &parts, std::slice::from_ref(&file.memory))?;
        }
        self.send(control::GO, &[], &[])
    }

    /// Sends a message; what it cannot take at once is an error.
    pub fn send(&self, kind: u8, parts: &[&[u8]], files: &[OwnedFd]) -> io::Result<()> {
        control::send(self.control.as_fd(), kind, parts, &control::borrowed(files))
    }

    /// Its number with the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its links are from now on.
    pub fn advance(&self, state: State) {
        self.links.iter().for_each(|link| link.gauge.advance(state));
    }

    /// Asks the system to end it, and believes it nothing more.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn kill(&mut self) -> io::Result<()> {
        self.advance(State::Over);
        self.child.kill()
    }

    /// It has said one thing more: whether that is more than one says that is not hostile. Each
    /// is work of the thread that listens.
    pub fn says_too_much(&mut self, now: Instant) -> bool {
        let (said, since) = &mut self.said;
        if now.duration_since(*since) >= SECOND {
            (*said, *since) = (0, now);
        }
        *said += 1;
        *said > WORDS
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends it and waits for that.
    pub fn end(&mut self) {
        if self.kill().is_ok() {
            let _ = self.child.wait();
        }
    }

    /// What it was asked and said.
    pub fn counts(&self) -> Counts {
        let of = |link: &Link| {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let Gauge { asked, decided, failed, lost, refused, .. } = &*link.gauge;
            Counts {
                asked: load(asked),
                decided: load(decided),
                failed: load(failed),
                lost: load(lost),
                refused: load(refused),
            }
        };
        self.links.iter().map(of).fold(Counts::default(), Counts::and)
    }

    /// What was in its rings and no verdict.
    pub fn refused(&self) -> u64 {
        self.links.iter().map(|link| link.gauge.refused.load(Ordering::Relaxed)).sum()
    }

    /// True when workers wait for verdicts of its.
    pub fn is_asked(&self) -> bool {
        self.links.iter().any(|link| link.gauge.oldest().is_some())
    }

    /// True when no worker has a line to it.
    pub fn is_alone(&self) -> bool {
        self.lines.is_empty() && self.links.iter().all(|link| Arc::strong_count(&link.gauge) == 1)
    }

    /// What workers note as the time of a question until the next look.
    pub fn set_clock(&self, clock: u32) {
        self.links.iter().for_each(|link| link.gauge.set_clock(clock));
    }

    /// Whether it has said nothing for too long although it was asked, or keeps a question
    /// for very long.
    pub fn is_silent(&mut self, now: Instant, clock: u32, settings: &Settings) -> bool {
        let (silence, long) = (settings.silence(), settings.silence() * 20);
        let mut silent = false;
        for link in &mut self.links {
            // In this order: what the worker has taken, it has noted before.
            let taken = link.gauge.taken.load(Ordering::Acquire);
            let oldest = link.gauge.oldest();
            link.gauge.set_clock(clock);
            let said = link.verdicts.load(HEAD, Ordering::Acquire) != taken;
            // What waits for the worker is not the process's fault.
            let seen = if oldest.is_some() && !said { u64::from(taken) | 1 << 32 } else { 0 };
            if seen == 0 || seen != link.seen {
                (link.seen, link.since) = (seen, now);
                continue;
            }
            let age = u128::from(clock.wrapping_sub(oldest.unwrap_or(clock)));
            silent |= now.duration_since(link.since) > silence || age > long.as_millis();
        }
        silent
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.end();
        }
    }
}

/// How a process ended, for people.
pub(super) fn words(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGSYS) => "it made a system call that it may not".into(),
        Some(libc::SIGSEGV) => "it touched memory that it does not have (SIGSEGV)".into(),
        Some(libc::SIGABRT) => "it gave up (SIGABRT), perhaps for want of memory".into(),
        Some(signal) => format!("it was ended by signal {signal}"),
        None => format!("it ended by itself (status {})", status.code().unwrap_or(-1)),
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Things that a process says in a second, at most: five times what failures come to.
const WORDS: u32 = 1_000;
/// Users that processes have in turn.
const USERS: u32 = 1 << 16;
