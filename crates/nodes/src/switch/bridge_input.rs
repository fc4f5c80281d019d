//! `bridge_input`: finds the forwarding domain of each frame of a bridge's port,
//! and refuses frames that no station can have sent.
//!
//! ```text
//!                    ┌ Whole: one domain, tags are payload
//!  port ─► ingress ──┤                                       ─► Destination: address · domain
//!                    └ ByTag: outermost tag, or untagged          Arrived: domain, and how
//! ```
//!
//! | cost (reads a packet) | one line of the frame, cold          |
//! |-----------------------|--------------------------------------|
//! | untagged              | one branch for all checks, no call   |
//! | tagged                | a call, and a look behind each tag   |
//!
//! Source: IEEE 802.1Q-2022 §6.9 (classification), §8.6 (the forwarding process),
//! §8.6.3 (reserved group addresses).

use lookup::exact::Key;
use std::sync::Arc;

use graph::{Node, View, labels};
use tables::bridge::{Bridges, Domain, DomainId, Ingress};
use tables::switch::Sighting;
use tables::{Forwarding, IfaceId};
use wire::bytes::{array, be16};
use wire::ethernet::{self, Mac};
use wire::vlan;

use super::lanes::{Arrived, Code, Destination};
use super::loops::{self, Loops};
use crate::counters::DomainCounters;
use crate::lanes::Iface;

labels! {
    /// Where frames go.
    pub enum To { Learn = "bridge_learn" carries [Destination, Arrived, Iface] }
}

labels! {
    /// Why frames are dropped.
    pub enum Why {
        /// Shorter than its link header.
        Runt = "runt",
        /// Longer than the port's MTU allows; its device may have cut it off.
        TooLong = "too_long",
        /// From a group address, or from 00:00:00:00:00:00: nobody's.
        BadSource = "bad_source",
        /// To the station that it comes from.
        ToItself = "to_itself",
        /// The port does not take frames of this VLAN, or none without a tag.
        UnknownVlan = "unknown_vlan",
        /// VLAN 4095, which IEEE 802.1Q reserves.
        ReservedVlan = "reserved_vlan",
        /// More than two tags, not counting the bridge's own, which a trunk looks at.
        NestedTags = "nested_tags",
        /// Its outermost tag is a service provider's (0x88a8), whose VLANs are others
        /// than the bridge's: tunnels and plain bridges pass it, access ports and
        /// trunks do not.
        ServiceTag = "service_tag",
        /// To a reserved group (PAUSE, LACP, BPDUs and the like) that the bridge does not forward.
        LinkLocal = "link_local",
        /// The port has just left its bridge.
        NoBridge = "no_bridge",
        /// The port has been taken out of its bridge: there is a loop behind it
        /// (`rutter show bridges`).
        Loop = "loop",
    }
}

/// The node.
pub struct BridgeInput {
    forwarding: Arc<Forwarding>,
    counters: Arc<DomainCounters>,
    loops: Arc<Loops>,
}

impl BridgeInput {
    /// A node that classifies by `forwarding`, counts in `counters`, and looks for probes of
    /// `loops` where a port is out.
    pub fn new(
        forwarding: Arc<Forwarding>,
        counters: Arc<DomainCounters>,
        loops: Arc<Loops>,
    ) -> Self {
        BridgeInput { forwarding, counters, loops }
    }
}

impl Node for BridgeInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_input";
    const HELP: &'static str = "finds the forwarding domain by port and tag";

    fn process(&mut self, v: &mut View<'_, Self>) {
        let bridges = self.forwarding.bridges.load(v.guard());
        let untagged = Untagged::of(bridges, v.port());
        let n = v.n();
        v.leave_all(To::Learn);
        v.fill(Iface, IfaceId::NONE);
        v.fill(Arrived, untagged.found.code());
        let (mut frames, mut bytes) = (0, 0);
        for i in 0..n {
            let (head, len) = (v.head(i), v.len(i));
            if untagged.is_plain(head, len) {
                let key = key(head, untagged.found.domain);
                v.set(Destination, i, key);
                (frames, bytes) = (frames + 1, bytes + u64::from(len));
            } else {
                self.other(v, i, bridges);
            }
        }
        self.count(untagged.found.domain, frames, bytes);
    }
}

