//! When a flow goes, in 16 bits beside its tag: coarse, and only to choose who makes room.
//!
//! ```text
//!    class (2) │ time (14)         0: no flow
//!    request     its expiry,  in units of 4 to 8 ms: 33 s ahead and behind, or more
//!    spare       its expiry,  in units 32 times as long: 17 minutes
//!    kept        its last use, in these
//! ```
//!
//! Times wrap round. One that is further ahead is written as far ahead as can be: when that
//! has come, whoever reads the flow finds out ([`Clock::is_early`]) and writes it anew. A flow
//! that is behind by more was swept long ago, or looks as if it had time: it goes later.
//! A kept flow's last use is behind for as long as the flow lives: a sweep holds it at a
//! quarter of the whole circle ([`Clock::aged`]).

use super::{Class, Flow};

/// The clock of a table, as the last call set it.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    now: u64,
    /// A unit of a request's times is so many ticks, as a power of two.
    shift: u32,
    keep: u16,
}

/// What goes first where a new flow needs a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefer {
    /// A request; else a decided flow that may go.
    Requests,
    /// A request, or nothing.
    RequestsOnly,
    /// A decided flow that may go; else a request.
    Decided,
    /// That, or nothing.
    DecidedOnly,
}

/// [`Prefer`] at one time, for many comparisons: of each number eight, as words are compared
/// eight at a time.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// The rank of a request, what makes a spare flow's of it, and of that a kept one's.
    request: Eight,
    to_spare: Eight,
    to_kept: Eight,
    /// The earliest time of a decided flow, and what makes a request's of it.
    base: Eight,
    to_request: Eight,
    idle: Eight,
    /// A free place.
    free: Eight,
    /// Where requests go before all decided flows, their own order.
    requests: Option<Requests>,
}

/// The order of requests, and of free places, by a rank without a sign.
#[derive(Clone, Copy)]
pub(super) struct Requests {
    /// The earliest time.
    pub(super) base: u16,
    /// What makes of the class of those that go first the least.
    pub(super) flip: u16,
    /// The rank of all others, or more.
    pub(super) others: u16,
}

type Eight = [i16; 8];

impl Clock {
    /// With `second` ticks a second; a kept flow is idle after `keep_s` seconds.
    pub(super) fn new(second: u64, keep_s: u64) -> Clock {
        let shift = (second / 250).max(1).next_power_of_two().ilog2();
        let ticks = u128::from(keep_s) * u128::from(second);
        // One unit for each of the times that are cut off.
        let keep = (ticks >> (shift + LONGER)).min(u128::from(HALF - 8)) as u16 + 2;
        Clock { now: 0, shift, keep }
    }

    pub(super) fn set(&mut self, now: u64) {
        self.now = now;
    }

    /// In units.
    #[inline(always)]
    fn shift_of(&self, class: Class) -> u32 {
        if class == Class::Request { self.shift } else { self.shift + LONGER }
    }

    /// The word of a flow of `class` that expires, or was used, at `time`.
    #[inline(always)]
    fn word(&self, class: Class, time: u64) -> u16 {
        let shift = self.shift_of(class);
        let (now, half) = (self.now >> shift, u64::from(HALF));
        let time = (time >> shift).clamp(now.saturating_sub(half), now.saturating_add(half - 1));
        (class as u16) << TIME_BITS | time as u16 & TIME
    }

    /// The word of `flow`: of a kept one, as if it were used now.
    #[inline(always)]
    pub(super) fn word_of(&self, flow: &Flow) -> u16 {
        let class = flow.class();
        self.word(class, if class == Class::Kept { self.now } else { flow.expires() })
    }

    /// True where words of kept flows that were right at `since` have to be looked at
    /// ([`Clock::aged`]).
    pub(super) fn is_due(&self, since: u64) -> bool {
        self.now.saturating_sub(since) >> self.shift_of(Class::Kept) >= u64::from(HALF / 4)
    }

    /// The word of a kept flow, from now on: a use that is long ago stays as long ago as is said
    /// here, for one further behind than [`HALF`] would be in use once more.
    pub(super) fn aged(&self, word: u16) -> u16 {
        let now = (self.now >> self.shift_of(Class::Kept)) as u16;
        let (ago, long) = (now.wrapping_sub(word) & TIME, (HALF / 2).max(self.keep));
        if ago <= long || ago >= HALF {
            return word;
        }
        (Class::Kept as u16) << TIME_BITS | now.wrapping_sub(long) & TIME
    }

