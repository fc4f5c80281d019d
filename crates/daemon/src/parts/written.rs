//! The book of static routes and neighbours: those that the API added, and those that this instance
//! has put into the kernel.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::config::{Neighbour, Net, Route};
use crate::kernel::shields::Shield;

/// Routes and neighbours from the API, the latest last.
#[derive(Default)]
pub struct Added {
    /// Each with the kernel's table.
    pub(super) routes: Vec<(Route, u32)>,
    pub(super) neighbours: Vec<Neighbour>,
}

impl Added {
    /// One for each prefix, table and metric: the kernel keeps no more either.
    pub(super) fn route(&mut self, route: Route, table: u32) {
        let same = |(known, of): &(Route, u32)| {
            (known.prefix, known.metric, *of) == (route.prefix, route.metric, table)
        };
        self.routes.retain(|known| !same(known));
        self.routes.push((route, table));
    }

    /// Whether there was one.
    pub(super) fn forget_route(&mut self, prefix: Net, table: u32, metric: Option<u32>) -> bool {
        let at = self.routes.iter().position(|(known, of)| {
            let any = metric.is_none_or(|metric| known.metric.unwrap_or(0) == metric);
            (known.prefix, *of) == (prefix, table) && any
        });
        at.map(|at| self.routes.remove(at)).is_some()
    }

    pub(super) fn neighbour(&mut self, entry: Neighbour) {
        self.forget_neighbour(&entry.interface, entry.address);
        self.neighbours.push(entry);
    }

    /// Whether there was one.
    pub(super) fn forget_neighbour(&mut self, interface: &str, address: IpAddr) -> bool {
        let before = self.neighbours.len();
        self.neighbours.retain(|known| known.interface != interface || known.address != address);
        self.neighbours.len() < before
    }
}

/// The kernel's state for a shield.
#[derive(Default)]
pub struct Shields {
    /// Taps from which the kernel forwards nothing.
    pub(super) fronts: BTreeSet<String>,
    /// Macvlans on these taps, likewise.
    pub(super) macvlans: BTreeSet<String>,
    /// Prefixes that are shown to routing daemons.
    pub(super) protected: BTreeSet<Shield>,
}

/// Routes that this instance has written. A route that is not in this list is somebody else's, and stays.
#[derive(Default)]
pub struct Written(BTreeSet<(Net, u32, u32)>);

impl Written {
    pub(super) fn has(&self, route: &Route, table: u32) -> bool {
        self.0.contains(&(route.prefix, table, metric(route)))
    }

    pub(super) fn add(&mut self, route: &Route, table: u32) {
        self.0.insert((route.prefix, table, metric(route)));
    }

    /// As the kernel deletes: without a metric, the first route.
    pub(super) fn forget(&mut self, prefix: Net, table: u32, metric: Option<u32>) {
        let all = (prefix, table, 0)..=(prefix, table, u32::MAX);
        let first = self.0.range(all).find(|(.., of)| metric.is_none_or(|metric| metric == *of));
        if let Some(first) = first.copied() {
            self.0.remove(&first);
        }
    }
}

/// The kernel's default, where a route gives none.
fn metric(route: &Route) -> u32 {
    let default = if route.prefix.address.is_ipv4() { 0 } else { IP6_RT_PRIO_USER };
    route.metric.filter(|metric| *metric > 0).unwrap_or(default)
}

/// The metric of IPv6 routes that give none.
const IP6_RT_PRIO_USER: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use api::apps::router::RouteKind;

    fn route(prefix: &str, metric: Option<u32>, kind: RouteKind) -> Route {
        let (prefix, via) = (prefix.parse().unwrap(), Vec::new());
        Route { prefix, kind, via, vrf: "main".into(), metric }
    }

    #[test]
    fn what_was_written_is_known_by_prefix_table_and_metric() {
        let mut written = Written::default();
        let of = |prefix, metric| route(prefix, metric, RouteKind::Blackhole);
        written.add(&of("10.0.0.0/8", None), 254);
        written.add(&of("10.0.0.0/8", Some(7)), 254);
        written.add(&of("2001:db8::/32", None), 254);
        assert!(written.has(&of("10.0.0.0/8", Some(0)), 254));
        assert!(!written.has(&of("10.0.0.0/8", None), 100));
        assert!(!written.has(&of("10.0.0.0/9", None), 254));
        assert!(written.has(&of("2001:db8::/32", Some(1024)), 254));
        assert!(!written.has(&of("2001:db8::/32", Some(256)), 254));
        written.forget("10.0.0.0/8".parse().unwrap(), 254, None);
        assert!(!written.has(&of("10.0.0.0/8", None), 254));
        written.forget("10.0.0.0/8".parse().unwrap(), 254, Some(9));
        assert!(written.has(&of("10.0.0.0/8", Some(7)), 254));
    }

    #[test]
    fn added_routes_are_kept_once_and_forgotten() {
        let mut added = Added::default();
        added.route(route("10.0.0.0/8", None, RouteKind::Blackhole), 254);
        added.route(route("10.0.0.0/8", None, RouteKind::Prohibit), 254);
        added.route(route("10.0.0.0/8", Some(7), RouteKind::Blackhole), 254);
        added.route(route("10.0.0.0/8", None, RouteKind::Blackhole), 100);
        let kinds: Vec<_> = added.routes.iter().map(|(route, _)| route.kind).collect();
        assert_eq!(kinds.len(), 3);
        assert_eq!(kinds[0], RouteKind::Prohibit);
        let net: Net = "10.0.0.0/8".parse().unwrap();
        assert!(!added.forget_route(net, 254, Some(8)));
        assert!(added.forget_route(net, 254, Some(7)));
        assert!(added.forget_route(net, 254, None));
        assert!(!added.forget_route(net, 254, None));
        assert!(added.forget_route(net, 100, Some(0)));
    }
}
