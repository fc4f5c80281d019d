//! Frames for tests and generators: valid unless asked otherwise, written into
//! the caller's buffer.
//!
//! ```
//! use wire::build::Frame;
//! use wire::vlan::Tag;
//!
//! let (src, dst) = ("10.0.0.1:1000".parse()?, "10.0.1.2:53".parse()?);
//! let frame = Frame::udp4(src, dst).tag(Tag::new(100)).ttl(3).payload(b"hello").build();
//! assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 5);
//! # Ok::<(), core::net::AddrParseError>(())
//! ```

mod emit;

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use core::ops::Deref;

use crate::ethernet::Mac;
use crate::icmpv6::Neighbour;
use crate::ipv6::Fragment;
use crate::protocol::{ICMP, ICMPV6, NO_NEXT, TCP, UDP};
use crate::vlan::{MAX_TAGS, Tag};
use crate::{Error, arp, icmp, icmpv6, room, tcp};
use emit::put;

/// A frame to be built. Fields are those of a plain packet until changed: MAC
/// addresses `02:00:00:00:00:01` > `02:00:00:00:00:02`, no tag, TTL 64, "don't
/// fragment", no payload, right lengths and checksums.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    src_mac: Mac,
    dst_mac: Mac,
    tags: [Option<Tag>; MAX_TAGS + 1],
    network: Network,
    ttl: u8,
    tos: u8,
    fragment: Option<Fragment>,
    options: &'a [u8],
    extensions: [Option<(u8, [u8; 6])>; 4],
    upper: Upper<'a>,
    payload: &'a [u8],
    claimed_len: Option<u16>,
    min_len: usize,
    wrong_ip_checksum: bool,
    wrong_checksum: bool,
}

#[derive(Clone, Copy, Debug)]
enum Network {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
    Arp(arp::Header),
    Other(u16),
}

#[derive(Clone, Copy, Debug)]
enum Upper<'a> {
    Udp(u16, u16),
    Tcp(tcp::Header<'a>),
    Icmp(icmp::Header),
    Neighbour(Neighbour),
    Raw(u8),
}

impl<'a> Frame<'a> {
    /// A UDP datagram over IPv4.
    pub fn udp4(src: SocketAddrV4, dst: SocketAddrV4) -> Self {
        Frame::new(Network::V4(*src.ip(), *dst.ip()), Upper::Udp(src.port(), dst.port()))
    }

    /// A UDP datagram over IPv6.
    pub fn udp6(src: SocketAddrV6, dst: SocketAddrV6) -> Self {
        Frame::new(Network::V6(*src.ip(), *dst.ip()), Upper::Udp(src.port(), dst.port()))
    }

    /// A TCP segment over IPv4 with these [flags](crate::tcp).
    pub fn tcp4(src: SocketAddrV4, dst: SocketAddrV4, flags: u16) -> Self {
        let network = Network::V4(*src.ip(), *dst.ip());
        Frame::new(network, Upper::Tcp(segment(src.port(), dst.port(), flags)))
    }

    /// A TCP segment over IPv6 with these [flags](crate::tcp).
    pub fn tcp6(src: SocketAddrV6, dst: SocketAddrV6, flags: u16) -> Self {
        let network = Network::V6(*src.ip(), *dst.ip());
        Frame::new(network, Upper::Tcp(segment(src.port(), dst.port(), flags)))
    }

    /// An ICMP message; what follows its header is the payload.
    pub fn icmp4(src: Ipv4Addr, dst: Ipv4Addr, header: icmp::Header) -> Self {
        Frame::new(Network::V4(src, dst), Upper::Icmp(header))
    }

