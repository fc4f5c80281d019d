//! `bridge_input`: finds the forwarding domain of each frame of a bridge's port,
//! and refuses frames that no station can have sent.
//!
//! ```text
//!                    ┌ Whole: one domain, tags are payload
//!  port ─► ingress ──┤                                       ─► key = destination · domain
//!                    └ ByTag: outermost tag, or untagged          key32 = how it came
//! ```
//!
//! | cost (reads a packet) | one line of the frame, cold |
//! |-----------------------|-----------------------------|
//!
//! Source: IEEE 802.1Q-2022 §6.9 (classification), §8.6 (the forwarding process),
//! §8.6.3 (reserved group addresses).

use lookup::exact::Key;
use std::sync::Arc;

use graph::{Live, Node, View, labels};
use tables::bridge::{Bridges, Domain, DomainId, Ingress};
use tables::{Forwarding, IfaceId};
use wire::bytes::{array, be16};
use wire::ethernet::{self, Mac};
use wire::vlan;

use crate::counters::DomainCounters;

labels! {
    /// Where frames go.
    pub enum To { Learn = "bridge_learn" }
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
        /// More than two tags.
        NestedTags = "nested_tags",
        /// To a link-local group (BPDUs and the like), which the bridge does not forward.
        LinkLocal = "link_local",
        /// The port has just left its bridge.
        NoBridge = "no_bridge",
    }
}

/// The node.
pub struct BridgeInput {
    forwarding: Arc<Forwarding>,
    counters: Arc<DomainCounters>,
}

impl BridgeInput {
    /// A node that classifies by `forwarding`, and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<DomainCounters>) -> Self {
        BridgeInput { forwarding, counters }
    }
}

impl Node for BridgeInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_input";
    const HELP: &'static str = "finds the forwarding domain by port and tag";
    const LIVE: Live = Live::KEY64.and(Live::KEY32).and(Live::IFACE);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let bridges = self.forwarding.bridges.load(v.guard());
        let ingress = bridges.ingress(v.port());
        let longest = longest(bridges, v.port());
        let mut run = Run::default();
        for i in 0..v.n() {
            let (head, len) = (v.head(i), v.len(i));
            match find(ingress, longest, head, len).and_then(|found| check(bridges, head, found)) {
                Ok(Found { domain, came }) => {
                    v.wide.key64[i] = Key::of(array(head, ethernet::DST), domain.0);
                    v.key32[i] = came as u32;
                    v.iface[i] = IfaceId::NONE.0;
                    v.leave(i, To::Learn);
                    run.add(&self.counters, domain, len);
                }
                Err(why) => v.drop(i, why),
            }
        }
        run.flush(&self.counters);
    }
}

/// The domain of a frame, and how it came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Found {
    pub domain: DomainId,
    pub came: Came,
}

/// What a frame's outermost tag is to its domain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Came {
    /// None, or payload.
    Untagged,
    /// The domain's.
    Tagged,
    /// One that says a priority and no VLAN.
    Priority,
}

impl Came {
    /// From the lane.
    #[inline(always)]
    pub(super) fn from_code(code: u32) -> Came {
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

/// Finds the domain of a frame that starts with `head`; at most `longest` bytes
/// are taken.
#[inline(always)]
fn find(ingress: &Ingress, longest: u16, head: &[u8; 64], len: u16) -> Result<Found, Why> {
    let untagged = ingress.untagged();
    let plain = !is_tag(be16(head, ethernet::ETHERTYPE)) & (untagged != DomainId::NONE);
    if plain && (SHORTEST..=longest).contains(&len) {
        return Ok(Found { domain: untagged, came: Came::Untagged });
    }
    if len > longest {
        return Err(Why::TooLong);
    }
    classify(ingress, head, len)
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
                outermost(head, len)?;
            }
            Ok(Found { domain: *domain, came: Came::Untagged })
        }
        Ingress::ByTag { untagged, tagged } => by_tag(*untagged, tagged, head, len),
        Ingress::Routed => Err(Why::NoBridge),
    }
}

fn by_tag(
    untagged: DomainId,
    by_vlan: &[DomainId],
    head: &[u8; 64],
    len: u16,
) -> Result<Found, Why> {
    let tagged = is_tag(be16(head, ethernet::ETHERTYPE));
    let vlan = if tagged { outermost(head, len)? } else { 0 };
    let (domain, came) = match vlan {
        // A priority tag says nothing of a VLAN (IEEE 802.1Q §6.9.1).
        0 => (untagged, if tagged { Came::Priority } else { Came::Untagged }),
        vlan => (by_vlan.get(usize::from(vlan)).copied().unwrap_or_default(), Came::Tagged),
    };
    if domain == DomainId::NONE { Err(Why::UnknownVlan) } else { Ok(Found { domain, came }) }
}

/// The VLAN of the outermost tag, after a look at those behind it.
fn outermost(head: &[u8; 64], len: u16) -> Result<u16, Why> {
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
        if tags > 2 {
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
        if mac.is_link_local() && !domain.is_some_and(|domain: &Domain| domain.forwards_link_local)
        {
            return Err(Why::LinkLocal);
        }
    }
    Ok(found)
}

#[inline(always)]
pub(super) fn is_tag(kind: u16) -> bool {
    kind == ethernet::VLAN || kind == ethernet::QINQ
}

/// Frames of one domain in a row, counted together.
#[derive(Default)]
struct Run {
    domain: DomainId,
    frames: u64,
    bytes: u64,
}

impl Run {
    #[inline(always)]
    fn add(&mut self, counters: &DomainCounters, domain: DomainId, len: u16) {
        if domain != self.domain {
            self.flush(counters);
            self.domain = domain;
        }
        self.frames += 1;
        self.bytes += u64::from(len);
    }

    fn flush(&mut self, counters: &DomainCounters) {
        let counter = counters.of(self.domain);
        counter.frames.add(std::mem::take(&mut self.frames));
        counter.bytes.add(std::mem::take(&mut self.bytes));
    }
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

    /// What becomes of one frame that came in by `port`.
    fn run(port: u16, frame: &[u8]) -> Result<Found, Why> {
        let (lan, mut head) = (Lan::new(), [0; 64]);
        let n = frame.len().min(64);
        head[..n].copy_from_slice(&frame[..n]);
        let mut thread = lan.domain.register("test");
        let bridges = lan.forwarding.bridges.load(thread.guard());
        let len = frame.len() as u16;
        let found = find(bridges.ingress(port), longest(bridges, port), &head, len);
        let found = found.and_then(|found| check(bridges, &head, found));
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
        assert_eq!(run(4, &frame(2, 1).tag(Tag::outer(20)).build()), found(3, Came::Tagged));
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
            assert_eq!(run(port, &deep), Err(Why::NestedTags));
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
    }
}
