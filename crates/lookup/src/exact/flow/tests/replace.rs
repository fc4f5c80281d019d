//! Full tables that replace flows: which go, and which never.

use super::*;

/// With one line every flow may make room for every key: the rule is exact.
struct Exact(Twin);

impl Exact {
    fn new(options: &[(&str, &str)]) -> Exact {
        Exact(Twin::new(built(ours(), 8, options)))
    }

    /// A new flow; whose room it got.
    fn comes(&mut self, now: u64, number: u64) -> Option<FlowKey> {
        let id = self.0.claim(now, now + 4 * SECOND, &[key(number)])[0];
        assert!(id.is_new() || self.0.went.is_empty());
        self.0.went.first().map(|(key, ..)| *key)
    }

    fn fill(&mut self) {
        (0..8).for_each(|number| assert_eq!(self.comes(0, number), None));
    }

    fn decide(&mut self, number: u64, expires: u64, keep: bool) {
        assert!(self.0.decide(&key(number)), "{number}");
        self.0.change(&key(number), expires, keep, 1);
    }
}

#[test]
fn the_request_that_expires_first_makes_room() {
    let mut table = Exact::new(&[]);
    let mut rng = Rng::new(3);
    table.fill();
    for round in 8..if cfg!(miri) { 40 } else { 3000 } {
        let now = round * SECOND / 20;
        // Expiries go forth and back, as priorities do; those within a unit are alike.
        for want in table.0.map.clone() {
            if rng.below(3) == 0 {
                table.0.change(&want.0, now + rng.next() % (30 * SECOND), false, 0);
            }
        }
        let first = table.0.map.values().map(|want| want.expires).min().expect("8");
        let went = table.comes(now, round).expect("it is full");
        let went = table.0.went.iter().find(|gone| gone.0 == went).expect("it is said").1;
        assert!(went.expires <= first + SECOND / 125, "{went:?} but {first}");
    }
    assert_eq!(table.0.table.counts().refused, 0);
    table.0.agrees(&[]);
}

#[test]
fn decided_flows_stay_while_they_are_few_and_make_room_when_they_are_many() {
    let mut table = Exact::new(&[("decided_max", "50")]);
    table.fill();
    // Three of four that may be.
    table.decide(0, 600 * SECOND, false);
    table.decide(1, 300 * SECOND, false);
    table.decide(2, 10 * SECOND, true);
    for number in 8..30 {
        let went = table.comes(SECOND, number).expect("it is full");
        assert_eq!(table.0.went[0].1.class, Class::Request, "{went:?}");
    }
    // The fourth: spare ones go, the earliest first, and the kept one stays.
    let four = *table.0.map.iter().find(|(_, want)| want.class == Class::Request).expect("5").0;
    assert!(table.0.decide(&four));
    table.0.change(&four, 400 * SECOND, false, 1);
    assert_eq!(table.comes(2 * SECOND, 30), Some(key(1)));
    // There are three again: requests go.
    let went = table.comes(2 * SECOND, 31).expect("it is full");
    assert!(![key(0), key(2), four].contains(&went));
    let counts = table.0.table.counts();
    assert_eq!((counts.flows, counts.replaced[1..].to_vec()), ([5, 2, 1], vec![1, 0]));
}

#[test]
fn a_page_is_taken_from_a_flow_that_may_go() {
    let mut table = Exact::new(&[("decided_max", "25")]);
    table.fill();
    table.decide(0, 600 * SECOND, false);
    table.decide(1, 500 * SECOND, true);
    table.decide(2, 600 * SECOND, true);
    assert_eq!((table.0.went.len(), table.0.went[0].0), (1, key(0)));
    // Both were used in the last ten seconds: there is no page, and the request stays one.
    assert!(!table.0.decide(&key(3)));
    assert_eq!(table.0.table.counts().no_page, 1);
    table.0.agrees(&keys(0..8));
    // One of them is used at nine seconds, the other is idle for ten and more.
    table.0.claim(9 * SECOND, 0, &[key(2)]);
    table.0.claim(11 * SECOND, 0, &[key(4)]);
    table.decide(3, 20 * SECOND, false);
    assert_eq!(table.0.went[0].0, key(1));
    table.0.agrees(&keys(0..8));
}

