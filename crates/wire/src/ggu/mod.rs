//! Decisions of a Grantor for a Gatekeeper (GGU): what each flow may do, in a UDP
//! datagram.
//!
//! ```text
//!  IPv4 or IPv6 │ UDP 41120 > 45232 │ 1  │ 0  │  0  │ decision │ decision …  to the end
//!                                   0    1    2     4
//! ```
//!
//! There is no count, no authentication and no answer. A receiver is strict: each check
//! has its own [`Refusal`]. A decision that is refused ends the message, and those before
//! it hold. Nothing is copied but a cookie's bytes, and nothing is allocated.
//!
//! ```
//! use wire::ggu::{Decision, Flow, Message, Ports, Verdict, Writer};
//!
//! let (grantor, gatekeeper) = ("10.0.2.9".parse()?, "10.0.2.1".parse()?);
//! let flow = Flow::V4 { src: "10.0.1.2".parse()?, dst: "203.0.113.5".parse()? };
//! let declined = Decision { flow, verdict: Verdict::Declined { expire_s: 60 } };
//! let mut buffer = [0; 128];
//! let mut writer = Writer::new(&mut buffer, grantor, gatekeeper, Ports::default())?;
//! writer.push(&declined)?;
//! let packet = writer.finish();
//!
//! let message = Message::receive(packet, Ports::default(), |to| to == gatekeeper)?;
//! assert_eq!(message.from, grantor);
//! assert!(message.decisions().eq([Ok(declined)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decision;
mod refusal;
#[cfg(test)]
mod tests;
mod writer;

use core::net::IpAddr;

pub use decision::{COOKIE_LEN, Decision, Flow, MAX_LEN, Verdict};
pub use refusal::Refusal;
pub use writer::Writer;

use crate::bytes::be16;
use crate::checksum::Sum;
use crate::protocol::{FRAGMENT, UDP};
use crate::{ipv4, ipv6, udp};

/// What a message begins with: the version, and reserved bytes.
pub const HEADER: [u8; 4] = [VERSION, 0, 0, 0];
/// The one version there is.
pub const VERSION: u8 = 1;

/// The UDP ports of both ends; a receiver demands both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ports {
    /// The sender's.
    pub src: u16,
    /// The receiver's.
    pub dst: u16,
}

impl Default for Ports {
    /// 41120 and 45232, as deployed.
    fn default() -> Self {
        Ports { src: 0xa0a0, dst: 0xb0b0 }
    }
}

/// A message that passed all checks but those of its decisions.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The Grantor's address.
    pub from: IpAddr,
    decisions: &'a [u8],
}

impl<'a> Message<'a> {
    /// Checks an IP packet, from its header to the end of what was received: the link's
    /// padding belongs to it, and is refused. `ours` says whether an address is one that
    /// listens.
    ///
    /// The order is from the outside in, so that each check reads what those before it
    /// made sure of. The checksum of an IPv4 header is the caller's to check (`ip4_input` does).
    ///
    /// # Errors
    /// The first check that failed.
    pub fn receive(
        packet: &'a [u8],
        ports: Ports,
        ours: impl FnOnce(IpAddr) -> bool,
    ) -> Result<Self, Refusal> {
        let datagram = Datagram::new(packet)?;
        if !ours(datagram.to) {
            return Err(Refusal::NotForUs);
        }
        let payload = datagram.payload(ports)?;
        let Some((header, decisions)) = payload.split_first_chunk::<4>() else {
            return Err(Refusal::MessageCutOff);
        };
        if header[0] != VERSION {
            return Err(Refusal::Version);
        }
        if *header != HEADER {
            return Err(Refusal::Reserved);
        }
        Ok(Message { from: datagram.from, decisions })
    }

    /// The decisions in their order.
    pub fn decisions(&self) -> Decisions<'a> {
        Decisions(self.decisions)
    }
}

/// Walks the decisions of a message; one that is refused is the last item. What was not
/// walked yet stays for another time.
#[derive(Clone, Copy, Debug)]
pub struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    /// Decisions without the header of the message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decisions(bytes)
    }

    /// The next, where some bytes are left: what [`Iterator::next`] returns, where it is read.
    ///
    /// # Errors
    /// The first check that failed; nothing is left then.
    pub fn read(&mut self) -> Result<Decision, Refusal> {
        Decision::read(&mut self.0)
    }

    /// Bytes that are still to be read.
    pub fn left(&self) -> usize {
        self.0.len()
    }
}

impl Iterator for Decisions<'_> {
    type Item = Result<Decision, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.read())
    }
}

/// A UDP datagram whose IP header is right.
struct Datagram<'a> {
    from: IpAddr,
    to: IpAddr,
    /// The datagram by the length in the IP header.
    udp: &'a [u8],
    /// Bytes behind the IP header that were received.
    received: usize,
    pseudo: Sum,
}

impl<'a> Datagram<'a> {
    fn new(packet: &'a [u8]) -> Result<Self, Refusal> {
        match packet.first().map(|first| first >> 4) {
            Some(6) => Datagram::v6(packet),
            _ => Datagram::v4(packet),
        }
    }

    fn v4(packet: &'a [u8]) -> Result<Self, Refusal> {
        let view = ipv4::View::new(packet).map_err(|_| Refusal::Malformed)?;
        if view.protocol() != UDP {
            return Err(Refusal::NotUdp);
        }
        if view.is_fragment() {
            return Err(Refusal::Fragment);
        }
        let udp = view.payload();
        let pseudo = Sum::pseudo4(view.src(), view.dst(), UDP, udp.len() as u16);
        let received = packet.len() - view.header().len();
        Ok(Datagram { from: view.src().into(), to: view.dst().into(), udp, received, pseudo })
    }

    /// No extension header is read: the deployed sender has none, and a fragment is no
    /// message.
    fn v6(packet: &'a [u8]) -> Result<Self, Refusal> {
        let view = ipv6::View::new(packet).map_err(|_| Refusal::Malformed)?;
        match view.next_header() {
            UDP => {}
            FRAGMENT => return Err(Refusal::Fragment),
            _ => return Err(Refusal::NotUdp),
        }
        let udp = view.payload();
        let pseudo = Sum::pseudo6(view.src(), view.dst(), UDP, udp.len() as u32);
        let received = packet.len() - ipv6::LEN;
        Ok(Datagram { from: view.src().into(), to: view.dst().into(), udp, received, pseudo })
    }

    /// What the datagram carries. The checksum is summed over bytes whose number three
    /// lengths agree on: UDP's, IP's, and what was received.
    fn payload(&self, ports: Ports) -> Result<&'a [u8], Refusal> {
        let Some((header, payload)) = self.udp.split_first_chunk::<{ udp::LEN }>() else {
            return Err(Refusal::Length);
        };
        if be16(header, udp::SRC) != ports.src || be16(header, udp::DST) != ports.dst {
            return Err(Refusal::Ports);
        }
        let len = usize::from(be16(header, udp::LENGTH));
        if len != self.udp.len() || len != self.received {
            return Err(Refusal::Length);
        }
        // RFC 768 lets a sender do without; this receiver does not.
        if be16(header, udp::CHECKSUM) == 0 {
            return Err(Refusal::NoChecksum);
        }
        if !self.pseudo.bytes(self.udp).is_right() {
            return Err(Refusal::BadChecksum);
        }
        Ok(payload)
    }
}
