//! Who speaks routing protocols with this machine: their packets go to the kernel
//! before strangers'.
//!
//! A small set that is replaced whole. An address on a packet is no proof: it may be
//! forged. A session is named by its ports, too, which a stranger has to guess.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::IfaceId;

/// A TCP session, as a packet from its other end names it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Session {
    /// The other end.
    pub remote: (IpAddr, u16),
    /// This machine's end.
    pub local: (IpAddr, u16),
}

/// The set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peers {
    sessions: HashSet<Session>,
    /// [`IfaceId::NONE`]: known on any interface.
    hosts: HashSet<(IfaceId, IpAddr)>,
}

impl Peers {
    /// These sessions, and these hosts: each on an interface, or on any where that is
    /// [`IfaceId::NONE`]. The other end of a session is a host known on any.
    pub fn new(
        sessions: impl IntoIterator<Item = Session>,
        hosts: impl IntoIterator<Item = (IfaceId, IpAddr)>,
    ) -> Peers {
        let sessions: HashSet<_> = sessions.into_iter().collect();
        let ends = sessions.iter().map(|session| (IfaceId::NONE, session.remote.0));
        let hosts = hosts.into_iter().chain(ends).collect();
        Peers { sessions, hosts }
    }

    /// Is there such a session?
    pub fn has(&self, session: &Session) -> bool {
        self.sessions.contains(session)
    }

    /// Is this a neighbour on `iface`, or a peer wherever it is?
    pub fn knows(&self, iface: IfaceId, host: IpAddr) -> bool {
        self.hosts.contains(&(iface, host)) || self.hosts.contains(&(IfaceId::NONE, host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_by_interface_and_ends_of_sessions_everywhere() {
        let ip = |last| IpAddr::from([192, 0, 2, last]);
        let session = Session { remote: (ip(9), 40_000), local: (ip(1), 179) };
        let peers = Peers::new([session], [(IfaceId(1), ip(2)), (IfaceId::NONE, ip(3))]);
        assert!(peers.has(&session));
        assert!(!peers.has(&Session { remote: (ip(9), 40_001), ..session }));
        assert!(peers.knows(IfaceId(1), ip(2)) && !peers.knows(IfaceId(2), ip(2)));
        assert!(peers.knows(IfaceId(7), ip(3)) && peers.knows(IfaceId(7), ip(9)));
        assert!(!peers.knows(IfaceId(1), ip(1)));
    }
}
