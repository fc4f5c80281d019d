//! Decisions on their way to Gatekeepers, several in one message.
//!
//! ```text
//!  decision ─► open, 8: one a Gatekeeper ─┬ no room for the longest decision
//!                                         ├ a ninth Gatekeeper: the fullest goes
//!                                         ├ every second round of answers, every round without
//!                                         └► sealed ─► sent, in their order
//! ```
//!
//! | cost | of a decision: its bytes, twice; of a message: a packet |
//! |------|----------------------------------------------------------|
//!
//! We differ: when a ninth Gatekeeper appears, the deployed Grantor sends a random message, and it
//! fills messages up to 2,048 bytes whatever the path's MTU. Such a packet must not be fragmented.

use core::net::IpAddr;
use std::collections::VecDeque;

use graph::L2_ROOM;
use tables::IfaceId;
use wire::ggu::{self, Decision, Decisions, MAX_LEN, Ports, Writer};
use wire::{ipv4, ipv6, udp};

/// The ends of a message, and the link that the request came by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ends {
    /// This machine's address that the request was sent to.
    pub from: IpAddr,
    /// The Gatekeeper.
    pub to: IpAddr,
    /// The interface that the request came in by.
    pub iface: IfaceId,
}

/// How to answer by the link that the request came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// The port that the request came in by.
    pub port: u16,
    /// The request's link header with source and destination swapped.
    pub header: [u8; L2_ROOM],
    /// Bytes of that header.
    pub link: u8,
}

impl Reply {
    /// The way back for a frame with a link header of `link` bytes.
    pub fn to(port: u16, frame: &[u8], link: u16) -> Reply {
        let mut header = [0; L2_ROOM];
        let link = usize::from(link).min(L2_ROOM).min(frame.len());
        header[..link].copy_from_slice(&frame[..link]);
        if link >= 12 {
            let (dst, src) = header[..12].split_at_mut(6);
            dst.swap_with_slice(src);
        }
        Reply { port, header, link: link as u8 }
    }
}

/// A message that is being filled.
pub(super) struct Message {
    pub ends: Ends,
    pub reply: Reply,
    /// The largest packet, in bytes.
    room: usize,
    len: usize,
    decisions: Box<[u8; MOST]>,
}

impl Message {
    /// The packet's length in bytes.
    pub fn packet_len(&self) -> usize {
        headers(self.ends.to) + self.len
    }

    /// The number of decisions in it.
    pub fn count(&self) -> u64 {
        self.decisions().count() as u64
    }

    fn decisions(&self) -> Decisions<'_> {
        Decisions::new(&self.decisions[..self.len])
    }

    /// Writes the packet into `room`; false if `room` is too short.
    pub fn write(&self, packet: &mut [u8], ports: Ports) -> bool {
        let Ends { from, to, .. } = self.ends;
        let Ok(mut writer) = Writer::new(packet, from, to, ports) else { return false };
        let mut decisions = self.decisions().flatten();
        let all = decisions.all(|decision| writer.push(&decision).is_ok());
        writer.finish();
        all
    }
}

/// Messages that are being filled, and those that are ready.
pub(super) struct Messages {
    open: Vec<Message>,
    sealed: VecDeque<Message>,
    spare: Vec<Message>,
    /// Rounds that had answers.
    rounds: u64,
}

impl Messages {
    pub fn new() -> Self {
        let nobody = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        let ends = Ends { from: nobody, to: nobody, iface: IfaceId(0) };
        let message = |_| Message {
            ends,
            reply: Reply { port: 0, header: [0; L2_ROOM], link: 0 },
            room: 0,
            len: 0,
            decisions: Box::new([0; MOST]),
        };
        let (open, sealed) = (Vec::with_capacity(OPEN), VecDeque::with_capacity(ALL));
        Messages { open, sealed, spare: (0..ALL).map(message).collect(), rounds: 0 }
    }

    /// Adds a decision; `mtu` gives the MTU of a new message's route. False when as many sealed
    /// messages wait as may.
    pub fn add(
        &mut self,
        (ends, reply): (Ends, Reply),
        decision: &Decision,
        mtu: impl FnOnce() -> u16,
    ) -> bool {
        let at = match self.open.iter().position(|message| message.ends == ends) {
            Some(at) => at,
            None => match self.begin(ends, reply, mtu().into()) {
                Some(at) => at,
                None => return false,
            },
        };
        let message = &mut self.open[at];
        let Ok(len) = decision.emit(&mut message.decisions[message.len..]) else { return false };
        message.len += len;
        if message.room.saturating_sub(message.packet_len()) < MAX_LEN
            || message.len + MAX_LEN > MOST
        {
            self.seal(at);
        }
        true
    }

    fn begin(&mut self, ends: Ends, reply: Reply, room: usize) -> Option<usize> {
        if self.open.len() == OPEN {
            let fullest = (0..OPEN).max_by_key(|&at| self.open[at].len)?;
            self.seal(fullest);
        }
        let mut message = self.spare.pop()?;
        (message.ends, message.reply, message.room, message.len) = (ends, reply, room, 0);
        self.open.push(message);
        Some(self.open.len() - 1)
    }

