//! The shield's lines of `rutter doctor`.

use api::Failure;
use nodes::gatekeeper::settings::{DecisionsFrom, SHADOW};
use tables::show::{IfaceInfo, ProtectionInfo, RouteFilter};
use tables::{Action, Family, LOCAL, Side};

use super::live::{PAGE, VRF, too_long};
use super::{Guarding, show};
use crate::doctor::{Finding, Level, number};
use crate::parts::state::{State, lock};

/// The facts about protections that doctor needs.
#[derive(Default)]
struct Protected {
    /// There are some, by family.
    families: [bool; 2],
    /// Those that are decided here.
    here: u64,
    /// Shadows that ask nobody, the first of them by name.
    mute: (u64, String),
}

/// All findings.
pub(super) fn all(guarding: &Guarding, state: &State) -> Result<Vec<Finding>, Failure> {
    let (interfaces, grantors, protected) = state.ask(|control| {
        let mut protected = Protected::default();
        let mut cursor = None;
        loop {
            let filter = RouteFilter { vrf: Some(VRF), ..RouteFilter::default() };
            let (page, next) = control.protections(&filter, cursor, PAGE);
            page.iter().for_each(|info| protected.note(info));
            cursor = next;
            if cursor.is_none() {
                return (control.interfaces(), control.grantors(), protected);
            }
        }
    })?;
    let mut all = vec![mtu(guarding, &interfaces, &protected, too_long(guarding, state))];
    all.extend(messages(guarding, &interfaces, &protected));
    all.extend(neither(&interfaces));
    all.extend(no_source(guarding, &protected));
    all.extend(decisions_from(guarding.shield.decisions_from));
    all.extend(foreign_source(guarding, &interfaces));
    all.extend(deleted(guarding));
    if let Some(each) = guarding.shield.here.filter(|_| protected.here > 0) {
        let found = format!(
            "the policy of [grantor] decides for {}, {each} requests a second",
            number(protected.here, "protection", "protections")
        );
        all.push(good("decisions here", found));
    }
    let faults = grantors.iter().filter_map(|of| Some((of.ip, of.ways.as_ref().err()?)));
    let faults: Vec<_> = faults.map(|(ip, fault)| format!("{ip} ({fault})")).collect();
    all.push(match faults.as_slice() {
        [] if grantors.is_empty() && protected.here > 0 => good("Grantors", "none".into()),
        [] => good("Grantors", format!("{}, all reachable", grantors.len())),
        faults => Finding {
            what: "Grantors",
            level: Level::Missing,
            found: format!("{} cannot be reached: {}", faults.len(), some(faults)),
            remedy: "give each a route through an interface of `back` that is up".into(),
        },
    });
    if protected.mute.0 > 0 {
        let (count, first) = &protected.mute;
        all.push(mute(*count, first));
    }
    Ok(all)
}

impl Protected {
    fn note(&mut self, info: &ProtectionInfo) {
        if info.action != Action::Protect {
            return;
        }
        if info.options & LOCAL != 0 {
            self.here += 1;
            return;
        }
        self.families[usize::from(info.net.family() == Family::V6)] = true;
        let asks = info.grantors.iter().any(|(named, _)| named.shadow);
        if info.options & SHADOW != 0 && !asks {
            if self.mute.0 == 0 {
                self.mute.1 = info.net.to_string();
            }
            self.mute.0 += 1;
        }
    }
}

/// The protections in shadow of which `first` is one.
fn mute(count: u64, first: &str) -> Finding {
    let (ask, each) = if count == 1 { ("asks", "it") } else { ("ask", "each") };
    Finding {
        what: "shadow",
        level: Level::Better,
        found: format!(
            "{first}{} {ask} no Grantor in shadow: the effects of flow table, priorities and \
             request channel are counted, but there are no decisions",
            more(count)
        ),
        remedy: format!(
            "give {each} a Grantor with `shadow = true`, which decides and forwards nothing"
        ),
    }
}

