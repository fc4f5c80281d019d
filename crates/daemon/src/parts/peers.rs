//! Finds the hosts that speak routing protocols with this machine, and publishes them to the
//! workers ([`tables::peers`]).
//!
//! | known by | what of it |
//! |---|---|
//! | a TCP session of BGP or LDP, in the taps' namespace (INET_DIAG) | itself, and its other end |
//! | a neighbour entry on a port's network that the kernel has confirmed | the neighbour, on that interface |
//! | `peers` in `[punt]` | the address, on any interface |
//!
//! A host that asks for our MAC address makes an entry, too, under any name; only an answer to the
//! kernel's own question confirms an entry. A confirmed entry is trusted as long as it stays.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use feeds::diag::Diag;
use nodes::out::SESSION_PORTS;
use tables::peers::Session;
use tables::{IfaceId, Peers};

use super::control::Handle;

/// The result of the last update.
pub struct Known {
    configured: Vec<(IfaceId, IpAddr)>,
    /// Opened at the first use, and again after an error.
    diag: Option<Diag>,
    sessions: Vec<Session>,
    confirmed: HashSet<(IfaceId, IpAddr)>,
    published: Peers,
    /// The failure to list sessions was reported.
    said: bool,
}

impl Known {
    /// Starts with these peers alone.
    pub fn new(configured: &[IpAddr]) -> Known {
        Known {
            configured: configured.iter().map(|ip| (IfaceId::NONE, *ip)).collect(),
            diag: None,
            sessions: Vec::new(),
            confirmed: HashSet::new(),
            published: Peers::default(),
            said: false,
        }
    }

    /// Updates the peers, for the network namespace of the calling thread.
    pub fn look(&mut self, control: &Handle) {
        match self.sessions() {
            Ok(sessions) => self.sessions = sessions,
            Err(error) => {
                self.diag = None;
                if !std::mem::replace(&mut self.said, true) {
                    tracing::warn!("sessions of routing daemons cannot be listed: {error}");
                }
            }
        }
        let Ok(resolved) = control.call(|control| control.resolved()) else { return };
        self.confirmed = confirmed(&self.confirmed, resolved);
        let hosts = self.confirmed.iter().chain(&self.configured).copied();
        let peers = Peers::new(self.sessions.iter().copied(), hosts);
        if peers != self.published {
            self.published = peers.clone();
            let _ = control.call(|control| control.forwarding().peers.publish(peers));
        }
    }

    fn sessions(&mut self) -> io::Result<Vec<Session>> {
        if self.diag.is_none() {
            self.diag = Some(Diag::open()?);
        }
        let diag = self.diag.as_mut();
        diag.map_or(Ok(Vec::new()), |diag| diag.sessions(&SESSION_PORTS))
    }
}

/// Of the resolved neighbours, those that are confirmed, or were before.
fn confirmed(
    before: &HashSet<(IfaceId, IpAddr)>,
    resolved: Vec<((IfaceId, IpAddr), bool)>,
) -> HashSet<(IfaceId, IpAddr)> {
    let stays = |(host, now): &((IfaceId, IpAddr), bool)| *now || before.contains(host);
    resolved.into_iter().filter(stays).map(|(host, _)| host).collect()
}

#[cfg(test)]
mod tests {
    use ::io::{Device, Pool, PoolConfig, mem};
    use graph::ring::frames;
    use lookup::sync::Domain;
    use nodes::assembly::Common;
    use nodes::switch::Bridging;
    use nodes::{Class, router_and_switch};
    use tables::event::{Event, Link, LinkId};
    use tables::{Control, Iface, Limits, VrfConfig};
    use wire::build::Frame;
    use wire::ethernet::Mac;

    use super::*;
    use crate::config::Config;
    use crate::parts::control::ControlThread;
    use crate::threads::Threads;

    /// From the file to the node that distinguishes peers from strangers.
    #[test]
    fn peers_of_the_file_are_no_strangers_to_the_node() {
        let text = "[ports.p0]\ndevice = \"mem\"\n\
                    [punt]\npeers = [\"198.51.100.9\", \"2001:db8::9\"]\n";
        let config = Config::parse("t", text).unwrap();
        let domain = Domain::new();
        let mut control = Control::new(&domain, Limits::default(), &VrfConfig::default()).unwrap();
        control.add_iface(Iface { name: "p0".into(), ..Iface::default() }).unwrap();
        let (index, name) = (LinkId(7), "p0".into());
        control.handle(&[Event::Link(Link {
            index,
            name,
            up: true,
            mtu: 1500,
            ..Link::default()
        })]);
        let forwarding = control.forwarding().clone();
        let (to_kernel, mut kernel) = frames::ring(1 << 16);
        let common = Common::alone(forwarding, (to_kernel, frames::ring(1 << 12).1), 1);
        let mut graph = router_and_switch(common, Bridging::none()).build(0).unwrap();
        let pool = Pool::new(&PoolConfig { packets: 256, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = mem::connect("p0", [2, 0, 0, 0, 0, 1], &pool);
        graph.ports().set(0, device.start(1).unwrap().remove(0));
        let mut reader = domain.register("test");
        let mut classes = || {
            for last in [9, 8] {
                let ospf = Frame::ipv4([198, 51, 100, last].into(), [224, 0, 0, 5].into(), 89);
                peer.push(&ospf.macs(Mac([2; 6]), Mac([1, 0, 0x5e, 0, 0, 5])).build());
            }
            while graph.poll(reader.guard()) > 0 {
                reader.quiesce();
            }
            reader.quiesce();
            let kinds = std::iter::from_fn(|| kernel.pop(|meta, _| meta.kind));
            kinds.map(Class::from_code).collect::<Vec<_>>()
        };
        assert_eq!(classes(), [Class::Strangers; 2], "nobody has looked");
        let control = ControlThread::start(control, &Threads::default()).unwrap();
        Known::new(&config.peers).look(&control.handle());
        assert_eq!(classes(), [Class::Control, Class::Strangers]);
    }

    #[test]
    fn who_asks_is_not_confirmed_and_who_was_stays_while_resolved() {
        let host = |last| (IfaceId(1), IpAddr::from([192, 0, 2, last]));
        let first = confirmed(&HashSet::new(), vec![(host(2), true), (host(3), false)]);
        assert_eq!(first, HashSet::from([host(2)]));
        let stale = confirmed(&first, vec![(host(2), false), (host(3), false)]);
        assert_eq!(stale, first);
        let gone = confirmed(&stale, vec![(host(3), false)]);
        assert!(gone.is_empty());
        assert!(confirmed(&gone, vec![(host(2), false)]).is_empty(), "as anybody else");
    }
}
