//! Static routes, permanent neighbours: written to the kernel,
//! from where they come back through the mirror.

use std::io;
use std::net::IpAddr;

use api::apps::router::RouteKind;

use netlink::names::*;
use netlink::request::{CREATE, REPLACE, Request};

use super::OUR_PROTOCOL;
use super::link::{Rtnetlink, family, octets};
use crate::config::{Mac, Net, Route, Via};

impl Rtnetlink {
    /// Writes a static route to the kernel's `table`; with `replace` in the place of
    /// one of the same prefix and metric, whosever that is.
    ///
    /// # Errors
    /// When the kernel refuses; a named interface must be there, and, without
    /// `replace`, no such route.
    pub fn add_route(&mut self, route: &Route, table: u32, replace: bool) -> io::Result<()> {
        let kind = match route.kind {
            RouteKind::Unicast => RTN_UNICAST,
            RouteKind::Blackhole => RTN_BLACKHOLE,
            RouteKind::Unreachable => RTN_UNREACHABLE,
            RouteKind::Prohibit => RTN_PROHIBIT,
        };
        let onlink = route.via.iter().all(|via| via.to.is_none());
        let scope = if onlink && kind == RTN_UNICAST && route.prefix.address.is_ipv4() {
            RT_SCOPE_LINK
        } else {
            RT_SCOPE_UNIVERSE
        };
        let how = if replace { REPLACE } else { CREATE };
        let message = route_message(RTM_NEWROUTE, how, route.prefix, table, (scope, kind));
        let mut message = metric(message, route.metric);
        message = match route.via.as_slice() {
            [] => message,
            [one] if one.weight == 1 => {
                let link = self.index_of(one)?;
                let message = gateway(message, one, route.prefix);
                if link == 0 { message } else { message.attr(RTA_OIF, &link.to_ne_bytes()) }
            }
            many => {
                let links: Vec<u32> =
                    many.iter().map(|via| self.index_of(via)).collect::<Result<_, _>>()?;
                message.nest(RTA_MULTIPATH, |m| {
                    let hops = many.iter().zip(links);
                    hops.fold(m, |m, (via, link)| next_hop(m, via, link, route.prefix))
                })
            }
        };
        self.0.request(message)
    }

    /// Adds what the kernel itself would for an address of a link, but to a table
    /// that it does not think of: the route to the network, IPv6's link-local one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_connected(&mut self, link: u32, net: Net, table: u32) -> io::Result<()> {
        let scope = if net.address.is_ipv4() { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
        let connected = |net: Net| {
            let message = route_message(RTM_NEWROUTE, REPLACE, net, table, (scope, RTN_UNICAST));
            message.attr(RTA_OIF, &link.to_ne_bytes())
        };
        let network = connected(net.network());
        if net.address.is_ipv4() {
            return self.0.request(network.attr(RTA_PREFSRC, &octets(net.address)));
        }
        // The kernel takes no IPv6 source while it still looks for duplicates.
        self.0.request(network)?;
        let link_local = Net { address: IpAddr::from(LINK_LOCAL), length: 64 };
        // A metric of its own: equal ones would replace each other.
        self.0.request(metric(connected(link_local), Some(256 + link)))
    }

    /// Takes out the route to a network that the kernel itself has made, to `table`, for an
    /// address of a link.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_connected(&mut self, link: u32, net: Net, table: u32) -> io::Result<()> {
        let any = (RT_SCOPE_NOWHERE, RTN_UNICAST);
        let message = route_of(RTPROT_KERNEL, RTM_DELROUTE, 0, net.network(), table, any);
        self.0.request(message.attr(RTA_OIF, &link.to_ne_bytes()))
    }

    /// Copies to `table` what the kernel's table `local` says of an address. What is there
    /// stays.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_own(&mut self, own: &Own, table: u32) -> io::Result<()> {
        self.unless_there(own.message(RTM_NEWROUTE, BESIDE, table))
    }

    /// Takes such a copy out.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_own(&mut self, own: &Own, table: u32) -> io::Result<()> {
        self.0.request(own.message(RTM_DELROUTE, 0, table))
    }

    /// Ends the search in `table`: what it does not know is not looked for in main.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_end(&mut self, table: u32) -> io::Result<()> {
        for address in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            let what = (RT_SCOPE_UNIVERSE, RTN_UNREACHABLE);
            let all = Net { address, length: 0 };
            let message = route_message(RTM_NEWROUTE, CREATE, all, table, what);
            self.unless_there(metric(message, Some(LAST)))?;
        }
        Ok(())
    }

    /// Takes Rutter's static routes to `prefix` out of `table`.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_route(
        &mut self,
        prefix: Net,
        table: u32,
        priority: Option<u32>,
    ) -> io::Result<()> {
        // Scope "nowhere" and type 0 match any.
        let message = route_message(RTM_DELROUTE, 0, prefix, table, (RT_SCOPE_NOWHERE, 0));
        self.0.request(metric(message, priority))
    }

    /// Takes all routes with Rutter's protocol number out: what an instance
    /// that was killed has left.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flush_routes(&mut self) -> io::Result<usize> {
        let mut flushed = 0;
        for family in [AF_INET, AF_INET6] {
            let mut body = [0; 12];
            (body[0], body[5]) = (family, OUR_PROTOCOL);
            let answers = self.0.dump(Request::new(RTM_GETROUTE, 0).body(&body))?;
            let ours = |answer: &&Vec<u8>| answer.get(5) == Some(&OUR_PROTOCOL);
            for answer in answers.iter().filter(ours) {
                // The kernel's own description identifies the route exactly.
                self.0.request(Request::new(RTM_DELROUTE, 0).body(answer))?;
                flushed += 1;
            }
        }
        Ok(flushed)
    }

    /// Makes something; what is there, whosever it is, will do.
    pub(super) fn unless_there(&mut self, message: Request) -> io::Result<()> {
        match self.0.request(message) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Adds or replaces a permanent neighbour.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_neighbour(&mut self, link: u32, address: IpAddr, mac: Mac) -> io::Result<()> {
        let message =
            Request::new(RTM_NEWNEIGH, REPLACE).body(&ndmsg(link, address, NUD_PERMANENT));
        self.0.request(message.attr(NDA_DST, &octets(address)).attr(NDA_LLADDR, &mac.0))
    }

    /// Takes a neighbour out.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let message = Request::new(RTM_DELNEIGH, 0).body(&ndmsg(link, address, 0));
        self.0.request(message.attr(NDA_DST, &octets(address)))
    }

    fn index_of(&mut self, via: &Via) -> io::Result<u32> {
        match &via.interface {
            Some(name) => Ok(self.link(name)?.index),
            None => Ok(0),
        }
    }
}

