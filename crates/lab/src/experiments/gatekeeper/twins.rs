//! The programs `grantedv2`, `web` and `tcp-services` in Rust, as they would be if they were built
//! in: a yardstick for the eBPF that Rutter runs instead. `granted` and `declined` are built in.
//!
//! ```text
//!  grantedv2, web  window's end │ left 1 │ left 2 │ renewal at │ step │ rates 1 and 2 in KiB │ direct   56 bytes
//!  tcp-services    window's end │ left 1 │ left 2 │ renewal at │ rate in KiB │ step, counts │ 12 ports  64 bytes
//! ```
//!
//! Each answers as the program does, and leaves the same bytes in the page. The buckets: the first
//! may go into debt, each packet is taken from it, also one that does not pass; the second begins
//! anew each second. Numbers wrap, as a program's do.

#[cfg(test)]
mod tests;

use nodes::gatekeeper::rule::{Answer, Arrival, BadParameters, GRANTED, Page, RENEWAL, Rule};
use nodes::gatekeeper::times::Times;
use wire::bytes::{array, be16};
use wire::{ipv4, ipv6, protocol, tcp};

/// `grantedv2`: fragments and all but TCP and UDP have a second limit.
pub struct GrantedV2;

/// `web`: `grantedv2` for a web server that fetches pages itself, with SSH and FTP.
pub struct Web;

/// `tcp-services`: `web` with ports of the decision's own.
pub struct TcpServices;

impl Rule for GrantedV2 {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        begin(times, now, page);
        Ok(())
    }

    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        let Some(headers) = Headers::parse(arrival) else { return unreadable() };
        let charge = || match headers.protocol {
            _ if headers.is_fragment => at("a fragment", Charge::Second),
            protocol::TCP | protocol::UDP => at("TCP or UDP", Charge::First),
            _ => at("another protocol", Charge::Second),
        };
        granted(times, arrival, page, charge)
    }
}

impl Rule for Web {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        begin(times, now, page);
        Ok(())
    }

    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        let Some(headers) = Headers::parse(arrival) else { return unreadable() };
        let segment = |segment: Segment| match segment.to {
            21 | 22 | 80 | 443 => at("a service", segment.of_listener()),
            51_000..=51_999 => at("passive FTP", segment.of_listener()),
            // The server opens the connection.
            20 if segment.opens() => at("active FTP opens", Charge::Refused),
            20 => at("active FTP", Charge::First),
            _ if segment.opens() => at("it opens", Charge::Refused),
            _ if matches!(segment.from, 80 | 443) => at("from a web server", Charge::First),
            _ => at("from elsewhere", Charge::Refused),
        };
        granted(times, arrival, page, || headers.charge(segment))
    }
}

impl Rule for TcpServices {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        let [rate, next_ms, counts] = [0, 4, 8].map(|place| u32_at(page, place));
        if listening(counts) + remote(counts) > PORTS {
            return at("too many ports", Err(BadParameters));
        }
        let ports: [u8; 2 * PORTS] = array(page, 12);
        put(page, WINDOW_END, now.saturating_add(times.second()));
        put(page, LEFT_1, kib(rate));
        put(page, LEFT_2, kib(rate) / 20);
        put(page, RENEWAL_AT, now.saturating_add(millis(times, next_ms)));
        page[SERVICES_RATE..][..4].copy_from_slice(&rate.to_le_bytes());
        page[SERVICES_COUNTS..][..4].copy_from_slice(&counts.to_le_bytes());
        page[SERVICES_PORTS..].copy_from_slice(&ports);
        Ok(())
    }

    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        let Some(headers) = Headers::parse(arrival) else { return unreadable() };
        let rate = kib(u32_at(page, SERVICES_RATE));
        if !pay(times, arrival, page, rate, rate / 20) {
            return Answer::Decline;
        }
        let counts = u32_at(page, SERVICES_COUNTS);
        let segment = |segment: Segment| {
            let port = |n: usize| u16::from_le_bytes(array(page, SERVICES_PORTS + 2 * n));
            if (0..listening(counts)).any(|n| port(n) == segment.to) {
                at("a service", segment.of_listener())
            } else if segment.opens() {
                at("it opens", Charge::Refused)
            } else if (0..remote(counts)).any(|n| port(PORTS - 1 - n) == segment.from) {
                at("from a remote service", Charge::First)
            } else {
                at("from elsewhere", Charge::Refused)
            }
        };
        let charge = headers.charge(segment);
        if !charged(charge, arrival.len, page) {
            return Answer::Decline;
        }
        send(arrival.now, page, || millis(times, counts & 0xff_ffff), true)
    }
}

