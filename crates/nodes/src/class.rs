//! The classes of punted packets, and their rates.

/// One class: its name in the configuration and in counters, and its rate.
#[derive(Clone, Copy, Debug)]
pub struct ClassCard {
    /// The name: the key in `[punt]`, and the reason of drops beyond its rate.
    pub name: &'static str,
    /// Its meaning, for the configuration.
    pub help: &'static str,
    /// Packets a second, by default.
    pub rate: u32,
    /// The same as text.
    pub rate_text: &'static str,
    /// The meaning of a drop of this class.
    pub beyond: &'static str,
}

/// The registry: a line of documentation, and `Class = name, rate, help for the
/// configuration`. Numbers, names, keys, buckets and drop reasons follow from it.
macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $class:ident = $name:literal, $rate:literal, $help:literal;)+) => {
        /// Why a packet is punted. Its number travels in a lane, and in the
        /// ring's record.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u8)]
        pub enum Class {
            $($(#[doc = $doc])+ $class,)+
        }

        impl Class {
            /// All, by number.
            pub const ALL: [Class; CLASSES] = [$(Class::$class),+];

            /// The description of each class, by number.
            pub const CARDS: [ClassCard; CLASSES] = [$(ClassCard {
                name: $name,
                help: $help,
                rate: $rate,
                rate_text: stringify!($rate),
                beyond: concat!("Beyond the rate `punt.", $name, "` of packets for the kernel"),
            }),+];
        }

        /// How many there are.
        pub(crate) const CLASSES: usize = [$($name),+].len();
    };
}

classes! {
    /// ARP and IPv6 neighbour discovery, of a known neighbour.
    ArpNd = "arp_nd", 2000, "ARP and neighbour discovery from known neighbours.";
    /// The same of others, and router discovery.
    NewNeighbours = "new_neighbours", 200, "ARP and neighbour discovery from others; router advertisements, redirects.";
    /// To this machine, of a TCP session of a routing protocol.
    Sessions = "sessions", 20000, "Established BGP and LDP sessions.";
    /// To this machine, of a routing protocol, from a known neighbour: OSPF, BFD, VRRP, …
    Control = "control", 5000, "Routing protocols from known neighbours: OSPF, BFD, VRRP, new BGP sessions.";
    /// The same from anybody else.
    Strangers = "strangers", 200, "Routing protocols from anybody else.";
    /// To this machine, anything else.
    ForUs = "for_us", 10000, "Other packets to this router's own addresses.";
    /// Multicast, broadcast, and packets that came in a broadcast frame.
    Multicast = "multicast", 10000, "Multicast and broadcast.";
    /// TTL or hop limit is used up: the kernel answers with ICMP.
    TtlExceeded = "ttl_exceeded", 1000, "Packets at the end of their TTL or hop limit: the kernel sends the ICMP error.";
    /// Longer than the MTU: the kernel fragments, or answers with ICMP.
    TooBig = "too_big", 1000, "Packets longer than the MTU: the kernel fragments them, or sends the ICMP error.";
    /// The neighbour's hardware address is not known: the kernel asks for it.
    NoNeighbour = "no_neighbour", 1000, "Packets to hosts whose hardware address is unknown (one a second to each host).";
    /// The route leads through an interface that is not Rutter's.
    ViaKernel = "via_kernel", 10000, "Packets whose route leads through an interface that is not Rutter's.";
    /// No route, or an unreachable or prohibit route: the kernel answers with ICMP.
    Unreachable = "unreachable", 1000, "Packets without a route, or with an unreachable or prohibit route.";
    /// IPv4 options: the kernel acts on them and forwards.
    Options = "options", 500, "IPv4 packets with options.";
    /// An EtherType or kind of frame that Rutter does not know.
    Unknown = "unknown", 500, "Packets of protocols that Rutter does not know.";
}

impl From<u16> for Class {
    #[inline(always)]
    fn from(code: u16) -> Class {
        Class::from_code(code)
    }
}

impl From<Class> for u16 {
    #[inline(always)]
    fn from(class: Class) -> u16 {
        class as u16
    }
}

impl Class {
    /// True for those that may fill the ring to the kernel thread: others leave them room.
    pub(crate) const fn comes_first(self) -> bool {
        matches!(self, Class::ArpNd | Class::Sessions | Class::Control)
    }

    /// From the number in a lane or record.
    pub fn from_code(code: u16) -> Class {
        *Class::ALL.get(usize::from(code)).unwrap_or(&Class::Unknown)
    }

    /// The name in the configuration and in counters.
    pub const fn name(self) -> &'static str {
        self.card().name
    }

    /// Its meaning.
    pub const fn card(self) -> &'static ClassCard {
        &Class::CARDS[self as usize]
    }
}

