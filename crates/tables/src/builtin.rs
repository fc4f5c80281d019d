//! Prefixes that every VRF has from the start, by the RFCs.

use lookup::{Addr, Hop, Prefix};

use crate::hops::fixed;
use crate::net::number;

/// What the kernel's routes may change inside a built-in prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Override {
    /// Nothing.
    Never,
    /// Addresses of this machine and broadcast: packets for the kernel.
    ForUs,
    /// A route for the prefix, or inside it.
    Routes,
}

/// A built-in prefix.
pub(crate) struct Builtin {
    text: &'static str,
    hop: Hop,
    by: Override,
}

impl Builtin {
    fn prefix<A: Addr>(&self) -> Option<Prefix<A>> {
        let (addr, len) = self.text.split_once('/')?;
        Some(Prefix::covering(number(addr.parse().ok()?)?, len.parse().ok()?))
    }
}

const fn builtin(text: &'static str, hop: Hop, by: Override) -> Builtin {
    Builtin { text, hop, by }
}

const BUILTIN: [Builtin; 10] = [
    // "This network": RFC 1122 §3.2.1.3 (a): must not be sent to.
    builtin("0.0.0.0/8", fixed::MARTIAN, Override::Never),
    // Loopback must not appear outside a host: RFC 1122 §3.2.1.3 (g).
    builtin("127.0.0.0/8", fixed::MARTIAN, Override::Never),
    // Link-local: a router must not forward it (RFC 3927 §2.7), but may own an
    // address of it.
    builtin("169.254.0.0/16", fixed::MARTIAN, Override::ForUs),
    builtin("224.0.0.0/4", fixed::MULTICAST, Override::Never),
    // Class E: should not be forwarded (RFC 1812 §5.3.7); who routes it means it.
    builtin("240.0.0.0/4", fixed::MARTIAN, Override::Routes),
    // Limited broadcast is never forwarded (RFC 1812 §5.3.5.1); the kernel hears it.
    builtin("255.255.255.255/32", fixed::MULTICAST, Override::Never),
    // Unspecified and loopback: RFC 4291 §2.5.2, §2.5.3.
    builtin("::/128", fixed::MARTIAN, Override::Never),
    builtin("::1/128", fixed::MARTIAN, Override::Never),
    // Link-local: RFC 4291 §2.5.6; ours are for the kernel (neighbour discovery).
    builtin("fe80::/10", fixed::MARTIAN, Override::ForUs),
    builtin("ff00::/8", fixed::MULTICAST, Override::Never),
];

/// One of a family, parsed.
pub(crate) type Parsed<A> = (Prefix<A>, Hop, Override);

/// Those of a family.
pub(crate) fn of<A: Addr>() -> Vec<Parsed<A>> {
    BUILTIN.iter().filter_map(|b| Some((b.prefix()?, b.hop, b.by))).collect()
}

/// The built-in prefix that covers `prefix`.
pub(crate) fn covering<A: Addr>(list: &[Parsed<A>], prefix: &Prefix<A>) -> Option<Parsed<A>> {
    // The longest counts: 255.255.255.255 inside 240/4.
    list.iter().filter(|(outer, ..)| outer.covers(prefix)).max_by_key(|b| b.0.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_prefixes() {
        let (v4, v6) = (of::<u32>(), of::<u128>());
        assert_eq!(v4.len() + v6.len(), BUILTIN.len());
        let host = Prefix::covering(u32::MAX, 32);
        assert_eq!(covering(&v4, &host).unwrap().1, fixed::MULTICAST);
        assert!(covering(&v4, &Prefix::covering(0x0a00_0000, 8)).is_none());
    }
}