#[test]
fn a_grant_that_was_used_in_the_last_ten_seconds_never_goes() {
    let mut table = Exact::new(&[("decided_max", "100")]);
    table.fill();
    (0..8).for_each(|number| table.decide(number, 600 * SECOND, true));
    for now in [0, SECOND, 9 * SECOND, 10 * SECOND] {
        assert_eq!(table.comes(now, 100), None);
        assert!(table.0.table.find(&key(100)).is_none());
    }
    assert_eq!(table.0.table.counts().refused, 4);
    // A second later, give or take a unit, they are idle; but not one that was found.
    table.0.claim(10 * SECOND, 0, &[key(6)]);
    for number in 100..107 {
        let went = table.comes(11 * SECOND, number).expect("those are idle, or requests");
        assert_ne!(went, key(6));
    }
    table.0.agrees(&[]);
}

/// Patient sources have the best priorities, and expire further ahead than 14 bits say.
#[test]
fn what_expires_far_ahead_stays_until_then() {
    let mut table = Exact::new(&[]);
    table.fill();
    table.0.change(&key(3), 500 * SECOND, false, 0);
    for number in 8..5000 / if cfg!(miri) { 50 } else { 1 } {
        let now = number * SECOND / 10;
        if now + 4 * SECOND > 500 * SECOND {
            break;
        }
        assert_ne!(table.comes(now, number), Some(key(3)), "at {now}");
    }
}

#[test]
fn what_a_batch_holds_does_not_go_in_it() {
    for way in ["groups", "turns", "singly"] {
        let mut twin = Twin::new(built(ours(), 8, &[("batch", way)]));
        twin.claim(0, 9, &keys(0..8));
        // Two are found, six come; then there is no room, for all are of this batch.
        let mut batch = keys(6..14);
        batch.extend(keys(20..25));
        batch.extend(keys(6..14));
        let ids = twin.claim(SECOND, 2 * SECOND, &batch);
        assert!(ids[..8].iter().chain(&ids[13..]).all(|id| !id.is_none()), "{way}");
        assert!(ids[8..13].iter().all(|id| id.is_none()), "{way}");
        // In the next they may go.
        assert!(twin.claim(SECOND, 2 * SECOND, &keys(30..38)).iter().all(|id| id.is_new()));
    }
}

/// Also what it found before the first flow went, a group or more ago.
#[test]
fn what_a_batch_found_before_flows_went_stays_in_it() {
    for way in ["groups", "turns", "singly"] {
        let mut table = built(ours(), 256, &[("batch", way)]);
        let mut claim = |now: u64, keys: &[FlowKey]| {
            let mut ids = vec![FlowId::NONE; keys.len()];
            table.find_or_insert_batch(now, now + 9 * SECOND, keys, &mut ids, &mut |_, _, _| ());
            ids
        };
        let first = claim(0, &keys(0..300));
        let there = keys(0..300).into_iter().zip(first).filter(|(_, id)| !id.is_none());
        let there: Vec<FlowKey> = there.map(|(key, _)| key).take(100).collect();
        claim(SECOND, &there);
        let batch = [&there[..], &keys(1_000..1_100), &there[..]].concat();
        let ids = claim(2 * SECOND, &batch);
        assert!(ids[100..200].iter().any(|id| id.is_new()), "{way}");
        let of = |id: &FlowId| (id.is_none(), table.flow(*id).0.key());
        for (at, key) in there.iter().enumerate() {
            assert_eq!([of(&ids[at]), of(&ids[200 + at])], [(false, *key); 2], "{way} {at}");
        }
    }
}

