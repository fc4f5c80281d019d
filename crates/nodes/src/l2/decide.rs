//! Where a frame of a known domain goes, once the MAC table has answered.

use lookup::exact::Key;
use tables::bridge::{Bridges, DomainId, Egress};
use tables::macs::{ABSENT, entry_port};

use super::bridge_input::Came;
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
}

/// `key` and `came` as `bridge_input` left them; `from` is the port that the
/// frame came in by, `entry` the MAC table's answer.
#[inline(always)]
pub(super) fn decide(bridges: &Bridges, key: Key, came: Came, from: u16, entry: u16) -> Verdict {
    let Some(domain) = bridges.domain(DomainId(key.domain())) else {
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
    let edit = match egress {
        Egress::AsIs => Edit::Keep,
        egress => Edit::of(egress, came, domain.vlan),
    };
    Verdict::Send(port, edit)
}