    /// An ICMPv6 message; what follows its header is the payload.
    pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, header: icmp::Header) -> Self {
        Frame::new(Network::V6(src, dst), Upper::Icmp(header))
    }

    /// An ICMP echo request.
    pub fn icmp4_echo(src: Ipv4Addr, dst: Ipv4Addr, ident: u16, sequence: u16) -> Self {
        Frame::icmp4(src, dst, icmp::Header::echo(icmp::ECHO_REQUEST, ident, sequence))
    }

    /// An ICMPv6 echo request.
    pub fn icmp6_echo(src: Ipv6Addr, dst: Ipv6Addr, ident: u16, sequence: u16) -> Self {
        Frame::icmp6(src, dst, icmp::Header::echo(icmpv6::ECHO_REQUEST, ident, sequence))
    }

    /// A neighbour solicitation or advertisement, with the hop limit that it must have.
    pub fn neighbour(src: Ipv6Addr, dst: Ipv6Addr, message: Neighbour) -> Self {
        Frame::new(Network::V6(src, dst), Upper::Neighbour(message)).ttl(255)
    }

    /// An IPv4 packet of any protocol.
    pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Self {
        Frame::new(Network::V4(src, dst), Upper::Raw(protocol))
    }

    /// An IPv6 packet of any protocol.
    pub fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8) -> Self {
        Frame::new(Network::V6(src, dst), Upper::Raw(protocol))
    }

    /// An ARP packet; a request goes to the broadcast address.
    pub fn arp(header: arp::Header) -> Self {
        let request = header.operation == arp::REQUEST;
        let dst = if request { Mac::BROADCAST } else { header.target_mac };
        Frame::new(Network::Arp(header), Upper::Raw(NO_NEXT)).macs(header.sender_mac, dst)
    }

    /// A frame of any EtherType, the payload behind it.
    pub fn other(ethertype: u16) -> Self {
        Frame::new(Network::Other(ethertype), Upper::Raw(NO_NEXT))
    }

    /// Sets the MAC addresses.
    pub fn macs(mut self, src: Mac, dst: Mac) -> Self {
        (self.src_mac, self.dst_mac) = (src, dst);
        self
    }

    /// Adds a tag inside those already there.
    ///
    /// # Panics
    /// At the fourth.
    pub fn tag(mut self, tag: Tag) -> Self {
        *self.tags.iter_mut().find(|tag| tag.is_none()).expect("at most three tags") = Some(tag);
        self
    }

    /// Sets time to live or hop limit.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets differentiated services and ECN, or the traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Makes it a fragment at `offset` (bytes, a multiple of eight). One that is
    /// not the first has no upper-layer header, only the payload. The first's
    /// checksum covers what it carries itself.
    pub fn fragment(mut self, ident: u32, offset: u16, more: bool) -> Self {
        self.fragment = Some(Fragment { offset, more, ident });
        self
    }

    /// Sets the IPv4 header's options: a multiple of four bytes, at most 40.
    pub fn options(mut self, options: &'a [u8]) -> Self {
        self.options = options;
        self
    }

    /// Adds an IPv6 extension header of eight bytes: `kind`, and the six bytes
    /// behind next header and length.
    ///
    /// # Panics
    /// At the fifth.
    pub fn extension(mut self, kind: u8, content: [u8; 6]) -> Self {
        let free = self.extensions.iter_mut().find(|extension| extension.is_none());
        *free.expect("at most four extension headers") = Some((kind, content));
        self
    }

    /// Sets what the packet carries.
    pub fn payload(mut self, payload: &'a [u8]) -> Self {
        self.payload = payload;
        self
    }

    /// Pads the frame with zeros up to `len` bytes, as Ethernet does up to
    /// [`ethernet::MIN_FRAME`](crate::ethernet::MIN_FRAME).
    pub fn pad_to(mut self, len: usize) -> Self {
        self.min_len = len;
        self
    }

    /// Writes a wrong total length (IPv4) or payload length (IPv6).
    pub fn claim_len(mut self, len: u16) -> Self {
        self.claimed_len = Some(len);
        self
    }

    /// Spoils the IPv4 header's checksum.
    pub fn wrong_ip_checksum(mut self) -> Self {
        self.wrong_ip_checksum = true;
        self
    }

    /// Spoils the upper layer's checksum.
    pub fn wrong_checksum(mut self) -> Self {
        self.wrong_checksum = true;
        self
    }

    /// Writes the frame and returns its length.
    ///
    /// # Errors
    /// When the buffer is too short, or a field cannot be written.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut at = self.emit_link(buffer)?;
        at += match self.network {
            Network::V4(src, dst) => self.emit_ipv4(src, dst, &mut buffer[at..])?,
            Network::V6(src, dst) => self.emit_ipv6(src, dst, &mut buffer[at..])?,
            Network::Arp(header) => header.emit(&mut buffer[at..])?,
            Network::Other(_) => put(self.payload, &mut buffer[at..])?,
        };
        room(buffer, at.max(self.min_len), "frame")?[at..].fill(0);
        Ok(at.max(self.min_len))
    }

    /// The frame in a buffer of its own.
    ///
    /// # Panics
    /// When [`Frame::emit`] into [`Buffer::ROOM`] bytes fails: a mistake in the
    /// test or generator.
    pub fn build(&self) -> Buffer {
        let mut buffer = Buffer { bytes: [0; Buffer::ROOM], len: 0 };
        buffer.len = self.emit(&mut buffer.bytes).expect("the frame can be built");
        buffer
    }

    fn new(network: Network, upper: Upper<'a>) -> Self {
        Frame {
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            tags: [None; MAX_TAGS + 1],
            network,
            ttl: 64,
            tos: 0,
            fragment: None,
            options: &[],
            extensions: [None; 4],
            upper,
            payload: &[],
            claimed_len: None,
            min_len: 0,
            wrong_ip_checksum: false,
            wrong_checksum: false,
        }
    }
}

