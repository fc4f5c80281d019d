//! The edges and drops of `grantor`.

use graph::labels;

use crate::lanes::{Dst4, Dst6, Iface, OutPort};

labels! {
    /// Where packets go.
    pub enum To {
        Lookup4 = "ip4_lookup" carries [Dst4, Iface],
        /// The same for IPv6.
        Lookup6 = "ip6_lookup" carries [Dst6, Iface],
        /// The edge of messages.
        Output = "output" carries [OutPort, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The policy declined.
        Denied = "denied",
        /// There was room to wait only for packets of a higher priority.
        Full = "full",
        /// The packet waited for a verdict for the longest time allowed.
        Overdue = "overdue",
        /// A copy that asked for a renewal; the original has gone on.
        Copied = "copied",
        /// A copy from a shield in shadow mode, now decided.
        Shadow = "shadow",
        /// The outer header reports congestion, and the inner packet cannot carry that: RFC 6040.
        Congested = "congested",
        /// There is no room for a link header.
        NoRoom = "no_headroom",
        /// The port that the packet came in by is gone.
        NoPort = "no_port",
        /// A message that no route takes.
        NoWay = "no_way",
        /// A fragment that is empty, too long, or not a multiple of 8 bytes though others follow it.
        FragmentLength = "fragment_length",
        /// Fragments whose packet would exceed the longest packet.
        FragmentLong = "fragment_long",
        /// A fragment that has arrived already.
        FragmentAgain = "fragment_again",
        /// The first fragment ends within the header that a filter reads: RFC 1858 §3.2.1, RFC 7112 §5.
        FragmentTiny = "fragment_tiny",
        /// A fragment whose bytes have gone on in the joined packet.
        FragmentJoined = "fragment_joined",
        /// Fragments of a packet with overlapping fragments: RFC 5722.
        FragmentOverlap = "fragment_overlap",
        /// Fragments of a packet with too many fragments.
        FragmentMany = "fragment_many",
        /// Fragments whose packet was incomplete when its time was over.
        FragmentLate = "fragment_late",
        /// Fragments that were shed: they made room, or found none.
        FragmentFull = "fragment_full",
        /// The worker stops.
        Stopped = "stopped",
    }
}
