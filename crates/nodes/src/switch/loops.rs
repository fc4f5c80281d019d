//! State that workers and the bridge thread share to find loops: probes, and frames that come round.
//!
//! ```text
//!  probe   0        6                12     14     18         26      28      30     38    46
//!          │ group  │ 02 + identity  │ type │ RLP1 │ identity │ port  │ domain│ time │ MAC │ 0 …
//!
//!  bridge_probe ─► port ─► … a loop … ─► port ─► bridge_flood, bridge_input ─► sightings ─► bridge thread
//! ```
//!
//! A probe is an ordinary frame to a group, so other switches forward it. It is valid for two
//! seconds if its SipHash under a key of this run is right. It then proves where it left, not
//! who forwarded it: anybody who saw it may have.
//!
//! **Frames that come round.** In a loop the same frame arrives again and again, by other
//! ports than the first time. [`MOST`] such arrivals of a flooded frame are allowed in the
//! second after the first, so a storm ends after some microseconds, before any probe
//! returns. The port of the first arrival is exempt: a sender that repeats a frame is not a
//! loop. Each second begins anew, so nobody can keep another host from sending its frames by
//! sending them first.
//!
//! | cost | of a probe: SipHash of 24 bytes; of a flooded frame: of 72, and a line of 64 KiB that all workers share |
//! |------|---------------------------------------------------------------------------------------------------------|

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::{Bell, clock};
use tables::bridge::DomainId;
use tables::macs::MOST_PORTS;
use tables::switch::Sighting;
use wire::bytes::{array, be16};
use wire::{ethernet, vlan};

use super::sip::sip;

/// State that all workers of a switch share with the bridge thread.
pub struct Loops {
    key: [u64; 2],
    /// Identifies the probes of this run.
    identity: u64,
    /// By port: domain and sender of a probe that came in; [`NONE`] where none has.
    sightings: Box<[AtomicU64]>,
    /// The last request for probes: its number, and the domain.
    asked: AtomicU64,
    /// By hash: frames that were flooded of late.
    repeats: Box<[AtomicU64]>,
    /// The bridge thread's; `None`: it does not sleep.
    bell: Option<Bell>,
}

/// A frame that came in.
#[derive(Clone, Copy)]
pub(super) struct Frame<'v> {
    /// The port.
    pub port: u16,
    pub domain: DomainId,
    /// Bytes of the bridge's own tag in it.
    pub tag: usize,
    pub head: &'v [u8; 64],
    pub len: u16,
}

/// The kind of a frame that is to be flooded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Look {
    /// Nothing that comes round.
    New,
    /// A probe of ours, that left by this port.
    Probe(u16),
    /// One that has come round too often.
    Round,
}

impl Loops {
    /// For ports below `ports`; nobody else knows `key`. `bell` wakes the bridge thread.
    pub fn new(ports: u16, key: [u64; 2], bell: Option<Bell>) -> Arc<Loops> {
        let ports = ports.min(MOST_PORTS);
        let cells = |n: usize, value| (0..n).map(|_| AtomicU64::new(value)).collect();
        Arc::new(Loops {
            key,
            identity: sip(key, &[]),
            sightings: cells(ports.into(), NONE),
            asked: AtomicU64::new(0),
            repeats: cells(PLACES, 0),
            bell,
        })
    }

    /// Takes out what was seen since the last call. Each port has one place: of several
    /// probes that came in by it, the one of the lowest port.
    pub fn sightings(&self) -> impl Iterator<Item = Sighting> {
        let seen = (0..).zip(&self.sightings).filter(|(_, cell)| {
            cell.load(Ordering::Relaxed) != NONE // mostly none: no write then
        });
        seen.filter_map(|(port, cell)| {
            let seen = cell.swap(NONE, Ordering::Relaxed);
            let domain = DomainId(seen as u16);
            (seen != NONE).then_some(Sighting { port, sender: (seen >> 16) as u16, domain })
        })
    }

    /// Something looks like a loop in a domain: probes are sent in it at once, ten times a
    /// second at most. Of several who ask at the same moment one is answered.
    pub fn ask(&self, domain: DomainId) {
        let number = (self.asked.load(Ordering::Relaxed) >> 16).wrapping_add(1);
        self.asked.store(number << 16 | u64::from(domain.0), Ordering::Relaxed);
    }

