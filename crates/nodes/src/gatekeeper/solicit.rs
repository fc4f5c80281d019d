//! `solicit`: requests wait for their turn, and leave encapsulated.
//!
//! ```text
//!  shield ─► 64 levels ─┬ the channel has room ─► encapsulated ─► output   OutPort
//!                       ├ full: the least patient ─► drop
//!                       ├ too long, not to be fragmented ─► icmp_error   Faulty
//!                       ├ decided here ─► asked_here   Asked
//!                       ├ of a shadow: a copy at most, the packet itself ► ip4_lookup, ip6_lookup
//!                       └ no way to a Grantor, too long ─► drop, by name
//! ```
//!
//! | cost | of a request that is dropped at once: a look at the levels; else its move into the queue and out |
//! |------|---------------------------------------------------------------------------------------------------|
//!
//! A request is encapsulated when it leaves, because most requests never leave. A request
//! without a route to its Grantor does not wait. If the route changes while a request waits,
//! the request costs the channel as much as by the old route.
//!
//! Requests to policies of this machine ([`tables::LOCAL`]) have a queue and a channel of their own,
//! which counts requests, not bytes.

mod back;
mod shadow;
mod whose;

use std::sync::Arc;

use graph::{Due, Kept, Lanes, Node, Unsent, View, clock, labels};
use lookup::hint::prefetch;
use lookup::sync::Published;
use tables::{Forwarding, Grantor, IfaceId, LOCAL, Protection, Protections, SetId};

use super::fault::{Fault, Kind, may_not_be_fragmented};
use super::lanes::{Asked, Faulty, Request};
use super::mix::Mix;
use super::outer::{Unfit, Ways};
use super::settings::{Counters, SOLICIT_DROPS, Settings};
use super::solicitor::{BURST, Member, OVERHEAD, Poll, Queue};
use super::times::Times;
use crate::counters::IfaceCounters;
use crate::lanes::{Dst4, Dst6, Iface, OutPort};
use crate::out::refusals::Refusals;
use back::Back;
use whose::Whose;

labels! {
    /// Where packets go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
        /// To a policy of this machine.
        Here = "asked_here" carries [Asked, Iface],
        Error = "icmp_error" carries [Faulty, Iface],
        /// What is only counted goes by its route.
        Lookup4 = "ip4_lookup" carries [Dst4, Iface],
        /// The same of IPv6.
        Lookup6 = "ip6_lookup" carries [Dst6, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// More patient requests fill the queue.
        Full = "full",
        /// No Grantor of the protection can be reached, or no policy is here.
        Unresolved = "unresolved",
        /// The protection has gone, or has other options, since the request came.
        Stale = "stale",
        /// No address of this machine to ask Grantors from.
        NoSource = "no_source",
        /// Longer, with the outer header, than the way to the Grantor carries.
        TooLong = "too_long",
        /// No room before the packet for the outer header.
        NoRoom = "no_headroom",
        /// The port that it came in by has gone.
        NoPort = "no_port",
        /// The worker stops.
        Stopped = "stopped",
    }
}

/// A request that waits: of one line, which is asked for before it leaves.
#[repr(align(64))]
struct Waiting {
    /// `None` of a shadow's that nobody gets a copy of: it takes its place and its tokens.
    kept: Option<Kept>,
    request: Request,
    /// By which one of several Grantors is chosen.
    mixed: u32,
    /// Bytes of the frame before the packet.
    link: u16,
    /// Bytes of the frame that leaves; of what is decided here what its channel counts.
    len: u32,
    /// By which it came.
    iface: IfaceId,
}

/// Requests that wait, and their part of a channel.
struct Seat {
    queue: Queue<Waiting>,
    member: Member,
}

impl Seat {
    fn new(capacity: usize, member: Member) -> Seat {
        Seat { queue: Queue::new(capacity), member }
    }
}

