//! Requests about routes, neighbours and forwarding tables.

use std::net::IpAddr;
use std::time::Duration;

use api::apps::router::{Reply, Request, Route, RouteKind, What};
use api::{ErrorKind, Failure, Family};
use lookup::lpm::{Engines, Options};
use netlink::connection::errno;
use tables::show::{RouteCursor, RouteFilter};

use super::show;
use crate::app::Answered;
use crate::config::net::is_of_host;
use crate::config::{self, Net};
use crate::parts::offline;
use crate::parts::state::{State, failure, lock, station};
use crate::server::Client;

/// Carries a change out.
pub(super) fn change(request: &Request, state: &State) -> Answered {
    match request {
        Request::RouteAdd(route) => route_add(state, route),
        Request::RouteDel { prefix, vrf, metric } => route_del(state, prefix, vrf, *metric),
        Request::NeighbourAdd { interface, address, mac } => {
            neighbour_add(state, interface, *address, mac)
        }
        Request::NeighbourDel { interface, address } => neighbour_del(state, interface, *address),
        Request::FibEngine { vrf, family, engine, options } => {
            fib_engine(state, vrf, *family, engine.clone(), options.clone())
        }
    }
}

/// Shows what is asked for.
pub(super) fn show(what: &What, state: &State, out: &mut Client) -> Answered {
    let reply = match what {
        What::Routes { vrf, family, inside, to, limit } => {
            let which = (vrf.clone(), *family, inside.clone(), *to);
            return routes(state, which, *limit, out);
        }
        What::Neighbours => {
            let all = state.ask(|control| show::neighbours(control))?;
            out.list(all, Reply::Neighbours);
            return Ok(());
        }
        What::Fib => Reply::Fib(state.ask(|control| show::fibs(control))?),
        What::Lookup { vrf, address } => lookup(state, vrf, *address)?,
    };
    out.part(reply.into());
    Ok(())
}

/// An address as the data plane looks it up.
fn lookup(state: &State, vrf: &str, address: IpAddr) -> Result<Reply, Failure> {
    let id = state.vrf(vrf)?;
    let asked = state.ask(move |control| (control.look_up(id, address), control.vrfs()))?;
    let (Some(found), vrfs) = asked else {
        return Err(failure(ErrorKind::Internal, "the table is gone"));
    };
    let names = state.names();
    Ok(Reply::Lookup(Box::new(show::lookup(vrf, address, &found, &vrfs, &names))))
}

