//! A Grantor's lines of `rutter doctor`.

use api::Failure;
use policy::cell::{Status, lacks};

use super::Deciding;
use crate::config::Net;
use crate::doctor::{Finding, Level, number};

impl Deciding {
    /// All of them.
    pub(super) fn doctor(&self) -> Result<Vec<Finding>, Failure> {
        let mut all = vec![relay(&self.granting.gatekeepers, &self.granting.serves)];
        if let Some(cells) = self.policies.cells() {
            let status = cells.status()?;
            all.push(policy(&status));
            all.push(shut_in(&status.missing, &lacks()));
        }
        Ok(all)
    }
}

/// Any source that may ask reaches every served network, and chooses its source address freely.
fn relay(gatekeepers: &[Net], serves: &[Net]) -> Finding {
    let what = "who may ask";
    let open =
        |key: &str, nets: &[Net]| nets.iter().any(|net| net.length == 0).then(|| key.to_owned());
    let open: Vec<_> =
        [open("gatekeepers", gatekeepers), open("serves", serves)].into_iter().flatten().collect();
    if open.is_empty() {
        let found = format!(
            "{} of Gatekeepers, {}",
            number(gatekeepers.len() as u64, "prefix", "prefixes"),
            number(serves.len() as u64, "served prefix", "served prefixes")
        );
        return Finding { what, level: Level::Good, found, remedy: String::new() };
    }
    let found = format!("`{}` takes every address: this is an open relay", open.join("`, `"));
    let remedy = "name only the Gatekeepers' prefixes, and those that are served, in [grantor]";
    Finding { what, level: Level::Better, found, remedy: remedy.into() }
}

fn policy(status: &Status) -> Finding {
    let what = "policy";
    let Some(name) = &status.policy else {
        let found = "no policy decides: requests get the verdict of `on_limit`".into();
        let remedy = "rutter grantor policy load FILE".into();
        return Finding { what, level: Level::Error, found, remedy };
    };
    let (level, found, remedy) = match (&status.last_failure, status.failures) {
        (Some(cause), n) if n > 0 => (
            Level::Error,
            format!(
                "{name} failed {} in the last minute: {cause}",
                number(n as u64, "time", "times")
            ),
            "rutter grantor policy rollback, or load another      (rutter grantor policy show)",
        ),
        (Some(cause), _) => (
            Level::Better,
            format!("{name} decides; the latest failure was: {cause}"),
            "correct it and load it again      (rutter grantor policy show, policy test)",
        ),
        (None, _) => (Level::Good, format!("{name} decides"), ""),
    };
    Finding { what, level, found, remedy: remedy.into() }
}

/// What confines a policy's processes.
fn shut_in(missing: &[String], lacks: &[String]) -> Finding {
    let what = "a policy's processes";
    if !lacks.is_empty() {
        let found = format!("the kernel has no {}", lacks.join("; no "));
        let remedy =
            "run a kernel of version 5.1 or later with seccomp filters; without them, none starts"
                .into();
        return Finding { what, level: Level::Error, found, remedy };
    }
    if missing.is_empty() {
        let found = "fully confined: they can use only their rings to the workers".into();
        return Finding { what, level: Level::Good, found, remedy: String::new() };
    }
    let remedy = "run as root; under systemd with share/rutter/rutter-policies.conf";
    let found = missing.join("; ");
    Finding { what, level: Level::Better, found, remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_named() {
        let net = |text: &str| text.parse::<Net>().unwrap_or_else(|_| panic!("{text}"));
        let (some, all) = ([net("10.0.0.0/8")], [net("10.0.0.0/8"), net("::/0")]);
        assert_eq!(relay(&some, &some).level, Level::Good);
        let found = relay(&all, &some);
        assert!(found.level == Level::Better && found.found.contains("`gatekeepers` takes"));
        assert!(relay(&all, &all).found.contains("`gatekeepers`, `serves`"));
    }

    #[test]
    fn a_policy_that_fails_is_named_with_its_cause() {
        let mut status = Status { policy: Some("a.lua".into()), ..Status::default() };
        assert_eq!(policy(&status).level, Level::Good);
        status.last_failure = Some("a.lua:7: no".into());
        assert_eq!(policy(&status).level, Level::Better);
        status.failures = 2;
        let found = policy(&status);
        assert!(found.level == Level::Error && found.found.contains("2 times"), "{found:?}");
        assert!(found.found.contains("a.lua:7: no"));
        assert_eq!(policy(&Status::default()).level, Level::Error);
    }

    #[test]
    fn what_keeps_processes_in_is_named_where_it_is_not_there() {
        let none: &[String] = &[];
        assert_eq!(shut_in(none, none).level, Level::Good);
        assert_eq!(shut_in(&["no root of its own".into()], none).level, Level::Better);
        assert_eq!(shut_in(none, &["seccomp".into()]).level, Level::Error);
    }
}
