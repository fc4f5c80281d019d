//! The text of a filter, a subset of pcap's language:
//!
//! ```text
//!  filter   = and ("or" and)*                     or, ||
//!  and      = not ("and"? not)*                   and, &&; neighbours are joined by "and"
//!  not      = ("not" | "!") not | "(" filter ")" | test
//!  test     = [src|dst] ["host"] ADDRESS
//!           | [src|dst] "net" PREFIX | [src|dst] PREFIX
//!           | [tcp|udp] [src|dst] "port" PORT[-PORT]
//!           | "proto" NAME|NUMBER | "vlan" [ID]
//!           | ip | ip6 | arp | tcp | udp | icmp | icmp6 | sctp | esp | ah | gre | ospf | vrrp
//! ```

use std::net::IpAddr;

use super::{Filter, Side};

/// Why a text is no filter, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("filter: {what}{}", place(.word))]
pub struct BadFilter {
    /// What was expected.
    pub what: &'static str,
    /// The word at which reading stopped; `None` at the end.
    pub word: Option<String>,
}

fn place(word: &Option<String>) -> String {
    word.as_ref().map_or(" at its end".into(), |word| format!(" at `{word}`"))
}

/// Reads the words of a command line as one filter; `None` where there are none.
///
/// # Errors
/// What was expected, and at which word.
pub fn parse(words: &[String]) -> Result<Option<Filter>, BadFilter> {
    let text = words.join(" ");
    let spaced = ["(", ")", "!", "&&", "||"]
        .iter()
        .fold(text, |text, sign| text.replace(sign, &format!(" {sign} ")));
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if words.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser { words: &words, depth: 0 };
    let filter = parser.any()?;
    match parser.words.first() {
        None => Ok(Some(filter)),
        Some(_) => parser.fail("expected `and`, `or` or the end"),
    }
}

struct Parser<'w> {
    words: &'w [&'w str],
    depth: usize,
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Filter, BadFilter> {
        let mut all = vec![self.all()?];
        while self.eat(&["or", "||"]) {
            all.push(self.all()?);
        }
        Ok(one_or(all, Filter::Or))
    }

    fn all(&mut self) -> Result<Filter, BadFilter> {
        let mut all = vec![self.not()?];
        loop {
            let joined = self.eat(&["and", "&&"]);
            let ends = matches!(self.words.first(), None | Some(&(")" | "or" | "||")));
            if !joined && ends {
                return Ok(one_or(all, Filter::And));
            }
            all.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Filter, BadFilter> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.fail("nested too deep");
        }
        let filter = if self.eat(&["not", "!"]) {
            Ok(Filter::Not(Box::new(self.not()?)))
        } else if self.eat(&["("]) {
            let inner = self.any()?;
            if !self.eat(&[")"]) {
                return self.fail("expected `)`");
            }
            Ok(inner)
        } else {
            self.test()
        };
        self.depth -= 1;
        filter
    }

    fn test(&mut self) -> Result<Filter, BadFilter> {
        if self.eat(&["vlan"]) {
            let id = self.words.first().and_then(|word| word.parse().ok()).filter(|id| *id < 4096);
            let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
            if id.is_none() && self.words.first().is_some_and(is_number) {
                return self.fail("expected a VLAN, 0 to 4095, or none");
            }
            self.words = if id.is_some() { &self.words[1..] } else { self.words };
            return Ok(Filter::Vlan(id));
        }
        if self.eat(&["proto"]) {
            let number = self.words.first().and_then(|word| protocol(word));
            let filter = number.map(Filter::Proto);
            return self.took(filter, "expected a protocol's name or number");
        }
        let word = self.words.first().copied().unwrap_or_default();
        if let Some((_, ether)) = ETHER_TYPES.iter().find(|(name, _)| *name == word) {
            self.words = &self.words[1..];
            return Ok(Filter::Ether(*ether));
        }
        let transport = protocol(word).filter(|_| !word.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(number) = transport {
            self.words = &self.words[1..];
            let port = matches!(self.words, ["port", ..] | ["src" | "dst", "port", ..]);
            let proto = Filter::Proto(number);
            return if port { Ok(Filter::And(vec![proto, self.sided()?])) } else { Ok(proto) };
        }
        self.sided()
    }

    /// A test with a side: host, net, port.
    fn sided(&mut self) -> Result<Filter, BadFilter> {
        let side = if self.eat(&["src"]) {
            Side::Source
        } else if self.eat(&["dst"]) {
            Side::Destination
        } else {
            Side::Any
        };
        if self.eat(&["port"]) {
            let ports = self.words.first().and_then(|word| ports(word));
            let filter = ports.map(|(first, last)| Filter::Port { side, first, last });
            return self.took(filter, "expected a port, or two as 1000-2000");
        }
        let named = self.eat(&["host", "net"]);
        if self.words.first().is_some_and(|word| has_host_bits(word)) {
            return self.fail("expected a prefix without bits behind its length");
        }
        let found = self.words.first().and_then(|word| address(word));
        let filter = found.map(|(address, length)| match length {
            None => Filter::Host { side, address },
            Some(length) => Filter::Net { side, address, length },
        });
        let expected = if named {
            "expected an address or a prefix"
        } else {
            "expected host, net, port, proto, vlan, a protocol, an address or a prefix"
        };
        self.took(filter, expected)
    }

    /// Goes on after the word that gave `filter`.
    fn took(
        &mut self,
        filter: Option<Filter>,
        expected: &'static str,
    ) -> Result<Filter, BadFilter> {
        match filter {
            Some(filter) => {
                self.words = &self.words[1..];
                Ok(filter)
            }
            None => self.fail(expected),
        }
    }

    fn eat(&mut self, words: &[&str]) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if words.contains(first) => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, BadFilter> {
        Err(BadFilter { what, word: self.words.first().map(|word| word.to_string()) })
    }
}

