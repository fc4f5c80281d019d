//! Ports behind which a bridge has found itself, and when they are tried again.
//!
//! ```text
//!           a probe of ours comes in                     10 s, 20 s … 5 min later:
//!  in ──────────────────────────────► out ─┬─ none has come of late ──► in
//!                                      ▲   └─ they still come ─┐
//!                                      └───────────────────────┘ for twice as long
//! ```
//!
//! Only the port is judged by which a probe *comes in*. Everybody behind a port sees its
//! probes and can send them on, so what they prove of the port that they left by is
//! nothing: a host that sends them on from elsewhere takes out its own port.
//!
//! Of the two ports of a loop one is enough, and always the same: the one of the higher
//! number. Where a probe of a higher port comes in by a lower one, its counterpart is on
//! its way; only if none has come when the next probe does (a loop of one direction) does
//! the lower port go.
//!
//! A port that is out goes on to send probes and to look for them, so that it is known
//! whether the loop is still there before the port is back in.

use std::time::{Duration, Instant};

use super::{Notice, ROUNDS, Switch};
use crate::bridge::DomainId;

/// What a bridge does about loops.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LoopDetection {
    /// A port that is part of one is taken out.
    #[default]
    Block,
    /// It is named, and that is all.
    Report,
    /// No probes are sent.
    Off,
}

/// A probe of ours came back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sighting {
    /// The port that it came in by.
    pub port: u16,
    /// The port that it had left by.
    pub sender: u16,
    /// The forwarding domain, of both.
    pub domain: DomainId,
}

/// A port behind which there is a loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Looped {
    /// What was seen first.
    pub sighting: Sighting,
    /// Since when.
    pub since: Instant,
    /// When it is looked at again.
    pub retry: Instant,
    /// False where it is only reported.
    pub out: bool,
    /// When a probe came in last.
    seen: Instant,
}

/// What is known of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortLoop {
    looped: Option<Looped>,
    /// For how long it was out the last time, and when it came back in.
    last: Option<(Duration, Instant)>,
    /// A higher port's probe came in, in this domain, then for the first time.
    suspect: Option<(u16, DomainId, Instant)>,
}

impl PortLoop {
    /// When it is looked at again.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.looped.map(|looped| looped.retry)
    }
}

impl Switch {
    /// A probe of ours came in by a port. True where another round of probes would show more.
    pub fn loop_seen(&mut self, sighting: Sighting, now: Instant) -> bool {
        let Sighting { port, sender, domain } = sighting;
        let Some(bridge) = self.bridge_of_domain(domain) else { return false };
        let detection = self.bridges[bridge].loops;
        let of_bridge = |port: u16| {
            usize::from(port) < self.ports.len()
                && self.bridge_by_port.get(usize::from(port)) == Some(&(bridge as u16))
        };
        if detection == LoopDetection::Off || !of_bridge(port) || !of_bridge(sender) {
            return false;
        }
        if let Some(looped) = &mut self.loops[usize::from(port)].looped {
            looped.seen = now;
            return false;
        }
        if self.loops[usize::from(sender)].looped.is_some() {
            return false; // the other end of the loop is known
        }
        let known = &mut self.loops[usize::from(port)];
        if sender > port {
            let age = |then| now.saturating_duration_since(then);
            let first = known.suspect.filter(|(.., then)| age(*then) < FORGOTTEN);
            let (of, within, then) = *known.suspect.insert(first.unwrap_or((sender, domain, now)));
            if (of, within) != (sender, domain) || age(then) < COUNTERPART {
                return true;
            }
        }
        known.suspect = None;
        // Who was back in for long begins anew.
        let again = known.last.filter(|(_, then)| now.saturating_duration_since(*then) < LONGEST);
        let pause = again.map_or(SHORTEST, |(pause, _)| (pause * 2).min(LONGEST));
        let out = detection == LoopDetection::Block;
        let looped = Looped { sighting, since: now, retry: now + pause, out, seen: now };
        known.looped = Some(looped);
        known.last = Some((pause, now));
        self.counters[bridge].loops += 1;
        self.notice(Notice::Loop(looped));
        self.set_out(port, out);
        false
    }

    /// Looks at the ports again whose time has come.
    pub(super) fn retry_loops(&mut self, now: Instant) {
        for port in 0..self.loops.len() as u16 {
            let known = &mut self.loops[usize::from(port)];
            let Some(looped) = &mut known.looped else { continue };
            if now < looped.retry {
                continue;
            }
            let (pause, _) = known.last.unwrap_or((SHORTEST, now));
            if now.saturating_duration_since(looped.seen) < pause / 2 {
                let pause = (pause * 2).min(LONGEST);
                looped.retry = now + pause;
                known.last = Some((pause, now));
                continue;
            }
            known.looped = None;
            known.last = known.last.map(|(pause, _)| (pause, now));
            self.notice(Notice::LoopOver(port));
            self.set_out(port, false);
        }
    }

    /// The link is down: what was behind it may be something else when it comes back.
    pub(super) fn forget_loop(&mut self, port: u16) {
        let Some(known) = self.loops.get_mut(usize::from(port)) else { return };
        *known = PortLoop::default();
        if let Some(state) = self.ports.get_mut(usize::from(port)) {
            state.out = false; // whoever calls this publishes
        }
    }

    /// Ports with a loop behind them.
    pub fn looped(&self) -> Vec<Looped> {
        self.loops.iter().filter_map(|known| known.looped).collect()
    }

    fn set_out(&mut self, port: u16, out: bool) {
        let Some(state) = self.ports.get_mut(usize::from(port)) else { return };
        if state.out != out {
            state.out = out;
            if out {
                state.flushing = ROUNDS;
            }
            self.publish();
        }
    }
}

/// For so long a port is out at first, and at most.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// A first sign of a loop of one direction counts for so long.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A probe takes less for the way round, and its counterpart is sent between two of them.
const COUNTERPART: Duration = Duration::from_millis(50);
