//! The Grantor's neighbours and its configuration.

use std::sync::Arc;

use lookup::sync::Domain;
use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{Ecn, Instead, Settings};
use tables::event::NeighbourState;
use tables::{Control, Side};
use wire::ggu;

use crate::says::MOST;
use crate::site::{self, address, neighbour, route};

pub(super) const GATEKEEPER: [u8; 6] = [4, 0, 0, 0, 0, 1];
pub(super) const SERVED: [u8; 6] = [4, 0, 0, 0, 0, 9];

/// Bits: 0 shadow, 1 RFC 6040, 2 and 3 what stands for a verdict, 4 the time limit is long.
pub(super) fn settings(options: u8) -> Settings {
    let nets = |all: &[(&str, u8)]| {
        Nets::new(all.iter().map(|(ip, len)| (ip.parse().expect("an address"), *len)))
    };
    let decision = Some(ggu::Verdict::Declined { expire_s: 60 });
    let instead = Instead {
        forward: options & 4 != 0,
        decision: if options & 8 != 0 { decision } else { None },
    };
    Settings {
        gatekeepers: nets(&[("10.0.2.1", 32), ("10.0.1.0", 24), ("2001:db8:2::1", 128)]),
        serves: nets(&[("10.20.0.0", 16), ("2001:db8:20::", 48)]),
        ecn: if options & 2 != 0 { Ecn::Rfc6040 } else { Ecn::Deployed },
        shadow: options & 1 != 0,
        question: MOST,
        limit_ms: if options & 16 != 0 { 60_000 } else { 100 },
        on_limit: instead,
        on_full: instead,
        asked: 8,
        reassemble: options & 32 != 0,
        ..Settings::default()
    }
}

pub(super) fn control(domain: &Arc<Domain>) -> Control {
    let mut control = site::control(domain, [Side::default(); 2]);
    control.handle(&[
        address(1, "10.0.2.9", 24),
        address(1, "2001:db8:2::9", 64),
        address(2, "10.0.3.1", 24),
        address(2, "2001:db8:3::1", 64),
        route("10.0.2.0/24", 1, None),
        route("10.0.1.0/24", 1, Some("10.0.2.1")),
        route("2001:db8:2::/64", 1, None),
        route("10.0.3.0/24", 2, None),
        route("10.20.0.0/16", 2, Some("10.0.3.9")),
        route("10.21.0.0/16", 2, Some("10.0.3.9")),
        route("2001:db8:20::/47", 2, Some("2001:db8:3::9")),
        neighbour(1, "10.0.2.1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(1, "2001:db8:2::1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(2, "10.0.3.9", SERVED, NeighbourState::Reachable),
        neighbour(2, "2001:db8:3::9", SERVED, NeighbourState::Reachable),
    ]);
    control.commit();
    control
}