    fn seal(&mut self, at: usize) {
        self.sealed.push_back(self.open.swap_remove(at));
    }

    /// Ends a round that had this many answers.
    pub fn round(&mut self, answers: usize) {
        self.rounds += u64::from(answers > 0);
        if answers == 0 || self.rounds.is_multiple_of(2) {
            self.sealed.extend(self.open.drain(..));
        }
    }

    /// The next message that is ready.
    pub fn next(&mut self) -> Option<Message> {
        self.sealed.pop_front()
    }

    /// How many messages are ready.
    pub fn ready(&self) -> usize {
        self.sealed.len()
    }

    /// Puts a message that could not be sent yet behind the others. Whoever goes once through all
    /// that are [ready](Messages::ready) leaves them in their order.
    pub fn put_back(&mut self, message: Message) {
        self.sealed.push_back(message);
    }

    /// Removes a message that was sent.
    pub fn done(&mut self, message: Message) {
        self.spare.push(message);
    }

    /// How many messages may still be begun.
    pub fn room(&self) -> usize {
        self.spare.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }
}

/// Bytes before the first decision.
fn headers(to: IpAddr) -> usize {
    let ip = if to.is_ipv4() { ipv4::MIN_LEN } else { ipv6::LEN };
    ip + udp::LEN + ggu::HEADER.len()
}

/// The most Gatekeepers with an open message.
const OPEN: usize = 8;
/// The most messages, open or ready.
const ALL: usize = 64;
/// Bytes of decisions in a message: with the headers they fill 2,048 bytes of frame, as deployed.
const MOST: usize = 1_968;

#[cfg(test)]
mod tests {
    use wire::ggu::{Flow, Verdict};

    use super::*;

    fn ends(host: u8) -> (Ends, Reply) {
        let (from, to) = (IpAddr::from([10, 0, 2, 9]), IpAddr::from([10, 0, 1, host]));
        (Ends { from, to, iface: IfaceId(1) }, Reply::to(0, &[host; 14], 14))
    }

    fn decision(n: u32) -> Decision {
        let flow = Flow::V4 { src: n.into(), dst: [10, 20, 0, 1].into() };
        Decision { flow, verdict: Verdict::Declined { expire_s: n } }
    }

    #[test]
    fn a_message_is_no_longer_than_its_way() {
        for mtu in [200, 576, 1_280, 1_500, 9_000] {
            let mut messages = Messages::new();
            assert!((0..200).all(|n| messages.add(ends(1), &decision(n), || mtu)));
            messages.round(0);
            let mut sent = Vec::new();
            while let Some(message) = messages.next() {
                let len = message.packet_len();
                assert!(len <= usize::from(mtu).min(2_000), "{len} of {mtu}");
                let last = sent.len() as u64 + message.count() == 200;
                let room = usize::from(mtu).min(32 + MOST) - len;
                assert!(last || room < MAX_LEN, "{room} left of {mtu}");
                let mut packet = vec![0; len];
                assert!(message.write(&mut packet, Ports::default()));
                let got = ggu::Message::receive(&packet, Ports::default(), |_| true).unwrap();
                sent.extend(got.decisions().map(Result::unwrap));
                messages.done(message);
            }
            assert!(sent.into_iter().eq((0..200).map(decision)));
        }
    }

    #[test]
    fn a_ninth_gatekeeper_sends_the_fullest() {
        let mut messages = Messages::new();
        for host in (0..8).chain([3]) {
            assert!(messages.add(ends(host), &decision(0), || 1_500));
        }
        assert!(messages.next().is_none());
        assert!(messages.add(ends(9), &decision(0), || 1_500));
        let message = messages.next().unwrap();
        assert_eq!((message.ends, message.count()), (ends(3).0, 2));
        assert!(messages.next().is_none() && !messages.is_empty());
    }

    #[test]
    fn every_second_round_and_every_empty_one_send() {
        let mut messages = Messages::new();
        let mut sent = |answers| {
            if answers > 0 {
                assert!(messages.add(ends(1), &decision(0), || 1_500));
            }
            messages.round(answers);
            let next = messages.next();
            let count = next.as_ref().map_or(0, Message::count);
            next.into_iter().for_each(|message| messages.done(message));
            count
        };
        assert_eq!([1, 1, 0, 1, 0, 1, 1].map(&mut sent), [0, 2, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn more_than_may_wait_are_refused() {
        let mut messages = Messages::new();
        let fits = (0..100_000).take_while(|&n| messages.add(ends(1), &decision(n), || 1_500));
        let fits = fits.count();
        let mut sent = 0;
        messages.round(0);
        while let Some(message) = messages.next() {
            sent += message.count() as usize;
            messages.done(message);
        }
        assert_eq!(fits, sent);
        assert!(messages.add(ends(1), &decision(0), || 1_500));
    }
}
