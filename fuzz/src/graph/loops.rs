//! What bridges do about loops: the probes that have left, the ports that are out because
//! one came back, and until when.
//!
//! Probes leave by the clock, not by the input: whichever come out are taken in, if they
//! are right. Time goes by in steps of the input, but a probe is believed for two seconds of
//! the clock: how one that is older than most is met is left open.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use tables::switch::{BridgeConfig, LoopDetection};

use super::bridging::{Lan, tags};
use super::outcome::{Counts, count};
use super::plan::DEVICES;

/// All that is known.
pub struct Loops {
    detection: Vec<LoopDetection>,
    /// Those that have left, without a tag.
    pub probes: Vec<Probe>,
    /// What anybody has sent that looks like one.
    forged: HashSet<Vec<u8>>,
    ports: Vec<Port>,
    /// How often a frame came in, at most.
    came: HashMap<(Lan, Vec<u8>, usize), u32>,
}

/// A probe that has left.
#[derive(Clone, Debug)]
pub struct Probe {
    pub port: u16,
    pub lan: Lan,
    pub frame: Vec<u8>,
    /// No later than it was made.
    since: Instant,
}

impl Probe {
    /// May it be too old to be believed?
    pub fn is_old(&self) -> bool {
        self.since.elapsed() >= BELIEVED
    }
}

/// What is known of a port.
#[derive(Clone, Default)]
struct Port {
    /// When it is looked at again, and when a probe came in last.
    looped: Option<(Duration, Duration)>,
    /// For how long it was out the last time, and when it was in or out last.
    last: Option<(Duration, Duration)>,
    /// Whose probe came in that counts only with the next.
    suspect: Option<(u16, Lan, Duration)>,
}

/// What a frame is where it is to be flooded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Look {
    Ordinary,
    Probe,
    /// A probe that may be too old.
    Either,
}

impl Loops {
    /// Of these bridges.
    pub fn new(configs: &[BridgeConfig]) -> Loops {
        Loops {
            detection: configs.iter().map(|config| config.loops).collect(),
            probes: Vec::new(),
            forged: HashSet::new(),
            ports: vec![Port::default(); DEVICES as usize],
            came: HashMap::new(),
        }
    }

    pub fn looks(&self, bridge: usize) -> bool {
        self.detection[bridge] != LoopDetection::Off
    }

    /// A frame that is about to come in.
    pub fn sent(&mut self, frame: &[u8]) {
        let depth = tags(frame).map_or(0, |tags| tags.len());
        let bare = frame.get(4 * depth..).filter(|bare| bare.len() >= MAC_END);
        if let Some(bare) = bare.filter(|bare| bare[12..18] == MARK) {
            self.forged.insert(bare[12..MAC_END].to_vec());
        }
    }

    /// Takes in a probe that has come out as nothing that came in; true for one.
    pub fn is_new(&self, bare: &[u8]) -> bool {
        bare.len() >= MAC_END
            && bare[12..18] == MARK
            && !self.forged.contains(&bare[12..MAC_END])
            && !self.probes.iter().any(|probe| probe.frame[12..MAC_END] == bare[12..MAC_END])
    }

    /// A probe has left.
    pub fn left(&mut self, port: u16, lan: Lan, frame: Vec<u8>, since: Instant) {
        self.probes.push(Probe { port, lan, frame, since });
    }

    /// Is it the address that probes come from? No station has it.
    pub fn is_ours(&self, mac: &[u8]) -> bool {
        self.probes.first().is_some_and(|probe| probe.frame[6..12] == *mac)
    }

    /// What a frame without its bridge's tag is to be flooded in `lan`.
    pub fn look(&self, lan: Lan, bare: &[u8]) -> Look {
        match self.probe(bare).filter(|probe| probe.lan == lan && self.looks(lan.0)) {
            None => Look::Ordinary,
            Some(probe) if !probe.is_old() => Look::Probe,
            Some(_) => Look::Either,
        }
    }

    /// The probe that a frame is.
    pub fn probe(&self, bare: &[u8]) -> Option<&Probe> {
        let content = bare.get(12..MAC_END).filter(|content| content.starts_with(&MARK))?;
        self.probes.iter().find(|probe| probe.frame[12..MAC_END] == *content)
    }

    /// Counts a frame that came in, without its bridge's tag: true where it has come so often
    /// that it may be one that comes round.
    pub fn may_come_round(&mut self, lan: Lan, bare: &[u8]) -> bool {
        if !self.looks(lan.0) {
            return false;
        }
        let mut first = bare[..bare.len().min(SEEN)].to_vec();
        first.resize(SEEN, 0);
        let times = self.came.entry((lan, first, bare.len().max(SEEN))).or_default();
        *times += 1;
        *times > MOST
    }

    /// The bridge hears that a probe came in; whether another would help, and whether the
    /// port goes out now.
    pub fn seen(&mut self, port: u16, sender: u16, lan: Lan, now: Duration) -> (bool, bool) {
        let [at, from] = [port, sender].map(usize::from);
        if let Some((_, seen)) = &mut self.ports[at].looped {
            *seen = now;
            return (false, false);
        }
        if self.ports[from].looped.is_some() {
            return (false, false);
        }
        if sender > port {
            // The other port's turn, if it takes it.
            let first = self.ports[at].suspect.filter(|first| now - first.2 < 60 * SECOND);
            let first = first.unwrap_or((sender, lan, now));
            self.ports[at].suspect = Some(first);
            if (first.0, first.1) != (sender, lan) || now - first.2 < SECOND / 20 {
                return (true, false);
            }
        }
        let before = self.ports[at].last.filter(|(_, then)| now - *then < LONGEST);
        let pause = before.map_or(10 * SECOND, |(pause, _)| LONGEST.min(2 * pause));
        let looped = Some((now + pause, now));
        self.ports[at] = Port { looped, last: Some((pause, now)), suspect: None };
        (false, self.detection[lan.0] == LoopDetection::Block)
    }

    /// Time has gone by: the ports that are looked at and found right.
    pub fn swept(&mut self, now: Duration, counts: &mut Counts) -> Vec<u16> {
        let mut back = Vec::new();
        for (port, known) in (0..).zip(&mut self.ports) {
            let Some((_, seen)) = known.looped.filter(|(retry, _)| now >= *retry) else { continue };
            let pause = known.last.map_or(10 * SECOND, |last| last.0);
            if now - seen >= pause / 2 {
                (known.looped, known.last) = (None, Some((pause, now)));
                back.push(port);
                count(counts, "loop over");
                continue;
            }
            let pause = LONGEST.min(2 * pause);
            (known.looped, known.last) = (Some((now + pause, seen)), Some((pause, now)));
            count(counts, "loop still there");
        }
        back
    }

    /// The link of a port went down.
    pub fn went_down(&mut self, port: u16) {
        self.ports[usize::from(port)] = Port::default();
    }

    /// The ports with a loop behind them, and when they are looked at again.
    pub fn looped(&self) -> BTreeMap<u16, Duration> {
        let all = (0..).zip(&self.ports);
        all.filter_map(|(port, known)| Some((port, known.looped?.0))).collect()
    }
}

/// The EtherType, and "RLP1".
const MARK: [u8; 6] = *b"\x88\xb6RLP1";
/// The end of what makes a probe one: its SipHash.
const MAC_END: usize = 46;
/// Bytes of a frame that are looked at to find it again.
const SEEN: usize = 60;
/// So often a frame may come in before it may be one that comes round.
const MOST: u32 = 16;
/// Less than the two seconds for which a probe is surely believed.
const BELIEVED: Duration = Duration::from_millis(1500);
const SECOND: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
