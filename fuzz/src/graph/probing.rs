//! Probes for loops: those that come out, those that somebody sends back, and what the
//! bridges do then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tables::bridge::DomainId;
use tables::switch::Sighting;

use super::bridging::{Came, bare, tags};
use super::outcome::{Fates, Out, count, hex, out};
use super::plan::DEVICES;
use super::step::{From, Step};

/// By port: the senders and domains of probes that came in by it.
pub type Sightings = BTreeMap<u16, BTreeSet<(u16, u16)>>;

impl Step {
    /// A probe comes in: as it would through a cable, without its tag, or with a byte
    /// changed.
    pub fn probe(&mut self, [which, port, how]: [u8; 3]) {
        self.run();
        let probes = &self.oracle.loops.probes;
        let late = probes.len().saturating_sub(16);
        let Some(probe) = probes.get(late + usize::from(which) % (probes.len() - late).max(1))
        else {
            return;
        };
        let port = u16::from(port) % DEVICES;
        let through = self.oracle.bridging.probe(port, probe.lan, &probe.frame);
        let mut frame = through.filter(|_| how & 3 != 3).unwrap_or(probe.frame.clone());
        if how & 12 == 12 {
            let at = usize::from(how >> 4) * 4 % frame.len();
            frame[at] ^= how | 1;
        }
        count(&mut self.counts, "a probe is sent on");
        self.push(From::Device(port), frame);
    }

    /// May any of these be a frame that comes round too often? What it becomes then is
    /// taken as it comes.
    pub(super) fn is_in_doubt(&mut self, frames: &[(From, Vec<u8>)]) -> bool {
        let mut doubt = false;
        for (from, frame) in frames {
            let From::Device(port) = *from else { continue };
            if let Ok((lan, came)) = self.oracle.bridging.classify(port, frame) {
                doubt |= self.oracle.loops.may_come_round(lan, &bare(frame, came));
            }
        }
        doubt
    }

    /// The probes among what came out, and what was to become of them: each leaves
    /// by a port with a link of a bridge that looks for loops, in a VLAN of that port.
    pub(super) fn probes(&mut self, all: &[Out], begun: Instant) -> Vec<(String, Fates)> {
        let mut expected = Vec::new();
        for seen in all {
            let Out::Sent(_, frame) = seen else { continue };
            let tagged = tags(frame).is_ok_and(|tags| tags.len() == 1);
            let bare = bare(frame, if tagged { Came::Tagged } else { Came::Untagged });
            if !self.oracle.loops.is_new(&bare) {
                continue;
            }
            let word = |at: usize| u16::from_be_bytes([bare[at], bare[at + 1]]);
            let (port, domain) = (word(26), DomainId(word(28)));
            let lan = self.world.lan(domain).expect("probes are of a domain");
            let leaves = self.oracle.bridging.probe(port, lan, &bare);
            let leaves = leaves.filter(|_| self.oracle.loops.looks(lan.0));
            let leaves = leaves.unwrap_or_else(|| panic!("no probe leaves there: {seen:?}"));
            let name = format!("probe {}", hex(&leaves));
            let sent = Out::Sent(port, leaves.clone());
            let fates = out(sent.clone(), "probe");
            let fates = self.oracle.mirrors.copied(None, &leaves, fates);
            // One of a round and one that was asked for may be made at the same moment. And
            // a mirror may copy what leaves by a port to that port.
            let times = |outs: &[Out]| outs.iter().filter(|out| **out == sent).count();
            let made = times(all) / fates.iter().map(|fate| times(&fate.outs)).sum::<usize>();
            expected.resize(expected.len() + made.max(1), (name, fates));
            self.oracle.loops.left(port, lan, bare, begun);
        }
        expected
    }

    /// By which ports the bridges have to hear of probes that came in, and whose. Of several
    /// at a port they hear of the lowest. And whether one may be too old.
    pub(super) fn sightings(&self, frames: &[(From, Vec<u8>)]) -> (Sightings, bool) {
        let (bridging, loops) = (&self.oracle.bridging, &self.oracle.loops);
        let (mut all, mut old) = (Sightings::new(), false);
        for (from, frame) in frames {
            let From::Device(port) = *from else { continue };
            let Ok((lan, came)) = bridging.would_classify(port, frame) else { continue };
            let probe = loops.probe(&bare(frame, came)).filter(|probe| probe.lan == lan);
            let Some(probe) = probe else { continue };
            let is_flooded = || {
                let known = self.oracle.stations.find(lan, &frame[..6]).is_some();
                bridging.takes(port, frame, lan).is_ok() && !known && loops.looks(lan.0)
            };
            if bridging.is_out(port) || !bridging.is_out(probe.port) && is_flooded() {
                let domain = self.world.domain(lan).expect("a VLAN of the bridge");
                all.entry(port).or_default().insert((probe.port, domain.0));
                old |= probe.is_old();
            }
        }
        (all, old)
    }

    /// Hands on what workers saw of probes, which must be what was to be `seen`.
    pub(super) fn find_loops(&mut self, seen: &Sightings, scarce: bool) {
        let found = self.world.sightings();
        for Sighting { port, sender, domain } in &found {
            let of = seen.get(port).unwrap_or_else(|| panic!("no probe came in by {port}"));
            let it = (*sender, domain.0);
            let is = if scarce { of.contains(&it) } else { of.first() == Some(&it) };
            assert!(is, "port {port} saw the probe of {sender}, in {domain:?}, of {of:?}");
        }
        assert!(scarce || found.len() == seen.len(), "{found:?} of {seen:?}");
        for sighting in found {
            let Sighting { port, sender, domain } = sighting;
            let lan = self.world.lan(domain).expect("probes are of a domain");
            let asks = self.world.saw_probe(sighting, self.now);
            let (again, out) = self.oracle.loops.seen(port, sender, lan, self.now);
            assert_eq!(asks, again, "{sighting:?}: another probe");
            if out {
                count(&mut self.counts, "port taken out");
                self.oracle.bridging.out[usize::from(port)] = true;
                self.oracle.stations.went_down(port);
            }
        }
        self.compare_loops();
    }

    pub(super) fn compare_loops(&mut self) {
        let looped = self.world.looped();
        assert_eq!(looped, self.oracle.loops.looped(), "ports with a loop, and until when");
        let is_blocked = |port: &u16| self.oracle.bridging.is_out(*port);
        let out: Vec<u16> = self.world.out();
        assert!(out.iter().all(is_blocked), "{out:?}");
        assert_eq!(out.len(), self.oracle.bridging.out.iter().filter(|out| **out).count());
    }
}