/// How near the choice among 16 is to the earliest of all: of flows that live as long as each
/// other, few go before four fifths of the table went.
#[test]
fn most_flows_stay_while_four_fifths_of_the_table_are_replaced() {
    let (size, count) = if cfg!(miri) { (160, 200) } else { (1 << 14, 200_000) };
    let mut table = built(ours(), size, &[]);
    let (mut early, mut went) = (0_u64, 0_u64);
    let fifths = size as u64 * 4 / 5;
    for (number, batch) in (0..).zip(keys(0..count).chunks(50)) {
        let (now, mut ids) = (SECOND + number * SECOND / 20, vec![FlowId::NONE; batch.len()]);
        table.find_or_insert_batch(now, now + 4 * SECOND, batch, &mut ids, &mut |flow, _, _| {
            went += 1;
            let came = (flow.expires() - 5 * SECOND) / (SECOND / 20) * 50;
            early += u64::from(number * 50 - came < fifths);
        });
        assert!(ids.iter().all(|id| id.is_new()));
    }
    let capacity = table.capacity();
    assert_eq!(capacity.entries as u64 + went, count);
    assert!(cfg!(miri) || capacity.entries == size, "{capacity:?}");
    assert!(cfg!(miri) || early * 100 < went * 8, "{early} of {went}");
}

/// The test: ten tables of distinct sources, each decided for 600 s; then a new client
/// is granted within 3.5 s, and 100,000 live grants are all there.
#[test]
#[cfg_attr(miri, ignore = "2,000,000 flows")]
fn ten_tables_of_decided_sources_move_no_live_grant_and_let_a_client_in() {
    let (size, live) = (200_000, 100_000);
    let mut twin = Twin::new(built(ours(), size, &[]));
    let grant = |twin: &mut Twin, keys: &[FlowKey], now: u64, used: bool| {
        let ids = twin.claim(now, now + 4 * SECOND, keys);
        let mut granted = 0;
        for (key, _) in keys.iter().zip(ids).filter(|(_, id)| !id.is_none()) {
            granted += usize::from(twin.decide(key));
            if twin.map.contains_key(key) {
                twin.change(key, now + 600 * SECOND, used, 1);
            }
        }
        granted
    };
    let clients = keys(0..live);
    for keys in clients.chunks(100) {
        assert_eq!(grant(&mut twin, keys, 0, true), keys.len());
    }
    // 33 sources each ms: a minute; each client sends every 8 s.
    let (sources, mut sending) =
        (keys(1 << 20..(1 << 20) + 10 * size as u64), clients.chunks(13).cycle());
    let mut now = 0;
    for keys in sources.chunks(33) {
        now += SECOND / 1000;
        grant(&mut twin, keys, now, false);
        let batch = sending.next().expect("it goes round");
        assert!(twin.claim(now, 0, batch).iter().all(|id| !id.is_none() && !id.is_new()));
        twin.call(|table, gone| table.sweep(now, 20, gone));
    }
    let there = clients.iter().filter(|key| twin.map.contains_key(key)).count();
    assert_eq!(there as u64, live);
    let counts = twin.table.counts();
    assert_eq!(counts.flows[Class::Kept.index()] as u64, live);
    assert_eq!(counts.replaced[Class::Kept.index()], 0);
    assert!(counts.replaced[Class::Spare.index()] > size as u64, "{counts:?}");
    // A new client: at once, and again after 1 and 3 s, while the flood goes on.
    let (client, from) = (key(1 << 40), now);
    assert!(!twin.claim(now, now + 4 * SECOND, &[client])[0].is_none());
    for keys in keys(1 << 30..(1 << 30) + 99_000).chunks(33) {
        now += SECOND / 1000;
        grant(&mut twin, keys, now, false);
    }
    assert_eq!(now - from, 3 * SECOND);
    let id = twin.claim(now, now + 4 * SECOND, &[client])[0];
    assert!(!id.is_none() && twin.decide(&client));
    twin.agrees(&[]);
}

