//! New flows into a full table, and beside them its cache lines read alone.

use lookup::exact::flow::{FlowId, FlowTable, Wanted};
use lookup::hint::prefetch;
use lookup::lpm::Options;
use lookup::pages::{Kind, Pages};

use super::{Contestant, OURS, contestants, key};
use crate::lookups::Claim;
use crate::matching::fixed_seed;
use crate::record::Bound;
use crate::slices::{Variant, repeat};
use crate::{Context, Error, Row, Verdict, clock};

/// A table of 2^`bits` places a cell.
pub(super) fn rows(context: &mut Context) -> Result<Vec<Row>, Error> {
    let sizes = context.pick(vec![20, 25], vec![16]).into_iter().map(|bits| format!("2^{bits}"));
    context.cells(sizes, |context, name| {
        clock::cores().last().map(|&core| clock::pin(core));
        let bits: u32 = name.trim_start_matches("2^").parse().expect("it was made of a number");
        // One after the other: two do not always fit.
        Ok(contestants().flat_map(|one| measure(context, one, name, 1 << bits)).collect())
    })
}

pub(super) const CLAIMS: &[Claim] = &[Claim::Judge(goals)];

/// The goals; none is met by a table that takes less than its lines do.
fn goals(rows: &[Row]) -> Vec<Verdict> {
    // Of two rows of a table the first is by its best instructions, here and there the same.
    let ns = |engine: &str, places: &str| {
        let of = [("engine", engine), ("places", places)];
        rows.iter().filter(|row| row.is(&of)).find_map(|row| row.median("requests_ns"))
    };
    let [ours, lines] = [OURS, LINES].map(|engine| ns(engine, "2^20"));
    let over = |other: &str, places: &str| -> Vec<f64> {
        ns(other, places)
            .zip(ns(OURS, places))
            .map(|(other, ours)| other / ours)
            .into_iter()
            .collect()
    };
    let verdict = |text: &str, found: &[f64], (least, most), unit: &str| {
        Bound::within(least, most).ours().judge(text, found, unit)
    };
    vec![
        verdict(
            "ours takes a new flow into a full table of 2^20 places in 51 ns at most, and not in \
             less than its lines alone",
            &ours.into_iter().collect::<Vec<_>>(),
            (lines.unwrap_or(f64::NAN), 51.0),
            "ns",
        ),
        verdict(
            "at 2^25 places it takes 0.6 to 1 × as many as its lines are read alone",
            &over(LINES, "2^25"),
            (0.6, 1.1),
            "×",
        ),
        verdict(
            "at 2^20 places 10 to 100 × as many as cuckoo hashing refuses",
            &over("cuckoo-flow", "2^20"),
            (10.0, 100.0),
            "×",
        ),
    ]
}

fn measure(context: &Context, one: Contestant, size: &str, places: usize) -> Vec<Row> {
    let row = |engine: &str| one.row().labelled("engine", engine).labelled("places", size);
    // Where all is full but one, these search all of it for a flow that is not there.
    let is_open = ["linear", "quadratic", "double-hash"].contains(&one.name());
    let entries = if is_open { places / 20 * 19 } else { places - 1 };
    let second = 1_000_000_000;
    let table = match one.build(Wanted { entries, second }, options(one)) {
        Ok(table) => table,
        Err(refusal) => return vec![row(one.name()).noting(refusal.to_string())],
    };
    let mut flood = Flood { table, fresh: 0, now: second };
    flood.fill(entries);
    let (lines, mut from) = ((one.name() == OURS).then(|| Lines::new(places, places, false)), 0);
    let mut variants = vec![Variant::new("", repeat(SLICE, || flood.bring(SLICE)))];
    match &lines {
        None => {}
        Some(Ok(lines)) => {
            variants.push(Variant::new("", repeat(SLICE, || lines.read(&mut from, SLICE))));
        }
        Some(Err(_)) => return vec![row(one.name()).noting("no memory for its lines alone")],
    }
    let timings = context.measure(&mut variants);
    drop(variants);
    let capacity = flood.table.capacity();
    let filled = capacity.entries as f64 / capacity.slots as f64 * 100.0;
    let figures = [one.name(), LINES].into_iter().zip(timings).map(|(name, timing)| {
        let row = row(name).with("requests_ns", timing.nanos);
        row.with("requests_mps", timing.rate.scaled(1e-6)).with("filled_percent", filled)
    });
    figures.collect()
}

/// Ours has no use for pages here.
pub(super) fn options(one: Contestant) -> Options {
    let mut options = fixed_seed();
    if one.name() == OURS {
        options.0.insert("decided_max".into(), "0".into());
    }
    options
}

