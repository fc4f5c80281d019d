//! One process, as the supervisor sees it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::about;
use super::begin::Begin;
use super::control;
use super::gauge::{Gauge, State};
use super::layout::{AT, HEAD, LINE, Layout};
use super::line::Line;
use super::settings::Settings;
use super::shared::{self, Own, Window};
use super::source::Source;
use super::status::Counts;

/// A process and the rings to it.
#[derive(Debug)]
pub(super) struct Process {
    /// Its index among all processes.
    pub number: u32,
    /// The smallest number that no other process had when it started: a policy's `gt_lcore_id`.
    pub place: u32,
    pub source: Source,
    pub stage: Stage,
    pub since: Instant,
    /// It has reported that it is confined.
    pub shut: bool,
    /// The resources that it lacks and works without.
    pub remark: Option<String>,
    /// The number of its messages, and since when they are counted.
    said: (u32, Instant),
    child: Child,
    pub control: OwnedFd,
    layout: Layout,
    pub links: Vec<Link>,
    /// One end for each worker, until the workers have them.
    #[expect(clippy::vec_box, reason = "they move between threads as one pointer")]
    pub lines: Vec<Box<Line>>,
    /// The chunk that it runs, and since when.
    pub chunk: Option<(u32, Instant)>,
    /// Why the supervisor killed it; empty: not for a fault of the process.
    pub killed: Option<String>,
    /// Its exit status is known.
    pub reported: bool,
}

/// The stage of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// It loads its policy.
    Starting,
    /// It could serve.
    Ready,
    /// Workers ask it.
    Serving,
    /// It answers its open questions.
    Draining,
    /// It is being ended.
    Over,
}

/// The supervisor's view of the rings to one worker.
#[derive(Debug)]
pub(super) struct Link {
    pub gauge: Arc<Gauge>,
    questions: Window,
    verdicts: Arc<Window>,
    /// The number of verdicts at the last check, and since when it has not changed.
    seen: u64,
    since: Instant,
}

