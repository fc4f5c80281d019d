//! Limits: where a table refuses, and what it remembers of that.

use std::time::SystemTime;

use lookup::pages::admit;

use crate::{Family, VrfId};

/// How much the control thread takes in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Neighbours of all interfaces together.
    pub neighbours: usize,
    /// Hops: gateways, resolved hosts, groups.
    pub hops: usize,
    /// ECMP groups and next-hop objects with several ways.
    pub groups: usize,
    /// Slots of all groups together.
    pub members: usize,
    /// Protected prefixes of all front views together.
    pub protections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            neighbours: 65_536,
            hops: 262_144,
            groups: 65_536,
            members: 1 << 20,
            protections: 131_072,
        }
    }
}

/// One limit, what it holds and what it refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Capacity {
    /// Of what: `routes`, `neighbours` …
    pub what: &'static str,
    /// Whose, where every VRF has its own.
    pub vrf: Option<VrfId>,
    /// Likewise.
    pub family: Option<Family>,
    /// In use.
    pub used: u64,
    /// The most that fits; `None` where only memory limits.
    pub limit: Option<u64>,
    /// Refused since the start.
    pub refused: u64,
    /// The latest refusal.
    pub last: Option<Refused>,
    /// The configuration key that sets the limit, where one does.
    pub key: Option<&'static str>,
}

/// Something that a table did not take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// What: a prefix, an address.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: SystemTime,
}

/// Counts refusals and keeps the latest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) count: u64,
    pub(crate) last: Option<Refused>,
}

impl Refusals {
    /// `subject` and `reason` are made only now and then: a refusal must stay
    /// cheap when a million follow each other.
    pub(crate) fn note(
        &mut self,
        subject: impl FnOnce() -> String,
        reason: impl FnOnce() -> String,
    ) {
        self.count += 1;
        if self.count <= EACH || self.count.is_multiple_of(SAMPLE) {
            self.last =
                Some(Refused { subject: subject(), reason: reason(), at: SystemTime::now() });
        }
    }
}

const EACH: u64 = 1000;
const SAMPLE: u64 = 256;

/// Whether there is memory. Asked before a table grows.
pub(crate) struct Memory(Box<dyn Fn(u64) -> bool + Send>);

impl Memory {
    /// What the machine has, as engines ask for it, too.
    pub(crate) fn of_machine() -> Memory {
        Memory(Box::new(|bytes| admit(usize::try_from(bytes).unwrap_or(usize::MAX)).is_ok()))
    }

    /// What a test says.
    #[cfg(test)]
    pub(crate) fn of(available: impl Fn() -> Option<u64> + Send + 'static) -> Memory {
        Memory(Box::new(move |bytes| available().is_none_or(|free| free >= bytes)))
    }

    /// True when a table may take `bytes` more.
    pub(crate) fn allows(&self, bytes: u64) -> bool {
        (self.0)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_refused_where_there_is_none() {
        let memory = Memory::of(|| Some(60));
        assert!(memory.allows(60) && !memory.allows(61));
        assert!(Memory::of(|| None).allows(u64::MAX));
        assert!(Memory::of_machine().allows(1));
    }

    #[test]
    fn refusals_count_all_and_remember_the_latest() {
        let mut refusals = Refusals::default();
        for i in 0..3 {
            refusals.note(|| format!("10.0.0.{i}"), || "full".into());
        }
        assert_eq!(refusals.count, 3);
        assert_eq!(refusals.last.unwrap().subject, "10.0.0.2");
    }
}
