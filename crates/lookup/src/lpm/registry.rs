//! The registry: one line an engine and family, and one more where it has an instrument.

use super::engine::Entry;
use super::instruments::BuildInstrumented;
use super::{
    bloomfwd, bsd_radix, dir24_8, dxr, lc_trie, lulea, miht, planb, poptrie, rutter4, rutter6,
    sail, tree_bitmap, vpp,
};
use crate::Addr;

/// The engines of one family, in the order in which they are listed.
pub trait Engines: Addr {
    /// All of them.
    fn engines() -> &'static [Entry<Self>];

    /// The one called `name`.
    fn engine(name: &str) -> Option<&'static Entry<Self>> {
        Self::engines().iter().find(|entry| entry.card.name == name)
    }

    /// The name of the engine used where none is chosen.
    const DEFAULT: &'static str;
}

impl Engines for u32 {
    fn engines() -> &'static [Entry<u32>] {
        &[
            bsd_radix::ENTRY,
            dir24_8::ENTRY,
            dxr::ENTRY,
            lc_trie::ENTRY,
            lulea::ENTRY,
            miht::ENTRY,
            poptrie::ENTRY,
            rutter4::ENTRY,
            sail::b::ENTRY,
            sail::l::ENTRY,
            sail::m::ENTRY,
            sail::u::ENTRY,
            tree_bitmap::ENTRY,
            bloomfwd::NAIVE,
            bloomfwd::PBF,
            bloomfwd::BASELINE,
            bloomfwd::FOUR,
        ]
    }
    const DEFAULT: &'static str = "rutter4";
}

impl Engines for u128 {
    fn engines() -> &'static [Entry<u128>] {
        &[
            bsd_radix::ENTRY_6,
            lc_trie::ENTRY_6,
            miht::ENTRY_6,
            planb::ENTRY,
            poptrie::ENTRY_6,
            rutter6::ENTRY,
            sail::six::ENTRY,
            tree_bitmap::ENTRY_6,
            sail::hybrid::ENTRY,
            vpp::HASH,
            vpp::BLOOM,
            vpp::TRIE,
            vpp::CUVPP,
            bloomfwd::SIX,
        ]
    }
    const DEFAULT: &'static str = "rutter6";
}

/// The engines of a family that have an instrument, by name.
pub trait Instruments: Engines {
    /// All of them.
    fn instrumented() -> &'static [(&'static str, BuildInstrumented<Self>)];
}

impl Instruments for u32 {
    fn instrumented() -> &'static [(&'static str, BuildInstrumented<u32>)] {
        const ALL: &[(&str, BuildInstrumented<u32>)] = &[
            (dir24_8::ENTRY.card.name, dir24_8::instrumented),
            (rutter4::ENTRY.card.name, rutter4::instrumented),
        ];
        ALL
    }
}

impl Instruments for u128 {
    fn instrumented() -> &'static [(&'static str, BuildInstrumented<u128>)] {
        const ALL: &[(&str, BuildInstrumented<u128>)] =
            &[(rutter6::ENTRY.card.name, rutter6::instrumented)];
        ALL
    }
}
