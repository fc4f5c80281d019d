//! What becomes of a packet whose verdict is known: one after the other of a vector's, what is
//! counted being summed up.

use graph::View;
use io::VECTOR;
use lookup::exact::flow::FlowKey;
use tables::{LOCAL, Protection, Protections};
use wire::{ipv4, ipv6};

use super::{Shield, To, Why, pass};
use crate::gatekeeper::fault::{Fault, Kind as Trouble, may_not_be_fragmented};
use crate::gatekeeper::flows::Named;
use crate::gatekeeper::lanes::{Asked, Faulty, Request};
use crate::gatekeeper::machine::{Step, Verdict};
use crate::gatekeeper::mix::Mix;
use crate::gatekeeper::outer::{Out, Unfit, Way, Ways, packet_len};
use crate::gatekeeper::rule::GRANTED;
use crate::gatekeeper::settings::{Counters, Fate, SHADOW, Tally};
use crate::lanes::{Iface, OutPort};
use crate::parse::cut::cut;

/// What verdicts are carried out with.
pub(super) struct Sender<'g> {
    ways: Ways<'g>,
    protections: &'g Protections,
    counters: &'g Counters,
    mix: &'g Mix,
    /// Whose the packet before was: mostly the next one's, too.
    pub(super) named: Named,
    protection: Option<&'g Protection>,
    /// There is one, and no shadow.
    pub(super) is_plain: bool,
    /// There is one, and a policy of this machine decides.
    is_here: bool,
    /// The way of its packets, where all have one.
    way: Option<Way<'g>>,
    /// What is not counted yet, of that protection.
    tally: Tally,
}

/// A packet whose flow's budget lets it through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granted {
    /// Its place in the vector, and its flow's in the batch.
    pub i: u8,
    pub k: u8,
    pub dscp: u8,
}

// As numbers of a byte.
const _: () = assert!(VECTOR <= 256);

impl<'g> Sender<'g> {
    pub(super) fn new(
        ways: Ways<'g>,
        protections: &'g Protections,
        counters: &'g Counters,
        mix: &'g Mix,
    ) -> Self {
        let (named, tally) = (Named::NONE, Tally::default());
        Sender {
            ways,
            protections,
            counters,
            mix,
            named,
            protection: None,
            is_plain: false,
            is_here: false,
            way: None,
            tally,
        }
    }

    #[inline(never)]
    pub(super) fn turn_to(&mut self, named: Named) {
        self.count();
        (self.named, self.protection) = (named, self.protections.get(named.set()));
        self.is_plain = self.protection.is_some_and(|of| !is_shadow(of));
        self.is_here = self.protection.is_some_and(is_here);
        self.way = self.protection.and_then(|protection| self.ways.only(protection));
    }

    /// Adds what was not counted yet to the counters.
    pub(super) fn count(&mut self) {
        let in_shadow = self.protection.is_some_and(is_shadow);
        self.counters.count(self.named.set(), in_shadow, &std::mem::take(&mut self.tally));
        if let Some(way) = &mut self.way {
            self.ways.count(way);
        }
    }

