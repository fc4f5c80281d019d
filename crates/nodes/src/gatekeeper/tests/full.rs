//! A table that decisions fill ten times over.

use graph::clock;
use lookup::exact::flow::{Class, FlowKey, Wanted, engine};
use lookup::lpm::Options;
use tables::SetId;
use wire::ggu::Verdict as Decision;

use super::super::flows::{Flows, Heard};
use super::super::machine::{Machine, Verdict};
use super::super::programs::Programs;
use super::super::rule::Arrival;
use super::super::settings::Counters;
use super::super::times::Times;

const ENTRIES: usize = 1 << 18;
const LIVE: u32 = 100_000;
const SET: SetId = SetId { index: 3, generation: 1 };

struct Table {
    flows: Flows,
    now: u64,
    times: Times,
    counters: std::sync::Arc<Counters>,
}

impl Table {
    fn new() -> Table {
        let times = Times::new(clock::rate());
        let wanted = Wanted { entries: ENTRIES, second: times.second() };
        let table = (engine("flow-table").unwrap().build)(wanted, &Options::default()).unwrap();
        let flows = Flows::new(table, false);
        Table { flows, now: 1 << 50, times, counters: Counters::new(1) }
    }

    /// Verdicts on a packet of each; `None` where it has no place.
    fn packets(&mut self, keys: &[FlowKey]) -> Vec<Option<Verdict>> {
        let arrival = Arrival { now: self.now, len: 100, link: &[], packet: &[] };
        let met = self.flows.meet((&Programs::default(), self.now), keys, |entries| {
            let all = (0..keys.len()).map(|k| entries.packet(k, SET, &arrival));
            all.map(|step| step.map(|step| step.verdict)).collect()
        });
        let due = self.flows.sweep(self.now);
        assert!(due.ticks() > 0);
        met
    }

    fn decide(&mut self, keys: &[FlowKey], decision: Decision) {
        let programs = Programs::default();
        let machine = Machine { times: &self.times, programs: &programs };
        let decided = machine.decision(&decision, self.now).unwrap();
        let heard: Vec<_> = keys.iter().map(|key| Heard { key: *key, set: SET, decided }).collect();
        self.flows.decide((&programs, self.now), heard.iter(), keys, &self.counters);
    }

    fn pass(&mut self, millis: u32) {
        self.now += self.times.millis(millis);
    }
}

/// A second's budget is never used up here.
const GRANT: Decision = Decision::Granted {
    expire_s: 600,
    rate_kib: 1_024,
    next_renewal_ms: 3_600_000,
    renewal_step_ms: 1_000,
};

fn live(range: std::ops::Range<u32>) -> Vec<FlowKey> {
    range.map(|i| FlowKey::v4(0x0a00_0000 + i, 1)).collect()
}

fn all_live(table: &mut Table) -> bool {
    let all: Vec<_> = live(0..LIVE).chunks(64).flat_map(|keys| table.packets(keys)).collect();
    all.iter().all(|verdict| *verdict == Some(Verdict::Granted(1)))
}

/// Ten tables of distinct sources ask, and each is decided for 600 s, granted or declined; the
/// grants that carry packets stay, and who comes then is granted at the first answer.
#[test]
fn a_new_client_is_granted_while_decided_flows_fill_the_table() {
    let mut table = Table::new();
    for keys in live(0..LIVE).chunks(64) {
        table.packets(keys);
        table.decide(keys, GRANT);
    }
    assert!(all_live(&mut table));
    let mut sources = 0x4000_0000_u32;
    let mut without = 0;
    let mut flood = |table: &mut Table, n: usize| {
        for batch in 0..n.div_ceil(64) {
            let keys: Vec<_> = (0..64).map(|i| FlowKey::v4(sources + i, 2)).collect();
            sources += 64;
            without += table.packets(&keys).iter().filter(|verdict| verdict.is_none()).count();
            let declined = Decision::Declined { expire_s: 600 };
            table.decide(&keys, if batch % 2 == 0 { GRANT } else { declined });
        }
    };
    for _ in 0..10 {
        // A table in two seconds; the live ones send in each.
        for _ in 0..2 {
            flood(&mut table, ENTRIES / 2);
            table.pass(1_000);
            assert!(all_live(&mut table));
        }
    }
    let counts = table.flows.table().counts();
    assert!(counts.pages <= counts.decided_max && counts.decided_max <= ENTRIES * 3 / 4);
    assert!(counts.pages > ENTRIES * 7 / 10, "{counts:?}");
    assert!(counts.replaced[Class::Spare.index()] > 9 * ENTRIES as u64 / 2, "{counts:?}");
    assert_eq!(counts.replaced[Class::Kept.index()], 0, "no live grant goes");
    // A client's SYN and those that follow it, a flood between each and the answer.
    let client = [FlowKey::v4(0xc633_6407, 3)];
    let begun = table.now;
    let mut granted = None;
    for wait in [0, 1_000, 2_000] {
        table.pass(wait);
        let verdict = table.packets(&client)[0];
        assert!(matches!(verdict, Some(Verdict::Request(41..))), "{verdict:?}");
        table.pass(200);
        flood(&mut table, 1_000);
        table.decide(&client, GRANT);
        if table.packets(&client) == [Some(Verdict::Granted(1))] {
            granted = Some(table.now - begun);
            break;
        }
    }
    assert!(granted.is_some_and(|ticks| ticks <= table.times.millis(3_500)), "{granted:?}");
    assert!(all_live(&mut table));
    assert!(without < ENTRIES / 100, "{without} without a place: live grants filled theirs");
}
