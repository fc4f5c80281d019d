//! A fixed amount of work under a name, for `scripts/compare.py`, which counts the
//! instructions of two amounts and so of one operation, and compares the time of two
//! versions in turns.
//!
//! ```text
//! workload list
//! workload forward-ipv4 100000
//! workload turns forward-ipv4      for each line with a number: so many packets, and
//!                                  a line: processor time in ns, the core's clock in GHz
//! ```

use std::io::BufRead;
use std::process::ExitCode;

use lab::clock;
use lab::contestants::{self, Family};
use lab::data::{Table, Traffic};
use lab::experiments::fixed;
use lookup::Rib;
use lookup::lpm::Engines;

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
            let load = |table: &str| Table::load(table).map_err(|error| error.to_string());
            match name.split_once(' ') {
                Some(("lookup-ipv4", engine)) => {
                    lookups(engine, &load("internet:10000")?.ipv4, operations)
                }
                Some(("lookup-ipv6", engine)) => {
                    lookups(engine, &load("internet6:10000")?.ipv6, operations)
                }
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

const KEYS: usize = 4096;