    /// Has `send` send a packet of the flow of `key` by its own way to a Grantor.
    #[inline(never)]
    fn by_hash(
        &mut self,
        key: &FlowKey,
        send: &mut dyn FnMut(&mut Way<'g>) -> Result<Out, Unfit>,
    ) -> Result<Out, Unfit> {
        let mixed = self.mix.of(key);
        let grantor = self.protection.and_then(|protection| protection.grantor(mixed));
        let mut way = self.ways.to(grantor, mixed).ok_or(Unfit::Unresolved)?;
        let sent = send(&mut way);
        self.ways.count(&mut way);
        sent
    }

    /// A packet of a flow that gets nothing, in a frame of `len` bytes.
    #[inline(always)]
    pub(super) fn decline(&mut self, v: &mut View<'_, Shield>, i: usize, len: u32, why: Why) {
        self.tally.add(Fate::Declined, len);
        self.drop(v, i, why);
    }

    /// Drops a packet of the protection.
    #[inline(always)]
    fn drop(&mut self, v: &mut View<'_, Shield>, i: usize, why: Why) {
        self.tally.drop(why as usize);
        v.drop(i, why);
    }

    /// A packet that is granted, counted with `len` bytes: it is to be [sent](Sender::send).
    #[inline(always)]
    pub(super) fn grant(&mut self, v: &View<'_, Shield>, i: usize, len: u32) {
        self.tally.add(Fate::Granted, len);
        if !self.is_here {
            v.ask_before(i);
        }
    }

    /// Sends packets that were granted, of flows of these keys. By themselves, behind all
    /// verdicts: so what a verdict needs and what an outer header needs are in registers by
    /// turns (324 instructions a packet in one loop).
    #[inline(never)]
    pub(super) fn send(
        &mut self,
        v: &mut View<'_, Shield>,
        granted: &[Granted],
        keys: &[FlowKey; VECTOR],
    ) {
        if self.is_here {
            // There is no Grantor behind the policy that would look at them.
            let set = self.named.set();
            for &Granted { i, dscp, .. } in granted {
                v.set(Asked, i.into(), Request::new(set, dscp));
                v.leave(i.into(), To::Here);
            }
            return;
        }
        // Out of the way of what else is in `self`: it lies in registers then.
        let Some(mut way) = self.way.take() else {
            for granted in granted {
                let (i, dscp) = (granted.i.into(), granted.dscp);
                let key = &keys[usize::from(granted.k) % VECTOR];
                let sent = self.by_hash(key, &mut |way| way.encapsulate(v, i, dscp));
                self.leave(v, i, sent);
            }
            return;
        };
        for &Granted { i, dscp, .. } in granted {
            let sent = way.encapsulate(v, i.into(), dscp);
            self.leave(v, i.into(), sent);
        }
        self.way = Some(way);
    }

    /// A packet of a flow that nothing was decided for, in a frame of `len` bytes.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        v: &mut View<'_, Shield>,
        i: usize,
        key: &FlowKey,
        (len, dscp): (u32, u8),
    ) {
        self.tally.add(Fate::Request, len + self.outer(key));
        v.set(Asked, i, Request::new(self.named.set(), dscp));
        v.leave(i, To::Solicit);
    }

    /// Bytes that a request of the flow of `key` gets in front.
    #[inline(always)]
    fn outer(&self, key: &FlowKey) -> u32 {
        match self.is_here {
            true => 0,
            false if key.is_v4() => ipv4::MIN_LEN as u32,
            false => ipv6::LEN as u32,
        }
    }

    /// Any verdict; `None`: the flow has no place. Of a packet that is to be sent with others, it
    /// gives the DSCP, and the bytes that [`Sender::grant`] counts.
    #[inline(never)]
    pub(super) fn carry_out(
        &mut self,
        v: &mut View<'_, Shield>,
        i: usize,
        key: &FlowKey,
        step: Option<Step>,
    ) -> Option<(u8, u32)> {
        if self.protection.is_none() {
            v.drop(i, Why::Changed);
            return None;
        }
        if !self.is_plain {
            self.show(v, i, key, step);
            return None;
        }
        let len = u32::from(v.frame_len(i));
        let (fate, why) = match step.map(|step| step.verdict) {
            Some(Verdict::Granted(dscp)) => return Some((dscp, len + self.granted(key, step))),
            Some(Verdict::Request(dscp)) => {
                self.ask(v, i, key, (len, dscp));
                return None;
            }
            Some(Verdict::Direct) => {
                self.direct(v, i, key);
                return None;
            }
            Some(Verdict::Declined) => (Fate::Declined, Why::Declined),
            Some(Verdict::OverBudget) => (Fate::Declined, Why::OverBudget),
            Some(Verdict::Failed(number)) => {
                self.counters.program(number).failed.add(1);
                (Fate::Dropped, Why::Failed)
            }
            None => (Fate::Dropped, Why::NoPlace),
        };
        self.tally.add(fate, len);
        self.drop(v, i, why);
        None
    }

