//! Checks a protection, whether the file or the API gives it.

use tables::{Action, LOCAL, Named, Net, Protect};

use nodes::gatekeeper::settings::SHADOW;

use crate::config::net::{is_link_local6, is_of_host};

/// A protection as it is requested.
pub(super) struct Asked {
    pub net: Net,
    pub action: Action,
    pub shadow: bool,
    pub grantors: Vec<Named>,
}

/// The form for the tables, which check the rest. With `here`, a protection that names no Grantor
/// is decided on this machine.
///
/// # Errors
/// The mistake.
pub(super) fn wanted(asked: Asked, here: bool) -> Result<Protect, String> {
    let Asked { net, action, shadow, grantors } = asked;
    if shadow && action != Action::Protect {
        return Err(format!(
            "{net} ({}): only what Grantors decide has a shadow mode",
            action.name()
        ));
    }
    for (at, Named { ip, weight, .. }) in grantors.iter().enumerate() {
        if !is_of_host(*ip) || is_link_local6(*ip) {
            return Err(format!("{net}: the Grantor {ip} is not a single host's routed address"));
        }
        if *weight == 0 {
            return Err(format!("{net}: the Grantor {ip} has no weight"));
        }
        if grantors.iter().take(at).any(|other| other.ip == *ip) {
            return Err(format!("{net}: the Grantor {ip} is named twice"));
        }
    }
    if !shadow && !grantors.is_empty() && grantors.iter().all(|grantor| grantor.shadow) {
        let why = "all its Grantors are in shadow, and forward nothing: name another";
        return Err(format!("{net}: {why}"));
    }
    let is_local = here && action == Action::Protect && grantors.is_empty();
    let options = (u32::from(shadow) * SHADOW) | (u32::from(is_local) * LOCAL);
    Ok(Protect { net, action, options, grantors })
}