/// A table full of grants that nobody uses any more: for five hours a new one has a place at any
/// time. (A last use wraps round in its word: 17 minutes later it looked like one to come.)
#[test]
#[cfg_attr(miri, ignore = "a sweep of the table each minute")]
fn grants_without_packets_make_room_for_hours() {
    let size = 4_000;
    let mut twin = Twin::new(built(ours(), size, &[]));
    let grant = |twin: &mut Twin, key: &FlowKey, now: u64| {
        let id = twin.claim(now, now + 4 * SECOND, &[*key])[0];
        let granted = !id.is_none() && twin.decide(key);
        if granted {
            twin.change(key, now + 6 * 3600 * SECOND, true, 1);
        }
        granted
    };
    let begun = 1000 * SECOND;
    let first = keys(0..2 * size as u64).into_iter().filter(|key| grant(&mut twin, key, begun));
    assert!(first.count() > size / 2);
    for minute in 1..300_u64 {
        let now = begun + minute * 60 * SECOND;
        twin.call(|table, gone| table.sweep(now, size, gone));
        assert!(grant(&mut twin, &key(1 << 20 | minute), now), "after {minute} minutes");
    }
    assert!(twin.table.counts().replaced[Class::Kept.index()] > 250, "{:?}", twin.table.counts());
}

/// Where a table fills up, a request that expires soon goes before room is searched for; one that
/// does not expire soon stays, and so does what is decided.
#[test]
fn from_seven_eighths_on_requests_go_that_expire_soon() {
    let size = if cfg!(miri) { 160 } else { 1 << 14 };
    let mut twin = Twin::new(built(ours(), size, &[]));
    for keys in keys(0..size as u64 * 7 / 10).chunks(64) {
        twin.claim(0, 4 * SECOND, keys);
        for key in keys {
            assert!(twin.decide(key));
            twin.change(key, 600 * SECOND, false, 1);
        }
    }
    let share = |twin: &Twin, of: usize| twin.table.capacity().entries * 16 < size * of;
    let (mut number, mut now) = (1 << 20, SECOND);
    while share(&twin, 15) {
        let below = share(&twin, 14);
        let ids = twin.claim(now, now + 4 * SECOND, &keys(number..number + 8));
        assert!(ids.iter().all(|id| id.is_new()));
        assert!(twin.went.iter().all(|(_, went, ..)| went.expires <= now + 2 * SECOND));
        (number, now) = (number + 8, now + 4 * SECOND * 8 / (size as u64 / 5));
        let [requests, spare, kept] = twin.table.counts().replaced;
        assert_eq!([spare, kept], [0, 0]);
        assert!(!below || requests == 0, "{requests}");
    }
    assert!(cfg!(miri) || twin.table.counts().replaced[0] > size as u64 / 100);
    twin.agrees(&[]);
}

/// Also where room is not searched for any more.
#[test]
fn a_free_place_is_taken_before_a_flow_goes() {
    let size = if cfg!(miri) { 40 } else { 800 };
    let mut twin = Twin::new(built(ours(), size, &[]));
    for group in keys(0..3 * size as u64).chunks(60) {
        twin.claim(0, 4 * SECOND, group);
    }
    assert_eq!(twin.table.capacity().entries, size);
    for key in twin.map.keys().copied().collect::<Vec<_>>() {
        twin.call(|table, gone| assert!(table.delete(&key, gone)));
        assert!(twin.claim(0, 4 * SECOND, &[key])[0].is_new() && twin.went.is_empty());
    }
    // In a batch one may take the place that another had.
    let gone: Vec<_> = twin.map.keys().copied().take(size / 20).collect();
    for key in &gone {
        twin.call(|table, gone| assert!(table.delete(key, gone)));
    }
    let ids = twin.claim(0, 4 * SECOND, &gone);
    assert!(ids.iter().all(|id| id.is_new()));
    twin.agrees(&[]);
}

/// Lines have eight places each: of 100 flows four are left over, which stay free.
#[test]
fn a_table_holds_no_more_than_it_was_asked_for() {
    for size in [100, 101, 103, 9] {
        let mut twin = Twin::new(built(ours(), size, &[]));
        for group in keys(0..4 * size as u64).chunks(64) {
            twin.claim(0, 4 * SECOND, group);
            assert!(twin.map.len() <= size);
        }
        assert_eq!(twin.map.len(), size);
        twin.agrees(&[]);
    }
}
