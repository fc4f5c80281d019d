//! A Grantor's worker between its Gatekeepers and the networks that it serves; the test is its policy.

mod faults;
mod flood;
mod forward;
mod fragments;
mod joined;
mod lasts;
mod malformed;
mod plain;
mod rig;
mod sends;
