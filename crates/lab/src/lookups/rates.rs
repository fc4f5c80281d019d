//! Rates, latencies and probes of one traffic.

use std::time::Duration;

use lookup::Hop;

use super::Measure;
use super::run::{Built, Field};
use crate::Row;
use crate::clock;
use crate::contest::{self, Family, LARGEST_BURST, Stream, Subject};
use crate::crew::{Crew, Pass};
use crate::data::Traffic;
use crate::slices::{Sample, Timing, Variant, Work};

/// The rows of one traffic for all that took the table.
pub(super) fn all<A: Family>(
    field: &Field<'_, A>,
    built: &mut [Built<A>],
    traffic: Traffic,
) -> Vec<Row> {
    let dsts = traffic.draw(&field.routes, field.context.pick(1 << 20, 1 << 18), 1);
    let want: Vec<Hop> = dsts.iter().map(|dst| field.flat.lookup(*dst)).collect();
    let want = contest::checksum(&want);
    let (mut rows, mut right) = (Vec::new(), Vec::new());
    for one in built.iter() {
        let mut row = one.blank.clone();
        row.labels.insert("traffic".into(), traffic.to_string());
        let got = contest::checksum(&one.subject.stream(&dsts).answers());
        if got == want {
            rows.push(row.checked(want));
            right.push(one);
        } else {
            // No figure for wrong answers.
            rows.push(row.noting("answers differ from the flattened intervals"));
        }
    }
    let mut fair: Vec<&mut Row> = rows.iter_mut().filter(|row| row.note.is_none()).collect();
    timed(field, &right, &mut fair, &dsts);
    for measure in &field.part.measures {
        if let Measure::Probes(n) = measure {
            probes(&right, &mut fair, &dsts[..dsts.len().min(*n)]);
        }
    }
    let threaded = threads(field, &right, &fair, traffic);
    rows.extend(threaded);
    rows
}

/// What is timed one thread at a time, all engines in turn.
fn timed<A: Family>(field: &Field<'_, A>, built: &[&Built<A>], rows: &mut [&mut Row], dsts: &[A]) {
    let bursts = [
        (Measure::Rate, 256, "rate_mlps"),
        (Measure::Rate64, 64, "rate_64_mlps"),
        (Measure::RateLong, LARGEST_BURST, "rate_long_mlps"),
    ];
    let bursts: Vec<_> = bursts.into_iter().filter(|(m, ..)| field.has(*m)).collect();
    let latency = field.has(Measure::Latency);
    let mut variants = Vec::new();
    for one in built {
        for (_, burst, _) in &bursts {
            let stream = one.subject.stream(dsts);
            variants.push(Variant::new(
                &one.name,
                Rate { stream, n: dsts.len(), at: 0, burst: *burst },
            ));
        }
        if latency {
            variants.push(Variant::new(
                &one.name,
                Chase { subject: &*one.subject, dsts, at: 0, mask: 1 },
            ));
        }
    }
    let each = bursts.len() + usize::from(latency);
    if each == 0 {
        return;
    }
    let timings = field.context.measure(&mut variants);
    for (row, timings) in rows.iter_mut().zip(timings.chunks(each)) {
        for ((measure, _, figure), timing) in bursts.iter().zip(timings) {
            **row = std::mem::take(*row).with(*figure, timing.rate.scaled(1e-6));
            if *measure == Measure::Rate {
                **row = std::mem::take(*row).with("cycles", timing.cycles);
            }
        }
        if latency {
            **row = std::mem::take(*row).with("latency_ns", timings[each - 1].nanos);
        }
    }
}

/// What lookups add to the counters of each engine that counts.
fn probes<A: Family>(built: &[&Built<A>], rows: &mut [&mut Row], dsts: &[A]) {
    for (one, row) in built.iter().zip(rows) {
        let before = one.subject.counters();
        let answers = one.subject.stream(dsts).answers();
        std::hint::black_box(&answers);
        for ((name, after), (_, before)) in one.subject.counters().iter().zip(&before) {
            if after > before {
                let grown = (after - before) as f64;
                let figure = format!("{name}_per_lookup");
                **row = std::mem::take(*row).with(figure, grown / dsts.len() as f64);
                **row = std::mem::take(*row).with(format!("{name}_total"), grown);
            }
        }
    }
}

