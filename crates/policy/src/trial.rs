//! Asks a policy about a capture's packets: frames of plain packets become what a
//! Gatekeeper would send and a Grantor's worker would find out.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ggu::{Flow, Verdict};
use wire::ipip::{self, Tunnel4, Tunnel6};
use wire::{checksum, ethernet, ipv4, ipv6, protocol, vlan};

use crate::ask::{Facts, Matter, Question};

/// A packet as it asks: encapsulated, with what a worker has found out about it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose it is.
    pub flow: Flow,
    /// What a worker has found out.
    pub facts: Facts,
    frame: Vec<u8>,
}

/// Why no policy is asked about a frame. A Grantor counts its drops by the same names.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Left {
    /// It holds no IP packet.
    NotIp,
    /// The header has another version than the frame says.
    Version,
    /// The header is cut off, or its lengths cannot be.
    Length,
    /// The IPv4 header's checksum is wrong.
    Checksum,
    /// The source is no sender's.
    Source,
    /// The extension headers are cut off, too many, or in a wrong order.
    Extensions,
    /// The packet is IP in IP.
    Nested,
}

impl Left {
    /// Its name: that of the Grantor's counter, where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Left::NotIp => "not_ip",
            Left::Version => "inner_version",
            Left::Length => "inner_length",
            Left::Checksum => "inner_checksum",
            Left::Source => "inner_source",
            Left::Extensions => "inner_extensions",
            Left::Nested => "nested",
        }
    }
}

impl Request {
    /// Of an Ethernet frame with a packet, whose end may be missing: captures are cut. It
    /// asks with the priority of a new flow.
    ///
    /// # Errors
    /// Where the frame holds no IP packet, or one that a Grantor drops before it asks. The
    /// networks that a Grantor serves are not known here.
    pub fn of(frame: &[u8]) -> Result<Self, Left> {
        let be16 = |at| be16(frame, at).ok_or(Left::NotIp);
        let mut at = ethernet::LEN;
        let mut ethertype = be16(ethernet::ETHERTYPE)?;
        for _ in 0..vlan::MAX_TAGS {
            if matches!(ethertype, ethernet::VLAN | ethernet::QINQ) {
                ethertype = be16(at + 2)?;
                at += vlan::LEN;
            }
        }
        let inner = frame.get(at..).ok_or(Left::NotIp)?;
        let version = match ethertype {
            ethernet::IPV4 => 4,
            ethernet::IPV6 => 6,
            _ => return Err(Left::NotIp),
        };
        match inner.first() {
            None => Err(Left::Length),
            Some(first) if first >> 4 != version => Err(Left::Version),
            Some(_) if version == 4 => Self::of_ipv4(inner),
            Some(_) => Self::of_ipv6(inner),
        }
    }

