//! Requests about the shield.

use std::collections::HashMap;
use std::net::IpAddr;

use api::apps::Reply as AppReply;
use api::apps::gatekeeper::{
    Action as Does, Count, Dropped, Filter, Flow, Flows, Protect, Protected, Reply, Request,
    Requests, Shield,
};
use api::{ErrorKind, Failure};
use graph::Job;
use nodes::gatekeeper::listing::{self, Figures, Flush, List, Row};
use nodes::gatekeeper::programs::Programs as Table;
use nodes::gatekeeper::settings::SHADOW;
use nodes::gatekeeper::shield::Shield as Node;
use tables::show::{ProtectionInfo, RouteFilter};
use tables::{Changed, Net, Protections, SetId, Unfit};

use super::live::{PAGE, VRF, is_shown, shown_as};
use super::programs::Wanted;
use super::show::Counted;
use super::{Guarding, protect, read, show};
use crate::app::Answered;
use crate::parts::show as parts;
use crate::parts::state::{State, changed, failure, lock, up};
use crate::server::Client;

/// No instance without `[gatekeeper]` has a shield.
pub(super) fn no_shield() -> Failure {
    failure(ErrorKind::Invalid, "there is no shield: the configuration has no [gatekeeper]")
}

impl Guarding {
    /// Answers one.
    pub(super) fn answered(&self, request: &Request, state: &State, out: &mut Client) -> Answered {
        match request {
            Request::Show => {
                let shield = Box::new(self.show(state)?);
                out.part(reply(Reply::Show(shield)));
                Ok(())
            }
            Request::Protections => self.protections(state, out),
            Request::Programs => {
                out.part(reply(Reply::Programs(self.programs.show(&self.counters))));
                Ok(())
            }
            Request::LoadProgram { index, object, name } => {
                let (index, object) = (*index, object.clone());
                let name = name.clone().unwrap_or_else(|| read::file_name(&object));
                let edition = self.programs.load(&Wanted { index, object, name })?;
                self.flush_others(index, edition, state).map(|()| changed(out))
            }
            Request::UnloadProgram { index } => {
                let edition = self.programs.unload(*index)?;
                self.flush_others(*index, edition, state).map(|()| changed(out))
            }
            Request::Flows { filter, limit } => self.list(filter, *limit, state, out),
            Request::Flush { filter } => {
                let flushed = self.flush(self.filter(filter, state)?, state)?;
                out.part(reply(Reply::Flushed(flushed)));
                Ok(())
            }
            Request::Add(wanted) => self.add(wanted, state).map(|()| changed(out)),
            Request::Change { prefix, action, grantors, shadow, flush } => {
                let (prefix, grantors) = (prefix.clone(), grantors.clone());
                let wanted = Protect { prefix, action: *action, grantors, shadow: false };
                self.change(wanted, *shadow, *flush, state).map(|()| changed(out))
            }
            Request::Del { prefix } => self.del(prefix, state).map(|()| changed(out)),
            Request::Shadow { prefix, on } => {
                self.shadow(prefix, *on, state).map(|()| changed(out))
            }
        }
    }

    fn fit(&self, wanted: &Protect) -> Result<tables::Protect, Failure> {
        let here = self.shield.here.is_some();
        let fit = show::asked(wanted).and_then(|asked| protect::wanted(asked, here));
        fit.map_err(|text| failure(ErrorKind::Invalid, text))
    }

    fn add(&self, wanted: &Protect, state: &State) -> Answered {
        let wanted = self.fit(wanted)?;
        let mut live = lock(&self.live);
        let (net, action) = (wanted.net, wanted.action);
        let id = state.ask(move |control| {
            let done = control.protect(VRF, &wanted);
            control.commit();
            done
        })?;
        let id = id.map_err(|error| refused(&error))?;
        live.before.insert(id.index, Counted::of(&self.counters, id));
        live.forget(net);
        if let Some(kernel) = state.kernel.as_ref().filter(|_| is_shown(action)) {
            lock(kernel).add_shield(shown_as(net)).map_err(|error| {
                live.unshown.insert(net);
                let text =
                    format!("{net} is protected, but routing daemons do not see it: {error}");
                failure(ErrorKind::Refused, text)
            })?;
        }
        Ok(())
    }

    /// A shadow that is not named stays.
    fn change(
        &self,
        wanted: Protect,
        shadow: Option<bool>,
        flush: bool,
        state: &State,
    ) -> Answered {
        let held = lock(&self.live);
        let stays = || {
            let info = self.protection(&wanted.prefix, state)?;
            Ok(info.options & SHADOW != 0 && wanted.action == Does::Protect)
        };
        let shadow = shadow.map_or_else(stays, Ok)?;
        let gone = alter(self.fit(&Protect { shadow, ..wanted })?, flush, state)?;
        drop(held); // a large table is flushed for seconds
        self.flush_set(gone, state)
    }

