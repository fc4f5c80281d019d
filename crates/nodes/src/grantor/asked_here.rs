//! `asked_here`: what a shield of the same graph asks about, without a tunnel.
//!
//! ```text
//!  shield, solicit ─► packet as it came ─┬ headers found ─► grantor   Asks
//!                                        └ not right ─► drop, by name
//! ```
//!
//! | cost | the header checks |
//! |------|-------------------|
//!
//! What the deployed Grantor would find wrong inside of a tunnel is wrong here, too.

use graph::{Lanes, Node, View, labels};

use super::inner::{Why, four, six};
use super::lanes::{Asks, Inner};
use crate::gatekeeper::lanes::Asked;
use crate::lanes::Iface;

labels! {
    /// Where packets go.
    pub enum To {
        Grantor = "grantor" carries [Asks, Iface],
    }
}

/// The node.
pub struct AskedHere;

impl Node for AskedHere {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "asked_here";
    const HELP: &'static str = "finds what a shield of this machine asks about";
    const READS: Lanes = Lanes::of::<(Asked, Iface)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(To::Grantor);
        for i in 0..v.n() {
            let asked = v.get(Asked, i);
            let packet = v.rest(i);
            let found = match packet.first().map(|first| first >> 4) {
                Some(4) => four(packet).map(|(inner, _)| inner),
                _ => six(packet).map(|(inner, _)| inner),
            };
            match found {
                Ok(inner) => {
                    let (dscp, copy) = (asked.dscp(), asked.is_in_shadow());
                    v.set(Asks, i, Inner { dscp, copy, ..inner });
                }
                Err(why) => v.drop(i, why),
            }
        }
    }
}
