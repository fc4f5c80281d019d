//! Why a packet goes to the kernel, and how many of each kind may.

/// Why a packet is punted. Its number travels in the `out` lane, and in the
/// ring's record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Class {
    /// ARP, and IPv6 neighbour and router discovery.
    ArpNd,
    /// To this machine, of a routing protocol: BGP, OSPF, BFD, VRRP, …
    Control,
    /// To this machine, anything else.
    ForUs,
    /// Multicast and broadcast, and what came in a broadcast frame.
    Multicast,
    /// TTL or hop limit is used up: the kernel answers with ICMP.
    TtlExceeded,
    /// Longer than the MTU: the kernel fragments, or answers with ICMP.
    TooBig,
    /// The neighbour's hardware address is not known: the kernel asks for it.
    NoNeighbour,
    /// The route leads through an interface that is not Rutter's.
    ViaKernel,
    /// No route, or an unreachable or prohibit route: the kernel answers with ICMP.
    Unreachable,
    /// IPv4 options: the kernel acts on them and forwards.
    Options,
    /// An EtherType or kind of frame that Rutter does not know.
    Unknown,
}

impl Class {
    /// All, by number.
    pub const ALL: [Class; 11] = [
        Class::ArpNd,
        Class::Control,
        Class::ForUs,
        Class::Multicast,
        Class::TtlExceeded,
        Class::TooBig,
        Class::NoNeighbour,
        Class::ViaKernel,
        Class::Unreachable,
        Class::Options,
        Class::Unknown,
    ];

    /// From the number in a lane or record.
    pub fn from_code(code: u16) -> Class {
        *Class::ALL.get(usize::from(code)).unwrap_or(&Class::Unknown)
    }

    /// The name in the configuration and in counters.
    pub fn name(self) -> &'static str {
        match self {
            Class::ArpNd => "arp_nd",
            Class::Control => "control",
            Class::ForUs => "for_us",
            Class::Multicast => "multicast",
            Class::TtlExceeded => "ttl_exceeded",
            Class::TooBig => "too_big",
            Class::NoNeighbour => "no_neighbour",
            Class::ViaKernel => "via_kernel",
            Class::Unreachable => "unreachable",
            Class::Options => "options",
            Class::Unknown => "unknown",
        }
    }

    /// Packets a second, where the configuration says nothing.
    pub fn default_rate(self) -> u32 {
        match self {
            Class::ArpNd => 2_000,
            Class::Control => 100_000,
            Class::ForUs | Class::Multicast | Class::ViaKernel => 10_000,
            Class::TtlExceeded | Class::TooBig | Class::NoNeighbour | Class::Unreachable => 1_000,
            Class::Options | Class::Unknown => 500,
        }
    }
}

/// Packets a second of each class that one worker may punt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rates([u32; Class::ALL.len()]);

impl Default for Rates {
    fn default() -> Self {
        Rates(Class::ALL.map(Class::default_rate))
    }
}

impl Rates {
    /// The rate of one class.
    pub fn get(&self, class: Class) -> u32 {
        self.0[class as usize]
    }

    /// Sets the rate of one class.
    pub fn set(&mut self, class: Class, per_second: u32) {
        self.0[class as usize] = per_second;
    }

    /// What each of `workers` may punt, so that together they keep to the rates.
    #[must_use]
    pub fn shared_by(&self, workers: u32) -> Rates {
        Rates(self.0.map(|rate| rate.div_ceil(workers.max(1))))
    }
}

/// A token bucket filled by the clock's ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Ticks that one packet costs.
    cost: u64,
    /// Most ticks that can be saved up.
    most: u64,
    saved: u64,
    then: u64,
}

impl Bucket {
    /// A full bucket of `per_second` packets; saved up are a tenth of a second
    /// or [`BURST`] packets, whichever is more.
    pub fn new(per_second: u32, hz: u64, now: u64) -> Bucket {
        let cost = if per_second == 0 { u64::MAX } else { (hz / u64::from(per_second)).max(1) };
        let most = cost.saturating_mul(u64::from(per_second / 10).max(BURST));
        let most = if per_second == 0 { 0 } else { most };
        Bucket { cost, most, saved: most, then: now }
    }

    /// True, and a packet is paid for, when there is enough.
    #[inline]
    pub fn take(&mut self, now: u64) -> bool {
        self.saved = self.saved.saturating_add(now.saturating_sub(self.then)).min(self.most);
        self.then = self.then.max(now);
        if self.saved < self.cost {
            return false;
        }
        self.saved -= self.cost;
        true
    }
}

/// Packets that may always come at once: a traceroute's, a burst of ARP.
const BURST: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_through_its_rate() {
        let hz = 1_000_000;
        let mut bucket = Bucket::new(1_000, hz, 0);
        let passed = (0..10 * hz).step_by(100).filter(|&now| bucket.take(now)).count();
        assert_eq!(passed, 10_000 + 100 - 1);
        let mut closed = Bucket::new(0, hz, 0);
        assert!(!closed.take(u64::MAX));
    }

    #[test]
    fn classes_have_their_numbers() {
        for (i, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!((class as usize, Class::from_code(i as u16)), (i, class));
        }
        assert_eq!(Rates::default().shared_by(3).get(Class::Unknown), 167);
    }
}
