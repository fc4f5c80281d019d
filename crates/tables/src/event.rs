//! What a feed reports to the control thread, in the kernel's terms but without its
//! encoding: links by index, routes by table. Applied in order; whatever is
//! stated twice counts once.

use core::net::IpAddr;

use crate::{Family, Net};

/// An interface of the kernel by its index. Without a kernel, whoever makes the
/// events numbers the links.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub u32);

/// One change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A link is there, or has changed.
    Link(Link),
    /// A link went.
    LinkGone(LinkId),
    /// A link has this address.
    Address(Address),
    /// A link lost this address.
    AddressGone(Address),
    /// A neighbour is there; `mac` is `None` while it is not resolved.
    Neighbour(Neighbour),
    /// A neighbour was forgotten.
    NeighbourGone(LinkId, IpAddr),
    /// A next-hop object is there, or has changed.
    NextHop(NextHop),
    /// A next-hop object went, and with it, silently, the routes that use it.
    NextHopGone(u32),
    /// A route is there.
    Route(Route, How),
    /// A route went.
    RouteGone(Route),
    /// A route is there that holds for some packets only.
    Partial(PartialRoute),
    /// Such a route went.
    PartialGone(PartialRoute),
    /// A complete listing of `Scope` follows.
    SweepBegin(Scope, Why),
    /// The listing ended: what was there before and not in it is gone.
    SweepEnd(Scope),
    /// The listing broke off: nothing is known to be gone.
    SweepAbort(Scope),
}

/// An interface as the kernel shows it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Link {
    /// Which.
    pub index: LinkId,
    /// Its name; a link with the name of one of Rutter's interfaces is its tap.
    pub name: String,
    /// Administratively up, with carrier.
    pub up: bool,
    /// Bytes of layer 3 that fit.
    pub mtu: u32,
    /// Hardware address.
    pub mac: [u8; 6],
    /// The VRF device or bridge that it belongs to.
    pub master: Option<LinkId>,
    /// The routing table, where the link is a VRF device.
    pub vrf_table: Option<u32>,
    /// The link that it is another hardware address of, where it is a macvlan.
    pub macvlan_of: Option<LinkId>,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Address {
    /// Whose.
    pub link: LinkId,
    /// The address itself.
    pub ip: IpAddr,
    /// The length of its network's prefix.
    pub len: u8,
}

/// A neighbour of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Neighbour {
    /// Where it was found.
    pub link: LinkId,
    /// Its address.
    pub ip: IpAddr,
    /// Its hardware address, where it is known.
    pub mac: Option<[u8; 6]>,
    /// How sure the kernel is of it.
    pub state: NeighbourState,
}

impl Neighbour {
    /// Where packets to it go; `None` while it is not resolved. A neighbour that
    /// is not confirmed (stale, delay, probe) forwards.
    pub fn resolved(&self) -> Option<[u8; 6]> {
        match self.state {
            NeighbourState::Incomplete | NeighbourState::Failed => None,
            _ => self.mac,
        }
    }
}

/// The kernel's words for a neighbour.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NeighbourState {
    /// Asked for, no answer yet.
    #[default]
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Confirmed long ago.
    Stale,
    /// In use, about to be probed.
    Delay,
    /// Being probed.
    Probe,
    /// No answer.
    Failed,
    /// Needs no resolution.
    NoArp,
    /// Set by hand.
    Permanent,
}

impl NeighbourState {
    /// As `ip neighbour` prints it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Delay => "delay",
            NeighbourState::Probe => "probe",
            NeighbourState::Failed => "failed",
            NeighbourState::NoArp => "noarp",
            NeighbourState::Permanent => "permanent",
        }
    }
}

/// Set in the numbers of next-hop objects that FRR sent by its forwarding plane
/// manager: those of the kernel are others.
pub const FPM_OBJECTS: u32 = 1 << 31;

/// A next-hop object (`ip nexthop`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NextHop {
    /// Its number.
    pub id: u32,
    /// What it stands for.
    pub to: NextHopTo,
}

/// What a next-hop object stands for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NextHopTo {
    /// One way.
    Path(Path),
    /// Several objects by weight.
    Group(Box<[(u32, u16)]>),
    /// Packets are dropped.
    Blackhole,
    /// Something that the data plane does not do (an encapsulation): the kernel.
    Kernel,
}

/// One way out.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Path {
    /// By this link.
    pub link: LinkId,
    /// To this gateway, of either family (RFC 8950); `None`: the destination itself.
    pub via: Option<IpAddr>,
    /// Its share among the paths of a route, at least 1.
    pub weight: u16,
    /// Bytes of layer 3 that the route lets pass; 0: as many as the link.
    pub mtu: u16,
}

/// A route of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// The kernel's number of the table.
    pub table: u32,
    /// What it covers.
    pub net: Net,
    /// The lowest of a prefix wins.
    pub metric: u32,
    /// Who made it, as the kernel numbers them (2 kernel, 4 static, 12 BIRD …).
    pub protocol: u8,
    /// Which feed reported it.
    pub source: Source,
    /// Where its packets go.
    pub target: Target,
}

/// A route of the kernel's that holds for some packets to its prefix only, which no
/// table by destination can say.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PartialRoute {
    /// The kernel's number of the table.
    pub table: u32,
    /// What it covers.
    pub net: Net,
    /// Only packets from there (IPv6).
    pub from: Option<Net>,
    /// Only packets with this type of service, where it is not 0 (IPv4).
    pub tos: u8,
    /// The lowest of a prefix wins.
    pub metric: u32,
}

/// How a route joins those of the same prefix and metric.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum How {
    /// Before them.
    #[default]
    Create,
    /// In place of the first.
    Replace,
    /// After them.
    Append,
    /// In a listing: after them, unless it is there.
    Listed,
}

/// Where the packets of a route go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// One way.
    Path(Path),
    /// Several, by weight.
    Paths(Box<[Path]>),
    /// Where the next-hop object says.
    Object {
        /// Its number.
        id: u32,
        /// As [`Path::mtu`], of all its paths.
        mtu: u16,
    },
    /// To this machine. The link decides whose VRF's address it is.
    Local(LinkId),
    /// A broadcast or anycast address of this machine, or multicast.
    Broadcast(LinkId),
    /// Silently dropped.
    Blackhole,
    /// Dropped with an ICMP error: unreachable.
    Unreachable,
    /// Dropped with an ICMP error: administratively prohibited.
    Prohibit,
    /// As if the table had no route: the kernel looks into the next, and answers.
    Throw,
    /// What only the kernel does (encapsulation …).
    Kernel,
}

/// Which feed a route came by. A sweep touches only its own.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Source {
    /// The kernel's tables, or static routes where there is no kernel.
    #[default]
    Kernel,
    /// FRR's forwarding plane manager.
    Fpm,
}

/// What a listing is complete for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scope {
    /// Links.
    Links,
    /// Addresses.
    Addresses,
    /// Neighbours.
    Neighbours,
    /// Next-hop objects reported by one feed.
    NextHops(Source),
    /// The routes of one family that came by one feed.
    Routes(Family, Source),
}

/// Why a listing was made: what it finds amiss counts as drift only where
/// nothing had announced a change.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// The feed began.
    Start,
    /// Messages were lost.
    Overrun,
    /// After an event that takes routes along without a message.
    Event,
    /// The comparison in the background.
    Audit,
}
