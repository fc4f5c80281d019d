//! The registry: one line an engine and family, one more where it has an instrument, and one
//! where it has a kernel for devices.

use super::engine::Entry;
use super::export::BuildExported;
use super::instruments::BuildInstrumented;
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
            super::bsd_radix::ENTRY,
            super::dir24_8::ENTRY,
            super::dxr::ENTRY,
            super::lc_trie::ENTRY,
            super::lulea::ENTRY,
            super::miht::ENTRY,
            super::poptrie::ENTRY,
            super::rutter4::ENTRY,
            super::sail::b::ENTRY,
            super::sail::l::ENTRY,
            super::sail::m::ENTRY,
            super::sail::u::ENTRY,
            super::tree_bitmap::ENTRY,
            super::bloomfwd::NAIVE,
            super::bloomfwd::PBF,
            super::bloomfwd::BASELINE,
            super::bloomfwd::FOUR,
        ]
    }
    const DEFAULT: &'static str = "rutter4";
}

impl Engines for u128 {
    fn engines() -> &'static [Entry<u128>] {
        &[
            super::bsd_radix::ENTRY_6,
            super::lc_trie::ENTRY_6,
            super::miht::ENTRY_6,
            super::planb::ENTRY,
            super::poptrie::ENTRY_6,
            super::rutter6::ENTRY,
            super::sail::six::ENTRY,
            super::tree_bitmap::ENTRY_6,
            super::sail::hybrid::ENTRY,
            super::vpp::HASH,
            super::vpp::BLOOM,
            super::vpp::TRIE,
            super::vpp::CUVPP,
            super::bloomfwd::SIX,
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
            (super::dir24_8::ENTRY.card.name, super::dir24_8::instrumented),
            (super::rutter4::ENTRY.card.name, super::rutter4::instrumented),
        ];
        ALL
    }
}

impl Instruments for u128 {
    fn instrumented() -> &'static [(&'static str, BuildInstrumented<u128>)] {
        const ALL: &[(&str, BuildInstrumented<u128>)] = &[
            (super::rutter6::ENTRY.card.name, super::rutter6::instrumented),
            (super::planb::ENTRY.card.name, super::planb::instrumented),
        ];
        ALL
    }
}

/// The engines of a family that have a kernel for devices, by name.
pub trait Exports: Engines {
    /// All of them.
    fn exported() -> &'static [(&'static str, BuildExported<Self>)];
}

impl Exports for u32 {
    fn exported() -> &'static [(&'static str, BuildExported<u32>)] {
        const ALL: &[(&str, BuildExported<u32>)] = &[
            (super::rutter4::ENTRY.card.name, super::rutter4::exported),
            (super::bloomfwd::FOUR.card.name, super::bloomfwd::exported_four),
            (super::miht::ENTRY.card.name, super::miht::exported),
        ];
        ALL
    }
}

impl Exports for u128 {
    fn exported() -> &'static [(&'static str, BuildExported<u128>)] {
        const ALL: &[(&str, BuildExported<u128>)] = &[
            (super::rutter6::ENTRY.card.name, super::rutter6::exported),
            (super::bloomfwd::SIX.card.name, super::bloomfwd::exported_six),
            (super::miht::ENTRY_6.card.name, super::miht::exported),
        ];
        ALL
    }
}