/// Packets of which each is a new flow.
struct Flood {
    table: Box<dyn FlowTable>,
    fresh: u32,
    now: u64,
}

impl Flood {
    /// `flows` new flows, a batch at a time. They live for 4.4 s, as requests do.
    fn bring(&mut self, flows: u64) -> u64 {
        let (mut keys, mut ids) = ([key(0); BATCH], [FlowId::NONE; BATCH]);
        for _ in 0..flows / BATCH as u64 {
            for key_of in &mut keys {
                *key_of = key(self.fresh);
                self.fresh = self.fresh.wrapping_add(1);
            }
            self.now += 50 * BATCH as u64;
            let expires = self.now + 4_400_000_000;
            self.table.find_or_insert_batch(self.now, expires, &keys, &mut ids, &mut |_, _, _| ());
            std::hint::black_box(&mut ids);
        }
        0
    }

    /// Fills the table as far as it goes.
    fn fill(&mut self, entries: usize) {
        for _ in 0..entries / BATCH * 5 / 4 {
            self.bring(BATCH as u64);
            let capacity = self.table.capacity();
            if capacity.refused > 100 || capacity.replaced as usize > entries / 4 {
                break;
            }
        }
    }
}

/// What a packet reads of ours: two lines of tags, the entry, and where it is granted a page.
pub(super) struct Lines {
    tags: Pages<[u64; 8]>,
    flows: Pages<[u64; 8]>,
    pages: Option<Pages<[u64; 8]>>,
}

impl Lines {
    /// Of a table of so many places, of which packets find so many; with `granted`, the pages of
    /// as many. All are powers of two.
    pub(super) fn new(places: usize, found: usize, granted: bool) -> std::io::Result<Lines> {
        let lines = |lines| {
            let mut pages = Pages::<[u64; 8]>::admitted(Kind::default(), lines)?;
            pages.touch_now();
            Ok::<_, std::io::Error>(pages)
        };
        let pages = granted.then(|| lines(found)).transpose()?;
        Ok(Lines { tags: lines(places / 8)?, flows: lines(found)?, pages })
    }

    /// The lines of `count` flows, each asked for before a group of them is read.
    pub(super) fn read(&self, from: &mut u64, count: u64) -> u64 {
        let mut sum = 0;
        self.groups(from, count, |at| {
            let page = at.page.zip(self.pages.as_ref()).map_or(0, |(at, pages)| pages[at][0]);
            sum += at.tags.map(|at| self.tags[at][0]).iter().sum::<u64>();
            sum += self.flows[at.flow][0] + page;
        });
        std::hint::black_box(sum)
    }

    /// The same, and as much of it written as a flow that is new writes: a line of tags and the
    /// entry.
    pub(super) fn write(&mut self, from: &mut u64, count: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..count / BATCH as u64 {
            let mut group = [Places::default(); BATCH];
            let mut n = 0;
            self.groups(from, BATCH as u64, |at| (group[n], n) = (at, n + 1));
            for Places { tags: [one, two], flow, .. } in group {
                sum += self.tags[two][0];
                self.tags.as_mut_slice()[one][0] += 1;
                self.flows.as_mut_slice()[flow][0] += 1;
            }
        }
        std::hint::black_box(sum)
    }

    /// The places of `count` flows, a group after the other: those of a group are asked for first.
    fn groups(&self, from: &mut u64, count: u64, mut each: impl FnMut(Places)) {
        for _ in 0..count / BATCH as u64 {
            let mut group = [Places::default(); BATCH];
            for at in &mut group {
                *from += 1;
                *at = self.places(lookup::hash::murmur3_64(*from, 1));
                at.tags.iter().for_each(|&at| prefetch(&self.tags[at]));
                prefetch(&self.flows[at.flow]);
                if let Some((at, pages)) = at.page.zip(self.pages.as_ref()) {
                    prefetch(&pages[at]);
                }
            }
            group.into_iter().for_each(&mut each);
        }
    }

    #[inline(always)]
    fn places(&self, hash: u64) -> Places {
        let below =
            |hash: u64, lines: &Pages<[u64; 8]>| hash as usize % lines.len().next_power_of_two();
        Places {
            tags: [hash, hash >> 22].map(|hash| below(hash, &self.tags)),
            flow: below(hash >> 39, &self.flows),
            page: self.pages.as_ref().map(|pages| below(hash >> 33, pages)),
        }
    }
}

/// Where the lines of a flow are.
#[derive(Clone, Copy, Default)]
struct Places {
    tags: [usize; 2],
    flow: usize,
    page: Option<usize>,
}

const LINES: &str = "its lines alone";
const BATCH: usize = 64;
/// Flows between two looks at the clock: where the search for room fails, each takes 32 µs.
const SLICE: u64 = 1 << 10;
