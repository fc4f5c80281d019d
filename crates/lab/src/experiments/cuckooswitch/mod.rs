//! CuckooSwitch: Zhou, Fan, Lim, Kaminsky, Andersen, *Scalable, High Performance
//! Ethernet Forwarding with CuckooSwitch*, CoNEXT 2013.

experiments! {
    mod tables: FIG5,
    in tables: FIG6,
    in tables: FIG7,
    in tables: TABLE3,
    mod forward: Table2,
    in forward: FIG8,
    in forward: FIG9,
    in forward: Fig10,
}

mod claims;
mod forwarder;
mod rivals;
mod sizes;

pub(super) use claims::is_small;

/// Those that look up in the same tables.
const FIGURES: [&dyn sizes::InTables; 6] =
    [&tables::FIG5, &tables::FIG6, &tables::FIG7, &tables::TABLE3, &forward::FIG8, &forward::FIG9];
