//! Answers about bridges and stations.

use std::time::Instant;

use api::apps::switch::{
    Bridge, BridgeDomain, Loop, Mac as Shown, Reply, Request, What, WhichMacs,
};
use api::reply::{self, Capacity};
use api::{ErrorKind, Failure};
use tables::PortId;
use tables::bridge::DomainId;
use tables::switch::{Counters, Looped, Station, Switch, Which};

use super::View;
use super::config::Bridge as Configured;
use super::thread::Handle;
use crate::config::Mac;
use crate::parts::state::{failure, mac_of, station};
use crate::server::Client;

/// Carries a change out.
pub fn change(view: &View, request: &Request) -> Result<(), Failure> {
    match request {
        Request::MacAdd { mac, port, vlan } => add(view, mac, port, *vlan),
        Request::MacDel { mac, bridge, vlan } => del(view, mac, bridge.as_deref(), *vlan),
        Request::MacFlush(which) => flush(view, which),
    }
}

/// Shows what is asked for.
pub fn show(view: &View, what: &What, out: &mut Client) -> Result<(), Failure> {
    match what {
        What::Bridges => out.part(Reply::Bridges(bridges(view)?).into()),
        What::Macs { which, limit } => {
            let (stations, count) = stations(view, which, *limit)?;
            out.list(stations, |part| Reply::Macs((part, count)));
        }
    }
    Ok(())
}

/// At most `limit` stations, and how many there are.
fn stations(
    view: &View,
    which: &WhichMacs,
    limit: Option<u64>,
) -> Result<(Vec<Shown>, u64), Failure> {
    if view.handle.is_none() && which.bridge.is_none() {
        return Ok((Vec::new(), 0));
    }
    let (which, names) = (resolve(view, which)?, port_names(view));
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    ask(view, move |switch| {
        let (found, count) = switch.stations(&which, limit);
        (found.iter().map(|station| shown(station, switch, &names)).collect(), count)
    })
}

fn shown(station: &Station, switch: &Switch, names: &[String]) -> Shown {
    let (bridge, vlan) = switch.name(DomainId(station.key.domain())).unwrap_or(("", 0));
    Shown {
        mac: Mac(station.key.octets()).to_string(),
        bridge: bridge.into(),
        vlan,
        port: names.get(usize::from(station.port)).cloned().unwrap_or_default(),
        age_s: station.age,
    }
}

/// Bridges with their domains and counters, all workers together.
fn bridges(view: &View) -> Result<Vec<Bridge>, Failure> {
    if view.handle.is_none() {
        return Ok(Vec::new());
    }
    let (counters, names) = (view.domains.clone(), port_names(view));
    ask(view, move |switch| {
        let now = Instant::now();
        let (held, looped) = (switch.held(now), switch.looped());
        let shares: Vec<_> =
            switch.shares().map(|(name, share)| (name.to_string(), share)).collect();
        let of = |(i, config): (usize, &tables::switch::BridgeConfig)| {
            let share = shares.iter().find(|(name, _)| *name == config.name).map(|(_, s)| *s);
            let share = share.unwrap_or_default();
            let domain = |vlan: &u16| {
                let id = switch.domain(&config.name, *vlan)?;
                let sum = |get: &dyn Fn(&nodes::DomainCounter) -> u64| {
                    counters.iter().map(|worker| get(worker.of(id))).sum()
                };
                Some(BridgeDomain {
                    vlan: *vlan,
                    frames: sum(&|counter| counter.frames.get()),
                    bytes: sum(&|counter| counter.bytes.get()),
                    flooded: sum(&|counter| counter.flooded.get()),
                })
            };
            let held = held.iter().filter(|key| {
                switch.name(DomainId(key.domain())).is_some_and(|(name, _)| name == config.name)
            });
            let loops = looped.iter().filter_map(|looped| {
                let (bridge, vlan) = switch.name(looped.sighting.domain)?;
                (bridge == config.name).then(|| a_loop(looped, vlan, &names, now))
            });
            Bridge {
                name: config.name.clone(),
                ports: config.members.len() as u16,
                macs: share.used,
                max_macs: share.limit,
                domains: config.vlans().iter().filter_map(domain).collect(),
                silent: 0,
                held: held.map(|key| Mac(key.octets()).to_string()).collect(),
                loops: loops.collect(),
                counters: named(switch.counters(i)),
            }
        };
        let mut all: Vec<Bridge> = switch.bridges().iter().enumerate().map(of).collect();
        // Domains of a trunk of all VLANs that never had a frame say nothing.
        for bridge in all.iter_mut().filter(|bridge| bridge.domains.len() > 64) {
            let all = bridge.domains.len();
            bridge.domains.retain(|domain| domain.frames + domain.flooded > 0);
            bridge.silent = (all - bridge.domains.len()) as u64;
        }
        all
    })
}