    /// True where words still say what they said when a sweep looked at them, at `since` or later:
    /// times have not wrapped round meanwhile.
    pub(super) fn says_since(&self, since: u64) -> bool {
        self.now.saturating_sub(since) >> self.shift < u64::from(HALF) - 1
    }

    /// What a sweep looks at now.
    pub(super) fn due(&self) -> Due {
        let [request, decided] =
            [Class::Request, Class::Spare].map(|class| (self.now >> self.shift_of(class)) as u16);
        Due { request, decided }
    }

    /// The word of a request that expires then.
    pub(super) fn word_of_request(&self, expires: u64) -> u16 {
        self.word(Class::Request, expires)
    }

    /// The word of a flow that is in use just now: it does not go.
    #[inline(always)]
    pub(super) fn pin(&self) -> u16 {
        self.word(Class::Kept, self.now)
    }

    /// True if `word` says of `flow` that it goes earlier than it does.
    #[inline(always)]
    pub(super) fn is_early(&self, word: u16, flow: &Flow) -> bool {
        if self.near().is_right(word, flow) {
            return false;
        }
        let class = flow.class();
        let base = self.base(class);
        let ahead = |word: u16| word.wrapping_sub(base) & TIME;
        word >> TIME_BITS != class as u16
            || class != Class::Kept && ahead(word) < ahead(self.word_of(flow))
    }

    /// The requests whose words say when they expire.
    #[inline(always)]
    pub(super) fn near(&self) -> Near {
        let (now, half) = (self.now >> self.shift, u64::from(HALF));
        let from = now.saturating_sub(half) << self.shift;
        Near { from, ticks: (2 * half) << self.shift, shift: self.shift }
    }

    /// The earliest time that a word can say.
    #[inline(always)]
    fn base(&self, class: Class) -> u16 {
        ((self.now >> self.shift_of(class)) as u16).wrapping_sub(HALF)
    }

    /// What goes first now.
    #[inline(always)]
    pub(super) fn order(&self, prefer: Prefer) -> Order {
        let [first, second, third] = [-2, -1, 0].map(|rank: i16| rank << TIME_BITS);
        let (request, spare, kept) = match prefer {
            Prefer::Requests => (first, second, third),
            Prefer::RequestsOnly => (first, NEVER, NEVER),
            Prefer::Decided => (third, first, second),
            Prefer::DecidedOnly => (NEVER, first, second),
        };
        let [request_base, base] =
            [Class::Request, Class::Spare].map(|class| self.base(class) as i16);
        Order {
            request: [request; 8],
            to_spare: [request ^ spare; 8],
            to_kept: [spare ^ kept; 8],
            base: [base; 8],
            to_request: [base ^ request_base; 8],
            idle: [(HALF - self.keep) as i16; 8],
            free: [NEVER; 8],
            requests: matches!(prefer, Prefer::Requests | Prefer::RequestsOnly)
                .then(|| Requests::of(self.base(Class::Request), false)),
        }
    }
}

/// Words of flows that a sweep has to look at, at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    request: u16,
    decided: u16,
}

impl Due {
    /// True of a request and a spare flow that may have expired, and of every kept one: its last use
    /// is over, and says nothing about its end.
    #[inline(always)]
    pub(super) fn has(&self, word: u16) -> bool {
        let now = if word >= DECIDED { self.decided } else { self.request };
        !is_free(word) & (now.wrapping_sub(word) & TIME < HALF)
    }
}

/// Times that the words of requests can say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Near {
    from: u64,
    ticks: u64,
    shift: u32,
}

impl Near {
    /// True of a request of such a time and its very word: the usual case, in few instructions.
    #[inline(always)]
    pub(super) fn is_right(&self, word: u16, flow: &Flow) -> bool {
        let time = (flow.expires() >> self.shift) as u16;
        flow.expires().wrapping_sub(self.from) < self.ticks
            && flow.is_request()
            && word == REQUEST as u16 | time & TIME
    }
}

