//! The flood of the demo's shield: datagrams from sources that nobody has.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::SERVER;
use crate::error::Error;
use crate::status::Status;

/// Sends until its standard input ends, no faster than [`RATE`]; prints how many packets that
/// were, and in how many milliseconds.
///
/// # Errors
/// When there is no socket.
pub fn flood() -> Result<Status, Error> {
    let raw = raw()?;
    let (start, mut sent) = (Instant::now(), 0_u64);
    while !is_over()? {
        if sent as f64 > start.elapsed().as_secs_f64() * RATE as f64 {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        for _ in 0..32 {
            // A full queue of the host's own interface is no packet sent.
            sent += u64::from(send(&raw, &packet(source(sent))).is_ok());
        }
    }
    println!("{sent} {}", start.elapsed().as_millis());
    Ok(Status::Success)
}

/// Whether standard input has ended: nobody writes to it.
fn is_over() -> std::io::Result<bool> {
    let stdin = std::io::stdin();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&at_once))? > 0)
}

/// A socket for IPv4 packets that have their header with them (raw(7)).
fn raw() -> std::io::Result<OwnedFd> {
    Ok(socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?)
}

fn send(raw: &OwnedFd, packet: &[u8]) -> std::io::Result<usize> {
    Ok(sendto(raw, packet, SendFlags::empty(), &SocketAddrV4::new(SERVER, 0))?)
}

/// The `n`th, each another: of 96.0.0.0/3, and in no order.
fn source(n: u64) -> Ipv4Addr {
    Ipv4Addr::from(0x6000_0000 | (n as u32).wrapping_mul(0x9e37_79b1) & 0x1fff_ffff)
}

/// UDP from there to nobody's port. The kernel writes identification and checksum.
fn packet(source: Ipv4Addr) -> [u8; LEN] {
    let mut packet = [0; LEN];
    packet[..4].copy_from_slice(&[0x45, 0, 0, LEN as u8]);
    (packet[8], packet[9]) = (64, UDP);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&SERVER.octets());
    packet[20..28].copy_from_slice(&[0x0f, 0xa0, 0, 9, 0, (LEN - 20) as u8, 0, 0]);
    packet
}

/// Packets a second: few enough to leave two cores time for the rest of the demo.
pub const RATE: u64 = 50_000;
const UDP: u8 = 17;
const LEN: usize = 46;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_comes_twice() {
        let all: std::collections::HashSet<_> = (0..1 << 16).map(source).collect();
        assert_eq!(all.len(), 1 << 16);
        assert!(all.iter().all(|ip| (96..128).contains(&ip.octets()[0])));
    }
}