/// Rates of several threads, each with destinations of its own.
fn threads<A: Family>(
    field: &Field<'_, A>,
    built: &[&Built<A>],
    rows: &[&mut Row],
    traffic: Traffic,
) -> Vec<Row> {
    let most = field.part.measures.iter().find_map(|measure| match measure {
        Measure::Threads(most) => Some((*most).min(clock::cores().len())),
        _ => None,
    });
    let (mut variants, mut found) = (Vec::new(), Vec::new());
    for (one, row) in built.iter().zip(rows) {
        for threads in 1..=most.unwrap_or(0) {
            let mut row = (**row).clone();
            row.figures.clear();
            row.labels.insert("threads".into(), threads.to_string());
            let passes = (0..threads).map(|i| pass(field, &*one.subject, traffic, i as u64));
            match passes.collect::<Option<Vec<Pass>>>() {
                Some(passes) => variants.push(Variant::new(&one.name, Crew::new(passes))),
                None => row = row.noting("it has one reader only"),
            }
            found.push(row);
        }
    }
    let mut timings = field.context.measure(&mut variants).into_iter();
    let timed = |row: Row, timing: Option<Timing>| match timing {
        Some(timing) => row.with("rate_mlps", timing.rate.scaled(1e-6)),
        None => row,
    };
    let figure = |row: Row| {
        let timing = if row.note.is_none() { timings.next() } else { None };
        timed(row, timing)
    };
    found.into_iter().map(figure).collect()
}

fn pass<A: Family>(
    field: &Field<'_, A>,
    subject: &dyn Subject<A>,
    traffic: Traffic,
    seed: u64,
) -> Option<Pass> {
    let dsts = traffic.draw(&field.routes, field.context.pick(1 << 20, 1 << 16), 1 + seed);
    let mut read = subject.reader(&dsts)?;
    let n = dsts.len() as u64;
    Some(Box::new(move || {
        read();
        n
    }))
}

/// Lookups one by one, each its own call; the next does not wait for the hop.
pub fn scalar<'s, A: Family>(subject: &'s dyn Subject<A>, dsts: &'s [A]) -> impl Work + 's {
    Chase { subject, dsts, at: 0, mask: 0 }
}

/// Lookups of a stream of `n` destinations in bursts, round and round.
pub fn rate<'s>(stream: Box<dyn Stream + 's>, n: usize, burst: usize) -> impl Work + 's {
    Rate { stream, n, at: 0, burst }
}

/// Goes round and round over the destinations.
struct Rate<'s> {
    stream: Box<dyn Stream + 's>,
    n: usize,
    at: usize,
    burst: usize,
}

impl Work for Rate<'_> {
    fn slice(&mut self, target: Duration) -> Sample {
        let (start, mut ops) = (clock::thread_time(), 0);
        let mut time = Duration::ZERO;
        while time < target {
            let n = STEP.min(self.n - self.at);
            self.stream.run(self.at, n, self.burst);
            self.at = (self.at + n) % self.n;
            ops += n as u64;
            time = clock::thread_time() - start;
        }
        Sample { ops, time, ..Sample::default() }
    }
}

/// Looks destinations up one by one. With `mask` 1 each waits for the one before:
/// a hop's top bit is always 0, which the compiler does not know.
struct Chase<'s, A: Family> {
    subject: &'s dyn Subject<A>,
    dsts: &'s [A],
    at: usize,
    mask: u32,
}

impl<A: Family> Work for Chase<'_, A> {
    fn slice(&mut self, target: Duration) -> Sample {
        let (start, mut ops, mut hop) = (clock::thread_time(), 0, Hop::NONE);
        let mut time = Duration::ZERO;
        while time < target {
            let n = CHASED.min(self.dsts.len() - self.at);
            for dst in &self.dsts[self.at..self.at + n] {
                let add = hop.0 >> 31 & self.mask;
                hop = self.subject.lookup(dst.plus(u64::from(add)));
            }
            self.at = (self.at + n) % self.dsts.len();
            ops += n as u64;
            time = clock::thread_time() - start;
        }
        std::hint::black_box(hop);
        Sample { ops, time, ..Sample::default() }
    }
}

/// Lookups between two looks at the clock, which cost a system call.
const STEP: usize = 1 << 14;
const CHASED: usize = 1 << 11;