/// The node.
pub struct Solicit {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    ifaces: Arc<IfaceCounters>,
    counters: Arc<Counters>,
    refusals: Arc<Refusals>,
    mix: Mix,
    away: Seat,
    /// Of what is decided here.
    here: Option<Seat>,
    times: Times,
}

impl Solicit {
    /// A node that keeps up to `capacity` requests and sends them as `member` of the
    /// channel may; as many, as `here` may, of those that are decided in this graph. `mix`
    /// spreads flows over Grantors.
    pub fn new(
        forwarding: Arc<Forwarding>,
        (settings, mix): (Arc<Published<Settings>>, Mix),
        (ifaces, counters, refusals): (Arc<IfaceCounters>, Arc<Counters>, Arc<Refusals>),
        (capacity, member, here): (usize, Member, Option<Member>),
    ) -> Self {
        let (away, times) = (Seat::new(capacity, member), Times::new(clock::rate()));
        let here = here.map(|member| Seat::new(capacity, member));
        Solicit { forwarding, settings, ifaces, counters, refusals, mix, away, here, times }
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        std::iter::once(&self.away).chain(&self.here)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.seats().map(|seat| seat.queue.len()).sum()
    }

    /// How many there is room for.
    pub fn room(&self) -> usize {
        self.seats().map(|seat| seat.queue.capacity()).sum()
    }
}

impl Node for Solicit {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "solicit";
    const HELP: &'static str = "asks Grantors, the most patient first";
    const READS: Lanes = Lanes::of::<(Asked, Iface)>();
    const TICKS: bool = true;
    const KEEPS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let Solicit { forwarding, settings, ifaces, counters, mix, away, here, .. } = self;
        let protections = forwarding.protections.load(v.guard());
        let hops = forwarding.hops.load(v.guard());
        let from = settings.load(v.guard()).from;
        let ways = Ways { hops, from, counters: ifaces };
        let mut whose = Whose::nobody();
        for i in 0..v.n() {
            let request = v.get(Asked, i);
            if request.set() != whose.set {
                whose.turn_to(request.set(), protections, &ways);
            }
            let seat = if whose.is_here() { here.as_mut() } else { Some(&mut *away) };
            let Some(seat) = seat else {
                count(counters, request.set(), Why::Unresolved);
                v.drop(i, Why::Unresolved);
                continue;
            };
            // What becomes of most: no place for any of their level.
            if !request.is_in_shadow() && !seat.queue.takes(request.dscp()) {
                count(counters, request.set(), Why::Full);
                v.drop(i, Why::Full);
                continue;
            }
            take(v, i, request, &whose, (&ways, mix, &mut seat.queue, counters));
        }
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let rate = clock::rate();
        if rate != self.times.rate() {
            self.times = Times::new(rate);
        }
        let Solicit { forwarding, settings, ifaces, counters, refusals, away, here, times, .. } =
            self;
        let protections = forwarding.protections.load(v.guard());
        let hops = forwarding.hops.load(v.guard());
        let from = settings.load(v.guard()).from;
        let ways = Ways { hops, from, counters: ifaces };
        let mut back = Back { refusals, wait: times.published(), now: v.now(), tried: 0 };
        let port = |waiting: &Waiting| {
            let grantor = grantor(protections.get(waiting.request.set())?, waiting)?;
            ways.port(grantor, waiting.mixed)
        };
        if let Some((_, next)) = away.queue.peek_aside()
            && back.is_to_be_tried(port(next))
        {
            away.queue.take_back();
        }
        let poll = Poll { times, now: v.now(), most: BURST };
        let whose = Whose::nobody();
        let mut gone = Gone { protections, ways: &ways, counters, whose };
        let lately = back.refused_lately();
        let takes = |waiting: &Waiting| !lately || back.takes(port(waiting));
        let mut full = send(v, away, &poll, &mut gone, takes);
        if let Some(here) = here {
            full |= send(v, here, &poll, &mut gone, |_| true);
        }
        gone.whose.count(&ways);
        match self.waiting() {
            0 => Due::NEVER,
            _ if full => Due::NOW,
            // What it published counts four times as long.
            _ => Due::at(v.now().saturating_add(self.times.published() / 4)),
        }
    }

    fn abandon(&mut self) -> Option<(Kept, Why)> {
        self.away.queue.take_back();
        loop {
            let mut seats = std::iter::once(&mut self.away).chain(&mut self.here);
            let waiting = seats.find_map(|seat| seat.queue.pop())?.1;
            // What was only counted is no packet.
            if let Some(kept) = waiting.kept {
                count(&self.counters, waiting.request.set(), Why::Stopped);
                return Some((kept, Why::Stopped));
            }
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.away.queue, &mut old.away.queue);
        if let (Some(ours), Some(theirs)) = (&mut self.here, &mut old.here) {
            std::mem::swap(&mut ours.queue, &mut theirs.queue);
        }
    }
}

