//! What may become of one frame: routing and bridging, joined where a bridge has a
//! routed side.

use std::net::IpAddr;

use nodes::Class;
use tables::oracle::{Meets, Routing};
use tables::{Kind, Outer, Tags};
use wire::{checksum, ipv4};

use super::bridging::{Bridging, bare, class_of, tags};
use super::loops::{Look, Loops};
use super::mirrors::Mirrors;
use super::outcome::{Fates, OLD_PROBE, Out, both, noted, nowhere, out};
use super::peers::Known;
use super::plan::DEVICES;
use super::stations::{Stations, Trust};

/// All that is known.
pub struct Oracle {
    pub routing: Routing,
    pub bridging: Bridging,
    pub stations: Stations,
    pub loops: Loops,
    pub mirrors: Mirrors,
    pub known: Known,
    /// Classes that are not punted.
    pub closed: u16,
}

impl Oracle {
    /// What may become of a frame that a device receives.
    pub fn received(&self, port: u16, frame: &[u8]) -> Fates {
        self.mirrors.copied(Some(port), frame, self.taken(port, frame))
    }

    /// The same without the mirrors.
    fn taken(&self, port: u16, frame: &[u8]) -> Fates {
        if self.bridging.member(port).is_none() {
            return self.arrived(port, frame);
        }
        let found = self.bridging.classify(port, frame);
        let taken = found
            .and_then(|(lan, came)| self.bridging.takes(port, frame, lan).map(|()| (lan, came)));
        match taken {
            Ok((lan, came)) => self.bridged(port, frame, lan, came),
            Err(why) => nowhere(why),
        }
    }

    /// What may become of a frame that the kernel sends by interface `id`.
    pub fn sent_by_kernel(&self, id: u16, frame: &[u8]) -> Fates {
        if self.routing.found(id).is_none() {
            return nowhere("from the kernel, interface gone");
        }
        if frame.len() < 14 {
            return nowhere("from the kernel, runt");
        }
        let fates = self.leaves(id, [&frame[..6], &frame[6..12]], &frame[12..]);
        self.mirrors.copied(None, frame, noted(fates, "from the kernel"))
    }

    /// Of a frame that is in a VLAN of a bridge.
    fn bridged(
        &self,
        from: u16,
        frame: &[u8],
        lan: (usize, u16),
        came: super::bridging::Came,
    ) -> Fates {
        let deliver = |port: u16, sent: Vec<u8>| {
            let note = match sent.len() as isize - frame.len() as isize {
                1.. => "tag put in",
                ..0 => "tag taken out",
                0 if sent != frame => "tag named",
                _ => "bridged as it came",
            };
            if port < DEVICES {
                out(Out::Sent(port, sent), note)
            } else {
                noted(self.arrived(port, &sent), "to the routed side")
            }
        };
        let flood = || {
            let looked = self.loops.look(lan, &bare(frame, came));
            if looked == Look::Probe {
                return nowhere("a probe came back");
            }
            if !self.bridging.floods(from, &frame[..6]) {
                return nowhere("flood rate");
            }
            let all = self.bridging.everywhere(from, lan, came, frame);
            let all = all.into_iter().map(|(port, sent)| deliver(port, sent));
            let all = all.fold(nowhere("flooded"), |fates, more| both(&fates, &more));
            if looked == Look::Either { [all, nowhere(OLD_PROBE)].concat() } else { all }
        };
        let known = self.stations.find(lan, &frame[..6]);
        let Some((port, trust)) = known else { return flood() };
        let direct = match self.bridging.to(from, port, lan, came, frame) {
            Ok(Some(sent)) if port < DEVICES || from < DEVICES => {
                noted(deliver(port, sent), "known station")
            }
            Ok(_) => return flood(),
            Err(why) => nowhere(why),
        };
        match trust {
            Trust::Yes => direct,
            Trust::No => noted(flood(), "flooded, not trusted"),
            Trust::Maybe => [direct, flood()].concat(),
        }
    }

