//! Port mirroring: copies of the frames of chosen ports, directions, VLANs or a filter, to
//! a port or into a file; in the configuration and at run time.
//!
//! ```text
//!  worker: span_in, span_out ─┬► span_send ─► output ─► port
//!                             └► ring of frames ─► span thread ─► pcap, pcapng
//!  add, del ─► Spans, published; the insets that are wanted are switched on
//! ```

mod files;
mod keys;
mod read;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use api::apps::span::{Direction, Reply, Request as Asked, Shown, Span, Target};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::reply::Capacity;
use api::{ErrorKind, Failure, Filter, Request};
use graph::ring::frames;
use lookup::sync::Published;
use nodes::assembly::Assembly;
use nodes::span::{self as data, Counters, INSETS, MOST, Parts, SOURCE, Side, Spans};

use crate::app::{Answered, Application, Begin, Change, Requests, Running, Setup};
use crate::config::{Config, Declared};
use crate::error::Error;
use crate::parts::state::{State, changed, failure, lock};
use crate::parts::watch;
use crate::server::Client;
use crate::threads::Threads;
use files::Files;

/// The application.
pub struct Mirror;

impl Application for Mirror {
    fn name(&self) -> &'static str {
        "span"
    }

    fn declared(&self) -> Declared {
        read::DECLARED
    }

    fn requests(&self) -> Requests {
        const CHANGES: &[Change] = &[Change {
            section: "span.NAME",
            by: "rutter span add|del",
            requests: &["add", "del"],
        }];
        Requests { all: api::names::<Asked>(), changes: CHANGES, reads: &["show"] }
    }

    fn serves(&self, config: &Config) -> bool {
        !configured(config).is_empty()
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error> {
        let workers = setup.config.workers.len();
        let (producers, rings) = (0..2 * workers).map(|_| frames::ring(RING)).unzip();
        Ok(Box::new(Mirroring {
            spans: Arc::new(Published::new(setup.domain, Spans::default())),
            counters: (0..workers).map(|_| Arc::default()).collect(),
            producers,
            ports: setup.config.ports.iter().map(|port| port.name.clone()).collect(),
            threads: None,
            live: Mutex::new(Live {
                all: Vec::new(),
                rings,
                files: None,
                refused: 0,
                last: String::new(),
            }),
        }))
    }
}

fn configured(config: &Config) -> &[Span] {
    config.settings.get::<read::Spans>().map_or(&[], |spans| &spans.0)
}

/// The mirrors of a running instance.
struct Mirroring {
    spans: Arc<Published<Spans>>,
    /// Of each worker.
    counters: Vec<Arc<Counters>>,
    /// The workers' ends of the rings; each worker's nodes take two.
    producers: Vec<frames::Producer>,
    /// Names, by number.
    ports: Vec<String>,
    /// Where the thread is started, once workers run.
    threads: Option<Threads>,
    live: Mutex<Live>,
}

/// The parts that can be changed.
struct Live {
    all: Vec<One>,
    /// Until the thread has them.
    rings: Vec<frames::Consumer>,
    /// The thread; there once a file is wanted.
    files: Option<Files>,
    /// How many were too many, and the last of them.
    refused: u64,
    last: String,
}

/// A mirror.
struct One {
    span: Span,
    /// The mirrors in the form that nodes read.
    data: data::Span,
    /// What was counted for the one that had its number before.
    before: [u64; 4],
    /// Its file, where it has one.
    file: Option<files::Id>,
}

impl Running for Mirroring {
    fn nodes(&mut self, worker: usize, assembly: Assembly) -> Assembly {
        let files = [self.producers.remove(0), self.producers.remove(0)]; // two a worker
        let counters = self.counters[worker].clone();
        data::add(assembly, Parts { spans: self.spans.clone(), counters, files })
    }

    fn begin(&mut self, begin: &Begin<'_>) -> Result<(), Error> {
        self.threads = Some(begin.threads.clone());
        Ok(())
    }

    fn ready(&self, state: &State) -> Result<(), Error> {
        for span in configured(&state.config) {
            let asked = |failure: Failure| Error::asked(&["span", &span.name], failure.text);
            self.add(span.clone(), state).map_err(asked)?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request, state: &State, out: &mut Client) -> Option<Answered> {
        let Request::App(AppRequest::Span(request)) = request else { return None };
        let done = match request {
            Asked::Add(span) => self.add(span.clone(), state),
            Asked::Del { name } => self.del(name, state),
            Asked::Show => {
                out.part(api::Reply::App(AppReply::Span(Reply::Spans(self.show()))));
                return Some(Ok(()));
            }
        };
        Some(done.map(|()| changed(out)))
    }

    /// Writes what the workers have left.
    fn finish(&self) {
        drop(lock(&self.live).files.take());
    }

    /// A line once there is one: most instances have none.
    fn capacity(&self, _: &State) -> Result<Vec<Capacity>, Failure> {
        let live = lock(&self.live);
        let spans = Capacity {
            what: "spans".into(),
            used: live.all.len() as u64,
            limit: Some(MOST as u64),
            refused: live.refused,
            last: live.last.clone(),
            key: None,
        };
        Ok(if spans.used + spans.refused > 0 { vec![spans] } else { Vec::new() })
    }
}

impl Mirroring {
    fn add(&self, span: Span, state: &State) -> Answered {
        let live = &mut *lock(&self.live);
        let others: Vec<Span> = live.all.iter().map(|one| one.span.clone()).collect();
        if let Some(objection) = read::objection(&span, &self.ports, &others) {
            return Err(failure(ErrorKind::Invalid, objection));
        }
        let taken = |number: &usize| live.all.iter().any(|one| one.data.number == *number);
        let Some(number) = (0..MOST).find(|number| !taken(number)) else {
            (live.refused, live.last) = (live.refused + 1, span.name);
            let text = format!("there are {MOST} spans already");
            return Err(failure(ErrorKind::Refused, text));
        };
        let data = self.data(&span, number)?;
        let file = match &span.to {
            Target::File(path) => Some(self.open(path, number, live)?),
            Target::Port(_) => None,
        };
        let before = self.counted(number);
        live.all.push(One { span, data, before, file });
        self.publish(&live.all, state)
    }