impl BridgeInput {
    /// Frames with a tag, and those that nobody sends.
    #[inline(never)]
    fn other(&self, v: &mut View<'_, Self>, i: usize, bridges: &Bridges) {
        match find(bridges, v.port(), v.head(i), v.len(i)) {
            Ok(found) => {
                let key = key(v.head(i), found.domain);
                v.set(Destination, i, key);
                v.set(Arrived, i, found.code());
                self.count(found.domain, 1, v.len(i).into());
            }
            Err(why) => v.drop(i, why),
        }
        if let Ingress::Out(ingress) = bridges.ingress(v.port()) {
            self.look(v, i, ingress);
        }
    }

    /// Is the loop still there that the port was taken out for?
    fn look(&self, v: &View<'_, Self>, i: usize, ingress: &Ingress) {
        let (port, head, len) = (v.port(), v.head(i), v.len(i));
        if let Ok(found) = classify(ingress, head, len) {
            let (domain, tag) = (found.domain, found.tag());
            let frame = loops::Frame { port, domain, tag, head, len };
            if let Some(sender) = self.loops.sender(frame, v.now()) {
                self.loops.note(Sighting { port, sender, domain });
            }
        }
    }

    #[inline(always)]
    fn count(&self, domain: DomainId, frames: u64, bytes: u64) {
        let counter = self.counters.of(domain);
        counter.frames.add(frames);
        counter.bytes.add(bytes);
    }
}

/// The common facts about frames of a port without a tag.
struct Untagged {
    found: Found,
    /// The least length, and how much more there may be; none fits where the port
    /// takes no such frames.
    shortest: u16,
    spare: u16,
}

impl Untagged {
    fn of(bridges: &Bridges, port: u16) -> Untagged {
        let domain = bridges.ingress(port).untagged();
        let found = Found { domain, came: Came::Untagged };
        let longest = if domain == DomainId::NONE { 0 } else { longest(bridges, port) };
        match longest.checked_sub(SHORTEST) {
            Some(spare) => Untagged { found, shortest: SHORTEST, spare },
            None => Untagged { found, shortest: u16::MAX, spare: 0 },
        }
    }

    /// True for frames that need no closer look: [`find`] gives `found` for them.
    /// All conditions at once, for one branch.
    #[inline(always)]
    fn is_plain(&self, head: &[u8; 64], len: u16) -> bool {
        let dst = u64::from_le_bytes(array(head, ethernet::DST));
        let src = u64::from_le_bytes(array(head, ethernet::SRC)); // and the EtherType
        let kind = (src >> 48) as u16;
        (len.wrapping_sub(self.shortest) <= self.spare)
            & (kind != ethernet::VLAN.swap_bytes())
            & (kind != ethernet::QINQ.swap_bytes())
            & (src & GROUP == 0)
            & (src << 16 != 0)
            & ((src ^ dst) << 16 != 0)
            & (dst & LINK_LOCAL_MASK != LINK_LOCAL)
    }
}

/// The key of a frame's destination in the MAC table.
#[inline(always)]
pub(super) fn key(head: &[u8; 64], domain: DomainId) -> Key {
    Key::new(u64::from_be_bytes(array(head, ethernet::DST)) >> 16, domain.0)
}

/// The domain of a frame, and how it came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Found {
    pub domain: DomainId,
    pub came: Came,
}

impl Found {
    /// The value of the lane.
    #[inline(always)]
    pub(super) fn code(self) -> Code {
        Code::from(u32::from(self.domain.0) | (self.came as u32) << 16)
    }

