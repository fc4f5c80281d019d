//! The control thread's tables of a router with one interface, as `converge` and
//! `memory` fill them.

use std::sync::Arc;

use lookup::sync::Domain;
use tables::control::{MAIN_TABLE, VrfConfig};
use tables::event::{Event, Link, LinkId};
use tables::{Control, Family, Iface, Limits};

use super::frames::ROUTER;

/// The number by which [`p0_is_up`] reports the link of `p0`.
pub(super) const P0: LinkId = LinkId(2);

/// The tables of a router with one interface, `p0`.
pub(super) fn control() -> Result<(Control, Arc<Domain>), String> {
    let domain = Domain::new();
    let control = Control::new(&domain, Limits::default(), &VrfConfig::default());
    let mut control = control.map_err(|error| error.to_string())?;
    let iface = Iface { name: "p0".into(), mac: ROUTER, mtu: 1500, ..Iface::default() };
    control.add_iface(iface).map_err(|error| error.to_string())?;
    Ok((control, domain))
}

/// What the kernel says of `p0`; before, no route by it is of use, and none gets
/// into the engine.
pub(super) fn p0_is_up() -> Event {
    let name = "p0".into();
    Event::Link(Link { index: P0, name, up: true, mtu: 1500, mac: ROUTER, ..Link::default() })
}

/// Carries out what is due; true when `routes` routes are in the engine's table.
pub(super) fn is_done(control: &mut Control, routes: usize, family: Family) -> bool {
    control.tick();
    let info = control.vrf_by_table(MAIN_TABLE).and_then(|vrf| control.fib_info(vrf, family));
    info.is_some_and(|info| {
        // Prefixes count what is built in, too: multicast and the like.
        !info.behind && info.routes as usize >= routes && info.prefixes as usize >= routes
    })
}
