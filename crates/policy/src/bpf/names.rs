//! What a program may call and read by a name.

use super::Clock;

/// One of a program's two functions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Section {
    /// A decision came.
    Init,
    /// A packet came.
    Packet,
}

impl Section {
    /// As an object calls it.
    pub fn name(self) -> &'static str {
        match self {
            Section::Init => "init",
            Section::Packet => "pkt",
        }
    }

    /// Bytes of the context.
    pub(super) fn context_len(self) -> usize {
        match self {
            Section::Init => 8,
            Section::Packet => 24,
        }
    }

    /// What it may call. A resolved call has the place in this list.
    pub(super) fn helpers(self) -> &'static [Helper] {
        match self {
            Section::Init => &[Helper::Cookie],
            Section::Packet => &[Helper::Cookie, Helper::Descriptor, Helper::Prepare],
        }
    }

    /// The number of a helper that a program calls by this name.
    pub(super) fn helper(self, name: &[u8]) -> Option<usize> {
        let names: &[&str] = match self {
            Section::Init => &["init_ctx_to_cookie"],
            Section::Packet => &["pkt_ctx_to_cookie", "pkt_ctx_to_pkt", "gk_bpf_prep_for_tx"],
        };
        names.iter().position(|known| known.as_bytes() == name)
    }
}

/// What a program calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Helper {
    /// `init_ctx_to_cookie`, `pkt_ctx_to_cookie`: the flow's page.
    Cookie,
    /// `pkt_ctx_to_pkt`: the packet's descriptor.
    Descriptor,
    /// `gk_bpf_prep_for_tx`: the packet may go, with a priority, straight if it can.
    Prepare,
}

/// Variables: their values are those of the clock with which a program was loaded.
pub(super) const VARIABLES: usize = 2;

/// The number of a variable of this name.
pub(super) fn variable(name: &[u8]) -> Option<usize> {
    [&b"cycles_per_sec"[..], b"cycles_per_ms"].iter().position(|known| *known == name)
}

/// The values of all variables.
pub(super) fn values(clock: &Clock) -> [u64; VARIABLES] {
    [clock.cycles_per_sec, clock.cycles_per_ms]
}

/// What `gk_bpf_prep_for_tx` was asked for, and whether it was.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Prepared(pub(super) Option<(u8, bool)>);

impl Prepared {
    /// The helper: 0, or a negative number; once a packet. Its arguments are C's `int`.
    pub(super) fn prepare(&mut self, priority: u64, direct: u64) -> u64 {
        let priority = priority as u32;
        if self.0.is_some() || priority > MOST_PRIORITY {
            return -1_i64 as u64;
        }
        self.0 = Some((priority as u8, direct as u32 != 0));
        0
    }
}

const MOST_PRIORITY: u32 = 63;
