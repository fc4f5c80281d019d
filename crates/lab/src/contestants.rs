//! Who takes part: our engines, their reads and the rivals, by name.

use lookup::lpm::{BadChoice, Choice, Entry, Instruments, Options};
use lookup::{Hop, Prefix};

use crate::contest::Contestant;
use crate::error::{Error, nearest};
use crate::{Context, machine, matching, reads, rivals};

/// An address family: its engines, and the rivals that know it.
pub trait Family: Instruments {
    /// Other people's tables for this family; empty without the feature `rivals`.
    fn rivals() -> Vec<Contestant<Self>>;
}

impl Family for u32 {
    fn rivals() -> Vec<Contestant<u32>> {
        rivals::ipv4()
    }
}

impl Family for u128 {
    fn rivals() -> Vec<Contestant<u128>> {
        rivals::ipv6()
    }
}

/// Looks whether there is one of each name: of prefixes in one of the families, of exact match, or
/// of flows.
///
/// # Errors
/// The first name of which this build has none, and what was probably meant.
pub fn known(names: &[String]) -> Result<(), Error> {
    let flows = lookup::exact::flow::engines().iter().map(|entry| entry.card.name);
    let found = |name: &String| {
        if flows.clone().any(|flows| name.split(':').next() == Some(flows)) {
            return Ok(());
        }
        let of4 = named::<u32>(name, Options::default()).map(|_| ());
        let of6 = |_| named::<u128>(name, Options::default()).map(|_| ());
        of4.or_else(of6).or_else(|_| exact_named(name).map(|_| ()))
    };
    let unknown = names.iter().find(|name| found(name).is_err());
    unknown.map_or(Ok(()), |name| {
        let all = names_of::<u32>().into_iter().chain(names_of::<u128>());
        let exact = exact().into_iter().map(|contestant| contestant.name);
        let all: Vec<String> = all.chain(exact).chain(flows.clone().map(String::from)).collect();
        let typed = name.split(':').next().unwrap_or(name);
        let near = nearest(typed, all.iter().map(String::as_str)).map(str::to_string);
        Err(Error::UnknownEngine { name: typed.to_string(), near })
    })
}

/// The names of all engines and rivals of a family.
fn names_of<A: Family>() -> Vec<String> {
    let engines = A::engines().iter().map(|entry| entry.card.name.to_string());
    engines.chain(A::rivals().into_iter().map(|rival| rival.name)).collect()
}

/// The one called `name`, an engine of ours with `options`, its reads, or a rival. Options
/// may be in the name: `NAME:option=value,…`.
///
/// # Errors
/// When this build has none of that name.
pub fn named<A: Family>(name: &str, mut options: Options) -> Result<Contestant<A>, String> {
    let choice: Choice = name.parse().map_err(|bad: BadChoice| bad.to_string())?;
    options.0.extend(choice.options.0);
    let name = choice.name.as_str();
    if let Some(entry) = A::engine(name) {
        return Ok(Contestant::engine(entry, options));
    }
    if let Some(reads) = name.strip_suffix(reads::SUFFIX).and_then(|name| reads::of(name, options))
    {
        return Ok(reads);
    }
    let rival = A::rivals().into_iter().find(|rival| rival.name == name);
    rival.ok_or_else(|| format!("this build has no {name} for {}", A::FAMILY))
}

/// Those of the engines asked for (`--engine`) that this family has, or `main` where none was.
pub fn asked<A: Family>(context: &Context, main: &[&str]) -> Vec<String> {
    let known = |name: &&String| named::<A>(name, Options::default()).is_ok();
    match context.engines() {
        [] => main.iter().map(|name| (*name).to_string()).collect(),
        asked => asked.iter().filter(known).cloned().collect(),
    }
}

/// Whether `engine` is one of prefixes, of whichever family.
pub fn is_of_prefixes(engine: &str) -> bool {
    named::<u32>(engine, Options::default()).is_ok()
        || named::<u128>(engine, Options::default()).is_ok()
}

/// Every engine of a family with its default options, some by other instructions, too,
/// then every rival.
pub fn all<A: Family>() -> Vec<Contestant<A>> {
    let engines = A::engines().iter().map(|e| Contestant::engine(e, Options::default()));
    let otherwise = A::engines().iter().filter_map(otherwise);
    engines.chain(otherwise).chain(A::rivals()).collect()
}

/// `engine` by that one of AVX2 and AVX-512 which it does not choose itself, on a processor
/// that has both.
fn otherwise<A: Family>(entry: &'static Entry<A>) -> Option<Contestant<A>> {
    if !machine::has("avx512vl") || !OF_BOTH.contains(&entry.card.name) {
        return None;
    }
    let rib = [(Prefix::all(), Hop(1))].into_iter().collect();
    let chosen = Contestant::engine(entry, Options::default()).build(&rib).ok()?;
    let isa = if chosen.isa() == Some("avx2") { "avx512" } else { "avx2" };
    let options = Options([("isa".to_string(), isa.to_string())].into());
    let name = format!("{}-{isa}", entry.card.name);
    Some(Contestant::engine(entry, options).named(name))
}

