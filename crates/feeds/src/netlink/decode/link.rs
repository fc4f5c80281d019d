//! Links, and what hangs on them: addresses, neighbours.

use tables::event::{Address, Event, Link, LinkId, Neighbour, NeighbourState};

use super::super::message::{attributes, u16_at, u32_at};
use super::{Body, ip};

pub(super) fn link(body: &Body<'_>, gone: bool) -> Option<Event> {
    if body.family() != UNSPEC {
        return None; // a bridge tells of its ports with messages of its own family
    }
    let (index, flags) = (LinkId(u32_at(body.fixed, 4)), u32_at(body.fixed, 8));
    if gone {
        return Some(Event::LinkGone(index));
    }
    let mut link = Link { index, up: flags & UP_RUNNING == UP_RUNNING, ..Link::default() };
    // The link below may be of another network namespace, with a number of that.
    let (mut below, mut macvlan, mut elsewhere) = (None, false, false);
    for (kind, value) in body.attributes() {
        match kind {
            1 => link.mac = value.try_into().unwrap_or_default(),
            3 => link.name = text(value),
            4 => link.mtu = u32_at(value, 0),
            5 => below = Some(LinkId(u32_at(value, 0))),
            10 => link.master = Some(u32_at(value, 0)).filter(|&id| id != 0).map(LinkId),
            18 => {
                link.vrf_table = vrf_table(value);
                macvlan = kind_of(value).as_deref() == Some("macvlan");
            }
            37 => elsewhere = true,
            _ => {}
        }
    }
    link.macvlan_of = below.filter(|_| macvlan && !elsewhere);
    Some(Event::Link(link))
}

/// The table, where `IFLA_LINKINFO` is that of a VRF device.
fn vrf_table(info: &[u8]) -> Option<u32> {
    (kind_of(info)? == "vrf").then_some(())?;
    let (_, data) = attributes(info).find(|(kind, _)| *kind == 2)?;
    attributes(data).find(|(kind, _)| *kind == 1).map(|(_, value)| u32_at(value, 0))
}

/// The kind of link that `IFLA_LINKINFO` names.
fn kind_of(info: &[u8]) -> Option<String> {
    attributes(info).find(|(kind, _)| *kind == 1).map(|(_, value)| text(value))
}

pub(super) fn address(body: &Body<'_>, gone: bool) -> Option<Event> {
    let (mut address, mut local) = (None, None);
    for (kind, value) in body.attributes() {
        match kind {
            1 => address = ip(body.family(), value),
            2 => local = ip(body.family(), value),
            _ => {}
        }
    }
    // IFA_ADDRESS is the other end of a point-to-point link, IFA_LOCAL is ours.
    let ip = local.or(address)?;
    let address = Address { link: LinkId(u32_at(body.fixed, 4)), ip, len: body.fixed[1] };
    Some(if gone { Event::AddressGone(address) } else { Event::Address(address) })
}

pub(super) fn neighbour(body: &Body<'_>, gone: bool) -> Option<Event> {
    const PROXY: u8 = 0x08;
    let (link, state) = (LinkId(u32_at(body.fixed, 4)), u16_at(body.fixed, 8));
    if body.fixed[10] & PROXY != 0 {
        return None;
    }
    let (mut destination, mut mac) = (None, None);
    for (kind, value) in body.attributes() {
        match kind {
            1 => destination = ip(body.family(), value),
            2 => mac = value.try_into().ok(),
            _ => {}
        }
    }
    let ip = destination?;
    if gone {
        return Some(Event::NeighbourGone(link, ip));
    }
    Some(Event::Neighbour(Neighbour { link, ip, mac, state: neighbour_state(state) }))
}

fn neighbour_state(bits: u16) -> NeighbourState {
    match bits {
        0x02 => NeighbourState::Reachable,
        0x04 => NeighbourState::Stale,
        0x08 => NeighbourState::Delay,
        0x10 => NeighbourState::Probe,
        0x20 => NeighbourState::Failed,
        0x40 => NeighbourState::NoArp,
        0x80 => NeighbourState::Permanent,
        _ => NeighbourState::Incomplete,
    }
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

const UNSPEC: u8 = 0;
/// `IFF_UP | IFF_RUNNING`.
const UP_RUNNING: u32 = 0x1 | 0x40;
