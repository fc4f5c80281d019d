//! What becomes of packets in `grantor`.

use graph::labels;

use crate::lanes::{Dst4, Dst6, Iface, OutPort};

labels! {
    /// Where packets go.
    pub enum To {
        Lookup4 = "ip4_lookup" carries [Dst4, Iface],
        /// The same of IPv6.
        Lookup6 = "ip6_lookup" carries [Dst6, Iface],
        /// Messages.
        Output = "output" carries [OutPort, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The policy says so.
        Denied = "denied",
        /// There was no room to wait, but for packets of a higher priority.
        Full = "full",
        /// It has waited for a verdict as long as it may.
        Overdue = "overdue",
        /// A copy that has asked for a renewal; the packet itself has gone on.
        Copied = "copied",
        /// A copy of a shadow's that has been decided.
        Shadow = "shadow",
        /// The way was congested, and the inner packet cannot say so: RFC 6040.
        Congested = "congested",
        /// No room for a link header.
        NoRoom = "no_headroom",
        /// The port that it came in by has gone.
        NoPort = "no_port",
        /// A message that no way takes.
        NoWay = "no_way",
        /// A fragment that is empty, or too long, or not of eights with others behind it.
        FragmentLength = "fragment_length",
        /// Fragments of a packet that is longer than a packet may be.
        FragmentLong = "fragment_long",
        /// A fragment that is here already.
        FragmentAgain = "fragment_again",
        /// The first of a packet's fragments ends within the header that a filter reads: RFC 1858
        /// §3.2.1, RFC 7112 §5.
        FragmentTiny = "fragment_tiny",
        /// A fragment whose bytes have gone on in the whole packet.
        FragmentJoined = "fragment_joined",
        /// Fragments of a packet of which some overlap: RFC 5722.
        FragmentOverlap = "fragment_overlap",
        /// Fragments of a packet that has too many.
        FragmentMany = "fragment_many",
        /// Fragments whose others did not come in time.
        FragmentLate = "fragment_late",
        /// Fragments that had to make room, or found none.
        FragmentFull = "fragment_full",
        /// The worker stops.
        Stopped = "stopped",
    }
}
