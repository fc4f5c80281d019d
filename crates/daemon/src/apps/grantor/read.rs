//! From `[grantor]` to values that need no further check.

use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{Ecn, Settings};
use wire::ggu::Ports;

use super::keys;
use super::words::{WORDS, Words};
use crate::config::reader::Table;
use crate::config::section::{Key, only};
use crate::config::{Config, Declared, Net, read::share_of_buffers};

/// What a Grantor has in the file.
pub(super) const DECLARED: Declared = Declared { sections: keys::SECTIONS, carriers: &[], read };

/// `[grantor]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granting {
    pub gatekeepers: Vec<Net>,
    pub serves: Vec<Net>,
    pub policy: Words,
    /// Packets that may wait, of each worker.
    pub waiting: usize,
    pub asked: usize,
    pub question: usize,
    pub limit_ms: u32,
    pub on_limit: Words,
    pub on_full: Words,
    pub ecn: Ecn,
    pub shadow: bool,
    pub ports: Ports,
}

impl Granting {
    /// That of a configuration, if it has one.
    pub fn of(config: &Config) -> Option<&Granting> {
        config.settings.get()
    }

    /// As the nodes have it.
    pub fn settings(&self) -> Settings {
        let nets = |all: &[Net]| Nets::new(all.iter().map(|net| (net.address, net.length)));
        Settings {
            gatekeepers: nets(&self.gatekeepers),
            serves: nets(&self.serves),
            ports: self.ports,
            ecn: self.ecn,
            shadow: self.shadow,
            question: self.question,
            limit_ms: self.limit_ms,
            on_limit: self.on_limit.0,
            on_full: self.on_full.0,
            asked: self.asked,
        }
    }
}

fn read(root: Table<'_>, config: &mut Config) {
    let Some(value) = root.get(keys::SECTIONS[0].path) else { return };
    let Some(table) = value.table() else { return };
    only(table, keys::SECTIONS, &[]);
    let [gatekeepers, serves] = [keys::GATEKEEPERS, keys::SERVES].map(|key| nets(table, &key));
    let policy = keys::POLICY.required(table).and_then(|value| value.parse::<Words>(WORDS));
    let [on_limit, on_full] = [keys::ON_LIMIT, keys::ON_FULL].map(|key| {
        let words = key.get(table).and_then(|value| value.parse::<Words>(WORDS));
        words.unwrap_or_default()
    });
    let waiting = share_of_buffers(table, &keys::WAITING, "packets that wait", config);
    config.settings.put(Granting {
        gatekeepers,
        serves,
        policy: policy.unwrap_or_default(),
        waiting,
        asked: keys::ASKED.as_number(table) as usize,
        question: keys::QUESTION.as_number(table) as usize,
        limit_ms: keys::LIMIT.as_number(table) as u32,
        on_limit,
        on_full,
        ecn: keys::ECN.as_word(table, [Ecn::Deployed, Ecn::Rfc6040]),
        shadow: keys::SHADOW.as_flag(table),
        ports: Ports {
            src: keys::SOURCE_PORT.as_number(table) as u16,
            dst: keys::DESTINATION_PORT.as_number(table) as u16,
        },
    });
}

/// The prefixes of `key`: one at least, none with bits right of its length.
fn nets(table: Table<'_>, key: &Key) -> Vec<Net> {
    let Some(value) = key.required(table) else { return Vec::new() };
    let Some(list) = value.list() else { return Vec::new() };
    if list.is_empty() {
        value.expected::<()>("at least one prefix");
    }
    let net = |value: &crate::config::reader::Value<'_>| {
        let net: Net = value.parse("a prefix, such as \"203.0.113.0/24\"")?;
        match net.is_prefix() {
            true => Some(net),
            false => value.expected("a prefix without bits right of its length"),
        }
    };
    list.iter().filter_map(net).collect()
}
