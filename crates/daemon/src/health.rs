//! A running instance's answer to `rutter doctor`: the state of its own network namespace and
//! cores, which may differ from those of the caller.

use std::time::Instant;

use api::reply;

use crate::doctor::{self, Finding, Level};
use crate::parts::state::{State, lock};

/// Checks everything that belongs to the instance.
pub fn findings(state: &State) -> Vec<reply::Finding> {
    let mut all = doctor::of_namespace();
    all.push(doctor::cores_of(&state.config.workers));
    all.extend([instance(), ports(state), time(state)]);
    all.into_iter().map(reply::Finding::from).collect()
}

fn instance() -> Finding {
    let namespace = std::fs::read_link("/proc/self/ns/net");
    let namespace = namespace.map(|name| name.display().to_string()).unwrap_or_default();
    let pid = std::process::id();
    let found = format!("process {pid}, in the network namespace {namespace}");
    Finding { what: "running instance", level: Level::Good, found, remedy: String::new() }
}

/// Links of ports.
fn ports(state: &State) -> Finding {
    let what = "ports";
    let ports = lock(&state.ports);
    let down = ports.iter().filter(|port| !port.device.link().up);
    let down: Vec<_> =
        down.map(|port| format!("{} ({})", port.config.name, port.config.device_text)).collect();
    if down.is_empty() {
        let found = format!("{}, all with a link", ports.len());
        return Finding { what, level: Level::Good, found, remedy: String::new() };
    }
    let found = format!("{} of {} without a link: {}", down.len(), ports.len(), down.join(", "));
    let remedy = "check the cable and the other end (rutter show ports)".into();
    Finding { what, level: Level::Better, found, remedy }
}

/// Whether the workers get their cores.
fn time(state: &State) -> Finding {
    let what = "workers' time";
    let starved = lock(&state.starved);
    let all = starved.iter().zip(&state.config.workers).enumerate();
    let all = all.filter_map(|(number, (starved, &core))| {
        let ago = Instant::now().saturating_duration_since(starved.last?).as_secs();
        let waited = starved.waited.as_secs_f64();
        Some((
            format!("worker-{number} waited {waited:.1} s for core {core}, last {ago} s ago"),
            core,
        ))
    });
    let (lines, cores): (Vec<String>, Vec<u16>) = all.unzip();
    if lines.is_empty() {
        let found = "workers got their cores whenever they needed them".into();
        return Finding { what, level: Level::Good, found, remedy: String::new() };
    }
    let found = format!("starved by the scheduler: {}", lines.join("; "));
    let cores: Vec<_> = cores.iter().map(ToString::to_string).collect();
    let remedy = format!(
        "keep other processes off: isolcpus={} on the kernel's command line, or fewer processes; \
         or choose other cores (`workers`)",
        cores.join(",")
    );
    Finding { what, level: Level::Better, found, remedy }
}