    /// Differs from what it was when somebody has asked since; and in which domain.
    #[inline]
    pub(super) fn asked(&self) -> (u64, DomainId) {
        let asked = self.asked.load(Ordering::Relaxed);
        (asked, DomainId(asked as u16))
    }

    /// Does a station's address belong to our probes?
    pub(super) fn is_ours(&self, source: [u8; 6]) -> bool {
        source == self.source()
    }

    fn source(&self) -> [u8; 6] {
        let [_, _, _, a, b, c, d, e] = self.identity.to_be_bytes();
        [2, a, b, c, d, e]
    }

    /// A probe that leaves by `port` now, as a frame without a tag.
    pub(super) fn probe(&self, port: u16, domain: DomainId, now: u64) -> [u8; PROBE] {
        let mut frame = [0; PROBE];
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(ethernet::DST, &GROUP);
        put(ethernet::SRC, &self.source());
        put(ethernet::ETHERTYPE, &ETHERTYPE.to_be_bytes());
        put(MAGIC_AT, &MAGIC.to_be_bytes());
        put(IDENTITY_AT, &self.identity.to_be_bytes());
        put(PORT_AT, &port.to_be_bytes());
        put(DOMAIN_AT, &domain.0.to_be_bytes());
        put(TIME_AT, &now.to_be_bytes());
        put(MAC_AT, &self.mac(port, domain, now).to_be_bytes());
        frame
    }

    fn mac(&self, port: u16, domain: DomainId, time: u64) -> u64 {
        let place = u64::from(port) << 16 | u64::from(domain.0);
        sip(self.key, &[self.identity, place, time])
    }

    /// Looks at a frame that is to be flooded.
    pub(super) fn look(&self, frame: Frame<'_>, now: u64) -> Look {
        if let Some(sender) = self.sender(frame, now) {
            return Look::Probe(sender);
        }
        let times = self.round(self.digest(frame), frame.port, now);
        if times == SUSPICIOUS || times > MOST {
            self.ask(frame.domain);
        }
        if times > MOST { Look::Round } else { Look::New }
    }

    /// By which port a probe of ours left that came back into its own domain. In another
    /// domain it goes on, as any frame: there may be a way back behind it.
    pub(super) fn sender(&self, frame: Frame<'_>, now: u64) -> Option<u16> {
        let Frame { tag, head, len, .. } = frame;
        if be16(head, ethernet::ETHERTYPE + tag) != ETHERTYPE || usize::from(len) < MAC_AT + 8 + tag
        {
            return None;
        }
        let word = |at: usize| u64::from_be_bytes(array(head, at + tag));
        let (sender, domain) = (be16(head, PORT_AT + tag), DomainId(be16(head, DOMAIN_AT + tag)));
        let time = word(TIME_AT);
        let ours = domain == frame.domain
            && u32::from_be_bytes(array(head, MAGIC_AT + tag)) == MAGIC
            && word(IDENTITY_AT) == self.identity
            && now.abs_diff(time) <= 2 * clock::hz()
            && word(MAC_AT) == self.mac(sender, domain, time);
        ours.then_some(sender)
    }

    /// For the bridge thread: a probe that left by `sender` came in by `port`.
    pub(super) fn note(&self, Sighting { port, sender, domain }: Sighting) {
        if let Some(cell) = self.sightings.get(usize::from(port)) {
            cell.fetch_min(u64::from(sender) << 16 | u64::from(domain.0), Ordering::Relaxed);
            self.ring();
        }
    }

    /// Wakes the bridge thread, if it sleeps: what was given to it before is seen.
    pub(super) fn ring(&self) {
        self.bell.iter().for_each(Bell::ring);
    }

