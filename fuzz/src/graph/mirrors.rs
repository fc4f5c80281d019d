//! What mirrors copy, worked out from their configuration.

use nodes::filter::Filter;
use nodes::span::{Side, Span, Spans, Target};

use super::bridging::tags;
use super::outcome::{Fates, Out};
use super::plan::DEVICES;

/// The mirrors that there are, by number.
#[derive(Default)]
pub struct Mirrors([Option<Span>; 2]);

impl Mirrors {
    /// One is made, changed, or taken out, as the bytes say.
    pub fn set(&mut self, [which, low, how, to]: [u8; 4]) {
        let number = usize::from(which & 1);
        let ports = u16::from(which >> 1 & 1) << 8 | u16::from(low);
        let sides = match how & 3 {
            0 => vec![Side::In],
            1 => vec![Side::Out],
            _ => vec![Side::In, Side::Out],
        };
        // Of what leaves there may be more than the ring to the file takes.
        let to = match to & 128 != 0 && sides == [Side::In] {
            true => Target::File,
            false => Target::Port(u16::from(to) % DEVICES),
        };
        let ports = (0..DEVICES).filter(|port| ports >> port & 1 != 0).collect();
        let filter = (how & 4 != 0).then_some(Filter::Ether(ARP));
        let span = Span { number, ports, sides, filter, one_in: 1, to };
        self.0[number] = (which & 128 == 0).then_some(span);
    }

    /// The same for the nodes.
    pub fn spans(&self) -> Spans {
        Spans::new(self.0.iter().flatten().cloned())
    }

    /// What may become of a frame, with the copies of it: of what comes in by a device, and
    /// of all that leaves by one.
    pub fn copied(&self, came: Option<u16>, frame: &[u8], mut fates: Fates) -> Fates {
        for fate in &mut fates {
            let came = came.iter().flat_map(|port| self.copies(*port, Side::In, frame));
            let mut copies: Vec<Out> = came.collect();
            for out in &fate.outs {
                if let Out::Sent(port, frame) = out {
                    copies.extend(self.copies(*port, Side::Out, frame));
                }
            }
            let notes = copies.iter().map(|out| match out {
                Out::Written(..) => "mirrored into a file",
                _ => "mirrored to a port",
            });
            fate.notes.extend(notes);
            fate.outs.extend(copies);
        }
        fates
    }

    fn copies(&self, port: u16, side: Side, frame: &[u8]) -> impl Iterator<Item = Out> {
        let looks = move |span: &&Span| {
            let filtered = span.filter.is_none() || is_arp(frame);
            span.ports.contains(&port) && span.sides.contains(&side) && filtered
        };
        self.0.iter().flatten().filter(looks).map(move |span| match span.to {
            Target::Port(to) => Out::Sent(to, frame.to_vec()),
            Target::File => Out::Written(span.number as u64, port, frame.to_vec()),
        })
    }
}

/// Behind as many tags as filters look behind.
fn is_arp(frame: &[u8]) -> bool {
    let Ok(tags) = tags(frame) else { return false };
    let kind = frame.get(12 + 4 * tags.len()..14 + 4 * tags.len());
    tags.len() <= wire::vlan::MAX_TAGS && kind == Some(&ARP.to_be_bytes())
}

const ARP: u16 = 0x0806;
