//! The specification's table of programs in plain Rust: numbers of any size, no page.

use policy::program::Answer;

use super::packets::Upper;
use super::{MS, S};

/// What a packet is, for a program.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// When.
    pub now: u64,
    /// The frame's bytes.
    pub len: u64,
    /// IPv4.
    pub v4: bool,
    /// What is behind the IP header.
    pub upper: &'a Upper,
}

/// `granted`.
pub struct Granted {
    rate: u64,
    step: u64,
    window_end: u64,
    left: u64,
    renewal: u64,
}

impl Granted {
    /// The decision's parameters.
    pub fn new(now: u64, rate_kib: u32, next_ms: u32, step_ms: u32) -> Self {
        let rate = u64::from(rate_kib) * 1_024;
        let renewal = now + u64::from(next_ms) * MS;
        Granted { rate, step: u64::from(step_ms) * MS, window_end: now + S, left: rate, renewal }
    }

    /// A packet.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Answer {
        if packet.now >= self.window_end {
            (self.window_end, self.left) = (packet.now + S, self.rate);
        }
        if packet.len > self.left {
            return Answer::Decline;
        }
        self.left -= packet.len;
        Answer::Send(renew(&mut self.renewal, self.step, packet.now))
    }
}

fn renew(at: &mut u64, step: u64, now: u64) -> u8 {
    if now < *at {
        return 1;
    }
    *at = now + step;
    2
}

/// What is looked at.
pub enum Filter {
    /// `grantedv2`.
    None,
    /// `web`.
    Web,
    /// `tcp-services`: ports at which the destination listens, and that others have.
    Services(Vec<u16>, Vec<u16>),
}

enum Verdict {
    Pass,
    Pay,
    Refuse,
}

/// `grantedv2`, `web`, `tcp-services`.
pub struct Debt {
    filter: Filter,
    rates: [i128; 2],
    left: [i128; 2],
    second: u64,
    begin: u64,
    step: u64,
    renewal: u64,
    direct: bool,
}

impl Debt {
    /// Rates in bytes.
    pub fn new(
        filter: Filter,
        now: u64,
        rates: [u64; 2],
        [next_ms, step_ms]: [u32; 2],
        direct: bool,
    ) -> Self {
        let rates = rates.map(i128::from);
        let renewal = now + u64::from(next_ms) * MS;
        let step = u64::from(step_ms) * MS;
        Debt { filter, rates, left: rates, second: 0, begin: now, step, renewal, direct }
    }

    /// A packet.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Answer {
        let second = packet.now.saturating_sub(self.begin) / S;
        if second > self.second {
            let begun = i128::from(second - self.second);
            self.left[0] = self.rates[0].min(self.left[0] + begun * self.rates[0]);
            (self.left[1], self.second) = (self.rates[1], second);
        }
        self.left[0] -= i128::from(packet.len);
        if self.left[0] < 0 {
            return Answer::Decline;
        }
        match self.verdict(packet) {
            Verdict::Refuse => return Answer::Decline,
            Verdict::Pay => {
                self.left[1] -= i128::from(packet.len);
                if self.left[1] < 0 {
                    return Answer::Decline;
                }
            }
            Verdict::Pass => {}
        }
        match renew(&mut self.renewal, self.step, packet.now) {
            1 if self.direct => Answer::Direct,
            dscp => Answer::Send(dscp),
        }
    }

    fn verdict(&self, packet: &Packet<'_>) -> Verdict {
        let Upper { proto, bytes, fragment } = packet.upper;
        if let Filter::None = self.filter {
            let plain = !fragment && matches!(proto, 6 | 17);
            return if plain { Verdict::Pass } else { Verdict::Pay };
        }
        match (proto, packet.v4) {
            (6, _) if *fragment => Verdict::Pay,
            (6, _) if bytes.len() < 20 => Verdict::Refuse,
            (6, _) => self.tcp(bytes),
            (1, true) | (58, false) if *fragment || bytes.len() < 8 => Verdict::Refuse,
            (1, true) if [0, 3, 4, 8, 11].contains(&bytes[0]) => Verdict::Pay,
            (58, false) if [1, 2, 3, 4, 128, 129].contains(&bytes[0]) => Verdict::Pay,
            _ => Verdict::Refuse,
        }
    }

    fn tcp(&self, bytes: &[u8]) -> Verdict {
        let port = |at| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (from, to) = (port(0), port(2));
        let (syn, ack) = (bytes[13] & 0x02 != 0, bytes[13] & 0x10 != 0);
        let (listens, remote, ftp) = match &self.filter {
            Filter::Services(listen, remote) => {
                (listen.contains(&to), remote.contains(&from), false)
            }
            _ => {
                let listens = [21, 22, 80, 443].contains(&to) || (51_000..=51_999).contains(&to);
                (listens, [80, 443].contains(&from), to == 20)
            }
        };
        match (listens, syn, ack) {
            (true, true, true) => Verdict::Refuse,
            (true, true, false) => Verdict::Pay,
            (true, false, _) => Verdict::Pass,
            (false, true, false) => Verdict::Refuse,
            _ if ftp || remote => Verdict::Pass,
            _ => Verdict::Refuse,
        }
    }
}
