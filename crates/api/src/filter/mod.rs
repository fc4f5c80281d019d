//! Which packets a trace, a capture or a mirror takes: a subset of pcap's language as a
//! tree. The text ([`text`]) is parsed by clients, and by the daemon where it is in a
//! configuration; the tree is evaluated by the daemon.

pub mod text;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A condition on one packet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The address is source or destination, as `side` says.
    Host {
        /// Source, destination, either.
        side: Side,
        /// Which.
        address: IpAddr,
    },
    /// An address inside this network.
    Net {
        /// Source, destination, either.
        side: Side,
        /// Its first address.
        address: IpAddr,
        /// Its length in bits.
        length: u8,
    },
    /// A TCP, UDP or SCTP port from `first` to `last`.
    Port {
        /// Source, destination, either.
        side: Side,
        /// Lowest.
        first: u16,
        /// Highest.
        last: u16,
    },
    /// The protocol above IP (after IPv6 extension headers).
    Proto(u8),
    /// The EtherType after tags: 0x0800, 0x86dd, 0x0806 …
    Ether(u16),
    /// Any tag (`None`), or the outermost tag with this VLAN id.
    Vlan(Option<u16>),
    /// All of them; an empty list is true.
    And(Vec<Filter>),
    /// One of them; an empty list is false.
    Or(Vec<Filter>),
    /// The opposite.
    Not(Box<Filter>),
}

/// Which end of a packet a condition looks at.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Either end.
    #[default]
    Any,
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl Filter {
    /// How deep the tree is: evaluators refuse what is deeper than they go.
    pub fn depth(&self) -> usize {
        match self {
            Filter::And(all) | Filter::Or(all) => {
                1 + all.iter().map(Filter::depth).max().unwrap_or(0)
            }
            Filter::Not(inner) => 1 + inner.depth(),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_every_level() {
        let inner = Filter::Not(Box::new(Filter::Proto(1)));
        assert_eq!(Filter::And(vec![Filter::Ether(0x0800), inner]).depth(), 3);
        assert_eq!(Filter::Or(Vec::new()).depth(), 1);
    }
}
