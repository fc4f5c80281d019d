//! Static routes, rules of VRFs, permanent neighbours: written to the kernel,
//! from where they come back through the mirror.

use std::io;
use std::net::IpAddr;

use api::apps::router::RouteKind;

use super::OUR_PROTOCOL;
use super::link::{Rtnetlink, family, octets};
use super::netlink::{CREATE, Message, REPLACE, attributes};
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
            SCOPE_LINK
        } else {
            SCOPE_UNIVERSE
        };
        let how = if replace { REPLACE } else { CREATE };
        let message = route_message(NEW_ROUTE, how, route.prefix, table, (scope, kind));
        let mut message = metric(message, route.metric);
        message = match route.via.as_slice() {
            [] => message,
            [one] if one.weight == 1 => {
                let link = self.index_of(one)?;
                let message = gateway(message, one, route.prefix);
                if link == 0 { message } else { message.attr(OIF, &link.to_ne_bytes()) }
            }
            many => {
                let links: Vec<u32> =
                    many.iter().map(|via| self.index_of(via)).collect::<Result<_, _>>()?;
                message.nest(MULTIPATH, |m| {
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
        let scope = if net.address.is_ipv4() { SCOPE_LINK } else { SCOPE_UNIVERSE };
        let connected = |net: Net| {
            let message = route_message(NEW_ROUTE, REPLACE, net, table, (scope, RTN_UNICAST));
            message.attr(OIF, &link.to_ne_bytes())
        };
        let network = connected(net.network());
        if net.address.is_ipv4() {
            return self.0.request(network.attr(PREFSRC, &octets(net.address)));
        }
        // The kernel takes no IPv6 source while it still looks for duplicates.
        self.0.request(network)?;
        let link_local = Net { address: IpAddr::from(LINK_LOCAL), length: 64 };
        // A metric of its own: equal ones would replace each other.
        self.0.request(metric(connected(link_local), Some(256 + link)))
    }

    /// Ends the search in `table`: what it does not know is not looked for in main.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_end(&mut self, table: u32) -> io::Result<()> {
        for address in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            let what = (SCOPE_UNIVERSE, RTN_UNREACHABLE);
            let all = Net { address, length: 0 };
            let message = route_message(NEW_ROUTE, CREATE, all, table, what);
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
        let message = route_message(DEL_ROUTE, 0, prefix, table, (SCOPE_NOWHERE, 0));
        self.0.request(metric(message, priority))
    }

    /// Takes all routes with Rutter's protocol number out: what an instance
    /// that was killed has left.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flush_routes(&mut self) -> io::Result<usize> {
        let mut flushed = 0;
        for family in [2, 10] {
            let mut body = [0; 12];
            (body[0], body[5]) = (family, OUR_PROTOCOL);
            let answers = self.0.dump(Message::new(GET_ROUTE, 0).body(&body))?;
            for answer in answers.iter().filter(|answer| answer.get(5) == Some(&OUR_PROTOCOL)) {
                // What the kernel said about it names it exactly.
                self.0.request(Message::new(DEL_ROUTE, 0).body(answer))?;
                flushed += 1;
            }
        }
        Ok(flushed)
    }

    /// Lets packets that come in by, or leave from, the link `name` use `table`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_rules(&mut self, name: &str, table: u32) -> io::Result<()> {
        for (family, attribute) in rules() {
            let message = rule_message(NEW_RULE, CREATE, family, table).text(attribute, name);
            self.unless_there(message)?;
        }
        Ok(())
    }

    /// Lets packets with the mark `table` use `table`: the kernel's answers to
    /// what came in by a link of these tables.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_mark_rules(&mut self, table: u32) -> io::Result<()> {
        for family in [2, 10] {
            let message = rule_message(NEW_RULE, CREATE, family, table);
            self.unless_there(message.attr(FRA_FWMARK, &table.to_ne_bytes()))?;
        }
        Ok(())
    }

    /// Lets the tables of VRF devices be searched before that of the addresses of
    /// main, as the kernel's documentation of VRFs has it: an address that both have
    /// is else taken for main's, and what answers it in IPv6 leaves there. Where the
    /// first rule is not the kernel's, a user has ordered them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn search_vrfs_first(&mut self) -> io::Result<()> {
        for family in [2, 10] {
            let rules = self.rules(family)?;
            if rules.iter().any(|rule| is_rule(rule, LOCAL, 0)) {
                let moved = rule(NEW_RULE, CREATE, family, (LOCAL, AFTER_VRFS));
                self.unless_there(moved.attr(FRA_PROTOCOL, &[OUR_PROTOCOL]))?;
                self.0.request(rule(DEL_RULE, 0, family, (LOCAL, 0)))?;
            }
        }
        Ok(())
    }

    pub(super) fn rules(&mut self, family: u8) -> io::Result<Vec<Vec<u8>>> {
        let mut body = [0; 12];
        body[0] = family;
        self.0.dump(Message::new(GET_RULE, 0).body(&body))
    }

    /// Makes something; what is there, whosever it is, will do.
    fn unless_there(&mut self, message: Message) -> io::Result<()> {
        match self.0.request(message) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Takes every rule with Rutter's protocol number out, and puts the kernel's
    /// first one back where it was moved.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flush_rules(&mut self) -> io::Result<()> {
        for family in [2, 10] {
            for answer in self.rules(family)? {
                if rule_attribute(&answer, FRA_PROTOCOL) != Some(&[OUR_PROTOCOL]) {
                    continue;
                }
                if is_rule(&answer, LOCAL, AFTER_VRFS) {
                    let first = rule(NEW_RULE, CREATE, family, (LOCAL, 0));
                    self.unless_there(first.attr(FRA_PROTOCOL, &[KERNEL]))?;
                }
                self.0.request(Message::new(DEL_RULE, 0).body(&answer))?;
            }
        }
        Ok(())
    }

    /// Adds or replaces a permanent neighbour.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_neighbour(&mut self, link: u32, address: IpAddr, mac: Mac) -> io::Result<()> {
        let message = Message::new(NEW_NEIGH, REPLACE).body(&ndmsg(link, address, NUD_PERMANENT));
        self.0.request(message.attr(NDA_DST, &octets(address)).attr(NDA_LLADDR, &mac.0))
    }

    /// Takes a neighbour out.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let message = Message::new(DEL_NEIGH, 0).body(&ndmsg(link, address, 0));
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
fn route_message(
    kind: u16,
    flags: u16,
    prefix: Net,
    table: u32,
    (scope, what): (u8, u8),
) -> Message {
    let small = u8::try_from(table).unwrap_or(0);
    let body = [family(prefix.address), prefix.length, 0, 0, small, OUR_PROTOCOL, scope, what];
    let message = Message::new(kind, flags).body(&body).body(&[0; 4]);
    let message = message.attr(TABLE, &table.to_ne_bytes());
    if prefix.length == 0 { message } else { message.attr(DST, &octets(prefix.address)) }
}