impl Upper<'_> {
    fn protocol(&self, v6: bool) -> u8 {
        match self {
            Upper::Udp(..) => UDP,
            Upper::Tcp(_) => TCP,
            Upper::Icmp(_) | Upper::Neighbour(_) if v6 => ICMPV6,
            Upper::Icmp(_) | Upper::Neighbour(_) => ICMP,
            Upper::Raw(protocol) => *protocol,
        }
    }
}

/// A built frame.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    bytes: [u8; Buffer::ROOM],
    len: usize,
}

impl Buffer {
    /// Bytes that a frame may have; longer ones are [emitted](Frame::emit) into
    /// the caller's buffer.
    pub const ROOM: usize = 2048;
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A segment as in the middle of a connection.
fn segment(src: u16, dst: u16, flags: u16) -> tcp::Header<'static> {
    tcp::Header { src, dst, flags, window: 0xffff, ..tcp::Header::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::HOP_BY_HOP;
    use crate::vlan::Stack;
    use crate::{ethernet, ipv4, ipv6, udp};

    fn a4() -> (SocketAddrV4, SocketAddrV4) {
        ("10.0.0.1:1000".parse().unwrap(), "10.0.1.2:53".parse().unwrap())
    }

    fn a6() -> (SocketAddrV6, SocketAddrV6) {
        ("[2001:db8::1]:1000".parse().unwrap(), "[2001:db8:1::2]:53".parse().unwrap())
    }

    fn ip(frame: &[u8]) -> &[u8] {
        &frame[Stack::parse(frame).unwrap().payload_at()..]
    }

    #[test]
    fn lengths_and_checksums_are_right() {
        let (src, dst) = a4();
        let frame = Frame::udp4(src, dst).payload(b"odd").pad_to(60).build();
        assert_eq!(frame.len(), 60);
        let packet = ipv4::View::new(ip(&frame)).unwrap();
        assert!(packet.checksum_ok());
        let datagram = udp::View::new(packet.payload()).unwrap();
        assert!(datagram.checksum_ok4(*src.ip(), *dst.ip()));
        assert_eq!(datagram.payload(), b"odd");

        let (src, dst) = a6();
        let frame = Frame::tcp6(src, dst, tcp::SYN).extension(HOP_BY_HOP, [5, 2, 0, 0, 1, 0]);
        let frame = frame.tag(Tag::outer(7)).tag(Tag::new(100)).build();
        let packet = ipv6::View::new(ip(&frame)).unwrap();
        let (chain, segment) = packet.upper().unwrap();
        assert!(chain.hop_by_hop && chain.protocol == TCP);
        let segment = tcp::View::new(segment).unwrap();
        assert!(segment.checksum_ok6(*src.ip(), *dst.ip()));
        assert_eq!(segment.flags(), tcp::SYN);
        let tags = Stack::parse(&frame).unwrap();
        assert_eq!(tags.tags(), [Tag::outer(7), Tag::new(100)]);
    }

    #[test]
    fn messages_are_readable() {
        let (src, dst) = (*a6().0.ip(), *a6().1.ip());
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        let kind = icmpv6::NEIGHBOUR_SOLICITATION;
        let message = Neighbour { kind, flags: 0, target: dst, mac };
        let frame = Frame::neighbour(src, dst, message).build();
        let packet = ipv6::View::new(ip(&frame)).unwrap();
        assert_eq!(packet.hop_limit(), 255);
        assert!(icmpv6::checksum_ok(src, dst, packet.payload()));
        assert_eq!(Neighbour::parse(packet.payload()), Ok(message));

        let header = arp::Header {
            operation: arp::REQUEST,
            sender_mac: Mac([2, 0, 0, 0, 0, 9]),
            sender_ip: *a4().0.ip(),
            target_mac: Mac::default(),
            target_ip: *a4().1.ip(),
        };
        let frame = Frame::arp(header).build();
        assert_eq!(ethernet::Header::parse(&frame).unwrap().dst, Mac::BROADCAST);
        assert_eq!(arp::Header::parse(ip(&frame)), Ok(header));
    }

    #[test]
    fn what_is_spoilt_is_wrong_and_nothing_else() {
        let (src, dst) = a4();
        let frame = Frame::udp4(src, dst).wrong_checksum().build();
        let packet = ipv4::View::new(ip(&frame)).unwrap();
        assert!(packet.checksum_ok());
        assert!(!udp::View::new(packet.payload()).unwrap().checksum_ok4(*src.ip(), *dst.ip()));
        let frame = Frame::udp4(src, dst).wrong_ip_checksum().build();
        assert!(!ipv4::View::new(ip(&frame)).unwrap().checksum_ok());
        let frame = Frame::udp4(src, dst).claim_len(300).build();
        assert!(ipv4::View::new(ip(&frame)).is_err());
        assert!(ipv4::View::quoted(ip(&frame)).unwrap().checksum_ok());
    }

    #[test]
    fn fragments_carry_payload_behind_the_first() {
        let (src, dst) = a4();
        let frame = Frame::udp4(src, dst).fragment(7, 16, true).payload(&[9; 8]).build();
        let packet = ipv4::View::new(ip(&frame)).unwrap();
        assert_eq!((packet.offset(), packet.ident(), packet.payload()), (16, 7, &[9; 8][..]));
        let (src, dst) = a6();
        let frame = Frame::udp6(src, dst).fragment(7, 16, false).payload(&[9; 5]).build();
        let (chain, payload) = ipv6::View::new(ip(&frame)).unwrap().upper().unwrap();
        assert_eq!(chain.fragment, Some(Fragment { offset: 16, more: false, ident: 7 }));
        assert_eq!((chain.protocol, payload), (UDP, &[9; 5][..]));
    }

    proptest! {
        #[test]
        fn a_short_buffer_is_an_error_not_a_panic(room in 0_usize..140, v6: bool, tags in 0_usize..3,
                                                  fragment: bool) {
            let mut frame = if v6 {
                Frame::udp6(a6().0, a6().1).extension(HOP_BY_HOP, [1, 4, 0, 0, 0, 0])
            } else {
                Frame::udp4(a4().0, a4().1).options(&[1; 8])
            };
            for _ in 0..tags {
                frame = frame.tag(Tag::new(5));
            }
            if fragment {
                frame = frame.fragment(1, 0, true);
            }
            let frame = frame.payload(&[0; 20]);
            let whole = frame.build();
            let mut buffer = std::vec![0; room];
            prop_assert_eq!(frame.emit(&mut buffer).is_ok(), room >= whole.len());
        }
    }
}
