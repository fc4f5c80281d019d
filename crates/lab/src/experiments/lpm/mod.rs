//! Longest-prefix match: our engines and the rivals.

experiments! {
    mod peers: PEERS,
    mod scale: SCALE,
    mod bound: BOUND,
    mod interleave: INTERLEAVE,
    mod bulk: Bulk,
}
