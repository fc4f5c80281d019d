//! Bulk lookup on devices: crate `offload`.

experiments! {
    mod peers: Peers,
}