fn a_loop(looped: &Looped, vlan: u16, names: &[String], now: Instant) -> Loop {
    let name = |port: u16| names.get(usize::from(port)).cloned().unwrap_or_default();
    Loop {
        port: name(looped.sighting.port),
        sender: name(looped.sighting.sender),
        vlan,
        out: looped.out,
        since_s: now.saturating_duration_since(looped.since).as_secs(),
        retry_s: looped.retry.saturating_duration_since(now).as_secs(),
    }
}

/// Says which of the ports are out.
pub fn ports(view: &View, ports: &mut [reply::Port]) {
    let (names, now) = (port_names(view), Instant::now());
    let Ok(looped) = ask(view, |switch| switch.looped()) else { return };
    for found in looped.iter().map(|looped| a_loop(looped, 0, &names, now)).filter(|of| of.out) {
        for port in ports.iter_mut().filter(|port| port.name == found.port) {
            port.out = Some(format!("loop with {}", found.sender));
        }
    }
}

fn named(counters: Counters) -> Vec<(String, u64)> {
    let Counters { seen, learnt, moved, held, aged, flushed, refused, replaced, misplaced, loops } =
        counters;
    let all = [
        ("reports", seen),
        ("learnt", learnt),
        ("moved", moved),
        ("held", held),
        ("aged", aged),
        ("flushed", flushed),
        ("refused", refused),
        ("replaced", replaced),
        ("misplaced", misplaced),
        ("loops", loops),
    ];
    all.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
}

/// The limits on stations.
pub fn capacity(view: &View) -> Result<Vec<Capacity>, Failure> {
    if view.handle.is_none() {
        return Ok(Vec::new());
    }
    let names = port_names(view);
    let bridge = |port: &String| bridge_of(view, port).map(|bridge| bridge.name.clone());
    let bridges: Vec<_> = names.iter().map(|port| bridge(port).unwrap_or_default()).collect();
    ask(view, move |switch| {
        let shares = switch.shares().map(|(name, share)| Capacity {
            what: format!("macs of bridge {name}"),
            used: share.used,
            limit: Some(share.limit),
            refused: share.refused,
            last: String::new(),
            key: Some(format!("bridge.{name}.max_macs")),
        });
        let mut all: Vec<_> = shares.collect();
        all.extend(switch.port_shares().filter_map(|(PortId(port), share)| {
            let name = names.get(usize::from(port))?;
            let bridge = bridges.get(usize::from(port))?;
            Some(Capacity {
                what: format!("macs at port {name}"),
                used: share.used,
                limit: Some(share.limit),
                refused: share.refused,
                last: String::new(),
                key: Some(format!("bridge.{bridge}.port.{name}.max_macs")),
            })
        }));
        let table = switch.capacity();
        all.push(Capacity {
            what: "mac table, slots at its present size".into(),
            used: table.entries as u64,
            limit: Some(table.slots as u64),
            refused: table.refused + table.growths_refused,
            last: String::new(),
            key: None,
        });
        all
    })
}

/// A station that does not age.
fn add(view: &View, mac: &str, port: &str, vlan: u16) -> Result<(), Failure> {
    let mac = station(mac)?;
    let number = port_number(view, port)?;
    let bridge = bridge_of(view, port)
        .ok_or_else(|| failure(ErrorKind::Invalid, format!("port `{port}` is in no bridge")))?;
    let member = bridge.ports.iter().find(|member| member.port == port);
    if vlan != 0 && member.is_some_and(|member| !member.mode.vlans().any(|of| of == vlan)) {
        let text = format!("port `{port}` is not in VLAN {vlan}");
        return Err(failure(ErrorKind::Invalid, text));
    }
    let name = bridge.name.clone();
    let added = ask(view, move |switch| {
        let domain = switch.domain(&name, vlan)?;
        Some(switch.insert_static(mac.0, domain, number))
    })?;
    match added {
        None => Err(no_domain(&bridge.name, vlan)),
        Some(result) => result.map_err(|error| failure(ErrorKind::Refused, error)),
    }
}

