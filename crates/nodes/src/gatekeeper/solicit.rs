//! `solicit`: requests wait for their turn, and leave encapsulated.
//!
//! ```text
//!  shield ─► 64 levels ─┬ the channel has room ─► encapsulated ─► output   OutPort
//!                       ├ full: the least patient ─► drop
//!                       └ no way to a Grantor, too long ─► drop, by name
//! ```
//!
//! | cost | of a request that is dropped at once: a look at the levels; else its move into the queue and out |
//! |------|---------------------------------------------------------------------------------------------------|
//!
//! A request is encapsulated when it leaves, because most do not. One that has no way to its
//! Grantor does not wait for its turn; where the way changes while it waits, it costs the
//! channel what it would have by the way that there was.

use std::sync::Arc;

use graph::{Due, Kept, Lanes, Node, Unsent, View, clock, labels};
use lookup::sync::Published;
use tables::Forwarding;

use super::lanes::{Asked, Mixed, Request};
use super::outer::{Unfit, Ways, packet_len};
use super::settings::Settings;
use super::solicitor::{BURST, Member, Poll, Queue};
use super::times::Times;
use crate::counters::IfaceCounters;
use crate::lanes::{Iface, OutPort};

labels! {
    /// Where packets go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// More patient requests fill the queue.
        Full = "full",
        /// No Grantor of the protection can be reached.
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

/// A request that waits.
struct Waiting {
    kept: Kept,
    request: Request,
    mixed: u32,
    /// Bytes of the frame before the packet.
    link: u16,
    /// Bytes of the frame that leaves.
    len: u32,
}

/// The node.
pub struct Solicit {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    ifaces: Arc<IfaceCounters>,
    queue: Queue<Waiting>,
    member: Member,
    times: Times,
}

impl Solicit {
    /// A node that keeps up to `capacity` requests and sends them as `member` of the
    /// channel may.
    pub fn new(
        forwarding: Arc<Forwarding>,
        settings: Arc<Published<Settings>>,
        ifaces: Arc<IfaceCounters>,
        (capacity, member): (usize, Member),
    ) -> Self {
        let (queue, times) = (Queue::new(capacity), Times::new(clock::rate()));
        Solicit { forwarding, settings, ifaces, queue, member, times }
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many there is room for.
    pub fn room(&self) -> usize {
        self.queue.capacity()
    }
}

impl Node for Solicit {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "solicit";
    const HELP: &'static str = "asks Grantors, the most patient first";
    const READS: Lanes = Lanes::of::<(Asked, Mixed)>();
    const TICKS: bool = true;
    const KEEPS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let Solicit { forwarding, settings, ifaces, queue, .. } = self;
        let protections = forwarding.protections.load(v.guard());
        let hops = forwarding.hops.load(v.guard());
        let from = settings.load(v.guard()).from;
        let ways = Ways { hops, from, counters: ifaces };
        for i in 0..v.n() {
            let (request, mixed) = (v.get(Asked, i), v.get(Mixed, i));
            if !queue.takes(request.dscp()) {
                v.drop(i, Why::Full);
                continue;
            }
            let grantor = protections.get(request.set()).and_then(|it| it.grantor(mixed));
            let len = match ways.frame_len(packet_len(v.head(i)), grantor, mixed) {
                Ok(len) => len,
                Err(unfit) => {
                    v.drop(i, why(unfit));
                    continue;
                }
            };
            let link = v.frame_len(i).wrapping_sub(v.len(i));
            let Some(kept) = v.keep(i) else { continue };
            let waiting = Waiting { kept, request, mixed, link, len };
            if let Some(dropped) = queue.push(request.dscp(), waiting) {
                v.discard(dropped.item.kept, Why::Full);
            }
        }
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let rate = clock::rate();
        if rate != self.times.rate() {
            self.times = Times::new(rate);
        }
        let Solicit { forwarding, settings, ifaces, queue, member, times } = self;
        let protections = forwarding.protections.load(v.guard());
        let hops = forwarding.hops.load(v.guard());
        let from = settings.load(v.guard()).from;
        let ways = Ways { hops, from, counters: ifaces };
        let poll = Poll { times, now: v.now(), takes: true, most: BURST };
        let mut full = false;
        let len = |waiting: &Waiting| waiting.len;
        member.poll(&poll, queue, len, |_, waiting| {
            let Waiting { kept, request, mixed, link, len } = waiting;
            let i = match v.emit(kept) {
                Ok(i) => i,
                Err(Unsent::Full(kept)) => {
                    full = true;
                    return Err(Waiting { kept, request, mixed, link, len });
                }
                Err(Unsent::Gone(kept)) => {
                    v.discard(kept, Why::NoPort);
                    return Ok(());
                }
            };
            let Some(protection) = protections.get(request.set()) else {
                v.drop(i, Why::Stale);
                return Ok(());
            };
            v.advance(i, link.into()); // it was as long when it came
            let grantor = protection.grantor(mixed);
            match ways.encapsulate(v, i, grantor, (mixed, request.dscp())) {
                Ok((port, iface)) => {
                    v.set(OutPort, i, port);
                    v.set(Iface, i, iface);
                    v.leave(i, To::Output);
                }
                Err(unfit) => v.drop(i, why(unfit)),
            }
            Ok(())
        });
        match queue.is_empty() {
            true => Due::NEVER,
            false if full => Due::NOW,
            // What it published counts four times as long.
            false => Due::at(v.now() + times.published() / 4),
        }
    }

    fn abandon(&mut self) -> Option<(Kept, Why)> {
        Some((self.queue.pop()?.1.kept, Why::Stopped))
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.queue, &mut old.queue);
    }
}

fn why(unfit: Unfit) -> Why {
    match unfit {
        Unfit::Unresolved => Why::Unresolved,
        Unfit::NoSource => Why::NoSource,
        Unfit::TooLong => Why::TooLong,
        Unfit::NoRoom => Why::NoRoom,
    }
}
