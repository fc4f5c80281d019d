//! A Grantor's worker between its Gatekeepers and what it serves, with a policy in the test.

mod faults;
mod flood;
mod forward;
mod fragments;
mod joined;
mod lasts;
mod malformed;
mod rig;
mod sends;
