//! Control's requests about a worker's flows: lists, flushes, figures.
//!
//! ```text
//!  control ─ Worker::start_job ─► List, Flush ─► some places of the table a poll ─► parts
//!            Worker::call ──────► figures
//! ```
//!
//! A list is not a snapshot: a flow that comes or goes meanwhile may be in it.

use core::net::IpAddr;

use graph::{Graph, Job, Progress, clock};
use lookup::exact::Capacity;
use lookup::exact::flow::{Counts, Flow, FlowKey, Page};
use tables::{Net, Protections, SetId};

use super::flows::Flows;
use super::granted::Granted;
use super::mix::Mix;
use super::programs::Programs;
use super::rule::{Budget, Rule};
use super::shield::Shield;
use super::solicit::Solicit;
use super::state::{self, Kind};

/// Which flows; all of them, by default. What is given must all be so.
#[derive(Clone, Default)]
pub struct Filter {
    /// From these sources.
    pub from: Option<Net>,
    /// To these destinations.
    pub to: Option<Net>,
    /// In this state.
    pub state: Option<State>,
    /// Decided by the program of this number.
    pub program: Option<u8>,
    /// By another program of that number than the one of this edition
    /// ([`Programs::edition`](super::programs::Programs::edition)).
    pub not_of: Option<u8>,
    /// Of this protection.
    pub set: Option<SetId>,
    /// Whose packets go to this Grantor, by the protections as they are
    /// ([`Protections`] are a list of pages: to be cloned and dropped by control).
    pub grantor: Option<(IpAddr, Protections)>,
}

/// A flow's state, without what belongs to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Nothing is decided.
    Request,
    /// It has a budget.
    Granted,
    /// It gets nothing.
    Declined,
    /// A program's.
    Program,
}

/// A flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Source and destination.
    pub key: FlowKey,
    /// The protection that it is of: a stale one is none's ([`Protections::get`]).
    pub set: SetId,
    /// By which it has one Grantor of several ([`tables::Protection::grantor`]).
    pub mixed: u32,
    /// What is known of it.
    pub known: Known,
    /// Milliseconds until the decision ends, or a request may be forgotten; 0 once that has
    /// come.
    pub left_ms: u64,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// It asks, with this base priority, and may do so for some packets more.
    Request {
        /// 0 to 63.
        priority: u8,
        /// 0 to 7.
        allowance: u8,
        /// Milliseconds since its last packet.
        seen_ms: u64,
    },
    /// It has a budget.
    Granted(Budget),
    /// It gets nothing.
    Declined,
    /// A program decides.
    Program {
        /// Its number.
        number: u8,
        /// That of a program that is built in and keeps one, where a [`List`] knows the programs.
        budget: Option<Budget>,
    },
}

impl Known {
    /// The state alone.
    pub fn state(&self) -> State {
        match self {
            Known::Request { .. } => State::Request,
            Known::Granted(_) => State::Granted,
            Known::Declined => State::Declined,
            Known::Program { .. } => State::Program,
        }
    }
}

impl Filter {
    /// Whether a flow is meant.
    fn takes(&self, flow: &Flow, mix: &Mix) -> bool {
        let key = flow.key();
        let set = Flows::set_of(&flow.state);
        let is_in = |net: &Option<Net>, at: usize| {
            net.is_none_or(|net| net.covers(&Net::host(ends(&key)[at])))
        };
        let is_asked = |(ip, all): &(IpAddr, Protections)| {
            let grantor = all.get(set).and_then(|protection| protection.grantor(mix.of(&key)));
            grantor.is_some_and(|grantor| grantor.ip == *ip)
        };
        self.state.is_none_or(|state| state == state_of(Kind::of(&flow.state)))
            && self.program.is_none_or(|number| Kind::of(&flow.state) == Kind::Program(number))
            && self.not_of.is_none_or(|edition| edition != state::edition(&flow.state))
            && self.set.is_none_or(|wanted| wanted == set)
            && is_in(&self.from, 0)
            && is_in(&self.to, 1)
            && self.grantor.as_ref().is_none_or(is_asked)
    }
}

/// Lists flows: a [`Job`] on [`Shield`], whose parts are some rows each, often none.
pub struct List {
    filter: Filter,
    programs: Option<Programs>,
    at: usize,
}

impl List {
    /// Of the flows that `filter` means.
    pub fn new(filter: Filter) -> List {
        List { filter, programs: None, at: 0 }
    }

