//! The applications: which ports, nodes and edges each is made of. Nothing here
//! touches a packet.

pub mod router;