impl Order {
    /// The same, but a free place is before all flows.
    pub(super) fn free_first(self) -> Order {
        let requests = self.requests.map(|requests| Requests::of(requests.base, true));
        Order { free: [i16::MIN; 8], requests, ..self }
    }

    /// What says what goes first, unless there is neither a request nor a free place that does.
    #[inline(always)]
    pub(super) fn requests(&self) -> Option<&Requests> {
        self.requests.as_ref()
    }

    /// The lower, the earlier the flow of a word goes; [`NEVER`] for one that does not.
    ///
    /// Without a branch or a table, and with a sign, so that the compiler makes few
    /// instructions of it; nor by `from_fn`, which is a call.
    #[inline(always)]
    pub(super) fn of(&self, words: [u16; 8]) -> [i16; 8] {
        let mut ranks = [0; 8];
        for (i, rank) in ranks.iter_mut().enumerate() {
            // By the two bits of the class: decided or not, and then kept or spare.
            let word = words[i] as i16;
            let (decided, low) = (word >> 15, (word << 1) >> 15);
            let kept = decided & low;
            let time = word.wrapping_sub(self.base[i] ^ self.to_request[i] & !decided);
            let time = time & TIME as i16;
            let class = self.request[i] ^ decided & self.to_spare[i] ^ kept & self.to_kept[i];
            let in_use = -i16::from(time > self.idle[i]) & kept;
            let there = decided | low;
            *rank = (((time | class) ^ self.free[i]) & there ^ self.free[i]).max(in_use ^ i16::MIN);
        }
        ranks
    }
}

impl Requests {
    /// With this earliest time; a free place goes before all, or not.
    pub(super) fn of(base: u16, free_first: bool) -> Requests {
        let (flip, others) =
            if free_first { (0, 2 << TIME_BITS) } else { (REQUEST as u16, 1 << TIME_BITS) };
        Requests { base, flip, others }
    }

    /// The lower, the earlier: class, then time, in a third of the instructions of [`Order::of`].
    #[cfg(any(test, miri, not(target_arch = "x86_64")))]
    #[inline(always)]
    pub(super) fn rank(&self, word: u16) -> u16 {
        word.wrapping_sub(self.base) & TIME | (word ^ self.flip) & CLASS
    }
}

/// Of a flow that does not go.
pub(super) const NEVER: i16 = i16::MAX;

/// The word of a place without a flow.
pub(super) const FREE: u16 = 0;

/// True of a place without a flow.
#[inline(always)]
pub(super) fn is_free(word: u16) -> bool {
    word >> TIME_BITS == 0
}

const TIME_BITS: u32 = 14;
pub(super) const TIME: u16 = (1 << TIME_BITS) - 1;
pub(super) const CLASS: u16 = !TIME;
const HALF: u16 = 1 << (TIME_BITS - 1);

/// The least word of a decided flow.
const DECIDED: u16 = (Class::Spare as u16) << TIME_BITS;

/// The class of a request, in a word.
const REQUEST: i16 = (Class::Request as i16) << TIME_BITS;

