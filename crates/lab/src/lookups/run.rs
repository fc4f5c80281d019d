//! Runs one part of a study.

use super::field::{Built, Field};
use super::{Measure, Part, rates, updates};
use crate::clock;
use lookup::lpm::Options;

use crate::contest::Contestant;
use crate::contestants::{self, Family};
use crate::{Context, Error, Row};

/// The rows of one part.
pub(super) fn part(context: &mut Context, part: &Part) -> Result<Vec<Row>, Error> {
    let table = context.load(&part.table)?;
    match part.family {
        "ipv4" => Field::new(context, part, &table.name, &table.ipv4).run(),
        _ => Field::new(context, part, &table.name, &table.ipv6).run(),
    }
}

impl<A: Family> Field<'_, A> {
    fn run(&self) -> Result<Vec<Row>, Error> {
        if self.routes.is_empty() {
            return Ok(Vec::new());
        }
        let (mut built, mut rows) = (Vec::new(), Vec::new());
        for (contestant, blank) in self.contestants() {
            match contestant.and_then(|contestant| self.build(contestant, blank.clone())) {
                // Where more is allowed, an engine that has no more is the same once more.
                Ok((one, _)) if built.iter().any(|had: &Built<A>| had.blank == one.blank) => {}
                Ok((one, row)) => {
                    built.push(one);
                    rows.push(row);
                }
                Err(refusal) => rows.push(blank.noting(refusal)),
            }
        }
        for traffic in &self.part.traffic {
            rows.extend(rates::all(self, &mut built, *traffic));
        }
        if self.has(Measure::UpdatesByLength) {
            built.iter_mut().for_each(|one| rows.extend(updates::by_length(self, one)));
        }
        if self.has(Measure::Updates) {
            for mut one in built {
                let known = rows.iter_mut().find(|row| row.labels == one.blank.labels);
                let row = known.map(std::mem::take).unwrap_or(one.blank.clone());
                rows.push(updates::row(self, &mut one, row)?);
            }
            rows.retain(|row| !row.labels.is_empty());
        }
        // A row without figure or note says nothing.
        rows.retain(|row| !row.figures.is_empty() || row.note.is_some());
        Ok(rows)
    }

    fn contestants(&self) -> Vec<(Result<Contestant<A>, String>, Row)> {
        if !self.context.engines().is_empty() {
            // One of the other family is none of this part's.
            let chosen = self.context.engines().iter().filter_map(|name| {
                let one = contestants::named::<A>(name, Options::default()).ok()?;
                Some((Ok(one.named(name.clone())), self.blank(name)))
            });
            return chosen.collect();
        }
        if self.part.entrants.is_empty() {
            let all = contestants::all::<A>().into_iter();
            return all
                .map(|one| (self.allowed(&one), one))
                .map(|(allowed, one)| {
                    let blank = self.blank(&one.name);
                    (allowed.map(|()| one), blank)
                })
                .collect();
        }
        let entrants = self.part.entrants.iter().map(|entrant| {
            let found = contestants::named::<A>(&entrant.engine, entrant.options.clone());
            let mut row = self.blank(&entrant.name);
            for (name, value) in &entrant.labels {
                row.labels.insert((*name).to_string(), value.clone());
            }
            (found, row)
        });
        entrants.collect()
    }

    fn allowed(&self, contestant: &Contestant<A>) -> Result<(), String> {
        if contestant.slow && (self.context.quick() || self.routes.len() > SLOW_MOST) {
            return Err("left out: it takes minutes to build".into());
        }
        Ok(())
    }

    fn build(&self, contestant: Contestant<A>, blank: Row) -> Result<(Built<A>, Row), String> {
        let start = clock::thread_time();
        let subject = contestant.build(&self.rib)?;
        let time = clock::thread_time() - start;
        let mut blank = blank;
        if let Some(isa) = subject.isa() {
            // An entrant may be labelled already, as `the paper's`, whatever set it chooses.
            blank.labels.entry("isa".into()).or_insert_with(|| isa.into());
        }
        let mut row = blank.clone();
        if self.has(Measure::Build) {
            row = row.with("build_s", time.as_secs_f64());
            let each = |bytes: usize| bytes as f64 / self.routes.len() as f64;
            if let Some(bytes) = subject.bytes() {
                row = row.with("bytes", bytes as f64).with("bytes_per_prefix", each(bytes));
            }
            if contestant.ours {
                let beside = subject.writer_bytes() + self.rib.bytes();
                row = row.with("writer_bytes_per_prefix", each(beside));
            }
        }
        if self.has(Measure::Counts) {
            for (name, value) in subject.counters() {
                row = row.with(name, value as f64);
            }
        }
        let name = blank.label("engine").to_string();
        Ok((Built { name, contestant, subject, blank }, row))
    }
}

/// The largest table for contestants that are slow to build.
const SLOW_MOST: usize = 200_000;
