//! Settings of the nodes of the shield, and their counters.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use graph::Counter;
use tables::SetId;
use wire::ggu::{Ports, Refusal};
use wire::ipip;

use super::fault::Kind;
use super::rule::PROGRAMS;

/// What may change while packets flow; published.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This machine at the back: what Grantors are asked from, and send decisions to.
    /// Without one nothing of its family is encapsulated.
    pub from: Ends,
    /// The UDP ports of decisions.
    pub ports: Ports,
    /// Whose decisions count.
    pub decisions_from: DecisionsFrom,
    /// ICMP errors a second that one worker may send; as many may come at once as a tenth of
    /// it is, or 32.
    pub errors_per_s: u32,
}

/// Whose decisions count, of those that are heard at the back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DecisionsFrom {
    /// Those of the Grantors that the protection of the destination names.
    #[default]
    ItsGrantors,
    /// Those of the Grantors of any protection of the VRF, for all destinations protected there.
    Grantors,
    /// Anybody's.
    Anybody,
}

/// An address of each family, and the hop limit of outer IPv6 headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6.
    pub v6: Option<Ipv6Addr>,
    /// Of what goes by IPv6.
    pub hop_limit: u8,
}

impl Default for Settings {
    fn default() -> Self {
        let from = Ends { v4: None, v6: None, hop_limit: ipip::HOP_LIMIT };
        Settings {
            from,
            ports: Ports::default(),
            decisions_from: DecisionsFrom::default(),
            errors_per_s: ERRORS_PER_S,
        }
    }
}

/// ICMP errors a second, unless configured otherwise.
pub const ERRORS_PER_S: u32 = 1_000;

/// An option of a protection ([`tables::Protection::options`]): verdicts are reached and
/// counted, and its packets go on as those of a bypass do.
pub const SHADOW: u32 = 1;

/// Packets and bytes of one protection, or of all: what became of them, or, where they are
/// those of a shadow, what would have. Bytes are of frames: of requests, and of what a program
/// grants, with the outer header that they get, of the others as they came.
#[derive(Debug, Default)]
#[repr(align(64))]
#[allow(missing_docs)]
pub struct Verdicts {
    pub requests: Counter,
    pub request_bytes: Counter,
    pub granted: Counter,
    pub granted_bytes: Counter,
    /// Those beyond a budget too.
    pub declined: Counter,
    pub declined_bytes: Counter,
    /// For want of a place in the table, because a program failed, or by a protection that drops.
    pub dropped: Counter,
    pub dropped_bytes: Counter,
}

impl Verdicts {
    #[inline]
    fn add(&self, tally: &Tally) {
        let counters = [
            (&self.requests, &self.request_bytes),
            (&self.granted, &self.granted_bytes),
            (&self.declined, &self.declined_bytes),
            (&self.dropped, &self.dropped_bytes),
        ];
        for ((packets, bytes), sum) in counters.into_iter().zip(&tally.fates) {
            if sum.packets() > 0 {
                packets.add(sum.packets());
                bytes.add(sum.bytes());
            }
        }
    }
}

/// Packets of one protection that were dropped, by the codes of the nodes' reasons; or reported;
/// or let pass, because it is a bypass; and its requests while it was a shadow.
#[derive(Debug, Default)]
pub struct Drops {
    /// By `shield`.
    pub shield: [Counter; SHIELD_DROPS],
    /// By `solicit`.
    pub solicit: [Counter; SOLICIT_DROPS],
    /// Too long, and not to be fragmented: by `icmp_error`, as far as its rate goes.
    pub reported: Counter,
    /// Given to the lookup without a verdict. Some may have no way, and be dropped there.
    pub bypassed: Counter,
    /// Of their frames, without what is behind the packets.
    pub bypassed_bytes: Counter,
    /// Of requests that the solicitor was shown.
    pub shadows: Shadows,
}

/// Reasons of `shield`, but for the last one, `changed`: what the protection was is not known.
pub const SHIELD_DROPS: usize = 9;
/// Reasons of `solicit`.
pub const SOLICIT_DROPS: usize = 8;

/// Packets and bytes of one protection that are not counted yet, by [`Fate`]; and those that were
/// dropped, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    fates: [Sum; 4],
    drops: [u16; SHIELD_DROPS + 1],
}