/// Takes request `i` into the queue, if it fits its way.
#[inline(never)]
fn take(
    v: &mut View<'_, Solicit>,
    i: usize,
    request: Request,
    whose: &Whose<'_>,
    (ways, mix, queue, counters): (&Ways<'_>, &Mix, &mut Queue<Waiting>, &Counters),
) {
    let mixed = mix.of_packet(v.head(i));
    if request.is_in_shadow() {
        shadow::show(v, i, (request, mixed), whose.protection, ways, queue, counters);
        return shadow::pass(v, i);
    }
    let len = match whose.frame_len(v, i, mixed, ways) {
        Ok(len) => len,
        Err(Unfit::TooLong(most)) if may_not_be_fragmented(v.head(i)) => {
            counters.count_reported(request.set());
            v.set(Faulty, i, Fault::new(Kind::TooLong(most)));
            return v.leave(i, To::Error);
        }
        Err(unfit) => {
            count(counters, request.set(), why(unfit));
            return v.drop(i, why(unfit));
        }
    };
    let link = v.frame_len(i).wrapping_sub(v.len(i));
    let iface = v.get(Iface, i);
    let Some(kept) = v.keep(i) else { return }; // cannot be: nobody has taken it
    let kept = Some(kept);
    push(v, queue, Waiting { kept, request, mixed, link, len, iface }, counters);
}

/// What requests leave by.
struct Gone<'g> {
    protections: &'g Protections,
    ways: &'g Ways<'g>,
    counters: &'g Counters,
    whose: Whose<'g>,
}

/// Sends the requests of a seat whose turn it is and whose port `takes` them; true where there was
/// no room for all.
fn send(
    v: &mut View<'_, Solicit>,
    seat: &mut Seat,
    poll: &Poll<'_>,
    by: &mut Gone<'_>,
    mut takes: impl FnMut(&Waiting) -> bool,
) -> bool {
    let mut full = false;
    let len = |waiting: &Waiting| takes(waiting).then_some(waiting.len);
    let sent = seat.member.poll(poll, &mut seat.queue, len, |_, mut waiting| {
        let in_shadow = waiting.request.is_in_shadow();
        let Some(kept) = waiting.kept.take() else {
            // Nothing else has no packet.
            by.counters.count_shadow(waiting.request.set(), |of| &of.passed);
            return Ok(true);
        };
        let i = match v.emit(kept) {
            Ok(i) => i,
            Err(Unsent::Full(kept)) => {
                full = true;
                return Err(Waiting { kept: Some(kept), ..waiting });
            }
            Err(Unsent::Gone(kept)) => {
                count(by.counters, waiting.request.set(), Why::NoPort);
                v.discard(kept, Why::NoPort);
                return Ok(false);
            }
        };
        if in_shadow {
            by.counters.count_shadow(waiting.request.set(), |of| &of.passed);
        }
        Ok(by.send(v, i, &waiting))
    });
    ask_ahead(&seat.queue, sent + 1);
    full
}

