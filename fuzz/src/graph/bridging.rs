//! What bridges do, worked out from their configuration: whose frames a port takes, as
//! which VLAN, and how they leave by another.

use nodes::Class;
use tables::switch::{BridgeConfig, Member, Mode};

use super::plan::DEVICES;

/// Bridges, and which devices have a link.
pub struct Bridging {
    pub configs: Vec<BridgeConfig>,
    pub up: [bool; DEVICES as usize],
    /// Those that are out: there is a loop behind them.
    pub out: [bool; DEVICES as usize],
}

/// A forwarding domain: a bridge, and a VLAN of it (0: it looks at no tags).
pub type Lan = (usize, u16);

/// What a frame's outermost tag is to its VLAN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Came {
    Untagged,
    Tagged,
    Priority,
}

/// How frames of a VLAN leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    AsIs,
    Untagged,
    Tagged,
}

impl Bridging {
    /// The bridge of a port, and what it is there.
    pub fn member(&self, port: u16) -> Option<(usize, Member)> {
        if let Some(i) = port.checked_sub(DEVICES) {
            let config = self.configs.get(usize::from(i))?;
            return Some((i.into(), side(config, port)?));
        }
        let all = self.configs.iter().enumerate();
        let mut members = all.flat_map(|(i, config)| config.members.iter().map(move |m| (i, m)));
        members.find(|(_, member)| member.port.0 == port).map(|(i, member)| (i, member.clone()))
    }

    /// All ports of a bridge.
    fn members(&self, bridge: usize) -> Vec<Member> {
        let config = &self.configs[bridge];
        config.members.iter().cloned().chain(side(config, DEVICES + bridge as u16)).collect()
    }

    /// Whose a frame is that came in by `port`, and how.
    pub fn classify(&self, port: u16, frame: &[u8]) -> Result<(Lan, Came), &'static str> {
        if self.is_out(port) {
            return Err("port is out");
        }
        self.would_classify(port, frame)
    }

    /// The same, were the port in.
    pub fn would_classify(&self, port: u16, frame: &[u8]) -> Result<(Lan, Came), &'static str> {
        let (bridge, member) = self.member(port).ok_or("no bridge")?;
        let tags = tags(frame)?;
        if tags.iter().any(|tag| tag.1 == 4095) {
            return Err("reserved VLAN");
        }
        let by_tag = matches!(member.mode, Mode::Access(_) | Mode::Trunk { .. });
        if tags.len() > 2 + usize::from(by_tag) {
            return Err("nested tags");
        }
        let native = match &member.mode {
            Mode::Plain => return Ok(((bridge, 0), Came::Untagged)),
            Mode::Tunnel(vlan) => return Ok(((bridge, *vlan), Came::Untagged)),
            Mode::Access(vlan) => Some(*vlan),
            Mode::Trunk { native, .. } => *native,
        };
        let unknown = "unknown VLAN";
        match tags.first() {
            None => Ok(((bridge, native.ok_or(unknown)?), Came::Untagged)),
            Some((0x88a8, _)) => Err("service tag"),
            Some((_, 0)) => Ok(((bridge, native.ok_or(unknown)?), Came::Priority)),
            Some((_, vlan)) => match &member.mode {
                Mode::Trunk { vlans, .. } if vlans.iter().any(|range| range.contains(vlan)) => {
                    Ok(((bridge, *vlan), Came::Tagged))
                }
                _ => Err(unknown),
            },
        }
    }

    /// Is the port out?
    pub fn is_out(&self, port: u16) -> bool {
        self.out.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// A probe of a VLAN as it leaves by a port, or comes in by it; `None` where the port is
    /// down, or closed to the VLAN.
    pub fn probe(&self, port: u16, lan: Lan, bare: &[u8]) -> Option<Vec<u8>> {
        let (bridge, member) = self.member(port)?;
        let up = self.up.get(usize::from(port)).copied().unwrap_or_default();
        let way = self.would_leave(&member, lan).filter(|_| bridge == lan.0 && up)?;
        Some(edited(bare, way, Came::Untagged, lan.1))
    }

    /// Is the frame, from a device, one that a bridge forwards?
    pub fn takes(&self, port: u16, frame: &[u8], lan: Lan) -> Result<(), &'static str> {
        let (dst, src) = (&frame[..6], &frame[6..12]);
        if frame.len() > self.longest(port) {
            return Err("longer than the port takes");
        }
        if src[0] & 1 != 0 || src == [0; 6] {
            return Err("bad source");
        }
        if src == dst {
            return Err("to itself");
        }
        let link_local = dst[..5] == [1, 0x80, 0xc2, 0, 0] && dst[5] < 16;
        if link_local && !self.configs[lan.0].link_local.passes(dst[5]) {
            return Err("link-local");
        }
        Ok(())
    }

    fn longest(&self, port: u16) -> usize {
        self.member(port).map_or(0, |(_, member)| usize::from(member.mtu) + 22)
    }

    /// May frames of this kind from `port` be flooded?
    pub fn floods(&self, port: u16, dst: &[u8]) -> bool {
        let Some((_, member)) = self.member(port) else { return false };
        let rate = match dst {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => member.flood.broadcast,
            [first, ..] if first & 1 != 0 => member.flood.multicast,
            _ => member.flood.unknown,
        };
        rate > 0
    }

    /// Where a flooded frame goes: port and bytes.
    pub fn everywhere(&self, from: u16, lan: Lan, came: Came, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let ports = self.members(lan.0).into_iter().map(|member| member.port.0);
        ports
            .filter_map(|port| Some((port, self.to(from, port, lan, came, frame).ok()??)))
            .collect()
    }

    /// The frame as it leaves by `port`; `None` where it is closed to the VLAN.
    pub fn to(
        &self,
        from: u16,
        port: u16,
        lan: Lan,
        came: Came,
        frame: &[u8],
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let Some(way) = self.way(port, lan) else { return Ok(None) };
        let isolated = |port| self.member(port).is_some_and(|(_, member)| member.isolated);
        if from == port {
            return Err("same port");
        }
        if isolated(from) && isolated(port) {
            return Err("isolated");
        }
        let edited = edited(frame, way, came, lan.1);
        let outer = tags(&edited).map_or(0, |tags| tags.len()).min(2);
        let mtu = self.member(port).map_or(0, |(_, member)| usize::from(member.mtu));
        if edited.len() - 14 - 4 * outer > mtu { Err("too long") } else { Ok(Some(edited)) }
    }

    fn way(&self, port: u16, lan: Lan) -> Option<Way> {
        let (bridge, member) = self.member(port)?;
        let up = self.up.get(usize::from(port)).copied().unwrap_or(true);
        if bridge != lan.0 || !up || self.is_out(port) {
            return None;
        }
        self.would_leave(&member, lan)
    }

    fn would_leave(&self, member: &Member, lan: Lan) -> Option<Way> {
        match &member.mode {
            Mode::Plain => Some(Way::AsIs),
            Mode::Access(vlan) | Mode::Tunnel(vlan) => (*vlan == lan.1).then_some(Way::Untagged),
            Mode::Trunk { native, .. } if *native == Some(lan.1) => Some(Way::Untagged),
            Mode::Trunk { vlans, .. } => {
                vlans.iter().any(|range| range.contains(&lan.1)).then_some(Way::Tagged)
            }
        }
    }
}

