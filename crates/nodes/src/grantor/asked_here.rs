//! `asked_here`: takes the requests of a shield in the same graph, which come without a tunnel.
//!
//! ```text
//!  shield, solicit ─► packet as it came ─┬ asks ─► grantor   Asks
//!                                        ├ granted ─► ip4_lookup, ip6_lookup   Dst
//!                                        └ not right ─► drop, by name
//! ```
//!
//! | cost | the header checks |
//! |------|-------------------|
//!
//! An inner packet that the deployed Grantor refuses in a tunnel is refused here too, whatever was
//! decided. Bytes behind the packet in its frame are cut off.

use graph::{Lanes, Node, View, labels};

use policy::program::GRANTED;
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::inner::{Why, four, six};
use super::lanes::{Asks, Inner};
use super::plain::is_alone;
use crate::gatekeeper::lanes::Asked;
use crate::lanes::{Dst4, Dst6, Iface};
use crate::parse::cut::cut;

labels! {
    /// Where packets go.
    pub enum To {
        Grantor = "grantor" carries [Asks, Iface],
        Lookup4 = "ip4_lookup" carries [Dst4, Iface],
        Lookup6 = "ip6_lookup" carries [Dst6, Iface],
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
            if asked.dscp() <= GRANTED && is_alone(v.head(i), v.len(i)) {
                let is_v6 = v.head(i)[0] >> 4 != 4;
                lead_on(v, i, is_v6);
                continue;
            }
            let packet = v.rest(i);
            let found = match packet.first().map(|first| first >> 4) {
                Some(4) => four(packet).map(|(inner, _)| inner),
                _ => six(packet).map(|(inner, _)| inner),
            };
            match found {
                Ok(inner) if asked.dscp() <= GRANTED => {
                    if v.len(i) != inner.total {
                        cut(v, i, inner.total);
                    }
                    lead_on(v, i, inner.v6);
                }
                Ok(inner) => {
                    let (dscp, copy) = (asked.dscp(), asked.is_in_shadow());
                    v.set(Asks, i, Inner { dscp, copy, ..inner });
                }
                Err(why) => v.drop(i, why),
            }
        }
    }
}

/// Sends packet `i`, which is granted, by its route.
#[inline(always)]
fn lead_on(v: &mut View<'_, AskedHere>, i: usize, is_v6: bool) {
    let head = v.head(i);
    if is_v6 {
        let dst = u128::from_be_bytes(array(head, ipv6::DST));
        v.set(Dst6, i, dst);
        v.leave(i, To::Lookup6);
    } else {
        let dst = u32::from_be_bytes(array(head, ipv4::DST));
        v.set(Dst4, i, dst);
        v.leave(i, To::Lookup4);
    }
}
