//! `[span.NAME]`, and the checks of a mirror, whether the file or the API gives it.

use std::fmt::Display;

use api::apps::span::{Direction, Span, Target};
use nodes::span::MOST;

use super::keys;
use crate::config::read::named;
use crate::config::reader::{Table, Value};
use crate::config::section::only;
use crate::config::{Config, Declared};

/// The mirrors' settings from the file.
pub(super) const DECLARED: Declared = Declared { sections: keys::SECTIONS, carriers: &[], read };

/// The mirrors of a configuration, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spans(pub Vec<Span>);

fn read(table: Table<'_>, config: &mut Config) {
    let names: Vec<_> = config.ports.iter().map(|port| port.name.clone()).collect();
    let mut all: Vec<Span> = Vec::new();
    named(table, "span", |name, value, table| {
        only(table, &keys::SECTIONS[..1], &[keys::FILE.name]);
        let span = span(name, value, table)?;
        let many = || Some(format!("there are {MOST} spans already")).filter(|_| all.len() >= MOST);
        match objection(&span, &names, &all).or_else(many) {
            Some(objection) => value.mistake(objection),
            None => {
                all.push(span);
                Some(())
            }
        }
    });
    config.settings.put(Spans(all));
}

fn span(name: &str, value: &Value<'_>, table: Table<'_>) -> Option<Span> {
    let ports = keys::PORTS.required(table)?.list()?;
    let ports = ports.iter().map(|port| port.parse("the name of a port"));
    let text = |value: Value<'_>, what: &str| value.parse::<String>(what);
    let to = match (keys::PORT.get(table), keys::FILE.get(table)) {
        (Some(port), None) => Target::Port(text(port, "the name of a port")?),
        (None, Some(file)) => Target::File(text(file, "the name of a file")?),
        _ => return value.mistake("expected either `port` or `file`: where copies go"),
    };
    let vlans = keys::VLANS.get(table).and_then(|value| value.list()).unwrap_or_default();
    let vlans = vlans.iter().map(|vlan| vlan.number(1..=4094).map(|vlan| vlan as u16));
    let filter = match keys::FILTER.get(table) {
        None => String::new(),
        Some(value) => {
            let filter = value.parse::<String>("a filter, such as \"tcp port 80\"")?;
            if let Err(error) = api::filter::text::parse(std::slice::from_ref(&filter)) {
                return value.mistake(error);
            }
            filter
        }
    };
    Some(Span {
        name: name.into(),
        ports: ports.collect::<Option<_>>()?,
        direction: keys::DIRECTION.as_word(table, [Direction::In, Direction::Out, Direction::Both]),
        to,
        vlans: vlans.collect::<Option<_>>()?,
        filter,
        one_in: keys::ONE_IN.as_number(table) as u32,
    })
}

/// Why a mirror is refused beside `others`, given these ports.
pub(super) fn objection(span: &Span, names: &[String], others: &[Span]) -> Option<String> {
    let fits = |c: char| c.is_ascii_graphic();
    if span.name.is_empty() || span.name.len() > 32 || !span.name.chars().all(fits) {
        return Some("the name of a span has 1 to 32 letters, digits and signs".into());
    }
    if others.iter().any(|other| other.name == span.name) {
        return Some(format!("there is a span `{}` already", span.name));
    }
    let unknown = |name: &dyn Display| {
        Some(format!("no port is called `{name}`; there are: {}", names.join(", ")))
    };
    if let Some(port) = span.ports.iter().find(|port| !names.contains(port)) {
        return unknown(port);
    }
    if span.ports.is_empty() {
        return Some("expected at least one port to copy from".into());
    }
    if span.one_in == 0 || span.vlans.iter().any(|vlan| !(1..=4094).contains(vlan)) {
        return Some("expected VLANs from 1 to 4094, and one in 1 or more".into());
    }
    match &span.to {
        Target::Port(port) if !names.contains(port) => unknown(port),
        Target::Port(port) if span.ports.contains(port) => {
            Some(format!("`{port}` would get copies of its own frames"))
        }
        Target::File(file) if others.iter().any(|other| is_file(&other.to, file)) => {
            Some(format!("another span writes `{file}`"))
        }
        _ => None,
    }
}

/// Whether copies go to `file`, as far as names show it; the files themselves are compared when
/// they are opened.
fn is_file(to: &Target, file: &str) -> bool {
    let Target::File(other) = to else { return false };
    let plain = |path: &str| std::path::absolute(path).unwrap_or_else(|_| path.into());
    plain(other) == plain(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = "[ports.p0]\ndevice = \"mem\"\n[ports.p1]\ndevice = \"mem\"\n";

    fn read(span: &str) -> Result<Vec<Span>, String> {
        let config = Config::parse("t", &format!("{PORTS}{span}"));
        let config = config.map_err(|mistakes| mistakes.to_string())?;
        Ok(config.settings.get::<Spans>().expect("read").0.clone())
    }

    #[test]
    fn a_span_is_read() {
        let text = "[span.a]\nports = [\"p0\"]\ndirection = \"in\"\nport = \"p1\"\nvlans = [7]\n\
                    filter = \"udp\"\none_in = 9\n";
        let want = Span {
            name: "a".into(),
            ports: vec!["p0".into()],
            direction: Direction::In,
            to: Target::Port("p1".into()),
            vlans: vec![7],
            filter: "udp".into(),
            one_in: 9,
        };
        assert_eq!(read(text), Ok(vec![want]));
        let plain = read("[span.b]\nports = [\"p0\", \"p1\"]\nfile = \"x.pcap\"\n").unwrap();
        assert_eq!((plain[0].direction, plain[0].one_in), (Direction::Both, 1));
    }

    #[test]
    fn mistakes_about_spans_have_their_place() {
        for (keys, wanted) in [
            ("", "t:5:1: span.a: `ports` is missing"),
            ("ports = [\"p9\"]\nport = \"p1\"\n", "no port is called `p9`; there are: p0, p1"),
            ("ports = []\nport = \"p1\"\n", "at least one port"),
            ("ports = [\"p0\"]\n", "either `port` or `file`"),
            ("ports = [\"p0\"]\nport = \"p1\"\nfile = \"x\"\n", "either `port` or `file`"),
            ("ports = [\"p0\"]\nport = \"p0\"\n", "copies of its own frames"),
            ("ports = [\"p0\"]\nport = \"p1\"\nvlans = [0]\n", "t:8:10: span.a.vlans[0]: expected"),
            (
                "ports = [\"p0\"]\nport = \"p1\"\nfilter = \"tcp (\"\n",
                "t:8:10: span.a.filter: filter:",
            ),
            ("ports = [\"p0\"]\nport = \"p1\"\none_in = 0\n", "a whole number from 1"),
            ("ports = [\"p0\"]\nport = \"p1\"\nonein = 1\n", "did you mean `one_in`?"),
            (
                "ports = [\"p0\"]\nfile = \"f\"\n[span.b]\nports = [\"p1\"]\nfile = \"f\"\n",
                "another span writes",
            ),
            (
                "ports = [\"p0\"]\nfile = \"f\"\n[span.b]\nports = [\"p1\"]\nfile = \"./f\"\n",
                "another span writes",
            ),
        ] {
            let said = read(&format!("[span.a]\n{keys}")).unwrap_err();
            assert!(said.contains(wanted), "{keys}: {said}");
        }
    }
}