    /// The same for the same frame, whatever the bridge's own tag and padding are.
    fn digest(&self, Frame { domain, tag, head, len, .. }: Frame<'_>) -> u64 {
        let len = usize::from(len).saturating_sub(tag);
        let mut same = [0; 64];
        same[..ADDRESSES].copy_from_slice(&head[..ADDRESSES]);
        // With a tag the last four of the 64 bytes are out of sight.
        let end = len.clamp(ADDRESSES, 64 - vlan::LEN);
        same[ADDRESSES..end].copy_from_slice(&head[ADDRESSES + tag..end + tag]);
        let mut words = [0; 9];
        for (word, bytes) in words.iter_mut().zip(same.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words[8] = u64::from(domain.0) << 32 | len.max(ethernet::MIN_FRAME) as u64;
        sip(self.key, &words)
    }

    /// How often this frame has come in by others than its first port, in the second since
    /// then. Several workers may write a place at once: then one of them is not counted.
    fn round(&self, digest: u64, port: u16, now: u64) -> u32 {
        let place = &self.repeats[digest as usize % PLACES];
        let ms = now / (clock::hz() / 1000).max(1);
        let print = digest >> 40;
        let known = Place::of(place.load(Ordering::Relaxed));
        let since = ms.wrapping_sub(known.ms) & MS;
        if known.print != print || !known.taken || since >= 1000 {
            place.store(Place { print, port, times: 0, ms, taken: true }.bits(), Ordering::Relaxed);
            return 0;
        }
        if known.port == port {
            return 0;
        }
        let times = known.times + 1;
        if times <= MOST {
            place.store(Place { times, ..known }.bits(), Ordering::Relaxed);
        }
        times
    }
}

/// A flooded frame in a place of 64 bits.
///
/// ```text
///  63 … 40   39   38 … 27   26 … 20   19 … 0
///   print   taken   port     times     milliseconds of the first
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place {
    print: u64,
    taken: bool,
    port: u16,
    times: u32,
    ms: u64,
}

impl Place {
    fn of(bits: u64) -> Place {
        Place {
            print: bits >> 40,
            taken: bits >> 39 & 1 == 1,
            port: (bits >> 27 & 0xfff) as u16,
            times: (bits >> 20 & 0x7f) as u32,
            ms: bits & MS,
        }
    }

    fn bits(self) -> u64 {
        let (port, times) = (u64::from(self.port & 0xfff), u64::from(self.times & 0x7f));
        self.print << 40 | u64::from(self.taken) << 39 | port << 27 | times << 20 | self.ms & MS
    }
}

/// Bytes of a probe without a tag.
pub(super) const PROBE: usize = ethernet::MIN_FRAME;
/// "RLP1": of which kind and version.
const MAGIC: u32 = 0x524c_5031;
/// Local Experimental Ethertype 2 (IEEE 802).
const ETHERTYPE: u16 = 0x88b6;
/// A group address of local meaning.
const GROUP: [u8; 6] = [0x03, 0x52, 0x75, 0x74, 0x74, 0x65];
const MAGIC_AT: usize = 14;
const IDENTITY_AT: usize = 18;
const PORT_AT: usize = 26;
const DOMAIN_AT: usize = 28;
const TIME_AT: usize = 30;
const MAC_AT: usize = 38;
/// Bytes of the two addresses.
const ADDRESSES: usize = 12;
/// No probe was seen.
const NONE: u64 = u64::MAX;
/// So often a frame may come round in a second.
const MOST: u32 = 16;
/// Then probes are asked for.
const SUSPICIOUS: u32 = 4;
/// Frames that are remembered.
const PLACES: usize = 1 << 13;
/// The bits of a place's time.
const MS: u64 = (1 << 20) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn loops() -> Arc<Loops> {
        Loops::new(8, [1, 2], None)
    }

