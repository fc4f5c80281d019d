//! From `[grantor]` to values that need no further check.

use std::path::PathBuf;

use lookup::lpm::Engines;
use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{Ecn, Settings};
use wire::ggu::Ports;

use super::keys;
use super::words::{WORDS, Words};
use crate::config::read::{engine as engine_of, share_of_buffers};
use crate::config::reader::Table;
use crate::config::section::{Key, only};
use crate::config::{Config, Declared, Net};

/// A Grantor's settings from the file.
pub(super) const DECLARED: Declared = Declared { sections: keys::SECTIONS, carriers: &[], read };

/// `[grantor]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granting {
    pub gatekeepers: Vec<Net>,
    pub serves: Vec<Net>,
    pub policy: Decides,
    /// Packets that may wait, of each worker.
    pub waiting: usize,
    pub asked: usize,
    pub question: usize,
    pub limit_ms: u32,
    pub on_limit: Words,
    pub on_full: Words,
    /// Fragments that may wait, of each worker.
    pub fragments: usize,
    pub fragment_ms: u32,
    pub reassemble: bool,
    pub ecn: Ecn,
    pub shadow: bool,
    pub ports: Ports,
}

/// The decider.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decides {
    Words(Words),
    File(File),
}

/// A policy in a file, and how its processes are to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
    pub path: PathBuf,
    /// Tables of prefixes by their names in the policy.
    pub tables: Vec<(String, PathBuf)>,
    /// The engines of its IPv4 and IPv6 tables, as text; empty: the default engines.
    pub engines: [String; 2],
    pub processes: usize,
    pub memory_mib: u64,
    pub batch_ms: u64,
    pub load_ms: u64,
    /// Within a minute, before the policy before it comes back.
    pub failures: usize,
}

impl Granting {
    /// That of a configuration, if it has one.
    pub fn of(config: &Config) -> Option<&Granting> {
        config.settings.get()
    }

    /// The settings for the nodes.
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
            fragment_ms: self.fragment_ms,
            reassemble: self.reassemble,
            asked: self.asked,
        }
    }
}

fn read(root: Table<'_>, config: &mut Config) {
    let Some(value) = root.get(keys::SECTIONS[0].path) else { return };
    let Some(table) = value.table() else { return };
    only(table, keys::SECTIONS, &[]);
    // A shield in the same file may be all that asks.
    let alone = root.get("gatekeeper").is_none();
    let [gatekeepers, serves] =
        [keys::GATEKEEPERS, keys::SERVES].map(|key| nets(table, &key, alone));
    let policy = policy(table);
    let [on_limit, on_full] = [keys::ON_LIMIT, keys::ON_FULL].map(|key| {
        let words = key.get(table).and_then(|value| value.parse::<Words>(WORDS));
        words.unwrap_or_default()
    });
    let waiting = share_of_buffers(table, &keys::WAITING, "waiting packets", config);
    let fragments = fragments(table, waiting, config);
    let reassemble = keys::REASSEMBLE.as_flag(table);
    if reassemble
        && fragments == 0
        && let Some(value) = keys::REASSEMBLE.get(table)
    {
        value.mistake::<()>("`fragments` is 0: set the number of fragments that may wait");
    }
    config.settings.put(Granting {
        gatekeepers,
        serves,
        policy: policy.unwrap_or(Decides::Words(Words::default())),
        waiting,
        asked: keys::ASKED.as_number(table) as usize,
        question: keys::QUESTION.as_number(table) as usize,
        limit_ms: keys::LIMIT.as_number(table) as u32,
        on_limit,
        on_full,
        fragments,
        fragment_ms: keys::FRAGMENT_MS.as_number(table) as u32,
        reassemble,
        ecn: keys::ECN.as_word(table, [Ecn::Deployed, Ecn::Rfc6040]),
        shadow: keys::SHADOW.as_flag(table),
        ports: Ports {
            src: keys::SOURCE_PORT.as_number(table) as u16,
            dst: keys::DESTINATION_PORT.as_number(table) as u16,
        },
    });
}