/// State of the parameters of `grantedv2` and `web`.
fn begin(times: &Times, now: u64, page: &mut Page) {
    let [rate_1, rate_2, next_ms, step_ms] = [0, 4, 8, 12].map(|place| u32_at(page, place));
    let direct = page[16] != 0;
    put(page, WINDOW_END, now.saturating_add(times.second()));
    put(page, LEFT_1, kib(rate_1));
    put(page, LEFT_2, kib(rate_2));
    put(page, RENEWAL_AT, now.saturating_add(millis(times, next_ms)));
    put(page, STEP, millis(times, step_ms));
    put(page, RATES, u64::from(rate_1) | u64::from(rate_2) << 32);
    put(page, DIRECT, direct.into());
}

/// A packet of `grantedv2` or `web` that is charged so, unless the first bucket refuses it.
#[inline(always)]
fn granted(
    times: &Times,
    arrival: &Arrival<'_>,
    page: &mut Page,
    charge: impl FnOnce() -> Charge,
) -> Answer {
    let [rate_1, rate_2] = [RATES, RATES + 4].map(|place| kib(u32_at(page, place)));
    if !pay(times, arrival, page, rate_1, rate_2) || !charged(charge(), arrival.len, page) {
        return Answer::Decline;
    }
    let (step, direct) = (word(page, STEP), page[DIRECT] != 0);
    send(arrival.now, page, || step, direct)
}

/// Fills both buckets for the seconds that have begun and takes the packet from the first; false
/// where that has nothing for it.
#[inline(always)]
fn pay(times: &Times, arrival: &Arrival<'_>, page: &mut Page, rate_1: u64, rate_2: u64) -> bool {
    let (end, second) = (word(page, WINDOW_END), times.second());
    let mut left = word(page, LEFT_1) as i64;
    if arrival.now >= end {
        let begun = (arrival.now - end) / second + 1;
        put(page, WINDOW_END, end.wrapping_add(begun.wrapping_mul(second)));
        put(page, LEFT_2, rate_2);
        let counted = if begun > MOST { at("very many seconds", MOST) } else { begun };
        left = left.wrapping_add(counted.wrapping_mul(rate_1) as i64);
        left = match left > rate_1 as i64 {
            true => at("a second that begins full", rate_1 as i64),
            false => at("a second that begins", left),
        };
    } else {
        at("the same second", ());
    }
    left = left.wrapping_sub(arrival.len.into());
    put(page, LEFT_1, left as u64);
    if left < 0 { at("in debt", false) } else { true }
}

/// Takes the packet from the second bucket where it has to; false where it does not pass.
#[inline(always)]
fn charged(charge: Charge, len: u32, page: &mut Page) -> bool {
    match charge {
        Charge::First => true,
        Charge::Refused => false,
        Charge::Second => {
            let left = (word(page, LEFT_2) as i64).wrapping_sub(len.into());
            put(page, LEFT_2, left as u64);
            if left < 0 { at("the second bucket is empty", false) } else { true }
        }
    }
}

/// The packet goes, with the DSCP that its time asks for.
#[inline(always)]
fn send(now: u64, page: &mut Page, step: impl FnOnce() -> u64, direct: bool) -> Answer {
    if now >= word(page, RENEWAL_AT) {
        put(page, RENEWAL_AT, now.saturating_add(step()));
        at("renewal", Answer::Send(RENEWAL))
    } else if direct {
        at("direct", Answer::Direct)
    } else {
        at("granted", Answer::Send(GRANTED))
    }
}

/// What a packet is charged with, beyond the first bucket.
#[derive(Clone, Copy)]
enum Charge {
    /// Nothing.
    First,
    /// The second bucket.
    Second,
    /// It does not pass.
    Refused,
}

/// A packet's headers.
struct Headers<'p> {
    is_v4: bool,
    protocol: u8,
    is_fragment: bool,
    /// What is behind the IP header.
    upper: &'p [u8],
}

