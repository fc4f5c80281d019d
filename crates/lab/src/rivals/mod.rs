//! Other people's tables, brought in to be compared with: behind the feature
//! `rivals`, so that the lab builds without their libraries.
//!
//! A rival is one file here and a line in [`ipv4`], [`ipv6`] or [`exact`].

use crate::contest::Contestant;
use crate::matching;

#[cfg(feature = "rivals")]
mod cpp;
#[cfg(feature = "rivals")]
mod dpdk;
#[cfg(feature = "rivals")]
mod dpdk_hash;
#[cfg(feature = "rivals")]
mod maps;
#[cfg(feature = "rivals")]
mod plain;
#[cfg(feature = "rivals")]
mod poptrie;
#[cfg(feature = "rivals")]
mod prefix_trie;
#[cfg(feature = "rivals")]
mod treebitmap;

/// Rivals for IPv4.
#[cfg(feature = "rivals")]
pub fn ipv4() -> Vec<Contestant<u32>> {
    let mut all = dpdk::ipv4();
    all.extend([poptrie::ipv4(), prefix_trie::ipv4(), treebitmap::ipv4()]);
    all
}

/// Rivals for IPv6.
#[cfg(feature = "rivals")]
pub fn ipv6() -> Vec<Contestant<u128>> {
    let mut all = dpdk::ipv6();
    all.extend([poptrie::ipv6(), prefix_trie::ipv6(), treebitmap::ipv6()]);
    all
}

/// Rivals for exact match.
#[cfg(feature = "rivals")]
pub fn exact() -> Vec<matching::Contestant> {
    let mut all = maps::all();
    all.push(dpdk_hash::rte_hash());
    all.extend(cpp::all());
    all
}

/// Rivals for exact match: none in this build.
#[cfg(not(feature = "rivals"))]
pub fn exact() -> Vec<matching::Contestant> {
    Vec::new()
}

/// Rivals for IPv4: none in this build.
#[cfg(not(feature = "rivals"))]
pub fn ipv4() -> Vec<Contestant<u32>> {
    Vec::new()
}

/// Rivals for IPv6: none in this build.
#[cfg(not(feature = "rivals"))]
pub fn ipv6() -> Vec<Contestant<u128>> {
    Vec::new()
}