impl Process {
    /// Starts a process. The calling thread must outlive it: the process ends with that thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        (number, place): (u32, u32),
        source: &Source,
        settings: &Settings,
    ) -> io::Result<Process> {
        let (control, theirs) = control::pair()?;
        let mut words = settings.command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        // No code of ours runs between fork and exec: a fork would copy the daemon's page tables.
        let child = Command::new(program)
            .args(words)
            .args(&settings.engines)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Process {
            number,
            place,
            source: source.clone(),
            stage: Stage::Starting,
            since: Instant::now(),
            shut: false,
            said: (0, Instant::now()),
            child,
            control,
            layout: Layout::new(settings.depth, settings.captured),
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
        let layout = self.layout;
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
            place: self.place.into(),
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
            let questions = Window::map(files[0].as_fd(), layout.questions())?;
            self.links.push(Link { gauge, questions, verdicts, seen: 0, since: self.since });
            self.send(control::RINGS, &[], &files)?;
        }
        for file in self.source.files() {
            let len = (file.len as u64).to_ne_bytes();
            let parts = [&len[..], file.name.as_bytes()];
            self.send(control::FILE, &parts, std::slice::from_ref(&file.memory))?;
        }
        self.send(control::GO, &[], &[])
    }

    /// Sends a message; a message that the socket cannot take at once is an error.
    pub fn send(&self, kind: u8, parts: &[&[u8]], files: &[OwnedFd]) -> io::Result<()> {
        control::send(self.control.as_fd(), kind, parts, &control::borrowed(files))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sets the state of its links.
    pub fn advance(&self, state: State) {
        self.links.iter().for_each(|link| link.gauge.advance(state));
    }

    /// Asks the system to end it, and trusts it no more.
    ///
    /// # Errors
    /// When the system does not allow that.
    pub fn kill(&mut self) -> io::Result<()> {
        self.advance(State::Over);
        self.child.kill()
    }

    /// Counts a message; returns whether there are more than an honest process sends. Each message
    /// costs the supervisor's thread work.
    pub fn says_too_much(&mut self, now: Instant) -> bool {
        let (said, since) = &mut self.said;
        if now.duration_since(*since) >= SECOND {
            (*said, *since) = (0, now);
        }
        *said += 1;
        *said > WORDS
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends it and waits for its end.
    pub fn end(&mut self) {
        if self.kill().is_ok() {
            let _ = self.child.wait();
        }
    }

    /// The counters of its questions.
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

    /// The number of invalid messages in its rings.
    pub fn refused(&self) -> u64 {
        self.links.iter().map(|link| link.gauge.refused.load(Ordering::Relaxed)).sum()
    }

    /// What it was asked when it ended, in words. Rings with invalid messages say nothing.
    pub fn asked(&self) -> Option<String> {
        if self.refused() > 0 {
            return None;
        }
        let at = self.links.first()?.verdicts.load(AT, Ordering::Relaxed);
        let of = |link: &Link| about::asked(self.layout, &link.questions, &link.verdicts, at);
        self.links.iter().find_map(of)
    }

    /// The policy's line at which it ended, if it has noted one. Rings with invalid messages say
    /// nothing.
    pub fn line(&self) -> Option<u32> {
        let line = self.links.first()?.verdicts.load(LINE, Ordering::Relaxed);
        (line > 0 && self.refused() == 0).then_some(line)
    }

    /// Why it ended, in words, with the policy's line if it has noted one.
    pub fn with_line(&self, cause: String) -> String {
        let of = |line| format!("{}:{line}: {cause}", self.source.name());
        self.line().map_or(cause.clone(), of)
    }

    /// Whether workers wait for its verdicts.
    pub fn is_asked(&self) -> bool {
        self.links.iter().any(|link| link.gauge.oldest().is_some())
    }

    /// Whether no worker has a line to it.
    pub fn is_alone(&self) -> bool {
        self.lines.is_empty() && self.links.iter().all(|link| Arc::strong_count(&link.gauge) == 1)
    }

    /// Sets the clock that workers note with a question, until the next check.
    pub fn set_clock(&self, clock: u32) {
        self.links.iter().for_each(|link| link.gauge.set_clock(clock));
    }

    /// Whether it has been silent for too long although it was asked, or keeps one question for very long.
    pub fn is_silent(&mut self, now: Instant, clock: u32, settings: &Settings) -> bool {
        let (silence, long) = (settings.silence(), settings.silence() * 20);
        let mut silent = false;
        for link in &mut self.links {
            // The order of these reads matters: the worker notes a question before it takes the verdict.
            let taken = link.gauge.taken.load(Ordering::Acquire);
            let oldest = link.gauge.oldest();
            link.gauge.set_clock(clock);
            let said = link.verdicts.load(HEAD, Ordering::Acquire) != taken;
            // Verdicts that wait for the worker are not the process's fault.
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

/// Why a process ended: it was killed for this, or by itself. One that had crashed before it was
/// killed, for a silence, say, has crashed; an empty cause is no fault.
pub(super) fn cause(killed: Option<String>, status: ExitStatus) -> String {
    let crashed = status.signal().is_some_and(|signal| signal != libc::SIGKILL);
    killed.filter(|cause| cause.is_empty() || !crashed).unwrap_or_else(|| words(status))
}

/// How a process ended, in words.
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
/// The most messages of a process in a second: five times those that failures cause.
const WORDS: u32 = 1_000;
/// The number of user ids that processes use in turn.
const USERS: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_the_cause_whatever_it_was_killed_for() {
        let silent = || Some("it gave no verdict for 100 ms".to_owned());
        let of = |killed, status| cause(killed, ExitStatus::from_raw(status));
        assert_eq!(of(silent(), libc::SIGKILL), silent().unwrap());
        assert_eq!(of(silent(), 0), silent().unwrap(), "it ended by itself");
        assert!(of(silent(), libc::SIGSEGV).contains("SIGSEGV"));
        assert!(of(None, libc::SIGSEGV).contains("SIGSEGV"));
        assert_eq!(of(Some(String::new()), libc::SIGSEGV), "", "it was to end");
    }
}