    /// Bytes of the bridge's own tag.
    pub(super) fn tag(self) -> usize {
        if self.came == Came::Untagged { 0 } else { vlan::LEN }
    }

    /// From the lane.
    #[inline(always)]
    pub(super) fn from_code(code: Code) -> Found {
        let code = u32::from(code);
        Found { domain: DomainId(code as u16), came: Came::from_code(code >> 16) }
    }
}

/// The meaning of a frame's outermost tag to its domain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Came {
    /// None, or payload.
    Untagged,
    /// The domain's.
    Tagged,
    /// A tag with a priority and no VLAN.
    Priority,
}

impl Came {
    #[inline(always)]
    fn from_code(code: u32) -> Came {
        match code {
            0 => Came::Untagged,
            1 => Came::Tagged,
            _ => Came::Priority,
        }
    }
}

/// The bytes of the longest frame that a port takes: devices hand over what its
/// MTU allows with two tags, whether there are tags or not; longer ones cut off.
fn longest(bridges: &Bridges, port: u16) -> u16 {
    bridges.mtu(port).saturating_add((ethernet::LEN + vlan::MAX_TAGS * vlan::LEN) as u16)
}

/// Finds the domain of a frame that came in by `port`, and checks that it is one
/// that a bridge forwards.
fn find(bridges: &Bridges, port: u16, head: &[u8; 64], len: u16) -> Result<Found, Why> {
    if len > longest(bridges, port) {
        return Err(Why::TooLong);
    }
    let found = classify(bridges.ingress(port), head, len)?;
    check(bridges, head, found)
}

/// Finds it by the tags.
#[inline(never)]
pub(super) fn classify(ingress: &Ingress, head: &[u8; 64], len: u16) -> Result<Found, Why> {
    if usize::from(len) < ethernet::LEN {
        return Err(Why::Runt);
    }
    match ingress {
        Ingress::Whole(domain) => {
            if is_tag(be16(head, ethernet::ETHERTYPE)) {
                outermost(head, len, vlan::MAX_TAGS)?;
            }
            Ok(Found { domain: *domain, came: Came::Untagged })
        }
        Ingress::ByTag { untagged, tagged } => by_tag(*untagged, tagged, head, len),
        Ingress::Routed => Err(Why::NoBridge),
        Ingress::Out(_) => Err(Why::Loop),
    }
}

fn by_tag(
    untagged: DomainId,
    by_vlan: &[DomainId],
    head: &[u8; 64],
    len: u16,
) -> Result<Found, Why> {
    let kind = be16(head, ethernet::ETHERTYPE);
    let tagged = is_tag(kind);
    // The domain's own tag, and those that a tunnel has taken as payload.
    let vlan = if tagged { outermost(head, len, 1 + vlan::MAX_TAGS)? } else { 0 };
    if kind == ethernet::QINQ {
        return Err(Why::ServiceTag);
    }
    let (domain, came) = match vlan {
        // A priority tag names no VLAN (IEEE 802.1Q §6.9.1).
        0 => (untagged, if tagged { Came::Priority } else { Came::Untagged }),
        vlan => (by_vlan.get(usize::from(vlan)).copied().unwrap_or_default(), Came::Tagged),
    };
    if domain == DomainId::NONE { Err(Why::UnknownVlan) } else { Ok(Found { domain, came }) }
}

/// The VLAN of the outermost tag, after a look at those behind it: at `most` so many.
fn outermost(head: &[u8; 64], len: u16, most: usize) -> Result<u16, Why> {
    let mut end = ethernet::LEN;
    let mut tags = 0;
    while is_tag(be16(head, end - 2)) {
        end += vlan::LEN;
        tags += 1;
        if end > usize::from(len) {
            return Err(Why::Runt);
        }
        if be16(head, end - 4) & vlan::ID_MASK == RESERVED {
            return Err(Why::ReservedVlan);
        }
        if tags > most {
            return Err(Why::NestedTags);
        }
    }
    Ok(be16(head, ethernet::LEN) & vlan::ID_MASK)
}

