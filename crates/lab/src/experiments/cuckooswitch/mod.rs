//! CuckooSwitch: Zhou, Fan, Lim, Kaminsky, Andersen, *Scalable, High Performance
//! Ethernet Forwarding with CuckooSwitch*, CoNEXT 2013.

mod forward;
mod forwarder;
mod tables;

pub(super) use forward::{FIG8, FIG9, Fig10, Table2};
pub(super) use tables::{FIG5, FIG6, FIG7, TABLE3};