/// Routes, a part at a time: the control thread serves others in between.
fn routes(
    state: &State,
    (vrf, family, inside, to): (Option<String>, Option<Family>, Option<String>, Option<IpAddr>),
    limit: Option<u64>,
    out: &mut Client,
) -> Answered {
    let vrf = match vrf {
        Some(name) => Some(state.vrf(&name)?),
        None => None,
    };
    let vrfs = state.ask(|control| control.vrfs())?;
    if let Some(address) = to {
        let route = state.ask(move |control| control.route_to(vrf.unwrap_or_default(), address))?;
        let shown = route.and_then(|route| show::route(&route, &vrfs));
        out.part(Reply::Routes(shown.into_iter().collect()).into());
        return Ok(());
    }
    let family = family.map(|family| match family {
        Family::Ipv4 => tables::Family::V4,
        Family::Ipv6 => tables::Family::V6,
    });
    let inside = match inside {
        Some(text) => Some(
            text.parse::<tables::Net>()
                .map_err(|error| failure(ErrorKind::Invalid, format!("`{text}`: {error}")))?,
        ),
        None => None,
    };
    let filter = RouteFilter { vrf, family, inside, all: true };
    let (mut cursor, mut left) = (None::<RouteCursor>, limit.unwrap_or(u64::MAX));
    while left > 0 && out.waits() {
        let (routes, next) = state.ask(move |control| control.routes(&filter, cursor, PAGE))?;
        let shown = routes.iter().filter_map(|route| show::route(route, &vrfs));
        let shown: Vec<_> = shown.take(usize::try_from(left).unwrap_or(usize::MAX)).collect();
        left -= shown.len() as u64;
        out.part(Reply::Routes(shown).into());
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}

fn route_add(state: &State, wanted: &Route) -> Answered {
    let prefix = prefix(&wanted.prefix)?;
    state.vrf(&wanted.vrf)?;
    if wanted.via.iter().any(|via| !(1..=256).contains(&via.weight)) {
        return Err(failure(ErrorKind::Invalid, "a gateway's weight is 1 to 256"));
    }
    let via = wanted.via.iter().map(|via| config::Via {
        to: via.gateway,
        interface: via.interface.clone(),
        weight: via.weight,
    });
    let via: Vec<_> = via.collect();
    if via.is_empty() != (wanted.kind != RouteKind::Unicast) {
        let text = "a unicast route needs gateways or interfaces, any other has none";
        return Err(failure(ErrorKind::Invalid, text));
    }
    let (vrf, metric) = (wanted.vrf.clone(), wanted.metric);
    let route = config::Route { prefix, kind: wanted.kind, via, vrf, metric };
    if let Some(objection) = state.config.objection(&route) {
        return Err(failure(ErrorKind::Invalid, objection));
    }
    let table = offline::table_of(&state.config, &route.vrf);
    if let Some(kernel) = &state.kernel {
        return lock(kernel).add_route(route, table).map_err(refused);
    }
    for interface in route.via.iter().filter_map(|via| via.interface.as_deref()) {
        state.interface(interface)?;
    }
    let event = offline::static_route(&state.config, &route);
    let event = event
        .ok_or_else(|| failure(ErrorKind::Refused, "a gateway is on no network of an interface"))?;
    state.ask(move |control| control.handle(&[event]))
}

fn route_del(state: &State, text: &str, vrf: &str, metric: Option<u32>) -> Answered {
    let net = prefix(text)?;
    state.vrf(vrf)?;
    let table = offline::table_of(&state.config, vrf);
    if let Some(kernel) = &state.kernel {
        let deleted = lock(kernel).delete_route(net, table, metric);
        let metric = metric.map(|metric| format!(" of metric {metric}")).unwrap_or_default();
        let what = format!("no static route to {net}{metric} in vrf {vrf}");
        return deleted.map_err(|error| absent(error, what));
    }
    let net = tables::Net::covering(net.address, net.length);
    let net = net.ok_or_else(|| failure(ErrorKind::Invalid, "not a prefix"))?;
    let found = state.ask(move |control| offline::delete_route(control, table, net, metric))?;
    if found { Ok(()) } else { Err(failure(ErrorKind::NotFound, "there is no such route")) }
}

fn neighbour_add(state: &State, interface: &str, address: IpAddr, mac: &str) -> Answered {
    let index = state.interface(interface)?;
    let mac = station(mac)?;
    if !is_of_host(address) {
        let text = format!("{address} is not a single host's address");
        return Err(failure(ErrorKind::Invalid, text));
    }
    if let Some(kernel) = &state.kernel {
        let entry = config::Neighbour { interface: interface.into(), address, mac };
        return lock(kernel).add_neighbour(entry).map_err(refused);
    }
    state.ask(move |control| control.handle(&[offline::neighbour(index, address, mac)]))
}

fn neighbour_del(state: &State, interface: &str, address: IpAddr) -> Answered {
    let index = state.interface(interface)?;
    if let Some(kernel) = &state.kernel {
        let deleted = lock(kernel).delete_neighbour(interface, address);
        let what = format!("no neighbour {address} at {interface}");
        return deleted.map_err(|error| absent(error, what));
    }
    let link = tables::LinkId(index);
    let found = state.ask(move |control| {
        let known = control.neighbours();
        control.handle(&[tables::Event::NeighbourGone(link, address)]);
        known.iter().any(|known| (known.link, known.ip) == (link, address))
    })?;
    let absent = || format!("there is no neighbour {address} at {interface}");
    if found { Ok(()) } else { Err(failure(ErrorKind::NotFound, absent())) }
}

/// Changes the engine, and waits until the new table serves.
fn fib_engine(
    state: &State,
    vrf: &str,
    family: Family,
    engine: String,
    options: Vec<(String, String)>,
) -> Answered {
    let vrf = state.vrf(vrf)?;
    let (family, known) = match family {
        Family::Ipv4 => (tables::Family::V4, options_of::<u32>(&engine)),
        Family::Ipv6 => (tables::Family::V6, options_of::<u128>(&engine)),
    };
    let known = known.unwrap_or_default(); // an unknown engine is refused below
    if let Some((name, _)) = options.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let text = format!("{engine} has no option `{name}`; it has: {}", known.join(", "));
        return Err(failure(ErrorKind::Invalid, text));
    }
    let options = Options(options.into_iter().collect());
    let name = engine.clone();
    let begun = state.ask(move |control| control.set_engine(vrf, family, &name, options))?;
    begun.map_err(|error| failure(ErrorKind::Refused, error))?;
    loop {
        let info = state.ask(move |control| control.fib_info(vrf, family))?;
        let info = info.ok_or_else(|| failure(ErrorKind::Internal, "the table is gone"))?;
        match info.switched {
            Some((_, result)) if info.switching_to.is_none() => {
                return result.map_err(|text| failure(ErrorKind::Refused, text));
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn options_of<A: Engines>(engine: &str) -> Option<Vec<&'static str>> {
    let card = A::engine(engine)?.card;
    Some(card.options.iter().map(|(name, ..)| *name).collect())
}

fn prefix(text: &str) -> Result<Net, Failure> {
    let net: Result<Net, _> = text.parse();
    let net = net.map_err(|_| {
        failure(ErrorKind::Invalid, format!("`{text}`: expected a prefix, such as 203.0.113.0/24"))
    })?;
    if net.is_prefix() {
        Ok(net)
    } else {
        let text = format!("`{text}`: bits are set to the right of the length");
        Err(failure(ErrorKind::Invalid, text))
    }
}

/// The kernel's refusal.
fn refused(error: std::io::Error) -> Failure {
    failure(ErrorKind::Refused, format_args!("the kernel: {error}"))
}

/// Its refusal to delete: that there is none is another failure than the rest.
fn absent(error: std::io::Error, what: String) -> Failure {
    match errno(&error) {
        Some(ENOENT | ESRCH) => failure(ErrorKind::NotFound, format_args!("there is {what}")),
        _ => refused(error),
    }
}

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
/// Next hops in one part of `show routes`, but for the rest of a prefix.
const PAGE: usize = 4096;