/// Packets and bytes of a vector's packets at most, in one number: one addition counts both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, bytes: u32) {
        self.0 += 1 << 32 | u64::from(bytes);
    }

    #[inline(always)]
    pub(super) fn packets(self) -> u64 {
        self.0 >> 32
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> u64 {
        self.0 & 0xffff_ffff
    }
}

// Of so many packets neither half runs over, whatever their lengths are.
const _: () = assert!(io::VECTOR * 4 * u16::MAX as usize <= u32::MAX as usize);

/// What became of a packet, as it is counted: in the order of [`Verdicts`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Request,
    Granted,
    Declined,
    Dropped,
}

impl Tally {
    #[inline(always)]
    pub(super) fn add(&mut self, fate: Fate, bytes: u32) {
        self.fates[fate as usize].add(bytes);
    }

    /// Counts a packet that is dropped for this reason of `shield`.
    #[inline(always)]
    pub(super) fn drop(&mut self, why: usize) {
        self.drops[why] += 1; // a vector's packets at most
    }
}

/// Packets of one bypass after the other that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct Bypassed {
    index: u32,
    sum: Sum,
}

impl Bypassed {
    /// A packet of the bypass `index`, in a frame of so many bytes.
    #[inline]
    pub(super) fn add(&mut self, counters: &Counters, index: u32, bytes: u32) {
        if index != self.index {
            self.count(counters);
            self.index = index;
        }
        self.sum.add(bytes);
    }

    /// Adds what was not counted yet to the counters.
    #[inline]
    pub(super) fn count(&mut self, counters: &Counters) {
        let sum = std::mem::take(&mut self.sum);
        if sum.packets() > 0
            && let Some(of) = counters.drops.get(self.index as usize)
        {
            of.bypassed.add(sum.packets());
            of.bypassed_bytes.add(sum.bytes());
        }
    }
}

/// Decisions that came to a worker, and what became of them.
#[derive(Debug, Default)]
pub struct Decisions {
    /// By [`Refusal`]: messages, and decisions that ended one.
    pub refused: [Counter; Refusal::ALL.len()],
    /// Messages with IPv4 options, which nobody reads.
    pub options: Counter,
    /// For a destination that nothing protects.
    pub unprotected: Counter,
    /// All others.
    pub all: Fates,
}

/// What became of decisions for one protection, or for all.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Fates {
    /// From somebody whose decisions do not count for the destination ([`DecisionsFrom`]).
    pub not_its_grantor: Counter,
    /// Cut off: a poll passes on 1,024 decisions, and no more than 16,384 wait for later ones.
    pub too_many: Counter,
    /// The protection had gone, or its options had changed, when they came to the table.
    pub stale: Counter,
    pub unknown_program: Counter,
    pub bad_parameters: Counter,
    /// Another worker's ring had no room.
    pub ring_full: Counter,
    /// The table had no place for the flow.
    pub no_place: Counter,
    /// All pages were taken by flows that stay.
    pub no_page: Counter,
    pub granted: Counter,
    pub declined: Counter,
    pub by_program: Counter,
}

/// Requests of shadows, which have gone on themselves: what the solicitor has done.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Shadows {
    /// The channel let them through; a copy went to the protection's Grantor that is marked as
    /// one of a shadow, where there is such.
    pub passed: Counter,
    /// They would have been dropped.
    pub dropped: Counter,
    /// There was no buffer for the copy: they are counted on as if there were.
    pub no_copy: Counter,
}

/// ICMP errors that a worker has sent or heard, by what they are about.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Errors {
    /// Packets that the back does not carry, or not with an outer header.
    pub too_long: Counter,
    pub ttl_exceeded: Counter,
    pub unreachable: Counter,
    /// Heard: a router behind the back could not forward a packet with its outer header.
    pub too_long_beyond: Counter,
}

impl Errors {
    pub(super) fn of(&self, kind: Kind) -> &Counter {
        match kind {
            Kind::TooLong(_) => &self.too_long,
            Kind::Expired => &self.ttl_exceeded,
            Kind::Unreachable => &self.unreachable,
        }
    }
}

