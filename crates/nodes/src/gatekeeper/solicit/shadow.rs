//! Requests of a shadow: their packets go on by their routes, and at most a copy asks.

use graph::{Account, Kept, View};
use tables::Protection;
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::{ONE, Solicit, To, Waiting, is_here, push};
use crate::gatekeeper::lanes::Request;
use crate::gatekeeper::outer::{Ways, packet_len};
use crate::gatekeeper::settings::Counters;
use crate::gatekeeper::solicitor::Queue;
use crate::lanes::{Dst4, Dst6, Iface};

/// Shows the queue a packet that goes on itself: it gets a copy where somebody is to have one.
#[cold]
pub(super) fn show(
    v: &mut View<'_, Solicit>,
    i: usize,
    (request, mixed): (Request, u32),
    protection: Option<&Protection>,
    ways: &Ways<'_>,
    queue: &mut Queue<Waiting>,
    counters: &Counters,
) {
    let set = request.set();
    if !queue.takes(request.dscp()) {
        return counters.count_shadow(set, |of| &of.dropped);
    }
    let packet_len = packet_len(v.head(i));
    let link = v.frame_len(i).wrapping_sub(v.len(i));
    let shadow = protection.and_then(|protection| protection.shadow(mixed));
    let asked = shadow.or_else(|| protection.and_then(|protection| protection.grantor(mixed)));
    let is_here = protection.is_some_and(is_here);
    let len = if is_here { Ok(ONE) } else { ways.frame_len(packet_len, asked, mixed) };
    let Ok(len) = len else {
        return counters.count_shadow(set, |of| &of.dropped);
    };
    let is_heard = is_here || shadow.is_some();
    let kept = is_heard.then(|| {
        let kept = copy(v, i);
        if kept.is_none() {
            counters.count_shadow(set, |of| &of.no_copy);
        }
        kept
    });
    let (kept, iface) = (kept.flatten(), v.get(Iface, i));
    push(v, queue, Waiting { kept, request, mixed, link, len, iface }, counters);
}

/// A copy of packet `i`, kept.
fn copy(v: &mut View<'_, Solicit>, i: usize) -> Option<Kept> {
    let pool = v.port();
    let mut packet = v.ports().get(pool)?.allocate()?;
    let copied = packet.copy_from(v.packet(i));
    if copied {
        match v.adopt(packet, pool) {
            Ok(kept) => {
                v.account(Account::Copies, 1);
                return Some(kept);
            }
            Err(back) => packet = back,
        }
    }
    v.ports().put_back(packet, pool);
    None
}

/// Sends packet `i` by its route.
pub(super) fn pass(v: &mut View<'_, Solicit>, i: usize) {
    let head = v.head(i);
    if head[0] >> 4 == 4 {
        let dst = u32::from_be_bytes(array(head, ipv4::DST));
        v.set(Dst4, i, dst);
        v.leave(i, To::Lookup4);
    } else {
        let dst = u128::from_be_bytes(array(head, ipv6::DST));
        v.set(Dst6, i, dst);
        v.leave(i, To::Lookup6);
    }
}
