//! Keeps neighbours resolved that packets leave to without the kernel seeing them.
//!
//! The kernel forgets, or stops believing, a neighbour that it does not use
//! itself. Gateways of routes are therefore declared managed (`NTF_EXT_MANAGED`:
//! the kernel asks for them for ever, Linux 5.16), and hosts that the data plane
//! sent to are declared in use (`NTF_USE`: a stale one is asked for again). A
//! message with both flags leaves an older kernel with the second.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use netlink::names::*;
use netlink::request::{REPLACE, Request};
use tables::event::LinkId;
use tables::show::Gateway;

use super::socket::Socket;

/// Informs the kernel which neighbours are needed.
pub struct Keeper {
    socket: Socket,
    kept: HashSet<(LinkId, IpAddr)>,
    /// When all gateways were declared last.
    renewed: Option<Instant>,
}

impl Keeper {
    /// Opens a socket in the network namespace of this thread.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> io::Result<Keeper> {
        Ok(Keeper { socket: Socket::open()?, kept: HashSet::new(), renewed: None })
    }

    /// Call it about once a second with the gateways of routes
    /// ([`tables::Control::gateways`]), and now and then with the neighbours used
    /// since the last time ([`tables::Control::take_used`]).
    ///
    /// # Errors
    /// When the socket fails; what the kernel refuses (a link that just went) is
    /// passed over.
    pub fn tend(&mut self, gateways: &[Gateway], used: &[(LinkId, IpAddr)]) -> io::Result<()> {
        let renew = self.renewed.is_none_or(|at| at.elapsed() >= RENEW);
        if renew {
            self.renewed = Some(Instant::now());
        }
        let now: HashSet<_> = gateways.iter().map(|gateway| (gateway.link, gateway.ip)).collect();
        for gateway in gateways {
            let key = (gateway.link, gateway.ip);
            // One that the kernel does not know has lost its flag with its entry. One
            // that failed may have none, and then waits for a packet that never comes
            // to it: the kernel sends those of a route with several paths by others.
            if renew || !gateway.known || !self.kept.contains(&key) {
                self.declare(key, NTF_EXT_MANAGED)?;
            }
        }
        for key in self.kept.difference(&now).copied().collect::<Vec<_>>() {
            self.declare(key, 0)?; // in use, but managed no more
        }
        for key in used.iter().filter(|key| !now.contains(key)) {
            self.declare(*key, 0)?;
        }
        self.kept = now;
        self.socket.drain()
    }

    fn declare(&mut self, (link, ip): (LinkId, IpAddr), extended: u32) -> io::Result<()> {
        let (family, address) = match ip {
            IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
            IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
        };
        let mut body = vec![family, 0, 0, 0];
        body.extend(link.0.to_ne_bytes());
        // No state: what the kernel knows of it stays.
        body.extend([0, 0, NTF_USE, 0]);
        let request = Request::new(RTM_NEWNEIGH, REPLACE).body(&body).attr(NDA_DST, &address);
        self.socket.send(request.attr(NDA_FLAGS_EXT, &extended.to_ne_bytes()))
    }
}

/// Between declarations of all gateways: older kernels know only that they are
/// in use, and stop believing in one after 30 s.
const RENEW: Duration = Duration::from_secs(15);
