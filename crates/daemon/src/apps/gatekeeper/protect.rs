//! What is right for a protection, however it came.

use tables::{Action, Named, Net, Protect};

use nodes::gatekeeper::settings::SHADOW;

/// A protection as it is asked for.
pub(super) struct Asked {
    pub net: Net,
    pub action: Action,
    pub shadow: bool,
    pub grantors: Vec<Named>,
}

/// As the tables take it, which look at the rest.
///
/// # Errors
/// What is wrong.
pub(super) fn wanted(asked: Asked) -> Result<Protect, String> {
    let Asked { net, action, shadow, grantors } = asked;
    if shadow && action != Action::Protect {
        return Err(format!("{net} ({}): only what Grantors decide has a shadow", action.name()));
    }
    if !shadow && !grantors.is_empty() && grantors.iter().all(|grantor| grantor.shadow) {
        return Err(format!("{net}: a Grantor in shadow forwards nothing, and there is no other"));
    }
    Ok(Protect { net, action, options: if shadow { SHADOW } else { 0 }, grantors })
}
