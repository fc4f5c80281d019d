//! VRFs, and the tables that use them.

use lookup::Rib;
use lookup::sync::Domain;

use super::*;

pub(super) fn vrfs(table: Table<'_>) -> Vec<Vrf> {
    let mut frr: Option<String> = None;
    let mut all = named(table, "vrf", |name, value, table| {
        only(table, &[keys::VRF], &[]);
        if !is_vrf_name(name) {
            return value.mistake(
                "the name of a vrf has 1 to 15 letters, digits and signs other than `/`, `:`, `%`, \
                 and is not `all`, `default` or `lo` (the kernel's device has the same name)",
            );
        }
        let main = (name == "main").then_some(254);
        // 255 is the kernel's local table, 253 and 254 default and main.
        let chosen = keys::TABLE.given_number(table);
        let number = match (main, chosen.map(|number| number as u32)) {
            (Some(_), None | Some(254)) => Some(254),
            (Some(_), Some(_)) => value.mistake("the table of `main` is 254"),
            (None, Some(253..=255)) => value.mistake("tables 253 to 255 are the kernel's own"),
            (None, Some(number)) => Some(number),
            (None, None) if keys::TABLE.get(table).is_some() => None, // reported as no number
            (None, None) => value.mistake("`table` is missing: its number in the kernel"),
        };
        let routes = keys::ROUTES.as_word(table, [Feed::Netlink, Feed::Fpm]);
        if routes == Feed::Fpm
            && let (Some(first), Some(value)) = (frr.replace(name.into()), keys::ROUTES.get(table))
        {
            value.mistake::<()>(format_args!(
                "`{first}` already has FRR's connection, and there is only one: use \"netlink\" \
                 here, since FRR also writes its routes to the kernel's tables"
            ));
        }
        Some(Vrf {
            name: name.into(),
            table: number.unwrap_or(0), // the section that uses it makes no further mistake
            routes,
            via_kernel: keys::VIA_KERNEL.as_flag(table),
            own_sources: keys::OWN_SOURCES.as_flag(table),
            ipv4: fib::<u32>(table, keys::IPV4.name),
            ipv6: fib::<u128>(table, keys::IPV6.name),
        })
    });
    match all.iter().position(|vrf| vrf.name == "main") {
        Some(main) => all[..=main].rotate_right(1),
        None => all.insert(0, Vrf::main()),
    }
    all
}

/// As the kernel has it, which calls the vrf's device so.
fn is_vrf_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !['/', ':', '%'].contains(&c);
    (1..=15).contains(&name.len())
        && name.chars().all(fits)
        && ![".", ".."].contains(&name)
        && !RESERVED.contains(&name)
}

impl Vrf {
    /// `main` with its defaults.
    pub fn main() -> Vrf {
        let routes = Feed::Netlink;
        Vrf {
            name: "main".into(),
            table: 254,
            routes,
            via_kernel: false,
            own_sources: true,
            ipv4: default_fib::<u32>(),
            ipv6: default_fib::<u128>(),
        }
    }
}

fn default_fib<A: Engines>() -> Fib {
    Fib { engine: A::DEFAULT.into(), max_routes: None, options: Options::default() }
}

fn fib<A: Engines>(table: Table<'_>, key: &str) -> Fib {
    let mut fib = default_fib::<A>();
    let Some(value) = table.get(key) else { return fib };
    let Some(inner) = value.table() else { return fib };
    let mut card = A::engine(A::DEFAULT).map(|entry| entry.card);
    if let Some(engine) = inner.get("engine")
        && let Some((entry, choice)) = chosen::<A>(&engine, key)
    {
        card = Some(entry.card);
        (fib.engine, fib.options) = (choice.name, choice.options);
    }
    let options = card.map_or(&[][..], |card: &Card| card.options);
    let mut known = vec!["engine", "max_routes"];
    known.extend(options.iter().map(|(name, _, _)| *name));
    inner.only(&known);
    fib.max_routes = inner.get("max_routes").and_then(|v| v.number(1..=u64::from(u32::MAX)));
    for (name, value) in inner.entries() {
        if options.iter().any(|(option, _, _)| *option == name)
            && let Some(text) = value.option()
            && fib.options.0.insert(name.into(), text).is_some()
        {
            value.mistake::<()>("this option already has a value in `engine`");
        }
    }
    if !fib.options.0.is_empty() {
        options_fit::<A>(&fib, inner);
    }
    fib
}

