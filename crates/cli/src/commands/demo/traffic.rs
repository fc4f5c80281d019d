//! The traffic of the demo: UDP to many destinations, as fast as the kernel of a
//! host sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::status::Status;

/// Sends to the addresses in `file`, one after the other and again, and prints
/// how many packets that were.
///
/// # Errors
/// When the file cannot be read, or there is no socket.
pub fn send(file: &Path, seconds: u64) -> Result<Status, Error> {
    let text = std::fs::read_to_string(file)?;
    let targets = text.lines().filter_map(|line| line.parse::<IpAddr>().ok());
    let targets: Vec<SocketAddr> =
        targets.map(|address| SocketAddr::new(address, DISCARD)).collect();
    let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    let (start, end) = (Instant::now(), Duration::from_secs(seconds));
    let mut sent = 0_u64;
    while start.elapsed() < end && !targets.is_empty() {
        for part in targets.chunks(256) {
            for target in part {
                let socket = if target.is_ipv4() { &v4 } else { &v6 };
                // A full queue of the host's own interface is no packet sent.
                sent += u64::from(socket.send_to(&PAYLOAD, target).is_ok());
            }
            if start.elapsed() >= end {
                break;
            }
        }
    }
    println!("{sent}");
    Ok(Status::Success)
}

/// RFC 863.
const DISCARD: u16 = 9;
const PAYLOAD: [u8; 18] = [0; 18];