/// A packet as long as the front takes has to fit at the back with the outer header.
fn mtu(
    guarding: &Guarding,
    interfaces: &[IfaceInfo],
    protected: &Protected,
    lost: [u64; 2],
) -> Finding {
    let what = "room for the outer header";
    // Not those that only share a port with the front: nobody is to come by them.
    let front = on(interfaces, &guarding.shield.front);
    let longest = front.map(|info| info.iface.mtu).max().unwrap_or(0);
    let [v4, v6] = protected.families;
    let header = if v6 {
        40
    } else if v4 {
        20
    } else {
        0
    };
    let wanted = longest.saturating_add(header);
    let short = shorter(guarding, interfaces, wanted);
    let lost = too_long_so_far(lost);
    if short.is_empty() && lost.is_empty() {
        return good(what, format!("{wanted} bytes fit at the back"));
    }
    let found = match short.is_empty() {
        true => format!(
            "{wanted} bytes fit the interfaces of the back, but not the whole way to the \
             Grantors{lost}"
        ),
        false => format!(
            "packets of {longest} bytes and {header} more do not fit the mtu of {}{lost}",
            short.join(", ")
        ),
    };
    Finding {
        what,
        level: Level::Missing,
        found,
        remedy: format!(
            "set mtu = {wanted} there, and on the way to the Grantors; else the sources of longer \
             packets get \"too big\" errors"
        ),
    }
}

/// Here, and behind the back: a clause for each.
fn too_long_so_far(lost: [u64; 2]) -> String {
    let ends = ["too long so far", "too long for routers behind the back so far"];
    let clauses = lost.into_iter().zip(ends).filter(|(lost, _)| *lost > 0);
    let clause = |(lost, end)| format!("; {} {end}", number(lost, "packet was", "packets were"));
    clauses.map(clause).collect()
}

/// Deployed Grantors fill a buffer with decisions, whatever the way to the Gatekeeper takes.
fn messages(
    guarding: &Guarding,
    interfaces: &[IfaceInfo],
    protected: &Protected,
) -> Option<Finding> {
    let short = shorter(guarding, interfaces, LONGEST_MESSAGE);
    (protected.families != [false; 2] && !short.is_empty()).then(|| Finding {
        what: "messages of Grantors",
        level: Level::Better,
        found: format!(
            "a deployed Grantor sends up to {LONGEST_MESSAGE} bytes of decisions that must not be \
             fragmented, more than the mtu of {}",
            short.join(", ")
        ),
        remedy: format!(
            "set mtu = {LONGEST_MESSAGE} there, and on the way from such Grantors; Rutter's own \
             send no more than the mtu of their way"
        ),
    })
}

/// Those of the back whose MTU is less than that.
fn shorter(guarding: &Guarding, interfaces: &[IfaceInfo], mtu: u16) -> Vec<String> {
    let back = on(interfaces, &guarding.shield.back).filter(|info| info.iface.mtu < mtu);
    back.map(|info| format!("{} ({})", info.iface.name, info.iface.mtu)).collect()
}

/// The interfaces with these names.
fn on<'i>(all: &'i [IfaceInfo], names: &[String]) -> impl Iterator<Item = &'i IfaceInfo> {
    all.iter().filter(move |info| names.contains(&info.iface.name))
}

/// What comes in there goes by the routes, protected or not.
fn neither(interfaces: &[IfaceInfo]) -> Option<Finding> {
    let out = interfaces.iter().filter(|info| info.iface.side == Side::Neither);
    let out = out.filter(|info| info.iface.vrf == VRF).map(|info| info.iface.name.clone());
    let out: Vec<_> = out.collect();
    let (are, each) = if out.len() == 1 { ("is", "it") } else { ("are", "each") };
    (!out.is_empty()).then(|| Finding {
        what: "sides",
        level: Level::Missing,
        found: format!(
            "{} {are} on neither side: packets from there reach protected prefixes by their \
             routes, without a decision",
            some(&out)
        ),
        remedy: format!(
            "name {each} in `front` or `back` of [gatekeeper], or put {each} into another vrf"
        ),
    })
}

fn no_source(guarding: &Guarding, protected: &Protected) -> Option<Finding> {
    let told = lock(&guarding.told);
    let lacks = [told.from.v4.is_none(), told.from.v6.is_none()];
    let both = protected.families.into_iter().zip(lacks).zip(["IPv4", "IPv6"]);
    let lacking = both.filter(|((needs, lacks), _)| *needs && *lacks).map(|(_, name)| name);
    let lacking: Vec<_> = lacking.collect();
    (!lacking.is_empty()).then(|| Finding {
        what: "addresses at the back",
        level: Level::Missing,
        found: format!(
            "no {} address to ask Grantors from: all packets that need one are dropped",
            lacking.join(" and no ")
        ),
        remedy: "give an interface of `back` an address, or name one in `from`".into(),
    })
}

