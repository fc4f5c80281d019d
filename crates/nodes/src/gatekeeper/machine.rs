//! The state machine: a packet's verdict from its flow's state, and a state from a decision.
//!
//! ```text
//!              decision                                decision
//!   REQUEST ─────────────► GRANTED, DECLINED, PROGRAM ◄────────┐
//!      ▲                      │ its end has come               │
//!      │ 38, allowance 7      │ the program is gone            └─ anything: it is written over
//!      └──────────────────────┘ the program is another, or cannot say
//! ```
//!
//! Plain code over an entry's bytes; it knows neither table, graph nor programs.

use wire::ggu::Verdict as Decision;

use super::granted::{self, Granted};
use super::programs::Programs;
use super::request::Request;
use super::rule::{Answer, Arrival, Page, Rule, Words, put_words, words_of};
use super::state::{self, Bytes, Kind};
use super::times::Times;

/// What an entry of the flow table has of a flow.
#[derive(Debug)]
pub struct Flow<'a> {
    /// When the decision ends; of a request, when its entry may go.
    pub expires: &'a mut u64,
    /// The state in the entry.
    pub state: &'a mut Bytes,
    /// The page of a decided flow.
    pub page: Option<&'a mut Page>,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Through the request channel, with this DSCP (3 to 63).
    Request(u8),
    /// To a Grantor, with this DSCP (1 or 2; a program may say another).
    Granted(u8),
    /// Straight to the destination, with DSCP 1.
    Direct,
    /// Dropped: the flow is declined.
    Declined,
    /// Dropped: the flow has used its budget. The specification counts it as declined.
    OverBudget,
    /// Dropped: the program of this number failed.
    Failed(u8),
}

/// What is to be done with a packet, and with its entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// With the packet.
    pub verdict: Verdict,
    /// The flow was a decided one and is a request now: its page goes back.
    pub fell_back: bool,
    /// The flow's state is a program, which has said so.
    pub by_program: bool,
}

/// Why a decision is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// It names a program that there is not.
    UnknownProgram,
    /// The program refused its parameters.
    BadParameters,
}

/// A decision as it will lie in the table. In this order the page is a multiple of 8 bytes from
/// the start: it is copied several times.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Decided {
    /// When the decision ends.
    pub expires: u64,
    /// The page's content, where the kind uses one.
    pub page: Page,
    /// What was decided.
    pub kind: Kind,
    /// Of the program that has made it: [`Programs::edition`].
    pub edition: u8,
}

/// The same in words, each of which may be in a register.
#[derive(Clone, Copy)]
pub(super) struct Made {
    expires: u64,
    words: Words,
    kind: Kind,
    edition: u8,
}

impl Made {
    /// Writes it, word by word.
    #[inline(always)]
    pub(super) fn put(&self, to: &mut Decided) {
        put_words(&mut to.page, self.words);
        (to.expires, to.kind, to.edition) = (self.expires, self.kind, self.edition);
    }
}

impl Decided {
    /// Nothing.
    pub(super) const NONE: Decided =
        Decided { expires: 0, page: [0; 64], kind: Kind::Request, edition: 0 };

    /// Writes a decision over a flow in any state, new ones too; the page is the entry's,
    /// if its kind uses one. The caller's bytes of the state stay.
    ///
    /// # Errors
    /// When the kind uses a page and the flow has none: it is as before.
    pub fn apply(&self, flow: &mut Flow<'_>) -> Result<(), NoPage> {
        if self.kind.uses_page() {
            **flow.page.as_mut().ok_or(NoPage)? = self.page;
        }
        *flow.expires = self.expires;
        state::set_decided(flow.state, self.kind, self.edition);
        Ok(())
    }
}

/// A decision needs a page, and its flow has none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoPage;

/// The states' arithmetic and the programs, for one burst of packets.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Lengths of time at the clock's rate.
    pub times: &'a Times,
    /// What decisions may name.
    pub programs: &'a Programs,
}