/// The engine that a value names for a family, and the options that it gives.
fn chosen<A: Engines>(value: &Value<'_>, family: &str) -> Option<(&'static Entry<A>, Choice)> {
    match value.text().map(str::parse::<Choice>) {
        Some(Err(bad)) => value.mistake(bad),
        Some(Ok(choice)) => {
            let entry = A::engine(&choice.name);
            entry.or_else(|| unknown_engine::<A>(value, family)).map(|entry| (entry, choice))
        }
        None => unknown_engine::<A>(value, family).map(|entry| (entry, Choice::default())),
    }
}

/// The engine that a value names for a family, with options that it takes.
pub(crate) fn engine<A: Engines>(value: &Value<'_>, family: &str) -> Option<Choice> {
    let (entry, choice) = chosen::<A>(value, family)?;
    if !choice.options.0.is_empty()
        && let Some(refusal) = refused(entry, &choice.options)
    {
        return value.mistake(format_args!("{refusal}"));
    }
    Some(choice)
}

/// What an engine does not take. Only the engine knows: an empty one is made.
fn refused<A: Engines>(entry: &Entry<A>, options: &Options) -> Option<Refusal> {
    (entry.build)(&Rib::new(), options, &Domain::new()).err()
}

/// Reports a value that the engine does not take. What else it may refuse (memory) is for the
/// machine that it runs on.
fn options_fit<A: Engines>(fib: &Fib, table: Table<'_>) {
    let Some(entry) = A::engine(&fib.engine) else { return };
    let Some(refusal) = refused(entry, &fib.options) else { return };
    let about = |name: &&String| refusal.limit.starts_with(&format!("option {name} "));
    let named = fib.options.0.keys().find(about).and_then(|name| table.get(name));
    // Else it is in what names the engine: `NAME:option=value`.
    let of_engine = || table.get("engine").filter(|_| refusal.limit.contains("option "));
    if let Some(value) = named.or_else(of_engine) {
        value.mistake::<()>(format_args!("{refusal}"));
    }
}

fn unknown_engine<A: Engines>(value: &Value<'_>, family: &str) -> Option<&'static Entry<A>> {
    let engines: Vec<_> = A::engines().iter().map(|entry| entry.card.name).collect();
    let near = value.text().and_then(|text| nearest(text, engines.iter().copied()));
    let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let list = engines.join(", ");
    value.expected(format_args!("an engine for {family}{hint}: {list}"))
}

/// The vrf that a table names; `main` where it names none.
pub(crate) fn vrf_name(table: Table<'_>, vrfs: &[Vrf]) -> Option<String> {
    let Some(value) = keys::VRF_NAME.get(table) else { return Some("main".into()) };
    check_vrf(&value, vrfs)
}

pub(super) fn check_vrf(value: &Value<'_>, vrfs: &[Vrf]) -> Option<String> {
    let found = value.text().filter(|text| vrfs.iter().any(|vrf| vrf.name == *text));
    found.map(str::to_string).or_else(|| {
        let names: Vec<_> = vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
        value.expected(format_args!("a vrf of this file: {}", names.join(", ")))
    })
}

/// Reports what uses a vrf that is not there.
pub(super) fn uses_of_vrfs(table: Table<'_>, config: &Config, carriers: &[&str]) {
    for kind in carriers {
        each_table(table, kind, &mut |_, carrier| {
            vrf_name(carrier, &config.vrfs);
            each_table(carrier, "vlan", &mut |_, vlan| drop(vrf_name(vlan, &config.vrfs)));
        });
    }
}

/// Calls `each` with name and table for the tables in the table `key`, in the order
/// of the file, and reports nothing.
pub(super) fn each_table(table: Table<'_>, key: &str, each: &mut dyn FnMut(&str, Table<'_>)) {
    let Some(all) = table.get(key).filter(Value::is_table) else { return };
    let Some(all) = all.table() else { return };
    for (name, inner) in all.entries().iter().filter(|(_, inner)| inner.is_table()) {
        if let Some(inner) = inner.table() {
            each(name, inner);
        }
    }
}