/// Grantors send their decisions to nobody.
fn foreign_source(guarding: &Guarding, interfaces: &[IfaceInfo]) -> Option<Finding> {
    let has = |ip| interfaces.iter().flat_map(|info| &info.addresses).any(|(own, _)| *own == ip);
    let foreign = guarding.shield.from.into_iter().flatten().filter(|ip| !has(*ip));
    let foreign: Vec<_> = foreign.map(|ip| ip.to_string()).collect();
    (!foreign.is_empty()).then(|| Finding {
        what: "from",
        level: Level::Missing,
        found: format!(
            "no interface has {}: Grantors cannot reach this machine there",
            foreign.join(", ")
        ),
        remedy: "set `from` to an address of an interface of `back`, or leave it out".into(),
    })
}

/// Somebody else takes away what the shield has in the kernel.
fn deleted(guarding: &Guarding) -> Option<Finding> {
    let live = lock(&guarding.live);
    let (level, found) = match (&live.not_put_back, live.put_back) {
        (Some(why), _) => {
            (Level::Error, format!("its rules and routes could not be restored: {why}"))
        }
        (None, 0) => return None,
        (None, count) => {
            let (one, several) =
                ("rule or route of the shield was", "rules and routes of the shield were");
            let what = "deleted by somebody else, and put back";
            (Level::Missing, format!("{} {what}", number(count as u64, one, several)))
        }
    };
    let remedy = "find the program that deletes them: systemd-networkd does, unless networkd.conf \
                  has ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no";
    Some(Finding { what: "the shield in the kernel", level, found, remedy: remedy.into() })
}

fn decisions_from(from: DecisionsFrom) -> Option<Finding> {
    let who = match from {
        DecisionsFrom::ItsGrantors => return None,
        DecisionsFrom::Grantors => "Grantors of other protections can open",
        DecisionsFrom::Anybody => "whoever can send to an interface of `back` can open",
    };
    Some(Finding {
        what: "decisions",
        level: Level::Better,
        found: format!("decisions_from = \"{}\": {who} the shield", show::decisions_from(from)),
        remedy: "decisions_from = \"its_grantors\"".into(),
    })
}

fn good(what: &'static str, found: String) -> Finding {
    Finding { what, level: Level::Good, found, remedy: String::new() }
}

/// The first few of a list.
fn some(list: &[String]) -> String {
    let shown = list.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    shown + &more((list.len().saturating_sub(MOST) + 1) as u64)
}

/// What is not said.
fn more(count: u64) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

const MOST: usize = 8;
/// The MTU at the back of the deployed system, and the buffer of a message there.
const LONGEST_MESSAGE: u16 = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_several_are_plural() {
        let found = |count| mute(count, "10.0.0.0/8").found;
        assert!(found(1).starts_with("10.0.0.0/8 asks no Grantor"));
        assert!(found(3).starts_with("10.0.0.0/8 and 2 more ask no Grantor"));
    }

    #[test]
    fn what_was_too_long_is_counted_here_and_behind_the_back() {
        let beyond = "too long for routers behind the back so far";
        for (lost, said) in [
            ([0, 0], String::new()),
            ([1, 0], "; 1 packet was too long so far".into()),
            ([0, 2], format!("; 2 packets were {beyond}")),
            ([3, 1], format!("; 3 packets were too long so far; 1 packet was {beyond}")),
        ] {
            assert_eq!(too_long_so_far(lost), said);
        }
    }

    #[test]
    fn each_option_that_widens_who_decides_is_named() {
        assert_eq!(decisions_from(DecisionsFrom::ItsGrantors), None);
        for (from, wanted) in [
            (DecisionsFrom::Grantors, "\"grantors\": Grantors of other protections"),
            (DecisionsFrom::Anybody, "\"anybody\": whoever can send to an interface of `back`"),
        ] {
            let finding = decisions_from(from).unwrap();
            assert!(finding.found.contains(wanted), "{finding:?}");
            assert_eq!((finding.what, finding.level), ("decisions", Level::Better));
        }
    }
}