/// Is the frame one that a bridge forwards?
#[inline(always)]
fn check(bridges: &Bridges, head: &[u8; 64], found: Found) -> Result<Found, Why> {
    let dst = u64::from_le_bytes(array(head, ethernet::DST)) & MAC;
    let src = u64::from_le_bytes(array(head, ethernet::SRC)) & MAC;
    if src & GROUP != 0 || src == 0 {
        return Err(Why::BadSource);
    }
    if src == dst {
        return Err(Why::ToItself);
    }
    if dst & LINK_LOCAL_MASK == LINK_LOCAL {
        let domain = bridges.domain(found.domain);
        let mac = Mac(array(head, ethernet::DST));
        let passes = |domain: &Domain| domain.link_local.passes(mac.0[5]);
        if mac.is_link_local() && !domain.is_some_and(passes) {
            return Err(Why::LinkLocal);
        }
    }
    Ok(found)
}

#[inline(always)]
pub(super) fn is_tag(kind: u16) -> bool {
    kind == ethernet::VLAN || kind == ethernet::QINQ
}

const SHORTEST: u16 = ethernet::LEN as u16;
/// The six bytes of a MAC address in a little-endian number.
const MAC: u64 = 0xffff_ffff_ffff;
/// The group bit in such a number.
const GROUP: u64 = 1;
/// 01:80:c2:00:00:.. in such a number.
const LINK_LOCAL: u64 = 0xc2_80_01;
const LINK_LOCAL_MASK: u64 = 0xff_ffff_ffff;
/// IEEE 802.1Q-2022 table 9-2.
const RESERVED: u16 = 4095;

#[cfg(test)]
mod tests {
    use super::super::testbed::{Lan, frame};
    use super::*;
    use wire::vlan::Tag;

    /// Decides about one frame that came in by `port`.
    fn run(port: u16, frame: &[u8]) -> Result<Found, Why> {
        let (lan, mut head) = (Lan::new(), [0; 64]);
        let n = frame.len().min(64);
        head[..n].copy_from_slice(&frame[..n]);
        let mut thread = lan.domain.register("test");
        let bridges = lan.forwarding.bridges.load(thread.guard());
        let len = frame.len() as u16;
        let found = find(bridges, port, &head, len);
        let untagged = Untagged::of(bridges, port);
        if untagged.is_plain(&head, len) {
            assert_eq!(found, Ok(untagged.found), "the short way finds what the long one does");
        }
        thread.quiesce();
        found
    }

    fn found(domain: u16, came: Came) -> Result<Found, Why> {
        Ok(Found { domain: DomainId(domain), came })
    }

    #[test]
    fn a_plain_bridge_takes_every_frame_as_it_is() {
        assert_eq!(run(0, &frame(2, 1).build()), found(1, Came::Untagged));
        assert_eq!(run(0, &frame(2, 1).tag(Tag::new(7)).build()), found(1, Came::Untagged));
        let two = frame(2, 1).tag(Tag::outer(5)).tag(Tag::new(6)).build();
        assert_eq!(run(0, &two), found(1, Came::Untagged));
    }

