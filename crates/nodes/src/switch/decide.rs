//! Where a frame of a known domain goes, once the MAC table has answered.

use tables::bridge::Bridges;
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
    /// The value that `bridge_input` wrote.
    pub found: Found,
    /// The port that it came in by.
    pub from: u16,
    /// Its first bytes.
    pub head: &'v [u8; 64],
    pub len: u16,
}

impl Frame<'_> {
    /// Does it fit through `port` after this edit? As for routed packets, two tags do
    /// not count; a third one, which a tunnel's frame has on a trunk, does: the port
    /// at the other end would cut it off.
    #[inline(always)]
    pub(super) fn fits(&self, bridges: &Bridges, port: u16, edit: Edit) -> bool {
        self.len <= bridges.fits_all || self.payload(edit) <= usize::from(bridges.mtu(port))
    }

    /// Bytes behind link header and two tags, once the edit is done.
    #[cold]
    fn payload(&self, edit: Edit) -> usize {
        let kind = |tag: usize| be16(self.head, ethernet::LEN - 2 + tag * vlan::LEN);
        let tags = (0..=vlan::MAX_TAGS).take_while(|&tag| is_tag(kind(tag))).count();
        let untagged = usize::from(self.len).saturating_sub(ethernet::LEN + tags * vlan::LEN);
        let tags = match edit {
            Edit::Push(_) => tags + 1,
            Edit::Pop => tags.saturating_sub(1),
            Edit::Keep | Edit::Name(_) => tags,
        };
        untagged + tags.saturating_sub(vlan::MAX_TAGS) * vlan::LEN
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
    let edit = Edit::of(egress, came, domain.vlan);
    if frame.fits(bridges, port, edit) { Verdict::Send(port, edit) } else { Verdict::TooLong }
}
