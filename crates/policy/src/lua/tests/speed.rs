//! Decisions a second, for whoever asks: `cargo test --profile count -p policy --lib speed --
//! --ignored --nocapture`. A figure, no test: nothing is asserted of a time.

use std::time::Instant;

use super::*;

#[test]
#[ignore = "a measurement"]
fn speed() {
    let sources = ["8.8.8.8", "10.0.0.1", "9.9.9.9", "1.2.3.4"];
    let asked: Vec<_> = (0..64)
        .map(|i| asked(sources[i % 4], [6, 17][i / 4 % 2], 64, &to_port([80, 443][i / 8 % 2])))
        .collect();
    let questions: Vec<_> = asked.iter().zip(0..).map(|(asked, id)| asked.question(id)).collect();
    let batch = "\nlocal one = lookup_policy\nlocal lib = require 'gatekeeper/policylib'
        function lookup_policy_batch(n) for i = 0, n - 1 do
        lib.forward[i] = one(lib.packets[i], lib.policies[i]) end end";
    for (what, source) in [("stock", STOCK.to_owned()), ("batch", format!("{STOCK}{batch}"))] {
        let mut policy = load(&source);
        let mut verdicts = Vec::with_capacity(64);
        for len in [64, 1] {
            for _ in 0..3 {
                let start = Instant::now();
                const ROUNDS: usize = 1 << 20;
                for at in 0..ROUNDS / len {
                    verdicts.clear();
                    let from = if len == 1 { at % 64 } else { 0 };
                    policy.decide(&questions[from..from + len], &mut verdicts).expect("it decides");
                }
                let ns = start.elapsed().as_nanos() as f64 / ROUNDS as f64;
                println!("{what} by {len}: {ns:.1} ns, {:.1} M/s", 1e3 / ns);
            }
        }
    }
}