/// A decided flow's units are 2^5 times as long.
const LONGER: u32 = 5;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::FlowKey;
    use super::*;

    fn flow(class: Class, expires: u64) -> Flow {
        let mut flow = Flow::new(&FlowKey::v4(1, 2));
        flow.set_class(class);
        flow.set_expires(expires);
        flow
    }

    /// Of a clock of any rate, and at any time: a unit is 4 to 8 ms where there are ticks for it.
    #[test]
    fn earlier_goes_first() {
        for second in [1, 1000, 1_000_000_000, 2_800_000_000] {
            for now in [0, 5 * second, 1 << 40, u64::MAX / 2] {
                let mut clock = Clock::new(second, 10);
                clock.set(now);
                let order = clock.order(Prefer::Requests);
                let at = |class, expires| order.of([clock.word_of(&flow(class, expires)); 8])[7];
                let mut last = i16::MIN;
                for tenth in 0..300 {
                    let request = at(Class::Request, now + tenth * second / 10);
                    assert!(request >= last && request != NEVER, "{second} {now} {tenth}");
                    assert!(tenth % 10 > 0 || request > last || second == 1 || tenth == 0);
                    let spare = at(Class::Spare, now + tenth * second);
                    assert!(request < spare && spare < NEVER);
                    assert_eq!(at(Class::Kept, now + tenth * second), NEVER, "it is in use");
                    last = if tenth % 10 == 0 { request } else { last };
                }
                assert_eq!([FREE, clock.pin()].map(|word| order.of([word; 8])), [[NEVER; 8]; 2]);
            }
        }
    }

    /// Whatever words are beside each other, the same one goes first.
    #[test]
    fn requests_alone_are_in_the_same_order() {
        let mut rng = crate::rng::Rng::new(5);
        let mut clock = Clock::new(1_000_000, 10);
        for i in 0..if cfg!(miri) { 50 } else { 20_000 } {
            clock.set(rng.next() >> (rng.next() % 64));
            let order = clock.order(Prefer::Requests);
            let order = if i % 2 == 0 { order } else { order.free_first() };
            let mask = [0x7fff, 0xffff, 0xbfff][i % 3];
            let words = [(); 8].map(|()| {
                if rng.next().is_multiple_of(8) { FREE } else { rng.next() as u16 & mask }
            });
            let (all, requests) = (order.of(words), order.requests().unwrap());
            let ranks = words.map(|word| requests.rank(word));
            let least =
                (0..8).min_by_key(|at| ranks[*at]).filter(|at| ranks[*at] < requests.others);
            let goes = words.iter().any(|word| {
                *word >> TIME_BITS == Class::Request as u16 || is_free(*word) && i % 2 == 1
            });
            assert_eq!(
                least.map(|at| all[at]),
                goes.then(|| *all.iter().min().unwrap()),
                "{words:?}"
            );
            assert_eq!(least.is_some(), goes);
        }
        assert!(clock.order(Prefer::Decided).requests().is_none());
    }

    #[test]
    fn a_kept_flow_is_in_use_for_ten_seconds_and_hardly_longer() {
        for second in [1_000_000, 1_000_000_000, 2_800_000_001] {
            for phase in 0..50 {
                let used = (1_u64 << 42) + phase * second / 7;
                let mut clock = Clock::new(second, 10);
                clock.set(used);
                let word = clock.pin();
                for (later, goes) in [(0, false), (10 * second, false), (11 * second, true)] {
                    clock.set(used + later);
                    for prefer in [Prefer::Requests, Prefer::Decided, Prefer::DecidedOnly] {
                        assert_eq!(
                            clock.order(prefer).of([word; 8]) != [NEVER; 8],
                            goes,
                            "{phase} {later}"
                        );
                    }
                }
            }
        }
    }

    /// As sweeps do: for six hours no use looks as if it came yet.
    #[test]
    fn a_kept_flow_that_is_not_used_stays_idle() {
        for second in [1_000_000, 1_000_000_000, 2_800_000_001] {
            let used = 1_u64 << 42;
            let mut clock = Clock::new(second, 10);
            clock.set(used);
            let (mut word, mut looked) = (clock.pin(), used);
            for later in 1..6 * 3600 {
                clock.set(used + later * second);
                if clock.is_due(looked) {
                    (word, looked) = (clock.aged(word), used + later * second);
                }
                let goes = clock.order(Prefer::Decided).of([word; 8]) != [NEVER; 8];
                assert!(goes == (later > 10) || later == 11, "{second} {later}");
            }
            assert!(looked > used);
            // A use that is not long ago is left as it is.
            assert_eq!(clock.aged(clock.pin()), clock.pin());
        }
    }

    #[test]
    fn what_is_too_far_ahead_is_written_anew_when_its_time_comes() {
        let second = 1_000_000;
        let mut clock = Clock::new(second, 10);
        clock.set(second);
        let patient = flow(Class::Request, 500 * second);
        let word = clock.word_of(&patient);
        assert!(!clock.is_early(word, &patient));
        clock.set(20 * second);
        assert!(clock.is_early(word, &patient));
        assert!(!clock.is_early(clock.word_of(&patient), &patient));
        // Nor is a word right that was written for another class.
        assert!(clock.is_early(word, &flow(Class::Spare, 500 * second)));
        assert!(!clock.is_early(clock.pin(), &flow(Class::Kept, 0)));
    }
}