/// The routed interface as a member.
fn side(config: &BridgeConfig, port: u16) -> Option<Member> {
    let mode = match config.routed[..] {
        [] => return None,
        [0, ..] => Mode::Plain,
        ref vlans => {
            Mode::Trunk { vlans: vlans.iter().map(|&vlan| vlan..=vlan).collect(), native: None }
        }
    };
    let (port, mtu) = (tables::PortId(port), u16::MAX);
    let flood = tables::bridge::FloodRates::default();
    Some(Member { port, mode, isolated: false, max_macs: None, flood, mtu })
}

fn edited(frame: &[u8], way: Way, came: Came, vlan: u16) -> Vec<u8> {
    let [high, low] = vlan.to_be_bytes();
    match (way, came) {
        (Way::Tagged, Came::Untagged) => {
            [&frame[..12], &[0x81, 0, high, low], &frame[12..]].concat()
        }
        (Way::Tagged, Came::Priority) => {
            [&frame[..14], &[frame[14] & 0xf0 | high, low], &frame[16..]].concat()
        }
        (Way::Untagged, Came::Tagged | Came::Priority) => [&frame[..12], &frame[16..]].concat(),
        _ => frame.to_vec(),
    }
}

/// A frame of a bridge without the bridge's own tag.
pub fn bare(frame: &[u8], came: Came) -> Vec<u8> {
    match came {
        Came::Untagged => frame.to_vec(),
        Came::Tagged | Came::Priority => [&frame[..12], &frame[16..]].concat(),
    }
}

/// The tags of a frame, outermost first: kind and VLAN.
pub fn tags(frame: &[u8]) -> Result<Vec<(u16, u16)>, &'static str> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (mut tags, mut at) = (Vec::new(), 12);
    loop {
        let kind = word(at).ok_or("runt")?;
        if kind != 0x8100 && kind != 0x88a8 {
            return Ok(tags);
        }
        tags.push((kind, word(at + 2).ok_or("runt")? & 0xfff));
        at += 4;
    }
}

/// The class of a frame to this machine that is no IP packet to be routed.
pub fn class_of(kind: u16) -> Class {
    match kind {
        0x0800 | 0x86dd => Class::Multicast,
        0x0806 => Class::ArpNd,
        _ => Class::Unknown,
    }
}
