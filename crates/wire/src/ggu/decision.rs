//! One decision: a flow, and what it may do.
//!
//! ```text
//!  │type│ 0  │  0  │ source      │ destination │ parameters …
//!  0    1    2     4             4+a           4+2a             a = 4 or 16
//!
//!  type 0, 1 declined    expire_s u32
//!       2, 3 granted     rate_kib u32, expire_s u32, next_renewal_ms u32, renewal_step_ms u32
//!       4, 5 program     expire_s u32, index u8, 0 u16, words u8, 4 × words bytes of cookie
//!       ╰──┴─ odd: IPv6
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Refusal;
use crate::bytes::{array, be16, be32, ipv4, ipv6, put32};
use crate::{Error, room};

/// Bytes of a program's cookie.
pub const COOKIE_LEN: usize = 64;
/// Bytes of the longest decision.
pub const MAX_LEN: usize = HEADER_LEN + 2 * 16 + PROGRAM_LEN + COOKIE_LEN;

/// What a Grantor decided for a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// For whom.
    pub flow: Flow,
    /// What.
    pub verdict: Verdict,
}

/// A flow: a source and a destination, of one family. Its family is not bound to that of
/// the message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Flow {
    /// Of IPv4.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
    },
    /// Of IPv6.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
    },
}

impl Flow {
    /// Source and destination.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        match *self {
            Flow::V4 { src, dst } => (src.into(), dst.into()),
            Flow::V6 { src, dst } => (src.into(), dst.into()),
        }
    }
}

/// What a flow may do from the decision's arrival on, and how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Declined {
        /// Seconds until the decision ends.
        expire_s: u32,
    },
    /// So many bytes a second.
    Granted {
        /// KiB a second.
        rate_kib: u32,
        /// Seconds until the decision ends.
        expire_s: u32,
        /// Milliseconds until a packet asks for a renewal.
        next_renewal_ms: u32,
        /// Milliseconds from one such packet to the next.
        renewal_step_ms: u32,
    },
    /// What a program of the Gatekeeper says.
    Program {
        /// Seconds until the decision ends.
        expire_s: u32,
        /// Which program.
        index: u8,
        /// The program's parameters, as they came: their byte order is the program's.
        /// What the message leaves out is zero.
        cookie: [u8; COOKIE_LEN],
    },
}

impl Verdict {
    /// Seconds until the decision ends.
    pub fn expire_s(&self) -> u32 {
        match *self {
            Verdict::Declined { expire_s }
            | Verdict::Granted { expire_s, .. }
            | Verdict::Program { expire_s, .. } => expire_s,
        }
    }
}

impl Decision {
    /// The decision at the start of `bytes`, and what follows it.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let mut rest = bytes;
        Decision::read(&mut rest).map(|decision| (decision, rest))
    }

    /// The same; `bytes` is what follows it then, and nothing where a check failed.
    pub(super) fn read(bytes: &mut &[u8]) -> Result<Self, Refusal> {
        let Some((header, mut rest)) = core::mem::take(bytes).split_first_chunk::<HEADER_LEN>()
        else {
            return Err(Refusal::TrailingBytes);
        };
        let kind = header[0];
        if kind > PROGRAM | V6 {
            return Err(Refusal::UnknownType);
        }
        if header[1..] != [0; 3] {
            return Err(Refusal::DecisionReserved);
        }
        let flow = flow(kind, &mut rest)?;
        let verdict = match kind & !V6 {
            DECLINED => declined(&mut rest)?,
            GRANTED => granted(&mut rest)?,
            _ => program(&mut rest)?,
        };
        *bytes = rest;
        Ok(Decision { flow, verdict })
    }

    /// Bytes that [`Decision::emit`] writes.
    pub fn wire_len(&self) -> usize {
        let addresses = match self.flow {
            Flow::V4 { .. } => 2 * 4,
            Flow::V6 { .. } => 2 * 16,
        };
        let parameters = match &self.verdict {
            Verdict::Declined { .. } => DECLINED_LEN,
            Verdict::Granted { .. } => GRANTED_LEN,
            Verdict::Program { cookie, .. } => PROGRAM_LEN + 4 * words(cookie),
        };
        HEADER_LEN + addresses + parameters
    }

    /// Writes the decision, without the zero words at its cookie's end, and returns its
    /// length.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = self.wire_len();
        let out = room(buffer, len, "ggu decision")?;
        let kind = match self.verdict {
            Verdict::Declined { .. } => DECLINED,
            Verdict::Granted { .. } => GRANTED,
            Verdict::Program { .. } => PROGRAM,
        };
        out[..HEADER_LEN].fill(0);
        let parameters = match self.flow {
            Flow::V4 { src, dst } => {
                out[0] = kind;
                out[4..8].copy_from_slice(&src.octets());
                out[8..12].copy_from_slice(&dst.octets());
                &mut out[12..]
            }
            Flow::V6 { src, dst } => {
                out[0] = kind | V6;
                out[4..20].copy_from_slice(&src.octets());
                out[20..36].copy_from_slice(&dst.octets());
                &mut out[36..]
            }
        };
        match &self.verdict {
            Verdict::Declined { expire_s } => put32(parameters, 0, *expire_s),
            Verdict::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms } => {
                put32(parameters, 0, *rate_kib);
                put32(parameters, 4, *expire_s);
                put32(parameters, 8, *next_renewal_ms);
                put32(parameters, 12, *renewal_step_ms);
            }
            Verdict::Program { expire_s, index, cookie } => {
                let words = words(cookie);
                put32(parameters, 0, *expire_s);
                parameters[4..8].copy_from_slice(&[*index, 0, 0, words as u8]);
                parameters[8..].copy_from_slice(&cookie[..4 * words]);
            }
        }
        Ok(len)
    }
}