    /// With what these programs show of their flows.
    pub fn by(self, programs: Programs) -> List {
        List { programs: Some(programs), ..self }
    }
}

impl Job<Shield> for List {
    type Part = Vec<Row>;

    fn step(&mut self, node: &mut Shield, places: usize) -> Progress<Vec<Row>> {
        let mix = node.mix();
        let Some(flows) = node.flows() else { return Progress::Last(Vec::new()) };
        let now = clock::now();
        let mut rows = Vec::new();
        let next = flows.table().walk(self.at, places, &mut |flow, page| {
            if self.filter.takes(flow, &mix) {
                rows.push(row((flow, page), self.programs.as_ref(), &mix, now));
            }
        });
        match next {
            Some(at) => {
                self.at = at;
                Progress::More(rows)
            }
            None => Progress::Last(rows),
        }
    }
}

/// Takes flows out: a [`Job`] on [`Shield`], whose parts are how many went.
pub struct Flush {
    filter: Filter,
    at: usize,
}

impl Flush {
    /// The flows that `filter` means.
    pub fn new(filter: Filter) -> Flush {
        Flush { filter, at: 0 }
    }
}

impl Job<Shield> for Flush {
    type Part = usize;

    fn step(&mut self, node: &mut Shield, places: usize) -> Progress<usize> {
        let mix = node.mix();
        let Some(flows) = node.flows() else { return Progress::Last(0) };
        let mut gone = 0;
        let next = flows.table_mut().flush(
            self.at,
            places,
            &mut |flow, _| self.filter.takes(flow, &mix),
            &mut |_, _, _| gone += 1,
        );
        match next {
            Some(at) => {
                self.at = at;
                Progress::More(gone)
            }
            None => Progress::Last(gone),
        }
    }
}

/// What a worker holds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The table's size.
    pub capacity: Capacity,
    /// Its flows by class, and what has happened to them.
    pub counts: Counts,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that there is room for.
    pub room: usize,
}

/// What the worker of `graph` holds; `None` where it has no flows.
pub fn figures(graph: &mut Graph) -> Option<Figures> {
    let table = graph.node_mut::<Shield>().ok()?.flows()?.table();
    let (capacity, counts) = (table.capacity(), table.counts());
    let solicit = graph.node_mut::<Solicit>().ok()?;
    Some(Figures { capacity, counts, waiting: solicit.waiting(), room: solicit.room() })
}

/// Source and destination.
pub fn ends(key: &FlowKey) -> [IpAddr; 2] {
    let v4 = key.is_v4();
    key.addresses().map(|address| match v4 {
        true => IpAddr::V4((address as u32).into()),
        false => IpAddr::V6(address.into()),
    })
}

fn state_of(kind: Kind) -> State {
    match kind {
        Kind::Request => State::Request,
        Kind::Granted => State::Granted,
        Kind::Declined => State::Declined,
        Kind::Program(_) => State::Program,
    }
}

fn row(
    (flow, page): (&Flow, Option<&Page>),
    programs: Option<&Programs>,
    mix: &Mix,
    now: u64,
) -> Row {
    let key = flow.key();
    let ms = |ticks: u64| (clock::rate().ps(ticks) / PS_IN_MS).min(u64::MAX.into()) as u64;
    let known = match (Kind::of(&flow.state), page) {
        (Kind::Granted, page) => {
            let budget = page.and_then(|page| Granted.budget(&page.0, now));
            Known::Granted(budget.unwrap_or_default())
        }
        (Kind::Declined, _) => Known::Declined,
        (Kind::Program(number), page) => {
            // What another has written says nothing to this one.
            let is_its = |of: &&Programs| of.edition(number) == state::edition(&flow.state);
            let rule = programs.filter(is_its).and_then(|of| of.get(number));
            let budget = rule.zip(page).and_then(|(rule, page)| rule.budget(&page.0, now));
            Known::Program { number, budget }
        }
        (Kind::Request, _) => {
            let request = state::request(&flow.state);
            let seen_ms = ms(now.saturating_sub(request.seen));
            Known::Request { priority: request.priority, allowance: request.allowance, seen_ms }
        }
    };
    let left_ms = ms(flow.expires().saturating_sub(now));
    Row { key, set: Flows::set_of(&flow.state), mixed: mix.of(&key), known, left_ms }
}

const PS_IN_MS: u128 = 1_000_000_000;