fn metric(message: Message, metric: Option<u32>) -> Message {
    match metric {
        Some(metric) => message.attr(PRIORITY, &metric.to_ne_bytes()),
        None => message,
    }
}

/// A gateway of the other family than the prefix is `RTA_VIA` (RFC 8950).
fn gateway(message: Message, via: &Via, prefix: Net) -> Message {
    let Some(to) = via.to else { return message };
    if to.is_ipv4() == prefix.address.is_ipv4() {
        return message.attr(GATEWAY, &octets(to));
    }
    let mut value = u16::from(family(to)).to_ne_bytes().to_vec();
    value.extend(octets(to));
    message.attr(VIA, &value)
}

/// `struct rtnexthop` and its attributes. Its length is known only afterwards.
fn next_hop(message: Message, via: &Via, link: u32, prefix: Net) -> Message {
    let inner = gateway(Message::new(0, 0), via, prefix).into_attributes();
    let mut bytes = ((8 + inner.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend([0, (via.weight.clamp(1, 256) - 1) as u8]);
    bytes.extend(link.to_ne_bytes());
    bytes.extend(inner);
    message.body(&bytes)
}

fn rules() -> [(u8, u16); 4] {
    [(2, FRA_IIFNAME), (2, FRA_OIFNAME), (10, FRA_IIFNAME), (10, FRA_OIFNAME)]
}

fn rule_message(kind: u16, flags: u16, family: u8, table: u32) -> Message {
    rule(kind, flags, family, (table, RULE_PRIORITY)).attr(FRA_PROTOCOL, &[OUR_PROTOCOL])
}

fn rule(kind: u16, flags: u16, family: u8, (table, priority): (u32, u32)) -> Message {
    let small = u8::try_from(table).unwrap_or(0);
    let body = [family, 0, 0, 0, small, 0, 0, FR_ACT_TO_TABLE, 0, 0, 0, 0];
    Message::new(kind, flags)
        .body(&body)
        .attr(FRA_TABLE, &table.to_ne_bytes())
        .attr(FRA_PRIORITY, &priority.to_ne_bytes())
}

fn rule_attribute(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut all = attributes(answer.get(12..)?);
    all.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// Is it the rule of this priority, which sends everything to this table?
fn is_rule(answer: &[u8], table: u32, priority: u32) -> bool {
    // The kernel does not report a priority of 0.
    let found = rule_attribute(answer, FRA_PRIORITY).unwrap_or(&[0; 4]);
    let table = rule_attribute(answer, FRA_TABLE) == Some(&table.to_ne_bytes());
    table && found == priority.to_ne_bytes()
}

/// `struct ndmsg`.
fn ndmsg(link: u32, address: IpAddr, state: u16) -> [u8; 12] {
    let mut body = [0; 12];
    body[0] = family(address);
    body[4..8].copy_from_slice(&link.to_ne_bytes());
    body[8..10].copy_from_slice(&state.to_ne_bytes());
    body
}

/// Before the kernel's own rules (32766, 32767), after those of VRF devices (1000).
const RULE_PRIORITY: u32 = 1100;
/// Just after those of VRF devices.
const AFTER_VRFS: u32 = 1001;
/// `RT_TABLE_LOCAL`: the addresses of main.
const LOCAL: u32 = 255;
/// `RTPROT_KERNEL`.
const KERNEL: u8 = 2;
/// The metric that the kernel's documentation of VRFs gives to such a route.
const LAST: u32 = 4_278_198_272;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_NEIGH: u16 = 28;
const DEL_NEIGH: u16 = 29;
const NEW_RULE: u16 = 32;
const DEL_RULE: u16 = 33;
const GET_RULE: u16 = 34;
const LINK_LOCAL: [u16; 8] = [0xfe80, 0, 0, 0, 0, 0, 0, 0];
const RTN_UNICAST: u8 = 1;
const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_NOWHERE: u8 = 255;
const DST: u16 = 1;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFSRC: u16 = 7;
const MULTIPATH: u16 = 9;
const TABLE: u16 = 15;
const VIA: u16 = 18;
const FR_ACT_TO_TABLE: u8 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
const FRA_PROTOCOL: u16 = 21;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_first_rule_is_known_by_what_it_does_not_say() {
        // As the kernel reports them: `struct fib_rule_hdr`, then FRA_TABLE first.
        let header = [2, 0, 0, 0, 255, 0, 0, FR_ACT_TO_TABLE, 0, 0, 0, 0];
        let table = [8, 0, FRA_TABLE as u8, 0, 255, 0, 0, 0];
        let priority = |value: u32| {
            let mut bytes = vec![8, 0, FRA_PRIORITY as u8, 0];
            bytes.extend(value.to_ne_bytes());
            bytes
        };
        let first = [header.as_slice(), &table].concat();
        let moved = [first.as_slice(), &priority(AFTER_VRFS)].concat();
        assert!(is_rule(&first, LOCAL, 0) && !is_rule(&first, LOCAL, AFTER_VRFS));
        assert!(is_rule(&moved, LOCAL, AFTER_VRFS) && !is_rule(&moved, LOCAL, 0));
        assert!(!is_rule(&first, 254, 0) && !is_rule(&header, LOCAL, 0) && !is_rule(&[], LOCAL, 0));
    }
}