    /// Of a frame that reaches layer 3 by a port.
    fn arrived(&self, port: u16, frame: &[u8]) -> Fates {
        let Ok(tags) = tags(frame) else { return nowhere("runt") };
        let wanted = match tags[..] {
            [] | [(_, 0)] => Tags::None,
            [(0x8100, vlan)] => Tags::Dot1q(vlan),
            [(0x88a8, outer), (0x8100, inner)] => Tags::QinQ(Outer::Dot1ad, outer, inner),
            [(0x8100, outer), (0x8100, inner)] => Tags::QinQ(Outer::Dot1q, outer, inner),
            [_] | [_, _] => return nowhere("tags of other types"),
            _ => return nowhere("nested tags"),
        };
        let Some((id, iface)) = self.routing.arriving(port, wanted) else {
            return nowhere("no interface");
        };
        let group = frame[0] & 1 != 0;
        if !group && frame[..6] != iface.mac {
            return nowhere("not for us");
        }
        if frame[6] & 1 != 0 {
            return nowhere("from a group");
        }
        if frame[6..12] == iface.mac {
            return nowhere("from its own address");
        }
        let at = 14 + 4 * tags.len();
        let kind = u16::from_be_bytes([frame[at - 2], frame[at - 1]]);
        let packet = Packet { frame, at, iface: id, vrf: iface.vrf };
        match kind {
            0x0800 if !group => self.ipv4(packet),
            0x86dd if !group => self.ipv6(packet),
            _ => self.punted(packet, class_of(kind)),
        }
    }