/// The tables for exact match: ours, then the rivals.
pub fn exact() -> Vec<matching::Contestant> {
    let engine = |entry: &'static lookup::exact::Entry| {
        matching::Contestant::engine(entry, entry.card.name, matching::fixed_seed())
    };
    lookup::exact::engines().iter().map(engine).chain(rivals::exact()).collect()
}

/// The table for exact match called `name`, one of ours or a rival; options may be in the
/// name: `NAME:option=value,…`.
///
/// # Errors
/// When this build has none of that name.
pub fn exact_named(name: &str) -> Result<matching::Contestant, String> {
    let choice: Choice = name.parse().map_err(|bad: BadChoice| bad.to_string())?;
    if let Some(entry) = lookup::exact::engine(&choice.name) {
        let mut options = matching::fixed_seed();
        options.0.extend(choice.options.0);
        return Ok(matching::Contestant::engine(entry, &choice.name, options));
    }
    let rival = rivals::exact().into_iter().find(|rival| rival.name == choice.name);
    rival.ok_or_else(|| format!("this build has no {name} for exact match"))
}

/// Engines that have code of their own for AVX2 and for AVX-512.
const OF_BOTH: [&str; 3] = ["rutter4", "rutter6", "planb"];

#[cfg(test)]
mod tests {
    use lookup::lpm::Intervals;
    use lookup::rib::Change;
    use lookup::{Addr, Rib};

    use super::*;
    use crate::contest::Subject;
    use crate::data::{Rng, Traffic};

    fn table<A: Addr>(shortest: usize, longest: usize) -> Vec<(Prefix<A>, Hop)> {
        let mut rng = Rng::new(5);
        let mut routes: Vec<_> = (1..2000)
            .map(|i| {
                let len = (shortest + rng.below(longest - shortest + 1)) as u8;
                (Prefix::covering(A::from_u128(rng.wide()), len), Hop(i % 300 + 1))
            })
            .collect();
        routes.sort_by_key(|(prefix, _)| *prefix);
        routes.dedup_by_key(|(prefix, _)| *prefix);
        routes
    }

    #[test]
    fn tables_for_exact_match_have_names_and_options() {
        assert_eq!(exact_named("cuckoo:batch=14").map(|found| found.name), Ok("cuckoo".into()));
        assert!(exact_named("cuckoo:batch=14").is_ok_and(|found| found.ours));
        let none = exact_named("nothing").err();
        assert_eq!(none.as_deref(), Some("this build has no nothing for exact match"));
    }

    #[test]
    fn options_come_with_a_name() {
        let wide = named::<u32>("dxr:k=20", Options::default()).unwrap();
        let bytes = |one: Contestant<u32>| one.build(&Rib::new()).unwrap().bytes().unwrap();
        let narrow = named::<u32>("dxr", Options::default()).unwrap();
        assert!(bytes(wide) > 2 * bytes(narrow));
        assert!(known(&["mac-table:isa=portable".into(), "cuckoo-flow:stop=on".into()]).is_ok());
        let unknown = known(&["dxr:k=20".into(), "rutter6".into(), "nothing".into()]);
        let unknown = unknown.unwrap_err().to_string();
        assert_eq!(unknown, "no engine and no rival of this build is called `nothing`");
        let near = known(&["ruter4:isa=portable".into()]).unwrap_err().to_string();
        assert!(near.ends_with("called `ruter4`, did you mean `rutter4`?"), "{near}");
    }

    /// Every contestant answers rightly, at once and one by one, before and
    /// after updates.
    fn answers<A: Family>(shortest: usize, longest: usize) {
        let routes = table::<A>(shortest, longest);
        let flat = Intervals::new(routes.iter().copied());
        let dsts = Traffic::Prefix.draw(&routes, 5000, 3);
        let want: Vec<Hop> = dsts.iter().map(|dst| flat.lookup(*dst)).collect();
        for contestant in all::<A>() {
            let mut rib: Rib<A> = routes.iter().copied().collect();
            let name = &contestant.name;
            let mut subject = contestant.build(&rib).unwrap_or_else(|e| panic!("{name}: {e}"));
            let check = |subject: &dyn Subject<A>| {
                let mut stream = subject.stream(&dsts);
                stream.run(0, dsts.len(), 64);
                assert_eq!(stream.answers(), want, "{name}");
                for (dst, want) in dsts.iter().zip(&want).take(200) {
                    assert_eq!(subject.lookup(*dst), *want, "{name}");
                }
            };
            check(&*subject);
            for (prefix, hop) in routes.iter().step_by(7) {
                for hop in [None, Some(*hop)] {
                    let change = Change { prefix: *prefix, hop };
                    if !subject.update(&mut rib, &change).unwrap_or_else(|e| panic!("{name}: {e}"))
                    {
                        rib.apply(&Change { prefix: *prefix, hop: Some(routes[0].1) });
                    }
                }
            }
            if let Some(mut reader) = subject.reader(&dsts) {
                reader();
            }
            check(&*subject);
        }
    }

    #[test]
    fn ipv4_contestants_answer_rightly() {
        answers::<u32>(8, 32);
    }

    #[test]
    fn ipv6_contestants_answer_rightly() {
        answers::<u128>(19, 64);
    }
}