/// A path that ends as files in Lua do, or words.
fn policy(table: Table<'_>) -> Option<Decides> {
    let tables = tables(table);
    let engines = [engine::<u32>(table, &keys::ENGINE4), engine::<u128>(table, &keys::ENGINE6)];
    let file = |path| File {
        path,
        tables,
        engines,
        processes: keys::PROCESSES.as_number(table) as usize,
        memory_mib: keys::MEMORY.as_number(table),
        batch_ms: keys::BATCH.as_number(table),
        load_ms: keys::LOAD.as_number(table),
        failures: keys::FAILURES.as_number(table) as usize,
    };
    let value = keys::POLICY.required(table)?;
    let path = value.text().map(PathBuf::from);
    let path = path.filter(|path| path.extension().is_some_and(|end| end == "lua"));
    if let Some(path) = path {
        return Some(Decides::File(file(path)));
    }
    let words = value.parse::<Words>(POLICIES).map(Decides::Words);
    let others = keys::OF_FILES.iter().find_map(|key| Some((key, key.get(table)?)));
    if let (Some(_), Some((_, value))) = (&words, others) {
        value.mistake::<()>("this key is only for a policy in Lua (`policy = \"FILE.lua\"`)");
    }
    words
}

/// The engine that a key names, as text.
fn engine<A: Engines>(table: Table<'_>, key: &Key) -> String {
    let value = key.get(table);
    let named = value.filter(|value| engine_of::<A>(value, key.name).is_some());
    named.and_then(|value| value.text()).unwrap_or_default().to_owned()
}

/// `NAME=PATH` of each.
fn tables(table: Table<'_>) -> Vec<(String, PathBuf)> {
    let list = keys::TABLES.get(table).and_then(|value| value.list()).unwrap_or_default();
    let mut all: Vec<(String, PathBuf)> = Vec::new();
    for value in &list {
        let Some(text) = value.parse::<String>("a table, such as \"members=/etc/members.txt\"")
        else {
            continue;
        };
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                if all.iter().any(|(known, _)| known == name) {
                    value.mistake::<()>(format_args!("{name} is given twice"));
                }
                all.push((name.into(), path.into()));
            }
            _ => _ = value.expected::<()>("NAME=PATH"),
        }
    }
    if all.len() >= policy::cell::MOST_FILES {
        let most = policy::cell::MOST_FILES - 1;
        table.mistake(format_args!("`policy_files`: a policy has {most} at most"));
    }
    all
}

/// The kinds of policies.
const POLICIES: &str =
    "\"FILE.lua\", \"grant KIB SECONDS\", \"decline SECONDS\", \"forward\" or \"drop\"";

/// Fragments that wait beside so many packets: all of them have a buffer.
fn fragments(table: Table<'_>, waiting: usize, config: &Config) -> usize {
    let wanted = keys::FRAGMENTS.as_number(table) as usize;
    let (workers, buffers) = (config.workers.len().max(1), config.buffers as usize);
    if (waiting + wanted) * workers > buffers / 2
        && wanted > 0
        && let Some(value) = keys::FRAGMENTS.get(table)
    {
        let most = (buffers / (2 * workers)).saturating_sub(waiting);
        value.mistake::<()>(format_args!(
            "fragments and packets that wait may take more than half of `buffers` ({buffers}): \
             set fragments = {most}, or reduce `waiting`"
        ));
    }
    wanted
}

/// The prefixes of `key`: one at least if it is there, none with bits right of its length.
fn nets(table: Table<'_>, key: &Key, required: bool) -> Vec<Net> {
    let value = if required { key.required(table) } else { key.get(table) };
    let Some(value) = value else { return Vec::new() };
    let Some(list) = value.list() else { return Vec::new() };
    if list.is_empty() {
        value.expected::<()>("at least one prefix");
    }
    let net = |value: &crate::config::reader::Value<'_>| {
        let net: Net = value.parse("a prefix, such as \"203.0.113.0/24\"")?;
        match net.is_prefix() {
            true => Some(net),
            false => value.expected("a prefix without bits to the right of its length"),
        }
    };
    list.iter().filter_map(net).collect()
}
