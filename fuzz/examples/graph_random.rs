//! Random inputs for the targets `graph`, `switch`, `shield` and `grantor`, where there is no fuzzer:
//!
//! ```text
//! cargo run --release --example graph_random -- SECONDS SEED [TARGET]
//! ```
//!
//! An input that fails is written to `TARGET-SEED-NUMBER` in the working directory;
//! `-- FILE TARGET` runs it again.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use rutter_fuzz::graph::{reached, seeds};
use rutter_fuzz::{grantor, shield};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Ok(bytes) = std::fs::read(arguments.first().map_or("", String::as_str)) {
        reached(arguments.get(1).map_or("graph", String::as_str), &bytes);
        return;
    }
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse().ok());
    let (seconds, seed): (u64, u64) = (number(0).unwrap_or(10), number(1).unwrap_or(1));
    let only = arguments.get(2).map(String::as_str);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut counts, mut inputs, mut failed) = (BTreeMap::new(), 0_u64, 0);
    while Instant::now() < end && failed < 3 {
        let target =
            only.unwrap_or(["graph", "switch", "shield", "grantor"][(inputs % 4) as usize]);
        let (seed_of, length) = (seed << 32 | inputs, 40 + (inputs % 8) as usize * 60);
        let bytes = match target {
            "shield" => shield::seeds::random(seed_of, length),
            "grantor" => grantor::seeds::random(seed_of, length),
            _ => seeds::random(target, seed_of, length),
        };
        match catch_unwind(|| reached(target, &bytes)) {
            Ok(reached) => {
                for (name, count) in reached.into_iter().flatten() {
                    *counts.entry(name).or_insert(0) += count;
                }
            }
            Err(_) => {
                let file = format!("{target}-{seed}-{inputs}");
                std::fs::write(&file, &bytes).expect("the input that failed can be written");
                eprintln!("=== {file}, {} bytes", bytes.len());
                failed += 1;
            }
        }
        inputs += 1;
    }
    counts.iter().for_each(|(name, count)| println!("{count:10}  {name}"));
    println!("{inputs} inputs, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