/// What the programs of one number did wrong.
#[derive(Debug, Default)]
pub struct Mishaps {
    /// Packets that were dropped, because the program failed.
    pub failed: Counter,
    /// Decisions that were none, because its `init` refused their parameters, or failed.
    pub refused: Counter,
}

/// One worker's counters.
#[derive(Debug)]
pub struct Counters {
    /// Of all protections, but for shadows.
    pub all: Verdicts,
    /// Of all shadows.
    pub shadow: Verdicts,
    /// The same by protection: of those, and of these.
    by_protection: [Box<[Verdicts]>; 2],
    decided: Box<[Fates]>,
    drops: Box<[Drops]>,
    /// Of decisions.
    pub decisions: Decisions,
    /// Of ICMP errors.
    pub errors: Errors,
    /// Of requests that the solicitor was shown.
    pub shadows: Shadows,
    /// By number.
    programs: Box<[Mishaps; PROGRAMS]>,
}

impl Counters {
    /// Counters at zero; those of protections for indices below `protections`.
    pub fn new(protections: usize) -> Arc<Counters> {
        let verdicts = || (0..protections).map(|_| Verdicts::default()).collect();
        Arc::new(Counters {
            all: Verdicts::default(),
            shadow: Verdicts::default(),
            by_protection: [verdicts(), verdicts()],
            decided: (0..protections).map(|_| Fates::default()).collect(),
            drops: (0..protections).map(|_| Drops::default()).collect(),
            decisions: Decisions::default(),
            errors: Errors::default(),
            shadows: Shadows::default(),
            programs: Box::new(std::array::from_fn(|_| Mishaps::default())),
        })
    }

    /// Those of one protection, if they are counted.
    #[inline]
    pub fn of(&self, set: SetId) -> Option<&Verdicts> {
        self.by_protection[0].get(set.index as usize)
    }

    /// What would have become of its packets while it was a shadow.
    #[inline]
    pub fn shadow_of(&self, set: SetId) -> Option<&Verdicts> {
        self.by_protection[1].get(set.index as usize)
    }

    /// Decisions for one protection.
    pub fn decided(&self, set: SetId) -> Option<&Fates> {
        self.decided.get(set.index as usize)
    }

    /// Packets of one protection that were dropped, or reported.
    #[inline]
    pub fn drops(&self, set: SetId) -> Option<&Drops> {
        self.drops.get(set.index as usize)
    }

    /// Counts a packet that goes to `icmp_error` for its protection.
    pub(super) fn count_reported(&self, set: SetId) {
        self.drops(set).into_iter().for_each(|of| of.reported.add(1));
    }

    /// Of the programs of this number.
    #[inline]
    pub fn program(&self, number: u8) -> &Mishaps {
        &self.programs[usize::from(number)]
    }

    /// Counts for all protections, and for one.
    pub(super) fn count(&self, set: SetId, in_shadow: bool, tally: &Tally) {
        let (all, one) = match in_shadow {
            false => (&self.all, self.of(set)),
            true => (&self.shadow, self.shadow_of(set)),
        };
        all.add(tally);
        one.into_iter().for_each(|one| one.add(tally));
        let Some(of) = self.drops(set) else { return };
        for (counter, dropped) in of.shield.iter().zip(tally.drops) {
            if dropped > 0 {
                counter.add(dropped.into());
            }
        }
    }

    /// Counts a packet that `shield` drops for `why`, whatever its flow is, in a frame of so many
    /// bytes.
    pub(super) fn count_discarded(&self, set: SetId, why: usize, bytes: u64) {
        for of in self.of(set).into_iter().chain([&self.all]) {
            of.dropped.add(1);
            of.dropped_bytes.add(bytes);
        }
        self.drops(set).into_iter().for_each(|of| of.shield[why].add(1));
    }

    /// Counts a request of a shadow: for all, and for its protection.
    pub(super) fn count_shadow(&self, set: SetId, fate: impl Fn(&Shadows) -> &Counter) {
        fate(&self.shadows).add(1);
        self.drops(set).into_iter().for_each(|of| fate(&of.shadows).add(1));
    }

    /// The same of a decision.
    pub(super) fn count_decision(&self, set: SetId, fate: impl Fn(&Fates) -> &Counter) {
        fate(&self.decisions.all).add(1);
        self.decided(set).into_iter().for_each(|of| fate(of).add(1));
    }
}