/// `struct rtmsg` and the attributes that every route has.
pub(super) fn route_message(
    kind: u16,
    flags: u16,
    prefix: Net,
    table: u32,
    what: (u8, u8),
) -> Request {
    route_of(OUR_PROTOCOL, kind, flags, prefix, table, what)
}

pub(super) fn route_of(
    protocol: u8,
    kind: u16,
    flags: u16,
    prefix: Net,
    table: u32,
    (scope, what): (u8, u8),
) -> Request {
    let small = u8::try_from(table).unwrap_or(0);
    let body = [family(prefix.address), prefix.length, 0, 0, small, protocol, scope, what];
    let message = Request::new(kind, flags).body(&body).body(&[0; 4]);
    let message = message.attr(RTA_TABLE, &table.to_ne_bytes());
    if prefix.length == 0 { message } else { message.attr(RTA_DST, &octets(prefix.address)) }
}

pub(super) fn metric(message: Request, metric: Option<u32>) -> Request {
    match metric {
        Some(metric) => message.attr(RTA_PRIORITY, &metric.to_ne_bytes()),
        None => message,
    }
}

/// A gateway of the other family than the prefix is `RTA_VIA` (RFC 8950).
fn gateway(message: Request, via: &Via, prefix: Net) -> Request {
    let Some(to) = via.to else { return message };
    if to.is_ipv4() == prefix.address.is_ipv4() {
        return message.attr(RTA_GATEWAY, &octets(to));
    }
    let mut value = u16::from(family(to)).to_ne_bytes().to_vec();
    value.extend(octets(to));
    message.attr(RTA_VIA, &value)
}

/// `struct rtnexthop` and its attributes. Its length is known only afterwards.
fn next_hop(message: Request, via: &Via, link: u32, prefix: Net) -> Request {
    let inner = gateway(Request::new(0, 0), via, prefix).into_attributes();
    let mut bytes = ((8 + inner.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend([0, (via.weight.clamp(1, 256) - 1) as u8]);
    bytes.extend(link.to_ne_bytes());
    bytes.extend(inner);
    message.body(&bytes)
}

/// `struct ndmsg`.
fn ndmsg(link: u32, address: IpAddr, state: u16) -> [u8; 12] {
    let mut body = [0; 12];
    body[0] = family(address);
    body[4..8].copy_from_slice(&link.to_ne_bytes());
    body[8..10].copy_from_slice(&state.to_ne_bytes());
    body
}

/// A destination for which this machine takes packets itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Own {
    /// The link whose address it comes from.
    pub link: u32,
    /// Whom packets are for.
    pub to: IpAddr,
    /// What that is.
    pub kind: OwnKind,
}

/// What a destination of this machine is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum OwnKind {
    /// An address.
    Address,
    /// All stations of a network (IPv4).
    Broadcast,
    /// Any router of a network (IPv6).
    Anycast,
}

impl Own {
    fn message(&self, kind: u16, flags: u16, table: u32) -> Request {
        let scope = match self.kind {
            OwnKind::Address if self.to.is_ipv4() => RT_SCOPE_HOST,
            OwnKind::Broadcast => RT_SCOPE_LINK,
            _ => RT_SCOPE_UNIVERSE,
        };
        let what = match self.kind {
            OwnKind::Address => RTN_LOCAL,
            OwnKind::Broadcast => RTN_BROADCAST,
            OwnKind::Anycast => RTN_ANYCAST,
        };
        let message = route_message(kind, flags, Net::host(self.to), table, (scope, what));
        message.attr(RTA_OIF, &self.link.to_ne_bytes())
    }
}

/// Another link may have the same.
const BESIDE: u16 = NLM_F_CREATE | NLM_F_APPEND;
/// The metric that the kernel's documentation of VRFs gives to such a route.
const LAST: u32 = 4_278_198_272;
const LINK_LOCAL: [u16; 8] = [0xfe80, 0, 0, 0, 0, 0, 0, 0];
