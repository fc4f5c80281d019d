//! Every frame of the captures, whole and damaged, through a shield: in at the front as it is,
//! and to a protected host; in at the back, and as a message of decisions. Nothing panics,
//! every packet is accounted for, and nothing that is protected goes to the kernel.

use graph::Balance;

use super::rig::Rig;
use crate::testbed::{P0, P1};
use crate::tests::replay::{Survivor, captures, of_each_kind};

/// A rig; by turns, frames come in at the front and the back.
struct Both(Rig);

impl Survivor for Both {
    fn push(&mut self, frame: &[u8], turn: usize) {
        let Both(rig) = self;
        let mut frame = frame.to_vec();
        match turn % 4 {
            0 => rig.front.push(&frame),
            1 => {
                to_protected(&mut frame);
                rig.front.push(&frame);
            }
            turn => {
                if frame.get(..6) == Some(&P0) {
                    frame[..6].copy_from_slice(&P1);
                }
                if turn == 3 {
                    to_gatekeeper(&mut frame);
                }
                rig.back.push(&frame);
            }
        }
    }

    fn run(&mut self) -> Balance {
        let law = self.0.work().law;
        let protected = |frame: &[u8]| match frame.get(12..14) {
            Some([8, 0]) => frame.get(30..32) == Some(&[10, 20]),
            Some([0x86, 0xdd]) => frame.get(38..44) == Some(&[0x20, 1, 0x0d, 0xb8, 0, 0x20]),
            _ => false,
        };
        let from_front = |meta: graph::ring::frames::Meta, frame: &[u8]| {
            assert!(meta.iface != 1 || !protected(frame), "{frame:x?}");
        };
        while self.0.kernel.pop(from_front).is_some() {}
        drop((self.0.front.take(), self.0.back.take()));
        law
    }

    fn mac(&self) -> [u8; 6] {
        P0
    }
}

/// Another destination, with a right checksum where it is IPv4.
fn to_protected(frame: &mut [u8]) {
    match frame.get(12..14) {
        Some([8, 0]) if frame.len() >= 34 => {
            frame[30..34].copy_from_slice(&[10, 20, 0, 1]);
            sum(frame);
        }
        Some([0x86, 0xdd]) if frame.len() >= 54 => {
            frame[38..54].fill(1);
            frame[38..44].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0x20]);
        }
        _ => {}
    }
}

/// From the Grantor to the port of decisions: what follows is the capture's.
fn to_gatekeeper(frame: &mut [u8]) {
    if frame.len() >= 42 && frame[12..14] == [8, 0] {
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 0, 2, 9, 10, 0, 2, 1]);
        frame[34..38].copy_from_slice(&[0xa0, 0xa0, 0xb0, 0xb0]);
        sum(frame);
    }
}

fn sum(frame: &mut [u8]) {
    let end = 14 + usize::from(frame[14] & 15) * 4;
    if (34..=frame.len()).contains(&end) {
        frame[24..26].fill(0);
        let sum = wire::checksum::checksum(&frame[14..end]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn a_shield_survives_frames_of_each_kind_whole_and_damaged() {
    of_each_kind(Both(Rig::new()));
}

#[test]
fn a_shield_survives_captures_whole_and_damaged() {
    captures(Both(Rig::new()));
}