/// Asks for what requests need that leave soon, where `n` leave a poll: of the next ones the
/// frames, whose descriptors were asked for a poll ago; of those behind them the descriptors, and
/// behind these what the queue holds. While they waited, a flood went through the caches.
fn ask_ahead(queue: &Queue<Waiting>, n: usize) {
    for (at, waiting) in queue.next().take(3 * n).enumerate() {
        let kept = || waiting.as_ref().and_then(|waiting| waiting.kept.as_ref());
        match at / n {
            0 => kept().into_iter().for_each(Kept::ask_frame),
            1 => kept().into_iter().for_each(Kept::ask),
            _ => prefetch(waiting),
        }
    }
}

impl Gone<'_> {
    /// Sends packet `i`, whose turn has come; false where it is dropped.
    fn send(&mut self, v: &mut View<'_, Solicit>, i: usize, waiting: &Waiting) -> bool {
        let Waiting { request, mixed, link, iface, .. } = *waiting;
        if request.set() != self.whose.set {
            self.whose.turn_to(request.set(), self.protections, self.ways);
        }
        let Some(protection) = self.whose.protection else {
            count(self.counters, request.set(), Why::Stale);
            v.drop(i, Why::Stale);
            return false;
        };
        v.advance(i, link.into()); // it was as long when it came
        if !self.whose.is_away {
            v.set(Asked, i, request);
            v.set(Iface, i, iface);
            v.leave(i, To::Here);
            return true;
        }
        let sent = match &mut self.whose.way {
            Some(way) if !request.is_in_shadow() => way.encapsulate(v, i, request.dscp()),
            _ => {
                let to = (mixed, request.dscp());
                self.ways.encapsulate(v, i, grantor(protection, waiting), to)
            }
        };
        match sent {
            Ok((port, iface)) => {
                v.set(OutPort, i, port);
                v.set(Iface, i, iface);
                v.leave(i, To::Output);
                true
            }
            Err(unfit) => {
                count(self.counters, request.set(), why(unfit));
                v.drop(i, why(unfit));
                false
            }
        }
    }
}

/// Whether a policy of this machine decides.
fn is_here(protection: &Protection) -> bool {
    protection.options & LOCAL != 0
}

/// Whom a request goes to.
fn grantor<'p>(protection: &'p Protection, waiting: &Waiting) -> Option<&'p Grantor> {
    match waiting.request.is_in_shadow() {
        true => protection.shadow(waiting.mixed),
        false => protection.grantor(waiting.mixed),
    }
}

/// Puts a request into the queue, in which there is room for it.
fn push(
    v: &mut View<'_, Solicit>,
    queue: &mut Queue<Waiting>,
    waiting: Waiting,
    counters: &Counters,
) {
    let Some(dropped) = queue.push(waiting.request.dscp(), waiting) else { return };
    let request = dropped.item.request;
    match request.is_in_shadow() {
        true => counters.count_shadow(request.set(), |of| &of.dropped),
        false => count(counters, request.set(), Why::Full),
    }
    if let Some(kept) = dropped.item.kept {
        v.discard(kept, Why::Full);
    }
}

/// Counts a packet that is dropped for its protection, too.
#[inline]
fn count(counters: &Counters, set: SetId, why: Why) {
    if let Some(of) = counters.drops(set) {
        of.solicit[why as usize].add(1);
    }
}

const _: () = assert!(<Why as graph::Label>::NAMES.len() == SOLICIT_DROPS);
const _: () = assert!(size_of::<Option<Waiting>>() == 64);

fn why(unfit: Unfit) -> Why {
    match unfit {
        Unfit::Unresolved => Why::Unresolved,
        Unfit::NoSource => Why::NoSource,
        Unfit::TooLong(_) => Why::TooLong,
        Unfit::NoRoom => Why::NoRoom,
    }
}

/// What the channel of decisions that are made here counts for one, with [`OVERHEAD`].
pub const DECISION: u64 = 1_024;
const ONE: u32 = (DECISION - OVERHEAD) as u32;