/// Takes a station out, static or learnt.
fn del(view: &View, mac: &str, bridge: Option<&str>, vlan: u16) -> Result<(), Failure> {
    let mac = mac_of(mac)?;
    let bridge = match (bridge, view.bridges.as_slice()) {
        (Some(name), _) => name.to_string(),
        (None, [only]) => only.name.clone(),
        (None, _) => {
            let text = "there are several bridges: name one (--bridge)";
            return Err(failure(ErrorKind::Invalid, text));
        }
    };
    let name = bridge.clone();
    let gone = ask(view, move |switch| {
        let domain = switch.domain(&name, vlan)?;
        Some(switch.delete(mac.0, domain))
    })?;
    match gone {
        None => Err(no_domain(&bridge, vlan)),
        Some(true) => Ok(()),
        Some(false) => Err(failure(ErrorKind::NotFound, format!("there is no station {mac}"))),
    }
}

/// Forgets learnt stations.
fn flush(view: &View, which: &WhichMacs) -> Result<(), Failure> {
    let which = resolve(view, which)?;
    ask(view, move |switch| switch.flush(&which)).map(|_| ())
}

/// The named parts of the request, by number.
fn resolve(view: &View, which: &WhichMacs) -> Result<Which, Failure> {
    let port = match &which.port {
        Some(port) => Some(port_number(view, port)?),
        None => None,
    };
    let mac = match &which.mac {
        Some(mac) => Some(mac_of(mac)?.0),
        None => None,
    };
    if which.bridge.is_none() && which.vlan.is_none() {
        return Ok(Which { domains: None, port, mac });
    }
    let all = &view.bridges;
    if let Some(name) = &which.bridge
        && !all.iter().any(|bridge| bridge.name == *name)
    {
        let names: Vec<_> = all.iter().map(|bridge| bridge.name.as_str()).collect();
        let text = format!("no bridge is called `{name}`; there are: {}", names.join(", "));
        return Err(failure(ErrorKind::Invalid, text));
    }
    let wanted =
        all.iter().filter(|bridge| which.bridge.as_ref().is_none_or(|n| *n == bridge.name));
    let vlan = which.vlan;
    let domains = wanted.flat_map(|bridge| {
        let vlans = bridge.domains().into_iter().filter(move |of| vlan.is_none_or(|v| v == *of));
        vlans.map(|vlan| (bridge.name.clone(), vlan))
    });
    let domains: Vec<_> = domains.collect();
    let domains = ask(view, move |switch| {
        domains.iter().filter_map(|(name, vlan)| switch.domain(name, *vlan)).collect()
    })?;
    Ok(Which { domains: Some(domains), port, mac })
}

fn ask<R: Send + 'static>(
    view: &View,
    f: impl FnOnce(&mut Switch) -> R + Send + 'static,
) -> Result<R, Failure> {
    let handle: &Handle = view.handle.as_ref().ok_or_else(|| {
        failure(ErrorKind::NotFound, "the configuration has no bridge ([bridge.NAME])")
    })?;
    handle.call(f).map_err(|error| failure(ErrorKind::Internal, error))
}

/// The bridge that a port is in.
fn bridge_of<'v>(view: &'v View, port: &str) -> Option<&'v Configured> {
    let has = |bridge: &&Configured| bridge.ports.iter().any(|member| member.port == port);
    view.bridges.iter().find(has)
}

/// Names of ports and bridges' routed sides, by number.
fn port_names(view: &View) -> Vec<String> {
    view.names.iter().chain(view.bridges.iter().map(|bridge| &bridge.name)).cloned().collect()
}

fn port_number(view: &View, name: &str) -> Result<u16, Failure> {
    let at = view.names.iter().position(|port| port == name);
    let known = || {
        let text = format!("no port is called `{name}`; there are: {}", view.names.join(", "));
        failure(ErrorKind::Invalid, text)
    };
    at.map(|at| at as u16).ok_or_else(known)
}

fn no_domain(bridge: &str, vlan: u16) -> Failure {
    let text = match vlan {
        0 => format!("the ports of `{bridge}` have VLANs: name one (--vlan)"),
        vlan => format!("the bridge `{bridge}` has no VLAN {vlan}"),
    };
    failure(ErrorKind::Invalid, text)
}
