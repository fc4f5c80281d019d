//! Programs of a Gatekeeper: what ours do, what is refused, and that engines agree.
#![cfg(feature = "bpf")]

#[cfg(all(feature = "dpdk", target_arch = "x86_64"))]
mod dpdk;
mod engines;
mod hostile;
mod model;
mod objects;
mod packets;
mod programs;
mod random;
mod seen;
mod swaps;

use std::sync::Arc;

use policy::bpf::stock::STOCK;
use policy::bpf::{Checked, Clock, Engine};
use policy::program::Program;

/// 2.8 GHz.
const CLOCK: Clock = Clock { cycles_per_sec: 2_800_000_000, cycles_per_ms: 2_800_000 };
const S: u64 = CLOCK.cycles_per_sec;
const MS: u64 = CLOCK.cycles_per_ms;

/// DPDK compiles what comes with us, where it has a compiler.
#[test]
fn each_program_of_ours_is_compiled() {
    let compiles =
        cfg!(all(feature = "dpdk", any(target_arch = "x86_64", target_arch = "aarch64")));
    for name in STOCK.map(|stock| stock.name) {
        assert_eq!(stock(name).by(Engine::Compiled).is_some(), compiles, "{name}");
    }
}

/// A program that comes with us.
fn stock(name: &str) -> Checked {
    let stock = STOCK.iter().find(|stock| stock.name == name).expect("it comes with us");
    Checked::new(stock.object, CLOCK).unwrap_or_else(|refused| panic!("{name}: {refused}"))
}

/// The program by each engine that there is.
fn engines(checked: &Checked) -> Vec<(Engine, Arc<dyn Program>)> {
    let engines = [Engine::Interpreter, Engine::Compiled].into_iter();
    engines.filter_map(|engine| Some((engine, checked.by(engine)?))).collect()
}

/// Parameters as a decision has them.
fn cookie(bytes: &[u8]) -> [u8; 64] {
    let mut cookie = [0; 64];
    cookie[..bytes.len()].copy_from_slice(bytes);
    cookie
}
