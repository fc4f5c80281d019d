//! The defended network of the demo: a web server, and a stand-in for a Grantor before it. It
//! grants what TCP connections to the server come from, and declines all else.
//!
//! ```text
//!  IP-in-IP ─► raw socket ─┬ granted, or of a flow that is ─► the packet inside ─► server
//!                          └ a request ─► decision (UDP 41120 to 45232) to who sent it
//! ```

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::net::{RecvFlags, ipproto, recv};

use super::{GRANTOR, PAGE, SERVER, WEB, raw, send};
use crate::error::Error;
use crate::status::Status;

/// Serves and decides until it is ended.
///
/// # Errors
/// When there is no socket.
pub fn defend() -> Result<Status, Error> {
    let web = TcpListener::bind((SERVER, WEB))?;
    std::thread::spawn(move || {
        for client in web.incoming().flatten() {
            std::thread::spawn(move || serve(client));
        }
    });
    let (outside, inside) = (raw(ipproto::IPIP)?, raw(ipproto::RAW)?);
    let says = UdpSocket::bind((GRANTOR, FROM_PORT))?;
    let mut packet = [0; 65_536];
    loop {
        let received = recv(&outside, &mut packet[..], RecvFlags::empty());
        let (len, _) = received.map_err(std::io::Error::from)?;
        let Some(came) = Came::read(&packet[..len]) else { continue };
        let is_web = came.protocol == TCP;
        if came.dscp >= 2 {
            // What is lost is asked for again.
            let _ = says.send_to(&came.decision(is_web), (came.gatekeeper, TO_PORT));
        }
        if came.dscp < 2 || is_web {
            let _ = send(&inside, came.packet, came.destination);
        }
    }
}

fn serve(mut client: TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    let _ = client.read(&mut [0; 4096])?;
    client.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n")?;
    client.write_all(&[b'.'; PAGE])
}

/// A packet, and what was around it.
#[derive(Debug, Eq, PartialEq)]
struct Came<'p> {
    gatekeeper: Ipv4Addr,
    dscp: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    packet: &'p [u8],
}

impl Came<'_> {
    /// From an IPv4 packet with another inside.
    fn read(outer: &[u8]) -> Option<Came<'_>> {
        let packet = outer.get(20..)?;
        let head = packet.first_chunk::<20>()?;
        let address = |bytes: &[u8], at| {
            let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(four))
        };
        Some(Came {
            gatekeeper: address(outer, 12)?,
            dscp: outer[1] >> 2, // cannot panic: it has more than 20 bytes
            source: address(head, 12)?,
            destination: address(head, 16)?,
            protocol: head[9],
            packet,
        })
    }

    /// A message of one decision: a budget of 10 MiB a second for ten minutes, to be asked for
    /// again after five; or nothing, for ten.
    fn decision(&self, grant: bool) -> Vec<u8> {
        let mut message = vec![1, 0, 0, 0, if grant { 2 } else { 0 }, 0, 0, 0];
        message.extend(self.source.octets());
        message.extend(self.destination.octets());
        let (rate, end, again, step) = (10_240_u32, 600_u32, 300_000_u32, 1_000_u32);
        let words: &[u32] = if grant { &[rate, end, again, step] } else { &[end] };
        message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        message
    }
}

const FROM_PORT: u16 = 41_120;
const TO_PORT: u16 = 45_232;
const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_decided() {
        let mut outer =
            vec![0x45, 41 << 2, 0, 40, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 2, 1, 10, 0, 2, 2];
        assert_eq!(Came::read(&outer), None);
        let inner = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 1, 2, 203, 0, 113, 5];
        outer.extend(inner);
        let came = Came::read(&outer).unwrap();
        assert_eq!((came.dscp, came.protocol, came.packet), (41, TCP, &inner[..]));
        assert_eq!(came.gatekeeper, Ipv4Addr::new(10, 0, 2, 1));
        let flow = [10, 0, 1, 2, 203, 0, 113, 5];
        for (grant, kind, len) in [(true, 2, 28), (false, 0, 16)] {
            let said = came.decision(grant);
            assert_eq!((&said[..5], &said[8..16]), (&[1, 0, 0, 0, kind][..], &flow[..]));
            assert_eq!(said.len(), 4 + len);
        }
        assert_eq!(Came::read(&outer[..39]), None);
    }
}