    /// Opens the file of mirror `number`.
    fn open(&self, path: &str, number: usize, live: &mut Live) -> Result<files::Id, Failure> {
        let refused = |error: &dyn std::fmt::Display| {
            failure(ErrorKind::Refused, format_args!("{path}: {error}"))
        };
        let taken: Vec<_> = live.all.iter().filter_map(|one| one.file).collect();
        let (id, file) = files::create(path, &taken).map_err(|error| refused(&error))?;
        let files = match live.files.take() {
            Some(files) => files,
            None => {
                let starting = || failure(ErrorKind::Busy, "the router is just starting");
                let threads = self.threads.as_ref().ok_or_else(starting)?;
                let files = Files::start(threads).map_err(|error| refused(&error))?;
                files.attach(std::mem::take(&mut live.rings));
                files
            }
        };
        live.files.insert(files).open(number, file);
        Ok(id)
    }

    fn del(&self, name: &str, state: &State) -> Answered {
        let live = &mut *lock(&self.live);
        let Some(at) = live.all.iter().position(|one| one.span.name == name) else {
            let text = format!("there is no span `{name}`");
            return Err(failure(ErrorKind::NotFound, text));
        };
        let gone = live.all.remove(at);
        let published = self.publish(&live.all, state);
        if matches!(gone.span.to, Target::File(_)) {
            live.files.iter().for_each(|files| files.close(gone.data.number));
        }
        published
    }

    /// As nodes read it. The names were looked at.
    fn data(&self, span: &Span, number: usize) -> Result<data::Span, Failure> {
        let port = |name: &String| {
            self.ports.iter().position(|port| port == name).unwrap_or_default() as u16
        };
        let filter = api::filter::text::parse(std::slice::from_ref(&span.filter));
        let filter = filter.map_err(|error| failure(ErrorKind::Invalid, error))?;
        let vlans = span.vlans.iter().map(|vlan| Filter::Vlan(Some(*vlan))).collect();
        let vlans = Some(Filter::Or(vlans)).filter(|_| !span.vlans.is_empty());
        let both: Vec<Filter> = vlans.into_iter().chain(filter).collect();
        let filter = Some(Filter::And(both)).filter(|filter| *filter != Filter::And(Vec::new()));
        Ok(data::Span {
            number,
            ports: span.ports.iter().map(port).collect(),
            sides: match span.direction {
                Direction::In => vec![Side::In],
                Direction::Out => vec![Side::Out],
                Direction::Both => vec![Side::In, Side::Out],
            },
            filter: watch::filter(filter)?,
            one_in: span.one_in,
            to: match &span.to {
                Target::Port(name) => data::Target::Port(port(name)),
                Target::File(_) => data::Target::File,
            },
        })
    }

    /// Makes them what workers copy by. When it returns each has seen them.
    fn publish(&self, all: &[One], state: &State) -> Answered {
        let spans = Spans::new(all.iter().map(|one| one.data.clone()));
        let on = [Side::In, Side::Out].map(|side| spans.look_at(side));
        self.spans.publish(spans);
        let wanted = !all.is_empty();
        let workers = state.workers();
        let mut threads = workers.iter().flat_map(|workers| &workers.threads);
        threads.try_for_each(|worker| {
            let switch = move |graph: &mut graph::Graph| {
                for (inset, on) in INSETS.iter().zip(on) {
                    graph.switch(inset, on);
                }
                if wanted {
                    graph.wake(SOURCE);
                }
            };
            worker.call(switch).map_err(|error| failure(ErrorKind::Internal, error))
        })
    }

    fn show(&self) -> Vec<Shown> {
        let live = lock(&self.live);
        let faults = live.files.as_ref().map_or_else(HashMap::new, Files::faults);
        let shown = |one: &One| {
            let now = self.counted(one.data.number);
            let [copied, bytes, no_buffer, ring_full] =
                std::array::from_fn(|i| now[i] - one.before[i]);
            let fault = faults.get(&one.data.number).cloned().unwrap_or_default();
            Shown { span: one.span.clone(), copied, bytes, no_buffer, ring_full, fault }
        };
        live.all.iter().map(shown).collect()
    }

    /// The sum of all workers' counters for mirrors of this number.
    fn counted(&self, number: usize) -> [u64; 4] {
        let of = self.counters.iter().map(|worker| worker.of(number));
        of.fold([0; 4], |sum, one| {
            let one = [&one.copied, &one.bytes, &one.no_buffer, &one.ring_full];
            std::array::from_fn(|i| sum[i] + one[i].get())
        })
    }
}

/// Bytes of each ring from a worker to the span thread.
const RING: usize = 1 << 20;