    fn shadow(&self, prefix: &str, on: bool, state: &State) -> Answered {
        let held = lock(&self.live);
        let info = self.protection(prefix, state)?;
        let wanted = Protect { shadow: on, ..show::protect(&info) };
        let gone = alter(self.fit(&wanted)?, false, state)?;
        drop(held); // as above
        self.flush_set(gone, state)
    }

    fn del(&self, prefix: &str, state: &State) -> Answered {
        let mut live = lock(&self.live);
        let info = self.protection(prefix, state)?;
        let net = info.net;
        // Nobody is to send here what then would go nowhere.
        if let Some(kernel) = state.kernel.as_ref().filter(|_| is_shown(info.action))
            && !live.withdrawn.contains(&net)
            && let Err(error) = lock(kernel).delete_shield(shown_as(net))
        {
            tracing::warn!("gatekeeper: the route that announces {net}: {error}");
        }
        let done = state.ask(move |control| {
            let done = control.unprotect(VRF, net);
            control.commit();
            done
        })?;
        let set = done.map_err(|error| refused(&error))?;
        live.forget(net);
        drop(live); // as above
        self.flush_set(Some(set), state)
    }

    fn protection(&self, prefix: &str, state: &State) -> Result<ProtectionInfo, Failure> {
        let net = net(prefix)?;
        let found = state.ask(move |control| control.protection(VRF, net))?;
        found.ok_or_else(|| failure(ErrorKind::NotFound, Unfit::Unknown { net }))
    }

    fn flush_set(&self, gone: Option<SetId>, state: &State) -> Answered {
        let Some(set) = gone else { return Ok(()) };
        let filter = listing::Filter { set: Some(set), ..listing::Filter::default() };
        self.flush(filter, state).map(drop)
    }

    /// Takes out the flows that other programs of this number were asked about: nothing reads
    /// what those have written.
    fn flush_others(&self, index: u8, edition: u8, state: &State) -> Answered {
        let (program, not_of) = (Some(index), Some(edition));
        let filter = listing::Filter { program, not_of, ..listing::Filter::default() };
        self.flush(filter, state).map(drop)
    }

    /// Takes flows out of all tables; how many.
    fn flush(&self, filter: listing::Filter, state: &State) -> Result<u64, Failure> {
        let workers = state.workers();
        let jobs = up(&workers)?
            .threads
            .iter()
            .map(|worker| worker.start_job::<Node, _>(Flush::new(filter.clone())));
        let jobs: Result<Vec<_>, _> = jobs.collect(); // all at once
        let mut flushed = 0;
        for job in jobs.map_err(|error| failure(ErrorKind::Internal, error))? {
            let parts = job.all().map_err(|error| failure(ErrorKind::Internal, error))?;
            flushed += parts.iter().sum::<usize>() as u64;
        }
        Ok(flushed)
    }