    /// The question, as a worker puts it.
    pub fn question(&self, id: u32) -> Question<'_> {
        Question { id, matter: Matter::Packet, facts: self.facts, bytes: &self.frame }
    }

    fn of_ipv4(inner: &[u8]) -> Result<Self, Left> {
        let view = ipv4::View::quoted(inner).map_err(|_| Left::Length)?;
        let tunnel = Tunnel4::new(GATEKEEPER, GRANTOR);
        let outer = inner.first_chunk().and_then(|head| tunnel.header(NEW, head));
        let outer = outer.ok_or(Left::Length)?;
        if !checksum::is_right(view.header()) {
            return Err(Left::Checksum);
        }
        if !ipv4::is_source(view.src().octets()) {
            return Err(Left::Source);
        }
        if is_ip(view.protocol()) {
            return Err(Left::Nested);
        }
        let upper = usize::from(view.total_len()) - view.header().len();
        let found = Found {
            ethertype: ethernet::IPV4,
            l4_proto: view.protocol(),
            outer_ecn: outer[ipv4::TOS] & 3,
            frag: view.is_fragment(),
            upper_len: upper as u16,
            header: view.header().len(),
        };
        let flow = Flow::V4 { src: view.src(), dst: view.dst() };
        let len = view.header().len() + view.payload().len();
        Ok(Self::new(flow, &found, &outer, &inner[..len]))
    }

    fn of_ipv6(inner: &[u8]) -> Result<Self, Left> {
        let view = ipv6::View::quoted(inner).map_err(|_| Left::Length)?;
        let tunnel = Tunnel6::new(GATEKEEPER_6, GRANTOR_6, ipip::HOP_LIMIT);
        let outer = inner.first_chunk().and_then(|head| tunnel.header(NEW, head));
        let outer = outer.ok_or(Left::Length)?;
        if !ipv6::is_source(view.src().to_bits()) {
            return Err(Left::Source);
        }
        let chain = view.chain().map_err(|_| Left::Extensions)?;
        if is_ip(chain.protocol) {
            return Err(Left::Nested);
        }
        let found = Found {
            ethertype: ethernet::IPV6,
            l4_proto: chain.protocol,
            outer_ecn: outer[1] >> 4 & 3,
            frag: chain.fragment.is_some(),
            // `chain.at` is inside what is there of the payload.
            upper_len: view.payload_len() - chain.at as u16,
            header: ipv6::LEN + chain.at,
        };
        let flow = Flow::V6 { src: view.src(), dst: view.dst() };
        let len = ipv6::LEN + view.payload().len();
        Ok(Self::new(flow, &found, &outer, &inner[..len]))
    }

    fn new(flow: Flow, found: &Found, outer: &[u8], inner: &[u8]) -> Self {
        let mut frame = vec![0; ethernet::LEN];
        frame[ethernet::ETHERTYPE..].copy_from_slice(&found.ethertype.to_be_bytes());
        frame.extend_from_slice(outer);
        let inner_l3 = frame.len();
        frame.extend_from_slice(inner);
        let facts = Facts {
            outer_ethertype: found.ethertype,
            inner_ethertype: found.ethertype,
            l4_proto: found.l4_proto,
            priority: NEW,
            outer_ecn: found.outer_ecn,
            frag: found.frag,
            upper_len: found.upper_len,
            outer_l3: ethernet::LEN as u16,
            inner_l3: inner_l3 as u16,
            // A header and its extensions are far shorter than 64 KiB: eight of at most 2 KiB.
            l4: (inner_l3 + found.header) as u16,
        };
        Request { flow, facts, frame }
    }
}

struct Found {
    ethertype: u16,
    l4_proto: u8,
    outer_ecn: u8,
    frag: bool,
    upper_len: u16,
    header: usize,
}