impl<'p> Headers<'p> {
    /// `None` where they cannot be read.
    #[inline(always)]
    fn parse(arrival: &Arrival<'p>) -> Option<Headers<'p>> {
        let packet = arrival.packet;
        let is_v4 = match packet.first()? >> 4 {
            4 => true,
            6 => false,
            _ => return None,
        };
        let (protocol, is_fragment, len) = if is_v4 {
            let header: &[u8; ipv4::MIN_LEN] = packet.first_chunk()?;
            let word = be16(header, ipv4::FRAGMENT);
            let is_fragment = word & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0;
            let len = usize::from(header[ipv4::VERSION_IHL] & 0xf) * 4;
            (header[ipv4::PROTOCOL], is_fragment, len)
        } else {
            let (header, rest) = packet.split_first_chunk::<{ ipv6::LEN }>()?;
            let chain = ipv6::walk(header[ipv6::NEXT_HEADER], rest).ok()?;
            (chain.protocol, chain.fragment.is_some(), ipv6::LEN + chain.at)
        };
        // What the fields of DPDK's descriptor can say.
        let fits = (ipv4::MIN_LEN..1 << 9).contains(&len) && arrival.link.len() < 1 << 7;
        let upper = packet.get(len..).filter(|_| fits)?;
        Some(Headers { is_v4, protocol, is_fragment, upper })
    }

    /// What `web` and `tcp-services` do with it: they differ in segments.
    #[inline(always)]
    fn charge(&self, segment: impl FnOnce(Segment) -> Charge) -> Charge {
        match (self.protocol, self.is_v4) {
            (protocol::TCP, _) if self.is_fragment => at("a fragment of TCP", Charge::Second),
            (protocol::TCP, _) => match self.upper.first_chunk() {
                Some(header) => segment(Segment::new(header)),
                None => at("a short TCP header", Charge::Refused),
            },
            (protocol::ICMP, true) | (protocol::ICMPV6, false) => self.message(),
            _ => at("another protocol", Charge::Refused),
        }
    }

    #[inline(always)]
    fn message(&self) -> Charge {
        if self.is_fragment {
            return at("a fragment of ICMP", Charge::Refused);
        }
        let Some(header) = self.upper.first_chunk::<8>() else {
            return at("a short ICMP header", Charge::Refused);
        };
        match (self.is_v4, header[0]) {
            (true, 0 | 3 | 4 | 8 | 11) => at("ICMP", Charge::Second),
            (true, _) => at("other ICMP", Charge::Refused),
            (false, 1..=4 | 128 | 129) => at("ICMPv6", Charge::Second),
            (false, _) => at("other ICMPv6", Charge::Refused),
        }
    }
}

/// What is looked at of a segment.
#[derive(Clone, Copy)]
struct Segment {
    from: u16,
    to: u16,
    is_syn: bool,
    is_ack: bool,
}

impl Segment {
    #[inline(always)]
    fn new(header: &[u8; tcp::MIN_LEN]) -> Segment {
        let flag = |flag: u16| u16::from(header[13]) & flag != 0;
        let (is_syn, is_ack) = (flag(tcp::SYN), flag(tcp::ACK));
        Segment { from: be16(header, 0), to: be16(header, 2), is_syn, is_ack }
    }

    /// A connection begins.
    fn opens(self) -> bool {
        self.is_syn && !self.is_ack
    }

    /// To a port at which somebody listens.
    #[inline(always)]
    fn of_listener(self) -> Charge {
        match (self.is_syn, self.is_ack) {
            (false, _) => at("to a listener", Charge::First),
            (true, false) => at("opens at a listener", Charge::Second),
            (true, true) => at("a listener is answered", Charge::Refused),
        }
    }
}

#[inline(always)]
fn unreadable() -> Answer {
    at("unreadable", Answer::Undecided)
}

/// `value`, at a branch of this name: tests count which they have taken.
#[inline(always)]
fn at<T>(branch: &'static str, value: T) -> T {
    #[cfg(test)]
    tests::taken(branch);
    let _ = branch;
    value
}

fn listening(counts: u32) -> usize {
    (counts >> 24 & 0xf) as usize
}

fn remote(counts: u32) -> usize {
    (counts >> 28) as usize
}

/// Ticks as a program counts them: by whole ticks of a millisecond.
fn millis(times: &Times, millis: u32) -> u64 {
    times.millis(1).wrapping_mul(millis.into())
}

fn kib(rate: u32) -> u64 {
    u64::from(rate) * 1_024
}

#[inline(always)]
fn word(page: &Page, at: usize) -> u64 {
    u64::from_le_bytes(array(page, at))
}

#[inline(always)]
fn put(page: &mut Page, at: usize, word: u64) {
    page[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[inline(always)]
fn u32_at(page: &Page, at: usize) -> u32 {
    u32::from_le_bytes(array(page, at))
}

/// Seconds that count at most.
const MOST: u64 = 1 << 20;
const PORTS: usize = 12;
const WINDOW_END: usize = 0;
const LEFT_1: usize = 8;
const LEFT_2: usize = 16;
const RENEWAL_AT: usize = 24;
const STEP: usize = 32;
const RATES: usize = 40;
const DIRECT: usize = 48;
const SERVICES_RATE: usize = 32;
const SERVICES_COUNTS: usize = 36;
const SERVICES_PORTS: usize = 40;