impl Machine<'_> {
    /// End and state of an entry that is new now. Its first packet is then given to
    /// [`Machine::packet`], as all others are.
    #[inline]
    pub fn fresh(&self, now: u64) -> (u64, Bytes) {
        let mut bytes = [0; 16];
        state::set_request(&mut bytes, Request::new(now));
        (Request::first_end(self.times, now), bytes)
    }

    /// End and state of such an entry after its first packet, and the DSCP of the request that
    /// it is: the same for all that are new now.
    #[inline]
    pub fn born(&self, now: u64) -> (u64, Bytes, u8) {
        let (mut expires, mut state) = self.fresh(now);
        let mut flow = Flow { expires: &mut expires, state: &mut state, page: None };
        let dscp = self.request(&mut flow, now);
        (expires, state, dscp)
    }

    /// A packet of a flow comes. Its verdict does not depend on what becomes of the
    /// packet afterwards: a budget is spent before anything else can fail.
    #[inline]
    pub fn packet(&self, flow: &mut Flow<'_>, arrival: &Arrival<'_>) -> Step {
        let kind = Kind::of(flow.state);
        if kind == Kind::Request {
            let verdict = Verdict::Request(self.request(flow, arrival.now));
            return Step { verdict, fell_back: false, by_program: false };
        }
        match self.decided(kind, flow, arrival) {
            Some(verdict) => {
                let by_program = matches!(kind, Kind::Program(_));
                Step { verdict, fell_back: false, by_program }
            }
            None => {
                state::set_request(flow.state, Request::new(arrival.now));
                *flow.expires = Request::first_end(self.times, arrival.now);
                let verdict = Verdict::Request(self.request(flow, arrival.now));
                Step { verdict, fell_back: true, by_program: false }
            }
        }
    }

    /// A decision comes: what it will write. A program's `init` runs here, once.
    ///
    /// # Errors
    /// When there is no such program, or it refuses; nothing else has happened.
    pub fn decision(&self, decision: &Decision, now: u64) -> Result<Decided, Refused> {
        let mut decided = Decided::NONE;
        self.make(decision, now)?.put(&mut decided);
        Ok(decided)
    }

    /// The same in words.
    pub(super) fn make(&self, decision: &Decision, now: u64) -> Result<Made, Refused> {
        let (kind, words, edition) = match *decision {
            Decision::Declined { .. } => (Kind::Declined, [0; 8], 0),
            Decision::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms } => {
                return Ok(self.grant(now, expire_s, [rate_kib, next_renewal_ms, renewal_step_ms]));
            }
            Decision::Program { index, cookie: mut page, .. } => {
                let rule = self.programs.get(index).ok_or(Refused::UnknownProgram)?;
                rule.init(self.times, now, &mut page).map_err(|_| Refused::BadParameters)?;
                (Kind::Program(index), words_of(&page), self.programs.edition(index))
            }
        };
        let expires = now.saturating_add(self.times.seconds(decision.expire_s()));
        Ok(Made { expires, words, kind, edition })
    }

    /// The usual decision: rate in KiB a second, next renewal and renewal step in milliseconds.
    /// Apart from the others its words go from registers to where they stay. A result of all kinds
    /// would first lie in memory, written by words and read in larger pieces, for which a processor
    /// waits until all stores before are done: those into a ring that another core reads, too.
    #[inline(always)]
    pub(super) fn grant(&self, now: u64, expire_s: u32, parameters: [u32; 3]) -> Made {
        let expires = now.saturating_add(self.times.seconds(expire_s));
        let words = granted::words(self.times, now, parameters);
        Made { expires, words, kind: Kind::Granted, edition: 0 }
    }

    /// An entry of a request never ends by a packet: only a sweep takes it out.
    #[inline]
    fn request(&self, flow: &mut Flow<'_>, now: u64) -> u8 {
        let mut request = state::request(flow.state);
        let asked = request.packet(self.times, now);
        state::set_request(flow.state, request);
        if let Some(expires) = asked.expires {
            *flow.expires = expires;
        }
        asked.dscp
    }

    /// The verdict on a packet of a decided flow; `None` where the flow falls back.
    #[inline]
    fn decided(&self, kind: Kind, flow: &mut Flow<'_>, arrival: &Arrival<'_>) -> Option<Verdict> {
        let expires = *flow.expires;
        if arrival.now >= expires {
            return None;
        }
        let page = flow.page.as_deref_mut();
        let (answer, number) = match kind {
            Kind::Granted => (Granted.packet(self.times, arrival, expires, page?), 0),
            Kind::Program(index) => {
                // What another has written says nothing to this one.
                let is_its = state::edition(flow.state) == self.programs.edition(index);
                let rule = self.programs.get(index).filter(|_| is_its)?;
                (rule.packet(self.times, arrival, expires, page?), index)
            }
            Kind::Declined | Kind::Request => (Answer::Decline, 0),
        };
        let verdict = match answer {
            Answer::Send(dscp) => Verdict::Granted(dscp),
            Answer::Direct => Verdict::Direct,
            Answer::Decline => return Some(Verdict::Declined),
            Answer::OverBudget => return Some(Verdict::OverBudget),
            Answer::Fail => return Some(Verdict::Failed(number)),
            Answer::Undecided => return None,
        };
        state::mark_used(flow.state, self.times, arrival.now);
        Some(verdict)
    }
}