    /// A frame that comes in by `port`, with `tag` bytes of a tag.
    fn by<'h>(port: u16, tag: usize, head: &'h [u8; 64], len: usize) -> Frame<'h> {
        Frame { port, domain: DomainId(3), tag, head, len: len as u16 }
    }

    fn head(frame: &[u8]) -> [u8; 64] {
        let mut head = [0xee; 64];
        let n = frame.len().min(64);
        head[..n].copy_from_slice(&frame[..n]);
        head
    }

    /// By which port has `frame` left that comes in now, if it is a probe?
    fn sender(loops: &Loops, frame: &[u8], tag: usize, now: u64) -> Option<u16> {
        loops.sender(by(5, tag, &head(frame), frame.len()), now)
    }

    fn tagged(frame: &[u8]) -> Vec<u8> {
        [&frame[..12], &[0x81, 0, 0, 10], &frame[12..]].concat()
    }

    #[test]
    fn probes_of_our_own_are_known() {
        let (loops, now) = (loops(), 1 << 40);
        let probe = loops.probe(2, DomainId(3), now);
        assert_eq!(sender(&loops, &probe, 0, now + 7), Some(2));
        assert_eq!(sender(&loops, &tagged(&probe), 4, now + 7), Some(2));
        let look = loops.look(by(5, 0, &head(&probe), probe.len()), now);
        assert_eq!(look, Look::Probe(2));
    }

    #[test]
    fn of_several_sightings_at_a_port_that_of_the_lowest_is_kept() {
        let loops = loops();
        let seen = |sender| Sighting { port: 5, sender, domain: DomainId(3) };
        [4, 1, 3].into_iter().for_each(|sender| loops.note(seen(sender)));
        loops.note(Sighting { port: 8, ..seen(2) }); // there is no such port
        assert_eq!(loops.sightings().collect::<Vec<_>>(), [seen(1)]);
        assert_eq!(loops.sightings().count(), 0);
    }

    /// No changed bit, no other run's, no old one, none of another domain, none cut off.
    #[test]
    fn forgeries_are_not_believed() {
        let (loops, now) = (loops(), 1 << 40);
        let whole = loops.probe(2, DomainId(3), now);
        for bit in ethernet::ETHERTYPE * 8..(MAC_AT + 8) * 8 {
            let mut forged = whole;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sender(&loops, &forged, 0, now), None, "bit {bit}");
        }
        for len in 0..MAC_AT + 8 {
            assert_eq!(sender(&loops, &whole[..len], 0, now), None, "{len} bytes");
        }
        let late = now + 2 * clock::hz() + 1;
        assert_eq!(sender(&loops, &whole, 0, late), None);
        assert_eq!(sender(&loops, &whole, 4, now), None);
        let elsewhere = loops.probe(2, DomainId(4), now);
        let others = Loops::new(8, [1, 3], None).probe(2, DomainId(3), now);
        assert_eq!(sender(&loops, &elsewhere, 0, now), None);
        assert_eq!(sender(&loops, &others, 0, now), None);
        assert_eq!(sender(&loops, &whole, 0, now), Some(2));
    }

    #[test]
    fn a_frame_comes_round_a_few_times_only() {
        let (loops, hz) = (loops(), clock::hz());
        let now = 1000 * hz;
        let frame = [0x5a; 60];
        let look = |port, now| loops.look(by(port, 0, &head(&frame), 60), now);
        let passed = |port, now| (0..1000).filter(|_| look(port, now) == Look::New).count();
        assert_eq!(passed(0, now), 1000, "by its first port as often as it likes");
        assert_eq!(loops.asked(), (0, DomainId(0)));
        assert_eq!(passed(1, now), 16);
        assert_eq!(passed(2, now + hz / 2), 0);
        assert_eq!(loops.asked().1, DomainId(3));
        assert_eq!(passed(0, now + hz / 2), 1000);
        // With the bridge's tag and without, it is the same frame.
        let with = tagged(&frame);
        assert_eq!(loops.look(by(1, 4, &head(&with), 64), now), Look::Round);
        // Another is not.
        let mut other = frame;
        other[59] ^= 1;
        assert_eq!(loops.look(by(1, 0, &head(&other), 60), now), Look::New);
        assert_eq!(loops.look(by(1, 0, &head(&frame), 61), now), Look::New);
        // A second after the first all is forgotten: frames of a host that has moved pass.
        assert_eq!(passed(1, now + hz + hz / 100), 1000);
    }

    /// A station that sends another's frames first, all the time, takes little from it.
    #[test]
    fn a_frame_that_somebody_else_sends_first_goes_on_every_second() {
        let (loops, hz) = (loops(), clock::hz());
        let look = |port, now| loops.look(by(port, 0, &head(&[7; 60]), 60), now);
        let mut passed = 0;
        for ms in 0..10_000 {
            let now = 1000 * hz + ms * (hz / 1000);
            look(0, now);
            passed += u32::from(ms % 50 == 49 && look(1, now) == Look::New);
        }
        assert!(passed >= 150, "{passed} of 200");
    }

    #[test]
    fn padding_makes_no_other_frame() {
        let (loops, short) = (loops(), [7; 42]);
        let mut padded = [0; 60];
        padded[..42].copy_from_slice(&short);
        let digest = |frame: &[u8], len| loops.digest(by(0, 0, &head(frame), len));
        assert_eq!(digest(&short, 42), digest(&padded, 60));
    }

    #[test]
    fn places_hold_what_is_put_in() {
        let place = Place { print: 0xab_cdef, taken: true, port: 4094, times: 16, ms: MS };
        assert_eq!(Place::of(place.bits()), place);
    }
}
