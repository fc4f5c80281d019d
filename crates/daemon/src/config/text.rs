//! The text of a configuration, and the places of its values.

use std::fmt::Display;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::mistake::Mistake;

/// The text of a configuration and the name of its file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Text {
    /// As given by the user.
    pub file: String,
    /// Its contents.
    pub text: String,
}

impl Text {
    /// A mistake about the value at `path`, where each step is the key of a table or the index in a
    /// list: `["ports", "p0", "mtu"]`. It points at the innermost part of the path that exists; if
    /// no part exists, the mistake has no place.
    pub fn mistake(&self, path: &[&str], what: impl Display) -> Mistake {
        let (name, span) = self.find(path);
        let text = format!("{name}: {what}");
        match span {
            Some(span) => Mistake::at(&self.file, &self.text, span, text),
            None => Mistake { file: self.file.clone(), line: 0, column: 0, text },
        }
    }

    /// The path in its usual notation, `workers[1]`, and the place of its value.
    fn find(&self, path: &[&str]) -> (String, Option<Range<usize>>) {
        let (root, _) = DeTable::parse_recoverable(&self.text);
        let root = DeValue::Table(root.into_inner());
        let (mut name, mut span, mut at) = (String::new(), None, Some(&root));
        for step in path {
            let is_list = at.is_some_and(|value| value.is_array());
            let next = at.and_then(|value| match value {
                DeValue::Table(table) => table.get(*step),
                DeValue::Array(list) => list.get(step.parse::<usize>().ok()?),
                _ => None,
            });
            if is_list {
                name.push_str(&format!("[{step}]"));
            } else {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(step);
            }
            span = next.map(|value| value.span()).or(span);
            at = next.map(|value| value.get_ref());
        }
        (name, span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, path: &[&str]) -> String {
        let text = Text { file: "f".into(), text: text.into() };
        text.mistake(path, "wrong").to_string()
    }

    #[test]
    fn a_value_is_found_however_it_is_written() {
        let path = ["ports", "p0", "device"];
        for (text, line, column) in [
            ("[ports.p0]\ndevice = \"x\"", 2, 10),
            ("a = 1\n[ports]\n  p0 = { mtu = 9, device = \"x\" }", 3, 28),
            ("ports.p0.device = \"x\"", 1, 19),
            ("[ports]\np0.mtu = 9\n\tp0 . \"device\"=\"x\"", 3, 16),
            ("# device = 1\r\n[ ports . 'p0' ]\r\n  device  =  \"x\"", 3, 14),
            ("[[ports]]\n[ports.p1]\ndevice = 1", 1, 1),
        ] {
            let want = format!("f:{line}:{column}: ports");
            assert!(place(text, &path).starts_with(&want), "{text}: {}", place(text, &path));
        }
    }

    #[test]
    fn an_element_of_a_list_has_its_place() {
        let text = "workers = [\n  0,\n  7,\n]\n";
        assert_eq!(place(text, &["workers", "1"]), "f:3:3: workers[1]: wrong");
        assert_eq!(place(text, &["workers", "2"]), "f:1:11: workers[2]: wrong");
        let text = "[ports.p0.vlan.\"7.8\"]\naddresses = [\"10.0.0.1/8\"]";
        let path = ["ports", "p0", "vlan", "7.8", "addresses", "0"];
        assert_eq!(place(text, &path), "f:2:14: ports.p0.vlan.7.8.addresses[0]: wrong");
    }

    #[test]
    fn what_is_not_there_has_the_place_around_it_or_none() {
        let text = "\n[ports.p0]\nmtu = 9\n";
        assert_eq!(place(text, &["ports", "p0", "device"]), "f:2:1: ports.p0.device: wrong");
        assert_eq!(place(text, &["workers", "0"]), "f: workers.0: wrong");
    }
}
