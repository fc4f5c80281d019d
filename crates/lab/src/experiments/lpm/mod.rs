//! Longest-prefix match: our engines and the rivals.

pub(super) mod bound;
pub(super) mod interleave;
pub(super) mod peers;
pub(super) mod scale;
