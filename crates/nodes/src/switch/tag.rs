//! Inserts a VLAN tag into a frame, removes one, and decides which of both a port needs.

use io::Owned;
use tables::bridge::Egress;
use wire::bytes::{be16, put16};
use wire::{ethernet, vlan};

use super::bridge_input::Came;

/// The change to a frame's outermost tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Edit {
    Keep,
    /// Put one in with this VLAN.
    Push(u16),
    Pop,
    /// A priority tag gets this VLAN and keeps its priority.
    Name(u16),
}

impl Edit {
    /// For a frame of VLAN `vlan`.
    #[inline(always)]
    pub(super) fn of(way: Egress, came: Came, vlan: u16) -> Edit {
        match (way, came) {
            (Egress::Tagged, Came::Priority) => Edit::Name(vlan),
            (Egress::Tagged, Came::Untagged) => Edit::Push(vlan),
            (Egress::Untagged, Came::Tagged | Came::Priority) => Edit::Pop,
            _ => Edit::Keep,
        }
    }

    /// Does it. False, and nothing done, where there is no room.
    pub(super) fn apply(self, packet: &mut Owned) -> bool {
        match self {
            Edit::Keep => true,
            Edit::Push(vlan) => push(packet, vlan),
            Edit::Pop => pop(packet),
            Edit::Name(vlan) => name(packet, vlan),
        }
    }
}

/// Puts an 802.1Q tag of priority 0 behind the addresses.
fn push(packet: &mut Owned, vlan: u16) -> bool {
    if packet.data().len() < ethernet::LEN || !packet.prepend(vlan::LEN) {
        return false;
    }
    let frame = packet.data_mut();
    frame.copy_within(vlan::LEN..vlan::LEN + ADDRESSES, 0);
    put16(frame, ADDRESSES, ethernet::VLAN);
    put16(frame, ADDRESSES + 2, vlan);
    true
}

/// Takes the outermost tag out.
fn pop(packet: &mut Owned) -> bool {
    let frame = packet.data_mut();
    if frame.len() < ethernet::LEN + vlan::LEN {
        return false;
    }
    frame.copy_within(0..ADDRESSES, vlan::LEN);
    packet.strip(vlan::LEN)
}

/// Gives the outermost tag this VLAN id; priority and drop bit stay.
fn name(packet: &mut Owned, vlan: u16) -> bool {
    let frame = packet.data_mut();
    if frame.len() < ethernet::LEN + vlan::LEN {
        return false;
    }
    let control = be16(frame, ethernet::LEN) & !vlan::ID_MASK;
    put16(frame, ethernet::LEN, control | vlan);
    true
}

/// Bytes of the two addresses.
const ADDRESSES: usize = 12;