/// The drop reasons of a node that enforces the rates, with two `other` reasons, by code.
pub(crate) const fn reasons(other: [&'static str; 2]) -> [&'static str; CLASSES + 2] {
    let mut all = with(other);
    let mut i = 0;
    while i < CLASSES {
        all[i] = Class::CARDS[i].name;
        i += 1;
    }
    all
}

/// Their meanings.
pub(crate) const fn meanings(other: [&'static str; 2]) -> [&'static str; CLASSES + 2] {
    let mut all = with(other);
    let mut i = 0;
    while i < CLASSES {
        all[i] = Class::CARDS[i].beyond;
        i += 1;
    }
    all
}

/// `other` behind a place for each class.
const fn with([first, second]: [&'static str; 2]) -> [&'static str; CLASSES + 2] {
    let mut all = [first; CLASSES + 2];
    all[CLASSES + 1] = second;
    all
}

/// Packets a second of each class that one worker may punt for one interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rates([u32; CLASSES]);

impl Default for Rates {
    fn default() -> Self {
        Rates(Class::CARDS.map(|card| card.rate))
    }
}

impl Rates {
    /// Nothing is punted.
    pub const NONE: Rates = Rates([0; CLASSES]);

    /// The rate of one class.
    pub fn get(&self, class: Class) -> u32 {
        self.0[class as usize]
    }

    /// Sets the rate of one class.
    pub fn set(&mut self, class: Class, per_second: u32) {
        self.0[class as usize] = per_second;
    }

    /// No more of what makes the kernel look for a neighbour than its table of `most` can
    /// take: an entry is the kernel's for up to five seconds before it may go again, and
    /// several classes and interfaces share the table.
    #[must_use]
    pub fn with_room_for(mut self, most: u32) -> Rates {
        for class in [Class::NewNeighbours, Class::Strangers, Class::NoNeighbour] {
            let rate = &mut self.0[class as usize];
            *rate = (*rate).min((most / SHARE).max(1));
        }
        self
    }

    /// The rates for each of `workers`, so that together they keep to the configured ones.
    #[must_use]
    pub fn shared_by(&self, workers: u32) -> Rates {
        Rates(self.0.map(|rate| rate.div_ceil(workers.max(1))))
    }
}

/// A class of one interface may fill a table of neighbours in this many seconds.
const SHARE: u32 = 16;

/// A token bucket filled by the clock's ticks. A tick is worth as many as packets may pass a
/// second, a packet as many as a second has ticks: so that a rate of the clock which is
/// known better is that of the next packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_second: u64,
    level: Level,
}

/// What is saved up in a bucket, and when it was looked at. Zeros are a full one, at which
/// nobody has looked for long.
pub(crate) type Level = [u64; 2];

impl Bucket {
    /// A full bucket of `per_second` packets; saved up are a tenth of a second
    /// or [`BURST`] packets, whichever is more.
    pub fn new(per_second: u32) -> Bucket {
        Bucket { per_second: per_second.into(), level: [u64::MAX, 0] }
    }

    /// True, and a packet is paid for, when there is enough; `now` and `hz` are the clock's.
    #[inline]
    pub fn take(&mut self, now: u64, hz: u64) -> bool {
        take(&mut self.level, self.per_second, now, hz)
    }
}

/// [`Bucket::take`], of a bucket whose rate is kept elsewhere.
#[inline]
pub(crate) fn take([saved, then]: &mut Level, per_second: u64, now: u64, hz: u64) -> bool {
    if per_second == 0 {
        return false;
    }
    let more = now.saturating_sub(*then).saturating_mul(per_second);
    let most = hz.saturating_mul((per_second / 10).max(BURST));
    *saved = saved.saturating_add(more).min(most);
    *then = now.max(*then);
    if *saved < hz {
        return false;
    }
    *saved -= hz;
    true
}

#[cfg(test)]
impl Rates {
    /// The most of a class that one interface can have handed over since `begun`: tests run
    /// at any speed.
    pub(crate) fn most(&self, class: Class, begun: std::time::Instant) -> usize {
        let rate = u64::from(self.get(class));
        let earned = u128::from(rate) * begun.elapsed().as_micros() / 1_000_000;
        (rate / 10).max(BURST) as usize + earned as usize + 1
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
        let passed = |rate, hz| {
            let mut bucket = Bucket::new(rate);
            (0..10_000_000).step_by(100).filter(|&now| bucket.take(now, hz)).count()
        };
        assert_eq!(passed(1_000, hz), 10_000 + 100 - 1);
        assert_eq!(passed(3, hz), 30 + 32 - 1, "that no tick divides");
        assert_eq!(passed(u32::MAX, hz), 100_000);
        assert_eq!(passed(u32::MAX, u64::MAX), 1, "no product overflows");
        let mut closed = Bucket::new(0);
        assert!(!closed.take(u64::MAX, hz));
    }

    #[test]
    fn a_bucket_keeps_to_the_rate_of_the_clock_as_it_is_known_now() {
        let mut bucket = Bucket::new(1_000);
        while bucket.take(1, 900_000) {} // an estimate
        let passed = (1..10_000_001).filter(|&now| bucket.take(now, 1_000_000)).count();
        assert!((9_999..=10_000).contains(&passed), "{passed}");
    }

    #[test]
    fn a_small_table_of_neighbours_lowers_what_fills_it() {
        let (all, few) = (Rates::default(), Rates::default().with_room_for(1_024));
        for class in Class::ALL {
            let capped =
                matches!(class, Class::NewNeighbours | Class::Strangers | Class::NoNeighbour);
            assert_eq!(few.get(class), if capped { 64 } else { all.get(class) }, "{class:?}");
        }
        assert_eq!(all.with_room_for(65_536), all);
        assert_eq!(all.with_room_for(0).get(Class::NoNeighbour), 1, "some get through");
        assert_eq!(Rates::NONE.with_room_for(1_024), Rates::NONE);
    }

    #[test]
    fn classes_have_their_numbers() {
        for (i, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!((class as usize, Class::from_code(i as u16)), (i, class));
            assert_eq!(class.card().rate_text.parse(), Ok(class.card().rate));
        }
        assert_eq!(Rates::default().shared_by(3).get(Class::Unknown), 167);
    }
}
