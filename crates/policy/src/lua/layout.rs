//! The structures that a policy sees, to the byte; `script/cdef.lua` declares the same.
//!
//! ```text
//!   gt_packet_headers, 56 bytes            ggu_policy, 112 bytes
//!    0 outer_ethertype  2 inner_ip_ver      0 state
//!    4 l4_proto  5 priority  6 outer_ecn    4 flow: 0 proto, 4 src and dst of 4 or 16 bytes
//!    8 upper_len                           40 params, one of
//!   16 l2_hdr  24 outer_l3_hdr                granted:  rate, expire, next renewal, step (u32)
//!   32 inner_l3_hdr  40 l4_hdr                declined: expire (u32)
//!   48 frag                                   bpf:      0 expire u32, 4 index u8, 5 reserved u8,
//!                                                       6 cookie_len u16, 8 cookie
//! ```
//!
//! Numbers are in the machine's byte order, addresses in the network's.

use wire::ggu::{COOKIE_LEN, Verdict};

use crate::ask::Facts;

/// `gt_packet_headers`. The pointers are a policy's to follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Headers {
    pub outer_ethertype: u16,
    pub inner_ip_ver: u16,
    pub l4_proto: u8,
    pub priority: u8,
    pub outer_ecn: u8,
    pub upper_len: u16,
    pub l2_hdr: *mut u8,
    pub outer_l3_hdr: *mut u8,
    pub inner_l3_hdr: *mut u8,
    pub l4_hdr: *mut u8,
    pub frag: u8,
}

/// Bytes of a `gt_packet_headers`.
pub(super) const HEADERS: usize = 56;
/// Bytes of a `ggu_policy`.
pub(super) const POLICY: usize = 112;

const _: () = assert!(size_of::<Headers>() == HEADERS);
const _: () = assert!(PARAMS + 8 + COOKIE_LEN == POLICY);

/// What a policy wrote that is no decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDecision {
    /// There is no such state.
    #[error("the decision has state {state}, which does not exist")]
    State {
        /// As written.
        state: u8,
    },
    /// A cookie is 64 bytes.
    #[error("the decision's cookie_len is {len}, of at most 64")]
    CookieLen {
        /// As written.
        len: u16,
    },
}

/// Makes `policy` a decision before it is asked: zeros, and the packet's flow. `inner`
/// begins with the inner header, as much of it as there is.
///
/// Written in place, field by field, like what [`decision`] reads: bytes that are put
/// together elsewhere and copied from there in wider pieces wait for each other in the
/// core: 20 of 53 ns a decision in batches (`tests/speed.rs`).
#[inline]
pub(super) fn unset(facts: &Facts, inner: &[u8], policy: &mut [u8; POLICY]) {
    *policy = [0; POLICY];
    policy[FLOW..FLOW + 2].copy_from_slice(&facts.inner_ethertype.to_ne_bytes());
    match facts.inner_ethertype {
        IPV4 => addresses::<8>(inner, 12, policy),
        IPV6 => addresses::<32>(inner, 8, policy),
        _ => {}
    }
}

/// Both addresses of a header, `N` bytes from `at` on, if they are there.
#[inline]
fn addresses<const N: usize>(inner: &[u8], at: usize, policy: &mut [u8; POLICY]) {
    if let Some(addresses) = inner.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        policy[FLOW + 4..FLOW + 4 + N].copy_from_slice(addresses);
    }
}

/// Writes what a policy decided to `out`, which stays as it is where the policy left the
/// state as it was.
///
/// # Errors
/// When a field is out of its range. Rates and times may be any number.
#[inline]
pub(super) fn decision(
    policy: &[u8; POLICY],
    out: &mut Option<Verdict>,
) -> Result<(), BadDecision> {
    let u32_at = |at: usize| {
        let at = PARAMS + at;
        u32::from_ne_bytes([policy[at], policy[at + 1], policy[at + 2], policy[at + 3]])
    };
    match policy[0] {
        REQUEST => {}
        GRANTED => {
            *out = Some(Verdict::Granted {
                rate_kib: u32_at(0),
                expire_s: u32_at(4),
                next_renewal_ms: u32_at(8),
                renewal_step_ms: u32_at(12),
            });
        }
        DECLINED => *out = Some(Verdict::Declined { expire_s: u32_at(0) }),
        PROGRAM => {
            let len = u16::from_ne_bytes([policy[PARAMS + 6], policy[PARAMS + 7]]);
            if usize::from(len) > COOKIE_LEN {
                return Err(BadDecision::CookieLen { len });
            }
            let keep = &KEEP[COOKIE_LEN - usize::from(len)..][..COOKIE_LEN];
            let cookie = std::array::from_fn(|i| policy[PARAMS + 8 + i] & keep[i]);
            let index = policy[PARAMS + 4];
            *out = Some(Verdict::Program { expire_s: u32_at(0), index, cookie });
        }
        state => return Err(BadDecision::State { state }),
    }
    Ok(())
}

/// What is kept of a cookie of `n` bytes, from `COOKIE_LEN - n` on: a cookie is masked as a
/// whole, as a copy of any length is a call.
const KEEP: [u8; 2 * COOKIE_LEN] = {
    let mut keep = [0; 2 * COOKIE_LEN];
    let mut at = 0;
    while at < COOKIE_LEN {
        keep[at] = 0xff;
        at += 1;
    }
    keep
};

const FLOW: usize = 4;
const PARAMS: usize = 40;

const REQUEST: u8 = 0;
const GRANTED: u8 = 1;
const DECLINED: u8 = 2;
const PROGRAM: u8 = 3;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
