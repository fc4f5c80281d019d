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

mod forwarder;
mod sizes;
