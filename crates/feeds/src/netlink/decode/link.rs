//! Links, and what hangs on them: addresses, neighbours.

use netlink::message::{find, u16_at, u32_at};
use netlink::names::*;
use tables::event::{Address, Event, Link, LinkId, Neighbour, NeighbourState};

use super::{Body, ip};

pub(super) fn link(body: &Body<'_>, gone: bool) -> Option<Event> {
    if body.family() != AF_UNSPEC {
        return None; // a bridge reports its ports by messages of its own family
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
            IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            IFLA_IFNAME => link.name = text(value),
            IFLA_MTU => link.mtu = u32_at(value, 0),
            IFLA_LINK => below = Some(LinkId(u32_at(value, 0))),
            IFLA_MASTER => link.master = Some(u32_at(value, 0)).filter(|&id| id != 0).map(LinkId),
            IFLA_LINKINFO => {
                link.vrf_table = vrf_table(value);
                macvlan = kind_of(value).as_deref() == Some("macvlan");
            }
            IFLA_LINK_NETNSID => elsewhere = true,
            _ => {}
        }
    }
    link.macvlan_of = below.filter(|_| macvlan && !elsewhere);
    Some(Event::Link(link))
}

/// The table, where `IFLA_LINKINFO` is that of a VRF device.
fn vrf_table(info: &[u8]) -> Option<u32> {
    (kind_of(info)? == "vrf").then_some(())?;
    let data = find(info, IFLA_INFO_DATA)?;
    find(data, IFLA_VRF_TABLE).map(|value| u32_at(value, 0))
}

/// The kind of link that `IFLA_LINKINFO` names.
fn kind_of(info: &[u8]) -> Option<String> {
    find(info, IFLA_INFO_KIND).map(text)
}

pub(super) fn address(body: &Body<'_>, gone: bool) -> Option<Event> {
    let (mut address, mut local) = (None, None);
    for (kind, value) in body.attributes() {
        match kind {
            IFA_ADDRESS => address = ip(body.family(), value),
            IFA_LOCAL => local = ip(body.family(), value),
            _ => {}
        }
    }
    // IFA_ADDRESS is the other end of a point-to-point link, IFA_LOCAL is ours.
    let ip = local.or(address)?;
    let address = Address { link: LinkId(u32_at(body.fixed, 4)), ip, len: body.fixed[1] };
    Some(if gone { Event::AddressGone(address) } else { Event::Address(address) })
}

pub(super) fn neighbour(body: &Body<'_>, gone: bool) -> Option<Event> {
    let (link, state) = (LinkId(u32_at(body.fixed, 4)), u16_at(body.fixed, 8));
    if body.fixed[10] & NTF_PROXY != 0 {
        return None;
    }
    let (mut destination, mut mac) = (None, None);
    for (kind, value) in body.attributes() {
        match kind {
            NDA_DST => destination = ip(body.family(), value),
            NDA_LLADDR => mac = value.try_into().ok(),
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
        NUD_REACHABLE => NeighbourState::Reachable,
        NUD_STALE => NeighbourState::Stale,
        NUD_DELAY => NeighbourState::Delay,
        NUD_PROBE => NeighbourState::Probe,
        NUD_FAILED => NeighbourState::Failed,
        NUD_NOARP => NeighbourState::NoArp,
        NUD_PERMANENT => NeighbourState::Permanent,
        _ => NeighbourState::Incomplete,
    }
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

const UP_RUNNING: u32 = IFF_UP | IFF_RUNNING;

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;
    use netlink::message::Message;
    use tables::event::Source;

    fn decoded(kind: u16, fixed: &[u8], (attribute, value): (u16, [u8; 4])) -> Option<Event> {
        let kinds = [8_u16.to_ne_bytes(), attribute.to_ne_bytes()].concat();
        let payload = [fixed, &kinds, &value].concat();
        decode(&Message { kind, flags: 0, sequence: 0, payload: &payload }, Source::Kernel)
    }

    #[test]
    fn master_0_is_none() {
        let master = |id: u32| {
            let master = (IFLA_MASTER, id.to_ne_bytes());
            let Some(Event::Link(link)) = decoded(RTM_NEWLINK, &[0; 16], master) else { panic!() };
            link.master
        };
        assert_eq!([0, 7].map(master), [None, Some(LinkId(7))]);
    }

    #[test]
    fn each_state_of_a_neighbour_has_its_number() {
        use NeighbourState::*;
        let state = |bits: u8| {
            let fixed = [AF_INET, 0, 0, 0, 9, 0, 0, 0, bits, 0, 0, 0];
            let destination = (NDA_DST, [192, 0, 2, 1]);
            let Some(Event::Neighbour(neighbour)) = decoded(RTM_NEWNEIGH, &fixed, destination)
            else {
                panic!()
            };
            neighbour.state
        };
        let states = [0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x01, 0].map(state);
        let expected =
            [Reachable, Stale, Delay, Probe, Failed, NoArp, Permanent, Incomplete, Incomplete];
        assert_eq!(states, expected);
    }
}