/// Words of a cookie up to the last that is not zero.
fn words(cookie: &[u8; COOKIE_LEN]) -> usize {
    cookie.iter().rposition(|byte| *byte != 0).map_or(0, |last| last / 4 + 1)
}

#[inline]
fn cut<'a, const N: usize>(bytes: &mut &'a [u8]) -> Result<&'a [u8; N], Refusal> {
    let (part, rest) = bytes.split_first_chunk().ok_or(Refusal::DecisionCutOff)?;
    *bytes = rest;
    Ok(part)
}

#[inline]
fn flow(kind: u8, bytes: &mut &[u8]) -> Result<Flow, Refusal> {
    if kind & V6 == 0 {
        let ends = cut::<8>(bytes)?;
        return Ok(Flow::V4 { src: ipv4(ends, 0), dst: ipv4(ends, 4) });
    }
    let ends = cut::<32>(bytes)?;
    Ok(Flow::V6 { src: ipv6(ends, 0), dst: ipv6(ends, 16) })
}

#[inline]
fn declined(bytes: &mut &[u8]) -> Result<Verdict, Refusal> {
    let parameters = cut::<DECLINED_LEN>(bytes)?;
    Ok(Verdict::Declined { expire_s: be32(parameters, 0) })
}

#[inline]
fn granted(bytes: &mut &[u8]) -> Result<Verdict, Refusal> {
    let parameters = cut::<GRANTED_LEN>(bytes)?;
    Ok(Verdict::Granted {
        rate_kib: be32(parameters, 0),
        expire_s: be32(parameters, 4),
        next_renewal_ms: be32(parameters, 8),
        renewal_step_ms: be32(parameters, 12),
    })
}

fn program(bytes: &mut &[u8]) -> Result<Verdict, Refusal> {
    let parameters = cut::<PROGRAM_LEN>(bytes)?;
    let [index, ..] = array::<4>(parameters, 4);
    if be16(parameters, 5) != 0 {
        return Err(Refusal::ProgramReserved);
    }
    let len = 4 * usize::from(parameters[7]);
    let mut cookie = [0; COOKIE_LEN];
    let part = cookie.get_mut(..len).ok_or(Refusal::CookieTooLong)?;
    let (found, rest) = bytes.split_at_checked(len).ok_or(Refusal::DecisionCutOff)?;
    part.copy_from_slice(found);
    *bytes = rest;
    Ok(Verdict::Program { expire_s: be32(parameters, 0), index, cookie })
}

const DECLINED: u8 = 0;
const GRANTED: u8 = 2;
const PROGRAM: u8 = 4;
/// The bit of a type that says IPv6.
const V6: u8 = 1;

/// Type and reserved bytes.
const HEADER_LEN: usize = 4;
const DECLINED_LEN: usize = 4;
const GRANTED_LEN: usize = 16;
/// Without the cookie.
const PROGRAM_LEN: usize = 8;
