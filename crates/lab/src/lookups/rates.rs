//! Rates, latencies and probes of one traffic.

use std::thread;

use lookup::Hop;

use super::Measure;
use super::field::{Built, Field};
use crate::Row;
use crate::clock;
use crate::contest::{self, LARGEST_BURST, READER_BURST, Stream, Subject};
use crate::contestants::Family;
use crate::crew::{Crew, Maker};
use crate::data::Traffic;
use crate::slices::{Timing, Variant, Work, rounds};

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
    let (single, latency) = (field.has(Measure::Scalar), field.has(Measure::Latency));
    let mut variants = Vec::new();
    for one in built {
        for (_, burst, _) in &bursts {
            let stream = one.subject.stream(dsts);
            variants.push(Variant::new(&one.name, rate(stream, dsts.len(), *burst)));
        }
        if single {
            variants.push(Variant::new(&one.name, scalar(&*one.subject, dsts)));
        }
        if latency {
            variants.push(Variant::new(&one.name, chase(&*one.subject, dsts, 1)));
        }
    }
    let each = bursts.len() + usize::from(single) + usize::from(latency);
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
        if single {
            let rate = timings[bursts.len()].rate.scaled(1e-6);
            **row = std::mem::take(*row).with("scalar_mlps", rate);
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
        Measure::Threads(most) => Some((*most, false)),
        Measure::ThreadsSingly(most) => Some((*most, true)),
        _ => None,
    });
    let (most, singly) = most.unwrap_or_default();
    let most = most.min(clock::cores().len());
    let mut found = Vec::new();
    let timings = thread::scope(|scope| {
        let mut variants = Vec::new();
        for (one, row) in built.iter().zip(rows) {
            for threads in 1..=most {
                let mut row = (**row).clone();
                row.figures.clear();
                row.labels.insert("threads".into(), threads.to_string());
                let makers =
                    (0..threads).map(|i| maker(field, &*one.subject, singly, traffic, i as u64));
                match makers.collect::<Option<Vec<_>>>() {
                    Some(makers) => {
                        variants.push(Variant::new(&one.name, Crew::new(scope, makers)));
                    }
                    None if singly => row = row.noting("it has no lookups one by one on threads"),
                    None => row = row.noting("it has one reader only"),
                }
                found.push(row);
            }
        }
        field.context.measure(&mut variants)
    });
    let mut timings = timings.into_iter();
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

fn maker<'s, A: Family>(
    field: &Field<'_, A>,
    subject: &dyn Subject<A>,
    singly: bool,
    traffic: Traffic,
    seed: u64,
) -> Option<Maker<'s>> {
    let dsts = traffic.draw(&field.routes, field.context.pick(1 << 20, 1 << 16), 1 + seed);
    let some = if singly { subject.singles(&dsts) } else { subject.bursts(&dsts) };
    let (n, mut burst) = (dsts.len(), some?);
    let read = move |_, n: usize| (0..n.div_ceil(READER_BURST)).for_each(|_| burst());
    Some(Box::new(move || Box::new(rounds(n, STEP, read))))
}

/// Lookups one by one, each its own call; the next does not wait for the hop.
pub fn scalar<'s, A: Family>(subject: &'s dyn Subject<A>, dsts: &'s [A]) -> impl Work + 's {
    chase(subject, dsts, 0)
}

/// Lookups of a stream of `n` destinations in bursts, round and round.
pub fn rate<'s>(mut stream: Box<dyn Stream + 's>, n: usize, burst: usize) -> impl Work + 's {
    rounds(n, STEP, move |from, n| stream.run(from, n, burst))
}

/// Looks destinations up one by one. With `mask` 1 each waits for the one before:
/// a hop's top bit is always 0, which the compiler does not know.
fn chase<'s, A: Family>(subject: &'s dyn Subject<A>, dsts: &'s [A], mask: u32) -> impl Work + 's {
    let mut hop = Hop::NONE;
    rounds(dsts.len(), CHASED, move |from, n| {
        for dst in &dsts[from..from + n] {
            let add = hop.0 >> 31 & mask;
            hop = subject.lookup(dst.plus(u64::from(add)));
        }
        std::hint::black_box(hop);
    })
}

/// Lookups between two looks at the clock: whole bursts of a reader.
const STEP: usize = 64 * READER_BURST;
const CHASED: usize = 1 << 11;
