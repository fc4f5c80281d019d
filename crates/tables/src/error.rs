//! Why the control thread refuses.

use lookup::lpm::Refusal;

use crate::{Family, Net};

/// An error of the control side.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No engine of that name for the family.
    #[error("no engine is called `{name}` for {}", family.name())]
    UnknownEngine {
        /// As given.
        name: String,
        /// For which family.
        family: Family,
    },
    /// The engine cannot hold the table.
    #[error(transparent)]
    Engine(#[from] Refusal),
    /// The engine is just being changed.
    #[error("the engine of this table is being changed already")]
    Busy,
    /// No such routing tables.
    #[error("no VRF has this number")]
    UnknownVrf,
    /// Another VRF has the name or the kernel's table.
    #[error("the VRF `{name}` or its kernel table {table} exists already")]
    DuplicateVrf {
        /// As given.
        name: String,
        /// As given.
        table: u32,
    },
    /// Another interface has the name, or gets the same frames.
    #[error("the interface `{name}` clashes with `{with}`")]
    DuplicateInterface {
        /// As given.
        name: String,
        /// The one that is there.
        with: String,
    },
    /// A protection.
    #[error(transparent)]
    Protection(#[from] Unfit),
    /// More interfaces than ids.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most that fit.
        limit: usize,
    },
}

/// Why a prefix cannot be protected so.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Another protection has the prefix.
    #[error("{net} has a protection already")]
    Duplicate {
        /// As given.
        net: Net,
    },
    /// None has it.
    #[error("{net} has no protection")]
    Unknown {
        /// As given.
        net: Net,
    },
    /// What shields would let some of its addresses pass, or what passes would be shielded.
    #[error("{net} ({does}) and {other} ({others}) overlap: a hole in the shield")]
    Hole {
        /// As given.
        net: Net,
        /// What it is to do.
        does: &'static str,
        /// The one that is there.
        other: Net,
        /// What that does.
        others: &'static str,
    },
    /// It has to do with a network that this router is on.
    #[error("{net} overlaps {subnet}, a network of this router")]
    OwnNetwork {
        /// As given.
        net: Net,
        /// The network, or an address of this router.
        subnet: Net,
    },
    /// It has to do with addresses that are never routed.
    #[error("{net} overlaps {reserved}, which is never routed")]
    Reserved {
        /// As given.
        net: Net,
        /// What the RFCs set apart.
        reserved: Net,
    },
    /// Nobody decides.
    #[error("{net} has no Grantor")]
    NoGrantor {
        /// As given.
        net: Net,
    },
    /// Nobody is asked.
    #[error("{net} ({does}) asks no Grantor")]
    NeedlessGrantor {
        /// As given.
        net: Net,
        /// What it is to do.
        does: &'static str,
    },
    /// Packets are encapsulated in their own family.
    #[error("the Grantor {grantor} of {net} is of the other address family")]
    OtherFamily {
        /// As given.
        net: Net,
        /// As given.
        grantor: std::net::IpAddr,
    },
    /// Named twice, or without a share.
    #[error("the Grantor {grantor} of {net} is named twice, or has no weight")]
    BadGrantor {
        /// As given.
        net: Net,
        /// As given.
        grantor: std::net::IpAddr,
    },
    /// What a protection does never changes.
    #[error("{net} has a protection of another kind ({does}): delete that first")]
    OtherAction {
        /// As given.
        net: Net,
        /// What the one that is there does.
        does: &'static str,
    },
    /// At a limit.
    #[error("{net}: {limit}")]
    Full {
        /// As given.
        net: Net,
        /// Which.
        limit: String,
    },
}