/// A decision in words. The parameters of the programs that Gatekeepers bring are named;
/// those of others are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub &'a Verdict);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |cookie: &[u8; 64], i: usize| {
            u32::from_le_bytes([
                cookie[4 * i],
                cookie[4 * i + 1],
                cookie[4 * i + 2],
                cookie[4 * i + 3],
            ])
        };
        match self.0 {
            Verdict::Declined { expire_s } => write!(f, "declined for {expire_s} s, built in"),
            Verdict::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms } => write!(
                f,
                "granted {rate_kib} KiB/s for {expire_s} s, renewal after {next_renewal_ms} ms, \
                 then every {renewal_step_ms} ms, built in"
            ),
            Verdict::Program { expire_s, index: 0, cookie } => write!(
                f,
                "granted {} KiB/s for {expire_s} s, renewal after {} ms, then every {} ms",
                word(cookie, 0),
                word(cookie, 1),
                word(cookie, 2)
            ),
            Verdict::Program { expire_s, index: 1, .. } => write!(f, "declined for {expire_s} s"),
            Verdict::Program { expire_s, index: index @ (2 | 3), cookie } => write!(
                f,
                "{} {} and {} KiB/s for {expire_s} s, renewal after {} ms, then every {} ms{}",
                if *index == 2 { "grantedv2" } else { "web" },
                word(cookie, 0),
                word(cookie, 1),
                word(cookie, 2),
                word(cookie, 3),
                if cookie[16] == 0 { "" } else { ", direct" }
            ),
            Verdict::Program { expire_s, index, cookie } => {
                write!(f, "program {index} for {expire_s} s, with ")?;
                let len = cookie.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                cookie[..len].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

fn is_ip(protocol: u8) -> bool {
    matches!(protocol, protocol::IPIP | protocol::IPV6)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// A policy of the usual shape, to try things with: sources that cannot be, by `lpmlib`;
/// fragments and short headers; web servers; echoes; the rest.
pub const USUAL: &str = include_str!("lua/usual.lua");

/// Behind a policy: it decides about all that come at once in one call.
pub const BATCH: &str = "
local one = lookup_policy
local lib = require 'gatekeeper/policylib'
function lookup_policy_batch(n)
  for i = 0, n - 1 do lib.forward[i] = one(lib.packets[i], lib.policies[i]) end
end
";

/// DSCP of a new flow's first packets.
const NEW: u8 = 41;
// Ends of the tunnel, of the ranges for documentation.
const GATEKEEPER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const GRANTOR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const GATEKEEPER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const GRANTOR_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

#[cfg(test)]
mod tests {
    use wire::build::Frame;
    use wire::vlan::Tag;

    use super::*;

    fn udp() -> Frame<'static> {
        let (src, dst) = ("192.0.2.1:7".parse().unwrap(), "203.0.113.5:53".parse().unwrap());
        Frame::udp4(src, dst).tos(3).payload(&[1, 2, 3, 4])
    }

    #[test]
    fn a_packet_asks_as_a_gatekeeper_would_send_it() {
        let whole = udp().pad_to(60).build(); // the link's padding
        let request = Request::of(&whole).expect("a packet");
        let question = request.question(4);
        let facts = question.facts;
        assert_eq!(
            (facts.l4_proto, facts.priority, facts.upper_len, facts.frag),
            (17, 41, 12, false)
        );
        assert_eq!((facts.outer_l3, facts.inner_l3, facts.l4), (14, 34, 54));
        // Congestion met before the tunnel is not congestion in it.
        assert_eq!((facts.outer_ecn, question.bytes[15]), (2, 41 << 2 | 2));
        assert_eq!(question.bytes[34..], whole[14..46]);
        let (src, dst) = request.flow.ends();
        assert_eq!((src.to_string(), dst.to_string()), ("192.0.2.1".into(), "203.0.113.5".into()));
        // Behind two tags, too.
        let tagged = udp().tag(Tag::outer(7)).tag(Tag::new(9)).build();
        assert_eq!(Request::of(&tagged).expect("a packet").facts, facts);
        // Of any length: no panic, and a cut packet keeps its true length.
        for cut in 0..whole.len() {
            let request = Request::of(&whole[..cut]);
            assert_eq!(request.is_ok(), cut >= 34, "{cut}");
            assert!(request.is_err() || request.is_ok_and(|one| one.facts.upper_len == 12));
        }
    }

    #[test]
    fn ipv6_headers_are_passed_over() {
        let (src, dst) = ("2600::1".parse().unwrap(), "2001:db8::5".parse().unwrap());
        let frame = Frame::ipv6(src, dst, 6).fragment(9, 0, true).payload(&[7; 12]).build();
        let facts = Request::of(&frame).expect("a packet").facts;
        assert_eq!((facts.inner_l3, facts.l4, facts.upper_len), (54, 102, 12));
        assert_eq!((facts.l4_proto, facts.frag), (6, true));
    }

    #[test]
    fn what_a_grantor_drops_is_left_out_by_name() {
        let v4 = |src: &str, protocol| {
            Frame::ipv4(src.parse().unwrap(), [203, 0, 113, 5].into(), protocol).payload(&[0; 24])
        };
        let v6 = |src: &str, protocol| {
            let dst = "2001:db8::5".parse().unwrap();
            Frame::ipv6(src.parse().unwrap(), dst, protocol).payload(&[0; 24])
        };
        let mut version = udp().build().to_vec();
        version[14] = 0x65;
        for (frame, name) in [
            (udp().wrong_ip_checksum().build().to_vec(), "inner_checksum"),
            (v4("127.0.0.1", 17).build().to_vec(), "inner_source"),
            (v4("239.1.1.1", 17).build().to_vec(), "inner_source"),
            (v6("fe80::9", 17).build().to_vec(), "inner_source"),
            (v6("::1", 17).build().to_vec(), "inner_source"),
            (v4("192.0.2.1", protocol::IPIP).build().to_vec(), "nested"),
            (v6("2600::1", protocol::IPV6).build().to_vec(), "nested"),
            (
                v6("2600::1", protocol::HOP_BY_HOP).payload(&[0, 9]).build().to_vec(),
                "inner_extensions",
            ),
            (udp().claim_len(19).build().to_vec(), "inner_length"),
            (version, "inner_version"),
            (Frame::other(0x88cc).payload(&[0; 50]).build().to_vec(), "not_ip"),
            (vec![0; 13], "not_ip"),
        ] {
            let left = Request::of(&frame).err().map(Left::name);
            assert_eq!(left, Some(name), "{frame:x?}");
        }
    }
}