fn one_or(mut all: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match all.len() {
        1 => all.remove(0), // cannot panic: there is one
        _ => join(all),
    }
}

fn protocol(word: &str) -> Option<u8> {
    let known = PROTOCOLS.iter().find(|(name, _)| *name == word);
    known.map(|(_, number)| *number).or_else(|| word.parse().ok())
}

fn ports(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn address(word: &str) -> Option<(IpAddr, Option<u8>)> {
    let Some((address, length)) = word.split_once('/') else {
        return Some((word.parse().ok()?, None));
    };
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, Some(length)))
}

/// A prefix that is none: as elsewhere, what was meant is not guessed.
fn has_host_bits(word: &str) -> bool {
    match address(word) {
        Some((IpAddr::V4(address), Some(length))) => {
            address.to_bits() & u32::MAX.checked_shr(length.into()).unwrap_or(0) != 0
        }
        Some((IpAddr::V6(address), Some(length))) => {
            address.to_bits() & u128::MAX.checked_shr(length.into()).unwrap_or(0) != 0
        }
        _ => false,
    }
}

const DEEPEST: usize = 32;

const ETHER_TYPES: &[(&str, u16)] = &[("ip", 0x0800), ("ip6", 0x86dd), ("arp", 0x0806)];

const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<Filter>, BadFilter> {
        parse(&[text.to_string()])
    }

    fn host(side: Side, address: &str) -> Filter {
        Filter::Host { side, address: address.parse().unwrap() }
    }

    #[test]
    fn the_tests_of_the_language() {
        let net = |side, address: &str, length| Filter::Net {
            side,
            address: address.parse().unwrap(),
            length,
        };
        let port = |side, first, last| Filter::Port { side, first, last };
        let table = [
            ("host 10.0.0.1", host(Side::Any, "10.0.0.1")),
            ("src ::1", host(Side::Source, "::1")),
            ("dst net 10.0.0.0/8", net(Side::Destination, "10.0.0.0", 8)),
            ("port 53", port(Side::Any, 53, 53)),
            ("dst port 1000-2000", port(Side::Destination, 1000, 2000)),
            ("tcp src port 80", Filter::And(vec![Filter::Proto(6), port(Side::Source, 80, 80)])),
            ("proto 89", Filter::Proto(89)),
            ("icmp6", Filter::Proto(58)),
            ("arp", Filter::Ether(0x0806)),
            ("vlan", Filter::Vlan(None)),
            ("vlan 7", Filter::Vlan(Some(7))),
        ];
        for (text, filter) in table {
            assert_eq!(read(text), Ok(Some(filter)), "{text}");
        }
        assert_eq!(read("  "), Ok(None));
    }

    #[test]
    fn and_binds_tighter_than_or() {
        let (a, b) = (host(Side::Any, "1.1.1.1"), host(Side::Any, "2.2.2.2"));
        let not = Filter::Not(Box::new(Filter::Proto(6)));
        let or = Filter::Or(vec![Filter::And(vec![a.clone(), not]), b.clone()]);
        assert_eq!(read("1.1.1.1 and not tcp or 2.2.2.2"), Ok(Some(or.clone())));
        assert_eq!(read("1.1.1.1 !tcp || 2.2.2.2"), Ok(Some(or)));
        let and = Filter::And(vec![Filter::Or(vec![a, b]), Filter::Proto(17)]);
        assert_eq!(read("(1.1.1.1 or 2.2.2.2) udp"), Ok(Some(and)));
    }

    #[test]
    fn mistakes_name_the_word() {
        for (text, word) in [
            ("host", None),
            ("host x", Some("x")),
            ("(tcp", None),
            ("tcp )", Some(")")),
            ("port 70000", Some("70000")),
            ("net 10.0.0.0/33", Some("10.0.0.0/33")),
            ("net 10.0.0.1/31", Some("10.0.0.1/31")),
            ("tcp dst 2001:db8::1/64", Some("2001:db8::1/64")),
            ("::1/0", Some("::1/0")),
            ("tcp and", None),
            ("or", Some("or")),
            ("vlan 4096", Some("4096")),
        ] {
            assert_eq!(read(text).unwrap_err().word.as_deref(), word, "{text}");
        }
        assert!(read("vlan 4096").unwrap_err().to_string().contains("a VLAN"));
        assert!(read(&"(".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn any_words_are_a_filter_or_a_mistake(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("and"), Just("or"), Just("not"), Just("("), Just(")"), Just("host"),
                    Just("1.2.3.4"), Just("net"), Just("::/0"), Just("src"), Just("port"),
                    Just("5"), Just("tcp"), Just("vlan"), Just("proto"), Just("x"),
                ],
                0..12,
            )
        ) {
            let _ = read(&words.join(" "));
        }
    }
}