    #[test]
    fn tags_choose_the_domain() {
        // Port 3: access to VLAN 10; port 4: trunk of 10 and 20, native 10.
        assert_eq!(run(3, &frame(2, 1).build()), found(2, Came::Untagged));
        assert_eq!(run(3, &frame(2, 1).tag(Tag::new(0)).build()), found(2, Came::Priority));
        assert_eq!(run(3, &frame(2, 1).tag(Tag::new(20)).build()), Err(Why::UnknownVlan));
        assert_eq!(run(4, &frame(2, 1).build()), found(2, Came::Untagged));
        assert_eq!(run(4, &frame(2, 1).tag(Tag::new(10)).build()), found(2, Came::Tagged));
        assert_eq!(run(4, &frame(2, 1).tag(Tag::new(20)).build()), found(3, Came::Tagged));
        for vlan in [0, 10, 20] {
            let two = frame(2, 1).tag(Tag::outer(vlan)).tag(Tag::new(20)).build();
            for frame in [frame(2, 1).tag(Tag::outer(vlan)).build(), two] {
                assert_eq!(run(3, &frame), Err(Why::ServiceTag));
                assert_eq!(run(4, &frame), Err(Why::ServiceTag));
            }
        }
        let two = frame(2, 1).tag(Tag::new(20)).tag(Tag::outer(7)).build();
        assert_eq!(run(4, &two), found(3, Came::Tagged), "below the bridge's tag it is payload");
        assert_eq!(run(4, &frame(2, 1).tag(Tag::new(30)).build()), Err(Why::UnknownVlan));
    }

    #[test]
    fn frames_that_nobody_sends_are_dropped_by_name() {
        let whole = frame(2, 1).tag(Tag::new(10)).build();
        for len in 0..14 {
            assert_eq!(run(0, &whole[..len]), Err(Why::Runt), "{len}");
        }
        for len in 14..18 {
            assert_eq!(run(4, &whole[..len]), Err(Why::Runt), "{len}");
        }
        for port in [0, 4] {
            let to = |dst: [u8; 6], src: [u8; 6]| frame(2, 1).macs(Mac(src), Mac(dst)).build();
            assert_eq!(run(port, &to([2; 6], [0; 6])), Err(Why::BadSource));
            assert_eq!(run(port, &to([2; 6], [3; 6])), Err(Why::BadSource));
            assert_eq!(run(port, &to([2; 6], [2; 6])), Err(Why::ToItself));
            let reserved = frame(2, 1).tag(Tag::new(4095)).build();
            assert_eq!(run(port, &reserved), Err(Why::ReservedVlan));
            let deep = frame(2, 1).tag(Tag::new(10)).tag(Tag::new(10)).tag(Tag::new(10)).build();
            let below_own = if port == 4 { found(2, Came::Tagged) } else { Err(Why::NestedTags) };
            assert_eq!(run(port, &deep), below_own);
            let deeper = [&deep[..16], &deep[12..]].concat();
            assert_eq!(run(port, &deeper), Err(Why::NestedTags));
        }
        assert_eq!(run(6, &frame(2, 1).build()), Err(Why::NoBridge));
    }

    #[test]
    fn frames_longer_than_the_mtu_allows_are_dropped() {
        let of = |payload: usize| {
            let payload = vec![0; payload];
            frame(2, 1).payload(&payload).build()
        };
        assert_eq!(run(1, &of(1500)), found(1, Came::Untagged));
        assert_eq!(run(1, &of(1508)), found(1, Came::Untagged), "two tags, as payload");
        assert_eq!(run(1, &of(1509)), Err(Why::TooLong));
        assert_eq!(run(0, &of(1900)), found(1, Came::Untagged));
    }

    #[test]
    fn link_local_groups_go_where_the_bridge_says() {
        let bpdu = |last| {
            let mac = Mac([1, 0x80, 0xc2, 0, 0, last]);
            frame(2, 1).macs(Mac([2, 0, 0, 0, 0, 1]), mac).build()
        };
        assert_eq!(run(0, &bpdu(0)), Err(Why::LinkLocal));
        assert_eq!(run(0, &bpdu(0x10)), found(1, Came::Untagged));
        assert_eq!(run(4, &bpdu(0)), found(2, Came::Untagged), "the VLAN bridge forwards them");
        for last in [0x1, 0x2, 0x4, 0xe] {
            assert_eq!(run(4, &bpdu(last)), Err(Why::LinkLocal), "and not {last:x}");
        }
    }
}