    /// Bytes that are counted besides the frame's own of a granted packet that is to be
    /// encapsulated: of a program those in front, of what is built in none.
    fn granted(&self, key: &FlowKey, step: Option<Step>) -> u32 {
        if step.is_some_and(|step| step.by_program) { self.outer(key) } else { 0 }
    }

    /// A packet that goes to its destination, as it is.
    fn direct(&mut self, v: &mut View<'_, Shield>, i: usize, key: &FlowKey) {
        self.tally.add(Fate::Granted, v.frame_len(i).into());
        if self.is_here {
            // What is granted is looked at there, whichever way a program names.
            v.set(Asked, i, Request::new(self.named.set(), GRANTED));
            return v.leave(i, To::Here);
        }
        let sent = match &mut self.way {
            Some(way) => way.direct(v, i, GRANTED),
            None => self.by_hash(key, &mut |way| way.direct(v, i, GRANTED)),
        };
        self.leave(v, i, sent);
    }

    /// Packet `i` leaves, if it is fit to.
    #[inline(always)]
    fn leave(&mut self, v: &mut View<'_, Shield>, i: usize, sent: Result<Out, Unfit>) {
        match sent {
            Ok((port, iface)) => {
                v.set(OutPort, i, port);
                v.set(Iface, i, iface);
                v.leave(i, To::Output);
            }
            Err(unfit) => self.stay(v, i, unfit),
        }
    }

    /// Packet `i` does not leave.
    #[inline(never)]
    fn stay(&mut self, v: &mut View<'_, Shield>, i: usize, unfit: Unfit) {
        let why = match unfit {
            Unfit::Unresolved => Why::Unresolved,
            Unfit::NoSource => Why::NoSource,
            Unfit::TooLong(most) if may_not_be_fragmented(v.head(i)) => {
                self.counters.count_reported(self.named.set());
                v.set(Faulty, i, Fault::new(Trouble::TooLong(most)));
                return v.leave(i, To::Error);
            }
            Unfit::TooLong(_) => Why::TooLong,
            Unfit::NoRoom => Why::NoRoom,
        };
        self.drop(v, i, why);
    }

    /// A packet of a shadow, which goes on whatever its verdict is.
    fn show(&mut self, v: &mut View<'_, Shield>, i: usize, key: &FlowKey, step: Option<Step>) {
        let verdict = step.map(|step| step.verdict);
        let (fate, outer) = match verdict {
            Some(Verdict::Request(_)) => (Fate::Request, self.outer(key)),
            Some(Verdict::Granted(_)) => (Fate::Granted, self.granted(key, step)),
            Some(Verdict::Direct) => (Fate::Granted, 0),
            Some(Verdict::Declined | Verdict::OverBudget) => (Fate::Declined, 0),
            Some(Verdict::Failed(number)) => {
                self.counters.program(number).failed.add(1);
                (Fate::Dropped, 0)
            }
            None => (Fate::Dropped, 0),
        };
        self.tally.add(fate, u32::from(v.frame_len(i)) + outer);
        shorten(v, i);
        if let Some(Verdict::Request(dscp)) = verdict {
            v.set(Asked, i, Request::new(self.named.set(), dscp).in_shadow());
            v.leave(i, To::Solicit);
        } else {
            pass(v, i);
        }
    }
}

/// Cuts off what follows packet `i` in its frame.
fn shorten(v: &mut View<'_, Shield>, i: usize) {
    let total = packet_len(v.head(i));
    if v.len(i) != total {
        cut(v, i, total);
    }
}

/// Whether a policy of this machine decides.
fn is_here(protection: &Protection) -> bool {
    protection.options & LOCAL != 0
}

/// Whether verdicts on its packets are only counted.
#[inline]
fn is_shadow(protection: &Protection) -> bool {
    protection.options & SHADOW != 0
}
