//! The shield's neighbours and what it protects.

use std::sync::Arc;

use lookup::sync::Domain;
use nodes::gatekeeper::settings::{DecisionsFrom, Ends, Settings};
use tables::event::NeighbourState;
use tables::{Action, Control, LOCAL, Named, Protect, Side, VrfId};

use crate::site::{self, address, neighbour, route};

pub(super) const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];
pub(super) const GRANTOR: [u8; 6] = [4, 0, 0, 0, 0, 9];

pub(super) fn settings(decisions_from: DecisionsFrom) -> Settings {
    let v6 = "2001:db8:2::1".parse().ok();
    let from = Ends { v4: Some([10, 0, 2, 1].into()), v6, hop_limit: 255 };
    Settings { from, decisions_from, ..Settings::default() }
}

pub(super) fn protect(net: &str, options: u32, shadow: bool) -> Protect {
    let ip = if net.contains(':') { "2001:db8:2::9" } else { "10.0.2.9" };
    let ip = ip.parse().expect("an address");
    let grantors = vec![Named { ip, weight: 1, shadow }];
    Protect { net: net.parse().expect("a prefix"), action: Action::Protect, options, grantors }
}

/// A protection whose policy is in the same graph.
pub(super) fn decided_here(net: &str, options: u32) -> Protect {
    let (net, options) = (net.parse().expect("a prefix"), options | LOCAL);
    Protect { net, action: Action::Protect, options, grantors: Vec::new() }
}

/// Both sides; protections are decided about in the same graph where it `is_here`.
pub(super) fn control(domain: &Arc<Domain>, is_here: bool) -> Control {
    let mut control = site::control(domain, [Side::Front, Side::Back]);
    control.handle(&[
        address(1, "10.0.0.1", 24),
        address(1, "2001:db8:1::1", 64),
        address(2, "10.0.2.1", 24),
        address(2, "2001:db8:2::1", 64),
        route("10.0.0.0/24", 1, None),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("10.0.0.0/8", 2, Some("10.0.2.9")),
        route("2001:db8:14::/48", 2, Some("2001:db8:2::9")),
        neighbour(2, "10.0.2.9", GRANTOR, NeighbourState::Reachable),
        neighbour(2, "2001:db8:2::9", GRANTOR, NeighbourState::Reachable),
    ]);
    let simple = |net: &str, action| Protect {
        net: net.parse().expect("a prefix"),
        action,
        options: 0,
        grantors: Vec::new(),
    };
    let protected = |net| if is_here { decided_here(net, 0) } else { protect(net, 0, false) };
    for wanted in [
        protected("10.20.0.0/16"),
        protected("2001:db8:14::/48"),
        simple("10.21.0.0/16", Action::Bypass),
        simple("10.22.0.0/16", Action::Discard),
    ] {
        control.protect(VrfId(0), &wanted).expect("they fit");
    }
    control.commit();
    control
}
