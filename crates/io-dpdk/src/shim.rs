//! The shim's declarations, generated from `shim/shim.h`.

#![allow(missing_docs, non_camel_case_types, dead_code)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)] // derived

use io::Packet;

/// DPDK's name for a packet; `layout` shows that they are the same.
pub(crate) type rte_mbuf = Packet;

/// DPDK's packet pool, behind a pointer.
#[repr(C)]
pub(crate) struct rte_mempool {
    _opaque: [u8; 0],
}

include!(concat!(env!("OUT_DIR"), "/shim.rs"));
