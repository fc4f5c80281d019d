//! A fixed amount of work under a name, for `scripts/compare.py`, which counts the
//! instructions of two amounts and so of one operation, and compares the time of two
//! versions in turns.
//!
//! ```text
//! workload list
//! workload forward-ipv4 100000
//! workload 'lookup-ipv4 rutter4 internet:608000,long=22' 100000    also lookup-ipv6
//! workload 'update-ipv4 rutter4 internet:608000,long=22' 10000     also update-ipv6: deletes and inserts of
//!                                                                  random prefixes, the store of routes included
//! workload turns forward-ipv4      for each line with a number: so many packets, and
//!                                  a line: processor time in ns, the core's clock in GHz
//! ```

use std::io::BufRead;
use std::process::ExitCode;

use lab::clock;
use lab::contestants::{self, Family};
use lab::data::{Rng, Table, Traffic};
use lab::experiments::fixed;
use lookup::Rib;
use lookup::lpm::{Applied, Engines, Options};
use lookup::rib::Change;
use lookup::sync::Domain;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["list"] => {
            list();
            Ok(())
        }
        ["turns", name] => turns(name),
        [name, ops] => {
            ops.parse().map_err(|_| format!("`{ops}` is no number")).and_then(|n| run(name, n))
        }
        _ => Err("workload list | turns NAME | NAME OPERATIONS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("workload: {reason}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    fixed::NAMES.iter().for_each(|name| println!("{name}"));
    u32::engines().iter().for_each(|engine| println!("lookup-ipv4 {}", engine.card.name));
    u128::engines().iter().for_each(|engine| println!("lookup-ipv6 {}", engine.card.name));
}

fn run(name: &str, operations: u64) -> Result<(), String> {
    match name {
        _ if fixed::NAMES.contains(&name) => fixed::run(name, |forward| forward(operations)),
        _ => {
            let words: Vec<&str> = name.split(' ').collect();
            let load = |usual: &str| {
                let table = words.get(2).copied().unwrap_or(usual);
                Table::load(table).map_err(|error| error.to_string())
            };
            let (four, six) = ("internet:10000", "internet6:10000");
            match words[..] {
                ["lookup-ipv4", engine, ..] => lookups(engine, &load(four)?.ipv4, operations),
                ["lookup-ipv6", engine, ..] => lookups(engine, &load(six)?.ipv6, operations),
                ["update-ipv4", engine, ..] => updates(engine, &load(four)?.ipv4, operations),
                ["update-ipv6", engine, ..] => updates(engine, &load(six)?.ipv6, operations),
                _ => Err(format!("no workload `{name}`")),
            }
        }
    }
}

/// Works while somebody else says when, so that two of these take turns on one core.
fn turns(name: &str) -> Result<(), String> {
    let core = clock::cores().last().copied().unwrap_or(0);
    if !clock::pin(core) {
        return Err(format!("core {core} is not to be had"));
    }
    let mut wrong = None;
    fixed::run(name, |forward| {
        println!("ready");
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(packets) = line.trim().parse() else {
                wrong = Some(format!("`{line}` is no number"));
                return;
            };
            let start = clock::thread_time();
            forward(packets);
            let time = clock::thread_time() - start;
            println!("{} {:.4}", time.as_nanos(), clock::core_ghz());
        }
    })?;
    wrong.map_or(Ok(()), Err)
}

fn lookups<A: Family>(
    engine: &str,
    routes: &[(lookup::Prefix<A>, lookup::Hop)],
    operations: u64,
) -> Result<(), String> {
    let found = contestants::all::<A>().into_iter().find(|one| one.name == engine);
    let contestant = found.ok_or_else(|| format!("no engine `{engine}`"))?;
    let rib: Rib<A> = routes.iter().copied().collect();
    let subject = contestant.build(&rib)?;
    let mut stream = subject.stream(&Traffic::Prefix.draw(routes, KEYS, 1));
    (0..operations.div_ceil(KEYS as u64)).for_each(|_| stream.run(0, KEYS, 256));
    Ok(())
}

/// Deletes a random prefix or puts it back, one change at a time; then says what the table takes.
fn updates<A: Family>(
    engine: &str,
    routes: &[(lookup::Prefix<A>, lookup::Hop)],
    operations: u64,
) -> Result<(), String> {
    let entry = A::engines().iter().find(|entry| entry.card.name == engine);
    let entry = entry.ok_or_else(|| format!("no engine `{engine}`"))?;
    let (mut rib, domain) = (routes.iter().copied().collect::<Rib<A>>(), Domain::new());
    let build = |rib: &Rib<A>| {
        let writer = (entry.build)(rib, &Options::default(), &domain);
        writer.map_err(|refusal| refusal.to_string())
    };
    let mut writer = build(&rib)?;
    let fresh = writer.table().bytes();
    let mut rng = Rng::new(1);
    let mut chosen = None;
    for _ in 0..operations {
        let change = match chosen.take() {
            Some((prefix, hop)) => Change { prefix, hop: Some(hop) },
            None => {
                let route = routes[rng.below(routes.len())];
                chosen = Some(route);
                Change { prefix: route.0, hop: None }
            }
        };
        rib.apply(&change);
        if writer.apply(&rib, &[change]).map_err(|refusal| refusal.to_string())? == Applied::Rebuild
        {
            writer = build(&rib)?;
        }
    }
    let each = |bytes: usize| bytes as f64 / routes.len() as f64;
    println!("bytes a prefix: {:.2} fresh, {:.2} after", each(fresh), each(writer.table().bytes()));
    Ok(())
}

const KEYS: usize = 4096;
