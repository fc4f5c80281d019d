//! A fixed amount of work under a name, for `scripts/instructions.sh`, which
//! counts the instructions of two amounts and so of one operation.
//!
//! ```text
//! workload list
//! workload forward-ipv4 100000
//! ```

use std::process::ExitCode;

use lab::contest::{self, Family};
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
        [name, ops] => {
            ops.parse().map_err(|_| format!("`{ops}` is no number")).and_then(|n| run(name, n))
        }
        _ => Err("workload list | NAME OPERATIONS".into()),
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
    for name in ["forward-ipv4", "forward-ipv4-ecmp", "forward-ipv6", "forward-ipv6-ecmp"] {
        println!("{name}");
    }
    u32::engines().iter().for_each(|engine| println!("lookup-ipv4 {}", engine.card.name));
    u128::engines().iter().for_each(|engine| println!("lookup-ipv6 {}", engine.card.name));
}

fn run(name: &str, operations: u64) -> Result<(), String> {
    match name {
        "forward-ipv4" => fixed::forward4(operations, false),
        "forward-ipv4-ecmp" => fixed::forward4(operations, true),
        "forward-ipv6" => fixed::forward6(operations, false),
        "forward-ipv6-ecmp" => fixed::forward6(operations, true),
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

fn lookups<A: Family>(
    engine: &str,
    routes: &[(lookup::Prefix<A>, lookup::Hop)],
    operations: u64,
) -> Result<(), String> {
    let found = contest::all::<A>().into_iter().find(|one| one.name == engine);
    let contestant = found.ok_or_else(|| format!("no engine `{engine}`"))?;
    let rib: Rib<A> = routes.iter().copied().collect();
    let subject = contestant.build(&rib)?;
    let mut stream = subject.stream(&Traffic::Prefix.draw(routes, KEYS, 1));
    (0..operations.div_ceil(KEYS as u64)).for_each(|_| stream.run(0, KEYS, 256));
    Ok(())
}

const KEYS: usize = 4096;
