//! Protections and filters as commands write them.

use std::net::IpAddr;

use api::apps::gatekeeper::{Action, Filter, Grantor, Protect, State};

use crate::error::Error;

/// A protection: `via ADDRESS [weight N] [shadow] …`, `bypass`, `drop`, or nothing.
pub(super) fn protect(prefix: String, words: &[String], shadow: bool) -> Result<Protect, Error> {
    let mut protect = Protect { prefix, action: Action::Protect, grantors: Vec::new(), shadow };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(Error::Usage("the last word needs a value"));
        match word {
            "via" => {
                let address = parsed(value()?, "`via` takes the address of a Grantor")?;
                protect.grantors.push(Grantor { address, weight: 1, shadow: false });
            }
            "weight" => {
                let weight = parsed(value()?, WEIGHT)?;
                let Some(last) = protect.grantors.last_mut() else { return Err(BEHIND) };
                if !(1..=256).contains(&weight) {
                    return Err(Error::Usage(WEIGHT));
                }
                last.weight = weight;
            }
            "shadow" => match protect.grantors.last_mut() {
                Some(last) => last.shadow = true,
                None => return Err(BEHIND),
            },
            "bypass" | "drop" if protect.action != Action::Protect => {
                return Err(Error::Usage(PROTECT));
            }
            "bypass" => protect.action = Action::Bypass,
            "drop" => protect.action = Action::Drop,
            _ => return Err(Error::Usage(PROTECT)),
        }
    }
    if !protect.grantors.is_empty() && protect.action != Action::Protect {
        return Err(Error::Usage(PROTECT));
    }
    Ok(protect)
}

/// Which flows; all where there is no word.
pub(super) fn filter(words: &[String]) -> Result<Filter, Error> {
    let mut filter = Filter::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if !["from", "to", "of", "grantor", "state", "program"].contains(&word) {
            return Err(Error::Usage(FILTER));
        }
        let value = words.next().ok_or(Error::Usage("the last word needs a value"))?;
        match word {
            "from" => filter.from = Some(prefix(value)),
            "to" => filter.to = Some(prefix(value)),
            "of" => filter.protection = Some(value.into()),
            "grantor" => filter.grantor = Some(parsed(value, "`grantor` takes an address")?),
            "program" => filter.program = Some(parsed(value, "`program` takes 0 to 255")?),
            "state" => {
                let known = [State::Request, State::Granted, State::Declined, State::Program];
                let state = known.into_iter().find(|state| state.to_string() == value);
                let wrong = Error::Usage("`state` takes request, granted, declined or program");
                filter.state = Some(state.ok_or(wrong)?);
            }
            _ => return Err(Error::Usage(FILTER)),
        }
    }
    Ok(filter)
}

/// An address alone is a host's.
fn prefix(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => format!("{address}/32"),
        Ok(IpAddr::V6(address)) => format!("{address}/128"),
        Err(_) => text.into(),
    }
}

fn parsed<T: std::str::FromStr>(text: &str, what: &'static str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::Usage(what))
}

const PROTECT: &str =
    "expected `via ADDRESS [weight N] [shadow]` for each Grantor, or `bypass`, or `drop`";
const WEIGHT: &str = "`weight` takes 1 to 256";
const BEHIND: Error = Error::Usage("`weight` and `shadow` must follow `via ADDRESS`");
const FILTER: &str =
    "expected `from|to|of PREFIX`, `grantor ADDRESS`, `state STATE` or `program N`";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn protections_are_read() {
        let read = |text: &str| protect("10.0.0.0/8".into(), &words(text), false);
        let plain = read("via 192.0.2.9 via 192.0.2.10 weight 2 shadow").unwrap();
        let grantor = |address: &str, weight, shadow| Grantor {
            address: address.parse().unwrap(),
            weight,
            shadow,
        };
        let wanted = vec![grantor("192.0.2.9", 1, false), grantor("192.0.2.10", 2, true)];
        assert_eq!((plain.action, plain.grantors), (Action::Protect, wanted));
        assert_eq!(read("bypass").unwrap().action, Action::Bypass);
        assert_eq!(read("drop").unwrap().action, Action::Drop);
        // This machine decides, if it can.
        assert_eq!(read("").unwrap().action, Action::Protect);
        for wrong in [
            "via",
            "via p0",
            "weight 2",
            "shadow",
            "via 192.0.2.9 weight 0",
            "via 192.0.2.9 weight 257",
            "via 192.0.2.9 weight",
            "via 192.0.2.9 drop",
            "bypass via 192.0.2.9",
            "bypass drop",
            "drop drop",
            "on",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_are_read() {
        let read = |text: &str| filter(&words(text));
        assert_eq!(read("").unwrap(), Filter::default());
        let all = "from 192.0.2.1 to 2001:db8::1 of 10.0.0.0/8 grantor ::9 state granted \
                   program 7";
        let wanted = Filter {
            from: Some("192.0.2.1/32".into()),
            to: Some("2001:db8::1/128".into()),
            state: Some(State::Granted),
            protection: Some("10.0.0.0/8".into()),
            grantor: Some("::9".parse().unwrap()),
            program: Some(7),
        };
        assert_eq!(read(all).unwrap(), wanted);
        assert_eq!(read("from 10.0.0.0/8").unwrap().from, Some("10.0.0.0/8".into()));
        for wrong in [
            "from",
            "state open",
            "grantor p0",
            "program 256",
            "program web",
            "port 80",
            "to 10.0.0.1 of",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert!(said("foo").contains(FILTER), "{}", said("foo"));
        assert!(said("from").contains("needs a value"));
    }
}
