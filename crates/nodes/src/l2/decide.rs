//! Where a frame of a known domain goes, once the MAC table has answered.

use tables::bridge::{Bridges, Egress};
use tables::macs::{ABSENT, entry_port};

use wire::bytes::be16;
use wire::{ethernet, vlan};

use super::bridge_input::{Found, is_tag};
use super::tag::Edit;

/// The decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// By this port, after this edit of the tag.
    Send(u16, Edit),
    /// To every member: the station is not known.
    Flood,
    /// Nowhere: the station is at the port that the frame came in by.
    SamePort,
    /// Nowhere: both ports are isolated.
    Isolated,
    /// Nowhere: the port's MTU is less.
    TooLong,
}

/// A frame whose domain is known.
#[derive(Clone, Copy)]
pub(super) struct Frame<'v> {
    /// As `bridge_input` left it.
    pub found: Found,
    /// The port that it came in by.
    pub from: u16,
    /// Its first bytes.
    pub head: &'v [u8; 64],
    pub len: u16,
}

impl Frame<'_> {
    /// Does it fit through `port`? As for routed packets, tags do not count, so it
    /// is the same before an edit and after.
    #[inline(always)]
    pub(super) fn fits(&self, bridges: &Bridges, port: u16) -> bool {
        self.len <= bridges.fits_all || self.payload() <= usize::from(bridges.mtu(port))
    }

    /// Bytes behind link header and tags.
    #[cold]
    fn payload(&self) -> usize {
        let mut end = ethernet::LEN;
        while is_tag(be16(self.head, end - 2)) && end < ethernet::LEN + vlan::MAX_TAGS * vlan::LEN {
            end += vlan::LEN;
        }
        usize::from(self.len).saturating_sub(end)
    }
}

/// `entry` is the MAC table's answer.
pub(super) fn decide(bridges: &Bridges, frame: Frame<'_>, entry: u16) -> Verdict {
    let Frame { found: Found { domain, came }, from, .. } = frame;
    let Some(domain) = bridges.domain(domain) else {
        return Verdict::Flood;
    };
    let port = entry_port(entry);
    let egress = domain.egress(port);
    if entry == ABSENT || !egress.trusts() {
        return Verdict::Flood;
    }
    if bridges.separates(from, port) {
        return if from == port { Verdict::SamePort } else { Verdict::Isolated };
    }
    if !frame.fits(bridges, port) {
        return Verdict::TooLong;
    }
    let edit = match egress {
        Egress::AsIs => Edit::Keep,
        egress => Edit::of(egress, came, domain.vlan),
    };
    Verdict::Send(port, edit)
}