    fn ipv4(&self, packet: Packet<'_>) -> Fates {
        let ip = packet.ip();
        if ip.len() < 20 || ip[0] >> 4 != 4 {
            return nowhere("no IPv4 packet");
        }
        let header = usize::from(ip[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if header < 20 || total < header || total > ip.len() {
            return nowhere("wrong lengths");
        }
        if !checksum::is_right(&ip[..header]) {
            return nowhere("wrong checksum");
        }
        if matches!(ip[12], 0 | 127 | 224..) {
            return nowhere("martian source");
        }
        let [.., p, q, r, s, a, b, c, d] = *<&[u8; 20]>::try_from(&ip[..20]).expect("twenty bytes");
        let (src, dst) = (IpAddr::from([p, q, r, s]), IpAddr::from([a, b, c, d]));
        if [p, q] == [169, 254] || header > 20 && [a, b] == [169, 254] {
            return match self.is_ours(packet.vrf, dst) {
                true => noted(self.punted(packet, Class::ForUs), "of one link, for us"),
                false => nowhere("of one link"),
            };
        }
        if header > 20 {
            return self.punted(packet, Class::Options);
        }
        self.routed(packet.cut(total), src, dst)
    }

    fn ipv6(&self, packet: Packet<'_>) -> Fates {
        let ip = packet.ip();
        if ip.len() < 40 || ip[0] >> 4 != 6 {
            return nowhere("no IPv6 packet");
        }
        let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
        if payload + 40 > ip.len() || payload == 0 && ip[6] == 0 {
            return nowhere("wrong lengths");
        }
        let address = |at: usize| u128::from_be_bytes(ip[at..at + 16].try_into().expect("sixteen"));
        let (src, dst) = (address(8), address(24));
        let mapped = |ip: u128| ip >> 32 == 0xffff;
        let multicast = |ip: u128| ip >> 120 == 0xff;
        if mapped(src) || mapped(dst) || src <= 1 || dst <= 1 || multicast(src) {
            return nowhere("wrong address");
        }
        let local = |ip: u128| ip >> 118 == 0xfe80 >> 6;
        if multicast(dst) {
            return self.punted(packet, Class::Multicast);
        }
        if local(src) || local(dst) {
            return self.punted(packet, Class::ForUs);
        }
        let [src, dst] = [src, dst].map(|ip| IpAddr::from(ip.to_be_bytes()));
        self.routed(packet.cut(payload + 40), src, dst)
    }

    /// By any of the ways that its destination has.
    fn routed(&self, packet: Packet<'_>, src: IpAddr, dst: IpAddr) -> Fates {
        if packet.vrf != 0 && self.is_ours(packet.vrf, src) {
            return nowhere("from an address of ours");
        }
        let ways = self.routing.lookup(packet.vrf, dst);
        let fates = ways.iter().flat_map(|way| self.led(packet, way)).collect();
        if ways.len() > 1 { noted(fates, "several ways") } else { fates }
    }

    fn is_ours(&self, vrf: u16, ip: IpAddr) -> bool {
        self.routing.lookup(vrf, ip).contains(&Meets::Other(Kind::ForUs))
    }

    fn led(&self, packet: Packet<'_>, way: &Meets) -> Fates {
        let (iface, mac, mtu) = match way {
            Meets::Other(kind) => return self.stays(packet, *kind),
            Meets::Way(iface, mac, mtu) => (*iface, *mac, *mtu),
        };
        let mut ip = packet.ip().to_vec();
        let six = ip[0] >> 4 == 6;
        let limit = if six { 7 } else { ipv4::TTL };
        if ip[limit] <= 1 {
            return self.punted(packet, Class::TtlExceeded);
        }
        if ip.len() > usize::from(mtu) {
            return self.punted(packet, Class::TooBig);
        }
        ip[limit] -= 1;
        if !six {
            ip[ipv4::CHECKSUM..ipv4::CHECKSUM + 2].fill(0);
            let sum = checksum::checksum(&ip[..ipv4::MIN_LEN]);
            ip[ipv4::CHECKSUM..ipv4::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let kind: [u8; 2] = if six { [0x86, 0xdd] } else { [8, 0] };
        let Some(found) = self.routing.found(iface) else { return nowhere("interface gone") };
        let note = match (six, found.vrf == packet.vrf) {
            (false, true) => "routed, IPv4",
            (true, true) => "routed, IPv6",
            _ => "routed, to another VRF",
        };
        let fates = self.leaves(iface, [&mac, &found.mac], &[&kind[..], &ip].concat());
        let fates = if packet.vrf == 0 { fates } else { noted(fates, "routed in a second VRF") };
        noted(fates, note)
    }

    /// Of a packet that goes nowhere else.
    fn stays(&self, packet: Packet<'_>, kind: Kind) -> Fates {
        let class = match kind {
            Kind::Blackhole => return nowhere("blackhole"),
            Kind::Martian => return nowhere("martian"),
            Kind::NotReady => unreachable!("no listing is waited for"),
            Kind::ForUs => Class::ForUs,
            Kind::NoNeighbour => Class::NoNeighbour,
            Kind::ViaKernel if packet.vrf != 0 => {
                return nowhere("via the kernel, not in this VRF");
            }
            Kind::ViaKernel => Class::ViaKernel,
            Kind::Multicast => Class::Multicast,
            Kind::NoRoute | Kind::Unreachable => Class::Unreachable,
            Kind::Forward | Kind::Multipath => unreachable!("that is a way"),
            Kind::Protected | Kind::Bypass | Kind::Discard => unreachable!("there is no shield"),
        };
        self.punted(packet, class)
    }

    /// Of a frame that leaves by an interface: addresses, then what is behind the tags.
    fn leaves(&self, iface: u16, macs: [&[u8]; 2], rest: &[u8]) -> Fates {
        let Some(found) = self.routing.found(iface) else { return nowhere("interface gone") };
        let tag = |kind: u16, vlan: u16| [kind.to_be_bytes(), vlan.to_be_bytes()].concat();
        let tags = match found.plan.tags {
            Tags::None => Vec::new(),
            Tags::Dot1q(vlan) => tag(0x8100, vlan),
            Tags::QinQ(kind, outer, inner) => {
                [tag(kind as u16, outer), tag(0x8100, inner)].concat()
            }
        };
        let frame = [macs[0], macs[1], &tags, rest].concat();
        let port = found.plan.port;
        if port < DEVICES {
            return out(Out::Sent(port, frame), "sent");
        }
        match self.bridging.classify(port, &frame) {
            Ok((lan, came)) => noted(self.bridged(port, &frame, lan, came), "into a bridge"),
            Err(why) => nowhere(why),
        }
    }

    /// To the kernel, as far as its class goes there.
    fn punted(&self, packet: Packet<'_>, class: Class) -> Fates {
        // What packets to this machine carry, and who sends them, makes a finer class of them.
        let classes = self.known.classes(class, packet.iface, packet.ip());
        let (frame, open) = (packet.frame, classes & !self.closed);
        let untagged = [&frame[..12], &frame[packet.at - 2..packet.end()]].concat();
        let punt = out(Out::Punted(packet.iface, open, untagged), class.name());
        match (open == 0, open == classes && class != Class::NoNeighbour) {
            (true, _) => nowhere("punt rate"),
            (_, true) => punt,
            // One a second and destination; or by what it carries.
            _ => [punt, nowhere("not punted")].concat(),
        }
    }
}

/// A packet at layer 3.
#[derive(Clone, Copy)]
struct Packet<'f> {
    frame: &'f [u8],
    /// Where layer 3 begins.
    at: usize,
    iface: u16,
    vrf: u16,
}

impl<'f> Packet<'f> {
    fn ip(&self) -> &'f [u8] {
        &self.frame[self.at..]
    }

    fn end(&self) -> usize {
        self.frame.len()
    }

    /// Without what follows it, but for the padding of a frame of 60 bytes.
    fn cut(self, total: usize) -> Packet<'f> {
        let keep = total.max(46).min(self.ip().len());
        Packet { frame: &self.frame[..self.at + keep], ..self }
    }
}
