//! The back ports: which of them take requests.

use tables::PortId;

use crate::out::refusals::Refusals;

/// What one poll finds of the back ports.
pub(super) struct Back<'a> {
    pub refusals: &'a Refusals,
    /// Ticks for which nothing is sent to a port that refused a packet. For four times as long
    /// after them, the port is tried with one request a poll.
    pub wait: u64,
    pub now: u64,
    /// Bits of the ports, modulo 64, that were tried in this poll.
    pub tried: u64,
}

impl Back<'_> {
    /// A port has refused packets so lately that each has to be looked at.
    pub(super) fn refused_lately(&self) -> bool {
        self.since(self.refusals.latest()) <= 5 * self.wait
    }

    /// A request for this port may leave, as the next one or as a trial.
    pub(super) fn is_to_be_tried(&self, port: Option<PortId>) -> bool {
        self.since_port(port) > self.wait
    }

    /// A request for this port may leave now. One that has no way is dropped in its turn.
    #[cold]
    pub(super) fn takes(&mut self, port: Option<PortId>) -> bool {
        let since = self.since_port(port);
        let bit = 1 << (port.map_or(0, |port| port.0) % 64);
        let is_trial = since <= 5 * self.wait;
        let takes = since > self.wait && !(is_trial && self.tried & bit != 0);
        if is_trial {
            self.tried |= bit;
        }
        takes
    }

    fn since_port(&self, port: Option<PortId>) -> u64 {
        self.since(port.and_then(|port| self.refusals.last(port.0)))
    }

    fn since(&self, then: Option<u64>) -> u64 {
        then.map_or(u64::MAX, |then| self.now.saturating_sub(then))
    }
}