    /// Flows as they are found: worker by worker.
    fn list(
        &self,
        filter: &Filter,
        limit: Option<u64>,
        state: &State,
        out: &mut Client,
    ) -> Answered {
        let filter = self.filter(filter, state)?;
        let mut left = limit.unwrap_or(u64::MAX);
        let workers = state.workers();
        let programs = self.all_programs();
        let mut naming = Naming { all: self.all_protections(), names: HashMap::new() };
        for (number, worker) in up(&workers)?.threads.iter().enumerate() {
            let wrong = |error| failure(ErrorKind::Internal, error);
            let job = List::new(filter.clone()).by(programs.clone());
            let mut answers = worker.start_job::<Node, _>(job).map_err(wrong)?;
            // Places of the table without a flow that is meant make empty parts.
            let mut rows = Vec::new();
            while left > 0 && out.waits() {
                let part = answers.next_part().map_err(wrong)?;
                let is_last = part.is_none();
                rows.extend(part.into_iter().flatten());
                rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                if rows.len() < <List as Job<Node>>::ITEMS && !is_last {
                    continue;
                }
                left -= rows.len() as u64;
                let shown = naming.flows(&std::mem::take(&mut rows), number, state)?;
                out.list(shown, |flows| reply(Reply::Flows(flows)));
                if is_last {
                    break;
                }
            }
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The form for jobs.
    fn filter(&self, filter: &Filter, state: &State) -> Result<listing::Filter, Failure> {
        let prefix = |text: &Option<String>| text.as_deref().map(net).transpose();
        let set = match &filter.protection {
            Some(prefix) => Some(self.protection(prefix, state)?.id),
            None => None,
        };
        Ok(listing::Filter {
            from: prefix(&filter.from)?,
            to: prefix(&filter.to)?,
            state: filter.state.map(show::wanted_state),
            program: filter.program,
            not_of: None,
            set,
            grantor: filter.grantor.map(|ip| (ip, self.all_protections())),
        })
    }

    /// The form that nodes read.
    fn all_protections(&self) -> Protections {
        let thread = self.domain.register("gatekeeper");
        self.forwarding.protections.load(thread.guard()).clone()
    }

    /// The form that nodes read.
    fn all_programs(&self) -> Table {
        let thread = self.domain.register("gatekeeper");
        self.programs.table().load(thread.guard()).clone()
    }

    fn protections(&self, state: &State, out: &mut Client) -> Answered {
        let mut cursor = None;
        let names = state.names();
        while out.waits() {
            let filter = RouteFilter { vrf: Some(VRF), ..RouteFilter::default() };
            let (page, next) =
                state.ask(move |control| control.protections(&filter, cursor, PAGE))?;
            let live = lock(&self.live);
            let shown = page.iter().map(|info| {
                let before = live.before.get(&info.id.index).copied().unwrap_or_default();
                let counted = Counted::of(&self.counters, info.id).since(&before);
                let drops = counted
                    .drops()
                    .map(|(node, why, count)| Count { what: format!("{node}.{why}"), count });
                let drops = drops.collect();
                let [bypassed, bypassed_bytes] = counted.bypassed;
                let [verdicts, shadow_verdicts] = counted.verdicts;
                Protected {
                    protect: show::protect(info),
                    faults: info
                        .grantors
                        .iter()
                        .filter(|(_, of)| of.ways.is_err())
                        .map(|(_, of)| show::grantor(of, &names))
                        .collect(),
                    shown: is_shown(info.action) && !live.is_hidden(info.net),
                    in_table: info.in_table,
                    hides: info.hides.map(|net| net.to_string()),
                    verdicts,
                    shadow_verdicts,
                    shadow_requests: counted.shadow_requests(),
                    decisions: counted.decisions(),
                    drops,
                    bypassed,
                    bypassed_bytes,
                }
            });
            let shown: Vec<_> = shown.collect();
            drop(live);
            out.list(shown, |all| reply(Reply::Protections(all)));
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn show(&self, state: &State) -> Result<Shield, Failure> {
        let (flows, requests) = self.held(state)?;
        let (grantors, (protections, shadows)) = state.ask(|control| {
            let filter = RouteFilter { vrf: Some(VRF), ..RouteFilter::default() };
            let (mut all, mut shadows, mut cursor) = (0, 0, None);
            loop {
                let (page, next) = control.protections(&filter, cursor, PAGE);
                all += page.len() as u64;
                let in_shadow = |info: &&ProtectionInfo| info.options & SHADOW != 0;
                shadows += page.iter().filter(in_shadow).count() as u64;
                cursor = next;
                if cursor.is_none() {
                    return (control.grantors(), (all, shadows));
                }
            }
        })?;
        let (told, names) = (lock(&self.told).clone(), state.names());
        let from = [told.from.v4.map(IpAddr::V4), told.from.v6.map(IpAddr::V6)];
        let [verdicts, shadow_verdicts] = show::verdicts(&self.counters);
        Ok(Shield {
            front: self.fronts.clone(),
            back: self.shield.back.clone(),
            from: from.into_iter().flatten().collect(),
            ports: [told.ports.src, told.ports.dst],
            decisions_from: show::decisions_from(told.decisions_from).into(),
            protections,
            shadows,
            verdicts,
            shadow_verdicts,
            shadow_requests: show::shadow_requests(&self.counters),
            flows,
            requests,
            decisions: show::decisions(&self.counters),
            errors: show::errors(&self.counters),
            drops: drops(state)?,
            grantors: grantors.iter().map(|one| show::grantor(one, &names)).collect(),
            protection_drops: self.most_dropped(state)?,
        })
    }

    /// The largest counts of drops by protections, by reason.
    fn most_dropped(&self, state: &State) -> Result<Vec<Dropped>, Failure> {
        let (mut most, mut cursor): (Vec<Dropped>, _) = (Vec::new(), None);
        loop {
            let filter = RouteFilter { vrf: Some(VRF), ..RouteFilter::default() };
            let (page, next) =
                state.ask(move |control| control.protections(&filter, cursor, PAGE))?;
            let live = lock(&self.live);
            for info in &page {
                let before = live.before.get(&info.id.index).copied().unwrap_or_default();
                let counted = Counted::of(&self.counters, info.id).since(&before);
                let drops = counted.drops().filter(|(.., count)| *count > 0);
                most.extend(drops.map(|(node, why, count)| Dropped {
                    prefix: info.net.to_string(),
                    what: format!("{node}.{why}"),
                    count,
                }));
            }
            drop(live);
            most.sort_by_key(|of| std::cmp::Reverse(of.count));
            most.truncate(MOST_DROPPED);
            cursor = next;
            if cursor.is_none() {
                return Ok(most);
            }
        }
    }

    /// The sum of the workers' tables.
    pub(super) fn held(&self, state: &State) -> Result<(Flows, Requests), Failure> {
        let workers = state.workers();
        let mut all: Vec<Figures> = Vec::new();
        for worker in &up(&workers)?.threads {
            let held = worker.call(listing::figures);
            all.extend(held.map_err(|error| failure(ErrorKind::Internal, error))?);
        }
        let table = &self.shield.table;
        let sum = |of: &dyn Fn(&Figures) -> u64| all.iter().map(of).sum::<u64>();
        let classes = |of: &dyn Fn(&Figures, usize) -> u64| {
            [0, 1, 2].map(|class| sum(&|figures| of(figures, class)))
        };
        let flows = Flows {
            table: table.engine.into(),
            full: table.full.name().into(),
            limit: sum(&|of| of.capacity.max_entries as u64),
            bytes: sum(&|of| of.capacity.bytes as u64),
            held: classes(&|of, class| of.counts.flows[class] as u64),
            replaced: classes(&|of, class| of.counts.replaced[class]),
            expired: classes(&|of, class| of.counts.expired[class]),
            removed: classes(&|of, class| of.counts.removed[class]),
            refused: sum(&|of| of.counts.refused),
            untried: sum(&|of| of.counts.untried),
            decided: [sum(&|of| of.counts.pages as u64), sum(&|of| of.counts.decided_max as u64)],
        };
        let requests = Requests {
            bandwidth: self.shield.bandwidth,
            bytes_per_s: self.shield.requests,
            decisions_per_s: self.shield.here,
            waiting: sum(&|of| of.waiting as u64),
            room: sum(&|of| of.room as u64),
        };
        Ok((flows, requests))
    }
}

/// Changes a protection; as flows name it that are to be forgotten.
fn alter(wanted: tables::Protect, flush: bool, state: &State) -> Result<Option<SetId>, Failure> {
    let done = state.ask(move |control| {
        let done = control.change_protection(VRF, &wanted);
        control.commit();
        done
    })?;
    Ok(match done.map_err(|error| refused(&error))? {
        Changed::Flush { old, .. } => Some(old),
        Changed::Same(id) | Changed::Swapped(id) => Some(id).filter(|_| flush),
    })
}

/// Names of protections, and Grantors of flows.
struct Naming {
    all: Protections,
    /// As far as they were asked for.
    names: HashMap<SetId, Option<String>>,
}

impl Naming {
    fn flows(&mut self, rows: &[Row], worker: usize, state: &State) -> Result<Vec<Flow>, Failure> {
        let unknown = rows.iter().map(|row| row.set).filter(|set| !self.names.contains_key(set));
        let unknown: Vec<SetId> = unknown.collect();
        if !unknown.is_empty() {
            let found = state.ask(move |control| {
                let name = |set: SetId| Some(control.protection_of(set)?.1.to_string());
                unknown.into_iter().map(|set| (set, name(set))).collect::<Vec<_>>()
            })?;
            self.names.extend(found);
        }
        let shown = rows.iter().map(|row| {
            let name = self.names.get(&row.set).cloned().flatten();
            let protection = self.all.get(row.set);
            let grantor = protection.and_then(|of| of.grantor(row.mixed)).map(|of| of.ip);
            show::flow(row, worker, name, grantor)
        });
        Ok(shown.collect())
    }
}

/// Drops of the shield's nodes, by reason.
fn drops(state: &State) -> Result<Vec<Count>, Failure> {
    let counts = state.snapshot()?;
    let ours: Vec<_> = nodes::gatekeeper::NODES.iter().map(|card| card.name).collect();
    let all = parts::drops(&counts).into_iter();
    let is_ours = |name: &str| name.split('.').next().is_some_and(|node| ours.contains(&node));
    let all = all.filter(|drop| is_ours(&drop.reason));
    Ok(all.map(|drop| Count { what: drop.reason, count: drop.packets }).collect())
}

fn reply(of: Reply) -> api::Reply {
    api::Reply::App(AppReply::Gatekeeper(of))
}

/// Drops of protections that are shown with the whole.
const MOST_DROPPED: usize = 64;

fn net(text: &str) -> Result<Net, Failure> {
    show::net(text).map_err(|text| failure(ErrorKind::Invalid, text))
}

fn refused(error: &tables::Error) -> Failure {
    let kind = match error {
        tables::Error::Protection(Unfit::Unknown { .. }) => ErrorKind::NotFound,
        tables::Error::Protection(Unfit::Full { .. }) | tables::Error::Engine(_) => {
            ErrorKind::Refused
        }
        _ => ErrorKind::Invalid,
    };
    failure(kind, error)
}
