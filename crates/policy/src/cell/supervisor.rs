//! Keeps the configured number of processes running, ends those that fail, and changes policies.
//!
//! ```text
//!  starting ──► ready ──► serving ──► draining (another policy serves) ──► over
//!      └───────────┴──────────┴─────────────── failed ──────────────────────►
//! ```
//!
//! A round compares the processes with the wanted ones and does what is missing. A first start, a
//! restart, a reload and a rollback are the same operation: start processes of the wanted policy
//! until they are ready.

mod chunks;
mod rounds;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use self::chunks::Chunks;
use super::control;
use super::desk::{Desk, Mail};
use super::handle::{Handle, Request};
use super::history::History;
use super::process::{Process, Stage};
use super::settings::Settings;
use super::source::Source;
use super::status::{Counts, Error, Event, ProcessStatus, Status};

/// The supervisor. It runs on a thread of its own; its processes end with that thread.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    requests: Receiver<Request>,
    wake: Arc<OwnedFd>,
    mails: Vec<Arc<Mail>>,
    begun: Instant,
    /// The policy that decides, and the one before it.
    current: Option<Source>,
    before: Option<Source>,
    /// Policies that decided without too many failures, the last one at the end: where a policy
    /// that fails goes back to.
    good: Vec<Source>,
    /// The policy that should decide.
    next: Option<Next>,
    processes: Vec<Process>,
    started: u32,
    history: History,
    /// The event "no policy to go back to" was reported.
    stuck: bool,
    chunks: Chunks,
    past: Counts,
    restarts: u64,
    /// Processes of the current policy that have failed, and that none has replaced yet.
    owed: usize,
    rollbacks: u64,
    last_failure: Option<String>,
    missing: Vec<String>,
    system: Option<String>,
    events: Vec<Event>,
}

/// A policy whose processes are being started.
#[derive(Debug)]
struct Next {
    source: Source,
    /// The caller that waits for it.
    reply: Option<Sender<Result<(), Error>>>,
    /// The policy served before: this is a rollback.
    back: bool,
    /// Its processes were started.
    started: bool,
}

impl Supervisor {
    /// Makes the supervisor, its handle, and an asker for each worker. No policy decides yet:
    /// [`Handle::load`] loads one once the supervisor runs.
    ///
    /// # Errors
    /// When this process has no free descriptor.
    pub fn new(settings: Settings) -> io::Result<(Supervisor, Handle, Vec<Desk>)> {
        let (sender, requests) = mpsc::channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let handle = Handle { requests: sender, wake: wake.clone() };
        let (desks, mails) = (0..settings.workers).map(|_| Desk::new()).unzip();
        let supervisor = Supervisor {
            settings,
            requests,
            wake,
            mails,
            begun: Instant::now(),
            current: None,
            before: None,
            good: Vec::new(),
            next: None,
            processes: Vec::new(),
            started: 0,
            history: History::default(),
            stuck: false,
            chunks: Chunks::default(),
            past: Counts::default(),
            restarts: 0,
            owed: 0,
            rollbacks: 0,
            last_failure: None,
            missing: Vec::new(),
            system: None,
            events: Vec::new(),
        };
        Ok((supervisor, handle, desks))
    }

    /// Supervises until it is stopped. It calls `say` with each event for the operator, and `beat`
    /// once a round.
    pub fn run(mut self, mut say: impl FnMut(Event), mut beat: impl FnMut()) {
        let mut buffer = vec![0; control::MOST];
        loop {
            beat();
            self.wait();
            let requests: Vec<_> = self.requests.try_iter().collect();
            for request in requests {
                match request {
                    Request::Stop => return,
                    other => self.obey(other),
                }
            }
            self.round(Instant::now(), &mut buffer);
            self.events.drain(..).for_each(&mut say);
        }
    }

    /// Waits until there is work, or it is time for the next check.
    fn wait(&self) {
        let busy = self.next.is_some()
            || !self.chunks.is_empty()
            || self.processes.iter().any(|process| match process.stage {
                Stage::Serving => process.is_asked(),
                Stage::Ready => false,
                Stage::Starting | Stage::Draining | Stage::Over => true,
            });
        let files = self.processes.iter().filter(|process| process.stage != Stage::Over);
        let files: Vec<_> = std::iter::once(self.wake.as_fd())
            .chain(files.map(|process| process.control.as_fd()))
            .collect();
        match control::wait(&files, Some(if busy { LOOK } else { IDLE })) {
            Ok(ready) if ready[0] => _ = rustix::io::read(&*self.wake, &mut [0; 8]),
            Ok(_) => {}
            Err(_) => std::thread::sleep(LOOK), // no busy loop
        }
    }

    fn obey(&mut self, request: Request) {
        match request {
            Request::Load(source, reply) => self.load(source, reply, false),
            Request::Rollback(reply) => match self.before.clone() {
                Some(before) => self.load(before, reply, true),
                None => _ = reply.send(Err(Error::NothingBefore)),
            },
            Request::Exec(chunk, reply) => {
                self.chunks.put(chunk, reply, &mut self.processes);
            }
            Request::Status(reply) => _ = reply.send(self.status()),
            Request::Stop => {}
        }
    }

    fn load(&mut self, source: Source, reply: Sender<Result<(), Error>>, back: bool) {
        if let Some(next) = &self.next {
            let _ = reply.send(Err(Error::Busy(next.source.name().to_owned())));
            return;
        }
        self.next = Some(Next { source, reply: Some(reply), back, started: false });
    }

    fn status(&mut self) -> Status {
        let name = |source: &Source| source.name().to_owned();
        let process = |process: &Process| ProcessStatus {
            pid: process.id(),
            policy: name(&process.source),
            stage: match process.stage {
                Stage::Starting => "starting",
                Stage::Ready => "ready",
                Stage::Serving => "serving",
                Stage::Draining => "draining",
                Stage::Over => "over",
            },
            counts: process.counts(),
        };
        let processes: Vec<_> = self.processes.iter().map(process).collect();
        let counts = processes.iter().fold(self.past, |all, one| all.and(one.counts));
        Status {
            policy: self.current.as_ref().map(name),
            before: self.before.as_ref().map(name),
            loading: self.next.as_ref().map(|next| name(&next.source)),
            processes,
            counts,
            full: self.mails.iter().map(|mail| mail.refused()).sum(),
            failures: self.history.recent(Instant::now()),
            last_failure: self.last_failure.clone(),
            restarts: self.restarts,
            rollbacks: self.rollbacks,
            missing: self.missing.clone(),
            remarks: self.remarks(),
        }
    }
}

impl Supervisor {
    /// The counters of all processes.
    fn remarks(&self) -> Vec<String> {
        let all = self.processes.iter().filter_map(|process| process.remark.clone());
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }
}

/// The time between two checks: while a caller waits, and otherwise.
const LOOK: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(50);
